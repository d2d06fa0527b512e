# pyright: basic, reportMissingImports=false
"""Faults of trainers and formats: each test fails once one is mended."""

import importlib
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from envrax.interop import from_gymnasium_vec

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


class Noise(gymnasium.Env[Any, Any]):
    """Images that JPEG cannot keep."""

    observation_space = gymnasium.spaces.Box(0, 255, (32, 32, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.np_random.integers(0, 256, (32, 32, 3), np.uint8), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.reset()[0], 0.0, True, False, {}


def two_sets(make: Any, **options: Any) -> list[Any]:
    """Data sets of Minari's collector, of one step each, with the seeds 1 and 2."""
    sets = []
    for seed in (1, 2):
        env = module("minari").DataCollector(make(), **options)
        env.reset(seed=seed)
        env.step(0)
        left_open = env._tmp_dir
        sets.append(env.create_dataset(f"noise/{seed}-v0"))
        left_open.cleanup()
        env._tmp_dir.cleanup()
    return sets


def test_combined_data_sets_of_minari_lose_pixels_and_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    minari = module("minari")
    sets = two_sets(Noise, jpeg_encoding=False)
    images = [x[0].observations for x in sets]
    combined = minari.combine_datasets(sets, "noise/both-v0")
    assert (combined[0].observations != images[0]).mean() > 0.5
    sets[0].storage.update_from_storage(sets[1].storage)
    np.testing.assert_array_equal(minari.load_dataset("noise/1-v0")[1].observations, images[1])
    for dataset, seeds in (combined, [None, None]), (sets[0], [1, None]):
        found = dataset.storage.get_episode_metadata([0, 1])
        assert [x.get("seed") for x in found] == seeds


class Numbers(Noise):
    """Its infos are one number a step."""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return super().reset(seed=seed)[0], {"number": 1.0}

    def step(self, action: Any) -> Any:
        return *super().step(action)[:4], {"number": 2.0}


def test_combined_numbers_of_minari_cannot_be_read_from_arrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    sets = two_sets(Numbers, record_infos=True, data_format="arrow")
    assert sets[0][0].infos["number"].tolist() == [1.0, 2.0]
    combined = module("minari").combine_datasets(sets, "noise/both-v0")
    with pytest.raises(ValueError, match="invalid literal"):
        combined[0]


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


def test_the_reward_scale_of_gymnasium_depends_on_the_reset_mode() -> None:
    gymnasium = module("gymnasium")
    mode, wrap = gymnasium.vector.AutoresetMode, gymnasium.wrappers.vector.NormalizeReward

    def total(reset: Any) -> float:
        env = wrap(
            gymnasium.vector.SyncVectorEnv(
                [lambda: gymnasium.make("Pendulum-v1", max_episode_steps=2)], autoreset_mode=reset
            )
        )
        env.reset(seed=0)
        sums = []
        for _ in range(9):
            env.step(np.zeros((1, 1), np.float32))
            sums.append(float(env.accumulated_reward[0]))
        return min(sums)

    assert total(mode.NEXT_STEP) < total(mode.SAME_STEP)


def test_statistics_of_gymnasium_forget_all_slots_on_a_partial_reset() -> None:
    gymnasium = module("gymnasium")
    vector, wrappers = gymnasium.vector, gymnasium.wrappers.vector
    make = [lambda: gymnasium.make("CartPole-v1")] * 2
    env = vector.SyncVectorEnv(make, autoreset_mode=vector.AutoresetMode.DISABLED)
    env = wrappers.RecordEpisodeStatistics(env)
    env.reset(seed=0)
    env.step(np.zeros(2, int))
    options = {"reset_mask": np.array([True, False])}
    env.reset(options=options)
    assert env.episode_lengths.tolist() == [0, 0] and options == {}


class OneArray(gymnasium.Env[Any, Any]):
    """Returns the same array from every call, with other numbers in it."""

    observation_space = gymnasium.spaces.Box(0.0, 9.0, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.obs = np.zeros(1, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.obs[:] = 9
        return self.obs, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.obs[:] = 1
        return self.obs, 0.0, True, False, {}


@pytest.mark.parametrize("copy", [True, False])
def test_the_last_observation_of_gymnasium_is_the_next_episode_s(copy: bool) -> None:
    modes = gymnasium.vector.AutoresetMode

    def made(mode: Any) -> Any:
        return gymnasium.vector.SyncVectorEnv([OneArray] * 2, copy=copy, autoreset_mode=mode)

    env = made(modes.SAME_STEP)
    env.reset(seed=0)
    assert [*env.step(np.zeros(2, int))[-1]["final_obs"]] == [9, 9]
    for mode in (modes.NEXT_STEP, modes.DISABLED):
        batch = from_gymnasium_vec(made(mode), final_obs=True)
        obs, state = batch.reset(jax.random.key(0))
        obs, *_, infos = batch.step(state, [0, 0])
        assert obs.tolist() == [[9], [9]] and infos["final_obs"].tolist() == [[1], [1]]


def test_advantages_of_skrl_run_through_time_limits() -> None:
    torch, ppo = module("torch"), module("skrl.agents.torch.ppo.ppo")
    no, zeros = torch.zeros(4, 1, dtype=torch.bool), torch.zeros(4, 1)
    limit = no.clone()
    limit[1] = True
    given = dict(
        terminated=no, values=zeros, last_values=zeros[0], rewards=torch.arange(4.0)[:, None]
    )

    def returns(limit: Any, bootstrap: bool) -> Any:
        return ppo.compute_gae(**given, truncated=limit, time_limit_bootstrap=bootstrap)[0][0]

    through, cut = returns(limit, False), returns(limit, True)
    assert through == returns(no, False) and through > cut


def test_several_rows_of_skrl_are_torn_apart() -> None:
    torch, memories = module("torch"), module("skrl.memories.torch")
    memory = memories.RandomMemory(memory_size=6, num_envs=1, device="cpu")
    rows = torch.arange(3.0)[:, None]
    for name in ("observations", "rewards"):
        memory.create_tensor(name, size=1, dtype=torch.float32)
    memory.add_samples(observations=rows, rewards=rows)
    for name, first in (("observations", 0), ("rewards", 3)):
        stored = memory.get_tensor_by_name(name)[:, 0]
        assert torch.equal(stored[first : first + 3], rows) and stored.isnan().sum() == 3


def test_a_plain_buffer_of_torchrl_does_not_mark_the_ends_of_slices() -> None:
    torch, data = module("torch"), module("torchrl.data")
    tensordict = module("tensordict").TensorDict

    def marked(kind: str) -> int:
        no = torch.zeros(20, 1, dtype=torch.bool)
        ends = no.clone()
        ends[9::10] = True
        follow = tensordict({"done": ends, "truncated": no.clone(), "terminated": ends}, [20])
        steps = tensordict({"obs": torch.arange(20), "next": follow}, [20])
        sampler = data.replay_buffers.SliceSampler(slice_len=4, end_key=("next", "done"))
        buffer = getattr(data, kind)(
            storage=data.LazyTensorStorage(20), sampler=sampler, batch_size=8
        )
        buffer.extend(steps)
        return int(buffer.sample()["next", "truncated"].sum())

    torch.manual_seed(0)
    assert (marked("ReplayBuffer"), marked("TensorDictReplayBuffer")) == (0, 2)


def test_a_new_life_of_envpool_begins_with_old_frames() -> None:
    env = module("envpool").make("Breakout-v5", "gymnasium", num_envs=1, episodic_life=True, seed=0)
    env.reset()
    ended = False
    while not ended:
        obs, _, terminated, truncated, _ = env.step(np.ones(1, int))
        ended = terminated[0] or truncated[0]
    begun = env.step(np.zeros(1, int))[0]
    assert (begun[0, :3] == obs[0, 1:]).all() and (begun[0, 0] != begun[0, 3]).any()


def test_a_plateau_of_optax_never_comes_below_zero() -> None:
    def scale(value: float) -> float:
        plateau = module("optax").contrib.reduce_on_plateau(patience=2)
        state = plateau.init(jnp.zeros(1))
        with jax.numpy_dtype_promotion("standard"):
            for _ in range(9):
                _, state = plateau.update(jnp.ones(1), state, value=jnp.float32(value))
        return float(state.scale)

    assert scale(-5) == 1 > scale(5)


def test_an_agent_that_leaves_is_not_terminated_in_pettingzoo_s_episodes() -> None:
    pettingzoo = module("pettingzoo")
    wrapper = module("pettingzoo.utils.wrappers.multi_episode_parallel_env")

    class Leaves(pettingzoo.ParallelEnv):
        possible_agents = property(lambda self: ["a", "b"])

        def reset(self, seed: Any = None, options: Any = None) -> Any:
            self.agents, self.t = ["a", "b"], 0
            return dict.fromkeys(self.agents, 0), {x: {} for x in self.agents}

        def step(self, actions: Any) -> Any:
            self.t += 1
            given = self.agents
            ends = {x: self.t == {"a": 1, "b": 2}[x] for x in given}
            self.agents = [x for x in given if not ends[x]]
            zeros = dict.fromkeys(given, 0)
            return zeros, zeros, ends, dict.fromkeys(given, False), {x: {} for x in given}

    env = wrapper.MultiEpisodeParallelEnv(Leaves(), num_episodes=2)
    env.reset()
    _, _, terminated, truncated, _ = env.step({"a": 0, "b": 0})
    assert env.agents == ["b"] and not terminated["a"] and not truncated["a"]


def test_a_list_in_an_info_of_minari_is_transposed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    gymnasium, minari = module("gymnasium"), module("minari")

    class Lists(gymnasium.Env):
        observation_space = gymnasium.spaces.Discrete(9)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, seed: Any = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            self.t = 0
            return 0, {"pair": [0.0, 0.5]}

        def step(self, action: Any) -> Any:
            return 1, 0.0, True, False, {"pair": [1.0, 1.5]}

    env = minari.DataCollector(Lists(), record_infos=True, data_format="arrow")
    env.reset(seed=0)
    env.step(0)
    episode = env.create_dataset("lists/pair-v0")[0]
    assert np.stack(episode.infos["pair"]).tolist() == [[0, 1], [0.5, 1.5]]
    env._tmp_dir.cleanup()  # which it leaves open
