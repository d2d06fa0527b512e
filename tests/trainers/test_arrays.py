# pyright: reportMissingImports=false
"""`to_gymnasium_vec(array=...)`: JAX arrays and Torch tensors that no later step changes."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from helpers import assert_trees_equal, written_again
from trainers.bridge_envs import ENVS, GoalEnv, actions_of

from envrax import VecEnv
from envrax.interop import to_gymnasium, to_gymnasium_vec
from envrax.interop.out.tensors import from_torch, to_torch
from envrax.testing import CountingEnv, MaskedEnv, NestedEnv
from envrax.wrappers import RecordEpisodeStatistics


def as_numpy(tree: Any) -> Any:
    return jax.tree.map(
        lambda x: x.numpy().copy() if isinstance(x, torch.Tensor) else np.array(x), tree
    )


@pytest.mark.parametrize("array", ["jax", "torch"])
@pytest.mark.parametrize("name", ["goal", "masked"])
def test_steps_are_those_of_the_vec_env(array: Any, name: str) -> None:
    inner = RecordEpisodeStatistics(ENVS[name])
    env, batch = to_gymnasium_vec(VecEnv(inner, 4), array=array), VecEnv(inner, 4, final_obs=True)
    obs, infos = env.reset(seed=7)
    wanted, state = batch.reset(jax.random.split(jax.random.key(7))[1])
    kind = {"jax": jax.Array, "torch": torch.Tensor}[array]
    assert all(isinstance(x, kind) for x in jax.tree.leaves((obs, infos)))
    assert_trees_equal(as_numpy(obs), as_numpy(wanted))
    for action in actions_of(batch.action_space, 60):
        given = jax.tree.map(torch.tensor if array == "torch" else jnp.asarray, action)
        result = env.step(given)
        assert all(isinstance(x, kind) for x in jax.tree.leaves(result))
        if array == "torch":
            _require_own_memory(result)
        obs, state, rewards, dones, hers = batch.step(state, action)
        mine = dict(result[4])
        if (mask := batch.action_mask(state)) is not None:
            assert_trees_equal(as_numpy(mine.pop("action_mask")), as_numpy(mask))
        assert_trees_equal(as_numpy(result[:2]), as_numpy((obs, rewards)))
        assert_trees_equal(as_numpy(result[2] | result[3]), as_numpy(dones))
        rest = {k: v for k, v in hers.items() if k not in ("terminated", "truncated")}
        assert_trees_equal(as_numpy(mine), as_numpy(rest))


def _require_own_memory(tree: Any) -> None:
    places = [x.data_ptr() for x in jax.tree.leaves(tree) if x.numel()]
    assert len(places) == len(set(places))


def test_jax_arrays_are_not_the_state() -> None:
    env = to_gymnasium_vec(VecEnv(GoalEnv(), 4, donate=True), array="jax")
    obs, _ = env.reset(seed=0)
    pointers = {x.unsafe_buffer_pointer() for x in jax.tree.leaves(env._loop._state)}
    assert not pointers & {x.unsafe_buffer_pointer() for x in jax.tree.leaves(obs)}


@pytest.mark.parametrize("array", ["jax", "torch"])
def test_actions_may_be_edited_at_once(array: Any) -> None:
    """The step has not run yet when it returns, and JAX reads NumPy arrays where they lie."""
    env = to_gymnasium_vec(VecEnv(GoalEnv(), 1), array="jax")
    env.reset(seed=0)

    def last(action: np.ndarray[Any, Any]) -> Any:
        env.step(torch.from_numpy(action) if array == "torch" else action)
        return env.step(np.zeros((1, 64), np.float32))[0]["last"]

    half = np.full((1, 64), 0.5, np.float32)
    assert written_again(last, half, 0.25).tolist() == half.tolist()


def test_compiles_once_and_transfers_nothing(
    compile_counter: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    to_gymnasium(CountingEnv()).reset(seed=0)  # the programs of keys
    env = to_gymnasium_vec(VecEnv(MaskedEnv(), 4), array="torch")
    monkeypatch.delattr(jax, "device_get")
    with compile_counter() as compiled:
        for _ in range(3):
            env.reset(seed=0)
            for dtype in (torch.int64, torch.int32, torch.uint8):
                for _ in range(6):
                    env.step(torch.tensor([0, 1, 2, 0], dtype=dtype))
    assert compiled.count == 2


def test_tensors_of_all_kinds() -> None:
    tree = {
        "half": jnp.ones((2,), jnp.bfloat16),
        "flag": jnp.asarray(True),
        "none": jnp.zeros((0, 3), jnp.int8),
        "bits": jnp.arange(3, dtype=jnp.uint32),
    }
    tensors = to_torch(tree)
    assert tensors["half"].dtype == torch.bfloat16 and tensors["flag"].item() is True
    assert tensors["none"].shape == (0, 3) and tensors["bits"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("array", ["numpy", "jax", "torch"])
def test_keys_are_returned_as_bits(array: Any) -> None:
    class KeyInInfo(CountingEnv):
        def step(self, state: Any, action: Any) -> Any:
            *rest, info = super().step(state, action)
            return *rest, {**info, "key": state.rng}

    env = to_gymnasium_vec(VecEnv(KeyInInfo(), 2), array=array)
    env.reset(seed=0)
    found = env.step(torch.zeros(2, dtype=torch.int32) if array == "torch" else [0, 0])[4]["key"]
    bits = VecEnv(KeyInInfo(), 2).reset(jax.random.split(jax.random.key(0))[1])[1].rng
    assert found.tolist() == jax.random.key_data(bits).tolist()


@pytest.mark.parametrize("name", ["room", "rooms"])
def test_choices_that_are_seen_are_int64_as_tensors(name: str) -> None:
    """As NumPy arrays are, and as `one_hot`, `gather` and an embedding of Torch take them."""
    batch = VecEnv(ENVS[name], 2)
    plain, env = (to_gymnasium_vec(batch, array=array) for array in ("numpy", "torch"))
    assert_trees_equal(as_numpy(env.reset(seed=0)[0]), plain.reset(seed=0)[0])
    for action in actions_of(batch.action_space, 12):
        obs, _, terminated, truncated, infos = env.step(action)
        wanted = plain.step(action)
        assert_trees_equal(as_numpy(obs), wanted[0])
        final = as_numpy(infos["final_obs"])
        for slot in np.flatnonzero(terminated | truncated):
            last = jax.tree.map(lambda x, i=slot: x[i], final)
            assert_trees_equal(last, wanted[-1]["final_obs"][slot])
    choice = jax.tree.leaves(obs)[0]
    assert torch.nn.functional.one_hot(choice, 200).shape == (2, 200)


def test_actions_with_a_gradient_or_of_other_kinds() -> None:
    weights = torch.ones(3, requires_grad=True)
    given = {"a": weights * 2, "b": (torch.arange(6)[::2], 3, np.ones(2))}
    given["c"] = weights.bfloat16() * 0.3  # as `torch.autocast("cpu")` gives it
    found = from_torch(given)
    assert found["a"].tolist() == [2.0] * 3 and found["b"][0].tolist() == [0, 2, 4]
    assert found["c"].dtype == jnp.bfloat16 and found["c"].tolist() == given["c"].tolist()
    env = to_gymnasium_vec(VecEnv(NestedEnv(), 2), array="torch")
    env.reset(seed=0)
    env.step((torch.zeros(2, dtype=torch.int64), np.zeros((2, 2), np.int32)))
    env.step(env.action_space.sample())
