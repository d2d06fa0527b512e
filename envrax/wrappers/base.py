"""`Wrapper`, the base class of wrappers, and functions that several wrappers use."""

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, overload

import jax
import numpy as np

from envrax._checks.tuples import require_tuple, with_info_entry
from envrax.env import (
    ActSpaceT,
    ConfigT,
    EnvState,
    Info,
    JaxEnv,
    ObsSpaceT,
    StateT,
    carries_over,
    keeps_observe,
    starting_method_name,
)
from envrax.termination import step_env
from envrax.wrappers.deferred import AnyEnv, WrapperMeta, call_repr, keywords


class Wrapper(JaxEnv[ObsSpaceT, ActSpaceT, StateT, ConfigT], metaclass=WrapperMeta):
    """
    Base class of wrappers: an environment that wraps another one and has the same state.

    A subclass overrides one or more hooks: `action`, `observation`, `reward`, `done`, `info`, or
    `on_episode_start` for the start of an episode. If a space changes, it overrides that too.

    A wrapper class called with keywords only, without an environment, returns a factory for lists
    of wrappers: `ResizeObservation(h=84, w=84)`.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.

    Raises
    ------
    TypeError
        If `env` is not a `JaxEnv`, or a keyword is unknown.
    """

    if TYPE_CHECKING:

        @overload
        def __new__(cls, env: AnyEnv, *args: Any, **kwargs: Any) -> Self: ...
        @overload
        def __new__(
            cls, **kwargs: Any
        ) -> Callable[[JaxEnv[ObsSpaceT, ActSpaceT, StateT, ConfigT]], Self]: ...
        def __new__(cls, *args: Any, **kwargs: Any) -> Any: ...

    # The arguments of the constructor, the environment first. The metaclass sets them.
    _arguments: tuple[tuple[Any, ...], dict[str, Any]]
    _is_wrapper = True
    _keeps_state = False
    # Whether the class, or one of its bases, overrides `reset` but not `reset_after`.
    _replaces_reset = False
    # Whether it begins or ends episodes by itself. Statistics inside of it would count wrongly.
    _changes_episodes = False
    _counts_episodes = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "reset" in vars(cls) and "reset_after" not in vars(cls):
            cls._replaces_reset = True

    def __init__(self, env: JaxEnv[ObsSpaceT, ActSpaceT, StateT, ConfigT]) -> None:
        if self._changes_episodes:
            counts = any(getattr(layer, "_counts_episodes", False) for layer in layers(env))
            expected = (
                "RecordEpisodeStatistics outside of this wrapper, which begins or ends episodes"
            )
            require_that(not counts, type(self), expected, env)
        self.env = env

    @property
    def config(self) -> ConfigT:
        return self.env.config

    @property
    def name(self) -> str:
        return self.env.name

    @property
    def unwrapped(self) -> AnyEnv:
        return self.env.unwrapped

    @property
    def traceable(self) -> bool:
        return self.env.traceable

    @property
    def agents(self) -> tuple[str, ...]:
        return self.env.agents

    @property
    def observation_space(self) -> ObsSpaceT:
        return self.env.observation_space

    @property
    def action_space(self) -> ActSpaceT:
        return self.env.action_space

    def action(self, action: Any) -> Any:
        """Hook: the action for the wrapped environment."""
        return action

    def observation(self, obs: Any) -> Any:
        """Hook: the observation returned to the caller, by `reset` and `step`."""
        return obs

    def reward(self, reward: jax.Array) -> jax.Array:
        """Hook: the reward returned to the caller."""
        return reward

    def done(self, done: jax.Array) -> jax.Array:
        """Hook: the `done` returned to the caller. `state.done` stays a bool scalar."""
        return done

    def info(self, info: Info) -> Info:
        """Hook: the info returned to the caller, a new dict. Do not change the argument."""
        return info

    def on_episode_start(self, obs: Any, state: Any) -> tuple[Any, StateT]:
        """Hook: the first observation and state returned to the caller, from those of `env`."""
        return self.observation(obs), state

    def reset(self, rng: jax.Array) -> tuple[Any, StateT]:
        returned = self.env.reset(rng)
        return self._start_episode("reset", returned)

    def _start_episode(self, method: str, returned: Any) -> tuple[Any, StateT]:
        who = type(self.env).__name__
        return self.on_episode_start(*require_tuple(who, method, returned, EnvState))

    def reset_after(self, state: StateT) -> tuple[Any, StateT]:
        """
        Begin the next episode with `reset_after` of the wrapped environment.

        Raises
        ------
        NotImplementedError
            If the class overrides `reset` but not this method, and each episode of the wrapped
            environment depends on the one before.
        """
        if not self._replaces_reset:
            returned = self.env.reset_after(self._inner(state))
            return self._start_episode(starting_method_name(self.env), returned)
        if carries_over(self.env):
            raise NotImplementedError(
                f"{type(self).__name__}.reset_after: expected a wrapper that overrides both "
                f"`reset` and `reset_after`, because each episode of {self.env} depends on the one "
                "before; got a wrapper that overrides only `reset`. Override `on_episode_start` "
                "instead, or `reset_after` too."
            )
        return super().reset_after(state)

    def step(self, state: StateT, action: Any) -> tuple[Any, StateT, jax.Array, jax.Array, Info]:
        action = self.action(action)
        obs, new_state, reward, done, info = step_env(self.env, self._inner(state), action)
        return (
            self.observation(obs),
            new_state,
            self.reward(reward),
            self.done(done),
            self.info(info),
        )

    def at_limit(self, state: StateT) -> jax.Array:
        return self.env.at_limit(self._inner(state))

    def action_mask(self, state: StateT) -> Any:
        """
        The mask of legal actions; by default the mask of the wrapped environment.

        Raises
        ------
        NotImplementedError
            If the class overrides `action` but not this method, and the wrapped environment has a
            mask.
        """
        mask = self.env.action_mask(self._inner(state))
        if type(self).action is not Wrapper.action:
            reason = "it is for actions after the hook `action`, not before"
            refuse_mask(self, mask, reason, "Override `action_mask`")
        return mask

    def observe(self, state: StateT) -> Any:
        """
        The observation of a state: that of the wrapped environment, after the hook `observation`.

        None if the wrapped environment has none, or the class overrides `reset`, `step` or another
        method that returns observations, but not this one.
        """
        return self._observe_inner(state) if keeps_observe(self) else None

    def _observe_inner(self, inner: Any) -> Any:
        """The same, from a state that the wrapped environment returned, whatever the class."""
        obs = self.env.observe(inner) if keeps_observe(self.env) else None
        return None if obs is None else self.observation(obs)

    def active(self, state: StateT) -> dict[str, jax.Array]:
        return self.env.active(self._inner(state))

    def render(self, state: StateT) -> np.ndarray:
        return self.env.render(self._inner(state))

    def _with_config(self, fields: dict[str, Any]) -> Any:
        (env, *args), kwargs = self._arguments
        return type(self)(env._with_config(fields), *args, **kwargs)

    def _beginning_with(self, begin: Any) -> Any:
        other = copy.copy(self)
        other.env = self.env._beginning_with(begin)
        return other

    def compile(self) -> None:
        self.env.compile()

    def close(self) -> None:
        self.env.close()

    def _inner(self, state: Any) -> Any:
        """The state of the wrapped environment, from the state of this wrapper."""
        return state

    def __repr__(self) -> str:
        # `vars`, not `getattr`: a keyword may have the name of a hook. None is left out.
        attributes = {k: vars(self)[k] for k in keywords(type(self)) if k in vars(self)}
        shown = {k: v for k, v in attributes.items() if v is not None}
        return call_repr(type(self).__name__, shown, repr(self.env))


