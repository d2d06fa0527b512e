# pyright: basic, reportMissingImports=false, reportPossiblyUnboundVariable=false
# pyright: reportAttributeAccessIssue=false
"""JaxMARL by name: equal to JaxMARL stepped by hand; agents as slots, ends, masks, images."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from interop.by_hand import equal, follow, make

import envrax
from envrax import BatchedEnv, Box, Discrete, MultiVecEnv
from envrax.interop.records import PeerConfig
from envrax.testing import report_batched_env

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]  # libraries warn

SPREAD = "MPE_simple_spread_v3"


def _make(id: str, n_worlds: int = 2, **fields: Any) -> Any:
    fields["config"] = PeerConfig(id=id, **fields.pop("config", {}))
    return envrax.make_vec(f"jaxmarl/{id}", n_worlds, pre_warm=False, **fields)


# `SPREAD` only ends by its limit.
COMPARED = {SPREAD: 20, "switch_riddle": 4, "HeuristicEnemySMAX": 19}


@pytest.mark.parametrize("id", COMPARED)
def test_200_steps_are_those_of_jaxmarl(adapter: Any, id: str) -> None:
    world = make(f"jaxmarl/{id}", max_steps=COMPARED[id])
    peer, names = world.peer, world.peer.agents

    def listed(tree: Any) -> Any:
        return jnp.stack([tree[name] for name in names])

    def begin(key: Any) -> Any:
        obs, inner = peer.reset(key)
        return listed(obs), inner

    def advance(key: Any, inner: Any, action: Any) -> Any:
        actions = dict(zip(names, action, strict=True))
        obs, inner, rewards, dones, _ = peer.step_env(key, inner, actions)
        rewards = listed(rewards)
        # Within the shorter limit of this test JaxMARL's own does not end anything.
        told = {"rewards": rewards, "agent_done": listed(dones), "terminated": dones["__all__"]}
        return listed(obs), inner, rewards.sum(), told

    ends = follow(world, begin, advance)
    assert ends == {"truncated", *["terminated"] * (id != SPREAD)}


LIMITS: dict[str, tuple[dict[str, Any], int]] = {
    SPREAD: ({"max_steps": 3}, 4),  # its counter is compared before it counts the step
    "switch_riddle": ({}, 6),
    "HeuristicEnemySMAX": ({"max_steps": 3}, 4),
    "coin_game": ({"num_inner_steps": 3, "num_outer_steps": 2}, 6),
    "storm_2p": ({"num_inner_steps": 3, "num_outer_steps": 2}, 6),
    "overcooked": ({"max_steps": 5}, 5),
    "overcooked_v2": ({"max_steps": 5}, 5),
    "jaxnav": ({"max_steps": 2}, 2),
}


@pytest.mark.parametrize("id", LIMITS)
def test_the_limits_of_jaxmarl_truncate(adapter: Any, id: str) -> None:
    options, limit = LIMITS[id]
    world = make(f"jaxmarl/{id}", options=options)
    assert world.config.max_steps == limit
    _, state = world.reset(jax.random.key(5))
    step = jax.jit(world.step)
    action = jax.tree.map(jnp.zeros_like, world.action_space.sample(jax.random.key(0)))
    for t in range(1, limit + 1):
        obs, state, _, done, info = step(state, action)
        assert obs in world.observation_space
        assert bool(done) is bool(info["truncated"]) is (t == limit)
        assert not info["terminated"]


def test_agents_are_slots_side_by_side(adapter: Any) -> None:
    env = _make(SPREAD, 8, final_obs=True)
    assert isinstance(env, BatchedEnv)
    assert (env.n_slots, env.n_worlds, env.n_agents) == (24, 8, 3)
    assert env.agents == ("agent_0", "agent_1", "agent_2")
    assert env.single_observation_space == Box(-np.inf, np.inf, (18,))
    assert env.single_action_space == Discrete(5)
    assert repr(env).endswith(f"('{SPREAD}', n_worlds=8, n_agents=3)")
    worlds = envrax.VecEnv(env.world, 8, final_obs=True)
    (obs, state), (of_worlds, inner) = (x.reset(jax.random.key(0)) for x in (env, worlds))
    for key in jax.random.split(jax.random.key(1), 30):
        equal((obs.reshape(8, 3, 18), state), (of_worlds, inner))
        actions = env.action_space.sample(key)
        obs, state, rewards, dones, infos = env.step(state, actions)
        of_worlds, inner, _, ends, told = worlds.step(inner, actions.reshape(8, 3))
        for name in ("terminated", "truncated"):
            equal(infos.pop(name), told.pop(name).repeat(3))
        equal((rewards, dones), (told.pop("rewards").reshape(24), ends.repeat(3)))
        equal(infos, jax.tree.map(lambda x: x.reshape(24, *x.shape[2:]), told))
    assert state.step.max() < 26 and state.step.min() == 4  # every world has begun again


def test_it_keeps_the_contract(adapter: Any) -> None:
    env = _make("switch_riddle")
    report = report_batched_env(env, num_steps=20)
    assert not report.findings, report


def test_states_indices_and_copies(adapter: Any) -> None:
    env = _make("switch_riddle", 2)
    _, state = env.reset(jax.random.key(0))
    one = env.slot_state(state, 4)
    equal(one, jax.tree.map(lambda x: x[1], state))
    equal(env.slot_state(state, -2), one)
    equal(jax.jit(env.slot_state)(state, 5), one)
    with pytest.raises(IndexError, match="slot_state"):
        env.slot_state(state, 6)
    with pytest.raises(ValueError, match="shape"):
        env.step(state, [0, 1])
    actions = np.ones(6, np.int32)
    expected = env.step(state, actions)
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        equal(twin.step(state, actions), expected)


def test_it_is_compiled_ahead_and_donates(adapter: Any, compile_counter: Any) -> None:
    env = envrax.make_vec("jaxmarl/switch_riddle", 2, donate=True)
    actions = np.ones(env.n_slots, np.int32)
    rng = jax.random.key(0)
    with compile_counter() as compiled:
        _, state = env.reset(rng)
        new = env.step(state, actions)[1]
    assert compiled.count == 0
    with pytest.raises(RuntimeError, match="newest state"):
        env.step(state, actions)
    env.step(new, actions)


def test_fleets_hold_it(adapter: Any) -> None:
    fleet = MultiVecEnv([_make("switch_riddle", 2), _make("coin_game", 3)])
    assert fleet.env_keys == ["switch_riddle", "coin_game"]
    assert fleet.total_envs == 12
    obs, states = fleet.reset(jax.random.key(0))
    actions = [space.sample(jax.random.key(1)) for space in fleet.action_spaces]
    obs, states, rewards, *_ = fleet.step(states, actions)
    assert [x.shape for x in rewards] == [(6,), (6,)]
    member, rng = fleet.envs[0], jax.random.split(jax.random.key(0), 2)[0]
    equal(obs[0], member.step(member.reset(rng)[1], actions[0])[0])


def test_legal_actions(adapter: Any) -> None:
    env = _make("HeuristicEnemySMAX")
    _, state = env.reset(jax.random.key(0))
    mask = env.action_mask(state)
    assert mask.shape == (10, 10) and mask.dtype == bool and mask.any(axis=1).all()
    with jax.numpy_dtype_promotion("standard"):
        theirs = jax.vmap(env.world.peer.get_avail_actions)(state.inner)
    equal(mask[5:], jnp.stack([theirs[name][1] for name in env.agents]).astype(bool))
    env = _make("hanabi")
    mask = env.action_mask(env.reset(jax.random.key(0))[1])
    assert mask.shape == (4, 21)
    waiting = mask.sum(axis=1) == 1  # one of two players waits, and can only do nothing
    assert waiting.reshape(2, 2).sum(axis=1).tolist() == [1, 1]
    env = _make(SPREAD)
    assert env.action_mask(env.reset(jax.random.key(0))[1]) is None


def test_a_slot_is_drawn_as_its_world(adapter: Any) -> None:
    env = _make(SPREAD)
    _, state = env.reset(jax.random.key(0))
    images = [env.render_slot(state, slot) for slot in (0, 1, -1)]
    np.testing.assert_array_equal(images[0], images[1])
    assert np.any(images[0] != images[2])


def test_games_of_brax_reset_by_our_rule(adapter: Any) -> None:
    world = _make("walker2d_2x3", 1, config={"options": {"episode_length": 7, "action_repeat": 2}})
    assert world.config.max_steps == 4 and world.world.peer.auto_reset is False
    padded = _make("halfcheetah_6x1", 1, config={"options": {"homogenisation_method": "max"}})
    assert padded.single_observation_space.shape == (15,)


@pytest.mark.parametrize(
    ("id", "fields", "error", "noun"),
    [
        ("MPE_simple_tag_v3", {}, TypeError, "share their spaces"),
        ("JaxRobotarium_rware", {}, ValueError, "jaxrobotarium package"),
        ("walker2d_2x3", {"options": {"auto_reset": True}}, TypeError, "auto_reset"),
    ],
)
def test_what_is_refused(id: str, fields: Any, error: type[Exception], noun: str) -> None:
    with pytest.raises(ValueError, match="make_vec"):
        envrax.make(f"jaxmarl/{id}")
    with pytest.raises(error, match=noun):
        make(f"jaxmarl/{id}", **fields)


@pytest.mark.parametrize("id", ["overcooked", "overcooked_v2", "jaxnav"])
def test_agents_that_see_the_limit_see_ours(adapter: Any, id: str) -> None:
    for options in ({}, {"max_steps": 500}):
        world = _make(id, config={"max_steps": 900, "options": options}).world
        assert world.config.max_steps == world.peer.max_steps == 900
    if id == "jaxnav":
        with pytest.raises(TypeError, match="up to 900"):
            adapter.wrap(world.peer, max_steps=901)


def test_wrap(adapter: Any) -> None:
    riddle = type(adapter.jaxmarl.make("switch_riddle"))

    class Short(riddle):  # a step of the user's own: what ends it is what it says
        def step_env(self, key: Any, state: Any, actions: Any) -> Any:
            obs, state, rewards, dones, info = super().step_env(key, state, actions)
            done = state.step >= 2
            return obs, state, rewards, {name: done for name in dones}, {"world": state.step}

    env = adapter.wrap(Short(4), 2, max_steps=9)
    assert (env.n_slots, env.name, env.config.max_steps) == (8, "Short", 9)
    _, state = env.reset(jax.random.key(0))
    _, state, *_ = env.step(state, np.zeros(8, np.int32))
    _, state, _, dones, infos = env.step(state, np.zeros(8, np.int32))
    assert infos["terminated"].all() and dones.all() and infos["world"].tolist() == [2] * 8
    assert adapter.wrap(riddle(3)).config.max_steps == 6


def test_importing_it_leaves_the_streams_alone() -> None:
    code = "import io, sys; sys.stdout = own = io.StringIO(); import envrax.interop.jaxmarl\n"
    code += "assert sys.stdout is own"
    subprocess.run([sys.executable, "-c", code], check=True)
