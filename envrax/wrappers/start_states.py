"""`StartStates`: begin episodes in states of your choice."""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, Generic, cast

import chex
import jax
import jax.numpy as jnp

from envrax._jax.keys import is_key, key_types
from envrax._jax.returned import returned_arrays, strip_weak_type, with_info_entry
from envrax._jax.types import named_leaves
from envrax.autoreset.slot import checked_reset, require_same_types
from envrax.env import ActSpaceT, ConfigT, EnvState, JaxEnv, ObsSpaceT, carries_over
from envrax.wrappers.base import layers, require_that
from envrax.wrappers.stateful import InnerStateT, StatefulWrapper, WrapperState

Sample = Callable[[jax.Array], tuple[Any, Any] | tuple[Any, Any, Any]]


@chex.dataclass
class StartState(WrapperState[InnerStateT]):
    """
    State of `StartStates`.

    Attributes
    ----------
    saved_step : jax.Array
        int32 scalar, `step` of the state in which the episode began. The wrapper's own `step`
        counts from 0.
    start : pytree of jax.Array
        The third value that `sample` returned for this episode; None if it returned two.
    """

    saved_step: jax.Array
    start: Any = None


class StartStates(
    StatefulWrapper[ObsSpaceT, ActSpaceT, StartState[InnerStateT], ConfigT, InnerStateT],
    Generic[ObsSpaceT, ActSpaceT, InnerStateT, ConfigT],
):
    """
    Begin every episode in a state that `sample` returns, instead of resetting the environment.

    `sample` may draw from a buffer of saved states, or build a level. Inside your own `jit` it may
    close over traced arrays, such as a buffer that changes during training. Outside of a `jit`, the
    arrays that it closes over are constants of the compiled code; to change them, wrap again.

    Every episode gets new PRNG keys. `reset` splits its key into one for `sample` and one that
    replaces all PRNG keys in the state. To keep a key, such as the seed of a level, store it as
    `jax.random.key_data`. `reset_after` does the same as `reset`, so the wrapped environment keeps
    nothing from the last episode.

    A state from the middle of an episode keeps its `step` in `env_state`, so the time limit of the
    wrapped environment continues from there. `step` of the wrapper's state starts at 0. For a full
    time limit, return a state whose `step` is 0. A `TimeLimit` counts in a field of its own, so for
    its full time put it outside of this wrapper. `done` is set to False.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap; it must be traceable.
    sample : callable
        `sample(rng) -> (obs, state)`, of the same structure as `env.reset` returns, with the states
        of all wrappers inside this one. It may return a third value, a pytree of arrays such as the
        index in a buffer. This value is kept in the state, and it is `info["start"]` in every step
        of the episode, including the last.

    Raises
    ------
    TypeError
        If the results of `sample` and `env.reset` differ in type, or the environment has a
        `reset_after` of its own or contains a `RecordEpisodeStatistics`, which would count on from
        the saved state.
    ValueError
        At the first step, if `sample` returns a third value and the environment has an
        `info["start"]` of its own.
    RuntimeError
        At the first reset, if the environment or one of its wrappers cannot be traced, such as
        `RecordVideo`.

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

    changes_episodes = True

    def __init__(
        self, env: JaxEnv[ObsSpaceT, ActSpaceT, InnerStateT, ConfigT], sample: Sample
    ) -> None:
        super().__init__(env)
        require_that(callable(sample), type(self), "sample to be a function of a key", sample)
        if carries_over(env):
            raise TypeError(
                "StartStates: expected an environment without a `reset_after` of its own, since "
                f"`sample` replaces it; got {env!r}. If a wrapper has it, put that wrapper outside "
                "of StartStates."
            )
        self.sample = sample

    def reset(self, rng: jax.Array) -> tuple[Any, StartState[InnerStateT]]:
        rng, key = jax.random.split(rng)
        sampled: Any = self.sample(key)
        has_start = isinstance(sampled, tuple) and len(cast(Any, sampled)) == 3
        pair: Any = cast(Any, sampled)[:2] if has_start else cast(Any, sampled)
        obs, inner = returned_arrays(type(self).__name__, "sample", pair, EnvState)
        reset_leaves, key_shapes = self._at_reset
        leaves = named_leaves({"obs": obs, "state": inner})
        # PRNG keys are not compared: they are replaced, and may be of another kind.
        expected = {name: x for name, x in reset_leaves.items() if name not in key_shapes}
        got = {name: x for name, x in leaves.items() if name not in key_shapes}
        require_same_types(self.env, expected, got, "sample")
        obs, state = self.on_episode_start(obs, self._with_keys(inner, rng))
        if not has_start:
            return obs, state
        return obs, state.replace(start=strip_weak_type(sampled[2]))

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
        """The leaves that `env.reset` returns, and the shapes of its PRNG keys, both by name."""
        # Traced with a typed key, because a raw uint32 key looks like any other array.
        obs, state = jax.eval_shape(partial(checked_reset, self.env), key_types()[0])
        leaves = named_leaves({"obs": obs, "state": state})
        return leaves, {name: x.shape for name, x in leaves.items() if is_key(x)}

    def _with_keys(self, state: Any, rng: jax.Array) -> Any:
        """
        The state with new PRNG keys.

        `rng` is the same new key in all states of the stack; every other key is split from it.
        """
        n_states = 1 + sum(isinstance(layer, StatefulWrapper) for layer in layers(self.env))
        rng_names = [f"state{'.env_state' * i}.rng" for i in range(n_states)]
        _, key_shapes = self._at_reset
        others = {name: shape for name, shape in key_shapes.items() if name not in rng_names}
        other_keys: dict[str, Any] = {}
        if others:
            rng, *keys = jax.random.split(rng, 1 + len(others))
            for (name, shape), key in zip(others.items(), keys, strict=True):
                other_keys[name] = jax.random.split(key, shape) if shape else key
        leaves = named_leaves({"state": state}) | dict.fromkeys(rng_names, rng) | other_keys
        return jax.tree.unflatten(jax.tree.structure(state), leaves.values())

    def _carries_over(self) -> bool:
        return False

    def _with_starts(self, give: Any) -> Any:
        raise TypeError(
            "reset_where: expected, with `starts`, an environment without StartStates; got "
            f"{self}, which begins episodes by `sample`. Leave one of the two out."
        )

    def __getstate__(self) -> dict[str, Any]:
        # JAX 0.9 cannot pickle the types of PRNG keys.
        return {name: value for name, value in vars(self).items() if name != "_at_reset"}
