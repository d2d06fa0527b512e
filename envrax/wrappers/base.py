"""The base classes of wrappers of one environment, and functions that several wrappers use."""

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast, overload

import jax

from envrax._checks.marks import adds, hands_on
from envrax._jax.keys import refuses_seed
from envrax._jax.returned import require_tuple, with_info_entry
from envrax.agent_values import for_each
from envrax.env import (
    ActSpaceT,
    ConfigT,
    EnvState,
    ForwardingEnv,
    Info,
    JaxEnv,
    ObsSpaceT,
    StateT,
    carries_over,
)
from envrax.spaces import Dict
from envrax.termination import step_env
from envrax.wrappers.deferred import AnyEnv, WrapperMeta, call_repr
from envrax.wrappers.hooks import Hooks


class Wrapper(Hooks, ForwardingEnv[ObsSpaceT, ActSpaceT, StateT, ConfigT], metaclass=WrapperMeta):
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

    Attributes
    ----------
    each_agent : bool
        Whether the class is applied to each agent of a world, as an `ObservationWrapper`; by
        default it gets the dicts by agent.
    changes_episodes : bool
        Whether it begins or ends episodes by itself. A `RecordEpisodeStatistics` inside of it,
        which would count wrongly, is then refused.
    counts_episodes : bool
        Whether it counts episodes, as `RecordEpisodeStatistics` does.

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

    changes_episodes: bool = False
    counts_episodes: ClassVar[bool] = False

    def __init__(self, env: JaxEnv[ObsSpaceT, ActSpaceT, StateT, ConfigT]) -> None:
        if self.changes_episodes:
            counts = any(getattr(layer, "counts_episodes", False) for layer in layers(env))
            expected = (
                "RecordEpisodeStatistics outside of this wrapper, which begins or ends episodes"
            )
            require_that(not counts, type(self), expected, env)
        self.env = env

    @hands_on
    def done(self, done: jax.Array) -> jax.Array:
        """Hook: the `done` returned to the caller. `state.done` stays a bool scalar."""
        return done

    @hands_on
    def on_episode_start(self, obs: Any, state: Any) -> tuple[Any, StateT]:
        """Hook: the first observation and state returned to the caller, from those of `env`."""
        return self.observation(obs), state

    @hands_on
    @refuses_seed
    def reset(self, rng: jax.Array) -> tuple[Any, StateT]:
        return self._start_episode("reset", self.env.reset(rng))

    def _start_episode(self, method: str, returned: Any) -> tuple[Any, StateT]:
        who = type(self.env).__name__
        return self.on_episode_start(*require_tuple(who, method, returned, EnvState))

    @hands_on
    def reset_after(self, state: StateT) -> tuple[Any, StateT]:
        """
        Begin the next episode with `reset_after` of the wrapped environment.

        Raises
        ------
        NotImplementedError
            If the class overrides `reset` but not this method, and each episode of the wrapped
            environment depends on the one before.
        """
        if adds(self.reset_after) or not adds(self.reset):
            return self._start_episode("reset_after", self.env.reset_after(self._inner(state)))
        if carries_over(self.env):
            raise NotImplementedError(
                f"{type(self).__name__}.reset_after: expected a wrapper that overrides both "
                f"`reset` and `reset_after`, because each episode of {self.env} depends on the one "
                "before; got a wrapper that overrides only `reset`. Override `on_episode_start` "
                "instead, or `reset_after` too."
            )
        return super().reset_after(state)

    @hands_on
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

    @hands_on
    def observe(self, state: StateT) -> Any:
        """
        The observation of a state: that of the wrapped environment, after the hook `observation`.

        None if the wrapped environment has none, or the class overrides `reset`, `step` or another
        method that returns observations, but not this one.
        """
        starts = self.reset, self.reset_after, self.on_episode_start
        return None if adds(*starts, self.step) else self._observe_inner(state)

    def _observe_inner(self, inner: Any) -> Any:
        """The same, from a state that the wrapped environment returned, whatever the class."""
        obs = self.env.observe(inner)
        return None if obs is None else self.observation(obs)

    @classmethod
    def _of_world(cls, env: AnyEnv, *args: Any, **kwargs: Any) -> Any:
        each_agent: Any = EachAgent
        return each_agent(env, cls, args, kwargs)

    def _with_config(self, fields: dict[str, Any]) -> Any:
        (env, *args), kwargs = self._arguments
        return type(self)(env._with_config(fields), *args, **kwargs)


class AgentSpaces(Wrapper[Any, Any, StateT, ConfigT]):
    """
    A multi-agent environment (a world) with the spaces and the mask of one agent.

    The subclass `OneAgent` adds `reset` and `step`.
    """

    def __init__(self, env: JaxEnv[Any, Any, Any, ConfigT], agent: str) -> None:
        super().__init__(cast(Any, env))
        self.agent = agent
        # Read once, because the environment may build its spaces on every access.
        self._observation_space = self.env.observation_space[agent]
        self._action_space = self.env.action_space[agent]

    @property
    def agents(self) -> tuple[str, ...]:
        return ()

    @property
    def observation_space(self) -> Any:
        return self._observation_space

    @property
    def action_space(self) -> Any:
        return self._action_space

    def action_mask(self, state: StateT) -> Any:
        mask = self.env.action_mask(self._inner(state))
        return mask and mask[self.agent]

    def active(self, state: StateT) -> dict[str, jax.Array]:
        return {}

    def close(self) -> None:
        """Leave the world open for the other agents."""


