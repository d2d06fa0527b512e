"""Base classes of wrappers of observations, actions or rewards: of each agent, in a world."""

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
    """A world with the spaces and the mask of one agent; `OneAgent` resets and steps it."""

    def __init__(self, env: JaxEnv[Any, Any, Any, ConfigT], agent: str) -> None:
        super().__init__(cast(Any, env))
        self.agent = agent
        # As properties of the world they may be built on every access.
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


def views(env: AnyEnv) -> Any:
    """The environment; of a world, the spaces of each agent."""
    view: Any = AgentSpaces
    return {agent: view(env, agent) for agent in env.agents} or env


class EachAgent(Wrapper[Any, Any, StateT, ConfigT]):
    """
    A wrapper around a world that applies the hooks of another wrapper class to each agent.

    `each_agent` makes it, as an instance of a class that is both.
    """

    def __init__(self, env: AnyEnv, cls: Any, args: Any, kwargs: Any) -> None:
        Wrapper.__init__(self, env)  # not the constructor of `cls`, the other base
        others = (
            "done",
            "info",
            "on_episode_start",
            "reset",
            "reset_after",
            "step",
            "active",
            "render",
        )
        found = [name for name in others if getattr(cls, name) is not getattr(Wrapper, name)]
        expected = "a wrapper that changes only observations, actions and rewards, around a world"
        require_that(not found, cls, expected, f"one that overrides {', '.join(found)}")
        self._given = cls, args, kwargs
        self._each: Any = for_each(env, lambda view: cls(view, *args, **kwargs), views(env))

    @property
    def observation_space(self) -> Any:
        return Dict({agent: one.observation_space for agent, one in self._each.items()})

    @property
    def action_space(self) -> Any:
        return Dict({agent: one.action_space for agent, one in self._each.items()})

    def observation(self, obs: Any) -> Any:
        return for_each(self, lambda one, x: one.observation(x), self._each, obs)

    def action(self, action: Any) -> Any:
        return for_each(self, lambda one, x: one.action(x), self._each, action)

    def reward(self, reward: Any) -> Any:
        return for_each(self, lambda one, x: one.reward(x), self._each, reward)

    def action_mask(self, state: StateT) -> Any:
        masks = for_each(self, lambda one: one.action_mask(state), self._each)
        return masks if jax.tree.leaves(masks) else None

    def __reduce__(self) -> tuple[Any, ...]:
        return each_agent, (self.env, *self._given)

    def __repr__(self) -> str:
        cls, args, kwargs = self._given
        return call_repr(cls.__name__, kwargs, repr(self.env), *map(repr, args))


def each_agent(env: AnyEnv, cls: Any, args: Any, kwargs: Any) -> Any:
    """`cls(env, *args, **kwargs)` around a world: an instance of `cls` that serves each agent."""
    both = type(cls)(cls.__name__, (EachAgent, cls), {"_in_worlds": None})
    return both(env, cls, args, kwargs)


class ObservationWrapper(Wrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    A wrapper that changes the observation and the observation space.

    In a world of several agents it is applied to each of them.
    """

    _in_worlds = staticmethod(each_agent)

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
    A wrapper that changes the action and the action space.

    In a world of several agents it is applied to each of them.
    """

    _in_worlds = staticmethod(each_agent)

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
    A wrapper that changes the reward.

    In a world of several agents it is applied to each of them.
    """

    _in_worlds = staticmethod(each_agent)

    @abstractmethod
    def reward(self, reward: jax.Array) -> jax.Array: ...
