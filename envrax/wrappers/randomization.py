"""`DomainRandomization`: a config of its own for every episode, or for every slot."""

import copy
from collections.abc import Callable
from typing import Any, Generic, cast

import chex
import jax
import numpy as np

from envrax._jax.keys import key_types
from envrax._jax.programs import strong
from envrax._rebuild import FieldError
from envrax.env import ActSpaceT, ConfigT, Info, JaxEnv, ObsSpaceT
from envrax.spaces.base import kind
from envrax.wrappers.base import Wrapper, require_that
from envrax.wrappers.drawn import require_dynamic
from envrax.wrappers.stateful import InnerStateT, StatefulWrapper, WrapperState

Fields = dict[str, Any]


@chex.dataclass
class RandomizedState(WrapperState[InnerStateT]):
    """
    State of `DomainRandomization`.

    Attributes
    ----------
    fields : dict
        What `sample` drew for this episode, by the names of the config's fields.
    """

    fields: dict[str, Any]


class DomainRandomization(
    Wrapper[ObsSpaceT, ActSpaceT, RandomizedState[InnerStateT], ConfigT],
    Generic[ObsSpaceT, ActSpaceT, ConfigT, InnerStateT],
):
    """
    Draw fields of the config for every episode, or once for every slot.

    What is drawn is kept in the state and is traced. It is in force for `reset`, `step`,
    `action_mask` and `render` of that episode, by `with_config` of the wrapped environment, which
    itself is not changed. Python numbers of the config are replaced by float32, int32 or bool.

    The environment may only calculate with what is drawn. Shapes, spaces, branches of Python and
    strings stay as they are. In `config` of this wrapper, what is drawn has no value.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    sample : callable
        `sample(rng) -> dict` from a PRNG key to fields of the config, the same ones in every call.
        A dict draws entries of a field that is a dict: `{"params": {...}}`, as those of another
        library.
    redraw : bool, default True
        Whether auto-reset draws again. If False, a slot keeps what its first reset drew.

    Raises
    ------
    TypeError
        If `sample` returns no dict of numbers, the config has no such field, a number does not fit
        it (a float for an int, another shape), or the environment uses it as a static value. The
        message names the field.
    RuntimeError
        If the environment cannot be traced, as with `RecordVideo`.

    Examples
    --------
    >>> from envrax import VecEnv
    >>> from envrax.testing import CountingEnv
    >>> def sample(rng):
    ...     return {"max_steps": jax.random.randint(rng, (), 2, 9)}
    >>> env = VecEnv(DomainRandomization(CountingEnv(), sample), 4)
    >>> obs, state = env.reset(jax.random.key(0))
    >>> state.fields["max_steps"].shape
    (4,)
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        raise TypeError(
            f"{cls.__name__}: expected a wrapper around DomainRandomization; got a subclass of it, "
            "whose hooks would not be called. Extend `Wrapper`, and put it around."
        )

    def __init__(
        self,
        env: JaxEnv[ObsSpaceT, ActSpaceT, InnerStateT, ConfigT],
        sample: Callable[[jax.Array], Fields],
        redraw: bool = True,
    ) -> None:
        super().__init__(cast(Any, env))
        callable_ = callable(cast(Any, sample))
        require_that(callable_, type(self), "sample to be a function `rng -> dict`", sample)
        if not env.traceable:
            raise RuntimeError(
                f"DomainRandomization: expected a traceable environment; got {env!r}, which is "
                "incompatible with JAX transforms. Put DomainRandomization beneath it."
            )
        self.sample, self.redraw = sample, redraw
        self._types: Fields = _types(jax.eval_shape(self._sampled, key_types()[0]))
        require_dynamic("DomainRandomization", env, self._types)

    @property
    def config(self) -> ConfigT:
        """The wrapped environment's, with nothing usable in place of what is drawn."""
        config = copy.copy(self.env.config)
        for name in self._types:
            object.__setattr__(config, name, _Drawn(name))
        return config

    def reset(self, rng: jax.Array) -> tuple[Any, RandomizedState[InnerStateT]]:
        rng, key = jax.random.split(rng)
        return self._under(self._draw(key)).reset(rng)

    @property
    def carries_over(self) -> bool:
        return not self.redraw or self.env.carries_over

    def reset_after(
        self, state: RandomizedState[InnerStateT]
    ) -> tuple[Any, RandomizedState[InnerStateT]]:
        if not self.carries_over:
            return self.reset(jax.random.split(state.rng)[0])
        if not self.redraw:
            return self._under(state.fields).reset_after(state)
        rng, key = jax.random.split(state.rng)
        return self._under(self._draw(key)).reset_after(state.replace(rng=rng))

    def step(
        self, state: RandomizedState[InnerStateT], action: Any
    ) -> tuple[Any, RandomizedState[InnerStateT], jax.Array, jax.Array, Info]:
        return self._under(state.fields).step(state, action)

    def with_rng(
        self, state: RandomizedState[InnerStateT], rng: jax.Array
    ) -> RandomizedState[InnerStateT]:
        return self._under(state.fields).with_rng(state, rng)

    def action_mask(self, state: RandomizedState[InnerStateT]) -> Any:
        return self._under(state.fields).action_mask(state)

    def render(self, state: RandomizedState[InnerStateT]) -> np.ndarray:
        return self._under(state.fields).render(state)

    def with_config(self, **fields: Any) -> Any:
        """The same wrapper around the environment with other fields changed."""
        if drawn := [name for name in fields if name in self._types]:
            raise FieldError(
                "DomainRandomization.with_config",
                f"expected fields that `sample` does not draw; got {', '.join(map(repr, drawn))}, "
                "whose value would not count. Change the environment without DomainRandomization.",
            )
        changed = copy.copy(self)
        changed.env = self.env.with_config(**fields)
        return changed

    def _under(self, fields: Fields) -> "_InForce":
        return _InForce(self.env, fields)

    def _draw(self, key: jax.Array) -> Fields:
        fields = self._sampled(key)
        if (types := _types(fields)) != self._types:
            raise TypeError(
                "DomainRandomization: expected `sample` to return the same fields, shapes and "
                f"dtypes in every call; got {types} after {self._types}."
            )
        return fields

    def _sampled(self, key: jax.Array) -> Fields:
        fields = self.sample(key)
        require_that(
            isinstance(cast(Any, fields), dict),
            type(self),
            "sample to return a dict of fields of the config",
            f"{fields!r}",
        )
        return {name: _numbers(name, value) for name, value in fields.items()}


