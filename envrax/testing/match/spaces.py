"""Spaces of both sides, compared by what they say: kind, shape, dtype, bounds."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from envrax.testing.match.numbers import text
from envrax.testing.match.reference import Reference
from envrax.testing.match.report import DIFFERS, EQUAL, SKIPPED, Check

INFINITE = 3e38  # a bound that stands for none
CHOICES = ("Discrete", "MultiDiscrete", "MultiBinary")  # the width of their integers says nothing


def check_spaces(env: Any, reference: Reference) -> Check:
    """Both spaces; the dtypes of observations where the reference has no spaces."""
    found: list[str] = []
    for name in ("observation_space", "action_space"):
        raw = reference.raw
        theirs = getattr(raw, f"single_{name}", getattr(raw, name, None))
        if theirs is None:
            said = "; ".join(reference.narrows) or "the reference has none"
            return Check("spaces", DIFFERS if reference.narrows else SKIPPED, said)
        found += _differences(getattr(env, name), theirs, name)
    said = "; ".join(found) or "kinds, shapes, dtypes, bounds"
    return Check("spaces", DIFFERS if found else EQUAL, said)


def _differences(ours: Any, theirs: Any, name: str) -> list[str]:
    """Each fact that differs."""
    a: dict[str, Any] = dict(_facts(ours, name))
    b: dict[str, Any] = dict(_facts(theirs, name))
    pairs: list[Any] = [(fact, a.get(fact), b.get(fact)) for fact in dict.fromkeys([*a, *b])]
    return [f"{k} is {_text(x)}, not {_text(y)}" for k, x, y in pairs if not np.array_equal(x, y)]


def _facts(space: Any, name: str) -> Iterator[tuple[str, Any]]:
    children: Any = getattr(space, "spaces", None)
    if children is not None:
        items: Any = children.items() if hasattr(children, "items") else enumerate(children)
        for key, child in items:
            yield from _facts(child, f"{name}.{key}")
        return
    kind = type(space).__name__
    dtype = "integers" if kind in CHOICES else jax.dtypes.canonicalize_dtype(space.dtype)
    yield name, f"a {kind} of shape {tuple(space.shape)}, of {dtype}"
    for bound in ("n", "nvec", "start", "low", "high"):
        x = getattr(space, bound, None)
        if x is not None and (bound != "start" or np.any(x)):
            x = np.asarray(x, np.float32)
            x = np.where(x > INFINITE, np.inf, np.where(x < -INFINITE, -np.inf, x))
            yield f"{name}.{bound}", np.broadcast_to(x, np.broadcast_shapes(x.shape, space.shape))


def _text(fact: Any) -> str:
    return text(fact) if isinstance(fact, np.ndarray) else str(fact)
