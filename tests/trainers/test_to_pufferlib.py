# pyright: reportMissingImports=false
"""`to_pufferlib`: its steps are those of `to_gymnasium_vec`, by every backend of PufferLib."""

import multiprocessing
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pufferlib
import pufferlib.vector
import pytest
from pufferlib.emulation import GymnasiumPufferEnv
from trainers.bridge_envs import EndsEnv, GoalEnv, RoomEnv, actions_of

import envrax
from envrax import MultiDiscrete, VecEnv
from envrax.interop import to_gymnasium, to_gymnasium_vec, to_pufferlib
from envrax.multi_agent import agents_as_slots
from envrax.testing import ChaseWorld, CountingEnv, NestedEnv
from envrax.testing.fakes import FakeConfig
from envrax.wrappers import ClipReward, RecordEpisodeStatistics

N = 4


class Choices(EndsEnv):
    """The first of two choices ends the episode, as the action of `EndsEnv`."""

    @property
    def action_space(self) -> Any:
        return MultiDiscrete((4, 3))

    def step(self, state: Any, action: Any) -> Any:
        return super().step(state, action[0])


BATCHES: dict[str, Callable[[], Any]] = {
    "both ends": lambda: VecEnv(EndsEnv(FakeConfig(max_steps=9)), N),
    "agents as slots": lambda: agents_as_slots(
        VecEnv(ChaseWorld(envrax.EnvConfig(max_steps=5)), N), ["runner_1", "runner_2"]
    ),
    "floats": lambda: envrax.make_vec("classic/Pendulum-v0", N, max_steps=9),
    "two choices": lambda: VecEnv(Choices(), N),
    "statistics": lambda: VecEnv(ClipReward(RecordEpisodeStatistics(EndsEnv())), N),
}


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("truncation_ends", [False, True])
def test_200_steps_are_those_of_to_gymnasium_vec(name: str, truncation_ends: bool) -> None:
    batch = BATCHES[name]()
    env = to_pufferlib(batch, truncation_ends=truncation_ends)
    buffers = [env.observations, env.rewards, env.terminals, env.truncations]
    envs = to_gymnasium_vec(batch)
    np.testing.assert_array_equal(env.reset(seed=3)[0], envs.reset(seed=3)[0])
    returns = np.zeros(env.num_agents)
    n_ends = np.zeros(2, int)
    for action in actions_of(batch.action_space, 200):
        *found, infos = env.step(action)
        obs, rewards, terminated, truncated, vec_infos = envs.step(action)
        ends = terminated | truncated
        wanted = obs, rewards, ends if truncation_ends else terminated, truncated
        for x, buffer, y in zip(found, buffers, wanted, strict=True):
            assert x is buffer
            np.testing.assert_array_equal(x, y)
        returns += rewards
        ended_returns = returns[ends]
        if name == "statistics" and ends.any():
            ended_returns = vec_infos["final_info"]["episode"]["r"][ends]
        assert [info["episode_return"] for info in infos] == ended_returns.tolist()
        returns[ends] = 0
        n_ends += terminated.sum(), truncated.sum()
    assert env.masks.all() and n_ends[1] > 10
    assert n_ends[0] > 10 or name == "floats"
    assert env.single_observation_space == envs.single_observation_space
    assert env.single_action_space == envs.single_action_space


def test_lengths_and_the_seed_of_the_first_reset() -> None:
    batch = VecEnv(CountingEnv(FakeConfig(max_steps=5)), 2)
    env = to_pufferlib(batch, seed=7)
    first, second = (env.reset()[0].copy() for _ in range(2))
    np.testing.assert_array_equal(first, to_pufferlib(batch).reset(7)[0])
    assert not np.array_equal(first, second)
    infos = [env.step(np.zeros(2, np.int32))[-1] for _ in range(12)]
    lengths = [[x["episode_length"] for x in found] for found in infos]
    assert lengths == (4 * [[]] + [[5, 5]]) * 2 + 2 * [[]]
    env.reset()  # in the middle of an episode
    assert not any(env.step(np.zeros(2, np.int32))[-1] for _ in range(4))


