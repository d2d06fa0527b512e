"""Episodes that begin in saved states of other libraries' environments: no key comes twice."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from helpers import plain

import envrax
from envrax import StartStates
from envrax._jax.types import named_leaves

# Libraries whose state holds a key of its own, and where.
KEYS = {
    "jumanji/Snake-v1": ["state.inner.key"],
    "navix/Navix-Empty-5x5-v0": ["state.inner.state.key"],
    "xminigrid/MiniGrid-Empty-5x5": ["state.inner.state.key"],
    "gymnax/CartPole-v1": [],
}


@pytest.mark.parametrize(
    ("id", "make_key"),
    [*((id, jax.random.key) for id in KEYS), ("jumanji/Snake-v1", jax.random.PRNGKey)],
)
def test_two_episodes_from_one_state_differ_in_all_keys_and_in_nothing_else(
    id: str, make_key: Any
) -> None:
    peer = envrax.make(id, jit_compile=False)
    entry = jax.jit(peer.reset)(make_key(0))
    batch = envrax.VecEnv(StartStates(peer, lambda rng: entry), 2)
    _, state = batch.reset(make_key(1))
    saved, begun = ({**named_leaves({"state": x})} for x in (entry[1], state.env_state))
    for name, leaf in begun.items():
        one, other = plain(leaf)
        is_new = name in ["state.rng", *KEYS[id]]
        assert (one != other).any() == is_new, name
        assert (one != plain(saved[name])).any() == is_new, name
    _, after, *_ = batch.step(state, jnp.zeros(2, jnp.int32))
    assert jax.tree.structure(after) == jax.tree.structure(state)
