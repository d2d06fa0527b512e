"""The config, the state and the results of `PeerEnv`."""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import chex
import jax
import jax.numpy as jnp

from envrax._checks.counts import NO_LIMIT as NO_LIMIT
from envrax._jax.types import is_traced
from envrax.env import EnvConfig, EnvState, Info


def steps_limit(steps: Any) -> Any:
    """A library's time limit as an int, at most `NO_LIMIT`; a traced one stays as it is."""
    return steps if is_traced(steps) else int(min(steps, NO_LIMIT))


@chex.dataclass
class PeerConfig(EnvConfig):
    """
    Which environment of a library, and how to build it.

    Attributes
    ----------
    id : str
        The library's own id.
    max_steps : int
        Time limit in steps; 0 takes the library's own. Once the environment is built, its
        `config.max_steps` is the actual limit, `2**31 - 1` if there is no limit.
    params : pytree or dict, optional
        The library's parameters, or a dict of changes to its defaults. Values may be traced.
    options : dict
        Keywords of the library's own constructor.
    """

    _least_limit: ClassVar[int] = 0  # for the library's own

    id: str = ""
    max_steps: int = 0
    params: Any = None
    options: dict[str, Any] = dataclasses.field(default_factory=dict[str, Any])

    def in_place_of(self, registered: EnvConfig) -> "PeerConfig":
        id = getattr(registered, "id", "")
        if self.id and self.id != id:
            raise ValueError(
                f"PeerConfig: expected the config of {id!r}; got one of {self.id!r}. Leave `id` "
                "out, or make that environment."
            )
        return self.replace(id=id)


@chex.dataclass
class PeerState(EnvState):
    """
    State of a `PeerEnv`.

    Attributes
    ----------
    inner : pytree
        The library's own state.
    mask : pytree of bool, optional
        Legal actions, if the library's state does not have them.
    """

    inner: Any
    mask: Any = None


class PeerReset(NamedTuple):
    """The result of `PeerEnv.begin`; the attributes are those of `PeerStep`."""

    obs: Any
    inner: Any
    mask: Any = None


class PeerStep(NamedTuple):
    """
    The result of `PeerEnv.advance`.

    Attributes
    ----------
    obs : pytree
        Observation, structured as `observation_space`.
    inner : pytree
        The library's state.
    reward : array
        A number, or an array, which is summed; a dict by agent in a world.
    terminated, truncated : array
        Whether the episode ended, and why. `PeerEnv` adds the time limit to `truncated`. With None
        for `truncated`, `terminated` is an end without a reason: a truncation at the time limit,
        else a termination.
    info : dict
        Further arrays, the same keys on every step.
    mask : pytree of bool, optional
        Legal actions after the step, in the form of `JaxEnv.action_mask`.
    """

    obs: Any
    inner: Any
    reward: Any
    terminated: Any
    truncated: Any = False
    info: Info = {}  # noqa: RUF012
    mask: Any = None

    def ends(self, at_limit: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Whether the episode terminated, and whether it was truncated, as bool scalars."""
        ended = _flag(self.terminated)
        if self.truncated is None:
            return ended & ~at_limit, at_limit
        return ended, at_limit | _flag(self.truncated)


def _flag(x: Any) -> jax.Array:
    """Whether all agents ended, for a library that has a flag for each."""
    return jnp.all(jnp.asarray(x).astype(jnp.bool_))
