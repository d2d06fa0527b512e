"""Base classes of wrappers around an environment."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, overload

import jax
import jax.numpy as jnp
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
    episode_start,
)
from envrax.termination import step_env
from envrax.wrappers.deferred import AnyEnv, WrapperMeta, call_repr, keywords


class Wrapper(JaxEnv[ObsSpaceT, ActSpaceT, StateT, ConfigT], metaclass=WrapperMeta):
    """
    A wrapper: an environment around another one, with the same state.

    A subclass overrides a hook, `action`, `observation`, `reward`, `done` or `info`, and the space
    that changes with it; `on_episode_start` to change the start of an episode.

    A wrapper class called with keywords and no environment returns a factory, for lists of
    wrappers: `ResizeObservation(h=84, w=84)`.

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

    # The arguments of the constructor, the environment first; the metaclass keeps them.
    _arguments: tuple[tuple[Any, ...], dict[str, Any]]
    _is_wrapper = True
    _keeps_state = False
    # Whether a class, or one of its bases, overrides `reset` without `reset_after`.
    _replaces_reset = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "reset" in vars(cls) and "reset_after" not in vars(cls):
            cls._replaces_reset = True

    def __init__(self, env: JaxEnv[ObsSpaceT, ActSpaceT, StateT, ConfigT]) -> None:
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
        """The action that the wrapped environment gets."""
        return action

    def observation(self, obs: Any) -> Any:
        """The observation that the caller gets, at reset and after a step."""
        return obs

    def reward(self, reward: jax.Array) -> jax.Array:
        """The reward that the caller gets."""
        return reward

    def done(self, done: jax.Array) -> jax.Array:
        """The `done` that the caller gets; `state.done` stays a bool scalar."""
        return done

    def info(self, info: Info) -> Info:
        """The info that the caller gets. Return a new dict: the given one must not be changed."""
        return info

    def on_episode_start(self, obs: Any, state: Any) -> tuple[Any, StateT]:
        """The first observation and state that the caller gets, from those of `env`."""
        return self.observation(obs), state

    def reset(self, rng: jax.Array) -> tuple[Any, StateT]:
        returned = self.env.reset(rng)
        return self._started("reset", returned)

    def _started(self, method: str, returned: Any) -> tuple[Any, StateT]:
        who = type(self.env).__name__
        return self.on_episode_start(*require_tuple(who, method, returned, EnvState))

    def reset_after(self, state: StateT) -> tuple[Any, StateT]:
        """
        Begin the next episode, by `reset_after` of the wrapped environment.

        Raises
        ------
        NotImplementedError
            If `reset` is overridden, this method is not, and an episode of the wrapped environment
            depends on the one before.
        """
        if not self._replaces_reset:
            returned = self.env.reset_after(self._inner(state))
            return self._started(episode_start(self.env), returned)
        if carries_over(self.env):
            raise NotImplementedError(
                f"{type(self).__name__}.reset_after: expected a wrapper that overrides it as well "
                f"as `reset`; got one that does not, around {self.env}, whose episodes depend on "
                "the one before. Override `on_episode_start` in its place, or `reset_after` too."
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

    def action_mask(self, state: StateT) -> Any:
        """
        The mask of legal actions, by default that of the wrapped environment.

        Raises
        ------
        NotImplementedError
            If `action` is overridden, this method is not, and the wrapped environment has a mask.
        """
        mask = self.env.action_mask(self._inner(state))
        if type(self).action is not Wrapper.action:
            refuse_mask(self, mask, "before `action`", "Override `action_mask`")
        return mask

    def active(self, state: StateT) -> dict[str, jax.Array]:
        return self.env.active(self._inner(state))

    def render(self, state: StateT) -> np.ndarray:
        return self.env.render(self._inner(state))

    def _with_config(self, fields: dict[str, Any]) -> Any:
        (env, *args), kwargs = self._arguments
        return type(self)(env._with_config(fields), *args, **kwargs)

    def compile(self) -> None:
        self.env.compile()

    def close(self) -> None:
        self.env.close()

    def _inner(self, state: Any) -> Any:
        """The state that the wrapped environment gets."""
        return state

    def __repr__(self) -> str:
        # Not `getattr`: a keyword may have the name of a hook. None is not shown.
        known = {k: vars(self)[k] for k in keywords(type(self)) if k in vars(self)}
        given = {k: v for k, v in known.items() if v is not None}
        return call_repr(type(self).__name__, given, repr(self.env))


def layers(env: AnyEnv) -> list[AnyEnv]:
    """The environments of a stack, from the outermost wrapper to the base environment."""
    stack = [env]
    while isinstance(env, Wrapper):
        env = env.env
        stack.append(env)
    return stack


def require_that(condition: bool, wrapper: type, expected: str, got: object) -> None:
    """Raise a TypeError with the wrapper, the expected value and the actual one."""
    if not condition:
        raise TypeError(f"{wrapper.__name__}: expected {expected}; got {got}.")


def refuse_mask(wrapper: Any, mask: Any, when: str, advice: str = "Leave the wrapper out") -> None:
    """Raise an error for a mask if the wrapper may turn a legal action into an illegal one."""
    if mask is not None:
        raise NotImplementedError(
            f"{type(wrapper).__name__}.action_mask: expected an environment in which all actions "
            f"are legal; got a mask: an action may be illegal {when}. {advice}."
        )


def with_end(done: Any, ended: jax.Array) -> jax.Array:
    """The returned `done`, a bool or a discount of any shape, with an end where `ended`."""
    done = jnp.asarray(done)
    return jnp.where(ended, jnp.full_like(done, done.dtype == jnp.bool_), done)


def add_to_info(wrapper: type, env: AnyEnv, info: Info, key: str, value: Any) -> Info:
    """
    `info` of `env` with one more entry, which a wrapper adds.

    Raises
    ------
    ValueError
        If `info` has the key already, and no wrapper of the same class put it there.
    """
    if any([isinstance(layer, wrapper) for layer in layers(env)]):
        return {**info, key: value}
    return with_info_entry(f"{wrapper.__name__}.step", env, info, key, value)
