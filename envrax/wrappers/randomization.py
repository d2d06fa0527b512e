"""`DomainRandomization`: draw config fields at random for every episode, or once for every slot."""

import copy
from collections.abc import Callable
from typing import Any, Generic, cast

import chex
import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.callables import accepts
from envrax._jax.keys import key_types
from envrax._jax.returned import strip_weak_type
from envrax.config import FieldError, frozen_copy
from envrax.env import ActSpaceT, ConfigT, Info, JaxEnv, ObsSpaceT, carries_over, with_config
from envrax.wrappers.base import layers, require_that
from envrax.wrappers.stateful import InnerStateT, StatefulWrapper, WrapperState
from envrax.wrappers.traced_fields import Fields, require_dynamic


@chex.dataclass
class RandomizedState(WrapperState[InnerStateT]):
    """
    State of `DomainRandomization`.

    Attributes
    ----------
    fields : dict
        The values that `sample` returned for this episode, by name of the config field.
    """

    fields: dict[str, Any]


class DomainRandomization(
    StatefulWrapper[ObsSpaceT, ActSpaceT, RandomizedState[InnerStateT], ConfigT, InnerStateT],
    Generic[ObsSpaceT, ActSpaceT, ConfigT, InnerStateT],
):
    """
    Draw fields of the config at random for every episode, or once for every slot.

    The drawn values are traced arrays, kept in the state. `reset`, `step`, `action_mask` and
    `render` of that episode use them: each call rebuilds the wrapped environment by `with_config`.
    Its config then holds float32, int32 or bool arrays instead of Python numbers.

    The environment may use drawn fields only in arithmetic, not for shapes, spaces, Python branches
    or strings. In `config` of this wrapper, using a drawn field raises a TypeError.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    sample : callable
        `sample(rng) -> dict` of config fields, with the same keys in every call. For a field that
        is a dict, such as the `params` of another library, it returns the entries to change:
        `{"params": {...}}`. If it has a second parameter named `env`, it is called with the wrapped
        environment.
    redraw : bool, default True
        Whether auto-reset draws new values. If False, a slot keeps the values of its first reset.

    Raises
    ------
    TypeError
        If `sample` does not return a dict of numbers, a field is unknown or used as a static value,
        or a number does not fit its field (a float for an int, another shape). The message names
        the field.
    RuntimeError
        If the environment or one of its wrappers cannot be traced, such as `RecordVideo`.

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
            f"{cls.__name__}: expected a wrapper outside of DomainRandomization; got a subclass of "
            "it, whose `reset` would draw again. Subclass `Wrapper`, and wrap DomainRandomization."
        )

    def __init__(
        self,
        env: JaxEnv[ObsSpaceT, ActSpaceT, InnerStateT, ConfigT],
        sample: Callable[..., Fields],
        redraw: bool = True,
    ) -> None:
        super().__init__(env)
        require_that(callable(sample), type(self), "sample to be a function of a key", sample)
        self.sample = sample
        self.redraw = redraw
        types = cast(Fields, jax.eval_shape(self._draw, key_types()[0]))
        for layer in layers(env):
            drawn = _in_both(types, layer._fields) if isinstance(layer, DomainRandomization) else []
            expected = "fields that no `DomainRandomization` inside of it draws"
            require_that(not drawn, type(self), expected, ", ".join(drawn), "Draw them in one.")
        require_dynamic("DomainRandomization", env, types)
        self._drawn = tuple(types)
        self._fields = types

    @property
    def config(self) -> ConfigT:
        """The config of the wrapped environment. Using a drawn field raises a TypeError."""
        return frozen_copy(self.env.config, {name: DrawnField(name) for name in self._drawn})

    def _carries_over(self) -> bool:
        return not self.redraw or self.env._carries_over()

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        return obs, {"fields": self._fields}

    def reset(self, rng: jax.Array) -> tuple[Any, RandomizedState[InnerStateT]]:
        rng, key = jax.random.split(rng)
        return self._with_fields(self._draw(key)).reset(rng)

    def reset_after(
        self, state: RandomizedState[InnerStateT]
    ) -> tuple[Any, RandomizedState[InnerStateT]]:
        if not carries_over(self):
            return self.reset(jax.random.split(state.rng)[0])
        if not self.redraw:
            return self._with_fields(state.fields).reset_after(state)
        rng, key = jax.random.split(state.rng)
        return self._with_fields(self._draw(key)).reset_after(state.replace(rng=rng))

    def step(
        self, state: RandomizedState[InnerStateT], action: Any
    ) -> tuple[Any, RandomizedState[InnerStateT], jax.Array, jax.Array, Info]:
        return self._with_fields(state.fields).step(state, action)

    def at_limit(self, state: RandomizedState[InnerStateT]) -> jax.Array:
        return self._with_fields(state.fields).at_limit(state)

    def action_mask(self, state: RandomizedState[InnerStateT]) -> Any:
        return self._with_fields(state.fields).action_mask(state)

    def observe(self, state: RandomizedState[InnerStateT]) -> Any:
        return self._with_fields(state.fields)._observe_inner(state.env_state)

    def active(self, state: RandomizedState[InnerStateT]) -> dict[str, jax.Array]:
        return self._with_fields(state.fields).active(state)

    def render(self, state: RandomizedState[InnerStateT]) -> np.ndarray:
        return self._with_fields(state.fields).render(state)

    def _with_config(self, fields: Fields) -> Any:
        if drawn := _in_both(fields, self._fields):
            raise FieldError(
                "with_config of DomainRandomization: expected fields that `sample` does not draw; "
                f"got {', '.join(drawn)}. Use the environment without DomainRandomization."
            )
        changed = copy.copy(self)
        changed.env = with_config(self.env, **fields)
        return changed

    def _with_fields(self, fields: Fields) -> Any:
        """`super()` of a copy of this wrapper, whose environment has these fields in its config."""
        changed = copy.copy(self)
        changed.env = with_config(self.env, **fields)
        changed._fields = fields
        return super(DomainRandomization, changed)

    def _draw(self, key: jax.Array) -> Fields:
        kwargs = {name: self.env for name in accepts(self.sample, ("env",), 1)}
        fields = cast(Any, self.sample(key, **kwargs))
        expected = "sample to return a dict of fields of the config"
        require_that(isinstance(fields, dict), type(self), expected, fields)
        return {name: _as_numbers(name, value) for name, value in fields.items()}


class DrawnField:
    """What `config` shows in place of a value that each episode draws."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"<{self._name} is drawn>"

    def refuse(self, *_: Any) -> Any:
        raise TypeError(
            f"DomainRandomization: expected `config.{self._name}` to be used only inside of this "
            "wrapper, since every episode has its own value; got a use outside. Put the wrapper "
            "that uses it inside DomainRandomization, take the value from `state.fields`, or give "
            "the wrapper a value of its own, as in `TimeLimit(env, max_steps=...)`."
        )


