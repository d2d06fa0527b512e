"""Illegal definitions, and spaces that users define."""

# The calls here are wrong on purpose.
# pyright: reportArgumentType=false
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import jax_flag

from envrax.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

INF = float("inf")


@pytest.mark.parametrize(
    ("make", "error", "noun"),
    [
        (lambda: Discrete(129, jnp.int8), ValueError, r"\bn\b"),
        (lambda: Discrete((4,)), TypeError, "MultiDiscrete"),
        (lambda: Discrete(4, jnp.float32), TypeError, "integer"),
        (lambda: MultiDiscrete(np.ones((0, 3), int)), ValueError, "nvec"),
        (lambda: MultiDiscrete((3, 0)), ValueError, "nvec"),
        (lambda: MultiDiscrete((3, 1.5)), TypeError, "nvec"),
        (lambda: MultiDiscrete([[1], [1, 2]]), ValueError, "inhomogeneous"),
        (lambda: MultiBinary((2, -1)), ValueError, "dimension"),
        (lambda: MultiBinary(2, jnp.float32), TypeError, "float32"),
        (lambda: Box(np.zeros(3), 1, (2,)), ValueError, "broadcast"),
        (lambda: Box([[0], [0, 1]], 1, (2,)), ValueError, "inhomogeneous"),
        (lambda: Box(float("nan"), 1, ()), ValueError, "nan"),
        (lambda: Box(INF, INF, ()), ValueError, "low"),
        (lambda: Box(-INF, -INF, (), jnp.int8), ValueError, "high"),
        (lambda: Box(0, 1e6, (), jnp.float16), ValueError, "float16"),
        (lambda: Box(-1, 1, (), jnp.uint8), ValueError, "low"),
        (lambda: Box(0, 1.5, (), jnp.int32), ValueError, "int32"),
        (lambda: Box(0, 2.0**63, (), jnp.int64), ValueError, "int64"),
        *(
            (
                lambda low=low: Box(low, np.ones(2)),
                TypeError,
                r"expected a shape, .* Write `Box\(low, high",
            )
            for low in (0, np.zeros(3), np.zeros(()))
        ),
        (lambda: Box("a", 1, ()), TypeError, "numbers"),
        (lambda: Box(0, 1, (), jnp.complex64), TypeError, "complex"),
        (lambda: jax.jit(lambda x: Box(x, 1, ()))(0.0), TypeError, "traced"),
        (lambda: Tuple([Discrete(2), 3]), TypeError, "entry 1"),
        (lambda: Dict(a=3), TypeError, "entry 'a'"),
        (lambda: Dict({1: Discrete(2)}), TypeError, "string keys"),
        (lambda: Dict({"a": Discrete(2)}, a=Discrete(2)), ValueError, "twice"),
        (lambda: Tuple([]).batch(0), ValueError, "at least 1"),
    ],
)
def test_illegal_definitions_are_refused(make: Any, error: type[Exception], noun: str) -> None:
    with pytest.raises(error, match=noun):
        make()


def test_a_box_has_the_shape_of_both_bounds() -> None:
    low, high = np.zeros((2, 3)), np.ones((2, 3))
    assert Box(low, high) == Box(low, high, (2, 3))
    assert Box([0, 1], [1, 2], dtype=jnp.int8) == Box([0, 1], [1, 2], (2,), jnp.int8)


@dataclass(frozen=True)
class Even(Space):
    """Even integers below a bound: a space without array bounds."""

    bound: int
    shape: tuple[int, ...] = ()
    dtype: Any = jnp.int32

    def sample(self, rng: jax.Array, mask: Any = None) -> jax.Array:
        return 2 * jax.random.randint(rng, self.shape, 0, self.bound // 2)

    def contains(self, x: Any) -> bool | jax.Array:
        return (x % 2 == 0).all() & (x >= 0).all() & (x < self.bound).all()

    def batch(self, n: int) -> Even:
        return Even(self.bound, (n, *self.shape))


def test_a_space_of_ones_own_nests_and_has_a_size() -> None:
    space = Dict(a=Even(10), b=Tuple([Even(4).batch(2)]))
    assert space.batch(3).size == Even(1).batch(3).size + 6 == 9
    assert space == Dict(a=Even(10), b=Tuple([Even(4, (2,))]))
    sampled, inside = jax.jit(lambda rng: (x := space.sample(rng), space.contains(x)))(
        jax.random.key(0)
    )
    x = jax.tree.map(np.asarray, sampled)
    assert bool(space.contains(x)) and bool(inside)
    assert space.contains({**x, "a": np.int32(3)}) is False


@pytest.mark.parametrize("missing", ["sample", "contains", "batch"])
def test_a_space_of_ones_own_defines_what_it_does(missing: str) -> None:
    members: dict[str, Any] = dict.fromkeys(("sample", "contains", "batch"))
    assert isinstance(type("Whole", (Space,), dict(members))(), Space)
    del members[missing]
    with pytest.raises(TypeError, match=missing):
        type("Partial", (Space,), members)()


def test_integer_bounds_are_exact_beyond_those_of_floats() -> None:
    edges = np.asarray([2**53 + 1, 2**62 + 1], np.int64)
    with jax_flag("jax_enable_x64", True):
        space = Box(edges, edges + 1, (2,), np.int64)
    np.testing.assert_array_equal(space.low, edges)
    np.testing.assert_array_equal(space.high, edges + 1)
