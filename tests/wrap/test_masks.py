# pyright: basic
"""Masks of legal actions, in the form that an object's space of actions has."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_trees_equal, slow_but
from wrap import peers

import envrax
from envrax import Box, Dict, Discrete, MultiDiscrete, Tuple
from envrax.spaces.composite import map_leaves


class Parts(NamedTuple):
    go: Any
    move: Any


def three(t: Any) -> Any:
    return jnp.arange(3) != t % 3


FORMS: dict[str, tuple[Any, Any]] = {
    "an array": (Discrete(3), three),
    "rows": (
        MultiDiscrete((3, 2)),
        lambda t: jnp.stack([three(t), jnp.array([True, False, False])]),
    ),
    "a tuple": (Tuple((Discrete(3), Discrete(2))), lambda t: (three(t), jnp.array([True, False]))),
    "a list with None": (Tuple((Discrete(3), Discrete(2))), lambda t: [three(t), None]),
    "a dict with None": (
        Dict(move=Discrete(3), go=Box(-1.0, 1.0, ())),
        lambda t: {"move": three(t), "go": None},
    ),
    "a named tuple": (
        Dict(move=Tuple((Discrete(3),)), go=Discrete(2)),
        lambda t: Parts(go=jnp.array([False, True]), move=(three(t),)),
    ),
}


def plain(mask: Any) -> Any:
    """A mask in the dicts and tuples of its space."""
    if isinstance(mask, Parts):
        return mask._asdict()
    return tuple(mask) if isinstance(mask, list) else mask


def is_legal(space: Any, mask: Any, action: Any) -> Any:
    def one(_: Any, mask: Any, action: Any) -> Any:
        return True if mask is None else jnp.take_along_axis(mask, action[..., None], -1).all()

    return jnp.stack(jax.tree.leaves(map_leaves(one, space, plain(mask), action))).all()


class Alone:
    """A legal action has a reward of one."""

    max_steps = 5

    def __init__(self, space: Any, mask: Any) -> None:
        self.action_space, self.mask = space, mask

    def reset(self, key: Any) -> Any:
        return jnp.float32(0), {"t": jax.random.randint(key, (), 0, 3), "n": jnp.int32(0)}

    def step(self, key: Any, state: Any, action: Any) -> Any:
        reward = self.reward_of(state["t"], action)
        state = {"t": state["t"] + 1, "n": state["n"] + 1}
        return state["n"] * 1.0, state, reward, state["n"] >= self.max_steps, {}

    def reward_of(self, t: Any, action: Any) -> Any:
        return is_legal(self.action_space, self.mask(t), action).astype(jnp.float32)

    def action_mask(self, state: Any) -> Any:
        return self.mask(state["t"])


class World(Alone):
    """Two agents, of which the other has five actions."""

    agents = ("one", "other")

    def reset(self, key: Any) -> Any:
        obs, state = super().reset(key)
        return dict.fromkeys(self.agents, obs), state

    def step(self, key: Any, state: Any, actions: Any) -> Any:
        obs, state, reward, done, info = super().step(key, state, actions)
        ends = dict.fromkeys((*self.agents, "__all__"), done)
        return dict.fromkeys(self.agents, obs), state, reward, ends, info

    def reward_of(self, t: Any, action: Any) -> Any:
        legal = is_legal(self.space, self.mask(t), action["one"])
        return {"one": legal.astype(jnp.float32), "other": jnp.float32(action["other"] > 2)}

    def __init__(self, space: Any, mask: Any) -> None:
        self.space, self.mask = space, mask

    def action_space(self, agent: str) -> Any:
        return Discrete(5) if agent == "other" else self.space

    def action_mask(self, state: Any) -> Any:
        return {"one": self.mask(state["t"]), "other": jnp.arange(5) > 2}


class InTurn(peers.PgxLike):
    def __init__(self, space: Any, mask: Any) -> None:
        self.action_space, self.mask = space, mask

    def init(self, key: Any) -> Any:
        return super().init(key).replace(legal_action_mask=self.mask(jnp.int32(7)))

    def step(self, state: Any, action: Any, key: Any = None) -> Any:
        legal = is_legal(self.action_space, self.mask(state.stones), action)
        after = super().step(state, 0)
        rewards = jnp.full(2, legal, jnp.float32)
        return after.replace(rewards=rewards, legal_action_mask=self.mask(after.stones))


OWNERS: dict[str, tuple[Any, Any]] = {
    "alone": (Alone, lambda inner: inner["t"]),
    "a world": (World, lambda inner: inner["t"]),
    "in turn": (InTurn, lambda inner: inner.stones),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("owner", slow_but("a world", values=OWNERS))
def test_masks_in_the_form_of_a_space(owner: str, form: str) -> None:
    """Those of one environment, and those that draw the actions of a rollout."""
    make, time_of = OWNERS[owner]
    space, mask = FORMS[form]
    env: Any = envrax.wrap(make(space, mask))
    assert env.unwrapped.reading.facts["mask"] == "of legal actions"

    def expected(state: Any) -> Any:
        own = plain(mask(time_of(state.inner)))
        return {"one": own, "other": jnp.arange(5) > 2} if owner == "a world" else own

    def masks_of(state: Any) -> Any:
        masks = env.action_mask(state)
        return masks[f"player_{state.inner.current_player}"] if owner == "in turn" else masks

    _, state = env.reset(jax.random.key(1))
    for n in range(3):
        assert_trees_equal(masks_of(state), expected(state))
        action = env.action_space.sample(jax.random.key(n), env.action_mask(state))
        state = env.step(state, action)[1]

    vec_env = envrax.VecEnv(env, 4)
    start = envrax.start(vec_env, jax.random.key(0))
    masks = vec_env.action_mask(start.env_state)
    assert_trees_equal(masks, jax.vmap(env.action_mask)(start.env_state))
    _, steps = envrax.rollout(vec_env, None, start, 30)
    assert all((np.asarray(x) == 1).all() for x in jax.tree.leaves(steps.reward))


class AloneAtAll(Alone):
    def reward_of(self, t: Any, action: Any) -> Any:
        return jnp.float32(1)


class WorldAtAll(World):
    def reward_of(self, t: Any, action: Any) -> Any:
        return dict.fromkeys(self.agents, jnp.float32(1))


class InOneArray(WorldAtAll):
    def action_mask(self, state: Any) -> Any:
        return jnp.ones((2, 5), bool)


class OfOneAgent(WorldAtAll):
    def action_mask(self, state: Any) -> Any:
        return {"other": jnp.arange(5) > 2}


@pytest.mark.parametrize(
    ("make", "mask"),
    [
        (AloneAtAll, lambda t: (three(t),)),  # one of two
        (AloneAtAll, lambda t: (three(t), jnp.ones(3, bool))),  # too long
        (AloneAtAll, lambda t: (three(t), jnp.ones(2, jnp.int32))),  # no bools
        (AloneAtAll, lambda t: {"one": three(t)}),
        (AloneAtAll, lambda t: (None, None)),
        (AloneAtAll, three),
        (WorldAtAll, lambda t: three(t)[:2]),
        (InOneArray, None),
        (OfOneAgent, None),
    ],
)
def test_what_is_no_mask_is_told(make: Any, mask: Any) -> None:
    env: Any = envrax.wrap(make(Tuple((Discrete(3), Discrete(2))), mask))
    assert env.action_mask(env.reset(jax.random.key(0))[1]) is None
    assert "is no mask for its actions" in env.unwrapped.reading.facts["mask"]
