"""Properties of all spaces, over spaces made up by Hypothesis."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from envrax.spaces import (
    Box,
    Dict,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    Space,
    Tuple,
    conform,
    flatten,
    unflatten,
)
from envrax.spaces.flattening import flat_box
from envrax.spaces.sampling import draw_integers

# Each compiled sample takes a while, so those properties are tried on few spaces by default.
few = settings(max_examples=4, deadline=None, derandomize=True, database=None)
more = settings(max_examples=15, deadline=None, derandomize=True, database=None)
many = settings(max_examples=40, deadline=None, derandomize=True, database=None)

INTEGERS = [np.dtype(name) for name in ("int8", "uint8", "int16", "int32", "uint32")]
FLOATS = [np.dtype(dtype) for dtype in (jnp.float16, jnp.bfloat16, jnp.float32)]
shapes = hnp.array_shapes(min_dims=0, max_dims=3, max_side=3)


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    """Boxes with scalar or array bounds, closed, half-open and open, of every dtype."""
    shape, dtype = draw(shapes), draw(st.sampled_from(INTEGERS + FLOATS))
    if dtype in FLOATS:
        limit = 6e4
        numbers: Any = st.floats(-limit, limit, width=draw(st.sampled_from([16, 32])))
    else:
        info = np.iinfo(dtype)
        numbers = st.integers(int(info.min), int(info.max))
    low_shape = draw(st.sampled_from([(), shape, shape[-1:]]))
    entries = st.tuples(numbers, numbers).map(sorted)
    pairs = [draw(entries) for _ in range(int(np.prod(low_shape)))]
    low, high = (np.array([p[i] for p in pairs], object).reshape(low_shape) for i in (0, 1))
    if draw(st.booleans()):
        low = np.where(draw(hnp.arrays(bool, low_shape)), -np.inf, low)
    if draw(st.booleans()):
        high = np.where(draw(hnp.arrays(bool, low_shape)), np.inf, high)
    as_bound = (lambda b: np.asarray(b).tolist()) if draw(st.booleans()) else _to_float_array
    return Box(as_bound(low), as_bound(high), shape, dtype)


def _to_float_array(bound: Any) -> np.ndarray:
    return np.asarray(bound, np.float64)


counts = st.integers(1, 100)
array_spaces = st.one_of(
    st.builds(Discrete, counts, st.sampled_from(INTEGERS)),
    st.builds(
        MultiDiscrete, hnp.arrays(np.int64, shapes, elements=counts), st.sampled_from(INTEGERS)
    ),
    st.builds(MultiBinary, shapes, st.sampled_from([*INTEGERS, np.dtype(bool)])),
    boxes(),
)
spaces = st.recursive(
    array_spaces,
    lambda inner: st.one_of(
        st.builds(Tuple, st.lists(inner, max_size=3)),
        st.builds(Dict, st.dictionaries(st.text("abc", max_size=2), inner, max_size=3)),
    ),
    max_leaves=4,
)


@few
@given(spaces, st.integers(0, 2**31))
def test_a_sample_is_an_element_and_conforms(space: Space, seed: int) -> None:
    x, inside = jax.jit(lambda rng: (x := space.sample(rng), space.contains(x)))(
        jax.random.key(seed)
    )
    assert space.contains(x) is True and bool(inside)
    assert jax.tree.map(jnp.shape, x) == space.shape
    assert jax.tree.map(lambda leaf: leaf.dtype, x) == space.dtype
    assert sum(leaf.size for leaf in jax.tree.leaves(x)) == space.size
    assert all(np.isfinite(np.asarray(leaf, np.float64)).all() for leaf in jax.tree.leaves(x))
    for a, b in zip(jax.tree.leaves(conform(space, x, "who")), jax.tree.leaves(x), strict=True):
        assert a is b


@few
@given(spaces, st.integers(1, 3))
def test_a_batch_is_n_stacked_elements(space: Space, n: int) -> None:
    batch = space.batch(n)
    x = jax.jit(batch.sample)(jax.random.key(0))
    assert batch.size == n * space.size
    for i in range(n):
        assert space.contains(jax.tree.map(lambda leaf: np.asarray(leaf)[i], x)) is True  # noqa: B023
    host = jax.tree.map(np.asarray, x)
    restacked = jax.tree.map(lambda *rows: np.stack(rows), *[_row(host, i) for i in range(n)])
    assert batch.contains(restacked) is True
    assert batch.batch(2) == space.batch(n).batch(2)


def has_wide_integers(space: Space) -> bool:
    """Whether a vector of floats cannot hold all elements, or no vector can."""
    dtypes = [np.dtype(leaf) for leaf in jax.tree.leaves(space.dtype)]
    wide = [dtype for dtype in dtypes if dtype in INTEGERS and dtype.itemsize == 4]
    signed = [dtype for dtype in dtypes if np.issubdtype(dtype, np.signedinteger)]
    mixed = any(dtype in FLOATS for dtype in dtypes)
    return bool(wide) and (mixed or (np.dtype(np.uint32) in wide and bool(signed)))


NARROW = Box(np.zeros(1), np.full(1, 1.9), (1,), jnp.bfloat16)


@few
@example(Tuple([Discrete(2), NARROW]), 0)  # NumPy does not join their bounds
@example(Tuple([Discrete(2), Box(1.9, 1.9, (), jnp.bfloat16)]), 0)  # 1.9 is rounded
@given(spaces.filter(lambda space: not has_wide_integers(space)), st.integers(0, 2**31))
def test_unflatten_is_the_inverse_of_flatten(space: Space, seed: int) -> None:
    box = flat_box(space)
    scores = np.random.default_rng(seed).normal(size=box.shape).astype(np.float32)

    @jax.jit
    def run(rng: Any, scores: Any) -> Any:
        x, from_scores = space.sample(rng), unflatten(space, scores)
        flat = flatten(space, x)
        two = jax.tree.map(lambda *rows: jnp.stack(rows), x, from_scores)
        there_and_back = jax.vmap(lambda x: unflatten(space, flatten(space, x)), axis_size=2)
        return x, flat, unflatten(space, flat), from_scores, two, there_and_back(two)

    x, flat, back, from_scores, two, again = run(jax.random.key(seed), scores)
    assert box.contains(flat) is True and flat.dtype == box.dtype
    assert_same_bits(back, x)
    # What a network gives is an element too, but for the bounds of a Box.
    assert all(0 <= choice < n for choice, n in choices_in(space, from_scores))
    assert_same_bits(again, two)


def choices_in(space: Any, x: Any) -> list[tuple[int, int]]:
    """Each choice in an element, and the number of choices that there are."""
    if isinstance(space, Tuple):
        return [
            pair for child, part in zip(space, x, strict=True) for pair in choices_in(child, part)
        ]
    if isinstance(space, Dict):
        return [pair for name in space for pair in choices_in(space[name], x[name])]
    if not isinstance(space, Discrete | MultiDiscrete):
        return []
    counts = np.ravel(space.n if isinstance(space, Discrete) else space.nvec).tolist()
    return list(zip(np.ravel(x).tolist(), counts, strict=True))


def assert_same_bits(x: Any, y: Any) -> None:
    assert jax.tree.structure(x) == jax.tree.structure(y)
    for a, b in zip(jax.tree.leaves(x), jax.tree.leaves(y), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def _row(x: Any, i: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[i], x)


@pytest.mark.slow
@more
@given(spaces, st.integers(0, 2**31))
def test_samples_of_many_spaces(space: Space, seed: int) -> None:
    one: Any = test_a_sample_is_an_element_and_conforms  # Hypothesis keeps what it decorates
    inverse: Any = test_unflatten_is_the_inverse_of_flatten
    batch: Any = test_a_batch_is_n_stacked_elements
    one.hypothesis.inner_test(space, seed)
    batch.hypothesis.inner_test(space, 1 + seed % 3)
    if not has_wide_integers(space):
        inverse.hypothesis.inner_test(space, seed)


@many
@given(spaces, spaces)
def test_copies_are_equal_and_others_are_equal_only_if_they_look_it(a: Space, b: Space) -> None:
    for twin in (copy.deepcopy(a), pickle.loads(pickle.dumps(a))):
        assert twin == a
        assert hash(twin) == hash(a)
    assert (a == b) == (b == a)
    if a == b:
        assert hash(a) == hash(b)
        assert (a.shape, a.dtype, type(a)) == (b.shape, b.dtype, type(b))


@many
@given(boxes())
def test_a_box_is_rebuilt_from_what_it_gives_back(box: Box) -> None:
    again = Box(box.low, box.high, box.shape, box.dtype)
    low, high = (np.broadcast_to(bound, box.shape) for bound in (box.low, box.high))
    full = Box(low, high, box.shape, box.dtype)
    assert again == full == box
    assert hash(again) == hash(full) == hash(box)
    assert repr(again) == repr(box)


def holds(dtype: Any, low: float, value: float, high: float) -> bool:
    """Whether a number lies between bounds, once they are all of the dtype."""
    if dtype in INTEGERS:
        low, high = max(low, int(np.iinfo(dtype).min)), min(high, int(np.iinfo(dtype).max))
        return low <= value <= high
    return bool(dtype.type(low) <= dtype.type(value) <= dtype.type(high))


@many
@given(st.data())
def test_membership_is_a_comparison_with_every_bound(data: st.DataObject) -> None:
    box = data.draw(boxes())
    lows, highs = (np.broadcast_to(b, box.shape).ravel().tolist() for b in (box.low, box.high))
    if box.dtype in INTEGERS:
        common, values = [0, 1, 100], st.integers(-(2**40), 2**40)
        values |= st.sampled_from(common + [b for b in lows + highs if np.isfinite(b)])
    else:
        values = st.sampled_from([0.0, float("nan"), float("inf"), *lows, *highs])
    xs = [data.draw(values) for _ in lows]
    expected = all(holds(box.dtype, *row) for row in zip(lows, xs, highs, strict=True))
    x = np.array(xs, np.int64 if box.dtype in INTEGERS else np.float64).reshape(box.shape)
    assert box.contains(x) is expected
    assert box.contains(x.tolist()) is expected


junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=2)
    | st.binary(max_size=2)
    | hnp.arrays(
        st.sampled_from([bool, np.int8, np.uint64, np.float64, np.complex64, object, "m8[D]"]),
        shapes,
        fill=st.nothing(),
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text("abc", max_size=1), inner, max_size=2)
    ),
    max_leaves=6,
)


@many
@given(spaces, junk)
def test_membership_never_raises_and_refusals_are_sentences(space: Space, x: Any) -> None:
    inside = space.contains(x)
    assert type(inside) is bool
    try:
        result = conform(space, x, "VecEnv.step")
    except (TypeError, ValueError) as error:
        assert str(error).startswith("VecEnv.step: expected actions")
        assert not inside
    else:
        assert jax.tree.map(np.shape, result) == space.shape


@few
@given(st.data(), st.integers(0, 2**31))
def test_integers_are_drawn_by_an_exact_multiplication(data: st.DataObject, seed: int) -> None:
    dtype = data.draw(st.sampled_from([np.dtype(np.int32), np.dtype(np.uint32)]))
    info, widest = np.iinfo(dtype), data.draw(st.sampled_from([300, 2**17, 2**31, 2**32 - 1]))
    ends = st.integers(int(info.min), min(int(info.max), int(info.min) + widest))
    pairs = [sorted([data.draw(ends), data.draw(ends)]) for _ in range(7)]
    pairs.append([int(info.min), int(info.min) + 256])  # too many values for a single word
    low, high = np.array(pairs, dtype).T
    rng = jax.random.key(seed)
    words = np.asarray(jax.random.bits(rng, (2, 8), np.uint32)).tolist()
    drawn = draw_integers(rng, (8,), low, high, dtype).tolist()
    for (least, most), upper, lower, value in zip(pairs, *words, drawn, strict=True):
        assert value == least + ((upper << 32 | lower) * (most - least + 1) >> 64)