@pytest.mark.parametrize("backend", ["PufferEnv", "Serial", "Multiprocessing"])
def test_backends(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeds of the two batches follow one another."""
    monkeypatch.setattr(multiprocessing, "Process", multiprocessing.get_context("spawn").Process)
    batch = VecEnv(EndsEnv(FakeConfig(max_steps=9)), N)
    n = 1 if backend == "PufferEnv" else 2
    creator: Any = partial(to_pufferlib, batch)
    workers = {"num_workers": 1} if backend == "Multiprocessing" else {}
    vecenv: Any = pufferlib.vector.make(creator, backend=backend, num_envs=n, **workers)
    envs = [to_gymnasium_vec(batch) for _ in range(n)]
    wanted: Any = np.concatenate([x.reset(seed=5 + i)[0] for i, x in enumerate(envs)])
    vecenv.async_reset(5)
    np.testing.assert_array_equal(vecenv.recv()[0], wanted)
    for action in actions_of(VecEnv(EndsEnv(), n * N).action_space, 40):
        vecenv.send(action)
        found = vecenv.recv()
        steps = [x.step(a)[:4] for x, a in zip(envs, np.split(action, n), strict=True)]
        for x, y in zip(found, zip(*steps, strict=True), strict=False):
            np.testing.assert_array_equal(x, np.concatenate(y))
        n_ends = int((found[2] | found[3]).sum())
        assert len(found[-3]) == n_ends and found[-1].all()
    vecenv.close()


@pytest.mark.parametrize("inner", [EndsEnv(FakeConfig(max_steps=9)), GoalEnv()])
def test_emulated_environments_are_reset_by_the_vector_layer_in_the_next_step(inner: Any) -> None:
    creator = partial(GymnasiumPufferEnv, env_creator=partial(to_gymnasium, inner))
    vecenv: Any = pufferlib.vector.make(creator, backend="Serial", num_envs=2)
    envs = [to_gymnasium(inner) for _ in range(2)]
    assert vecenv.single_action_space == envs[0].action_space
    obs, _ = vecenv.reset(seed=5)
    np.testing.assert_array_equal(obs, [flat(x.reset(seed=5 + i)[0]) for i, x in enumerate(envs)])
    ended = [False, False]
    for action in actions_of(VecEnv(inner, 2).action_space, 60):
        found = vecenv.step(action.astype(vecenv.single_action_space.dtype))
        for i, env in enumerate(envs):
            step: Any = (env.reset()[0], 0.0, False, False) if ended[i] else env.step(action[i])
            obs, *rest = step
            for x, y in zip(found, (flat(obs), *rest[:3]), strict=False):
                np.testing.assert_array_equal(x[i], y)
            ended[i] = rest[1] or rest[2]


def flat(obs: Any) -> Any:
    """Entries of a dict, one after the other in the order of their names."""
    return np.concatenate([*obs.values()]) if isinstance(obs, dict) else obs


class Grid(CountingEnv):
    @property
    def action_space(self) -> Any:
        return MultiDiscrete(((2, 3), (4, 5)))


ERRORS: dict[str, tuple[Callable[[], Any], str]] = {
    "one environment": (lambda: to_pufferlib(CountingEnv()), "VecEnv"),
    "a world": (lambda: to_pufferlib(VecEnv(ChaseWorld(), 2)), "agents_as_slots"),
    "a Dict": (lambda: to_pufferlib(VecEnv(NestedEnv(), 2)), "`FlattenObservation`"),
    "a Discrete": (lambda: to_pufferlib(VecEnv(RoomEnv(), 2)), "GymnasiumPufferEnv"),
    "actions of two axes": (lambda: to_pufferlib(VecEnv(Grid(), 2)), "with one axis"),
    "before a reset": (
        lambda: to_pufferlib(VecEnv(CountingEnv(), 2)).step(np.zeros(2, int)),
        "call of `reset`",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    call, noun = ERRORS[name]
    with pytest.raises((TypeError, RuntimeError), match=noun):
        call()
