# pyright: reportMissingImports=false
"""
The transitions in the buffers of TorchRL, skrl, sbx and Tianshou, against a `VecEnv` from the same
key: equal to the last bit, also at the ends of episodes.

Of what a trainer does wrong by itself, a test shows it with Gymnasium's own `SyncVectorEnv`: once
the trainer is mended, the test fails, and the page about trainers can be shortened.
"""

import logging
from collections.abc import Iterator
from functools import partial
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from sbx import DQN
from skrl.agents.torch.dqn import DQN as SkrlDQN
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from skrl.utils.model_instantiators.torch import deterministic_model
from tianshou.algorithm.random import MARLRandomDiscreteMaskedOffPolicyAlgorithm
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from torchrl.collectors import Collector as TorchCollector
from torchrl.envs import GymWrapper, RewardSum, TransformedEnv
from trainers.bridge_envs import GoalEnv
from trainers.replayed import ENV, N_SLOTS, NAMES, replayed, replayed_one, require_equal

from envrax import VecEnv
from envrax.interop import to_gymnasium, to_gymnasium_vec, to_sb3
from envrax.testing.fakes import FakeConfig

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn

N_STEPS = 120
SAME_STEP, DISABLED = AutoresetMode.SAME_STEP, AutoresetMode.DISABLED


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    logging.getLogger("torchrl").setLevel(logging.ERROR)
    torch.manual_seed(0)
    np.random.seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with jax.numpy_dtype_promotion("standard"):  # as users have it
        yield
    torch.set_num_threads(threads)


def by_steps(x: torch.Tensor) -> np.ndarray[Any, Any]:
    """TorchRL has slots first, and an axis more for rewards and ends."""
    found = x.numpy().swapaxes(0, 1)
    return found[..., 0] if found.shape[-1] == 1 else found


