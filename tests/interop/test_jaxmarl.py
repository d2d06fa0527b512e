# pyright: basic, reportMissingImports=false, reportPossiblyUnboundVariable=false
"""JaxMARL by name: equal to JaxMARL stepped by hand; ends, masks, turns, refusals."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from interop.by_hand import by_hand, equal, follow, make

SPREAD, TAG, CRYPTO = "MPE_simple_spread_v3", "MPE_simple_tag_v3", "MPE_simple_crypto_v3"
RIDDLE, SMAX = "switch_riddle", "HeuristicEnemySMAX"

# MPE only ends by its limit; units of SMAX die before their world ends.
COMPARED: dict[str, tuple[int, set[str]]] = {
    TAG: (20, {"truncated"}),
    CRYPTO: (20, {"truncated"}),
    RIDDLE: (4, {"truncated", "terminated"}),
    SMAX: (19, {"truncated", "terminated", "apart"}),
}


@pytest.mark.parametrize("id", COMPARED)
def test_200_steps_are_those_of_jaxmarl(adapter: Any, id: str) -> None:
    limit, expected = COMPARED[id]
    world = make(f"jaxmarl/{id}", max_steps=limit)
    peer, names = world.peer, world.agents
    assert names == tuple(peer.agents)

    def of_agents(tree: Any) -> Any:
        return {name: tree[name] for name in names}

    def begin(key: Any) -> Any:
        obs, inner = peer.reset(key)
        return of_agents(obs), inner

    def advance(key: Any, inner: Any, action: Any) -> Any:
        obs, inner, rewards, dones, _ = peer.step_env(key, inner, action)
        # Within the shorter limit of this test JaxMARL's own does not end anything.
        info: dict[str, Any] = {"terminated": dones["__all__"]}
        if id == SMAX:
            no = dict.fromkeys(names, jnp.bool_(False))
            info["agents"] = {"terminated": of_agents(dones), "truncated": no}
            info["active"] = {name: ~dones[name] for name in names}
        if id == RIDDLE:
            info["active"] = {x: inner.agent_in_room == i for i, x in enumerate(names)}
        return of_agents(obs), inner, of_agents(rewards), info

    assert follow(world, begin, advance) == expected


LIMITS: dict[str, tuple[dict[str, Any], int]] = {
    SPREAD: ({"max_steps": 3}, 4),  # its counter is compared before it counts the step
    RIDDLE: ({}, 6),
    SMAX: ({"max_steps": 3}, 4),
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
        assert not any(info.get("agents", {"terminated": {}})["terminated"].values())


def test_legal_actions(adapter: Any) -> None:
    world = make(f"jaxmarl/{SMAX}")
    _, state = jax.jit(world.reset)(jax.random.key(0))
    theirs = by_hand(world.peer.get_avail_actions)(state.inner)
    mask = jax.jit(world.action_mask)(state)
    assert {*mask} == {*world.agents} and all(x.dtype == bool for x in mask.values())
    equal(mask, {name: theirs[name].astype(bool) for name in world.agents})
    world = make(f"jaxmarl/{SPREAD}")
    assert world.action_mask(jax.jit(world.reset)(jax.random.key(0))[1]) is None


def test_whose_turn_it_is_in_hanabi(adapter: Any) -> None:
    """Players sit in an order that is drawn; who waits can only do nothing."""
    world = make("jaxmarl/hanabi", options={"num_agents": 3, "shuffle_player_order": True})

    def first_turn(key: Any) -> Any:
        _, state = world.reset(key)
        return world.active(state), world.action_mask(state)

    active, mask = jax.jit(jax.vmap(first_turn))(jax.random.split(jax.random.key(0), 12))
    equal(active, {agent: ~legal[:, -1] for agent, legal in mask.items()})
    assert all(0 < acts.sum() < 12 for acts in active.values())


def test_who_crashed_in_jaxnav_does_not_act(adapter: Any) -> None:
    world = make("jaxmarl/jaxnav", options={"act_type": "Discrete"})
    state = jax.eval_shape(world.reset, jax.random.key(0))[1]
    state = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), state.replace(rng=None))
    crashed = state.inner.replace(move_term=jnp.array([True, False]))
    assert world.action_mask(state) is None  # the library's has two entries, for 15 actions
    active = world.active(state.replace(inner=crashed))
    assert {agent: bool(x) for agent, x in active.items()} == {"agent_0": False, "agent_1": True}


@pytest.mark.parametrize("type", ["continuous", "discrete"])
def test_a_dead_unit_rests(adapter: Any, type: str) -> None:
    """Others see what a unit did last, with `observation_type="conic"`. Ally 1 shot at enemy 1."""
    world = make("jaxmarl/SMAX", options={"action_type": type})
    _, state = jax.jit(world.reset)(jax.random.key(0))
    inner = state.inner.state if hasattr(state.inner, "state") else state.inner
    n_agents = inner.unit_alive.size
    died = inner.replace(
        unit_alive=inner.unit_alive.at[1].set(False),
        prev_attack_actions=jnp.zeros(n_agents, jnp.int32).at[1].set(6),
    )
    action = world.action_space.sample(jax.random.key(1))
    after = jax.jit(world.step)(state.replace(inner=died), action)[1].inner
    assert after.prev_attack_actions[1] == 0


def test_games_of_brax_reset_by_our_rule(adapter: Any) -> None:
    world = make("jaxmarl/walker2d_2x3", options={"episode_length": 7, "action_repeat": 2})
    assert world.config.max_steps == 4 and world.peer.auto_reset is False
    with pytest.raises(TypeError, match="auto_reset"):
        make("jaxmarl/walker2d_2x3", options={"auto_reset": True})


def test_a_package_that_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match="jaxrobotarium package"):
        make("jaxmarl/JaxRobotarium_rware")


@pytest.mark.parametrize("id", ["overcooked", "overcooked_v2", "jaxnav"])
def test_agents_that_see_the_limit_see_ours(adapter: Any, id: str) -> None:
    for options in ({}, {"max_steps": 500}):
        world = make(f"jaxmarl/{id}", max_steps=900, options=options)
        assert world.config.max_steps == world.peer.max_steps == 900
    if id == "jaxnav":
        with pytest.raises(TypeError, match="max_steps"):
            adapter.wrap(world.peer, max_steps=901)


def test_the_push_game_is_drawn_in_its_colours(adapter: Any) -> None:
    """To be dropped once the library lists colours, and not their parts."""
    world = make("jaxmarl/MPE_simple_push_v3")
    assert not all(np.ndim(colour) for colour in world.peer.colour)
    image = world.render(jax.jit(world.reset)(jax.random.key(0))[1])
    assert (np.abs(image - np.array([25.5, 25.5, 229.5])).max(axis=-1) < 2).any()


def test_wrap(adapter: Any) -> None:
    riddle = type(adapter.jaxmarl.make("switch_riddle"))

    class Short(riddle):  # a step of the user's own: what ends it is what it says
        def step_env(self, key: Any, state: Any, actions: Any) -> Any:
            obs, state, rewards, dones, info = super().step_env(key, state, actions)
            done = state.step >= 2
            return obs, state, rewards, {name: done for name in dones}, {"world": state.step}

    env = adapter.wrap(Short(4), max_steps=9)
    assert (len(env.agents), env.name, env.config.max_steps) == (4, "Short", 9)
    _, state = env.reset(jax.random.key(0))
    assert all(env.active(state).values())
    actions = dict.fromkeys(env.agents, 0)
    _, state, *_ = env.step(state, actions)
    _, state, _, done, info = env.step(state, actions)
    assert info["terminated"] and done and info["world"] == 2
    assert adapter.wrap(riddle(3)).config.max_steps == 6


def test_a_world_of_ones_own_is_truncated_at_its_limit(adapter: Any) -> None:
    """`dones` counts it, and says nothing of why."""
    riddle = type(adapter.jaxmarl.make("switch_riddle"))

    class Limited(riddle):
        max_steps = 3

        def __init__(self) -> None:
            super().__init__(3)
            self.max_steps = 3

        def step_env(self, key: Any, state: Any, actions: Any) -> Any:
            obs, state, rewards, dones, info = super().step_env(key, state, actions)
            return obs, state, rewards, dict.fromkeys(dones, state.step >= self.max_steps), info

    for keywords in ({}, {"max_steps": 3}):
        env = adapter.wrap(Limited(), **keywords)
        state = env.reset(jax.random.key(0))[1]
        for _ in range(3):
            _, state, _, done, info = env.step(state, dict.fromkeys(env.agents, 0))
        assert done and info["truncated"] and not info["terminated"]


def test_importing_it_leaves_the_streams_alone(run_python: Any) -> None:
    code = "import io, sys; sys.stdout = own = io.StringIO(); import envrax.interop.jaxmarl\n"
    assert not run_python(code + "assert sys.stdout is own"), "what JaxMARL prints is for stderr"
