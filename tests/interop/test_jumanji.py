# pyright: basic, reportMissingImports=false
"""jumanji by name: equal to jumanji stepped by hand; masks, ends, limits, drawings, refusals."""

from __future__ import annotations

import gc
import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from interop.by_hand import equal
from interop.filming import shows_its_episode

import envrax
from envrax.interop import PeerConfig
from envrax.testing import report_env

# Libraries warn when they are imported.
pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]

COMPARED = {"Snake-v1": 15, "Tetris-v0": 9, "Connector-v3": 9, "TSP-v1": 0}


@pytest.fixture(scope="module")
def adapter() -> Any:
    import envrax.interop.jumanji

    return envrax.interop.jumanji


def _make(adapter: Any, id: str, **fields: Any) -> Any:
    config = PeerConfig(id=id, **fields)
    return envrax.make(f"jumanji/{id}", config=config, jit_compile=False)


@pytest.mark.parametrize("id", COMPARED)
def test_200_steps_are_those_of_jumanji(adapter: Any, id: str) -> None:
    """The library ends for its limit, too; ours tells it from a loss."""
    connector = adapter.jumanji.environments.connector.generator
    small = {"generator": connector.RandomWalkGenerator(grid_size=5, num_agents=3)}
    options = small if id == "Connector-v3" else {}
    env = _make(adapter, id, max_steps=COMPARED[id], options=options)
    peer, counts = env.unwrapped.peer, env.unwrapped.peer.action_spec
    reset, step, mask = map(jax.jit, (env.reset, env.step, env.action_mask))

    @jax.jit
    def begin(rng: Any) -> Any:
        with jax.numpy_dtype_promotion("standard"):
            return peer.reset(jax.random.split(rng)[1])

    @jax.jit
    def advance(inner: Any, action: Any) -> Any:
        if id == "Tetris-v0":
            action = jnp.stack([action // counts.num_values[1], action % counts.num_values[1]])
        with jax.numpy_dtype_promotion("standard"):
            inner, timestep = peer.step(inner, action)
            return inner, timestep, timestep.last()

    ends: set[str] = set()
    rng = jax.random.key(3)
    (obs, state), (inner, timestep) = reset(rng), begin(rng)
    for i, key in enumerate(jax.random.split(jax.random.key(4), 200)):
        # Half of them may be illegal, so that some games are lost.
        action = env.action_space.sample(key, mask(state) if i % 2 else None)
        inner, timestep, last = advance(inner, action)
        obs, state, reward, done, info = step(state, action)
        equal((obs, state.inner), (dict(vars_of(timestep.observation)), inner))
        assert reward == np.sum(timestep.reward)
        assert done == last
        assert info["truncated"] == (state.step == env.config.max_steps)
        assert info["terminated"] or info["truncated"] == done
        equal({k: info[k] for k in timestep.extras}, timestep.extras)
        if done:
            ends.update(name for name in ("terminated", "truncated") if info[name])
            rng = jax.random.split(state.rng)[0]
            (obs, state), (inner, timestep) = reset(rng), begin(rng)
            equal((obs, state.inner), (dict(vars_of(timestep.observation)), inner))
    assert ends == {"terminated", "truncated"} - {"truncated" if id == "TSP-v1" else ""}


def vars_of(observation: Any) -> Any:
    """The fields of an observation of jumanji, flat here."""
    return observation._asdict() if hasattr(observation, "_asdict") else vars(observation)


@pytest.mark.parametrize("id", ["Snake-v1", "LevelBasedForaging-v0"])
def test_it_keeps_the_contract(adapter: Any, id: str) -> None:
    report = report_env(_make(adapter, id), num_steps=100)
    assert not report.findings, report


def test_ids_need_no_building(adapter: Any) -> None:
    names = {name.removeprefix("jumanji/") for name in envrax.registered_names()}
    assert len(names) >= 26
    assert {*adapter.WAIVERS, *adapter.MENDED} <= {name.partition("-")[0] for name in names}


@pytest.mark.parametrize(
    ("id", "space", "shape"),
    [
        ("Minesweeper-v0", "Discrete(100)", (100,)),
        ("Connector-v3", "MultiDiscrete", (10, 5)),
        ("MultiCVRP-v0", "MultiDiscrete((22, 22), int16)", (2, 22)),
        ("RubiksCube-v0", "MultiDiscrete((6, 1, 3))", None),
    ],
)
def test_masks_fit_the_space(adapter: Any, id: str, space: str, shape: Any) -> None:
    env = _make(adapter, id)
    obs, state = jax.jit(env.reset)(jax.random.key(0))
    assert repr(env.action_space).startswith(space)
    mask = env.action_mask(state)
    assert (None if mask is None else mask.shape) == shape
    assert env.action_space.sample(jax.random.key(1), mask) in env.action_space
    if mask is not None:
        theirs = obs["action_mask"].reshape(shape) if id == "Minesweeper-v0" else obs["action_mask"]
        np.testing.assert_array_equal(mask[..., : theirs.shape[-1]], theirs)
        assert not mask[..., theirs.shape[-1] :].any()


def test_a_mask_for_each_of_two_agents_is_no_mask_of_pairs(adapter: Any) -> None:
    env = adapter.wrap(adapter.jumanji.make("LevelBasedForaging-v0"))
    _, state = env.reset(jax.random.key(0))
    assert env.action_mask(state).shape == (2, 6)
    assert env.step(state, [0, 0])[4]["rewards"].shape == (2,)


def test_the_reward_that_reads_the_limit_keeps_it(adapter: Any) -> None:
    env = _make(adapter, "SearchAndRescue-v0", max_steps=7)
    assert env.unwrapped.peer.time_limit == env.observation_space["step"].high == 7
    obs, state = env.reset(jax.random.key(0))
    done, info = False, {}
    for _ in range(7):
        obs, state, _, done, info = env.step(state, np.zeros((2, 2), np.float32))
    assert done
    assert info["truncated"]
    assert not info["terminated"]
    assert obs["step"] == 7


@pytest.mark.parametrize("id", ["Snake-v1", "TSP-v1"])
def test_what_is_mended_is_broken_in_jumanji(adapter: Any, id: str) -> None:
    """To be dropped once the library's own bounds hold what is observed."""
    env = _make(adapter, id, max_steps=1 if id != "TSP-v1" else 0)
    obs, state = env.reset(jax.random.key(0))
    if id != "TSP-v1":
        action = env.action_space.sample(jax.random.key(1), env.action_mask(state))
        obs, *_ = env.step(state, action)
    [key] = adapter.MENDED[id.partition("-")[0]]
    spec = env.unwrapped.peer.observation_spec[key]
    assert not spec.minimum <= obs[key] <= spec.maximum
    assert obs in env.observation_space


@pytest.mark.parametrize("id", ["Snake-v1", "GraphColoring-v1"])
def test_it_draws(adapter: Any, id: str, tmp_path: Any) -> None:
    image = shows_its_episode(_make(adapter, id), tmp_path)
    assert image.shape == (1000, 1000, 3)


def test_waivers_go_with_the_class(adapter: Any) -> None:
    env = adapter.wrap(adapter.jumanji.make("FlatPack-v0"))
    assert set(env.waivers) == {"keys_are_used_once", "calls_share_no_key"}


def test_wrong_input_is_a_sentence(adapter: Any) -> None:
    jumanji = adapter.jumanji
    with pytest.raises(ValueError, match="jumanji/Snake-v1'"):
        envrax.make("jumanji/Snake-v2")
    with pytest.raises(ValueError, match="Snake-v1: expected jumanji to build it with options"):
        _make(adapter, "Snake-v1", options={"colour": "red"})
    with pytest.raises(TypeError, match="expected no `params`"):
        _make(adapter, "Snake-v1", params={"time_limit": 3})
    snake = jumanji.make("Snake-v1", time_limit=20)
    with pytest.raises(ValueError, match=r"at most the library's own time limit, 20; got 30"):
        adapter.wrap(snake, max_steps=30)
    with pytest.raises(TypeError, match="without auto-reset or vmap"):
        adapter.wrap(importlib.import_module("jumanji.wrappers").AutoResetWrapper(snake))
    with pytest.raises(TypeError, match="expected an environment of jumanji"):
        adapter.wrap(object())

    class Broken(type(snake)):  # the observation of the spec has fewer keys
        observation_spec = jumanji.specs.Array((3,), jnp.float32)

    with pytest.raises(TypeError, match="Broken: expected `observation` as in the spec"):
        adapter.wrap(Broken())


def test_levels_may_come_from_elsewhere_than_the_network(adapter: Any) -> None:
    sokoban = adapter.jumanji.environments.sokoban
    env = _make(
        adapter, "Sokoban-v0", options={"generator": sokoban.generator.ToyGenerator()}, max_steps=5
    )
    assert env.reset(jax.random.key(0))[0] in env.observation_space
    del env
    gc.collect()  # here, where warnings are ignored: the library leaves the files of images open
