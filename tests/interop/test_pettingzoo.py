# pyright: basic, reportMissingImports=false
"""`to_pettingzoo`: PettingZoo's own tests, and the same episode as the world stepped by hand."""

from typing import Any

import jax
import numpy as np
import pytest
from fakes import NamedLikeStatistics
from interop.by_hand import equal

import envrax
from envrax.interop import to_pettingzoo
from envrax.testing import ChaseWorld, CountingEnv, NimWorld


def _pgx() -> Any:
    return envrax.make("pgx/tic_tac_toe", options={"player": "all"}, pre_warm=False)


def _jaxmarl(id: str) -> Any:
    return envrax.make(f"jaxmarl/{id}", pre_warm=False)


WORLDS: dict[str, Any] = {
    "nim": NimWorld,
    "chase": ChaseWorld,  # unlike agents, which end apart
    "spread": lambda: _jaxmarl("MPE_simple_spread_v3"),
    "crypto": lambda: _jaxmarl("MPE_simple_crypto_v3"),  # unlike agents
    "tag": lambda: _jaxmarl("MPE_simple_tag_v3"),  # unlike agents
    "tic_tac_toe": _pgx,
}


@pytest.mark.parametrize("name", WORLDS)
def test_the_tests_of_pettingzoo_pass(name: str) -> None:
    from pettingzoo.test import parallel_api_test, parallel_seed_test

    env = WORLDS[name]()
    parallel_api_test(to_pettingzoo(env), num_cycles=60)
    parallel_seed_test(lambda: to_pettingzoo(env), num_cycles=20)


class Steps(ChaseWorld):
    """Whole numbers are observed."""

    @property
    def observation_space(self) -> Any:
        return envrax.Dict({agent: envrax.Discrete(99) for agent in self.agents})

    def observe(self, state: Any) -> Any:
        return {agent: state.step for agent in self.agents}


def test_whole_numbers_are_numbers_of_numpy() -> None:
    """PettingZoo's test of turns reads their dtype."""
    from pettingzoo.test import api_test
    from pettingzoo.utils import parallel_to_aec

    world = to_pettingzoo(Steps())
    api_test(parallel_to_aec(world), 20)
    obs, _ = world.reset(seed=0)
    assert all(type(x) is np.int64 and x in {0: "a key"} for x in obs.values())


def test_actions_of_pytorch_are_in_the_spaces() -> None:
    """With int32 spaces, PettingZoo's wrapper raised."""
    from pettingzoo.utils import parallel_to_aec
    from pettingzoo.utils.wrappers import AssertOutOfBoundsWrapper

    env = AssertOutOfBoundsWrapper(parallel_to_aec(to_pettingzoo(NimWorld())))
    env.reset(seed=2**64 + 1)  # and a seed of any width
    for agent in env.agent_iter(8):
        done = env.terminations[agent] or env.truncations[agent]
        env.step(None if done else np.int64(0))


@pytest.mark.parametrize("world", [NimWorld(), ChaseWorld()], ids=["nim", "chase"])
def test_an_episode_is_that_of_the_world(world: Any) -> None:
    env = to_pettingzoo(world)
    seen, infos = env.reset(seed=3)
    obs, state = world.reset(jax.random.split(jax.random.key(3))[1])
    over: set[str] = set()
    while env.agents:
        equal(seen, {agent: obs[agent] for agent in seen})
        if world.action_mask(state) is not None:
            masks = world.action_mask(state)
            equal(infos[env.agents[0]]["action_mask"], masks[env.agents[0]].astype(np.int8))
        # Only of live agents; the world ignores those of the others.
        actions = {agent: env.action_space(agent).sample() for agent in env.agents}
        live, idle = list(env.agents), world.action_space.sample(jax.random.key(0))
        seen, rewards, terminated, truncated, infos = env.step(actions)
        obs, state, reward, _, info = world.step(state, {**idle, **actions})
        assert set(seen) == set(rewards) == set(terminated) == set(infos) == set(live)
        assert not over & set(live) and not any(truncated.values())
        equal([rewards[agent] for agent in live], [float(reward[agent]) for agent in live])
        ends = info.get("agents", {"terminated": dict.fromkeys(live, state.done)})["terminated"]
        over |= {agent for agent in live if ends[agent]}
        assert {agent for agent in live if terminated[agent]} == over & set(live)
    assert bool(state.done) and over == set(world.agents)


def test_an_agent_that_has_left_may_act_with_none() -> None:
    """PettingZoo's convention; its actions are not read."""
    envs = [to_pettingzoo(ChaseWorld()) for _ in range(3)]
    gone = 0
    for step in range(60):
        if not envs[0].agents:
            for env in envs:
                env.reset(seed=step)
        live = {agent: envs[0].action_space(agent).sample() for agent in envs[0].agents}
        absent = [x for x in envs[0].possible_agents if x not in live]
        gone += len(absent)
        results = [
            env.step({**live, **dict.fromkeys(absent, action)})
            for env, action in zip(envs, (None, 99, "none"), strict=True)
        ]
        equal(results[0][:4], results[1][:4])
        equal(results[0][:4], results[2][:4])
    assert gone


def test_infos_by_agent_are_told_by_their_place_and_not_by_their_keys() -> None:
    env = to_pettingzoo(envrax.RecordEpisodeStatistics(NamedLikeStatistics()))
    env.reset(seed=0)
    for step in range(1, 10):
        _, rewards, *_, infos = env.step({"l": 0, "r": 0})
        assert all(info["heap"] == {"l": 9 - step, "r": step} for info in infos.values())
    assert {agent: info["episode"] for agent, info in infos.items()} == {
        agent: {"r": reward, "l": 9} for agent, reward in rewards.items()
    }


def test_errors() -> None:
    with pytest.raises(TypeError, match="world"):
        to_pettingzoo(CountingEnv())
    env = to_pettingzoo(NimWorld())
    env.reset(seed=0)
    with pytest.raises(ValueError, match="action"):
        env.step({"alice": 0})
    with pytest.raises(ValueError, match="render_mode"):
        to_pettingzoo(NimWorld(), render_mode="human")
    from envrax.interop import to_gymnasium, to_gymnasium_vec, to_gymnax

    bridges: list[Any] = [
        (to_gymnasium, NimWorld()),
        (to_gymnax, NimWorld()),
        (to_gymnasium_vec, envrax.VecEnv(NimWorld(), 2)),
    ]
    for bridge, env in bridges:
        with pytest.raises(TypeError, match=bridge.__name__):
            bridge(env)


def test_nothing_is_transferred_without_asking() -> None:
    with jax.transfer_guard("disallow"):
        env = to_pettingzoo(ChaseWorld())
        env.reset(seed=0)
        env.step({agent: env.action_space(agent).sample() for agent in env.agents})
