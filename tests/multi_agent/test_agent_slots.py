"""`agents_as_slots`: rows of agents are those of their worlds."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import NamedLikeStatistics
from helpers import assert_trees_equal, small_vec, with_final_obs
from jax.sharding import AxisType

from envrax import RecordEpisodeStatistics, rollout, shard, start
from envrax.interop import to_gymnasium_vec
from envrax.multi_agent.agent_slots import agents_as_slots
from envrax.testing import ChaseWorld, CountingEnv, NimWorld
from envrax.wrappers.vector import NormalizeReward

RNG = jax.random.key(0)


def test_rows_are_those_of_the_worlds() -> None:
    """What is by agent is told by its place and not by its keys, which may be those of others."""
    worlds = small_vec(RecordEpisodeStatistics(NamedLikeStatistics()), 3, final_obs=True)
    env = agents_as_slots(worlds)
    assert (env.n_slots, env.agents, worlds.agents) == (6, (), ("l", "r"))
    (obs, state), (of_worlds, inner) = env.reset(RNG), worlds.reset(RNG)

    def rows(by_agent: Any) -> Any:
        return jax.tree.map(lambda a, b: np.stack([a, b], 1).reshape(6, *a.shape[1:]), *by_agent)

    ended = 0
    for key in jax.random.split(RNG, 12):
        assert_trees_equal((obs, state.env_state), (rows(of_worlds.values()), inner))
        assert_trees_equal(env.action_mask(state), rows(worlds.action_mask(inner).values()))
        actions = env.action_space.sample(key)
        acts = jax.device_get(worlds.active(inner))
        obs, state, rewards, dones, infos = env.step(state, actions)
        both = dict(zip("lr", np.asarray(actions).reshape(3, 2).T, strict=True))
        of_worlds, inner, *rest = worlds.step(inner, both)
        by_agent, ends, world_infos = jax.device_get(rest)
        assert_trees_equal(rewards, rows(by_agent.values()))
        assert_trees_equal(
            (dones, infos["truncated"]), (ends.repeat(2), world_infos["truncated"].repeat(2))
        )
        assert_trees_equal(infos["active"], rows(acts.values()))
        for name in ("final_obs", "final_mask"):
            assert_trees_equal(infos[name], rows(world_infos[name].values()))
        episode = world_infos["episode"]
        of_agents = {"r": rows(episode["r"].values()), "l": episode["l"].repeat(2)}
        assert_trees_equal(infos["episode"], of_agents)
        heap = jax.tree.map(lambda x: x.repeat(2), world_infos["heap"])
        assert_trees_equal(infos["heap"], heap)
        ended += int(ends.sum())
    assert ended > 3
    for slot in (0, 3, -1):
        assert_trees_equal(env.slot_state(state, slot), worlds.slot_state(inner, slot % 6 // 2))
    assert_trees_equal(jax.jit(env.slot_state)(state, 5), worlds.slot_state(inner, 2))
    with pytest.raises(IndexError):
        env.slot_state(state, 6)


def test_the_others_are_moved_by_their_policy() -> None:
    def hunts(policy_state: Any, obs: Any, rng: Any) -> Any:
        far = jnp.clip(obs["hunter"][:, 0] - obs["hunter"][:, 2], -2, 2)
        return {"hunter": far.astype(jnp.float32)}, None, None

    worlds = small_vec(ChaseWorld(), 4)
    env = agents_as_slots(worlds, ("runner_2", "runner_1"), hunts)
    obs, state = env.reset(RNG)
    assert (env.n_slots, obs.shape) == (8, (8, 1))
    for _ in range(6):
        inner, place = state.env_state, state.env_state.place
        obs, state, rewards, dones, infos = env.step(state, jnp.ones(8, jnp.int32))
        toward = jnp.clip(place["runner_1"] - place["hunter"], -2, 2).astype(jnp.float32)
        moves = {"runner_1": jnp.ones(4, jnp.int32), "runner_2": jnp.ones(4, jnp.int32)}
        seen, after, by_agent, *_ = worlds.step(inner, {**moves, "hunter": toward})
        assert_trees_equal((obs[::2], obs[1::2]), (seen["runner_2"], seen["runner_1"]))
        assert_trees_equal(state.env_state, after)
        assert_trees_equal(rewards[1::2], by_agent["runner_1"])
        assert infos["agents"]["terminated"].shape == (8,)


def test_rollouts_wrappers_and_devices_take_it() -> None:
    env = agents_as_slots(small_vec(ChaseWorld(), 4), ("runner_1", "runner_2"))
    spread = shard(env, jax.make_mesh((1,), ("slots",), axis_types=(AxisType.Explicit,)))
    for each in (env, spread, NormalizeReward(env)):
        run = lambda rng, env=each: rollout(env, None, start(env, rng), 20)[1]  # noqa: E731
        assert jax.eval_shape(run, RNG).reward.shape == (20, 8)


@pytest.mark.parametrize(
    ("env", "agents", "error", "noun"),
    [
        (ChaseWorld(), None, TypeError, "spaces"),
        (ChaseWorld(), ["huntr"], ValueError, "hunter"),
        (CountingEnv(), None, TypeError, "agents"),
        (NimWorld(), ["bob", "bob"], ValueError, "once"),
    ],
)
def test_what_is_refused(env: Any, agents: Any, error: Any, noun: str) -> None:
    with pytest.raises(error, match=noun):
        agents_as_slots(small_vec(env, 2), agents)


def test_a_memory_is_cleared_where_an_episode_begins() -> None:
    def counts(memory: Any, obs: Any, rng: Any, first: Any) -> Any:
        memory = jnp.where(first, 0, memory) + 1
        return jnp.zeros(4, jnp.int32), memory, memory

    env = agents_as_slots(small_vec(NimWorld(), 2))
    at = start(env, RNG, jnp.zeros(4, jnp.int32))
    steps = jax.device_get(rollout(env, counts, at, 20)[1])
    ages, ended = steps.extras, steps.done
    assert (ages[1:][ended[:-1]] == 1).all() and (ages[1:][~ended[:-1]] > 1).all()


class Unlike(ChaseWorld):
    """The first runner may do all; infos by agent have shapes of their own."""

    def action_mask(self, state: Any) -> Any:
        return {"runner_1": None, "runner_2": jnp.arange(3) < 2, "hunter": None}

    def step(self, state: Any, action: Any) -> Any:
        *results, info = super().step(state, action)
        sizes = {agent: jnp.zeros(i, jnp.float32) for i, agent in enumerate(self.agents)}
        return *results, {**info, "sizes": sizes}


@pytest.mark.slow
def test_agents_may_differ_in_masks_and_infos() -> None:
    env = agents_as_slots(small_vec(Unlike(), 2), ("runner_1", "runner_2"))
    _, state = env.reset(RNG)
    masks = [[True] * 3, [True, True, False]] * 2
    assert env.action_mask(state).tolist() == masks
    mesh = jax.make_mesh((1,), ("slots",), axis_types=(AxisType.Explicit,))
    assert shard(env, mesh).action_mask(state).tolist() == masks
    batch: Any = with_final_obs(env)
    infos = batch.step(state, env.action_space.sample(RNG, env.action_mask(state)))[-1]
    assert infos["final_mask"].tolist() == masks
    assert [x.shape for x in infos["sizes"].values()] == [(4, 2), (4, 0), (4, 1)]
    assert infos["agents"]["terminated"].shape == (4,)


@pytest.mark.slow
def test_gymnasium_takes_them() -> None:
    alike = "runner_1", "runner_2"
    env: Any = to_gymnasium_vec(agents_as_slots(small_vec(ChaseWorld(), 2), alike))
    env.reset(seed=0)
    ends = 0
    for _ in range(30):
        obs, rewards, terminated, truncated, infos = env.step(env.action_space.sample())
        assert env.observation_space.contains(obs) and rewards.shape == (4,)
        ended = terminated | truncated
        ends += ended.sum()
        last = infos.get("final_obs", [None] * 4)
        assert [x is not None for x in last] == ended.tolist()
    assert ends
