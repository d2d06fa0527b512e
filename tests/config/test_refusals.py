"""Configs and state classes that an environment refuses."""

import dataclasses
import sys
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from config.test_config import Open
from fakes import CoinConfig, VectorConfig, VectorEnv, VectorState

import envrax
from envrax import Box, Discrete, EnvConfig, EnvState
from envrax.interop.peer.types import PeerConfig


class PlainState(EnvState):
    place: jax.Array


class PlainConfig(EnvConfig):
    size: int = 3


@pytest.mark.parametrize(
    ("state", "config", "noun"),
    [(PlainState, EnvConfig, "PlainState"), (VectorState, PlainConfig, "PlainConfig")],
)
def test_a_class_without_its_decorator_is_refused(state: Any, config: Any, noun: str) -> None:
    class Env(Open[Box, Discrete, state, config]): ...  # pyright: ignore

    with pytest.raises(TypeError, match=rf"{noun}.*chex"):
        Env()
    with pytest.raises(TypeError, match=r"PlainConfig: expected PlainConfig.*chex"):
        PlainConfig(size=4)


def test_a_state_of_another_kind_of_dataclass_is_refused() -> None:
    @dataclasses.dataclass
    class Python(EnvState):
        place: jax.Array

    class Env(VectorEnv):
        def reset(self, rng: jax.Array) -> Any:
            obs, state = super().reset(rng)
            return obs, Python(rng=rng, step=state.step, done=state.done, place=obs)

    with pytest.raises(TypeError, match=r"Write `@chex.dataclass` above `Python`"):
        envrax.VecEnv(Env(), 2).reset(jax.random.key(0))


@pytest.mark.parametrize(
    ("call", "noun"),
    [
        *(
            (lambda config=config: VectorEnv(config), "VectorConfig")
            for config in (CoinConfig(), {"max_steps": 3}, 500, VectorConfig, EnvConfig, len)
        ),
        (lambda: Open({}), "EnvConfig"),
        (lambda: VectorEnv(gravity=1.0), "gravity"),  # pyright: ignore
    ],
)
def test_other_configs_and_arguments_are_refused(call: Any, noun: str) -> None:
    with pytest.raises(TypeError, match=noun):
        call()


@pytest.mark.parametrize(
    ("limit", "error"),
    [
        *((x, ValueError) for x in (0, -1, np.int64(-(2**40)))),
        *((x, TypeError) for x in (None, 1.5, 2.0, True, np.float32(2), np.bool_(True), "12")),
        (jnp.float32(2), TypeError),
    ],
)
def test_a_limit_that_is_no_count_of_steps_is_refused(limit: Any, error: Any) -> None:
    """Whoever builds the config. Each end would be a truncation."""
    env = VectorEnv()
    for call in (
        lambda: VectorConfig(max_steps=limit),
        lambda: VectorConfig().replace(max_steps=limit),
        lambda: setattr(VectorConfig(), "max_steps", limit),
        lambda: envrax.with_config(env, max_steps=limit),
        lambda: envrax.TimeLimit(env, limit) if limit is not None else VectorConfig(max_steps=None),
    ):
        with pytest.raises(error, match=r"max_steps"):
            call()


@pytest.mark.parametrize(
    ("limit", "held"),
    [
        (np.int64(3), 3),
        (np.array(3, np.uint8), 3),
        *(
            (x, 2**31 - 1)
            for x in (2**31 - 1, 2**31, sys.maxsize, 2**70, np.uint32(2**31), np.int64(2**32 + 3))
        ),
    ],
)
def test_a_config_holds_one_legal_limit(limit: Any, held: int) -> None:
    """A Python int that an int32 can count to: above it, `np.int64(2**32 + 3)` ended after 3."""
    env = VectorEnv(VectorConfig(max_steps=limit))
    configs = [
        env.config,
        VectorConfig().replace(max_steps=limit),
        envrax.with_config(VectorEnv(), max_steps=limit).config,
        PeerConfig(max_steps=limit),
    ]
    assert [(type(config.max_steps), config.max_steps) for config in configs] == [(int, held)] * 4
    assert envrax.TimeLimit(VectorEnv(), limit).max_steps == held
    state = env.reset(jax.random.key(0))[1]
    lasts = not bool(env.step(state.replace(step=jnp.int32(held - 2)), 0)[1].done)
    assert lasts and bool(env.step(state.replace(step=jnp.int32(held - 1)), 0)[1].done)


