"""Fields of a config that are dicts: entries are changed one by one, or drawn, or on a grid."""

import collections
from typing import Any

import chex
import jax
import jax.numpy as jnp
import pytest

from envrax import DomainRandomization, evaluate_grid, with_config
from envrax.testing import CountingEnv
from envrax.testing.fakes import FakeConfig


@chex.dataclass
class DictConfig(FakeConfig):
    params: Any = None
    free: Any = None
    max_steps: int = 4


class Paid(CountingEnv):
    """Pays what its parameters say."""

    config: Any

    def __init__(self, config: Any = None) -> None:
        params = collections.OrderedDict(b=2.0, a=1.0, deep={"x": 1, "y": 2}, kind="plain")
        super().__init__(config or DictConfig(params=params, free={}))

    def step(self, state: Any, action: Any) -> Any:
        obs, state, _, done, info = super().step(state, action)
        params = self.config.params
        pay = jnp.asarray(params["a"] + 10 * params["b"] + 100 * params["deep"]["x"], jnp.float32)
        return obs, state, pay, done, info


def pay(env: Any) -> float:
    _, state = env.reset(jax.random.key(0))
    return float(env.step(state, 0)[2])


def test_entries_are_changed_one_by_one() -> None:
    env = with_config(Paid(), params={"a": 2.0})
    assert pay(env) == 122 and pay(with_config(env, params={"b": 3.0})) == 132
    assert pay(with_config(env, params={"deep": {"x": 0}})) == 22
    params = env.config.params
    assert type(params) is collections.OrderedDict and list(params) == ["b", "a", "deep", "kind"]
    assert pay(Paid()) == 121  # the config of the other one is as it was


def test_a_whole_dict() -> None:
    whole = {"a": 5.0, "b": 0.0, "deep": {"x": 0, "y": 0}, "kind": "other"}
    assert dict(with_config(Paid(), params=whole).config.params) == whole
    assert with_config(Paid(), free={"any": 1}).config.free == {"any": 1}
    assert with_config(Paid(), params=None).config.params is None


def test_arrays_have_the_dtype_of_what_they_replace() -> None:
    change = {"a": jnp.int32(3), "deep": {"x": jnp.int32(2)}}
    params = with_config(Paid(), params=change).config.params
    assert params["a"].dtype == jnp.float32 and params["deep"]["x"].dtype == jnp.int32


def test_drawn_and_on_a_grid() -> None:
    env = DomainRandomization(Paid(), lambda rng: {"params": {"a": jax.random.uniform(rng)}})
    _, state = env.reset(jax.random.key(0))
    drawn = state.fields["params"]["a"]
    assert 0 < drawn < 1 and pay(env) == 120 + drawn
    grid = {"params.a": [1.0, 5.0], "params.b": [0.0, 2.0]}
    found = evaluate_grid(Paid(), None, jax.random.key(0), grid, 1)
    assert found.returns[..., 0].tolist() == [[404, 484], [420, 500]]


@pytest.mark.parametrize(
    ("params", "noun"),
    [
        ({"kinds": 1.0}, "kinds"),
        ({"deep": {"z": 1}}, "params.deep"),
        ({"a": jnp.ones(2)}, "float"),
        ({"kind": jnp.ones(())}, "static"),
    ],
)
def test_what_is_refused(params: Any, noun: str) -> None:
    with pytest.raises(TypeError, match=noun):
        with_config(Paid(), params=params)
