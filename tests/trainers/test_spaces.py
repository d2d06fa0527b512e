# pyright: reportMissingImports=false
"""`to_space` and `from_space`: there and back, and elements of one that are in the other."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces as gym_spaces
from gymnasium.vector.utils import batch_space
from hypothesis import given, settings
from hypothesis import strategies as st

from envrax import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from envrax.interop import from_space, to_space

quick = settings(deadline=None, max_examples=15)

INTS = [np.int8, np.uint8, np.int16, np.int32, np.uint32]
FLOATS = [np.float16, np.float32]
shapes = st.lists(st.integers(1, 3), max_size=3).map(tuple)
counts = st.integers(1, 100)


@st.composite
def boxes(draw: Any) -> Box:
    shape = draw(shapes)
    dtype = draw(st.sampled_from([*INTS, *FLOATS, np.bool_]))
    if dtype is np.bool_:
        return Box(0, 1, shape, dtype)
    low, high = (0, 100) if np.dtype(dtype).kind == "u" else (-100, 100)

    def bound() -> Any:
        scalar = draw(st.booleans())
        size = () if scalar else shape
        n = int(np.prod(size))
        values = draw(st.lists(st.integers(low, high), min_size=n, max_size=n))
        return values[0] if scalar else np.array(values).reshape(size)

    first, second = bound(), bound()
    least, most = np.minimum(first, second), np.maximum(first, second)
    open_low, open_high = draw(st.booleans()), draw(st.booleans())
    least = -np.inf if open_low else (least.item() if np.ndim(least) == 0 else least)
    most = np.inf if open_high else (most.item() if np.ndim(most) == 0 else most)
    return Box(least, most, shape, dtype)


leaves = st.one_of(
    st.builds(Discrete, counts, st.sampled_from(INTS)),
    st.builds(
        lambda shape, n, dtype: MultiDiscrete(np.broadcast_to(n, shape or (1,)), dtype),
        shapes, counts, st.sampled_from(INTS),
    ),
    st.lists(counts, min_size=1, max_size=4).map(MultiDiscrete),
    st.builds(lambda shape: MultiBinary(shape or 3), shapes),
    boxes(),
)  # fmt: skip
names = st.text("abcz_1", min_size=1, max_size=3)
ours = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.dictionaries(names, inner, min_size=1, max_size=3).map(Dict),
        st.lists(inner, min_size=1, max_size=3).map(Tuple),
    ),
    max_leaves=5,
)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float8_e5m2])
def test_a_dtype_that_numpy_does_not_have(dtype: Any) -> None:
    box = Box(-1, 1, (2,), dtype)
    for space in (box, Dict(a=Discrete(2), b=Tuple([box]))):
        with pytest.raises(TypeError, match="DtypeObservation"):
            to_space(space)


@quick
@given(ours, st.integers(0, 2**31))
def test_there_and_back_and_the_elements(space: Any, seed: int) -> None:
    peer = to_space(space)
    assert to_space(from_space(peer)) == peer  # whose choices have 64 bits
    peer.seed(seed)
    for _ in range(3):
        assert space.contains(peer.sample())
    mine = jax.tree.map(np.asarray, space.sample(jax.random.key(seed)))
    assert peer.contains(mine)


@quick
@given(ours)
def test_batches_are_those_of_gymnasium(space: Any) -> None:
    batched, peer = space.batch(3), batch_space(to_space(space), 3)
    mine = jax.tree.map(np.asarray, batched.sample(jax.random.key(0)))
    assert peer.contains(mine)
    assert batched.contains(peer.sample())


THEIRS: list[Any] = [
    gym_spaces.MultiDiscrete(np.array([[2, 3], [4, 5]])),
    gym_spaces.MultiBinary([2, 3]),
    gym_spaces.Box(np.array([-1.0, -np.inf]), np.array([np.inf, 2.0]), dtype=np.float64),
    gym_spaces.Box(0, 255, (4, 4, 3), np.uint8),
    gym_spaces.Box(-np.inf, np.inf, ()),
    gym_spaces.Dict(b=gym_spaces.Discrete(2), a=gym_spaces.Tuple([gym_spaces.Box(0, 1)] * 2)),
]


@pytest.mark.parametrize("peer", THEIRS, ids=str)
def test_theirs_there_and_back(peer: Any) -> None:
    space = from_space(peer)
    peer.seed(0)
    for key in jax.random.split(jax.random.key(0), 10):
        assert space.contains(peer.sample())
        assert peer.contains(jax.tree.map(np.asarray, space.sample(key)))


def test_the_keys_of_a_dict_are_in_the_order_of_envrax() -> None:
    space = Dict(z=Discrete(2), a=Discrete(3))
    assert list(to_space(space).spaces) == list(space.spaces) == ["a", "z"]
    unsorted = gym_spaces.Dict([("z", gym_spaces.Discrete(2)), ("a", gym_spaces.Discrete(3))])
    assert from_space(unsorted).contains(unsorted.sample())


def test_bits_of_other_dtypes_are_boxes_of_the_same_elements() -> None:
    for dtype in (np.bool_, np.int32):
        space, peer = MultiBinary(4, dtype), to_space(MultiBinary(4, dtype))
        assert (peer.dtype, peer.shape) == (dtype, (4,))
        assert space.contains(peer.sample())
        assert peer.contains(np.asarray(space.sample(jax.random.key(0))))


ERRORS: list[tuple[Any, type[Exception], str]] = [
    (gym_spaces.Dict(a=gym_spaces.Text(5)), TypeError, "Text"),
    (gym_spaces.Discrete(3, start=1), ValueError, "from 0"),
    (gym_spaces.MultiDiscrete([2, 3], start=[0, 1]), ValueError, "from 0"),
    (Box(0, 1, (2,)), TypeError, "of Gymnasium"),
]


@pytest.mark.parametrize("case", ERRORS, ids=lambda case: str(case[0]))
def test_spaces_without_a_counterpart_in_envrax(case: Any) -> None:
    space, error, message = case
    with pytest.raises(error, match=message):
        from_space(space)