def layers(env: AnyEnv) -> list[AnyEnv]:
    """The wrappers of a stack, the outermost first, and the base environment last."""
    stack = [env]
    while isinstance(env, Wrapper):
        env = env.env
        stack.append(env)
    return stack


def require_that(
    condition: bool, wrapper: type, expected: str, got: object, advice: str = ""
) -> None:
    """Raise a TypeError unless `condition` is True: what was expected, what came, what to do."""
    if not condition:
        text = str(got)
        text = text if len(text) <= 200 else f"{text[:200]}..."
        raise TypeError(f"{wrapper.__name__}: expected {expected}; got {text}. {advice}".rstrip())


def refuse_mask(
    wrapper: Any, mask: Any, reason: str, advice: str = "Leave the wrapper out"
) -> None:
    """Raise a NotImplementedError if there is a mask. `reason` is why the wrapper cannot use it."""
    if mask is not None:
        raise NotImplementedError(
            f"{type(wrapper).__name__}.action_mask: expected an environment without action masks; "
            f"got a mask, but {reason}. {advice}."
        )


def add_to_info(wrapper: type, env: AnyEnv, info: Info, key: str, value: Any) -> Info:
    """
    A copy of `info` with one more entry, which `wrapper` adds to the infos of `env`.

    Raises
    ------
    ValueError
        If `info` has the key already, unless an inner wrapper of the same class added it.
    """
    if any([isinstance(layer, wrapper) for layer in layers(env)]):
        return {**info, key: value}
    return with_info_entry(f"{wrapper.__name__}.step", env, info, key, value)
