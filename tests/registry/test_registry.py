"""The registry: registering, refusals, look-ups, and copies of configs."""

import copy
import dataclasses
import pickle
import threading
from collections import Counter, deque
from typing import Any

import chex
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CounterEnv, VectorConfig, VectorEnv

from envrax import (
    ClipReward,
    EnvConfig,
    EnvSet,
    EnvSpec,
    EnvSuite,
    FrameStackObservation,
    VecEnv,
    get_spec,
    make,
    register,
    register_suite,
    registered_names,
    unregister,
)

pytestmark = pytest.mark.usefixtures("clean_registry")


def specs(*names: str) -> list[EnvSpec]:
    return [EnvSpec(name, CounterEnv, VectorConfig()) for name in names]


def test_specs_are_frozen_and_equal_by_value() -> None:
    def spec(steps: int, n_stack: int) -> EnvSpec:
        wrappers = [ClipReward, FrameStackObservation(n_stack=n_stack)]
        return EnvSpec("A-v0", CounterEnv, VectorConfig(max_steps=steps), "s", wrappers)

    assert spec(3, 2) == spec(3, 2) != spec(4, 2) and spec(3, 2) != spec(3, 4)
    assert len({spec(3, 2), spec(3, 2)}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec(3, 2).name = "B-v0"  # pyright: ignore[reportAttributeAccessIssue]


def test_specs_with_a_dataclass_of_arrays_are_equal_by_value() -> None:
    @dataclasses.dataclass
    class Table:
        rows: Any

    @chex.dataclass
    class TableConfig(VectorConfig):
        table: Any = None

    def spec(*rows: float) -> EnvSpec:
        return EnvSpec("A-v0", CounterEnv, TableConfig(table=[Table(np.array(rows))]))

    assert spec(1, 2) == spec(1, 2) != spec(1, 3)
    assert spec(1, 2) != EnvSpec("A-v0", CounterEnv, TableConfig(table=[np.array([1, 2])]))


@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_specs_suites_and_sets_survive_a_copy(twin_of: Any) -> None:
    spec = EnvSpec("A", CounterEnv, VectorConfig(max_steps=7), "s")
    suite = EnvSuite(prefix="demo", category="Demo", specs=[spec])
    both = EnvSet(suite, EnvSuite(prefix="other", category="Other", specs=[spec]))
    assert twin_of(spec) == spec and twin_of(spec).default_config is not spec.default_config
    assert twin_of(suite) == suite
    assert twin_of(both).all_names() == both.all_names() == ["demo/A-v0", "other/A-v0"]


def test_register_get_and_unregister() -> None:
    register("Zed-v0", CounterEnv, VectorConfig(max_steps=9), suite="games", wrappers=[ClipReward])
    register("Abe-v0", VectorEnv, EnvConfig())
    assert {"Abe-v0", "Zed-v0"} <= set(registered_names())
    assert registered_names() == sorted(registered_names())
    expected = EnvSpec("Zed-v0", CounterEnv, VectorConfig(max_steps=9), "games", (ClipReward,))
    assert get_spec("Zed-v0") == expected
    with pytest.raises(ValueError, match="already registered"):
        register("Zed-v0", VectorEnv, VectorConfig())
    assert get_spec("Zed-v0").env_class is CounterEnv
    unregister("Zed-v0")
    for look_up in (get_spec, unregister):
        with pytest.raises(ValueError, match="Zed-v0"):
            look_up("Zed-v0")
    register("Zed-v0", VectorEnv, VectorConfig())  # a name that was taken off is free


@pytest.mark.parametrize("name", ["", "bad name", None])
def test_a_name_that_is_no_id(name: Any) -> None:
    with pytest.raises(ValueError, match="white space"):
        register(name, CounterEnv, VectorConfig())


@pytest.mark.parametrize("name", ["kinetix/l/h17_unicycle", "a/b+c.json", "x/Größe!", "os:A-v0"])
def test_any_other_name_is_legal(name: str) -> None:
    register(name, CounterEnv, VectorConfig())
    assert make(name, jit_compile=False).name == "CounterEnv"


# How it is built: `cls(config)`


class Annotated(VectorEnv):
    size = 3

    def __init__(self, cfg: "VectorConfig | None", size: int = 3) -> None:
        super().__init__(cfg)
        self.size = size


class Named(Annotated):
    def __init__(self, config, *, size: "NoSuchName" = 3) -> None:  # type: ignore  # noqa: F821
        super().__init__(config)


@pytest.mark.parametrize("cls", [Annotated, Named, VectorEnv])
def test_the_first_parameter_is_the_config(cls: Any) -> None:
    register("New-v0", cls, EnvConfig(max_steps=7))
    env: Any = make("New-v0", jit_compile=False)
    assert (getattr(env, "size", 3), env.config) == (3, VectorConfig(max_steps=7))


CLASSES = [ClipReward, VecEnv]


@pytest.mark.parametrize("cls", [*CLASSES, CounterEnv(), VectorConfig, "CounterEnv", None])
def test_a_class_that_cannot_be_built(cls: Any) -> None:
    with pytest.raises(TypeError, match="Abe-v0"):
        register("Abe-v0", cls, VectorConfig())
    assert "Abe-v0" not in registered_names()


# Unknown names


@pytest.mark.parametrize(
    ("typo", "meant"), [("CartPole-v0", "classic2/CartPole-v0"), ("mountain-v0", "Mountain-v0")]
)
def test_an_unknown_name_offers_close_matches_and_all_names(typo: str, meant: str) -> None:
    register("classic2/CartPole-v0", CounterEnv, VectorConfig())
    register("Mountain-v0", CounterEnv, VectorConfig())
    for look_up in (get_spec, unregister, make):
        with pytest.raises(ValueError, match=f"'{meant}'.*Available:.*{meant}"):
            look_up(typo)


# Configs are copied


def test_configs_are_copied_on_the_way_in_and_out() -> None:
    given = VectorConfig(max_steps=3)
    register("Abe-v0", CounterEnv, given)
    register_suite(EnvSuite("abe", specs=[EnvSpec(x, CounterEnv, given) for x in ("A", "B")]))
    given.max_steps = 99
    for name in ("Abe-v0", "abe/A-v0"):
        get_spec(name).default_config.max_steps = 99
    for name in ("Abe-v0", "abe/A-v0", "abe/B-v0"):
        assert make(name, jit_compile=False).config.max_steps == 3


@chex.dataclass
class Held(VectorConfig):
    held: Any = None


def test_what_a_config_holds_is_copied_as_at_construction() -> None:
    """A deep copy of a function of JAX is another function, and a module has none."""
    held: Any = {"functions": [jnp.tanh, threading.Lock], "module": threading, "table": np.zeros(2)}
    held |= {"set": {1}, "queue": deque([1], 5), "counts": Counter("a")}
    register("Abe-v0", CounterEnv, Held(held=held))
    spec = EnvSpec("A", CounterEnv, Held(held=held))
    register_suite(suite := EnvSuite("abe", specs=[spec]))
    assert suite.specs == [spec]
    held["functions"].clear()
    held["table"][:] = 9
    held["set"].add(9)
    held["queue"].append(9)
    held["counts"]["b"] = 9
    for name in ("Abe-v0", "abe/A-v0"):
        get_spec(name).default_config.held["table"][:] = 9
        config: Any = make(name, jit_compile=False).config
        assert config.held["functions"] == [jnp.tanh, threading.Lock]
        assert config.held["module"] is threading
        assert not config.held["table"].any()
        assert config.held["set"] == {1} and config.held["counts"] == Counter("a")
        assert config.held["queue"] == deque([1]) and config.held["queue"].maxlen == 5


# Suites


class Odd(EnvSuite):
    """Its names are its own."""

    def get_name(self, name: str, version: str | None = None) -> str:
        return f"{name}@{version or self.version}"


def test_register_suite_names_and_tags_every_spec() -> None:
    suite = EnvSuite("abe", "Abe's games", "v3", specs=specs("One", "Two"))
    register_suite(suite)
    register_suite(suite, version="v4")
    for name in ("abe/One-v3", "abe/Two-v3", "abe/One-v4", "abe/Two-v4"):
        assert get_spec(name) == EnvSpec(name, CounterEnv, VectorConfig(), "Abe's games")
    assert suite.envs == ["One", "Two"]


def test_a_suite_may_have_names_of_its_own() -> None:
    register_suite(Odd(category="odd", specs=specs("One", "Two")), version="v2")
    assert get_spec("One@v2").suite == "odd"
    assert list(EnvSet.from_names(["Two@v2", "One@v2"])) == ["Two@v2", "One@v2"]
    with pytest.raises(ValueError, match="white space"):
        register_suite(Odd(specs=specs("Three", "a b")))
    assert "Three@v0" not in registered_names()


REFUSED: list[Any] = [
    (*specs("Taken"), ValueError, "abe/Taken-v0"),
    (*specs("New"), ValueError, "abe/New-v0"),
    (*specs("a b"), ValueError, "abe/a b-v0"),
    (EnvSpec("Bad", ClipReward, VectorConfig()), TypeError, "ClipReward"),
]


@pytest.mark.parametrize(("last", "error", "noun"), REFUSED)
def test_a_suite_is_registered_whole_or_not_at_all(last: EnvSpec, error: Any, noun: str) -> None:
    register("abe/Taken-v0", VectorEnv, VectorConfig())
    before = registered_names()
    with pytest.raises(error, match=noun):
        register_suite(EnvSuite("abe", "Abe", specs=[*specs("New"), last]))
    assert registered_names() == before
    assert get_spec("abe/Taken-v0").env_class is VectorEnv