def test_a_traced_limit_is_held_by_the_same_rule() -> None:
    def held(limit: Any) -> Any:
        return VectorConfig(max_steps=limit).max_steps

    limits = jnp.asarray([0, 3, 2**31 - 1, 2**31], jnp.uint32)
    assert held(limits[1]).dtype == jnp.int32  # drawn outside of `jit`, and not read
    got = jax.jit(jax.vmap(held))(limits)
    assert got.dtype == jnp.int32 and got.tolist() == [1, 3, 2**31 - 1, 2**31 - 1]
    with pytest.raises(TypeError, match="VectorConfig: expected max_steps to be an int"):
        jax.jit(held)(jnp.float32(2))


class LosesItsConfig(VectorEnv):
    def __init__(self, config: Any = None) -> None:
        super().__init__()


class TakesAFlag(VectorEnv):
    """As in Gymnasium: the config would be taken for the flag."""

    def __init__(self, dense: bool = False) -> None:
        super().__init__()
        self.dense = dense


class TakesAnotherFlag(VectorEnv):
    def __init__(self, dense: bool = False) -> None:
        super().__init__(VectorConfig(max_steps=50, gravity=3.0))
        self.dense = dense


class TakesASize(VectorEnv):
    def __init__(self, size: Any = None) -> None:
        super().__init__(VectorConfig(max_steps=50))


class WithoutABase(VectorEnv):
    def __init__(self, config: Any = None) -> None:
        self.goal = 3.0


@pytest.mark.usefixtures("clean_registry")
@pytest.mark.parametrize(
    "cls", [LosesItsConfig, TakesAFlag, TakesAnotherFlag, TakesASize, WithoutABase]
)
def test_a_class_that_does_not_pass_its_config_on_is_refused(cls: Any) -> None:
    """Its environments would have other values than those that the caller gave."""
    envrax.register("Lost-v0", cls, VectorConfig())
    who = rf"expected `{cls.__name__}.__init__` to pass its config on"
    with pytest.raises(TypeError, match=who):
        envrax.make("Lost-v0", gravity=3.0)
    with pytest.raises(TypeError, match=who):
        envrax.with_config(cls(), gravity=3.0)


class Derives(VectorEnv):
    """Its time limit is computed from another field."""

    def __init__(self, config: Any = None) -> None:
        config = config or VectorConfig()
        limit = jnp.int32(10 * config.gravity)
        super().__init__(dataclasses.replace(config, max_steps=limit))


@pytest.mark.usefixtures("clean_registry")
def test_a_class_that_derives_its_config_of_the_given_one_is_legal() -> None:
    envrax.register("Derives-v0", Derives, VectorConfig())
    assert envrax.make("Derives-v0", jit_compile=False, gravity=3.0).config.max_steps == 30
    env = envrax.with_config(Derives(), gravity=3.0)
    assert (env.config.gravity, env.config.max_steps) == (3.0, 30)

    def limit(gravity: Any) -> Any:
        return envrax.with_config(Derives(), gravity=gravity).config.max_steps

    assert jax.jit(limit)(jnp.float32(3)) == 30
    for call in (
        lambda: envrax.make("Derives-v0", max_steps=7),
        lambda: envrax.with_config(Derives(), max_steps=7),
    ):
        with pytest.raises(TypeError, match=r"expected `Derives.__init__` to pass its config on"):
            call()


class Doubles(VectorEnv):
    """Its config is another where it is derived again."""

    def __init__(self, config: Any = None) -> None:
        config = config or VectorConfig()
        super().__init__(config.replace(gravity=2 * config.gravity))


def test_a_config_that_is_derived_of_itself_stays_the_same() -> None:
    for call in (
        lambda: envrax.with_config(Doubles(), max_steps=7),
        lambda: envrax.DomainRandomization(Doubles(), lambda rng: {"max_steps": 7}).reset(
            jax.random.key(0)
        ),
    ):
        with pytest.raises(TypeError, match=r"expected `Doubles.__init__` to pass its config on"):
            call()


