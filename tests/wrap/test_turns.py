# pyright: basic
"""Adapters of games in turns, which speak of the player whose turn it is."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_trees_equal
from wrap import peers

import envrax
from envrax.interop import PeerConfig, PeerReset, PeerStep, TurnEnv, nested, unbounded
from envrax.testing import check_env


class Stones(TurnEnv):
    library = "stones"

    @property
    def agents(self) -> tuple[str, ...]:
        return ("player_0", "player_1")

    def build(self) -> Any:
        return peers.PgxLike()

    def spaces(self) -> Any:
        return envrax.Box(0, 7, (), jnp.int32), envrax.Discrete(2)

    def current_player(self, inner: Any) -> Any:
        return inner.current_player

    def begin(self, params: Any, rng: Any) -> PeerReset:
        inner = self.peer.init(rng)
        return PeerReset(inner.stones, inner, inner.legal_action_mask)

    def advance(self, params: Any, inner: Any, action: Any, rng: Any) -> PeerStep:
        inner = self.peer.step(inner, action)
        mask = inner.legal_action_mask
        return PeerStep(inner.stones, inner, inner.rewards, inner.terminated, mask=mask)


class Unbounded(Stones):
    """Its space of observations is made of what all players see."""

    def spaces(self) -> Any:
        return nested(unbounded, self.observed), envrax.Discrete(2)


@pytest.mark.slow
def test_it_plays_as_the_same_game_by_its_functions() -> None:
    """Who acts sees the stones, and who waits sees zero; all else is as `envrax.wrap` has it."""
    env, same = Unbounded(PeerConfig(id="seven")), envrax.wrap(peers.PgxLike())
    key = jax.random.key(3)
    obs, state = env.reset(key)
    other, other_state = same.reset(key)
    assert obs in env.observation_space
    for i in range(7):
        acts = env.active(state)
        assert acts == same.active(other_state)
        for name in env.agents:
            assert obs[name] == jnp.where(acts[name], other[name][0], 0)
        masks, other_masks = env.action_mask(state), same.action_mask(other_state)
        assert all((masks[x] == other_masks[x]).all() for x in env.agents)
        action = {"player_0": i % 2, "player_1": (i + 1) % 2}
        obs, state, *step = env.step(state, action)
        other, other_state, *other_step = same.step(other_state, action)
        assert jax.tree.all(jax.tree.map(lambda a, b: bool(a == b), step, other_step))
        if state.done:
            break
    assert bool(state.done)


PAIR = envrax.Tuple((envrax.Discrete(2), envrax.Discrete(3)))
FORMS = [
    (envrax.MultiDiscrete((2, 3)), np.array([[1, 0, 0], [1, 1, 1]], bool), [[1, 1, 0], [1, 1, 1]]),
    (PAIR, (np.array([1, 0], bool), None), ([1, 1], None)),
    (envrax.Dict(one=PAIR), {"one": (np.ones(2, bool), np.eye(3, dtype=bool)[0])}, None),
    (envrax.Box(-1.0, 1.0, (2,)), None, None),
]


@pytest.mark.parametrize(("space", "mask", "free"), FORMS)
def test_players_take_turns_with_actions_of_every_form(space: Any, mask: Any, free: Any) -> None:
    """The action in turn is played, and who waits may do all that exists."""

    class Echo(TurnEnv):
        library = "echo"
        agents: Any = ("one", "two")

        def build(self) -> Any:
            return object()

        def spaces(self) -> Any:
            return space, space

        def current_player(self, inner: Any) -> Any:
            return inner[0] % 2

        def begin(self, params: Any, rng: Any) -> PeerReset:
            first = jax.tree.map(jnp.zeros_like, space.sample(rng))
            return PeerReset(first, (jnp.int32(0), first), mask)

        def advance(self, params: Any, inner: Any, action: Any, rng: Any) -> PeerStep:
            seen = {agent: action for agent in self.agents}
            return PeerStep(seen, (inner[0] + 1, action), jnp.zeros(2), jnp.bool_(False), mask=mask)

    env = Echo(PeerConfig(id="echo", max_steps=9))
    obs, state = env.reset(jax.random.key(0))
    for turn in range(3):
        acts, waits = env.agents[turn % 2], env.agents[1 - turn % 2]
        masks = env.action_mask(state)
        if mask is not None:
            assert_trees_equal(masks[acts], mask)
        if free is not None:
            assert jax.tree.map(lambda x: x.astype(int).tolist(), masks[waits]) == free
        action = env.action_space.sample(jax.random.key(turn))
        obs, state, *_ = env.step(state, action)
        assert_trees_equal(obs, dict.fromkeys(env.agents, action[acts]))


@pytest.mark.slow
def test_it_keeps_the_contract() -> None:
    check_env(Unbounded(PeerConfig(id="seven")), num_steps=10)
