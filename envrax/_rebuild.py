"""The same environment with another config: its class is called again."""

import copy
import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks import suggestion
from envrax._edits import require_unedited
from envrax._jax.programs import strong
from envrax.spaces.base import canonical, kind

ObjectT = TypeVar("ObjectT")

_DTYPES: dict[type, Any] = {bool: np.bool_, int: np.int32, float: np.float32}


class FieldError(TypeError):
    """A value that a field of a config cannot have: who says so, and the sentence."""

    def __init__(self, who: str, sentence: str) -> None:
        super().__init__(f"{who}: {sentence}")
        self.sentence = sentence


def rebuilt(env: ObjectT, fields: dict[str, Any]) -> ObjectT:
    """
    A new object of the class of an environment, from its config with some fields changed.

    Raises
    ------
    FieldError
        If there is no such field, or an array does not fit it.
    TypeError
        If the class takes more than a config, or the object was edited after it was built.
    """
    cls, config = cast(Any, type(env)), cast(Any, env).config
    who = f"{cls.__name__}.with_config"
    known = {field.name: field for field in dataclasses.fields(config) if field.init}
    require_known(who, fields, known)
    if others := list(_other_parameters(cls)):
        raise TypeError(
            f"{who}: expected a class whose `__init__` takes a config alone; got one with "
            f"{', '.join(others)}. Override `with_config(**fields)`: return {cls.__name__} with "
            "`self.config.replace(**fields)` and the same other arguments."
        )
    if hasattr(type(config), "__post_init__"):
        raise TypeError(
            f"{who}: expected a config without `__post_init__`, whose results would stay as they "
            f"are; got {type(config).__name__}. Compute them in `__init__` of the environment, or "
            "override `with_config(**fields)`."
        )
    require_unedited(who, env, lambda: cls(config))
    values = {
        name: conformed(who, name, value, _in_force(known[name], getattr(config, name)))
        for name, value in fields.items()
    }
    return cls(dataclasses.replace(config, **values))


def require_known(who: str, given: Any, known: Any, what: str = "fields") -> None:
    """Refuse names of fields, or keys of a dict, that there are not."""
    known = list(known)
    if unknown := [name for name in given if name not in known]:
        names = [str(name) for name in known]
        raise FieldError(
            who,
            f"expected {what} of {', '.join(names) or 'no name: there are none'}; "
            f"got {', '.join(map(repr, unknown))}. {suggestion(map(str, unknown), names)}",
        )


def conformed(who: str, name: str, value: Any, in_force: Any) -> Any:
    """
    The value of a field, its JAX arrays in the dtype of what they replace.

    A Python bool, int or float stands for bool, int32 or float32. A value without JAX arrays is
    kept as it is, and so is anything in place of None or of an empty dict. In place of another
    dict, a dict changes some of its entries.

    Raises
    ------
    FieldError
        If it has another structure, shape or kind of numbers, what it replaces is no number, or a
        dict has no such entry.
    """
    if all(isinstance(x, dict) for x in (value, in_force)) and in_force:
        return _merged(who, name, value, in_force)
    leaves, structure = cast(Any, jax.tree.flatten(value))
    if in_force is None or not any(isinstance(x, jax.Array) for x in leaves):
        return value
    paths, wanted = cast(Any, jax.tree_util.tree_flatten_with_path(in_force))
    if structure != wanted:
        raise FieldError(
            who,
            f"expected `{name}` structured as {in_force!r}; got {structure}. Give it the same "
            "structure.",
        )
    names = [f"{name}{jax.tree_util.keystr(path)}" for path, _ in paths]
    pairs = zip(names, leaves, [x for _, x in paths], strict=True)
    return jax.tree.unflatten(structure, [_number(who, *pair) for pair in pairs])


def _merged(who: str, name: str, changes: dict[Any, Any], in_force: dict[Any, Any]) -> Any:
    """A dict with some of its entries changed."""
    require_known(who, changes, in_force, f"`{name}`")
    merged = copy.copy(in_force)  # of the same class
    for key, value in changes.items():
        merged[key] = conformed(who, f"{name}.{key}", value, in_force[key])
    return merged


def _other_parameters(cls: Any) -> Iterator[str]:
    """What `__init__` takes besides a config, first of all."""
    for base in cls.__mro__:
        if "__init__" in vars(base):
            parameters = list(inspect.signature(base.__init__).parameters.values())[1:]
            named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
            yield from (repr(p.name) for p in named[1:])
            if len(named) == len(parameters):
                if not named:
                    yield "no parameter"
                return


def _in_force(field: Any, value: Any) -> Any:
    """The value of a field; 10 in a field of floats is 10.0."""
    return float(value) if type(value) is int and field.type in (float, "float") else value


def _number(who: str, name: str, x: Any, in_force: Any) -> Any:
    dtype = _DTYPES.get(type(in_force), getattr(in_force, "dtype", None))
    wanted = "other" if dtype is None else kind(dtype)
    if wanted == "other":
        raise FieldError(
            who,
            f"expected `{name}` to stay static, since its value {in_force!r} is no number; got "
            f"{jnp.result_type(x)}{list(np.shape(x))}. Leave it out.",
        )
    if not isinstance(x, jax.Array):
        return x
    got = kind(x.dtype)
    if (got != wanted and (got, wanted) != ("integer", "float")) or x.shape != np.shape(in_force):
        shape = f" of shape {np.shape(in_force)}" if np.shape(in_force) else ""
        raise FieldError(
            who,
            f"expected `{name}` to be {'an' if wanted == 'integer' else 'a'} {wanted}{shape}, as "
            f"its value {in_force!r} is; got {x.dtype}{list(x.shape)}. Cast it, or give the field "
            "another default.",
        )
    return strong(jnp.asarray(x, canonical(dtype)))
