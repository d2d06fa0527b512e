"""Sums over millions of steps: the rounding error is not lost, and nothing becomes NaN."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from envrax.wrappers.vector.statistics import add

F32 = jnp.float32
TENTH = np.float32(0.1)


def with_scan(x: Any, n: int) -> Any:
    return jax.lax.scan(lambda carry, _: (add(*carry, x), None), (F32(0), F32(0)), length=n)[0]


def with_while(x: Any, n: int) -> Any:
    carry = jnp.int32(0), (F32(0), F32(0))
    return jax.lax.while_loop(
        lambda carry: carry[0] < n, lambda carry: (carry[0] + 1, add(*carry[1], x)), carry
    )[1]


@pytest.mark.parametrize("level", ["0", "3"])
@pytest.mark.parametrize("loop", [with_scan, with_while])
def test_a_million_steps_are_exact_to_rounding(loop: Any, level: str) -> None:
    n = 1_000_000
    compiled = jax.jit(loop, static_argnums=1).lower(TENTH, n)
    total, _ = compiled.compile({"xla_backend_optimization_level": level})(TENTH)
    assert total.dtype == F32
    assert abs(float(total) / (float(TENTH) * n) - 1) < 2**-23


def test_small_sums_of_large_terms_keep_their_digits() -> None:
    random = np.random.default_rng(0)
    terms = (random.standard_normal(10_000) * 10.0 ** random.integers(-3, 4, 10_000)).astype(F32)
    terms = np.concatenate([terms, -terms[1:]])
    total, _ = jax.jit(
        lambda x: jax.lax.scan(lambda c, x: (add(*c, x), None), (F32(0),) * 2, x)[0]
    )(terms)
    np.testing.assert_allclose(float(total), float(terms[0]), rtol=1e-5)


def test_a_tree_is_summed_leaf_by_leaf() -> None:
    tree = {"left": F32(1e8), "right": np.float32([1e8, 1])}
    zero = jax.tree.map(np.zeros_like, tree)
    total, low = jax.jit(add)(tree, zero, {"left": F32(1), "right": np.float32([2, 2])})
    assert jax.tree.map(lambda x: x.tolist(), total) == {"left": 1e8, "right": [1e8, 3]}
    assert jax.tree.map(lambda x: x.tolist(), low) == {"left": 1, "right": [2, 0]}


@pytest.mark.parametrize(
    ("terms", "total"),
    [
        ((1.0, np.inf, 1.0), np.inf),
        ((-np.inf, 5.0), -np.inf),
        ((3e38, 3e38, 1.0), np.inf),
        ((np.inf, -np.inf, 1.0), np.nan),
        ((np.nan, 1.0), np.nan),
    ],
)
def test_what_is_not_finite_is_as_in_a_plain_sum(terms: Any, total: float) -> None:
    carry, plus = (F32(0), F32(0)), jax.jit(add)
    for x in terms:
        carry = plus(*carry, F32(x))
    np.testing.assert_equal(float(carry[0]), total)


def test_the_gradient_is_that_of_a_sum() -> None:
    def returned(x: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda c, x: (add(*c, x), None), (F32(0), F32(0)), x)[0][0]

    assert jax.jit(jax.grad(returned))(np.arange(5, dtype=F32)).tolist() == [1] * 5
