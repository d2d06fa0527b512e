"""Base classes of wrappers that change observations, actions or rewards, of one or more agents."""

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, cast, overload

import jax

from envrax.agent_values import for_each
from envrax.env import ActSpaceT, ConfigT, JaxEnv, ObsSpaceT, StateT
from envrax.spaces import Dict
from envrax.wrappers.base import Wrapper, require_that
from envrax.wrappers.deferred import AnyEnv, call_repr


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


def per_agent_envs(env: AnyEnv) -> Any:
    """The environment itself; for a multi-agent environment, a dict of `AgentSpaces` by agent."""
    agent_spaces: Any = AgentSpaces
    return {agent: agent_spaces(env, agent) for agent in env.agents} or env


class EachAgent(Wrapper[Any, Any, StateT, ConfigT]):
    """
    A wrapper of a multi-agent environment that applies another wrapper class to each agent.

    `wrap_each_agent` builds it, as an instance of a class that inherits from both classes. What it
    does not define itself must not be overridden, as it would be applied to no agent.

    Attributes
    ----------
    wrappers : dict
        The wrapper of each agent.
    """

    def __init__(self, env: AnyEnv, cls: Any, args: Any, kwargs: Any) -> None:
        Wrapper.__init__(self, env)  # not the constructor of `cls`, the other base
        members = [x for x in dir(Wrapper) if x[0] != "_" and x not in vars(EachAgent)]
        overridden = [x for x in members if getattr(cls, x) is not getattr(Wrapper, x)]
        expected = (
            "a wrapper that changes only observations, actions and rewards of a multi-agent "
            "environment"
        )
        require_that(not overridden, cls, expected, f"one that overrides {', '.join(overridden)}")
        self._class_and_arguments = cls, args, kwargs

        def wrap(agent_env: Any) -> Any:
            return cls(agent_env, *args, **kwargs)

        self.wrappers: Any = for_each(env, wrap, per_agent_envs(env))

    def __getattr__(self, name: str) -> Any:
        # `__init__` of the class was called for the wrapper of each agent, not for this object.
        raise AttributeError(
            f"{type(self).__name__}: expected an attribute of a wrapper of several agents; got "
            f"{name!r}. Each agent has a wrapper: try `wrappers[{self.agents[0]!r}].{name}`."
        )

    @property
    def traceable(self) -> bool:
        return all(wrapper.traceable for wrapper in self.wrappers.values())

    def close(self) -> None:
        for wrapper in self.wrappers.values():
            wrapper.close()

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

    def __reduce__(self) -> tuple[Any, ...]:
        return wrap_each_agent, (self.env, *self._class_and_arguments)

    def __repr__(self) -> str:
        cls, args, kwargs = self._class_and_arguments
        return call_repr(cls.__name__, kwargs, repr(self.env), *map(repr, args))


def wrap_each_agent(env: AnyEnv, cls: Any, args: Any, kwargs: Any) -> Any:
    """`cls(env, *args, **kwargs)` for a multi-agent environment: `cls` applied to each agent."""
    combined = type(cls)(cls.__name__, (EachAgent, cls), {"_wrap_multi_agent": None})
    return combined(env, cls, args, kwargs)


class ObservationWrapper(Wrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    Base class of wrappers that change the observation and the observation space.

    In a multi-agent environment the wrapper is applied to each agent.
    """

    _wrap_multi_agent = staticmethod(wrap_each_agent)

    if TYPE_CHECKING:

        @overload
        def __new__(cls, env: AnyEnv, *args: Any, **kwargs: Any) -> Self: ...
        @overload
        def __new__(
            cls, **kwargs: Any
        ) -> Callable[[JaxEnv[Any, ActSpaceT, StateT, ConfigT]], Self]: ...
        def __new__(cls, *args: Any, **kwargs: Any) -> Any: ...

    def __init__(self, env: JaxEnv[Any, ActSpaceT, StateT, ConfigT]) -> None:
        super().__init__(env)

    @property
    @abstractmethod
    def observation_space(self) -> ObsSpaceT: ...

    @abstractmethod
    def observation(self, obs: Any) -> Any: ...


class ActionWrapper(Wrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    Base class of wrappers that change the action and the action space.

    In a multi-agent environment the wrapper is applied to each agent.
    """

    _wrap_multi_agent = staticmethod(wrap_each_agent)

    if TYPE_CHECKING:

        @overload
        def __new__(cls, env: AnyEnv, *args: Any, **kwargs: Any) -> Self: ...
        @overload
        def __new__(
            cls, **kwargs: Any
        ) -> Callable[[JaxEnv[ObsSpaceT, Any, StateT, ConfigT]], Self]: ...
        def __new__(cls, *args: Any, **kwargs: Any) -> Any: ...

    def __init__(self, env: JaxEnv[ObsSpaceT, Any, StateT, ConfigT]) -> None:
        super().__init__(env)

    @property
    @abstractmethod
    def action_space(self) -> ActSpaceT: ...

    @abstractmethod
    def action(self, action: Any) -> Any: ...


class RewardWrapper(Wrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    Base class of wrappers that change the reward.

    In a multi-agent environment the wrapper is applied to each agent.
    """

    _wrap_multi_agent = staticmethod(wrap_each_agent)

    @abstractmethod
    def reward(self, reward: jax.Array) -> jax.Array: ...
