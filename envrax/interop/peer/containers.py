"""The containers of a pytree: as dicts and tuples, and copied."""

from typing import Any, cast

import jax

from envrax.spaces import Space
from envrax.spaces.base import is_list, is_mapping
from envrax.spaces.composite import map_leaves


def as_dicts(tree: Any) -> Any:
    """Mappings as dicts; NamedTuples, and dataclasses that are pytrees, as dicts of fields."""
    if is_mapping(tree):
        return {str(k): as_dicts(v) for k, v in tree.items()}
    if hasattr(tree, "_fields"):
        return {name: as_dicts(getattr(tree, name)) for name in tree._fields}
    if hasattr(tree, "__dataclass_fields__") and not jax.tree_util.all_leaves([tree]):
        return {name: as_dicts(getattr(tree, name)) for name in tree.__dataclass_fields__}
    if isinstance(tree, tuple | list):
        return tuple(as_dicts(x) for x in cast(Any, tree))
    return tree


def as_in_space(space: Space, x: Any) -> Any:
    """An element in the dicts and tuples of its space, whatever containers it came in."""
    return map_leaves(lambda _, leaf: leaf, space, x)


def mappings_as_dicts(tree: Any) -> Any:
    """Mappings of any class as dicts. Tuples and lists stay what they are."""
    if is_mapping(tree):
        return {name: mappings_as_dicts(x) for name, x in tree.items()}
    if is_list(tree):
        items = map(mappings_as_dicts, tree)
        make: Any = getattr(tree, "_make", type(tree))  # of a NamedTuple
        return make(items)
    return tree


def copy_containers(tree: Any) -> Any:
    """The same leaves in new dicts, lists and other containers."""
    return jax.tree.map(lambda x: x, tree)
