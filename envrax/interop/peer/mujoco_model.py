"""The model of an environment of MuJoCo: its fields by dotted name, and changes to them."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.names import suggestion
from envrax._jax.copies import copy_numpy
from envrax._jax.types import is_traced, named_leaves
from envrax.config import FieldError, conformed

# One for all environments: several may share an object of the library.
_LOCK = threading.RLock()


class MujocoModel:
    """
    The model that an environment was built with, and where its library keeps it.

    Parameters
    ----------
    owner : Any
        The library's environment, without wrappers.
    attribute : str
        Its attribute that holds the model.

    Attributes
    ----------
    model : Any
        The model: an `mjx.Model`, a `System` of brax, or None where there is none.
    fields : dict
        Its numbers and arrays by name, with dots for nested ones: `"opt.timestep"`.
    """

    def __init__(self, owner: Any, attribute: str) -> None:
        self._owner = owner
        self._attribute = attribute
        with _LOCK:  # another thread may have set a changed one
            self.model = getattr(owner, attribute, None)
        self.fields = named_leaves(self.model)
        self._structure = jax.tree.structure(self.model)

    def fit_changes(self, who: str, changes: dict[str, Any]) -> dict[str, jax.Array]:
        """
        Changes as arrays of the dtypes of the fields that they replace.

        Raises
        ------
        FieldError
            If a name is unknown or holds no number, or a value does not fit.
        """
        return {name: self._fit(who, name, value) for name, value in changes.items()}

    def differences(self, who: str, model: Any) -> dict[str, jax.Array]:
        """The fields whose arrays in another model are not the same objects as here."""
        if own := getattr(self.model, "mj_model", None):  # another object in each `System`
            model = model.replace(mj_model=own)
        if jax.tree.structure(model) != self._structure:
            raise FieldError(
                f"{who}: expected a model that differs only in the values of arrays; got another "
                "shape or option. Build the environment with that model, and `wrap` it."
            )
        leaves = named_leaves(model)
        return self.fit_changes(who, {k: x for k, x in leaves.items() if x is not self.fields[k]})

    def has_value(self, name: str, value: jax.Array) -> bool:
        """Whether a field has this value already."""
        own = np.asarray(self.fields[name], value.dtype)
        return not is_traced(value) and np.array_equal(value, own)

    def with_changes(self, changes: dict[str, jax.Array]) -> Any:
        """The model with some fields changed."""
        leaves = [changes.get(name, x) for name, x in self.fields.items()]
        return jax.tree.unflatten(self._structure, leaves) if changes else self.model

    @contextmanager
    def set_in_library(self, changes: dict[str, jax.Array]) -> Generator[None]:
        """Inside this block, the library's environment has the changed model."""
        with _LOCK:
            before = getattr(self._owner, self._attribute, None)
            model = self.with_changes(changes)
            if before is model:
                yield
                return
            setattr(self._owner, self._attribute, model)
            try:
                yield
            finally:
                setattr(self._owner, self._attribute, before)

    def _fit(self, who: str, name: str, value: Any) -> jax.Array:
        if name not in self.fields:
            kind = type(self.model).__name__
            raise FieldError(
                f"{who}: expected `params` to name arrays of its {kind}; got `{name}`, "
                f"{self._why_not(str(name))}"
            )
        try:
            value = jnp.asarray(copy_numpy(value))
        except (TypeError, ValueError) as error:
            raise FieldError(
                f"{who}: expected `params.{name}` to be a number or an array; got {value!r}. "
                "Correct it."
            ) from error
        return conformed(who, f"params.{name}", value, self.fields[name])

    def _why_not(self, name: str) -> str:
        """Why a name is not one of `fields`, and what to do."""
        if within := [field for field in self.fields if field.startswith(f"{name}.")]:
            return f"which holds several. Name one: {', '.join(within)}."
        value = self.model
        for part in name.split("."):
            value = getattr(value, part, None)
        if value is not None:
            return "which is static. Build the environment with another value, and `wrap` it."
        return f"which it does not have. {suggestion([name], self.fields)}"


def as_sample(randomizer: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """
    A `sample` for `DomainRandomization` from a library's function for batches.

    Parameters
    ----------
    randomizer : callable
        `randomizer(model, rngs)` returns a batch of models, and for each field the axis of the
        batch, or None where all share it. What all share is the same in every episode.
    """

    def sample(rng: jax.Array, env: Any) -> dict[str, Any]:
        own = env.unwrapped.params
        with jax.ensure_compile_time_eval():  # as values, which can be compared
            shared, axes = randomizer(own, jax.random.key(0)[None])
        if jax.tree.structure(shared) != jax.tree.structure(own):
            raise TypeError(
                "randomizer: expected a function that changes values of arrays; got another option "
                "of the model. Build the environment with that option, and `wrap` it."
            )
        axis_of = named_leaves(axes)
        before = named_leaves(own)
        changes = {
            name: x
            for name, x in named_leaves(shared).items()
            if name not in axis_of and not _is_same(x, before[name])
        }
        models = named_leaves(randomizer(own, rng[None])[0])
        for name, axis in axis_of.items():
            changes[name] = jax.lax.index_in_dim(models[name], 0, axis, keepdims=False)
        if not changes:
            raise TypeError(
                "randomizer: expected a function that changes the model, with an axis for each "
                "field that it draws; got no change. Set 0 there, by `axes.tree_replace`."
            )
        return {"params": changes}

    return sample


def _is_same(x: Any, before: Any) -> bool:
    return x is before or (not is_traced((x, before)) and np.array_equal(x, before))
