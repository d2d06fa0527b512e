"""`DelayObservation`: observations delayed by a number of steps."""

from typing import Any, Generic

import chex
import jax
import jax.numpy as jnp

from envrax._checks.counts import require_count
from envrax._jax.types import named_leaves
from envrax.env import ActSpaceT, ConfigT, JaxEnv, ObsSpaceT
from envrax.spaces.flattening import zero_element
from envrax.wrappers.stateful import InnerStateT, StatefulWrapper, WrapperState


@chex.dataclass
class DelayState(WrapperState[InnerStateT]):
    """
    State of `DelayObservation`.

    Attributes
    ----------
    waiting : pytree of jax.Array
        The last `delay` observations, not returned yet, along a new first axis. The oldest is at
        index 0.
    """

    waiting: Any


class DelayObservation(
    StatefulWrapper[ObsSpaceT, ActSpaceT, DelayState[InnerStateT], ConfigT, InnerStateT],
    Generic[ObsSpaceT, ActSpaceT, InnerStateT, ConfigT],
):
    """
    Return each observation `delay` steps late.

    The first `delay` observations of an episode are the element of the space closest to zero. The
    last `delay` observations of an episode are never returned.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    delay : int
        Number of steps. 0 changes nothing.

    Raises
    ------
    TypeError
        If `delay` is not an int, or a space of your own does not contain zeros.
    ValueError
        If `delay` is below 0.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> env = DelayObservation(CountingEnv(), delay=1)
    >>> obs, state = env.reset(jax.random.key(0))
    >>> number = int(state.env_state.number)
    >>> obs.tolist(), env.step(state, 0)[0].tolist() == [number, 0]
    ([0, 0], True)
    """

    def __init__(self, env: JaxEnv[ObsSpaceT, ActSpaceT, InnerStateT, ConfigT], delay: int) -> None:
        super().__init__(env)
        self.delay = require_count("DelayObservation: expected delay", delay, least=0)
        if not self.delay:
            return
        space = self.observation_space
        with jax.ensure_compile_time_eval():
            is_known = bool(space.contains(zero_element(space)))
        if not is_known:
            raise TypeError(
                "DelayObservation: expected an observation space whose element closest to zero is "
                f"known, for the first observations; got {space!r}, which does not contain zeros."
            )

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        zeros = named_leaves(zero_element(self.observation_space))
        # Matched by name: an observation and its space may have different container classes.
        leaves = [jnp.repeat(zeros[name][None], self.delay, axis=0) for name in named_leaves(obs)]
        waiting = jax.tree.unflatten(jax.tree.structure(obs), leaves)
        oldest, waiting = _push_pop(waiting, obs)
        return oldest, {"waiting": waiting}

    def on_step(self, obs: Any, state: DelayState[InnerStateT], *rest: Any) -> tuple[Any, ...]:
        oldest, waiting = _push_pop(state.waiting, obs)
        return oldest, state.replace(waiting=waiting), *rest


def _push_pop(waiting: Any, obs: Any) -> tuple[Any, Any]:
    """Append `obs` to the queue. Return the oldest observation and the rest of the queue."""
    queue = jax.tree.map(
        lambda old, new: jnp.concatenate([old, jnp.asarray(new, old.dtype)[None]]), waiting, obs
    )
    return jax.tree.map(lambda x: x[0], queue), jax.tree.map(lambda x: x[1:], queue)
