"""How a registered environment is built: from its config, and in wrappers of its own."""

import dataclasses
from pathlib import Path
from typing import Any, TypeVar

import chex
import pytest
from fakes import CounterEnv, PixelEnv, VectorConfig, VectorEnv

from envrax import (
    ClipReward,
    EnvConfig,
    EnvSet,
    EnvSpec,
    EnvSuite,
    GrayscaleObservation,
    JitWrapper,
    RecordVideo,
    ResizeObservation,
    Wrapper,
    get_spec,
    make,
    make_multi,
    make_multi_vec,
    make_vec,
    register,
    register_suite,
    registered_names,
)
from envrax.wrappers.base import layers

pytestmark = pytest.mark.usefixtures("clean_registry")
C = TypeVar("C", bound=EnvConfig)


def built(**given: Any) -> Any:
    return make("New-v0", jit_compile=False, **given)


# Which parameter the config goes to


class Sized(VectorEnv):
    size = 3


class Named(Sized):
    def __init__(self, size: int = 3, config: VectorConfig | None = None) -> None:
        super().__init__(config)
        self.size = size


class Annotated(Sized):
    def __init__(self, size: int = 3, cfg: VectorConfig | None = None) -> None:
        super().__init__(cfg)
        self.size = size


class AsText(Sized):
    def __init__(self, size: int = 3, *, cfg: "VectorConfig | None" = None) -> None:
        super().__init__(cfg)
        self.size = size


class ByTypeVar(Sized):
    def __init__(self, size: int = 3, cfg: C | None = None) -> None:  # pyright: ignore
        super().__init__(cfg)  # pyright: ignore
        self.size = size


class Required(Sized):
    def __init__(self, cfg, size: "NoSuchName" = 3) -> None:  # type: ignore  # noqa: F821
        super().__init__(cfg)
        self.size = size


class Only(Sized):
    def __init__(self, cfg=None, /) -> None:  # type: ignore
        super().__init__(cfg)


class Stars(Sized):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


class OneStar(Sized):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)


class SizeAndStars(Sized):
    def __init__(self, size=3, **kwargs: Any) -> None:  # type: ignore
        super().__init__(**kwargs)
        self.size = size


TAKERS = [Named, Annotated, AsText, ByTypeVar, Required, Only, Stars, OneStar, SizeAndStars]


@pytest.mark.parametrize("cls", TAKERS)
def test_the_parameter_that_gets_the_config(cls: Any) -> None:
    register("New-v0", cls, EnvConfig(max_steps=7))
    assert (built().size, built().config) == (3, VectorConfig(max_steps=7))


class Vague(Sized):
    def __init__(self, size=3, cfg=None) -> None:  # type: ignore
        super().__init__(cfg)


class Twice(Sized):
    def __init__(self, cfg: EnvConfig, other: EnvConfig, size: int) -> None:
        super().__init__()


class NoParameter(Sized):
    def __init__(self) -> None:
        super().__init__()


class More(Sized):
    def __init__(self, size: int, config: VectorConfig | None = None) -> None:
        super().__init__(config)


@pytest.mark.parametrize(
    ("cls", "told"),
    [
        (
            Vague,
            r"Vague to have one parameter for its config; got Vague\(size=3, cfg=None\)",
        ),
        (Twice, r"Twice to have one parameter for its config; got Twice\(cfg: "),
        (NoParameter, r"NoParameter to have one parameter for its config; got NoParameter\(\)"),
        (More, r"More to be built from a config alone; got More\(size: int, .*Register a subclass"),
        (ClipReward, r"'New-v0'; got the wrapper ClipReward. .*`wrappers=\[ClipReward\]`"),
    ],
)
def test_a_class_that_cannot_be_built_is_refused(cls: Any, told: str) -> None:
    with pytest.raises(TypeError, match=f"register: expected .*{told}"):
        register("New-v0", cls, EnvConfig())
    assert "New-v0" not in registered_names()


# The config that the caller gives


@chex.dataclass
class Wide(VectorConfig):
    colour: str = "red"


@pytest.mark.parametrize("build", [make, make_vec])
def test_a_config_of_a_parent_class_changes_the_registered_one(build: Any) -> None:
    size = {"n_envs": 2} if build is make_vec else {}
    register("New-v0", CounterEnv, VectorConfig(gravity=0.7))
    env = build("New-v0", config=EnvConfig(max_steps=7), jit_compile=False, **size)
    assert env.config == VectorConfig(max_steps=7, gravity=0.7)
    assert get_spec("New-v0").default_config == VectorConfig(gravity=0.7)


