"""`StatefulWrapper`: the base class of wrappers with a state of their own."""

import dataclasses
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast, overload

import chex
import jax

from envrax._checks.type_parameters import pinned_class
from envrax._jax.returned import require_tuple
from envrax.env import ActSpaceT, ConfigT, EnvState, Info, JaxEnv, ObsSpaceT, StateT
from envrax.wrappers.base import Wrapper
from envrax.wrappers.deferred import AnyEnv
from envrax.wrappers.hooks import StateHooks

InnerStateT = TypeVar("InnerStateT", bound=EnvState)


@chex.dataclass
class WrapperState(EnvState, Generic[InnerStateT]):
    """
    State of a stateful wrapper. Subclasses add fields.

    Attributes
    ----------
    env_state : InnerStateT
        State of the wrapped environment. Its `rng`, `step` and `done` are copied to this state,
        and the next step copies them back.
    """

    env_state: InnerStateT


class StatefulWrapper(
    StateHooks,
    Wrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT],
    Generic[ObsSpaceT, ActSpaceT, StateT, ConfigT, InnerStateT],
):
    """
    Base class of wrappers with a state of their own.

    A subclass names its state class as a type argument, and defines `on_reset` and,
    unless its steps change nothing, `on_step`. The state class is a subclass of `WrapperState` with
    further fields.

    `rng`, `step` and `done` of the state are those of the wrapped environment. If `on_step` or the
    caller changes them, the next step passes the changes to the environment. An `on_step` that
    needs randomness splits `state.rng`.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.

    Raises
    ------
    TypeError
        If the class does not name a concrete state class.
    """

    if TYPE_CHECKING:

        @overload
        def __new__(cls, env: AnyEnv, *args: Any, **kwargs: Any) -> Self: ...
        @overload
        def __new__(
            cls, **kwargs: Any
        ) -> Callable[[JaxEnv[ObsSpaceT, ActSpaceT, InnerStateT, ConfigT]], Self]: ...
        def __new__(cls, *args: Any, **kwargs: Any) -> Any: ...

    def __init__(self, env: JaxEnv[ObsSpaceT, ActSpaceT, InnerStateT, ConfigT]) -> None:
        super().__init__(cast(Any, env))
        state_class = pinned_class(type(self), JaxEnv, StateT)
        if state_class is None:
            raise TypeError(
                f"{type(self).__name__} does not name a concrete type for its state. Name the "
                "class: `StatefulWrapper[ObsSpaceT, ActSpaceT, MyState, ConfigT, InnerStateT]`."
            )
        self._state_class = cast(type[StateT], state_class)

    @abstractmethod
    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]: ...

    def observe(self, state: StateT) -> Any:
        """
        None, since `on_reset` and `on_step` may change the observation.

        A subclass that leaves it unchanged returns `self.env.observe(state.env_state)`.
        """
        return None

    def on_episode_start(self, obs: Any, state: Any) -> tuple[Any, StateT]:
        obs, inner = super().on_episode_start(obs, state)
        obs, fields = require_tuple(type(self).__name__, "on_reset", self.on_reset(obs))
        common: Any = {"env_state": inner, "rng": inner.rng, "step": inner.step, "done": inner.done}
        try:
            return obs, self._state_class(**fields, **common)
        except (TypeError, ValueError):
            own = [x.name for x in dataclasses.fields(self._state_class) if x.name not in common]
            given: Any = fields
            if not isinstance(given, dict) or {*own} != given.keys():
                got = [*map(str, given)] if isinstance(given, dict) else type(given).__name__
                raise TypeError(
                    f"{type(self).__name__}: expected on_reset to return a dict of the fields "
                    f"{sorted(own)} of {self._state_class.__name__}; got {got}."
                ) from None
            raise

    def step(self, state: StateT, action: Any) -> tuple[Any, StateT, jax.Array, jax.Array, Info]:
        obs, inner, reward, done, info = super().step(state, action)
        common: Any = {"env_state": inner, "rng": inner.rng, "step": inner.step, "done": inner.done}
        stepped = self.on_step(obs, state.replace(**common), reward, done, info)
        return cast(Any, require_tuple(type(self).__name__, "on_step", stepped))

    def _inner(self, state: Any) -> Any:
        if not isinstance(state, self._state_class):
            raise TypeError(
                f"{type(self).__name__}: expected a state of class {self._state_class.__name__}; "
                f"got {type(state).__name__}. Pass the state that its reset or step returned."
            )
        inner = cast(WrapperState[Any], state).env_state
        return inner.replace(rng=state.rng, step=state.step, done=state.done)
