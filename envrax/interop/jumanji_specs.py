# pyright: basic
"""Spaces of envrax from specs of jumanji."""

from collections.abc import Collection, Mapping
from typing import Any

from envrax.interop.peer.library import require
from envrax.interop.peer.spaces import box, unbounded
from envrax.spaces import Dict, Discrete, Space

specs: Any = require("jumanji", "1.1").specs


def space_of(
    spec: Any,
    types: Any,
    who: str,
    path: str,
    bounds: Mapping[str, tuple[Any, Any]] = {},
    rows: Collection[str] = (),
    lead: int = 0,
) -> Space:
    """
    The space of a spec, in the dtypes that are observed.

    Parameters
    ----------
    spec : jumanji.specs.Spec
        The spec.
    types : pytree of jax.ShapeDtypeStruct
        Shapes and dtypes that are observed.
    who, path : str
        The environment, and the name of the spec, for the message.
    bounds : mapping, optional
        Low and high by key, in place of those of the spec; a high of None is that of the spec.
    rows : collection of str, optional
        Keys whose arrays have a row for each agent, where the space is that of one agent.
    lead : int, default 0
        1 if the spec has a first axis of agents, which the space leaves out.

    Raises
    ------
    TypeError
        If the types are not those of the spec.
    """
    children = {k: x for k, x in vars(spec).items() if isinstance(x, specs.Spec)}
    fits = set(children) == set(types if hasattr(types, "keys") else ())
    if not fits or (not children and types.shape != spec.shape[lead:]):
        raise TypeError(
            f"{who}: expected `{path}` as in the spec, {spec}; got {types}. The library breaks its "
            "own contract here; wrap its environment and correct it."
        )
    if children:
        spaces: dict[str, Space] = {}
        for key, child in children.items():
            child_lead = lead or int(key in rows)
            child_path = f"{path}.{key}"
            spaces[key] = space_of(child, types[key], who, child_path, bounds, rows, child_lead)
        return Dict(spaces)
    if not isinstance(spec, specs.BoundedArray):
        return unbounded(types)
    key = path.rpartition(".")[2]
    if key in bounds:
        low, high = bounds[key]
        return box(low, spec.maximum if high is None else high, types)
    if isinstance(spec, specs.DiscreteArray):
        return Discrete(spec.num_values, types.dtype)
    return box(spec.minimum, spec.maximum, types)
