"""The containers of a pytree: as dicts and tuples, and copied."""

from typing import Any, cast

import jax


def as_dicts(tree: Any) -> Any:
    """NamedTuples, and dataclasses that are pytrees, as dicts of their fields, at every depth."""
    if isinstance(tree, dict):
        return {str(k): as_dicts(v) for k, v in cast(dict[Any, Any], tree).items()}
    if hasattr(tree, "_fields"):
        return {name: as_dicts(getattr(tree, name)) for name in tree._fields}
    if hasattr(tree, "__dataclass_fields__") and not jax.tree_util.all_leaves([tree]):
        return {name: as_dicts(getattr(tree, name)) for name in tree.__dataclass_fields__}
    if isinstance(tree, tuple | list):
        return tuple(as_dicts(x) for x in cast(Any, tree))
    return tree


def copy_containers(tree: Any) -> Any:
    """The same leaves in new dicts, lists and other containers."""
    return jax.tree.map(lambda x: x, tree)
