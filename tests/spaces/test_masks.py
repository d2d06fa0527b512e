"""`space.sample(rng, mask)`: uniform among the legal elements; refusals."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_trees_equal

from envrax.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from envrax.spaces.masks import mask_shape, with_full_masks

N = 6_000
KEYS = jax.random.split(jax.random.key(3), N)
# Below these lie 99.9 % of the values of chi-square with as many degrees of freedom.
LIMIT = {0: 0.0, 1: 10.83, 2: 13.82, 3: 16.27}
PADDED = MultiDiscrete((2, 4, 3))
NESTED = Dict(
    move=Tuple((Discrete(4), PADDED)), push=Box(-1.0, 1.0, (2,)), light=MultiBinary(2, bool)
)


def bools(*rows: str) -> np.ndarray:
    """A mask written as text, one row an entry."""
    mask = np.array([[letter == "x" for letter in row] for row in rows])
    return mask if len(rows) > 1 else mask[0]


def draws(space: Space, mask: Any) -> Any:
    """Many draws under one mask, compiled and mapped."""
    sample = jax.jit(jax.vmap(space.sample, (0, None)))
    return jax.tree.map(np.asarray, sample(KEYS, mask))


def assert_uniform(drawn: np.ndarray, legal: list[int]) -> None:
    values, counts = np.unique(drawn, return_counts=True)
    assert values.tolist() == legal
    expected = N / len(legal)
    assert ((counts - expected) ** 2 / expected).sum() <= LIMIT[len(legal) - 1]


@pytest.mark.parametrize(
    ("space", "mask", "legal"),
    [
        (Discrete(9, jnp.int8), bools("-x--xx--x"), [[1, 4, 5, 8]]),
        (Discrete(3), bools("---"), [[0, 1, 2]]),  # if no element is legal, all are
        (PADDED, bools("-xxx", "---x", "---x"), [[1], [3], [0, 1, 2]]),  # padding is no element
        (MultiBinary(3), bools("xx", "x-", "-x"), [[0, 1], [0], [1]]),
        (Box(0, 2, (2,), jnp.uint8), bools("xx-", "--x"), [[0, 1], [2]]),
    ],
    ids=repr,
)
def test_draws_are_uniform_among_the_legal(
    space: Any, mask: np.ndarray, legal: list[list[int]]
) -> None:
    drawn = draws(space, mask)
    assert drawn.dtype == space.dtype and drawn.shape == (N, *space.shape)
    assert space.batch(N).contains(drawn) is True
    for column, values in zip(drawn.reshape(N, -1).T, legal, strict=True):
        assert_uniform(column, values)


def test_entries_of_one_draw_are_independent() -> None:
    drawn = draws(MultiDiscrete((4, 4)), bools("xx--", "-xx-"))
    assert_uniform(drawn @ np.array([1, 3]), [3, 4, 6, 7])


def test_a_nested_space_takes_a_container_of_masks_or_none() -> None:
    mask = {"move": (bools("x--x"), bools("xx--", "---x", "-x--")), "push": None, "light": None}
    drawn = draws(NESTED, mask)
    assert NESTED.batch(N).contains(drawn) is True
    assert_uniform(drawn["move"][0], [0, 3])
    assert_uniform(drawn["move"][1] @ np.array([1, 4, 7]), [19, 20])
    # What has no mask is drawn as without any.
    alone = jax.jit(jax.vmap(NESTED.sample))(KEYS)
    np.testing.assert_array_equal(drawn["push"], alone["push"])
    np.testing.assert_array_equal(drawn["light"], alone["light"])


def test_masks_of_a_batch_are_stacked() -> None:
    """So that `action_space.sample(rng, batched_env.action_mask(state))` draws for every slot."""
    masks = np.stack([bools("x--"), bools("-x-"), bools("--x"), bools("xx-")])
    batch = Discrete(3).batch(4)
    assert mask_shape(batch) == masks.shape
    drawn = draws(batch, masks)
    np.testing.assert_array_equal(np.unique(drawn[:, :3], axis=0), [[0, 1, 2]])
    assert_uniform(drawn[:, 3], [0, 1])
    each = jax.jit(jax.vmap(Discrete(3).sample))(KEYS[:4], masks)
    assert each[:3].tolist() == [0, 1, 2]


def test_a_draw_is_the_same_in_every_transformation() -> None:
    mask = bools("-xx-", "xxxx", "x---")
    key, mapped = KEYS[0], draws(PADDED, mask)[0]
    legacy = np.asarray(jax.random.key_data(key))
    for rng, given in ((key, mask), (key, mask.tolist()), (legacy, jnp.asarray(mask))):
        np.testing.assert_array_equal(PADDED.sample(rng, given), mapped)
    with jax.enable_x64(True):
        np.testing.assert_array_equal(jax.jit(PADDED.sample)(key, mask), mapped)


def test_the_shape_of_a_mask() -> None:
    assert mask_shape(Discrete(7)) == (7,)
    assert mask_shape(MultiDiscrete(((2, 3), (4, 1)))) == (2, 2, 4)
    assert mask_shape(Box(0.0, 1.0, ())) is None and mask_shape(Box(1, 4, ())) is None
    assert mask_shape(NESTED) == {"move": ((4,), (3, 4)), "push": None, "light": (2, 2)}
    assert mask_shape(NESTED.batch(6)) == {
        "move": ((6, 4), (6, 3, 4)),
        "push": None,
        "light": (6, 2, 2),
    }


def test_none_is_the_mask_in_which_all_is_legal() -> None:
    padded, light = bools("xx--", "xxxx", "xxx-"), bools("xx", "xx")
    full = {"move": (bools("xxxx"), padded), "push": None, "light": light}
    given = {"move": (bools("x--x"), None), "push": None, "light": None}
    expected = {**full, "move": (bools("x--x"), padded)}
    for mask, filled in ((None, full), (full, full), (given, expected)):
        assert_trees_equal(with_full_masks(NESTED, mask), filled)
    assert with_full_masks(Discrete(3).batch(2), None).tolist() == [[True] * 3] * 2


@pytest.mark.parametrize(
    ("space", "mask", "error", "noun"),
    [
        (Discrete(3), bools("xxx", "xxx"), ValueError, "shape"),
        (Discrete(3), {"a": bools("xxx")}, ValueError, "a dict"),
        (NESTED, {"move": None}, ValueError, "move"),
        (NESTED["move"], [None], ValueError, "each space"),
    ],
)
def test_masks_of_another_form_are_refused(space: Space, mask: Any, error: Any, noun: str) -> None:
    with pytest.raises(error, match=noun):
        space.sample(jax.random.key(0), mask)
