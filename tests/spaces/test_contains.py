"""`contains`: concrete and traced input, and never an exception."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from envrax.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

INF, NAN = float("inf"), float("nan")
UNIT = Box(-1.0, 1.0, (2,))
FREE = Box(-INF, INF, (2,))
BYTES = Box(0, 255, (2,), jnp.uint8)
PAIR = Tuple([Discrete(4), UNIT])
NAMED = Dict(a=Discrete(4), b=PAIR)


class Move(IntEnum):
    LEFT = 0
    RIGHT = 1


INSIDE = [
    # by value
    (Discrete(4), 0),
    (Discrete(4), Move.RIGHT),
    (UNIT, [0, 1]),
    (UNIT, (0.5, -1)),
    (Box(0.1, 0.1, ()), 0.1),
    (Box(0.1, 0.1, (), jnp.bfloat16), 0.1),
    (Box(-INF, INF, ()), 2**70),
    (Box(0, 1, (2, 2)), [[0, 1], (0.5, 0.25)]),
    (Box(0, 1, (2, 0)), [[], []]),
    (MultiBinary(2, bool), [True, False]),
    (Box(0, INF, (), jnp.uint64), 2**64 - 1),
    (Discrete(2**40, jnp.int64), 2**40 - 1),
    (MultiDiscrete((3, 5)), [2, np.int8(4)]),
    (Box(0, 1, (2, 2)), [np.zeros(2), [0, 1]]),
    # arrays, by shape, bounds and kind
    (Discrete(4), np.array(3, np.uint8)),
    (UNIT, np.array([0.1, 1.0], np.float64)),
    (UNIT, jnp.array([0.1, 1.0], jnp.bfloat16)),
    (Box(0.1, 0.1, (1,)), np.array([0.1])),
    (FREE, np.array([1e300, -INF])),
    (BYTES, np.array([0, 255], np.int64)),
    (MultiDiscrete((3, 5)), jnp.array([2, 4], jnp.int8)),
    (MultiBinary(2, bool), np.array([True, False])),
    # nested
    (PAIR, (3, [0, 0])),
    (PAIR, [np.int32(3), np.zeros(2, np.float32)]),
    (NAMED, {"b": (0, [0, 0]), "a": 1}),
    (Dict(), {}),
]

OUTSIDE = [
    # values
    (Discrete(4), 4),
    (Discrete(4), 2**70),
    (UNIT, [0, 1.5]),
    (Box(-INF, INF, ()), 10**400),
    (UNIT, [0, NAN]),
    (FREE, np.array([0, NAN])),
    (Box(0, 3e38, ()), np.float64(1e300)),
    (Discrete(4), np.int64(2**40 + 1)),
    (Discrete(4), np.uint32(2**32 - 1)),
    (Box(-5, 5, (), jnp.int64), np.uint64(2**64 - 1)),
    (Box(300, 400, (), jnp.int32), np.int8(127)),
    (MultiDiscrete((3, 5)), [3, 4]),
    # kinds
    (Discrete(4), 0.5),
    (Discrete(4), True),
    (UNIT, [True, 0.5]),
    (UNIT, np.zeros(2, np.int32)),
    (UNIT, [np.int32(0), 0]),
    (MultiBinary(2), [True, False]),
    (MultiBinary(2, bool), [0, 1]),
    (UNIT, np.zeros(2, np.complex64)),
    (UNIT, np.array([0.0, 0.0], object)),
    (Discrete(4), jax.random.key(0)),
    # shapes and structure
    (UNIT, [0, 0, 0]),
    (UNIT, 0.0),
    (UNIT, np.zeros((1, 2))),
    (Box(0, 1, (2, 2)), [[0, 1], [0]]),
    (Discrete(4), np.array([1])),
    (PAIR, (3,)),
    (PAIR, np.zeros(2)),
    (NAMED, {"a": 1}),
    (NAMED, {"a": 1, 2: (0, [0, 0])}),
    (NAMED, {"a": 1, "b": (0, [0, 2])}),
    (NAMED, [1, (0, [0, 0])]),
]

# NumPy counts a timedelta64 among the signed integers. Hypothesis tries more in test_properties.py.
STRANGE = [np.timedelta64(1, "D"), np.datetime64(1, "D"), np.void(b"1"), np.array(True, "O")]
ODD = [None, "a", object(), {}, {1: 2, "a": 3}, ["a", "b"], range(2), len, int, *STRANGE]
ODD += [np.broadcast_to(x, 2) for x in STRANGE] + [[x, x] for x in STRANGE]


@pytest.mark.parametrize(("space", "x"), INSIDE, ids=repr)
def test_elements_are_inside(space: Space, x: Any) -> None:
    assert space.contains(x) is True
    assert x in space


@pytest.mark.parametrize(("space", "x"), OUTSIDE, ids=repr)
def test_others_are_outside(space: Space, x: Any) -> None:
    assert space.contains(x) is False
    assert x not in space


@pytest.mark.parametrize("space", [Discrete(4), UNIT, MultiBinary(2, bool), PAIR, NAMED], ids=repr)
def test_oddities_are_outside_and_raise_nothing(space: Space) -> None:
    for x in ODD:
        assert space.contains(x) is False


def survives_tracing(x: Any) -> bool:
    """Whether JAX can trace `x` as it is: no strange types, nothing narrowed to 32 bits."""

    def legal(leaf: Any) -> bool:
        if type(leaf) in (bool, float):
            return True
        if type(leaf) is int:
            return -(2**31) <= leaf < 2**31
        if not isinstance(leaf, np.ndarray | np.generic | jax.Array):
            return False
        if isinstance(leaf, np.ndarray | np.generic) and leaf.dtype.kind not in "biufc":
            return False
        return leaf.dtype == jax.dtypes.canonicalize_dtype(leaf.dtype, allow_extended_dtype=True)

    keys = {type(key) for key in x} if isinstance(x, dict) else set()
    return len(keys) <= 1 and all(legal(leaf) for leaf in jax.tree.leaves(x))


def test_traced_candidates_are_judged_as_concrete_ones() -> None:
    cases = [(True, *pair) for pair in INSIDE] + [(False, *pair) for pair in OUTSIDE]
    cases = [(expected, space, x) for expected, space, x in cases if survives_tracing(x)]
    assert len(cases) > 30

    def judge(xs: list[Any]) -> list[Any]:
        verdicts = [space.contains(x) for (_, space, _), x in zip(cases, xs, strict=True)]
        for (_, space, x), verdict in zip(cases, verdicts, strict=True):
            if jax.tree.leaves(x):
                assert isinstance(verdict, jax.Array), (space, x)
                assert (verdict.shape, verdict.dtype) == ((), jnp.bool_)
        return verdicts

    verdicts = jax.jit(judge)([x for _, _, x in cases])
    for (expected, space, x), verdict in zip(cases, verdicts, strict=True):
        assert bool(verdict) is expected, (space, x)


def test_one_traced_leaf_makes_the_verdict_traced() -> None:
    @jax.jit
    def judge(x: jax.Array) -> tuple[Any, ...]:
        verdicts = (
            PAIR.contains((9, [x, 0.0])),
            PAIR.contains((1, [0.0, x])),
            PAIR.contains(x),
            NAMED.contains({"a": x}),
            UNIT.contains([x, True]),
            UNIT.contains([[x], [x]]),
        )
        assert all(isinstance(verdict, jax.Array) for verdict in verdicts)
        assert PAIR.contains((1, [0.0, 0.0])) is True
        assert PAIR.contains((1, [0.0, 9.0])) is False
        return verdicts

    assert [bool(v) for v in judge(jnp.float32(0.5))] == [False, True, *[False] * 4]
    assert [bool(v) for v in judge(jnp.float32(1.5))] == [False] * 6


@pytest.mark.parametrize("dtype", [jnp.int8, jnp.uint8, jnp.int32, jnp.uint32])
def test_traced_integers_of_another_dtype_are_compared_exactly(dtype: Any) -> None:
    limits = jnp.iinfo(dtype)
    values = np.array([limits.min, 0, 100, limits.max], dtype)
    spaces = (
        Box(-5, 5, (), jnp.int32),
        Box(-(2**31), 2**31 - 1, (), jnp.int32),
        Box(90, 2**32 - 1, (), jnp.uint32),
        Box(300, 400, (), jnp.int16),
        Discrete(101, jnp.int8),
    )
    mapped = jax.jit(jax.vmap(lambda x: [space.contains(x) for space in spaces]))(values)
    for space, verdicts in zip(spaces, mapped, strict=True):
        low, top = (space.low, space.high) if isinstance(space, Box) else (0, 100)
        expected = [int(low) <= v <= int(top) for v in values.tolist()]
        assert [space.contains(value) for value in values] == expected
        assert verdicts.tolist() == expected
