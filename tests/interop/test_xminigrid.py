# pyright: basic, reportMissingImports=false
"""XLand-MiniGrid by name: equal to it stepped by hand; rulesets, options, objects of users."""

import importlib
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from interop.by_hand import called, follow, make

import envrax
from envrax.interop import PeerConfig

# The room of `XLand` is never solved by chance.
COMPARED = {"MiniGrid-MemoryS8": 20, "XLand-MiniGrid-R4-9x9": 50}


@pytest.mark.parametrize("id", COMPARED)
def test_200_steps_are_those_of_xminigrid(adapter: Any, id: str) -> None:
    env = make(f"xminigrid/{id}", max_steps=COMPARED[id])
    peer, params = called(adapter.xminigrid.make, id, max_steps=COMPARED[id])

    def begin(key: Any) -> Any:
        hand = peer.reset(params, key)
        return hand.observation, hand

    def advance(key: Any, inner: Any, action: Any) -> Any:
        hand = peer.step(params, inner, action)
        info = {
            "done": hand.last(),
            "terminated": hand.last() & (hand.discount == 0),
            "truncated": hand.state.step_num == params.max_steps,
        }
        return hand.observation, hand, hand.reward, info

    ends = follow(env, begin, advance)
    assert ends == {"truncated", *["terminated"] * id.startswith("MiniGrid")}


def test_rulesets_may_be_traced(adapter: Any) -> None:
    id = "XLand-MiniGrid-R1-9x9"
    ruleset = make(f"xminigrid/{id}").unwrapped.params.ruleset

    def observed(tile: Any) -> Any:
        params = {"ruleset": ruleset.replace(init_tiles=tile[None])}
        config = PeerConfig(id=id, params=params, options={"view_size": 17})
        env = envrax.make_vec(f"xminigrid/{id}", 2, pre_warm=False, config=config)
        return env.reset(jax.random.key(0))[0]

    tiles = jnp.array([[3, 1], [4, 2]], jnp.uint8)  # a red ball, a green square
    obs = jax.jit(jax.vmap(observed))(tiles)
    assert obs.shape == (2, 2, 17, 17, 2)


def test_options_and_limit(adapter: Any) -> None:
    env = make("xminigrid/MiniGrid-Empty-5x5", options={"view_size": 3}, max_steps=9)
    assert env.observation_space.shape == (3, 3, 2)
    assert env.config.max_steps == env.unwrapped.params.max_steps == 9
    assert make("xminigrid/MiniGrid-Empty-5x5").config.max_steps == 100


def test_wrap(adapter: Any) -> None:
    wrappers = importlib.import_module("xminigrid.wrappers")
    peer, params = adapter.xminigrid.make("MiniGrid-Empty-5x5")
    env = adapter.wrap(wrappers.DirectionObservationWrapper(peer), params, max_steps=5)
    obs, state = env.reset(jax.random.key(0))
    assert obs in env.observation_space
    assert sorted(obs) == ["direction", "img"]
    assert env.config.max_steps == 5
    assert env.step(state, 0)[0] in env.observation_space
    with pytest.raises(TypeError, match="GymAutoResetWrapper"):
        adapter.wrap(wrappers.GymAutoResetWrapper(peer), params)
