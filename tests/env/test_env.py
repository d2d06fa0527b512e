"""States, the abstract methods of an environment, and its defaults."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from config.test_config import OfOfSwapped, Open
from fakes import VectorConfig, VectorEnv, VectorState

from envrax import EnvConfig, JaxEnv


def vector_state(rng: jax.Array) -> VectorState:
    return VectorState(rng=rng, step=jnp.int32(0), done=jnp.bool_(False), pos=jnp.float32(0))


@pytest.mark.parametrize("key", [jax.random.key, jax.random.PRNGKey])
def test_state_is_a_pytree_with_either_key(key: Callable[[int], jax.Array]) -> None:
    state = vector_state(key(1))
    assert len(jax.tree.leaves(state)) == 4
    moved = jax.jit(lambda s: s.replace(step=s.step + 1))(state)
    assert type(moved) is VectorState
    assert moved.step == 1 and moved.step.dtype == jnp.int32
    assert moved.rng.dtype == state.rng.dtype


def test_state_fields_are_given_by_keyword_and_all_of_them() -> None:
    with pytest.raises(TypeError, match="rng"):
        VectorState(step=1, done=False, pos=0)  # pyright: ignore
    with pytest.raises(ValueError, match="positional"):
        VectorState(0, 1, False, 0)  # pyright: ignore


@pytest.mark.parametrize("missing", ["observation_space", "action_space", "reset", "step"])
def test_four_things_are_abstract(missing: str) -> None:
    body = {name: vars(Open)[name] for name in JaxEnv.__abstractmethods__ if name != missing}
    cls = type("Partial", (JaxEnv,), body)
    with pytest.raises(TypeError, match=rf"Partial.*abstract.*{missing}"):
        cls(EnvConfig())
    assert len(body) == 3


def test_defaults_of_a_base_env(compile_counter: Any) -> None:
    env = VectorEnv()
    assert env.name == "VectorEnv"
    assert env.unwrapped is env
    assert env.traceable is True
    assert repr(env) == "VectorEnv(VectorConfig(max_steps=5, gravity=0.5))"
    with compile_counter() as compiled:
        assert env.compile() is None
    assert compiled.count == 0


def test_env_survives_pickle_and_deepcopy() -> None:
    env = OfOfSwapped(VectorConfig(max_steps=3))
    for twin in (pickle.loads(pickle.dumps(env)), copy.deepcopy(env)):
        assert type(twin) is OfOfSwapped
        assert twin.config == env.config and twin.config is not env.config
