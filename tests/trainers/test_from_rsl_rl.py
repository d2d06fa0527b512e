# pyright: basic, reportMissingImports=false
"""`from_rsl_rl`: simulators of Torch tensors, in each form, equal their own loops."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from trainers import torch_simulators as simulators

from envrax import Box, Dict, RescaleAction, VecEnv, episodes, evaluate, make, rollout, start
from envrax.interop import from_rsl_rl, to_rsl_rl
from envrax.testing import check_batched_env
from envrax.wrappers.vector import NormalizeObservation

pytestmark = pytest.mark.trainers
KEY = jax.random.key(0)
FORMS: list[Any] = [
    simulators.Balls,
    simulators.OneTensor,
    simulators.FiveValues,
    simulators.Partial,
    simulators.FinalObs,
]


def own_loop(make: Callable[[], Any], seed: int, actions: Any) -> Any:
    """What a simulator says by itself: copies, before it writes its buffers again."""
    sim = make()
    sim.seed(seed)
    sim.reset()
    for row in actions:
        obs, *_, rewards, dones, extras = sim.step(torch.tensor(row))
        ends = sim.fell.clone() & (dones == 1), extras["time_outs"] & (dones == 1)
        if isinstance(sim, simulators.Partial) and dones.any():
            sim.reset(env_ids=dones.nonzero()[:, 0])
            obs = sim.observed()
        yield [x.numpy().copy() for x in jax.tree.leaves((obs, rewards.clone(), dones, ends))]


@pytest.mark.parametrize("make", FORMS)
@pytest.mark.parametrize("how", ["python", "jit"])
def test_200_steps_equal_the_simulator(make: Any, how: str) -> None:
    batch = from_rsl_rl(make())
    actions = np.random.default_rng(0).uniform(-1.5, 1.5, (200, 4, 2)).astype(np.float32)
    obs, state = batch.reset(KEY)
    seed = int(jax.random.bits(KEY, (), np.uint32) >> np.uint32(2))
    step: Any = jax.jit(batch.step) if how == "jit" else batch.step
    n_ends = np.zeros(3, int)
    for row, expected in zip(actions, own_loop(make, seed, actions), strict=True):
        obs, state, rewards, dones, infos = step(state, row)
        policy = obs["policy"] if isinstance(obs, dict) else obs
        *found, own_rewards, own_dones, fell, late = expected
        np.testing.assert_array_equal(policy, found[-1])
        np.testing.assert_array_equal(rewards, own_rewards)
        np.testing.assert_array_equal(dones, own_dones.astype(bool))
        if make is simulators.OneTensor:  # which does not tell that both ends came at once
            fell = fell & ~late
        np.testing.assert_array_equal(infos["terminated"], fell)
        np.testing.assert_array_equal(infos["truncated"], late)
        n_ends += [fell.sum(), late.sum(), (fell & late).sum()]
    assert n_ends[0] > 9 and n_ends[1] > 9
    assert n_ends[2] > 0 or make is simulators.OneTensor


def transitions_by_hand(actions: Any) -> list[list[Any]]:
    """Of each slot of `ResetsLater` by itself, without the steps that only reset it."""
    sim: Any = simulators.ResetsLater()
    n_slots = sim.num_envs
    played: list[list[Any]] = [[] for _ in range(n_slots)]
    shown, resets = [None] * n_slots, [True] * n_slots
    for _ in range(200):
        rows = [actions[len(played[i]), i] for i in range(n_slots)]
        obs, rewards, dones, extras = sim.step(torch.tensor(np.stack(rows)))
        for i in range(n_slots):
            seen = obs["obs"][i].numpy().copy()
            late = bool(extras["time_outs"][i])
            if not resets[i]:
                end = bool(dones[i]), late
                played[i].append((shown[i], rows[i], float(rewards[i]), seen, *end))
            shown[i], resets[i] = seen, bool(dones[i])
    return played


def test_a_simulator_that_resets_in_the_next_step() -> None:
    actions = np.random.default_rng(0).uniform(-1.5, 1.5, (200, 4, 2)).astype(np.float32)
    by_hand = transitions_by_hand(actions)
    sim = simulators.ResetsLater()
    batch = from_rsl_rl(sim, reset_slots=simulators.reset_slots(sim), final_obs=True)
    obs, state = batch.reset(KEY)
    n_ends = np.zeros(2, int)
    for t, row in enumerate(actions):
        after, state, rewards, dones, infos = batch.step(state, row)
        for i, played in enumerate(by_hand):
            if t >= len(played):
                continue
            before, action, reward, last, done, late = played[t]
            np.testing.assert_array_equal(obs["obs"][i], before)
            np.testing.assert_array_equal(row[i], action)
            np.testing.assert_array_equal(infos["final_obs"]["obs"][i], last)
            assert (rewards[i], dones[i], infos["truncated"][i]) == (reward, done, late)
            n_ends += [done and not late, late]
        obs = after
    assert (n_ends > 9).all() and min(map(len, by_hand)) > 120
    check_batched_env(batch)
    mask = np.array([True, False, False, True])
    begun, _ = batch.reset_where(mask, *batch.reset(KEY))
    assert (begun["obs"] == sim.place.numpy()).all()


@pytest.mark.parametrize("make", [simulators.Partial, simulators.FinalObs])
def test_the_last_observation(make: Any) -> None:
    batch = from_rsl_rl(make(), final_obs=True)
    assert isinstance(batch.observation_space, Dict)
    steps = rollout(batch, None, start(batch, KEY), 60)[1]
    clock, before = (x["clock"][..., 0] for x in (steps.next_obs, steps.obs))
    assert not np.isnan(steps.next_obs["policy"]).any()
    assert steps.truncated.sum() > 9
    np.testing.assert_array_equal(clock, before + 1)
    np.testing.assert_array_equal(clock[steps.truncated], simulators.LIMIT)
    np.testing.assert_array_equal(
        clock[:-1][~steps.done[:-1]], steps.obs["clock"][1:][~steps.done[:-1]][..., 0]
    )


@pytest.mark.parametrize("make", [simulators.Balls, simulators.OneTensor, simulators.FiveValues])
def test_no_observation_of_the_next_episode_stands_for_the_last(make: Any) -> None:
    steps = rollout(batch := from_rsl_rl(make()), None, start(batch, KEY), 30)[1]
    assert steps.next_obs is None and steps.done.any()
    found = evaluate(from_rsl_rl(make()), None, KEY, 8)
    assert (found.lengths >= 1).all() and found.complete.all()
    _, state = batch.reset(KEY)
    with pytest.raises(TypeError, match="episodes: expected steps with `next_obs`; got None"):
        list(episodes(steps))
    with pytest.raises(TypeError, match="to_rsl_rl: expected a batch that shows the last obs"):
        to_rsl_rl(from_rsl_rl(make()))
    with pytest.raises(TypeError, match="expected a simulator that gives the last observation"):
        from_rsl_rl(make(), final_obs=True).step(state, np.zeros((4, 2), np.float32))


def test_it_may_write_its_buffers_again() -> None:
    batch = from_rsl_rl(simulators.Balls())
    obs, state = batch.reset(KEY)
    kept, copy = obs["policy"], obs["policy"].copy()
    actions = jnp.ones((4, 2)) * 2
    *_, rewards, _, _ = batch.step(state, actions)
    before = rewards.copy()
    batch.simulator.vec_env.rewards[:] = 9  # pyright: ignore[reportAttributeAccessIssue]
    np.testing.assert_array_equal(kept, copy)
    np.testing.assert_array_equal(rewards, before)
    np.testing.assert_array_equal(actions, 2)  # the simulator clips what it gets in place


def test_on_a_device_arrays_stay_there(monkeypatch: Any) -> None:
    plain = from_rsl_rl(simulators.Balls())
    batch = from_rsl_rl(simulators.Balls())
    batch.simulator.on_device = True  # the path of a GPU, with a CPU in its place
    states = [x.reset(KEY)[1] for x in (plain, batch)]
    actions = jax.random.uniform(KEY, (30, 4, 2))
    for row in actions:
        a = plain.step(states[0], np.asarray(row))
        b = batch.step(states[1], row)
        states = [a[1], b[1]]
        assert all(isinstance(x, jax.Array) for x in jax.tree.leaves((b[0], b[2])))
        for x, y in zip(
            jax.tree.leaves((a[0], a[2:])), jax.tree.leaves((b[0], b[2:])), strict=True
        ):
            np.testing.assert_array_equal(x, y)


def test_wrappers_and_the_checker_take_it() -> None:
    check_batched_env(from_rsl_rl(simulators.Partial()))
    batch: Any = NormalizeObservation(from_rsl_rl(simulators.OneTensor()))
    steps = rollout(batch, None, start(batch, KEY), 40)[1]
    assert abs(steps.obs[20:].mean()) < 1


def test_out_and_in_again() -> None:
    env = make("classic/Pendulum-v0", pre_warm=False, max_steps=9)
    env = RescaleAction(env, min_action=-1.0, max_action=1.0)
    back = from_rsl_rl(to_rsl_rl(VecEnv(env, 3), seed=1))
    batch = VecEnv(env, 3)
    seed = int(jax.random.bits(KEY, (), np.uint32) >> np.uint32(2))
    obs, state = batch.reset(jax.random.split(jax.random.key(seed))[1])
    found, of_back = back.reset(KEY)
    for row in np.random.default_rng(0).uniform(-1, 1, (30, 3, 1)).astype(np.float32):
        np.testing.assert_array_equal(found["policy"], obs)
        obs, state, *expected, _ = batch.step(state, row)
        found, of_back, *got, got_infos = back.step(of_back, row)
        jax.tree.map(np.testing.assert_array_equal, got, expected)
        np.testing.assert_array_equal(got_infos["truncated"], expected[1])


def test_spaces_of_its_own_and_given_ones() -> None:
    given = Box(-2.0, 2.0, (2,))
    batch = from_rsl_rl(simulators.OneTensor(), observation_space=given, action_space=given)
    assert batch.single_observation_space == batch.single_action_space == given
    plain = from_rsl_rl(simulators.OneTensor())
    assert plain.single_observation_space == Box(-np.inf, np.inf, (2,))


def test_bfloat16_and_what_is_none() -> None:
    class Narrow(simulators.Balls):
        def observed(self) -> Any:
            return {"policy": self.place.bfloat16(), "critic": None}

        def step(self, actions: Any) -> Any:
            obs, rewards, dones, _ = super().step(actions)
            return obs, rewards.bfloat16(), dones, {"time_outs": None}

    batch = from_rsl_rl(sim := Narrow())
    assert batch.single_observation_space == Dict({"policy": Box(-np.inf, np.inf, (2,))})
    _, state = batch.reset(KEY)
    obs, _, rewards, *_ = batch.step(state, np.zeros((4, 2)))
    np.testing.assert_array_equal(obs["policy"], sim.place.bfloat16().float())
    np.testing.assert_array_equal(rewards, sim.rewards.bfloat16().float())


def test_what_is_refused() -> None:
    with pytest.raises(TypeError, match=r"by rsl_rl's protocol; got .* without num_envs"):
        from_rsl_rl(object())
    with pytest.raises(TypeError, match=r"expected `action_space` of shape \(2,\), float32"):
        from_rsl_rl(simulators.Balls(), action_space=Box(-1.0, 1.0, (1,)))
    batch = from_rsl_rl(simulators.AsGymnasium())
    with pytest.raises(TypeError, match="got rewards that are bools, as the five values of Gym"):
        batch.step(batch.reset(KEY)[1], np.zeros((4, 2)))
    batch = from_rsl_rl(simulators.ResetsLater())
    with pytest.raises(RuntimeError, match="resets a slot in the step that ends its"):
        rollout(batch, None, start(batch, KEY), 30)
    batch = from_rsl_rl(later := simulators.ResetsLater(), reset_slots=later.reset_idx)
    with pytest.raises(TypeError, match="returns the observations of all slots; got None"):
        batch.reset(KEY)
    itself = simulators.Balls()
    batch = from_rsl_rl(itself, reset_slots=lambda ids: itself.reset()[0])
    with pytest.raises(RuntimeError, match="leaves the slots that ended to `reset_slots`"):
        rollout(batch, None, start(batch, KEY), 30)
    batch = from_rsl_rl(simulators.Balls())
    state = batch.reset(KEY)[1]
    with pytest.raises(ValueError, match=r"expected actions of shape \(4, 2\)"):
        batch.step(state, np.zeros((1, 2)))
    sim: Any = batch.simulator
    batch.close()
    assert sim.vec_env.is_closed
