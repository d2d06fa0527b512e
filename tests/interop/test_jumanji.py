# pyright: basic, reportMissingImports=false
"""jumanji by name: equal to jumanji stepped by hand; masks, limits, mended bounds, `wrap`."""

import gc
import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from interop.by_hand import by_hand, follow, make

import envrax

# Actions of Tetris are pairs, which ours numbers; a tour of TSP has no limit.
COMPARED = {"Snake-v1": 15, "Tetris-v0": 9, "TSP-v1": 0}


@pytest.mark.parametrize("id", COMPARED)
def test_200_steps_are_those_of_jumanji(adapter: Any, id: str) -> None:
    """The library ends for its limit, too; ours tells it from a loss."""
    env = make(f"jumanji/{id}", max_steps=COMPARED[id])
    peer, counts = env.unwrapped.peer, env.unwrapped.peer.action_spec

    def begin(key: Any) -> Any:
        inner, timestep = peer.reset(key)
        return dict(vars_of(timestep.observation)), inner

    def advance(key: Any, inner: Any, action: Any) -> Any:
        if id == "Tetris-v0":
            action = jnp.stack([action // counts.num_values[1], action % counts.num_values[1]])
        inner, timestep = peer.step(inner, action)
        info = {"done": timestep.last(), **timestep.extras}
        obs = dict(vars_of(timestep.observation))
        if id == "Tetris-v0":
            obs["step_count"] = inner.step_count  # jumanji shows 0 in each step
        return obs, inner, jnp.sum(timestep.reward), info

    # Half of the actions may be illegal, so that some games are lost.
    ends = follow(env, begin, advance, masked=lambda n: n % 2 == 1)
    assert ends == {"terminated", *["truncated"] * (id != "TSP-v1")}


def vars_of(observation: Any) -> Any:
    """The fields of an observation of jumanji, flat here."""
    return observation._asdict() if hasattr(observation, "_asdict") else vars(observation)


# Rewards of its own for each agent, or one of the team.
WORLDS: dict[str, tuple[int, set[str]]] = {
    "Connector-v3": (24, {"terminated", "truncated", "apart"}),
    "Cleaner-v0": (3, {"terminated", "truncated"}),
}


@pytest.mark.parametrize("id", WORLDS)
def test_200_steps_of_a_world_are_those_of_jumanji(adapter: Any, id: str) -> None:
    limit, expected = WORLDS[id]
    world = make(f"jumanji/{id}", options={"agents": "all"}, max_steps=limit)
    peer, names = world.unwrapped.peer, world.agents
    assert names == tuple(f"agent_{i}" for i in range(peer.num_agents))
    own = {"action_mask", "agents_locations"}

    def seen(obs: Any) -> Any:
        fields = vars_of(obs)
        return {
            name: {key: x[i] if key in own else x for key, x in fields.items()}
            for i, name in enumerate(names)
        }

    def begin(key: Any) -> Any:
        inner, timestep = peer.reset(key)
        return seen(timestep.observation), inner

    def advance(key: Any, inner: Any, action: Any) -> Any:
        inner, timestep = peer.step(inner, jnp.stack([action[name] for name in names]))
        rewards = jnp.broadcast_to(timestep.reward, len(names))
        info = {"done": timestep.last(), **timestep.extras}
        if id == "Connector-v3":
            stuck = inner.agents.connected | ~inner.action_mask[:, 1:].any(axis=1)
            info["active"] = {name: ~stuck[i] for i, name in enumerate(names)}
        return seen(timestep.observation), inner, dict(zip(names, rewards, strict=True)), info

    assert follow(world, begin, advance, masked=lambda n: n % 4 > 0) == expected


def test_worlds_are_games_of_several_agents(adapter: Any) -> None:
    for id, agents in {"Snake-v1": "all", "Cleaner-v0": 2}.items():
        with pytest.raises(ValueError, match="agents"):
            make(f"jumanji/{id}", options={"agents": agents})
    game = adapter.wrap(adapter.jumanji.make("LevelBasedForaging-v0"))
    world = envrax.with_config(game, options={"agents": "all"})
    assert (game.agents, world.agents) == ((), ("agent_0", "agent_1"))
    assert world.action_space["agent_0"] == envrax.Discrete(6)
    world = make("jumanji/SearchAndRescue-v0", options={"agents": "all"})
    assert world.observation_space["agent_1"]["searcher_views"].shape == (3, 128)
    assert world.action_space["agent_1"] == envrax.Box(-1.0, 1.0, (2,))


@pytest.mark.parametrize(("id", "limit"), [("MultiCVRP-v0", 40), ("FlatPack-v0", 25)])
def test_a_limit_without_an_option_truncates(adapter: Any, id: str, limit: int) -> None:
    """The first action, again and again, serves no customer and places at most one block."""
    env = make(f"jumanji/{id}")
    assert env.config.max_steps == limit
    with pytest.raises(ValueError, match=f"max_steps` of at most .* {limit}"):
        make(f"jumanji/{id}", max_steps=limit + 1)
    assert make(f"jumanji/{id}", max_steps=3).config.max_steps == 3
    peer = env.unwrapped.peer
    _, state = jax.jit(env.reset)(jax.random.key(0))
    step, theirs = jax.jit(env.step), jax.jit(by_hand(peer.step))
    action = jnp.zeros(env.action_space.shape, env.action_space.dtype)
    for i in range(1, limit + 1):
        _, timestep = theirs(state.inner, peer.action_spec.generate_value())
        _, state, reward, done, info = step(state, action)
        assert bool(done) == bool(timestep.last()) == (i == limit)
        np.testing.assert_allclose(reward, timestep.reward)
    assert info["truncated"] and not info["terminated"]


def test_ids_need_no_building(adapter: Any) -> None:
    names = {name.removeprefix("jumanji/") for name in envrax.registered_names()}
    assert {*adapter.WAIVERS, *adapter.MENDED} <= {name.partition("-")[0] for name in names}


@pytest.mark.parametrize(
    ("id", "space", "shape"),
    [
        ("Minesweeper-v0", "Discrete(100)", (100,)),
        ("MultiCVRP-v0", "MultiDiscrete((22, 22), int16)", (2, 22)),
        ("RubiksCube-v0", "MultiDiscrete((6, 1, 3))", None),
    ],
)
def test_masks_fit_the_space(adapter: Any, id: str, space: str, shape: Any) -> None:
    env = make(f"jumanji/{id}")
    obs, state = jax.jit(env.reset)(jax.random.key(0))
    assert repr(env.action_space).startswith(space)
    mask = env.action_mask(state)
    assert (None if mask is None else mask.shape) == shape
    assert env.action_space.sample(jax.random.key(1), mask) in env.action_space
    if mask is not None:
        theirs = obs["action_mask"].reshape(shape) if id == "Minesweeper-v0" else obs["action_mask"]
        np.testing.assert_array_equal(mask[..., : theirs.shape[-1]], theirs)
        assert not mask[..., theirs.shape[-1] :].any()


def test_masks_of_two_agents_are_not_a_mask_of_pairs(adapter: Any) -> None:
    env = adapter.wrap(adapter.jumanji.make("LevelBasedForaging-v0"))
    _, state = env.reset(jax.random.key(0))
    assert env.action_mask(state).shape == (2, 6)
    assert env.step(state, [0, 0])[4]["rewards"].shape == (2,)


def test_the_reward_that_reads_the_limit_keeps_it(adapter: Any) -> None:
    env = make("jumanji/SearchAndRescue-v0", max_steps=7)
    assert env.unwrapped.peer.time_limit == env.observation_space["step"].high == 7
    obs, state = env.reset(jax.random.key(0))
    done, info = False, {}
    for _ in range(7):
        obs, state, _, done, info = env.step(state, np.zeros((2, 2), np.float32))
    assert done and info["truncated"] and not info["terminated"]
    assert obs["step"] == 7


@pytest.mark.parametrize("id", ["Snake-v1", "TSP-v1"])
def test_corrected_bounds_are_wrong_in_jumanji(adapter: Any, id: str) -> None:
    """Remove a correction once the library's own bounds hold."""
    env = make(f"jumanji/{id}", max_steps=1 if id != "TSP-v1" else 0)
    obs, state = env.reset(jax.random.key(0))
    if id != "TSP-v1":
        action = env.action_space.sample(jax.random.key(1), env.action_mask(state))
        obs, *_ = env.step(state, action)
    [key] = adapter.MENDED[id.partition("-")[0]]
    spec = env.unwrapped.peer.observation_spec[key]
    assert not spec.minimum <= obs[key] <= spec.maximum
    assert obs in env.observation_space


def test_wrap(adapter: Any) -> None:
    jumanji = adapter.jumanji
    snake = jumanji.make("Snake-v1", time_limit=20)
    with pytest.raises(ValueError, match="time limit"):
        adapter.wrap(snake, max_steps=30)
    with pytest.raises(TypeError, match="AutoResetWrapper"):
        adapter.wrap(importlib.import_module("jumanji.wrappers").AutoResetWrapper(snake))

    class Broken(type(snake)):  # the observation of the spec has fewer keys
        observation_spec = jumanji.specs.Array((3,), jnp.float32)

    with pytest.raises(TypeError, match="observation"):
        adapter.wrap(Broken())


def test_levels_may_come_from_elsewhere_than_the_network(adapter: Any) -> None:
    sokoban = adapter.jumanji.environments.sokoban
    env = make(
        "jumanji/Sokoban-v0", options={"generator": sokoban.generator.ToyGenerator()}, max_steps=5
    )
    assert env.reset(jax.random.key(0))[0] in env.observation_space
    del env
    gc.collect()  # here, where warnings are ignored: the library leaves the files of images open
