# pyright: reportMissingImports=false
"""`to_rsl_rl`: the results of a step, the count of steps that the runner writes, and training."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from rsl_rl.runners import OnPolicyRunner
from trainers.bridge_envs import GoalEnv, actions_of, played_batch

import envrax
from envrax import Box, VecEnv
from envrax.interop import from_gymnasium_vec, to_rsl_rl
from envrax.testing import CountingEnv, NestedEnv
from envrax.testing.fakes import FakeConfig
from envrax.wrappers import (
    RecordEpisodeStatistics,
    RepeatAction,
    RescaleAction,
    StartStates,
    TimeLimit,
    Wrapper,
    vector,
)

LIMIT = 12


class EndsEnv(CountingEnv):
    """A robot: the first action terminates, the second truncates, where they are above 0.5."""

    @property
    def observation_space(self) -> Any:
        return Box(0.0, 1000.0, (2,))

    @property
    def action_space(self) -> Any:
        return Box(-1.0, 1.0, (2,))

    def observe(self, state: Any) -> Any:
        return super().observe(state).astype(jnp.float32)

    def advance(self, state: Any, action: Any) -> Any:
        return state, action.sum(), False

    def step(self, state: Any, action: Any) -> tuple[Any, ...]:
        obs, state, reward, at_limit, _ = super().step(state, action)
        terminated = action[0] > 0.5
        truncated = (action[1] > 0.5) | at_limit
        state = state.replace(done=terminated | truncated)
        info = {
            "terminated": terminated,
            "truncated": truncated,
            "gait": {"height": reward, "foot": jnp.stack([reward, reward])},
            "contacts": state.step,
            "key": state.rng,
        }
        return obs, state, reward, state.done, info


def robot(max_steps: int = LIMIT) -> EndsEnv:
    return EndsEnv(FakeConfig(max_steps=max_steps))


def test_120_steps_are_those_of_the_vec_env() -> None:
    inner = RecordEpisodeStatistics(robot())
    env = to_rsl_rl(VecEnv(inner, 8), seed=3)
    assert (env.num_envs, env.num_actions, env.max_episode_length) == (8, 2, LIMIT)
    assert env.cfg.max_steps == LIMIT and env.device == torch.device("cpu")
    actions = actions_of(Box(-2.0, 2.0, (8, 2)), 120)
    hand = played_batch(inner, 8, [np.clip(x, -1, 1) for x in actions], seed=3)
    obs: Any = next(hand).obs
    for _ in range(2):  # it does not begin anew
        np.testing.assert_array_equal(env.get_observations()["policy"], obs)
    kinds = set()
    for action in actions:
        found, rewards, dones, extras = env.step(torch.tensor(action))
        wanted: Any = next(hand)
        np.testing.assert_array_equal(found["policy"], wanted.obs)
        assert env.get_observations() is found
        np.testing.assert_array_equal(rewards, wanted.reward)
        ended = wanted.terminated | wanted.truncated
        np.testing.assert_array_equal(dones, ended.astype(np.int64))
        np.testing.assert_array_equal(extras["time_outs"], wanted.truncated & ~wanted.terminated)
        kinds |= set(zip(wanted.terminated.tolist(), wanted.truncated.tolist(), strict=True))
        log = dict(extras["log"])
        statistics = {x: log.pop(f"episode/{x}", torch.tensor([])).tolist() for x in ("r", "l")}
        assert statistics == {x: wanted.info["episode"][x][ended].tolist() for x in ("r", "l")}
        means = {"gait/height": wanted.reward.mean(), "contacts": wanted.info["contacts"].mean()}
        assert {k: float(v) for k, v in log.items()} == pytest.approx(means, rel=1e-5)
    assert len(kinds) == 4  # also ends that are both


def test_entries_of_a_dict_are_the_groups() -> None:
    env = to_rsl_rl(VecEnv(GoalEnv(), 4), seed=0)
    obs = env.get_observations()
    assert set(obs.keys()) == {"goal", "last"} and obs.batch_size == torch.Size([4])
    obs, *_ = env.step(torch.linspace(-3, 3, 4 * 64).reshape(4, 64))
    obs, *_ = env.step(torch.zeros(4, 64))
    assert obs["last"].min() == -1 and obs["last"].max() == 1  # clipped to the space


def test_nothing_is_transferred_or_compiled_again(
    compile_counter: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    env = to_rsl_rl(VecEnv(robot(), 4), seed=0)
    env.step(torch.zeros(4, 2))
    monkeypatch.delattr(jax, "device_get")
    kept = env.get_observations()["policy"]
    before = kept.clone()
    with compile_counter() as compiled:
        for _ in range(20):
            env.step(torch.zeros(4, 2, dtype=torch.float64))
        env.reset(seed=1)
    assert compiled.count == 0
    assert torch.equal(kept, before) and not torch.equal(kept, env.get_observations()["policy"])


def at_five(env: Any) -> Any:
    """Episodes that begin in the middle of one."""

    def sample(rng: Any) -> Any:
        obs, state = env.reset(rng)
        return obs, state.replace(step=jnp.int32(5))

    return StartStates(env, sample)


STACKS: dict[str, Any] = {
    "plain": lambda n: VecEnv(robot(), n),
    "statistics": lambda n: VecEnv(RecordEpisodeStatistics(robot()), n),
    "a limit of its own": lambda n: VecEnv(
        RecordEpisodeStatistics(RescaleAction(TimeLimit(robot(99), LIMIT), -1.0, 1.0)), n
    ),
    "a limit of repeats": lambda n: VecEnv(TimeLimit(RepeatAction(robot(99), 3), LIMIT), n),
    "start in the middle": lambda n: VecEnv(at_five(robot()), n),
    "around the batch": lambda n: vector.NormalizeReward(
        vector.NormalizeObservation(vector.RecordEpisodeStatistics(VecEnv(robot(), n)))
    ),
    "made": lambda n: envrax.make_vec("classic/Pendulum-v0", n, max_steps=LIMIT),
}


@pytest.mark.parametrize("name", STACKS)
def test_first_episodes_end_earlier_by_the_steps_that_the_runner_writes(name: str) -> None:
    env = to_rsl_rl(STACKS[name](5), seed=0)
    assert env.max_episode_length == LIMIT
    begin = 5 if "middle" in name else 0
    assert env.episode_length_buf.tolist() == [begin] * 5
    steps = torch.tensor([0, 3, 7, 10, 11])
    env.episode_length_buf = steps
    env.episode_length_buf.fill_(1)  # what is read is a copy
    assert env.episode_length_buf.tolist() == steps.tolist()
    ends = []
    for _ in range(LIMIT):
        *_, dones, extras = env.step(torch.zeros(5, env.num_actions))
        assert torch.equal(extras["time_outs"], dones.bool())
        ends.append(dones)
    first = torch.stack(ends).argmax(dim=0) + 1
    assert first.tolist() == (LIMIT - steps).tolist()


def write(env: Any, steps: Any = (0, 0)) -> None:
    to_rsl_rl(env, seed=0).episode_length_buf = torch.tensor(steps)


class Nested(EndsEnv):
    @property
    def observation_space(self) -> Any:
        return NestedEnv().observation_space


class Deaf(Wrapper[Any, Any, Any, Any]):
    """Does not pass the count of its state on."""

    def _inner(self, state: Any) -> Any:
        return state.replace(step=jnp.zeros_like(state.step))


class IntRewards(EndsEnv):
    def step(self, state: Any, action: Any) -> tuple[Any, ...]:
        obs, state, _, done, info = super().step(state, action)
        return obs, state, jnp.int32(2), done, info


def test_rewards_are_float32() -> None:
    *_, rewards, _, _ = to_rsl_rl(VecEnv(IntRewards(), 2), seed=0).step(torch.zeros(2, 2))
    assert rewards.dtype == torch.float32
    assert rewards.tolist() == [2, 2]


ERRORS: dict[str, tuple[Callable[[], Any], str]] = {
    "one environment": (lambda: to_rsl_rl(robot()), "VecEnv"),
    "discrete actions": (lambda: to_rsl_rl(VecEnv(CountingEnv(), 2)), "Box of floats"),
    "nested": (lambda: to_rsl_rl(VecEnv(Nested(), 2)), "one dict of arrays"),
    "no limit": (lambda: write(VecEnv(robot(2**31 - 1), 2)), "limit"),
    "shape of actions": (
        lambda: to_rsl_rl(VecEnv(robot(), 2), seed=0).step(torch.zeros(1, 2)),
        r"of shape \(2, ",
    ),
    "shape": (lambda: write(VecEnv(robot(), 2), [0, 0, 0]), r"\(2,\)"),
    "a count that cannot be set": (lambda: write(VecEnv(Deaf(robot()), 2), [3, 4]), "can be set"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    call, noun = ERRORS[name]
    with pytest.raises((TypeError, ValueError), match=noun):
        call()


def test_a_batch_on_the_host_trains_but_has_no_count_to_write() -> None:
    peer = gymnasium.make_vec("Pendulum-v1", num_envs=2, vectorization_mode="sync")
    env = to_rsl_rl(from_gymnasium_vec(peer), seed=0)
    obs, rewards, dones, _ = env.step(torch.zeros(2, 1))
    assert obs["policy"].shape == (2, 3) and rewards.shape == dones.shape == (2,)
    with pytest.raises(TypeError, match="copies of one environment"):
        env.episode_length_buf = torch.zeros(2, dtype=torch.int32)
    env.close()


def config(n_steps: int, **algorithm: Any) -> dict[str, Any]:
    net = {"class_name": "MLPModel", "hidden_dims": [64, 64], "activation": "tanh"}
    return {
        "num_steps_per_env": n_steps,
        "save_interval": 100,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": {**net, "distribution_cfg": {"class_name": "GaussianDistribution"}},
        "critic": net,
        "algorithm": {"class_name": "PPO", "gamma": 0.95, "entropy_coef": 0.0, **algorithm},
    }


def test_transitions_in_the_buffer_of_rsl_rl_and_what_it_adds_at_a_time_out(tmp_path: Path) -> None:
    """It adds the value of the observation before the step: neither the last nor the next one."""
    torch.manual_seed(0)
    inner = robot(5)
    env = to_rsl_rl(VecEnv(inner, 4), seed=2)
    runner = OnPolicyRunner(env, config(40), log_dir=str(tmp_path))
    runner.learn(1)
    buffer: Any = runner.alg.storage
    actions = np.clip(buffer.actions.numpy(), -1, 1)
    hand = played_batch(inner, 4, list(actions), seed=2)
    before: Any = next(hand)
    n_time_outs = 0
    for t in range(40):
        after: Any = next(hand)
        np.testing.assert_array_equal(buffer.observations["policy"][t], before.obs)
        ended = after.terminated | after.truncated
        np.testing.assert_array_equal(buffer.dones[t, :, 0], ended)
        time_outs = after.truncated & ~after.terminated
        added = 0.95 * buffer.values[t, :, 0].numpy() * time_outs
        np.testing.assert_allclose(buffer.rewards[t, :, 0], after.reward + added, rtol=1e-6)
        n_time_outs += time_outs.sum()
        before = after
    assert n_time_outs > 8
    assert list(tmp_path.glob("events*"))  # it logged
