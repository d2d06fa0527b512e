# pyright: basic, reportMissingImports=false
"""An environment of each library, handed on to Gymnasium and dm_env: their own checkers pass."""

from __future__ import annotations

import unittest
from typing import Any

import dm_env.test_utils
import numpy as np
import pytest
from absl.testing import absltest
from gymnasium.utils.env_checker import check_env

import envrax
from envrax.interop import to_dm_env, to_gymnasium, to_gymnasium_vec

# Libraries warn when they are imported, and Gymnasium warns of open bounds.
pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]

NAMES = (
    "gymnax/Breakout-MinAtar",
    "brax/inverted_pendulum",
    "jumanji/Snake-v1",
    "navix/Navix-Empty-5x5-v0",
    "craftax/Craftax-Classic-Symbolic-v1",
    "pgx/minatar-breakout",
    "xminigrid/MiniGrid-Empty-5x5",
    "kinetix/s/h4_thrust_aim",
    "playground/CartpoleBalance",
)


@pytest.mark.parametrize("name", NAMES)
def test_the_checkers_of_gymnasium_and_dm_env_pass(name: str) -> None:
    env = envrax.make(name, jit_compile=False)
    checked = to_gymnasium(env)
    check_env(checked, skip_render_check=True)

    class Checks(dm_env.test_utils.EnvironmentTestMixin, absltest.TestCase):
        def make_object_under_test(self) -> Any:
            ours._ended = True  # as it is new, without another compilation
            return ours

        def make_action_sequence(self) -> Any:
            for _ in range(20):
                yield checked.action_space.sample()

    ours, result = to_dm_env(env), unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Checks).run(result)
    assert result.testsRun >= 4 and not (result.errors or result.failures), result


def test_agents_are_slots_of_a_vector_environment() -> None:
    env = to_gymnasium_vec(envrax.make_vec("jaxmarl/MPE_simple_spread_v3", 2, pre_warm=False))
    obs, _ = env.reset(seed=0)
    ends = 0
    for _ in range(30):
        assert env.observation_space.contains(obs)
        obs, rewards, terminated, truncated, infos = env.step(env.action_space.sample())
        ended = terminated | truncated
        ends += int(ended.sum())
        assert rewards.shape == (env.num_envs,)
        last = infos.get("final_obs", np.full(env.num_envs, None))
        assert [x is not None for x in last] == ended.tolist()
    assert ends
