"""Illegal definitions are refused in a sentence, and spaces of one's own are welcome."""

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
    ("make", "error", "message"),
    [
        (lambda: Discrete(0), ValueError, r"Discrete: expected n to be between 1 and .*; got 0\."),
        (lambda: Discrete(-3), ValueError, r"got -3\."),
        (lambda: Discrete(129, jnp.int8), ValueError, r"between 1 and 128 for int8; got 129\."),
        (lambda: Discrete(2.0), TypeError, r"Discrete: expected n to be an int; got 2\.0\."),
        (lambda: Discrete("4"), TypeError, r"expected n to be an int; got '4'\."),
        (lambda: Discrete((4,)), TypeError, r"expected n to be an int; .* Use MultiDiscrete\."),
        (lambda: Discrete(4, jnp.float32), TypeError, r"Discrete: .* kind integer; got float32\."),
        (lambda: MultiDiscrete(()), ValueError, r"non-empty nvec; got shape \(0,\)\."),
        (lambda: MultiDiscrete(np.ones((0, 3), int)), ValueError, r"got shape \(0, 3\)\."),
        (lambda: MultiDiscrete((3, 0)), ValueError, r"every entry of nvec to be between .* got 0"),
        (lambda: MultiDiscrete((3, 1.5)), TypeError, r"nvec to be an int; got 3\.0\."),
        (lambda: MultiDiscrete([[1], [1, 2]]), ValueError, r"MultiDiscrete: .* ragged list\."),
        (lambda: MultiBinary(0), ValueError, r"MultiBinary: expected every dimension >= 1; got 0"),
        (lambda: MultiBinary((2, -1)), ValueError, r"dimension >= 1; got \(2, -1\)\."),
        (lambda: MultiBinary(2, jnp.float32), TypeError, r"integer or bool; got float32\."),
        (lambda: Box(1, 0, (2,)), ValueError, r"expected low <= high; got <?.*1.* and .*0"),
        (lambda: Box([0, 2], 1, (2,)), ValueError, r"Box: expected low <= high"),
        (lambda: Box(0, 1, (2, -1)), ValueError, r"Box: expected every dimension >= 0"),
        (lambda: Box(0, 1, -1), ValueError, r"dimension >= 0; got -1\."),
        (lambda: Box(np.zeros(3), 1, (2,)), ValueError, r"low to broadcast .*\(2,\); got .*\(3,\)"),
        (lambda: Box([[0], [0, 1]], 1, (2,)), ValueError, r"Box: low: .* ragged list\."),
        (lambda: Box(float("nan"), 1, ()), ValueError, r"low to be numbers that float32.* got nan"),
        (lambda: Box(0, float("nan"), (), jnp.int8), ValueError, r"high to be .* int8 .* got nan"),
        (lambda: Box(INF, INF, ()), ValueError, r"low .* or -inf; got inf\."),
        (lambda: Box(-INF, -INF, (), jnp.int8), ValueError, r"high .* or inf; got -inf\."),
        (
            lambda: Box(0, 1e6, (), jnp.float16),
            ValueError,
            r"float16 can hold, or inf; got 1000000",
        ),
        (lambda: Box(0, 10**400, ()), ValueError, r"high to be numbers that float32 can hold"),
        (lambda: Box(0, 256, (), jnp.uint8), ValueError, r"high .* uint8 can hold.* got 256\."),
        (lambda: Box(-1, 1, (), jnp.uint8), ValueError, r"low .* uint8 can hold.* got -1\."),
        (lambda: Box(0, 1.5, (), jnp.int32), ValueError, r"high .* int32 can hold.* got 1\.5\."),
        (lambda: Box(0, 2.0**63, (), jnp.int64), ValueError, r"int64 can hold"),
        (lambda: Box("a", 1, ()), TypeError, r"expected low to hold numbers; got 'a'\."),
        (lambda: Box(None, 1, ()), TypeError, r"expected low to hold numbers; got None\."),
        (lambda: Box(0, 1, (), jnp.complex64), TypeError, r"float or integer or bool; got complex"),
        (lambda: jax.jit(lambda x: Box(x, 1, ()))(0.0), TypeError, r"traced array\. Build spaces"),
        (lambda: Tuple([Discrete(2), 3]), TypeError, r"Tuple: entry 1: expected a Space; got 3\."),
        (lambda: Dict(a=3), TypeError, r"Dict: entry 'a': expected a Space; got 3\."),
        (lambda: Dict({1: Discrete(2)}), TypeError, r"Dict: expected string keys; got 1\."),
        (lambda: Dict({"a": Discrete(2)}, a=Discrete(2)), ValueError, r"once; got \['a'\] twice"),
    ],
)
def test_illegal_definitions_are_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


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
    x = space.sample(jax.random.key(0))
    assert space.contains(x) is True
    assert bool(jax.jit(space.contains)(x))
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
