"""The config of an environment cannot be edited, and shares no array with the caller."""

import copy
import dataclasses
import pickle
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import VectorEnv

import envrax
from envrax import ClipReward, EnvConfig, VecEnv
from envrax.testing import CountingEnv
from envrax.testing.fakes import FakeConfig


def first_array(x: Any) -> Any:
    while not isinstance(x, np.ndarray):
        x = next(iter(x.values() if isinstance(x, dict) else x))
    return x


@chex.dataclass
class TableConfig(FakeConfig):
    table: Any = None


class Table(CountingEnv):
    """Its reward is the first number of a table."""

    def gain(self, action: Any) -> jax.Array:
        config: Any = self.config
        return jnp.float32(first_array(config.table)[0])


STACKS: dict[str, Any] = {
    "env": lambda: CountingEnv(),
    "wrapper": lambda: ClipReward(CountingEnv()),
    "VecEnv": lambda: VecEnv(CountingEnv(), 2),
    "copy": lambda: copy.deepcopy(CountingEnv()),
    "pickle": lambda: pickle.loads(pickle.dumps(VectorEnv())),
    "rebuilt": lambda: envrax.with_config(CountingEnv(), max_steps=3),
}


@pytest.mark.parametrize("name", STACKS)
def test_a_config_in_use_cannot_be_edited(name: str) -> None:
    env = STACKS[name]()
    before = env.config.max_steps
    with pytest.raises(dataclasses.FrozenInstanceError, match=r"with_config\(env, max_steps="):
        env.config.max_steps = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="max_steps"):
        del env.config.max_steps
    assert env.config.max_steps == before


def test_ones_own_config_can_be_edited_until_an_environment_has_it() -> None:
    config = EnvConfig()
    config.max_steps = 3
    env = CountingEnv(config)
    assert env.config.max_steps == 3
    config = TableConfig(table=[1])
    config.max_steps = 4
    with_table = Table(config)
    with pytest.raises(AttributeError, match="with_config"):
        config.max_steps = 5
    copies = (config.replace(), copy.copy(config), copy.deepcopy(config))
    for editable in (*copies, pickle.loads(pickle.dumps(config))):
        assert editable == config
        editable.max_steps = 6
    assert with_table.config.max_steps == 4
    assert jax.tree.leaves(config) == [4, 1]


@pytest.mark.parametrize(
    "hold",
    [lambda x: x, lambda x: [x], lambda x: {"a": {"b": x}}, lambda x: {1: (x,), "a": None}],
    ids=["array", "list", "dicts", "keys that cannot be sorted"],
)
def test_arrays_of_a_config_are_copies(hold: Any) -> None:
    """One program would calculate with the old number, and the next with the new one."""
    table = np.ones(3, np.float32)
    env = Table(TableConfig(table=hold(table)))
    env.reset(jax.random.key(0))
    table[0] = 100
    state = env.reset(jax.random.key(0))[1]
    assert env.step(state, 0)[2] == 1
    config: Any = env.config
    with pytest.raises(ValueError, match="read-only"):
        first_array(config.table)[0] = 100


def test_a_drawn_integer_that_the_field_cannot_hold_is_refused() -> None:
    """It would wrap around: 300 in uint8 is 44."""
    env = Table(TableConfig(table=np.zeros(1, np.uint8)))
    with pytest.raises(TypeError, match=r"`table` .* got int32\[1\]. Cast it"):
        envrax.with_config(env, table=jnp.full(1, 300, jnp.int32))
    changed: Any = envrax.with_config(env, table=jnp.full(1, 3, jnp.uint8)).config
    assert changed.table.dtype == np.uint8