class _InForce(StatefulWrapper[Any, Any, RandomizedState[Any], Any, Any]):
    """An environment under the fields of one episode."""

    def __init__(self, env: JaxEnv[Any, Any, Any, Any], fields: Fields) -> None:
        super().__init__(env.with_config(**fields))
        self.fields = fields

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        return obs, {"fields": self.fields}

    def on_step(self, *stepped: Any) -> tuple[Any, ...]:
        return stepped


class _Drawn:
    """In place of the value of a field that is drawn anew for each episode."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"<{self._name} is drawn>"

    def _refuse(self, *_: Any) -> Any:
        raise TypeError(
            f"DomainRandomization: expected no use of `config.{self._name}` around it, since each "
            "episode has a value of its own; got one. Put that wrapper beneath, or take the value "
            "from `state.fields`."
        )

    __bool__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refuse  # pyright: ignore


def _numbers(name: Any, value: Any) -> Any:
    def number(leaf: Any) -> jax.Array:
        try:
            x = strong(leaf)
        except (TypeError, ValueError, OverflowError):
            x = None
        if isinstance(leaf, np.integer) and x is not None and int(x) != int(leaf):
            x = None  # beyond int32
        if x is None or kind(x.dtype) == "other":
            raise TypeError(
                f"DomainRandomization: expected `sample` to draw numbers; got {leaf!r} for "
                f"{name!r}. Leave it out."
            )
        return x

    return jax.tree.map(number, value, is_leaf=lambda x: x is None)


def _types(fields: Fields) -> Fields:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), fields)
