# pyright: reportMissingImports=false
"""`from_rsl_rl` of mjlab: its own loop bit for bit, and PPO learns in it."""

from typing import Any

import jax
import mjlab.tasks  # noqa: F401  # registers them
import numpy as np
import ppo
import torch
from mjlab.envs import ManagerBasedRlEnv
from mjlab.rl import RslRlVecEnvWrapper
from mjlab.tasks.registry import load_env_cfg

from envrax.interop import from_rsl_rl
from envrax.wrappers.vector import BatchedWrapper, RecordEpisodeStatistics

KEY = jax.random.key(0)


def simulator(n: int, seconds: float, auto_reset: bool) -> Any:
    cfg = load_env_cfg("Mjlab-Cartpole-Balance")
    cfg.scene.num_envs = n
    cfg.seed = 3
    cfg.episode_length_s = seconds
    cfg.auto_reset = auto_reset
    return RslRlVecEnvWrapper(ManagerBasedRlEnv(cfg, device="cpu"))


def test_200_steps_equal_its_own_loop() -> None:
    actions = np.random.default_rng(0).uniform(-1, 1, (200, 4, 1)).astype(np.float32)
    batch = from_rsl_rl(simulator(4, 1.0, auto_reset=True))
    _, state = batch.reset(KEY)
    found: list[Any] = []
    for row in actions:
        obs, state, *results, infos = batch.step(state, row)
        found.append((obs["actor"], *results, infos["truncated"]))

    alone = simulator(4, 1.0, auto_reset=True)
    alone.unwrapped.seed(int(jax.random.bits(KEY, (), np.uint32) >> np.uint32(2)))
    alone.reset()
    n_ends = 0
    for row, ours in zip(actions, found, strict=True):
        obs, rewards, dones, extras = alone.step(torch.tensor(row))
        theirs = obs["actor"], rewards, dones.bool(), extras["time_outs"]
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a, b.numpy())
        n_ends += int(dones.sum())
    assert n_ends > 20


class Actor(BatchedWrapper[Any, Any]):
    """Only the group of observations that the policy sees."""

    @property
    def single_observation_space(self) -> Any:
        return self.env.single_observation_space["actor"]

    def observation(self, obs: Any) -> Any:
        return obs["actor"]


class MjlabPPO(ppo.PPO):
    def make(self) -> tuple[Any, Any]:
        """One to evaluate in, and one to train in: a simulator cannot go back."""
        sims = [simulator(self.options.n_envs, 5.0, auto_reset=False) for _ in range(2)]
        evaluated, trained = (RecordEpisodeStatistics(Actor(from_rsl_rl(sim))) for sim in sims)
        return evaluated, trained

    def evaluate(self, env: Any, params: Any, n: int, max_steps: int, **policy: Any) -> np.ndarray:
        return super().evaluate(env, params, 64, max_steps, **policy)


def test_ppo_learns() -> None:
    options = ppo.Options(env="mjlab", total_steps=80_000, gamma=0.97)
    with jax.numpy_dtype_promotion("standard"):  # Adam, as optax writes it
        _, _, before, after = ppo.run(MjlabPPO(options))
    assert after.mean() > 1.3 * before.mean()
