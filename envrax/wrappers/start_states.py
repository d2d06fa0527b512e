"""`StartStates`: episodes that begin in given states."""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, Generic, cast

import chex
import jax
import jax.numpy as jnp

from envrax._checks.tuples import with_info_entry
from envrax._jax.keys import is_key, key_types
from envrax._jax.types import named_leaves, strip_weak_type
from envrax.autoreset.checks import checked, require_same_types
from envrax.autoreset.slot import reset_slot
from envrax.env import ActSpaceT, ConfigT, JaxEnv, ObsSpaceT, carries_over
from envrax.wrappers.base import layers
from envrax.wrappers.stateful import InnerStateT, StatefulWrapper, WrapperState

Sample = Callable[[jax.Array], tuple[Any, Any] | tuple[Any, Any, Any]]


@chex.dataclass
class StartState(WrapperState[InnerStateT]):
    """
    State of `StartStates`.

    Attributes
    ----------
    saved_step : jax.Array
        int32 scalar, `step` of the state in which the episode began. `step` itself counts from 0.
    start : pytree of jax.Array
        The third value that `sample` returned for this episode; None without one.
    """

    saved_step: jax.Array
    start: Any = None


class StartStates(
    StatefulWrapper[ObsSpaceT, ActSpaceT, StartState[InnerStateT], ConfigT, InnerStateT],
    Generic[ObsSpaceT, ActSpaceT, InnerStateT, ConfigT],
):
    """
    Begin every episode in a state that `sample` returns, in place of a reset of the environment.

    `sample` may draw from a buffer of saved states, or make a level. It may close over traced
    arrays: inside your `jit`, a buffer that changes during training. Outside of a `jit`, its arrays
    are constants of the compiled code; wrap again to change them.

    Every episode gets new keys: `reset` splits its key into one for `sample` and one that replaces
    all PRNG keys in the state. A key that has to stay, such as the seed of a level, is stored as
    `jax.random.key_data`. `reset_after` does the same, so that the wrapped environment carries
    nothing over from the last episode.

    A state from the middle of an episode keeps its `step` within `env_state`, so that the time
    limit of the wrapped environment counts on from there; `step` of the wrapper's state counts from
    0. For the full time, return a state whose `step` is 0. `done` is set to False.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap; it must be traceable.
    sample : callable
        `sample(rng) -> (obs, state)`, structured as `env.reset` returns them, with the states of
        all wrappers beneath this one. A third value, such as the index in a buffer, is a pytree of
        arrays that tells the start: it is kept in the state, and is `info["start"]` in every step
        of the episode, its last one too.

    Raises
    ------
    TypeError
        If the results of `sample` and `env.reset` differ in type, or the environment has a
        `reset_after` of its own.
    ValueError
        At the first step, if there is a third value, and an `info["start"]` of the environment.
    RuntimeError
        At the first reset, if the stack cannot be traced, as with `RecordVideo`.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> inner = CountingEnv()
    >>> obs, states = jax.vmap(inner.reset)(jax.random.split(jax.random.key(0), 100))
    >>> def sample(rng):
    ...     i = jax.random.randint(rng, (), 0, 100)
    ...     return *jax.tree.map(lambda x: x[i], (obs, states)), i
    >>> env = StartStates(inner, sample)
    >>> first, state = env.reset(jax.random.key(1))
    >>> int(state.step), bool(first[0] == states.number[state.start])
    (0, True)
    >>> info = env.step(state, 0)[-1]
    >>> bool(info["start"] == state.start)
    True
    """

    _keeps_state = False

    def __init__(
        self, env: JaxEnv[ObsSpaceT, ActSpaceT, InnerStateT, ConfigT], sample: Sample
    ) -> None:
        super().__init__(env)
        if carries_over(env):
            raise TypeError(
                "StartStates: expected an environment without a `reset_after` of its own, whose "
                f"place `sample` takes; got {env!r}. Put the wrapper that keeps something around."
            )
        self.sample = sample

    def reset(self, rng: jax.Array) -> tuple[Any, StartState[InnerStateT]]:
        rng, key = jax.random.split(rng)
        sampled: Any = self.sample(key)
        is_told = isinstance(sampled, tuple) and len(cast(Any, sampled)) == 3
        obs, inner = checked(self, "sample", sampled[:2] if is_told else sampled)
        given = (self._at_reset[0], named_leaves({"obs": obs, "state": inner}))
        # Keys are replaced, and may be of another kind.
        at_reset, types = (
            {k: x for k, x in one.items() if k not in self._at_reset[1]} for one in given
        )
        require_same_types(self.env, at_reset, types, "sample")
        obs, state = self.on_episode_start(obs, self._with_keys(inner, rng))
        return obs, state.replace(start=strip_weak_type(sampled[2])) if is_told else state

    def reset_after(self, state: StartState[InnerStateT]) -> tuple[Any, StartState[InnerStateT]]:
        return self.reset(jax.random.split(state.rng)[0])

    def on_episode_start(self, obs: Any, state: Any) -> tuple[Any, StartState[InnerStateT]]:
        obs, new = super().on_episode_start(obs, state.replace(done=jnp.bool_(False)))
        return obs, new.replace(step=jnp.int32(0), saved_step=state.step)

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        return obs, {"saved_step": jnp.int32(0)}

    def on_step(self, obs: Any, state: StartState[InnerStateT], *rest: Any) -> tuple[Any, ...]:
        reward, done, info = rest
        if state.start is not None:
            info = with_info_entry("StartStates", self.env, info, "start", state.start)
        return obs, state.replace(step=state.step - state.saved_step), reward, done, info

    def _inner(self, state: Any) -> Any:
        inner = super()._inner(state)
        return inner.replace(step=state.step + state.saved_step)

    @cached_property
    def _at_reset(self) -> tuple[dict[str, Any], dict[str, tuple[int, ...]]]:
        """The leaves that `env.reset` returns, by their names, and the shapes of keys in them."""
        # A typed key, since a legacy one looks like any other array.
        obs, state = jax.eval_shape(partial(reset_slot, self.env), key_types()[0])
        leaves = named_leaves({"obs": obs, "state": state})
        return leaves, {name: x.shape for name, x in leaves.items() if is_key(x)}

    def _with_keys(self, state: Any, rng: jax.Array) -> Any:
        """The state with other keys: `rng` in every layer of wrappers, splits of it elsewhere."""
        n_layers = 1 + sum(isinstance(layer, StatefulWrapper) for layer in layers(self.env))
        own = [f"state{'.env_state' * i}.rng" for i in range(n_layers)]
        others = {name: shape for name, shape in self._at_reset[1].items() if name not in own}
        new: dict[str, Any] = {}
        if others:
            rng, *keys = jax.random.split(rng, 1 + len(others))
            for (name, shape), key in zip(others.items(), keys, strict=True):
                new[name] = jax.random.split(key, shape) if shape else key
        leaves = named_leaves({"state": state}) | dict.fromkeys(own, rng) | new
        return jax.tree.unflatten(jax.tree.structure(state), leaves.values())

    def __getstate__(self) -> dict[str, Any]:
        # JAX 0.9 cannot pickle the types of keys.
        return {name: value for name, value in vars(self).items() if name != "_at_reset"}
