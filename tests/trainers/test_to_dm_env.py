# pyright: reportMissingImports=false
"""`to_dm_env`: dm_env's own tests, and the results of a step."""

import copy
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl.testing import absltest
from dm_env import specs
from dm_env.test_utils import EnvironmentTestMixin
from trainers.bridge_envs import ENVS, GoalEnv, actions_of, played, same

import envrax
from envrax import Box, Dict, Discrete, DomainRandomization, MultiBinary, MultiDiscrete, Tuple
from envrax.interop import to_dm_env
from envrax.interop.out.dm_env import to_spec
from envrax.testing import CountingEnv


def conforms(make: Callable[[], Any], actions: list[Any]) -> None:
    """The tests of dm_env, as they run in a project that has them as a test case."""

    class Case(EnvironmentTestMixin, absltest.TestCase):
        def make_object_under_test(self) -> Any:  # pyright: ignore
            return make()

        def make_action_sequence(self) -> Iterator[Any]:  # pyright: ignore
            yield from actions

    suite = absltest.TestLoader().loadTestsFromTestCase(Case)
    assert suite.countTestCases() == 4
    result = suite.run(unittest.TestResult())
    assert not result.errors and not result.failures, result.errors + result.failures


@pytest.mark.parametrize("name", ["goal", "nested", "masked"])
def test_dm_env_s_own_tests_pass(name: str) -> None:
    actions = actions_of(ENVS[name].action_space, 20)
    env = to_dm_env(ENVS[name], seed=0)  # its programs serve every test
    conforms(lambda: copy.copy(env), actions)


def lengths(rng: jax.Array) -> dict[str, Any]:
    return {"max_steps": jax.random.randint(rng, (), 2, 9)}


@pytest.mark.parametrize(
    "inner",
    [ENVS["nested"], ENVS["ends"], DomainRandomization(CountingEnv(), lengths, redraw=False)],
    ids=["nested", "ends", "keeps"],
)
def test_1000_steps_are_those_by_hand(inner: Any) -> None:
    env, actions = to_dm_env(inner, seed=3), actions_of(inner.action_space, 1000)
    hand = played(inner, actions, seed=3, by_reset_after=True)
    result = env.reset()
    same(result.observation, next(hand).obs)
    for action in actions:
        result = env.step(action)
        wanted = next(hand)
        same(result.observation, wanted.obs)
        assert result.reward == wanted.reward
        over = wanted.terminated | wanted.truncated
        assert result.last() == over
        assert result.discount == (0.0 if wanted.terminated else 1.0)
        if over:
            result = env.step(action)  # dm_env ignores it, and begins the next episode
            assert result.first() and result.reward is result.discount is None
            same(result.observation, next(hand).obs)


def test_seeds() -> None:
    first, again, other, *unseeded = (
        to_dm_env(GoalEnv(), **kwargs).reset().observation["goal"]
        for kwargs in ({"seed": 2}, {"seed": 2}, {"seed": 3}, {}, {})
    )
    same(first, again)
    assert (first != other).any() and (unseeded[0] != unseeded[1]).any()


def test_specs() -> None:
    space = Dict(
        a=Discrete(4),
        b=Tuple((MultiDiscrete(((2, 3), (4, 5))), MultiBinary(3), MultiBinary(2, bool))),
        c=Box(-np.inf, np.inf, (2,)),
        d=Box(-1.0, np.inf, (2,)),
        e=Box(0, 255, (2, 2, 3), jnp.uint8),
        f=Box(-np.inf, 5, (), jnp.int8),
        g=Box([0.0, -1.0], 2.0, (2,)),
        h=Box(0, 1, (2,), bool),
    )
    spec = to_spec(space, "observation")
    assert spec["a"] == specs.DiscreteArray(4, np.int64, "a")
    assert spec["b"][0].maximum.tolist() == [[1, 2], [3, 4]]
    assert type(spec["c"]) is specs.Array
    assert spec["d"].maximum.tolist() == np.inf
    assert (spec["f"].minimum, spec["f"].maximum) == (-128, 5)
    for key in jax.random.split(jax.random.key(0), 20):
        drawn = space.sample(key)
        jax.tree.map(lambda s, x: s.validate(np.array(x, s.dtype)), spec, drawn, is_leaf=_is_spec)
    values = jax.tree.map(lambda s: s.generate_value(), spec, is_leaf=_is_spec)
    assert space.contains(values)


def _is_spec(x: Any) -> bool:
    return isinstance(x, specs.Array)


def test_the_log_names_the_environment(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "envrax")
    to_dm_env(envrax.make("classic/CartPole-v0", pre_warm=False)).reset()
    assert "compiling reset_packed of CartPole" in caplog.messages
    assert "compiling step_packed of CartPole" in caplog.messages
