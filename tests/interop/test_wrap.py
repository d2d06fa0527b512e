# pyright: basic, reportMissingImports=false
"""Every library that has a suite goes through `envrax.wrap`, equal to its `make`."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from interop.by_hand import equal, make
from interop.test_every_library import LIBRARIES

import envrax
from envrax.interop.protocol.wrapping import wrap_by_protocol

pytestmark = pytest.mark.usefixtures("sprites")


def same(one: Any, other: Any) -> None:
    """A reset and ten steps of both are equal."""

    def played(env: Any) -> Any:
        def step(state: Any, rng: Any) -> Any:
            action = env.action_space.sample(rng, env.action_mask(state))
            obs, state, reward, done, info = env.step(state, action)
            return state, (obs, reward, done, info["terminated"], info["truncated"])

        obs, state = env.reset(jax.random.key(0))
        steps = jax.lax.scan(step, state, jax.random.split(jax.random.key(1), 10))[1]
        n_ends = jnp.cumsum(steps[2].astype(jnp.int32)) - steps[2].astype(jnp.int32)
        # What follows an end is not defined.
        return obs, jax.tree.map(
            lambda x: jnp.where(n_ends == 0, x.T, jnp.zeros_like(x.T)).T, steps
        )

    equal(jax.jit(lambda: played(one))(), jax.jit(lambda: played(other))())


@pytest.mark.parametrize("library", LIBRARIES)
def test_by_class(library: str) -> None:
    made = make(f"{library}/{LIBRARIES[library][0]}").unwrapped
    params = None if made.params is None or library == "playground" else made.params
    wrapped = envrax.wrap(made.peer, params, max_steps=made.config.max_steps)
    assert type(wrapped.unwrapped).__module__ == f"envrax.interop.{library}"
    same(made, wrapped)


@pytest.mark.parametrize("library", ["brax", "gymnax", "jaxmarl", "jumanji"])
def test_by_protocol(library: str) -> None:
    """The functions alone give the same steps; the spaces and the ends too."""
    made = make(f"{library}/{LIBRARIES[library][0]}").unwrapped
    limit = made.config.max_steps
    wrapped = wrap_by_protocol(made.peer, max_steps=limit)
    assert wrapped.action_space.shape == made.action_space.shape
    same(made, wrapped)