def per_agent_envs(env: AnyEnv) -> Any:
    """The environment itself; for a multi-agent environment, a dict of `AgentSpaces` by agent."""
    agent_spaces: Any = AgentSpaces
    return {agent: agent_spaces(env, agent) for agent in env.agents} or env


# What `EachAgent` applies to no agent: a wrapper with one of these of its own is refused.
_OF_THE_WORLD = (
    *("name", "config", "reset", "reset_after", "step", "on_episode_start", "done", "info"),
    *("at_limit", "observe", "active", "render", "compile"),
)


class EachAgent(Wrapper[Any, Any, StateT, ConfigT]):
    """
    A wrapper of a multi-agent environment (a world) that applies another wrapper to each agent.

    A wrapper class with `each_agent = True` returns it when it is called with a world.

    Parameters
    ----------
    env : JaxEnv
        The world.
    cls, args, kwargs
        The wrapper class, and its arguments without the environment.

    Attributes
    ----------
    wrappers : dict
        The wrapper of each agent.
    """

    def __init__(self, env: AnyEnv, cls: Any, args: Any, kwargs: Any) -> None:
        super().__init__(env)
        own = [name for name in _OF_THE_WORLD if adds(getattr(cls, name))]
        expected = (
            "a wrapper that changes only observations, actions and rewards of a multi-agent "
            "environment"
        )
        require_that(not own, cls, expected, f"one that overrides {', '.join(own)}")
        self._call = cls.__name__, args, kwargs

        def wrap(agent_env: Any) -> Any:
            return cls(agent_env, *args, **kwargs)

        self.wrappers: Any = for_each(env, wrap, per_agent_envs(env))

    @property
    def traceable(self) -> bool:
        return all(wrapper.traceable for wrapper in self.wrappers.values())

    def close(self) -> None:
        for wrapper in self.wrappers.values():
            wrapper.close()
        super().close()

    @property
    def observation_space(self) -> Any:
        return Dict({agent: wrapper.observation_space for agent, wrapper in self.wrappers.items()})

    @property
    def action_space(self) -> Any:
        return Dict({agent: wrapper.action_space for agent, wrapper in self.wrappers.items()})

    def observation(self, obs: Any) -> Any:
        return for_each(self, lambda wrapper, x: wrapper.observation(x), self.wrappers, obs)

    def action(self, action: Any) -> Any:
        return for_each(self, lambda wrapper, x: wrapper.action(x), self.wrappers, action)

    def reward(self, reward: Any) -> Any:
        return for_each(self, lambda wrapper, x: wrapper.reward(x), self.wrappers, reward)

    def action_mask(self, state: StateT) -> Any:
        masks = for_each(self, lambda wrapper: wrapper.action_mask(state), self.wrappers)
        return masks if jax.tree.leaves(masks) else None

    def __repr__(self) -> str:
        name, args, kwargs = self._call
        return call_repr(name, kwargs, repr(self.env), *map(repr, args))


class ObservationWrapper(Wrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    Base class of wrappers that change the observation and the observation space.

    In a multi-agent environment the wrapper is applied to each agent.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    observation_space : Space, optional
        The space of what `observation` returns. By default that of the environment.
    """

    each_agent = True

    if TYPE_CHECKING:

        @overload
        def __new__(cls, env: AnyEnv, *args: Any, **kwargs: Any) -> Self: ...
        @overload
        def __new__(
            cls, **kwargs: Any
        ) -> Callable[[JaxEnv[Any, ActSpaceT, StateT, ConfigT]], Self]: ...
        def __new__(cls, *args: Any, **kwargs: Any) -> Any: ...

    def __init__(
        self,
        env: JaxEnv[Any, ActSpaceT, StateT, ConfigT],
        observation_space: ObsSpaceT | None = None,
    ) -> None:
        super().__init__(env)
        self._space: Any = env.observation_space if observation_space is None else observation_space

    @property
    def observation_space(self) -> ObsSpaceT:
        return self._space

    @abstractmethod
    def observation(self, obs: Any) -> Any: ...


class ActionWrapper(Wrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    Base class of wrappers that change the action and the action space.

    In a multi-agent environment the wrapper is applied to each agent.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    action_space : Space, optional
        The space of the caller's actions. By default that of the environment.
    """

    each_agent = True

    if TYPE_CHECKING:

        @overload
        def __new__(cls, env: AnyEnv, *args: Any, **kwargs: Any) -> Self: ...
        @overload
        def __new__(
            cls, **kwargs: Any
        ) -> Callable[[JaxEnv[ObsSpaceT, Any, StateT, ConfigT]], Self]: ...
        def __new__(cls, *args: Any, **kwargs: Any) -> Any: ...

    def __init__(
        self, env: JaxEnv[ObsSpaceT, Any, StateT, ConfigT], action_space: ActSpaceT | None = None
    ) -> None:
        super().__init__(env)
        self._space: Any = env.action_space if action_space is None else action_space

    @property
    def action_space(self) -> ActSpaceT:
        return self._space

    @abstractmethod
    def action(self, action: Any) -> Any: ...


class RewardWrapper(Wrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    Base class of wrappers that change the reward.

    In a multi-agent environment the wrapper is applied to each agent.
    """

    each_agent = True

    @abstractmethod
    def reward(self, reward: jax.Array) -> jax.Array: ...


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
