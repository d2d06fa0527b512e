"""Spaces: definitions, what they give back, equality and batches."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from envrax.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple, flatten
from envrax.spaces.array import ArraySpace
from envrax.spaces.flattening import flat_box

INF = float("inf")
NESTED = Dict(
    move=Discrete(4), aim=Tuple([Box(-1.0, 1.0, (2,)), MultiBinary(3)]), gear=MultiDiscrete((3, 5))
)
SPACES = [
    Discrete(4),
    Discrete(256, jnp.uint8),
    MultiDiscrete((3, 5)),
    MultiDiscrete(((2, 3), (4, 5)), jnp.int16),
    MultiDiscrete(7),
    MultiBinary(3),
    MultiBinary((2, 3), bool),
    Box(-1.0, 1.0, (4,)),
    Box(0, 255, (2, 3), jnp.uint8),
    Box(np.array([-1.0, -INF]), np.array([INF, 2.0]), (3, 2), jnp.float16),
    Box(-INF, INF, (), jnp.bfloat16),
    Box(False, True, (2,), bool),
    Box(0, 1, (0, 3)),
    Tuple([]),
    NESTED,
]
every_space = pytest.mark.parametrize("space", SPACES, ids=repr)


# What spaces are


@every_space
def test_a_space_is_frozen_hashable_and_a_static_argument(space: Space) -> None:
    with pytest.raises(FrozenInstanceError, match="shape"):
        space.shape = (9,)
    with pytest.raises(FrozenInstanceError, match="extra"):
        space.extra = 1  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError, match="_key"):
        del space._key  # type: ignore[attr-defined]
    traced: list[Space] = []

    @jax.jit
    def size(x: jax.Array) -> jax.Array:
        return x + space.size

    def static(space: Space, x: jax.Array) -> jax.Array:
        traced.append(space)
        return x

    compiled = jax.jit(static, static_argnums=0)
    compiled(space, jnp.ones(()))
    compiled(pickle.loads(pickle.dumps(space)), jnp.ones(()))
    assert len(traced) == 1
    assert size(jnp.zeros((), jnp.int32)) == space.size


def test_array_bounds_stay_read_only_in_copies() -> None:
    box = Box(np.array([0.0, 1.0]), 2.0, (2,))
    for twin in (box, copy.deepcopy(box), pickle.loads(pickle.dumps(box)), box.batch(2)):
        with pytest.raises(ValueError, match="read-only"):
            twin.low[...] = 5


def test_no_two_of_these_spaces_are_equal() -> None:
    others = [
        *SPACES,
        Discrete(5),
        Discrete(4, jnp.int8),
        MultiDiscrete((5, 3)),
        MultiDiscrete(4),
        MultiDiscrete((2, 2, 2), jnp.int8),
        Box(-1.0, 1.5, (4,)),
        Box(-1.0, 1.0, (5,)),
        Box(-1.0, 1.0, (4,), jnp.float16),
        Box(0, 3, (), jnp.int32),
        Tuple([NESTED]),
        Dict(a=Discrete(4)),
        Dict(b=Discrete(4)),
    ]
    assert len(set(others)) == len(others)
    assert Discrete(4) != 4


def test_equal_spaces_are_equal_however_they_were_made() -> None:
    same = [
        [Discrete(4).batch(8), MultiDiscrete((4,) * 8), MultiDiscrete(np.full(8, 4))],
        [Discrete(4), Discrete(np.int64(4), "int32")],  # type: ignore[arg-type]
        [MultiDiscrete((3, 5)).batch(2), MultiDiscrete([[3, 5], [3, 5]])],
        [MultiBinary(3).batch(2), MultiBinary((2, 3)), MultiBinary([2, 3])],
        [Box(0, 1, 3), Box(0.0, np.ones(3), (3,)), Box(np.zeros(()), jnp.ones((3,)), [3])],
        [Box(-0.0, 0, (2,)), Box(np.array([0.0, -0.0]), 0.0, (2,))],
        [Box(-INF, INF, (), jnp.int8), Box(-128, 127, (), jnp.int8)],
        [Box(0, 1, (0,)), Box(np.zeros(0), np.ones(0), (0,))],
        [Box(np.array([0.0, 1.0]), 2, 2).batch(3), Box(np.array([[0.0, 1.0]] * 3), 2, (3, 2))],
        [Dict(a=Discrete(2), b=Discrete(3)), Dict({"b": Discrete(3)}, a=Discrete(2))],
        [Tuple([Discrete(4)]).batch(2), Tuple((MultiDiscrete((4, 4)),))],
    ]
    for first, *others in same:
        for other in others:
            assert other == first
            assert hash(other) == hash(first)


# What spaces give back


def test_discrete_kinds_give_back_python_values() -> None:
    assert type(Discrete(np.int32(4)).n) is int  # type: ignore[arg-type]
    assert MultiDiscrete(np.array([[3, 5]])).nvec == ((3, 5),)
    assert MultiDiscrete(7).nvec == 7
    assert type(MultiDiscrete(jnp.array([3, 5])).nvec[0]) is int
    assert MultiBinary(3).n == 3
    assert MultiBinary([2, 3]).n == (2, 3)
    assert Discrete(2**64, jnp.uint64).batch(2).nvec == (2**64, 2**64)


@pytest.mark.parametrize("bound", [1, 1.0, 2.5, INF])
def test_a_scalar_bound_stays_a_python_scalar(bound: Any) -> None:
    for box in (Box(-INF, bound, (3,)), Box(-INF, bound, (3,)).batch(2)):
        assert type(box.high) is type(bound)
        assert box.high == bound
    assert jnp.clip(3.0, -1.0, Box(-1.0, bound, ()).high) == min(3.0, bound)


@pytest.mark.parametrize("given", [np.float64, jnp.float32], ids=["numpy", "jax"])
def test_an_array_bound_comes_back_as_numpy_in_shape_and_dtype(given: Any) -> None:
    array = np.asarray if given is np.float64 else jnp.asarray
    box = Box(array([0.0, 1.0], given), array(2.0, given), (3, 2))
    for bound in (box.low, box.high):
        assert type(bound) is np.ndarray
        assert (bound.shape, bound.dtype) == ((3, 2), np.float32)
        assert not bound.flags.writeable
    np.testing.assert_array_equal(box.low, [[0, 1]] * 3)
    np.testing.assert_array_equal(box.high, np.full((3, 2), 2))


def test_a_later_change_of_the_given_array_changes_nothing() -> None:
    low = np.zeros(2, np.float32)
    box = Box(low, 1.0, (2,))
    low[:] = 1
    np.testing.assert_array_equal(box.low, [0, 0])


def test_infinite_integer_array_bounds_are_the_limits_of_the_dtype() -> None:
    box = Box(np.array([-INF, 0.0]), np.array([3.0, INF]), (2,), jnp.int8)
    assert (box.low.tolist(), box.high.tolist()) == ([-128, 0], [3, 127])


def test_nested_spaces_mirror_their_nesting() -> None:
    assert NESTED.shape == {"aim": ((2,), (3,)), "gear": (2,), "move": ()}
    assert NESTED.dtype["aim"] == (np.float32, np.int8)
    assert NESTED.size == 2 + 3 + 2 + 1
    assert list(NESTED) == list(NESTED.keys()) == ["aim", "gear", "move"]
    assert list(NESTED.values()) == [space for _, space in NESTED.items()]
    assert NESTED["gear"] == NESTED.spaces["gear"] == MultiDiscrete((3, 5))
    aim = NESTED["aim"]
    assert isinstance(aim, Tuple)
    assert (len(aim), aim[1], list(aim)) == (2, MultiBinary(3), list(aim.spaces))
    assert len(NESTED) == 3
    with pytest.raises(KeyError):
        NESTED["fire"]


def test_dicts_handed_out_are_copies() -> None:
    space = Dict(a=Discrete(2))
    space.shape["a"] = (9,)
    space.spaces["a"] = Discrete(9)
    assert space.shape == {"a": ()}
    assert space["a"] == Discrete(2)


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (Discrete(4), "Discrete(4)"),
        (Discrete(4, jnp.int8), "Discrete(4, int8)"),
        (MultiDiscrete((3, 5)), "MultiDiscrete((3, 5))"),
        (MultiDiscrete((3, 5)).batch(100), "MultiDiscrete(<(100, 2) of 3..5>)"),
        (Discrete(4).batch(1_000_000), "MultiDiscrete(<(1000000,) of 4>)"),
        (MultiBinary((2, 3)), "MultiBinary((2, 3))"),
        (Box(-1.0, 1.0, (4,)), "Box(-1.0, 1.0, (4,), float32)"),
        (Box(0, np.array([1, 2]), (2,), jnp.int8), "Box(0, [1, 2], (2,), int8)"),
        (Box([-4.8, -np.inf], [4.8, 1], (2,)), "Box([-4.8, -inf], [4.8, 1.0], (2,), float32)"),
        (Box(0, [[1, 20], [300, 4]], (2, 2), int), "Box(0, [[1, 20], [300, 4]], (2, 2), int64)"),
        (Tuple([Discrete(2)]), "Tuple((Discrete(2),))"),
        (Dict(a=Discrete(2)), "Dict({'a': Discrete(2)})"),
    ],
)
def test_repr(space: Space, text: str) -> None:
    assert repr(space) == text


# Batches


@pytest.mark.parametrize("space", [Box(np.arange(2.0), 2, (2,)), NESTED], ids=repr)
def test_no_batch_is_ever_written_out(space: Space) -> None:
    n = 10**12  # more than memory holds
    huge, large, small = space.batch(n), space.batch(10**6), space.batch(2)
    assert huge.size == n * space.size
    assert huge == pickle.loads(pickle.dumps(huge))
    assert len(pickle.dumps(huge)) < len(pickle.dumps(small)) + 100
    assert hash(huge) != hash(space.batch(n - 1))
    assert huge.contains(None) is False
    programs = (jax.jit(x.sample).lower(jax.random.key(0)).as_text() for x in (large, small))
    assert len(next(programs)) < 2 * len(next(programs))
    assert len(repr(huge)) < 300


# A space of the user's


class Angles(ArraySpace):
    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        low = np.full((1,) * len(shape), -3.0, dtype)
        self._define(low, -low, shape, np.dtype(dtype))

    def batch(self, n: int) -> Angles:
        return Angles((n, *self.shape), self.dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_a_space_of_the_user_s_keeps_its_bounds_when_it_is_flat(shape: Any, dtype: Any) -> None:
    space = Angles(shape, dtype)
    assert flat_box(space) == Box(-3, 3, space.size, dtype)
    both = flat_box(Tuple([Discrete(2), space]))
    assert (both.low.min(), both.high.max(), both.shape) == (-3, 3, (2 + space.size,))
    for key in jax.random.split(jax.random.key(0), 5):
        assert flat_box(space).contains(flatten(space, space.sample(key)))
