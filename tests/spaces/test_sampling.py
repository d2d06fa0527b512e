"""What spaces draw: legal, finite and uniform for every dtype and every kind of bounds."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from envrax.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from envrax.spaces.sampling import draw_floats

INF = float("inf")
N = 20_000  # draws; a share then has a standard deviation of at most 0.0036
SHARE = 0.02
I32 = np.iinfo(np.int32)
MIXED = Box(
    np.array([-1.0, -INF, 2.0, -INF, 3.0]), np.array([1.0, -2.0, INF, INF, 3.0]), (5,), jnp.float32
)
EVERY_KIND = Dict(
    a=Discrete(3),
    b=Tuple([Box(0.0, np.array([1.0, INF]), (2,), jnp.float16), Box(0, 255, (2,), jnp.uint8)]),
    c=MultiBinary(2, bool),
)


def draws(space: Space, n: int = N) -> np.ndarray:
    return np.asarray(space.batch(n).sample(jax.random.key(0)))


def draws_of_each(spaces: list[Space], n: int = N) -> list[np.ndarray]:
    """Draws from several spaces, compiled as one program."""
    return [np.asarray(x) for x in Tuple(spaces).batch(n).sample(jax.random.key(0))]


FEW = [
    (Discrete(3), 0, 2),
    (Discrete(5, jnp.uint8), 0, 4),
    (Discrete(256, jnp.uint8), 0, 255),
    (Discrete(1), 0, 0),
    (MultiBinary(1), 0, 1),
    (MultiBinary(1, bool), False, True),
    (Box(-3, 3, (), jnp.int8), -3, 3),
    (Box(I32.max - 4, INF, (), jnp.int32), I32.max - 4, I32.max),
    (Box(-INF, I32.min + 4, (), jnp.int32), I32.min, I32.min + 4),
    (Box(2**32 - 5, INF, (), jnp.uint32), 2**32 - 5, 2**32 - 1),
]


def test_integers_are_uniform_on_few_values() -> None:
    drawn = draws_of_each([space for space, _, _ in FEW])
    for (space, low, high), each in zip(FEW, drawn, strict=True):
        values, counts = np.unique(each, return_counts=True)
        assert values.dtype == space.dtype, space
        assert values.tolist() == list(range(low, high + 1)), space
        np.testing.assert_allclose(counts / N, 1 / (high - low + 1), atol=SHARE)


WIDE = [
    (0, 3 * 2**30 - 1, jnp.uint32),  # jax.random.randint draws a third of these values twice
    (-INF, INF, jnp.int32),
    (0, INF, jnp.int32),
    (-INF, 2**30 - 1, jnp.int32),
    (-INF, INF, jnp.int8),
    (-(2**15), 2**15 - 1, jnp.int32),
    (0, 65_535, jnp.uint16),
]


def test_integers_are_uniform_on_wide_ranges() -> None:
    boxes = [Box(np.array([low]), np.array([high]), (1,), dtype) for low, high, dtype in WIDE]
    for box, drawn in zip(boxes, draws_of_each([*boxes]), strict=True):
        least, most = int(box.low[0]), int(box.high[0])
        scaled = (drawn.astype(np.float64) - least) / (most - least + 1)
        shares, _ = np.histogram(scaled, bins=np.arange(13) / 12)
        np.testing.assert_allclose(shares / N, 1 / 12, atol=SHARE, err_msg=repr(box))
        if most - least >= 2**16:
            assert len(set(scaled.ravel().tolist())) > 0.8 * N, box


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.float32, jnp.float64])
def test_floats_are_uniform_between_bounds(dtype: Any) -> None:
    low, high = np.array([-1.0, 0.0, -6e4]), np.array([3.0, 1e-3, 6e4])
    scaled = (draws(Box(low, high, (3,), dtype)).astype(np.float64) - low) / (high - low)
    for column in scaled.T:
        shares, _ = np.histogram(column, bins=[-0.01, 0.25, 0.5, 0.75, 1.01])
        np.testing.assert_allclose(shares / N, 0.25, atol=SHARE)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16, jnp.float64])
def test_floats_without_bounds_are_normal_and_exponential(dtype: Any) -> None:
    values = draws(Box(MIXED.low, MIXED.high, (5,), dtype)).astype(np.float64)
    assert np.isfinite(values).all()
    bounded, below, above, free, point = values.T
    assert (np.abs(bounded) <= 1).all()
    assert below.max() <= -2 and abs(below.mean() + 3) < 0.05  # -2 - exponential
    assert above.min() >= 2 and abs(above.mean() - 3) < 0.05
    assert abs(free.mean()) < 0.05 and abs(free.std() - 1) < 0.05
    assert (point == 3).all()
    assert np.abs(np.corrcoef(values[:, :4].T) - np.eye(4)).max() < 0.05


EXTREME: list[Space] = [
    Box(-3.4e38, 3.4e38, ()),
    Box(float(np.finfo(np.float32).max), INF, ()),
    Box(65_504, INF, (), jnp.float16),
    Box(-INF, -65_504, (), jnp.float16),
    Box(-65_504, 65_504, (), jnp.float16),
    Box(0.1, 0.1, ()),
    Box(1 / 3, 1 / 3, (), jnp.bfloat16),
    Box(-1e300, 1e300, (), jnp.float64),
    Box(0.1, 0.1, (), jnp.float64),
    Box(-INF, INF, (), jnp.float64),
    Box(0, 2**40, (), jnp.int64),
    Box(-INF, INF, (), jnp.uint64),
]


def test_extreme_bounds_give_finite_elements_without_a_warning() -> None:
    for space, values in zip(EXTREME, draws_of_each(EXTREME, 200), strict=True):
        assert np.isfinite(values.astype(np.float64)).all(), space
        assert space.batch(200).contains(values) is True, space


TINY = float(np.finfo(np.float32).tiny)


@pytest.mark.parametrize(
    ("space", "values"),
    [
        (Box(1e-45, 2e-45, ()), {0.0}),
        (Box(-2e-45, -1e-45, ()), {0.0}),
        (Box(1e-40, 1e-39, (), jnp.bfloat16), {0.0}),
        (Box(1e-40, 1e-39, (), jnp.float64), {0.0}),
        (Box([1e-45, TINY], [1e-39, TINY], (2,)), {0.0, TINY}),
        (Box(6e-8, 6e-8, (), jnp.float16), {float(np.float16(6e-8))}),  # computed in float32
    ],
    ids=repr,
)
def test_a_bound_that_jax_computes_with_as_zero_is_zero(space: Any, values: set[float]) -> None:
    """XLA flushes subnormal floats to zero."""
    drawn = draws(space, 20)
    assert set(drawn.ravel().tolist()) == values
    assert space.batch(20).contains(drawn) is True
    xs = drawn[0], np.broadcast_to(space.low, space.shape).astype(space.dtype)
    for x, inside in zip(xs, jax.jit(lambda xs: [*map(space.contains, xs)])(xs), strict=True):
        assert space.contains(x) is True and bool(inside)
    assert space.contains((drawn[0] + 1).astype(space.dtype)) is False


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_narrow_floats_are_drawn_with_the_resolution_of_float32(dtype: Any) -> None:
    mantissa = jnp.finfo(dtype).nmant
    assert len(np.unique(draws(Box(0.0, 1.0, (), dtype)))) > 1.5 * 2**mantissa


def test_no_draw_leaves_the_bounds_however_it_is_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, one = jax.random.key(0), np.ones(1, np.float32)
    for low in (0.1, 0.3, 1 / 3, 0.7):  # uncompiled, no two operations are fused
        low = low * one
        assert (draw_floats(rng, (N,), low, low, np.dtype(np.float32)) == low).all()
    # So far out is one draw of many millions.
    monkeypatch.setattr(
        jax.random, "exponential", lambda _, shape, dtype: jnp.full(shape, 16.5, dtype)
    )
    half = np.float16(65_504) * one.astype(np.float16)
    assert draw_floats(rng, (1,), half, half * INF, np.dtype(np.float16)) == half
    assert draw_floats(rng, (1,), -half * INF, -half, np.dtype(np.float16)) == -half


def test_a_sample_is_the_same_in_every_transformation() -> None:
    keys = jax.random.split(jax.random.key(7), 3)
    eager = EVERY_KIND.sample(keys[1])
    mapped = jax.jit(jax.vmap(EVERY_KIND.sample))(keys)
    jitted = jax.tree.map(lambda x: np.asarray(x)[1], mapped)
    jax.tree.map(np.testing.assert_array_equal, eager, jitted)
    legacy = EVERY_KIND.sample(jax.random.key_data(keys[1]))
    jax.tree.map(np.testing.assert_array_equal, eager, legacy)
    assert jax.tree.map(jnp.shape, eager) == EVERY_KIND.shape
    assert jax.tree.map(lambda x: x.dtype, eager) == EVERY_KIND.dtype
    assert not any(leaf.weak_type for leaf in jax.tree.leaves(eager))


def test_equal_dicts_draw_equal_samples_and_children_differ() -> None:
    forwards = Dict(a=Box(0, 1, (4,)), b=Box(0, 1, (4,)))
    backwards = Dict({"b": Box(0, 1, (4,)), "a": Box(0, 1, (4,))})
    rng = jax.random.key(0)
    sample = forwards.sample(rng)
    jax.tree.map(np.testing.assert_array_equal, sample, backwards.sample(rng))
    assert not np.any(np.asarray(sample["a"]) == np.asarray(sample["b"]))


@pytest.mark.parametrize(
    "mode",
    [
        lambda: jax.debug_nans(True),
        pytest.param(lambda: jax.numpy_rank_promotion("raise"), marks=pytest.mark.slow),
        pytest.param(lambda: jax.disable_jit(), marks=pytest.mark.slow),
    ],
    ids=["debug nans", "strict ranks", "no jit"],
)
def test_sampling_and_membership_under_strict_flags(mode: Any) -> None:
    space = Dict(a=Discrete(3), b=Box(np.array([-1.0, -INF]), np.array([1.0, INF]), (2,)))
    expected = space.sample(jax.random.key(1))
    with mode():
        x = space.sample(jax.random.key(1))
        assert space.contains(x) is True
        assert bool(jax.jit(space.contains)(x))
        assert not bool(jax.jit(space.contains)({**x, "a": jnp.int8(3)}))
    jax.tree.map(np.testing.assert_array_equal, x, expected)


@pytest.mark.parametrize(
    "space",
    [
        Box(2**33, 2**40, (2,), jnp.int64),
        Box([-(2**40), 0], [-(2**33), 1], (2,), jnp.int64),
        Box(2**32, INF, (), jnp.uint64),
        Box(1e39, 1e40, (), np.float64),
    ],
)
def test_a_sample_that_would_be_outside_without_x64_is_refused(space: Box) -> None:
    with pytest.raises(ValueError, match=r"Box.sample: .* of (u?int|float)32 between them; got"):
        space.sample(jax.random.key(0))
    with jax.enable_x64(True):
        assert space.contains(space.sample(jax.random.key(0)))


def test_64_bit_spaces_are_64_bit_under_x64() -> None:
    huge = Box(2**40, 2**40 + 2**34 - 1, (), jnp.int64)
    full = Box(-INF, INF, (), jnp.int64)
    fine = Box(1.0, 1.0 + 2**-40, (), jnp.float64)
    with jax.enable_x64(True):
        spaces = [huge, full, fine, Discrete(2**63, jnp.int64), Box(0, INF, (), jnp.uint64)]
        drawn = draws_of_each(spaces)
        for space, values in zip(spaces, drawn, strict=True):
            assert values.dtype == space.dtype
            assert space.batch(N).contains(values) is True
            assert len(np.unique(values)) > 0.9 * (4096 if space is fine else N)
        quarters = (drawn[0] - 2**40) // 2**32
        np.testing.assert_allclose(np.bincount(quarters) / N, 0.25, atol=SHARE)
        assert EVERY_KIND.sample(jax.random.key(1))["a"].dtype == jnp.int32
    assert fine.sample(jax.random.key(0)).dtype == jnp.float32


def test_each_entry_keeps_to_its_own_bounds() -> None:
    low, high = np.array([-INF, 0.0, 5.0]), np.array([INF, 3.0, INF])
    counts, wide = draws_of_each([MultiDiscrete((1, 2, 300)), Box(low, high, (3,), jnp.int32)])
    assert counts.max(axis=0).tolist()[:2] == [0, 1] and 290 < counts[:, 2].max() <= 299
    assert wide[:, 0].min() < -(2**30) < 2**30 < wide[:, 0].max()
    assert set(wide[:, 1]) == {0, 1, 2, 3} and wide[:, 2].min() >= 5
