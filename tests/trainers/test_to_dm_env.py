# pyright: reportMissingImports=false
"""`to_dm_env`: dm_env's own tests, and what a step tells."""

import copy
import pickle
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import dm_env
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl.testing import absltest
from dm_env import specs
from dm_env.test_utils import EnvironmentTestMixin
from trainers.outward import TOLD, EndsEnv, GoalEnv, actions_of, edit, played, same

import envrax
from envrax import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from envrax.interop import to_dm_env
from envrax.interop.out.dm import to_spec

pytestmark = pytest.mark.trainers
CLASSIC = ["CartPole", "MountainCar", "Pendulum", "Acrobot", "Catch", "Ball", "Maze", "ConnectFour"]


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


@pytest.mark.parametrize("name", CLASSIC)
def test_dm_env_s_own_tests_pass(name: str) -> None:
    inner = envrax.make(f"classic/{name}-v0", pre_warm=False, max_steps=7)
    actions = actions_of(inner.action_space, 20)
    env = to_dm_env(inner, seed=0)  # its programs serve every test
    conforms(lambda: copy.copy(env), actions)


@pytest.mark.parametrize("name", ["image", "nested", "ends", "goal", "random ends"])
def test_1000_steps_are_those_by_hand(name: str) -> None:
    inner = TOLD[name]
    env, actions = to_dm_env(inner, seed=3), actions_of(inner.action_space, 1000)
    hand = played(inner, actions, seed=3)
    told = env.reset()
    same(told.observation, next(hand).obs)
    for action in actions:
        told = env.step(action)
        wanted = next(hand)
        same(told.observation, wanted.obs)
        assert told.reward == wanted.reward
        over = wanted.terminated | wanted.truncated
        assert told.last() == over
        assert told.discount == (0.0 if wanted.terminated else 1.0)
        if over:
            told = env.step(action)  # dm_env ignores it, and begins anew
            assert told.first() and told.reward is told.discount is None
            same(told.observation, next(hand).obs)


def test_what_ends_an_episode() -> None:
    env = to_dm_env(EndsEnv())
    found: list[Any] = []
    for action in range(4):
        env.reset()
        told = env.step(action)
        found.append((told.step_type, told.discount))
    mid, last = dm_env.StepType.MID, dm_env.StepType.LAST
    assert found == [(mid, 1.0), (last, 0.0), (last, 1.0), (last, 0.0)]


def test_seeds_and_ownership() -> None:
    env, other = to_dm_env(GoalEnv(), seed=2), to_dm_env(GoalEnv(), seed=2)
    kept, copies = [env.reset()], [copy.deepcopy(other.reset())]
    for action in actions_of(GoalEnv().action_space, 20):
        told, wanted = env.step(action), other.step(action)
        kept.append(told)
        copies.append(copy.deepcopy(wanted))
        edit(wanted.observation)
    for told, copied in zip(kept, copies, strict=True):
        same(told.observation, copied.observation)
    goals = {str(told.observation["goal"]) for told in kept}
    assert len(goals) == 4  # one an episode
    assert str(to_dm_env(GoalEnv(), seed=3).reset().observation) not in str(kept)
    first, second = (to_dm_env(GoalEnv()).reset().observation["goal"] for _ in range(2))
    assert (first != second).any()


def test_copies_go_on_alike() -> None:
    env = to_dm_env(EndsEnv(), seed=0)
    env.reset()
    env.step(0)
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert twin.step(0).observation.tolist() == [int(x) for x in _peek(env, 0)]


def _peek(env: Any, action: int) -> Any:
    return copy.deepcopy(env).step(action).observation


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
    assert spec["a"] == specs.DiscreteArray(4, np.int32, "a")
    assert spec["b"][0].maximum.tolist() == [[1, 2], [3, 4]]
    assert type(spec["c"]) is specs.Array
    assert spec["d"].maximum.tolist() == np.inf
    assert (spec["f"].minimum, spec["f"].maximum) == (-128, 5)
    for key in jax.random.split(jax.random.key(0), 20):
        drawn = jax.tree.map(np.asarray, space.sample(key))
        jax.tree.map(lambda s, x: s.validate(x), spec, drawn, is_leaf=_is_spec)
    values = jax.tree.map(lambda s: s.generate_value(), spec, is_leaf=_is_spec)
    assert space.contains(values)


def _is_spec(x: Any) -> bool:
    return isinstance(x, specs.Array)


def test_close_reaches_the_environment() -> None:
    class Held(EndsEnv):
        closed = 0

        def close(self) -> None:
            Held.closed += 1

    with to_dm_env(Held()) as env:
        env.reset()
    assert Held.closed == 1