def test_torchrl() -> None:
    env = GymWrapper(to_gymnasium_vec(VecEnv(ENV, N_SLOTS), autoreset_mode=DISABLED))
    env.set_seed(0)  # the first reset; the collector does the second
    frames = N_SLOTS * N_STEPS
    collector = TorchCollector(env, None, frames_per_batch=frames // 2, total_frames=frames)
    data = torch.cat([part.clone() for part in collector], 1)
    buffer = {
        "obs": by_steps(data["observation"]),
        "action": by_steps(data["action"].argmax(-1)),
        "reward": by_steps(data["next", "reward"]),
        "terminated": by_steps(data["next", "terminated"]),
        "truncated": by_steps(data["next", "truncated"]),
        "next_obs": by_steps(data["next", "observation"]),
    }
    require_equal(buffer, replayed(buffer["action"], n_resets=2))


def with_dict() -> gymnasium.Env[Any, Any]:
    """CartPole whose observation is a dict of ones; it ends after four steps."""
    env = gymnasium.make("CartPole-v1", max_episode_steps=4)
    space = gymnasium.spaces.Dict(ones=gymnasium.spaces.Box(0.0, 1.0, (4,)))
    ones = {"ones": np.ones(4, np.float32)}
    return gymnasium.wrappers.TransformObservation(env, lambda _: ones, space)


def zeros_in(mode: AutoresetMode) -> list[bool]:
    """The steps after which TorchRL has zeros for these ones."""
    env = GymWrapper(SyncVectorEnv([with_dict] * 2, autoreset_mode=mode))
    found = env.rollout(4, break_when_any_done=False)["next", "ones"]
    return [not x.any() for x in found[0]]


def test_torchrl_writes_zeros_for_a_last_observation_that_is_a_dict() -> None:
    assert zeros_in(SAME_STEP) == [False, False, False, True]
    assert zeros_in(DISABLED) == [False] * 4


def test_torchrl_takes_dict_observations_with_resets_of_its_own() -> None:
    batch = VecEnv(GoalEnv(FakeConfig(max_steps=4)), 2)
    env = GymWrapper(to_gymnasium_vec(batch, autoreset_mode=DISABLED))
    data = env.rollout(9, break_when_any_done=False)
    assert data["next", "done"][0, :, 0].nonzero().flatten().tolist() == [3, 7]
    ended = data["next", "done"][:, :-1, 0]
    for name in ("goal", "last"):
        after, before = data[name][:, 1:], data["next", name][:, :-1]
        assert torch.equal(after[~ended], before[~ended])
        assert before[ended].any(-1).all()


def begins_anew(mode: AutoresetMode) -> bool:
    """Whether the second rollout begins where the environment is, after one that broke off."""
    makes = [partial(gymnasium.make, "CartPole-v1", max_episode_steps=n) for n in (3, 5)]
    env = GymWrapper(SyncVectorEnv(makes, autoreset_mode=mode))
    env.rollout(9)  # until the first slot ends
    data = env.rollout(2)
    position, velocity, *_ = data["observation"][:, 0].unbind(-1)
    return torch.allclose(position + 0.02 * velocity, data["next", "observation"][:, 0, 0])


def test_torchrl_begins_a_second_rollout_with_an_old_observation() -> None:
    assert not begins_anew(SAME_STEP)
    assert begins_anew(DISABLED)


def sums_of_rewards(array: Any) -> torch.Size:
    envs = to_gymnasium_vec(VecEnv(ENV, N_SLOTS), array=array, autoreset_mode=DISABLED)
    env = TransformedEnv(GymWrapper(envs), RewardSum())
    return env.rollout(5, break_when_any_done=False)["next", "episode_reward"].shape


def test_torchrl_sums_rewards_of_numpy_arrays_only() -> None:
    assert sums_of_rewards("numpy") == (N_SLOTS, 5, 1)
    assert sums_of_rewards("torch") == (N_SLOTS, 5, N_SLOTS)


class FinalObs:
    """The mixin of the page: the last observation of an episode, not the first of the next."""

    def record_transition(self, *, next_observations: Any, infos: Any, **rest: Any) -> None:
        next_observations = next_observations.clone()
        for slot in np.flatnonzero(infos.get("_final_obs", False)):
            next_observations[slot] = torch.as_tensor(infos["final_obs"][slot])
        super().record_transition(next_observations=next_observations, infos=infos, **rest)


class MendedDQN(FinalObs, SkrlDQN):
    pass


def skrl_memory(agent: type[Any], envs: Any) -> dict[str, np.ndarray[Any, Any]]:
    """The memory of skrl after random actions."""
    set_seed(0)
    env = wrap_env(envs)
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    layers = [{"name": "net", "input": "OBSERVATIONS", "layers": [8], "activations": "relu"}]
    q = [deterministic_model(**spaces, network=layers, output="ACTIONS") for _ in range(2)]
    memory = RandomMemory(memory_size=N_STEPS, num_envs=N_SLOTS)
    quiet = {"write_interval": 0, "checkpoint_interval": 0}
    later = {"random_timesteps": N_STEPS, "learning_starts": N_STEPS, "experiment": quiet}
    models = {"q_network": q[0], "target_q_network": q[1]}
    for model in q:
        model.init_state_dict()
    player = agent(models=models, memory=memory, cfg=later, **spaces)
    loop = {
        "timesteps": N_STEPS,
        "disable_progressbar": True,
        "close_environment_at_exit": False,
        "headless": True,
    }
    SequentialTrainer(env=env, agents=player, cfg=loop).train()
    names = {
        "obs": "observations",
        "action": "actions",
        "reward": "rewards",
        "terminated": "terminated",
        "next_obs": "next_observations",
    }
    held = {name: memory.get_tensor_by_name(theirs).numpy() for name, theirs in names.items()}
    return {name: x[..., 0] if x.shape[-1] == 1 else x for name, x in held.items()}


def test_skrl() -> None:
    buffer = skrl_memory(MendedDQN, to_gymnasium_vec(VecEnv(ENV, N_SLOTS)))
    require_equal(buffer, replayed(buffer["action"]))


def test_skrl_takes_the_first_observation_of_the_next_episode_for_the_last() -> None:
    one = partial(gymnasium.make, "CartPole-v1", max_episode_steps=12)
    buffer = skrl_memory(SkrlDQN, SyncVectorEnv([one] * N_SLOTS, autoreset_mode=SAME_STEP))
    assert buffer["terminated"].any()
    np.testing.assert_array_equal(buffer["next_obs"][:-1], buffer["obs"][1:])


def test_sbx() -> None:
    env = to_sb3(VecEnv(ENV, N_SLOTS))
    model = DQN("MlpPolicy", env, buffer_size=N_SLOTS * N_STEPS, learning_starts=10_000, seed=0)
    model.learn(N_SLOTS * N_STEPS, callback=lambda found, _: found["self"].replay_buffer.pos >= 0)
    held = model.replay_buffer
    assert held is not None
    wanted = replayed(held.actions[..., 0])
    dones = wanted["terminated"] | wanted["truncated"]
    require_equal(
        {"obs": held.observations, "reward": held.rewards, "next_obs": held.next_observations},
        wanted,
    )
    np.testing.assert_array_equal(held.dones, dones)
    np.testing.assert_array_equal(held.timeouts, wanted["truncated"] & ~wanted["terminated"])


def test_tianshou() -> None:
    envs = DummyVectorEnv([lambda: to_gymnasium(ENV)] * N_SLOTS)
    held = VectorReplayBuffer(N_SLOTS * N_STEPS, N_SLOTS)
    random = MARLRandomDiscreteMaskedOffPolicyAlgorithm(action_space=envs.action_space[0])
    collector = Collector(random, envs, held)
    envs.seed(4)  # 4, 5 and 6, and the first reset; the collector does the second
    collector.reset()
    collector.collect(n_step=N_SLOTS * N_STEPS, random=True)
    parts = [part[:] for part in held.buffers]
    names = dict(
        zip(NAMES, ("obs", "act", "rew", "terminated", "truncated", "obs_next"), strict=True)
    )
    buffer = {name: np.stack([part[x] for part in parts], 1) for name, x in names.items()}
    wanted = [
        replayed_one(part.act, seed=4 + worker, n_resets=2) for worker, part in enumerate(parts)
    ]
    joined = {name: np.stack([one[name] for one in wanted], 1) for name in NAMES}
    require_equal(buffer, joined)


@pytest.mark.parametrize(
    "make", [partial(to_gymnasium, ENV), partial(gymnasium.make, "CartPole-v1")]
)
def test_tianshou_gives_all_workers_the_seed_of_a_reset(make: Any) -> None:
    envs = DummyVectorEnv([make] * 3)
    obs, _ = envs.reset(seed=0)
    assert (obs == obs[0]).all()
    envs.seed(0)
    obs, _ = envs.reset()
    assert len(np.unique(obs, axis=0)) == 3
