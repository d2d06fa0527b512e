"""`FlattenAction`: actions of any space as one vector of floats."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CoinEnv, NestedEnv
from helpers import assert_trees_equal

from envrax import Box, Dict, Discrete, FlattenAction, MultiBinary, Tuple
from envrax.spaces import flatten

KEY = jax.random.key(0)


class Takes(CoinEnv):
    """Takes actions of a given space."""

    def __init__(self, space: Any) -> None:
        super().__init__()
        self.space = space

    @property
    def action_space(self) -> Any:
        return self.space


def test_the_environment_gets_the_action_that_was_flattened() -> None:
    inner = NestedEnv()
    env = FlattenAction(inner)
    action = jax.jit(inner.action_space.sample)(KEY)
    vector = jax.jit(lambda x: flatten(inner.action_space, x).astype(jnp.float32))(action)
    assert env.action_space.contains(vector)
    assert_trees_equal(jax.jit(env.action)(vector), action)


def test_a_uniform_vector_is_a_uniform_choice() -> None:
    env = FlattenAction(Takes(Dict(of=Discrete(4), flag=MultiBinary(()))))

    def draw(rng: jax.Array) -> Any:
        return env.action(env.action_space.sample(rng))

    taken = jax.jit(jax.vmap(draw))(jax.random.split(KEY, 4000))
    np.testing.assert_allclose(np.bincount(taken["of"]) / 4000, 0.25, atol=0.03)
    np.testing.assert_allclose(np.mean(taken["flag"]), 0.5, atol=0.03)


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (Box([[-1, -2]], [[1, np.inf]], (1, 2)), Box([-1, -2], [1, np.inf], (2,))),
        (Box(0.0, 1.0, (3,), jnp.bfloat16), Box(0.0, 1.0, (3,), jnp.bfloat16)),
        (Box(-4, 5, (2, 2), jnp.int8), Box(-4, 5, (4,))),
        (Tuple([Discrete(2), Box(0.0, 9.0, (1,), jnp.float16)]), Box(0, [1, 1, 9], (3,))),
    ],
    ids=str,
)
def test_the_space_has_the_bounds_of_each_number(space: Any, expected: Box) -> None:
    assert FlattenAction(Takes(space)).action_space == expected