# Without these, Python would say that a `DrawnField` has no such operator.
_OPERATORS = (
    "eq ne lt le gt ge hash bool int float complex index round trunc floor ceil abs neg pos invert "
    "add sub mul truediv floordiv mod divmod pow matmul and or xor lshift rshift "
    "radd rsub rmul rtruediv rfloordiv rmod rdivmod rpow rmatmul rand ror rxor rlshift rrshift "
    "len iter getitem contains call array"
)
for _name in _OPERATORS.split():
    setattr(DrawnField, f"__{_name}__", DrawnField.refuse)


def _in_both(fields: Fields, drawn: Fields) -> list[str]:
    """The fields that are drawn too. Of a field that is a dict, only the entries that are."""
    names: list[str] = []
    for name in fields.keys() & drawn:
        inner = (fields[name], drawn[name])
        if all(isinstance(x, dict) for x in inner):
            names += [f"{name}.{entry}" for entry in _in_both(*inner)]
        else:
            names.append(name)
    return sorted(names)


def _as_numbers(name: str, value: Any) -> Any:
    try:
        # JAX takes None for an empty pytree.
        return strip_weak_type(jax.tree.map(jnp.asarray, value, is_leaf=lambda x: x is None))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"DomainRandomization: expected `sample` to return numbers; got {value!r} for "
            f"{name!r}. Leave {name!r} out."
        ) from error
