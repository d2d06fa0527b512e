"""`register_for_export`: the classes of pytrees in programs that `jax.export` writes to a file."""

import json
import sys
from collections.abc import Iterator
from typing import Any

from jax import export

_registered: set[type] = set()


def register_for_export(*classes: type) -> None:
    """
    Let `jax.export` write and read programs that take or return states, a `Rollout` and the like.

    Call it before `serialize`, and in the process that reads the program before `deserialize`.
    Classes of envrax are registered if they have been imported: a file with the state of a wrapper
    or of an adapter needs the module of it. It is safe to repeat.

    Parameters
    ----------
    *classes : type
        Classes of your own: states and other dataclasses with `@chex.dataclass`, and NamedTuples.
        A file has their modules and names, as a pickle has.

    Raises
    ------
    TypeError
        If one is neither.

    Examples
    --------
    >>> import envrax, jax
    >>> from envrax.testing import CountingEnv
    >>> env = envrax.VecEnv(CountingEnv(), 4)
    >>> play = jax.jit(lambda at: envrax.rollout(env, None, at, 10))
    >>> program = jax.export.export(play)(envrax.start(env, jax.random.key(0)))
    >>> register_for_export()
    >>> file = program.serialize()
    >>> jax.export.deserialize(file).fun_name
    '<lambda>'
    """
    for cls in (*_own_classes(), *classes):
        if not _is_pytree(cls):
            raise TypeError(
                "register_for_export: expected classes with `@chex.dataclass`, and NamedTuples; "
                f"got {cls!r}. `jax.export.register_pytree_node_serialization` takes any other."
            )
        if cls not in _registered:
            _registered.add(cls)
            _register(cls, f"{cls.__module__}.{cls.__qualname__}")


def _register(cls: Any, name: str) -> None:
    if hasattr(cls, "_fields"):
        export.register_namedtuple_serialization(cls, serialized_name=name)
        return
    export.register_pytree_node_serialization(
        cls,
        serialized_name=name,
        serialize_auxdata=lambda names: json.dumps(names).encode(),
        deserialize_auxdata=lambda data: tuple(json.loads(data)),
        from_children=lambda aux_data, children: cls(**dict(zip(aux_data, children, strict=True))),
    )


def _own_classes() -> Iterator[Any]:
    own = [(k, x) for k, x in [*sys.modules.items()] if x and k.partition(".")[0] == "envrax"]
    for name, module in own:
        here = [x for x in vars(module).values() if getattr(x, "__module__", None) == name]
        yield from filter(_is_pytree, here)


def _is_pytree(x: Any) -> bool:
    """Whether it is a class with `@chex.dataclass`, which adds `to_tuple`, or a NamedTuple."""
    return isinstance(x, type) and (hasattr(x, "to_tuple") or hasattr(x, "_fields"))
