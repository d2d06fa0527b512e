"""The config of an environment cannot be edited, and shares no array with the caller."""

import copy
import dataclasses
import pickle
from collections import defaultdict
from typing import Any, cast

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

    def advance(self, state: Any, action: Any) -> Any:
        config: Any = self.config
        return state, jnp.float32(first_array(config.table)[0]), False


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


@chex.dataclass
class Node:
    g: Any


@dataclasses.dataclass
class Plain:
    g: Any

    def twice(self) -> Any:
        return 2 * self.g


@dataclasses.dataclass(slots=True)
class Slotted:
    g: Any


@dataclasses.dataclass(frozen=True)
class Frozen:
    g: Any


@chex.dataclass
class SubConfig(EnvConfig):
    g: Any = 1.0
    table: Any = None

    def __post_init__(self) -> None:
        self.table = np.ones(1, np.float32)


HELD: dict[str, Any] = {
    "dict": {"g": 1.0},
    "list": [1.0],
    "dict of lists": {"g": [1.0]},
    "keys that cannot be sorted": {1: 1.0, "a": 2.0},
    "tuple": ({"g": 1.0}, 2),
    "defaultdict": defaultdict(float, {1: 1.0, "a": 2.0}),
    "pytree": Node(g=1.0),
    "pytree of lists": Node(g=[1.0]),
    "dataclass": Plain(1.0),
    "dataclass of lists": Plain([1.0]),
    "dataclass with slots": Slotted([1.0]),
    "frozen dataclass of lists": Frozen([1.0]),
    "dataclass in a pytree": Node(g=Plain(1.0)),
    "config": SubConfig(),
}


def edit(x: Any) -> None:
    """Set the first number in it to 100."""
    inner = x[0] if isinstance(x, tuple) else x
    items: Any = inner
    if dataclasses.is_dataclass(inner):
        items = getattr(inner, "__dict__", None) or {"g": cast(Any, inner).g}
    key = 0 if isinstance(items, list) else next(iter(items))
    if isinstance(items[key], list) or dataclasses.is_dataclass(items[key]):
        edit(items[key])
    else:
        items[key] = 100.0


@pytest.mark.parametrize("name", HELD)
def test_what_is_edited_in_the_config_that_was_given_is_a_copy(name: str) -> None:
    """`repr` would show the new number, and compiled programs would keep the old one."""
    config = TableConfig(table=copy.deepcopy(HELD[name]))
    own = config.table
    env: Any = Table(config)
    edit(own)
    edit(config.table)
    assert env.config.table == HELD[name]
    assert env.config is VecEnv(env, 2).env.config
    assert type(env.config.table) is type(HELD[name])
    edit(Table(env.config).config.table)
    again = pickle.loads(pickle.dumps(env))
    edit(copy.deepcopy(env).config.table)
    assert env.config.table == again.config.table == HELD[name]
    for one in (env, again):
        with pytest.raises(AttributeError, match="with_config"):
            one.config.table = None


@pytest.mark.parametrize("held", [Plain, Slotted, Frozen, lambda g: Node(g=[Plain(g)])])
def test_arrays_of_a_dataclass_in_a_config_are_copies(held: Any) -> None:
    table = np.ones(3, np.float32)
    config: Any = Table(TableConfig(table=held(table))).config
    found = config.table.g[0].g if isinstance(config.table, Node) else config.table.g
    table[0] = 100
    assert found.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 100
    if isinstance(config.table, Plain):
        assert config.table.twice()[0] == 2


def test_a_config_in_a_config_cannot_be_edited() -> None:
    given = SubConfig(g=2.0)
    for env in (Table(TableConfig(table=given)), Table(TableConfig(table=[given]))):
        again = pickle.loads(pickle.dumps(env))
        rebuilt = envrax.with_config(env, max_steps=3)
        for one in (env, again, copy.deepcopy(env), rebuilt):
            table: Any = one.config
            table = table.table[0] if isinstance(table.table, list) else table.table
            with pytest.raises(dataclasses.FrozenInstanceError, match=r"`config.replace\(g="):
                table.g = 5.0
            with pytest.raises(ValueError, match="read-only"):
                table.table[0] = 5.0
            editable = table.replace(g=3.0)
            editable.g = 4.0
            assert (table.g, editable.g) == (2.0, 4.0)
    given.g = 3.0


def test_an_object_of_ones_own_is_the_same_each_time() -> None:
    """It may be a static argument of `jit`, which would compile again for another one."""

    @dataclasses.dataclass(eq=False)
    class Policy:
        gain: float = 1.0

    policy = Policy()
    config: Any = Table(TableConfig(table={"policy": policy})).config
    assert config.table["policy"] is policy


def test_the_config_around_drawn_fields_cannot_be_edited() -> None:
    env = envrax.DomainRandomization(
        Table(TableConfig(table=[np.ones(1)])),
        lambda rng: {"max_steps": jax.random.randint(rng, (), 1, 5)},
    )
    config: Any = env.config
    with pytest.raises(AttributeError, match="with_config"):
        config.table = None


def test_a_drawn_integer_that_the_field_cannot_hold_is_refused() -> None:
    """It would wrap around: 300 in uint8 is 44."""
    env = Table(TableConfig(table=np.zeros(1, np.uint8)))
    with pytest.raises(TypeError, match=r"`table` .* got int32\[1\]. Cast it"):
        envrax.with_config(env, table=jnp.full(1, 300, jnp.int32))
    changed: Any = envrax.with_config(env, table=jnp.full(1, 3, jnp.uint8)).config
    assert changed.table.dtype == np.uint8