def test_any_other_config_replaces_the_registered_one() -> None:
    register("New-v0", CounterEnv, Wide(colour="blue", gravity=0.7))
    full = Wide(max_steps=7)
    assert built(config=full).config is full
    assert built(config=VectorConfig()).config == Wide(colour="blue")
    register("Old-v0", CounterEnv, EnvConfig(max_steps=9))
    assert make("Old-v0", config=full, jit_compile=False).config is full


# Wrappers that belong to the environment


def stack(env: Any) -> list[type]:
    return [type(layer) for layer in layers(env)]


def test_wrappers_of_the_environment_are_applied_innermost() -> None:
    own = [GrayscaleObservation, ResizeObservation(h=6, w=5)]
    register("New-v0", PixelEnv, VectorConfig(), wrappers=own)
    assert get_spec("New-v0").wrappers == tuple(own)
    inner = [ResizeObservation, GrayscaleObservation, PixelEnv]
    assert stack(built()) == inner
    assert stack(built(wrappers=[ClipReward])) == [ClipReward, *inner]
    assert stack(make("New-v0", pre_warm=False)) == [JitWrapper, *inner]
    vec_env = make_vec("New-v0", 2, wrappers=[ClipReward], pre_warm=False)
    assert stack(vec_env.env) == [JitWrapper, ClipReward, *inner]
    assert make_multi(["New-v0"]).observation_shapes == [(6, 5)]
    assert make_multi_vec(["New-v0"], 2).single_observation_shapes == [(6, 5)]


def test_specs_of_a_suite_may_have_wrappers() -> None:
    spec = EnvSpec("New", PixelEnv, VectorConfig(), wrappers=[GrayscaleObservation])
    register_suite(EnvSuite("demo", specs=[spec]))
    assert make("demo/New-v0", jit_compile=False).observation_space.shape == (12, 10)
    [suite] = EnvSet.from_names(["demo/New-v0"]).suites
    assert suite.specs[0].wrappers == suite[0].specs[0].wrappers == (GrayscaleObservation,)


@pytest.mark.parametrize(
    ("wrappers", "told"),
    [
        (ClipReward, "EnvSpec: expected `wrappers` to be a list; got <class"),
        ("ClipReward", "EnvSpec: expected `wrappers` to be a list; got 'ClipReward'"),
        (None, "EnvSpec: expected `wrappers` to be a list; got None"),
        ([ClipReward, 3], "EnvSpec: expected every entry of `wrappers` .* got 3"),
        (
            [ClipReward(CounterEnv())],
            "EnvSpec: expected every entry of `wrappers` .* keywords",
        ),
    ],
)
def test_wrappers_that_are_none(wrappers: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        register("New-v0", CounterEnv, VectorConfig(), wrappers=wrappers)
    assert "New-v0" not in registered_names()


class OnHost(Wrapper[Any, Any, Any, Any]):
    """Keeps what it was made around."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.kept = env

    @property
    def traceable(self) -> bool:
        return False


@pytest.mark.parametrize("above", [[], [ClipReward, OnHost]])
def test_a_wrapper_on_the_host_is_made_around_what_is_compiled(above: list[Any]) -> None:
    register("New-v0", CounterEnv, VectorConfig(), wrappers=[ClipReward, OnHost])
    env: Any = make("New-v0", wrappers=above, pre_warm=False)
    host = list(layers(env))[len(above)]
    assert stack(env) == [*reversed(above), OnHost, JitWrapper, ClipReward, CounterEnv]
    assert host.kept is host.env
    assert stack(built(wrappers=above)) == [*reversed(above), OnHost, ClipReward, CounterEnv]


def test_a_refused_make_compiles_nothing(tmp_path: Path, compile_counter: Any) -> None:
    register("New-v0", PixelEnv, VectorConfig())
    wrappers = [RecordVideo(output_dir=tmp_path), lambda env: None]
    with compile_counter() as compiled, pytest.raises(TypeError, match="every entry"):
        make("New-v0", wrappers=wrappers)  # pyright: ignore
    assert compiled.count == 0


@chex.dataclass
class ComputedConfig(EnvConfig):
    """Its limit cannot be given."""

    k: float = 1.0
    max_steps: int = dataclasses.field(default=7, init=False)


class Computed(VectorEnv):
    def __init__(self, config: ComputedConfig) -> None:
        super().__init__()
        self._config: Any = config


def test_a_field_that_cannot_be_given_is_not_widened() -> None:
    register("New-v0", Computed, ComputedConfig(k=3.0))
    config = built(config=EnvConfig(max_steps=5)).config
    assert (config.k, config.max_steps) == (3.0, 7)
