"""Configs and state classes that an environment refuses."""

from typing import Any

import jax
import pytest
from config.test_config import Open
from fakes import CoinConfig, VectorConfig, VectorEnv, VectorState

import envrax
from envrax import Box, Discrete, EnvConfig, EnvState


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


@pytest.mark.parametrize(("limit", "error"), [(0, ValueError), (-1, ValueError), (None, TypeError)])
def test_a_limit_that_is_no_count_of_steps_is_refused(limit: Any, error: Any) -> None:
    """Each end would be a truncation."""
    with pytest.raises(error, match=r"VectorEnv: expected config\.max_steps to be"):
        VectorEnv(VectorConfig(max_steps=limit))
    with pytest.raises(error, match=r"config\.max_steps"):
        envrax.with_config(VectorEnv(), max_steps=limit)