def test_an_environment_without_a_config_says_why() -> None:
    with pytest.raises(TypeError, match=r"expected `WithoutABase.__init__` to pass its config"):
        print(envrax.VecEnv(WithoutABase(), 2))


@pytest.mark.usefixtures("clean_registry")
@pytest.mark.parametrize("text", ["2", "False", ""])
def test_text_for_a_number_is_refused(text: str) -> None:
    """As an argument of a command line comes; `"False"` is true."""
    envrax.register("Vector-v0", VectorEnv, VectorConfig())
    for call in (
        lambda: envrax.make("Vector-v0", gravity=text),
        lambda: envrax.with_config(VectorEnv(), gravity=text),
    ):
        with pytest.raises(
            TypeError, match=f"`gravity` to be of type float; got the text '{text}'"
        ):
            call()


@pytest.mark.parametrize("rows", [4.5, np.float32(5)])
def test_a_float_for_an_int_is_refused(rows: Any) -> None:
    for call in (
        lambda: envrax.make("classic/Catch-v0", rows=rows),
        lambda: envrax.with_config(envrax.classic.Catch(), rows=rows),
    ):
        with pytest.raises(TypeError, match=f"`rows` to be of type int; got {rows}. Convert it"):
            call()


@dataclasses.dataclass
class Gains:
    left: float = 1.0
    right: float = 2.0


@chex.dataclass
class GainsConfig(EnvConfig):
    gains: Gains = dataclasses.field(default_factory=Gains)
    limits: "EnvConfig | None" = dataclasses.field(default_factory=EnvConfig)
    any: Any = dataclasses.field(default_factory=Gains)


class Gained(Open[Box, Discrete, EnvState, GainsConfig]): ...


class Shortened(Gained):
    def __init__(self, config: Any = None) -> None:
        super().__init__(dataclasses.replace(config or GainsConfig(), max_steps=7))


def test_a_class_may_derive_a_config_with_arrays_in_a_dataclass() -> None:
    """`==` has no answer for them."""
    gains: Any = Gains(left=np.arange(3.0))
    env = envrax.with_config(Shortened(), gains=gains)
    assert env.config.max_steps == 7 and env.config.gains.left.tolist() == [0, 1, 2]


@pytest.mark.usefixtures("clean_registry")
@pytest.mark.parametrize(
    ("fields", "noun"),
    [
        ({"gains": {"left": 3.0}}, r"type Gains; .*replace\(config.gains, left=...\)"),
        ({"limits": {"max_steps": 3}}, r"type EnvConfig; .*config.limits, max_steps=...\)"),
    ],
)
def test_a_dict_in_place_of_a_dataclass_is_refused(fields: Any, noun: str) -> None:
    """As a file of JSON or YAML has it: changes, or the whole?"""
    envrax.register("Gained-v0", Gained, GainsConfig())
    for call in (
        lambda: envrax.make("Gained-v0", **fields),
        lambda: envrax.make_vec("Gained-v0", 2, **fields),
        lambda: envrax.with_config(envrax.ClipReward(Gained()), **fields),
    ):
        with pytest.raises(TypeError, match=f"expected `.*` to be of {noun}"):
            call()


def test_another_dataclass_and_a_dict_where_anything_goes_are_legal() -> None:
    env = envrax.with_config(Gained(), gains=dataclasses.replace(Gains(), left=3.0), any={})
    assert env.config.gains == Gains(left=3.0) and env.config.any == {}


@chex.dataclass
class NamedConfig(EnvConfig):
    size: int | str = 3


class HoldsAnother(VectorEnv):
    """Its config is that of the environment that it holds."""

    def __init__(self, config: Any = None) -> None:
        self.held = VectorEnv(config)

    @property
    def config(self) -> Any:
        return self.held.config


@pytest.mark.usefixtures("clean_registry")
def test_text_and_configs_that_are_legal() -> None:
    class Named(Open[Box, Discrete, EnvState, NamedConfig]): ...

    assert envrax.with_config(Named(), size="small").config.size == "small"
    envrax.register("Holds-v0", HoldsAnother, VectorConfig())
    assert envrax.make("Holds-v0", jit_compile=False, max_steps=7).config.max_steps == 7
    assert envrax.with_config(HoldsAnother(), max_steps=7).config.max_steps == 7
