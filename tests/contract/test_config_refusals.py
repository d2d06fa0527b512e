"""What is told to those who give an env a config, or a state class, that it cannot use."""

import dataclasses
from typing import Any

import chex
import jax
import pytest
from contract.test_env_config import Open
from fakes import CoinConfig, VectorConfig, VectorEnv, VectorState

from envrax import Box, Discrete, EnvConfig, EnvState, VecEnv


@pytest.mark.parametrize(
    ("config", "got"),
    [
        (CoinConfig(), "got CoinConfig"),
        ({"max_steps": 3}, "got dict"),
        (object(), "got object"),
        (500, "got int"),
        (VectorConfig, "got the class VectorConfig"),
        (EnvConfig, "got the class EnvConfig"),
        (len, "got builtin_function_or_method"),
    ],
)
def test_other_configs_are_refused(config: Any, got: str) -> None:
    with pytest.raises(TypeError, match=f"VectorEnv: expected .* VectorConfig; {got}"):
        VectorEnv(config)


def test_an_open_env_takes_env_configs_alone() -> None:
    with pytest.raises(TypeError, match="Open: expected a config of class EnvConfig; got dict"):
        Open({})


class PlainState(EnvState):
    place: jax.Array


class PlainConfig(EnvConfig):
    size: int = 3


@dataclasses.dataclass
class StandardConfig(EnvConfig):
    size: int = 3


@dataclasses.dataclass
class RegisteredState(EnvState):
    place: jax.Array


names = [field.name for field in dataclasses.fields(RegisteredState)]
jax.tree_util.register_dataclass(RegisteredState, names, [])


@pytest.mark.parametrize(
    ("state", "config", "what"),
    [
        (PlainState, EnvConfig, "PlainState to be a `@chex.dataclass`"),
        (VectorState, PlainConfig, "PlainConfig to be a `@chex.dataclass`"),
    ],
)
def test_a_class_without_its_decorator_is_refused(state: Any, config: Any, what: str) -> None:
    class Env(Open[Box, Discrete, state, config]): ...  # pyright: ignore

    with pytest.raises(TypeError, match=rf"Env: expected {what}.*Write `@chex\.dataclass` above"):
        Env()


@pytest.mark.parametrize(
    ("state", "config"), [(RegisteredState, EnvConfig), (VectorState, StandardConfig)]
)
def test_other_decorators_that_keep_the_fields_are_legal(state: Any, config: Any) -> None:
    class Env(Open[Box, Discrete, state, config]): ...  # pyright: ignore

    assert type(Env().config) is config


# What chex, or Python, would say in words of its own


@chex.dataclass(mappable_dataclass=False)
class ByPosition(EnvConfig):
    size: int = 3


class ByHand(VectorConfig):
    def __init__(self, size: int) -> None:
        super().__init__(max_steps=size)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda: EnvConfig(500),  # pyright: ignore
            r"EnvConfig: expected fields by keyword; got 500. Write `EnvConfig\(max_steps=",
        ),
        (
            lambda: VectorConfig(9, 0.5),  # pyright: ignore
            r"VectorConfig: .*; got 9, 0.5.",
        ),
        (lambda: VectorConfig(9, gravity=0.5), r"VectorConfig: .*; got 9. "),  # pyright: ignore
        (
            lambda: VectorConfig(gravty=1.0),  # pyright: ignore
            r"VectorConfig: expected the keywords max_steps, gravity; got gravty. Did you mean",
        ),
        (lambda: VectorConfig(colour="red"), r"; got colour. Leave it out."),  # pyright: ignore
        (lambda: VectorEnv(gravity=1.0), "gravity"),  # pyright: ignore
        (lambda: VecEnv(VectorEnv(), n_envs=4), "n_envs"),  # pyright: ignore
    ],
)
def test_arguments_that_do_not_exist(call: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        call()


def test_configs_that_take_other_arguments_may() -> None:
    given = {"max_steps": 7, "gravity": 2.0}
    assert VectorConfig(given) == VectorConfig(**given)  # pyright: ignore
    assert VectorConfig.from_tuple((7, 2.0)) == VectorConfig(**given)  # pyright: ignore
    assert ByPosition(7, 2).size == 2  # pyright: ignore
    assert ByHand(7).max_steps == 7
