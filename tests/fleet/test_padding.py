"""One array for agents with unequal spaces, and back."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CoinEnv, CounterEnv, NestedEnv, PixelEnv, ScriptEnv, VectorEnv
from helpers import slow_but

from envrax import (
    ActionWrapper,
    Box,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    MultiEnv,
    MultiVecEnv,
    Tuple,
    VecEnv,
)


class Actions(ActionWrapper[Any, Any, Any, Any]):
    """An environment with the action space that it is given."""

    def __init__(self, env: Any, space: Any = None) -> None:
        super().__init__(env)
        self.space = space

    @property
    def action_space(self) -> Any:
        return self.space

    def action(self, action: Any) -> Any:
        return jnp.int32(0)


def test_the_choice_mask_counts_choices() -> None:
    assert MultiVecEnv([VecEnv(NestedEnv(), 9), VecEnv(CoinEnv(), 2)]).pad_dims() == (3, 7)
    five = Actions(CounterEnv(), Discrete(5))
    single = MultiEnv([VectorEnv(), five]).choice_mask()
    np.testing.assert_array_equal(single, [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    many = MultiVecEnv({"a": VecEnv(VectorEnv(), 2), "b": VecEnv(five, 3)}).choice_mask()
    np.testing.assert_array_equal(many, single[[0, 0, 1, 1, 1]])
    assert many.dtype == np.bool_


def test_observations_of_single_environments() -> None:
    multi = MultiEnv({"wide": NestedEnv(), "narrow": VectorEnv()})
    obs, _ = multi.reset(jax.random.key(0))
    padded, mask = multi.pad_observations(obs)
    assert padded.shape == mask.shape == (2, 7)
    assert padded.dtype == jnp.float32 and mask.dtype == jnp.bool_
    number, pair = obs["wide"]["both"]
    wide = np.concatenate([[number], pair, obs["wide"]["image"].ravel()])
    np.testing.assert_array_equal(padded[0], wide.astype(np.float32))
    np.testing.assert_array_equal(padded[1], [*obs["narrow"], 0, 0, 0, 0])
    np.testing.assert_array_equal(mask, np.arange(7) < np.asarray([[7], [3]]))


def test_observations_of_batches() -> None:
    multi = MultiVecEnv([VecEnv(VectorEnv(), 3), VecEnv(CoinEnv(), 2)])
    obs, _ = multi.reset(jax.random.key(0))
    padded, mask = multi.pad_observations(obs)
    assert padded.shape == (5, 4) and multi.total_envs == 5
    np.testing.assert_array_equal(padded[:3, :3], obs[0])
    np.testing.assert_array_equal(padded[:3, 3], 0)
    np.testing.assert_array_equal(padded[3:], obs[1])
    np.testing.assert_array_equal(mask.sum(axis=1), [3, 3, 3, 4, 4])


@pytest.mark.parametrize(
    ("envs", "dtype"),
    [
        ([PixelEnv()], "uint8"),
        ([PixelEnv(), VectorEnv()], "float32"),
        ([CounterEnv(), VectorEnv()], "float32"),
        ([CounterEnv(), PixelEnv()], "int32"),
        ([ScriptEnv(MultiBinary(3))], "int8"),
    ],
)
def test_the_dtype_is_the_one_that_all_promote_to(envs: list[Any], dtype: str) -> None:
    multi = MultiEnv(envs)
    padded, _ = multi.pad_observations(multi.reset(jax.random.key(0))[0])
    assert padded.dtype == dtype


def test_integers_that_no_dtype_holds_together_are_refused() -> None:
    def envs(*dtypes: Any) -> list[Any]:
        spaces = [Box(0, jnp.iinfo(dtype).max, (1,), dtype) for dtype in dtypes]
        return [ScriptEnv(space, space.high * np.ones(1, space.dtype)) for space in spaces]

    multi = MultiEnv(envs(jnp.uint32, jnp.int8))
    obs, _ = multi.reset(jax.random.key(0))
    said = r"MultiEnv\.pad_observations: expected .* int32 .*; got uint32 and int8\. Cast"
    with pytest.raises(TypeError, match=said):
        multi.pad_observations(obs)
    with jax.enable_x64(True):
        padded, _ = MultiEnv(envs(jnp.uint32, jnp.int8)).pad_observations(obs)
        assert padded.dtype == jnp.int64 and padded.ravel().tolist() == [2**32 - 1, 127]
    multi = MultiEnv(envs(jnp.uint32, jnp.uint8))
    padded, _ = multi.pad_observations(multi.reset(jax.random.key(0))[0])
    assert padded.dtype == jnp.uint32 and padded.ravel().tolist() == [2**32 - 1, 255]


SPACES = [
    Discrete(4),
    Box(-1.0, 1.0, (2, 2)),
    MultiDiscrete((2, 3)),
    MultiBinary(3),
    Tuple((Discrete(3), Box(0, 255, (2,), jnp.uint8))),
]


def packed(space: Any, action: Any) -> np.ndarray:
    """What a policy would emit for an action."""
    return np.concatenate([np.ravel(leaf).astype(np.float32) for leaf in jax.tree.leaves(action)])


@pytest.mark.parametrize("vec", slow_but(True, values=[False, True]), ids=["single", "vec"])
def test_actions_come_back_as_they_were(vec: bool) -> None:
    envs = [Actions(CounterEnv(), space) for space in SPACES]
    multi: Any = MultiVecEnv([VecEnv(env, 2) for env in envs]) if vec else MultiEnv(envs)
    width, _ = multi.pad_dims()
    rows: list[np.ndarray] = []
    actions = [space.sample(jax.random.key(i)) for i, space in enumerate(multi.action_spaces)]
    for space, action in zip(SPACES, actions, strict=True):
        each = [jax.tree.map(lambda x, i=i: x[i], action) for i in range(2)] if vec else [action]
        rows += [packed(space, one) for one in each]
    padded = np.stack([np.pad(row, (0, width - len(row)), constant_values=9.0) for row in rows])
    found = multi.unpad_actions(jnp.asarray(padded))
    for space, ours, theirs in zip(multi.action_spaces, found, actions, strict=True):
        assert space.contains(ours)
        jax.tree.map(np.testing.assert_array_equal, ours, theirs)


def test_the_only_axis_may_be_left_out() -> None:
    rounded = MultiEnv([CounterEnv()] * 2).unpad_actions(jnp.asarray([2.9999, 0.1]))
    assert [int(a) for a in rounded] == [3, 0]
    multi = MultiVecEnv({"a": VecEnv(CounterEnv(), 2), "b": VecEnv(VectorEnv(), 1)})
    for actions in (jnp.asarray([0, 1, 2]), np.asarray([[0], [1], [2]])):
        cut = multi.unpad_actions(actions)
        assert {k: v.tolist() for k, v in cut.items()} == {"a": [0, 1], "b": [2]}
        assert cut["a"].dtype == jnp.int32


def test_a_padded_episode_in_one_compiled_scan() -> None:
    multi = MultiVecEnv([VecEnv(CounterEnv(), 2), VecEnv(VectorEnv(), 3)])
    mask = multi.choice_mask()

    def step(states: Any, rng: jax.Array) -> Any:
        logits = jnp.where(mask, 0.0, -jnp.inf)
        actions = multi.unpad_actions(jax.random.categorical(rng, logits))
        obs, states, *_ = multi.step(states, actions)
        return states, multi.pad_observations(obs)[0]

    _, states = multi.reset(jax.random.key(0))
    run = jax.jit(lambda s: jax.lax.scan(step, s, jax.random.split(jax.random.key(1), 7)))
    _, padded = run(states)
    assert padded.shape == (7, 5, 3)
    np.testing.assert_array_equal(padded[:, :2, 1], np.arange(1, 8)[:, None] % 5 * [1, 1])


def test_refusals() -> None:
    multi = MultiVecEnv({"z": VecEnv(CoinEnv(), 2), "a": VecEnv(NestedEnv(), 3)})
    obs, _ = multi.reset(jax.random.key(0))
    for wrong in (jnp.stack([obs["z"]] * 4), obs["a"]):
        with pytest.raises(ValueError, match="expected obs"):
            multi.pad_observations({**obs, "z": wrong})
    for shape in ((2, 3), (5, 2), (6,), ()):
        with pytest.raises(ValueError, match="unpad_actions"):
            multi.unpad_actions(jnp.zeros(shape, jnp.int32))
    with pytest.raises(TypeError, match="Discrete"):
        multi.choice_mask()


def test_padding_compiles_once(compile_counter: Any) -> None:
    multi = MultiEnv([CounterEnv(), VectorEnv()])
    obs, _ = multi.reset(jax.random.key(0))
    actions = jnp.zeros(2, jnp.int32)
    with compile_counter() as compiled:
        for _ in range(3):
            multi.pad_observations(obs)
            multi.unpad_actions(actions)
    assert compiled.count == 2
