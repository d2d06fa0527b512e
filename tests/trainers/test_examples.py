# pyright: reportMissingImports=false
"""The CleanRL-style example: one program for vector environments of Gymnasium and of envrax."""

from collections.abc import Iterator
from typing import Any

import cleanrl_ppo
import gymnasium
import numpy as np
import pytest
import torch
from cleanrl_ppo import Agent, Log, Options, advantages, last_values
from gymnasium.vector import AutoresetMode, VectorEnv

import envrax
from envrax.interop import to_gymnasium_vec


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small networks are slower on several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def trained(envs: VectorEnv[Any, Any, Any], **options: Any) -> tuple[Agent, Log]:
    try:
        return cleanrl_ppo.train(envs, Options(**{"num_envs": 4, "epochs": 4, **options}))
    finally:
        envs.close()


def test_it_learns() -> None:
    envs = cleanrl_ppo.make("classic/CartPole-v0", 8)
    _, log = trained(envs, num_envs=8, epochs=10, total_steps=12_000)
    assert log.mean_return() > 40  # random actions return 22


def cut_short(library: str) -> VectorEnv[Any, Any, Any]:
    """CartPole that is cut after five steps, which is before the pole can have fallen."""
    if library == "envrax":
        return to_gymnasium_vec(envrax.make_vec("classic/CartPole-v0", 4, max_steps=5))
    kwargs = {"autoreset_mode": AutoresetMode.SAME_STEP}
    return gymnasium.make_vec("CartPole-v1", 4, "sync", kwargs, max_episode_steps=5)


@pytest.mark.parametrize("library", ["gymnasium", "envrax"])
def test_after_a_truncation_the_last_observation_is_valued(library: str) -> None:
    envs, agent = cut_short(library), Agent(4, 2)
    envs.reset(seed=0)
    for t in range(4):
        _, _, terminated, truncated, infos = envs.step(np.array([t % 2] * 4))
        assert not last_values(agent, infos, truncated & ~terminated).any()
    obs, _, terminated, truncated, infos = envs.step(np.array([0] * 4))
    values = last_values(agent, infos, truncated & ~terminated)
    assert truncated.all() and not terminated.any()
    last = torch.from_numpy(np.stack(list(infos["final_obs"])))
    assert torch.equal(values, agent.value(last))
    assert not torch.allclose(values, agent.value(torch.from_numpy(obs)))
    envs.close()


def test_the_return_of_every_episode_is_counted() -> None:
    _, log = trained(cut_short("envrax"), total_steps=2 * 32 * 4)
    assert list(log.returns) == [5.0] * (64 // 5 * 4)


def test_advantages_stop_at_an_end() -> None:
    rewards = torch.tensor([[1.0], [2.0], [3.0]])
    values, ahead = torch.full((3, 1), 0.5), torch.full((3, 1), 0.6)
    done = torch.tensor([[False], [True], [False]])
    found = advantages(rewards, values, ahead, done, Options(gamma=0.9, gae_lambda=0.5))
    first, second, third = (r + 0.9 * 0.6 - 0.5 for r in (1.0, 2.0, 3.0))
    assert found[:, 0].tolist() == pytest.approx([first + 0.45 * second, second, third])
