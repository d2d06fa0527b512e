# pyright: basic, reportMissingImports=false
"""navix by name: equal to navix stepped by hand; mended bounds, the state, objects of users."""

from typing import Any

import jax
import numpy as np
import pytest
from interop.by_hand import bits, called, follow, make, observes

import envrax

COMPARED = {"Navix-Empty-Random-5x5-v0": 20, "Navix-Dynamic-Obstacles-5x5-Random-v0": 5}


def _bare(timestep: Any) -> Any:
    return timestep.replace(observation=None, state=timestep.state.replace(cache=None))


@pytest.mark.parametrize("id", COMPARED)
def test_200_steps_are_those_of_navix(adapter: Any, id: str) -> None:
    """With the cache that navix carries on, and which ours makes again."""
    env = make(f"navix/{id}", max_steps=COMPARED[id])
    peer = called(adapter.navix.make, id, max_steps=COMPARED[id], disable_autoreset=True)

    def begin(key: Any) -> Any:
        hand = peer.reset(key)
        return hand.observation, hand

    def advance(key: Any, inner: Any, action: Any) -> Any:
        hand = peer.step(inner, action)
        # An end by the task at the limit is both; navix calls it an end by the task.
        ends = {"terminated": hand.is_termination(), "truncated": hand.t >= peer.max_steps}
        return hand.observation, hand, hand.reward, {**ends, "done": hand.is_done()}

    assert follow(env, begin, advance, kept=_bare) == {"truncated", "terminated"}


@pytest.mark.parametrize("name", ["categorical", "categorical_first_person"])
def test_walls_and_padding_are_outside_of_the_bounds_of_navix(adapter: Any, name: str) -> None:
    """To be dropped once its bounds are right."""
    options = {"observation_fn": getattr(adapter.observations, name)}
    env = make("navix/Navix-Empty-5x5-v0", options=options)
    obs, _ = env.reset(jax.random.key(0))
    assert obs in env.observation_space
    space = env.unwrapped.peer.observation_space
    ours = env.observation_space
    assert obs.min() == ours.low < space.minimum
    assert name == "categorical" or obs.max() == ours.high > space.maximum


def test_the_state_carries_no_pictures(adapter: Any) -> None:
    env = make("navix/Navix-Empty-5x5-v0")
    _, state = env.reset(jax.random.key(0))
    assert sum(bits(leaf).nbytes for leaf in jax.tree.leaves(state)) < 400


@pytest.mark.parametrize("name", ["rgb", "rgb_first_person"])
def test_images_are_a_function_of_the_state(adapter: Any, name: str) -> None:
    options = {"observation_fn": getattr(adapter.observations, name)}
    assert observes(make("navix/Navix-DoorKey-5x5-v0", options=options))


def test_the_faults_that_are_told(adapter: Any) -> None:
    """To be dropped from `descriptions/navix.toml` once mended; `findings` has programs."""
    obs, state = make("navix/Navix-Fetch-5x5-N2-v0").reset(jax.random.key(0))
    aimless = state.inner.state.replace(mission=())
    assert (obs == called(adapter.observations.symbolic, aimless)).all(), "the mission is observed"
    env = make("navix/Navix-Empty-Random-5x5-v0")
    obs, _ = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 90))
    unseen = (obs[..., 0] != adapter.navix.entities.EntityIds.PLAYER).all((1, 2))
    assert 4 < unseen.sum() < 20, "no start is on the goal"


def turn(policy_state: Any, obs: Any, rng: Any) -> Any:
    """A policy that turns on the spot."""
    return 0, policy_state, {}


def test_wrap(adapter: Any) -> None:
    peer = called(adapter.navix.make, "Navix-Empty-5x5-v0", gamma=0.5)
    env = adapter.wrap(peer, max_steps=7)
    assert env.unwrapped.peer.gamma == 0.5
    assert env.config.max_steps == 7
    longer = envrax.with_config(env, max_steps=peer.max_steps + 2)
    ends = envrax.rollout(longer, turn, envrax.start(longer, jax.random.key(0)), 105)[1].done
    assert np.flatnonzero(ends).tolist() == [peer.max_steps + 1]
