"""How an env finds its config: built, kept or widened."""

import dataclasses
import sys
import types
from typing import Any, Generic, TypeVar

import chex
import jax
import pytest
from fakes import CoinConfig, VectorConfig, VectorEnv, VectorState

import envrax
from envrax import Box, Discrete, EnvConfig, EnvState, JaxEnv, Space
from envrax.env import ActSpaceT, ConfigT, ObsSpaceT, StateT


@chex.dataclass
class WideConfig(VectorConfig):
    colour: str = "red"


@chex.dataclass(kw_only=True)
class SizedConfig(EnvConfig):
    size: int
    depth: int


class Open(JaxEnv[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """Nothing is abstract any more, every type parameter is still open."""

    @property
    def observation_space(self) -> Any:
        return Box(0.0, 1.0, (2,))

    @property
    def action_space(self) -> Any:
        return Discrete(2)

    def reset(self, rng: jax.Array) -> Any:
        raise NotImplementedError

    def step(self, state: Any, action: Any) -> Any:
        raise NotImplementedError


# Which config class an env pins. Each class pins one, the long way round.

S = TypeVar("S", bound=EnvState)
C = TypeVar("C", bound=EnvConfig)
D = TypeVar("D", bound=EnvConfig)
Obs = TypeVar("Obs", bound=Space)


class Direct(Open[Box, Discrete, VectorState, VectorConfig]): ...


class Swapped(Open[Box, Discrete, S, C], Generic[C, S]): ...


class OfSwapped(Swapped[VectorConfig, VectorState]): ...


class OfOfSwapped(OfSwapped): ...


class ConfigOnly(Swapped[C, VectorState]): ...


class Renamed(ConfigOnly[D], Generic[Obs, D]): ...


class Deep(Renamed[Box, VectorConfig]): ...


class Forward(Open["Box", "Discrete", "VectorState", "VectorConfig"]): ...


class ForwardThroughGeneric(ConfigOnly["LaterConfig"]): ...


@chex.dataclass
class LaterConfig(VectorConfig): ...


class Mixin: ...


class WithMixin(Mixin, OfSwapped): ...


@chex.dataclass
class GenericConfig(EnvConfig, Generic[S]): ...


class OfGenericConfig(ConfigOnly[GenericConfig[VectorState]]): ...


PINNED = {
    Direct: VectorConfig,
    OfSwapped: VectorConfig,
    OfOfSwapped: VectorConfig,
    Deep: VectorConfig,
    Forward: VectorConfig,
    ForwardThroughGeneric: LaterConfig,
    WithMixin: VectorConfig,
    OfGenericConfig: GenericConfig,
}


@pytest.mark.parametrize("cls", PINNED, ids=lambda cls: cls.__name__)
def test_none_builds_the_pinned_config(cls: type[Direct]) -> None:
    config = cls().config
    assert type(config) is PINNED[cls] and config is not cls().config
    assert config == PINNED[cls]()


# What a file of its own may say: `Env` is to pin `Wanted`. Kept as text, because the later ones are
# syntax errors to older interpreters.

FILES = {
    "nested forward reference": """
class Env(ConfigOnly["Env.Config"]):
    @chex.dataclass
    class Config(VectorConfig): ...
Wanted = Env.Config
""",
    "a general parent first": """
class Wanted(VectorConfig): ...
class General(ConfigOnly[EnvConfig]): ...
class Special(ConfigOnly[Wanted]): ...
class Env(General, Special): ...
""",
    "forward reference defined elsewhere": """
Wanted = LaterConfig
class Env(ForwardThroughGeneric): ...
""",
}
if sys.version_info >= (3, 12):
    FILES["type parameter lists"] = """
class Half[T: EnvConfig, U: EnvState](Open[Box, Discrete, U, T]): ...
class Quarter[T: EnvConfig](Half[T, VectorState]): ...
class Env(Quarter["Wanted"]): ...
class Wanted(VectorConfig): ...
"""
    FILES["type alias"] = """
type Alias = Wanted
type Other = Alias
class Env(ConfigOnly[Other]): ...
class Wanted(VectorConfig): ...
"""
if sys.version_info >= (3, 13):
    FILES["default of a type parameter"] = """
class Wanted(VectorConfig): ...
class Half[T: EnvConfig = Wanted](ConfigOnly[T]): ...
class Env(Half): ...
"""


def run_file(source: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    module = types.ModuleType("file_of_its_own")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(f"from {__name__} import *\n{source}", vars(module))
    return module


@pytest.mark.parametrize("source", FILES.values(), ids=FILES)
def test_config_class_is_found_in_other_files(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = run_file(source, monkeypatch)
    assert type(module.Env().config) is module.Wanted


# Where nothing is pinned


class PinsAny(Open[Any, Any, Any, Any]): ...


class PinsUnion(ConfigOnly[VectorConfig | CoinConfig]): ...  # pyright: ignore


class PinsUnknown(ConfigOnly["NoSuchConfig"]): ...  # pyright: ignore


@pytest.mark.parametrize("cls", [Open, ConfigOnly, Renamed, PinsAny, PinsUnion, PinsUnknown])
def test_nothing_pinned_is_an_error_only_without_a_config(cls: type[Any]) -> None:
    with pytest.raises(TypeError, match=f"{cls.__name__} does not name a concrete config class"):
        cls()
    config = WideConfig()
    assert cls(config).config is config


# Kept or widened


@pytest.mark.parametrize("config", [VectorConfig(max_steps=7), WideConfig(gravity=2.0)])
def test_pinned_class_and_its_subclasses_are_kept(config: VectorConfig) -> None:
    assert VectorEnv(config).config is config


def test_parent_config_is_widened() -> None:
    class Wide(Open[Box, Discrete, VectorState, WideConfig]): ...

    parent = EnvConfig(max_steps=500)
    assert Wide(parent).config == WideConfig(max_steps=500, gravity=0.5, colour="red")
    assert Wide(VectorConfig(gravity=2.0)).config == WideConfig(gravity=2.0)
    assert parent == EnvConfig(max_steps=500)


@pytest.mark.usefixtures("clean_registry")
def test_a_field_of_floats_holds_an_int_as_a_float() -> None:
    """As `jnp.full(3, gravity)` would be of integers."""
    envrax.register("Wide-v0", VectorEnv, WideConfig(gravity=2))
    held = [
        VectorConfig(gravity=3).gravity,
        VectorConfig().replace(gravity=3).gravity,
        envrax.get_spec("Wide-v0").default_config.gravity,
        envrax.make("Wide-v0", gravity=3).config.gravity,
        envrax.with_config(VectorEnv(), gravity=3).config.gravity,
    ]
    assert [repr(x) for x in held] == ["3.0", "3.0", "2.0", "3.0", "3.0"]
    assert envrax.with_config(VectorEnv(), max_steps=3).config.max_steps == 3


def test_widening_passes_over_computed_fields() -> None:
    @chex.dataclass
    class Parent(EnvConfig):
        twice: int = dataclasses.field(init=False, default=0)

        def __post_init__(self) -> None:
            self.twice = 2 * self.max_steps

    @chex.dataclass
    class Child(Parent):
        speed: float = 1.0

    class Env(Open[Box, Discrete, VectorState, Child]): ...

    assert Env(Parent(max_steps=4)).config == Child(max_steps=4)
    assert Env(EnvConfig(max_steps=4)).config.twice == 8


def test_missing_required_fields_are_named() -> None:
    class Sized(Open[Box, Discrete, VectorState, SizedConfig]): ...

    for config in (None, EnvConfig(max_steps=3)):
        with pytest.raises(TypeError, match=r"size.*depth"):
            Sized(config)
    given = SizedConfig(size=1, depth=2)
    assert Sized(given).config is given


def test_an_older_class_of_the_same_name() -> None:
    """As in a notebook, where a cell ran again."""
    older = chex.dataclass(type("VectorConfig", (EnvConfig,), {}))
    with pytest.raises(TypeError, match="that name"):
        VectorEnv(older())
