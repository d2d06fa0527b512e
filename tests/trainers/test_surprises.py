# pyright: basic, reportMissingImports=false
"""Faults of trainers and formats: each test fails once one is mended."""

import importlib
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore")
module = importlib.import_module


def test_the_buffer_of_tianshou_cuts_a_score_that_begins_as_an_int() -> None:
    data = module("tianshou.data")
    buffer = data.ReplayBuffer(4)
    for score in (0, 0.5, 0.9, 2.7):
        step = dict(obs=0, act=0, rew=0.0, terminated=False, truncated=False, obs_next=0)
        buffer.add(data.Batch(**step, info={"score": score}))
    assert buffer.info.score.tolist() == [0, 0, 0, 2]


def test_combined_data_sets_of_minari_forget_the_filter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    minari = module("minari")
    env = minari.DataCollector(module("gymnasium").make("CartPole-v1"))
    for seed in range(5):
        env.reset(seed=seed)
        while not any(env.step(env.action_space.sample())[2:4]):
            pass
    whole = env.create_dataset("cart/all-v0")
    part = whole.filter_episodes(lambda episode: episode.id == 0)
    combined = minari.combine_datasets([part], "cart/part-v0")
    assert (part.total_episodes, combined.total_episodes) == (1, 5)
    env.close()
    env._tmp_dir.cleanup()  # which it leaves open


def test_multi_step_of_torchrl_leaves_the_end_behind() -> None:
    torch, tensordict = module("torch"), module("tensordict").TensorDict
    ends = torch.tensor([[[False], [False], [True]]])
    last = {
        "reward": torch.ones(1, 3, 1),
        "done": ends,
        "terminated": ends,
        "obs": torch.ones(1, 3, 1),
    }
    mask = torch.ones(1, 3, dtype=torch.bool)
    steps = tensordict(
        {"next": last, "obs": torch.zeros(1, 3, 1), "collector": {"mask": mask}}, [1, 3]
    )
    summed = module("torchrl.data").MultiStep(0.9, 3)(steps)["next"]
    assert summed["reward"][0, 0] > 2 and not summed["terminated"][0, 0]


def test_orbax_restores_the_key_of_the_file(tmp_path: Path) -> None:
    checkpointer = module("orbax.checkpoint").StandardCheckpointer()
    checkpointer.save(tmp_path / "a", {"key": jax.random.key(0, impl="rbg")})
    checkpointer.wait_until_finished()
    like: Any = jax.eval_shape(lambda: {"key": jax.random.key(0)})
    restored = checkpointer.restore(tmp_path / "a", like)["key"]
    assert jax.random.key_impl(restored) == "rbg" and jnp.shape(restored) == ()
    assert np.size(jax.random.key_data(restored)) == 4
