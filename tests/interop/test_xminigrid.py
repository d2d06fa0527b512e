# pyright: basic, reportMissingImports=false
"""XLand-MiniGrid by name: equal to it stepped by hand; frames, rulesets, bad input."""

from __future__ import annotations

import importlib
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from interop.by_hand import equal
from interop.filming import shows_its_episode

import envrax
from envrax.interop import PeerConfig
from envrax.testing import report_env

# Libraries warn when they are imported.
pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]

COMPARED = {
    "MiniGrid-EmptyRandom-5x5": 30,
    "MiniGrid-MemoryS8": 20,
    "MiniGrid-Unlock": 25,
    "XLand-MiniGrid-R4-9x9": 50,
}


@pytest.fixture(scope="module")
def adapter() -> Any:
    import envrax.interop.xminigrid

    return envrax.interop.xminigrid


def _make(adapter: Any, id: str, **fields: Any) -> Any:
    config = PeerConfig(id=id, **fields)
    return envrax.make(f"xminigrid/{id}", config=config, jit_compile=False)


@pytest.mark.parametrize("id", COMPARED)
def test_200_steps_are_those_of_xminigrid(adapter: Any, id: str) -> None:
    env = _make(adapter, id, max_steps=COMPARED[id])
    with jax.numpy_dtype_promotion("standard"):
        peer, params = adapter.xminigrid.make(id, max_steps=COMPARED[id])
    reset, step = jax.jit(env.reset), jax.jit(env.step)

    @jax.jit
    def begin(rng: Any) -> Any:
        with jax.numpy_dtype_promotion("standard"):
            return peer.reset(params, jax.random.split(rng)[1])

    @jax.jit
    def advance(timestep: Any, action: Any) -> Any:
        with jax.numpy_dtype_promotion("standard"):
            return peer.step(params, timestep, action)

    ends: Counter[str] = Counter()
    rng = jax.random.key(3)
    (obs, state), hand = reset(rng), begin(rng)
    for action_key in jax.random.split(jax.random.key(4), 200):
        action = env.action_space.sample(action_key)
        obs, state, reward, done, info = step(state, action)
        hand = advance(hand, action)
        equal((obs, state.inner, reward, done), (hand.observation, hand, hand.reward, hand.last()))
        assert info["terminated"] == (hand.last() & (hand.discount == 0))
        assert info["truncated"] == (hand.state.step_num == params.max_steps)
        if done:
            ends.update(name for name in ("terminated", "truncated") if info[name])
            rng = jax.random.split(state.rng)[0]
            (obs, state), hand = reset(rng), begin(rng)
            equal((obs, state.inner), (hand.observation, hand))
    assert ends["truncated"], ends
    assert ends["terminated"] or id.startswith(("XLand", "MiniGrid-Unlock")), ends


@pytest.mark.parametrize("id", ["MiniGrid-MemoryS8", "XLand-MiniGrid-R1-9x9"])
def test_it_keeps_the_contract(adapter: Any, id: str) -> None:
    report = report_env(_make(adapter, id), num_steps=100)
    assert not report.findings, report


def test_ids_need_no_building(adapter: Any) -> None:
    names = [name for name in envrax.registered_names() if name.startswith("xminigrid/")]
    assert len(names) == len(adapter.xminigrid.registered_environments()) == 44


def test_rulesets_may_be_traced(adapter: Any) -> None:
    id = "XLand-MiniGrid-R1-9x9"
    ruleset = _make(adapter, id).unwrapped.params.ruleset

    def observed(tile: Any) -> Any:
        params = {"ruleset": ruleset.replace(init_tiles=tile[None])}
        config = PeerConfig(id=id, params=params, options={"view_size": 17})
        env = envrax.make_vec(f"xminigrid/{id}", 2, pre_warm=False, config=config)
        return env.reset(jax.random.key(0))[0]

    tiles = jnp.array([[3, 1], [4, 2]], jnp.uint8)  # a red ball, a green square
    obs = jax.jit(jax.vmap(observed))(tiles)
    assert obs.shape == (2, 2, 17, 17, 2)


def test_options_and_limit(adapter: Any) -> None:
    env = _make(adapter, "MiniGrid-Empty-5x5", options={"view_size": 3}, max_steps=9)
    assert env.observation_space.shape == (3, 3, 2)
    assert env.config.max_steps == env.unwrapped.params.max_steps == 9
    assert _make(adapter, "MiniGrid-Empty-5x5").config.max_steps == 100


def test_it_draws(adapter: Any, tmp_path: Any) -> None:
    image = shows_its_episode(_make(adapter, "MiniGrid-DoorKey-5x5"), tmp_path)
    assert image.shape == (160, 160, 3)


def test_bad_input(adapter: Any) -> None:
    with pytest.raises(ValueError, match="Did you mean 'xminigrid/MiniGrid-Unlock'"):
        envrax.make("xminigrid/MiniGrid-Unlok")
    with pytest.raises(ValueError, match=r"xminigrid/MiniGrid-Unlock: .*options.*'sise'"):
        _make(adapter, "MiniGrid-Unlock", options={"sise": 3})
    with pytest.raises(TypeError, match=r"expected `params` of .*view_size.*got 'view'"):
        _make(adapter, "MiniGrid-Unlock", params={"view": 3})


def test_wrap(adapter: Any) -> None:
    wrappers = importlib.import_module("xminigrid.wrappers")
    peer, params = adapter.xminigrid.make("MiniGrid-Empty-5x5")
    env = adapter.wrap(wrappers.DirectionObservationWrapper(peer), params, max_steps=5)
    obs, state = env.reset(jax.random.key(0))
    assert obs in env.observation_space
    assert sorted(obs) == ["direction", "img"]
    assert env.config.max_steps == 5
    assert env.step(state, 0)[0] in env.observation_space
    with pytest.raises(TypeError, match="without auto-reset or vmap; got a GymAutoResetWrapper"):
        adapter.wrap(wrappers.GymAutoResetWrapper(peer), params)
    with pytest.raises(TypeError, match="expected an environment of xminigrid"):
        adapter.wrap((peer, params))


def test_an_environment_that_breaks_the_contract_of_xminigrid(adapter: Any) -> None:
    peer, params = adapter.xminigrid.make("MiniGrid-Empty-5x5")

    class Grows(type(peer)):
        def step(self, params: Any, timestep: Any, action: Any) -> Any:
            after = super().step(params, timestep, action)
            return after.replace(observation=jnp.zeros((2, 2), jnp.uint8))

    with pytest.raises(TypeError, match=r"xminigrid/Grows: expected `obs` to keep its shape"):
        adapter.wrap(Grows(), params).reset(jax.random.key(0))
