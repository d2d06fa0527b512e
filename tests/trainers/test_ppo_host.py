# pyright: reportMissingImports=false
"""The PPO example on a simulator of the host."""

from functools import partial

import jax
import numpy as np
import pytest
from ppo_host import HostPPO
from ppo_options import Options

import envrax

pytestmark = [
    pytest.mark.trainers,
    pytest.mark.filterwarnings("ignore:.*precision lowered"),
]


def test_atari_is_learned_from_clipped_rewards_and_reported_in_points() -> None:
    ppo = HostPPO(Options(env="gymnasium:ALE/MsPacman-v5", n_envs=2, hidden=4))
    state = ppo.init(0)
    act = partial(ppo.explore, state.params)
    at, steps = jax.jit(lambda at: envrax.rollout(ppo.env, act, at, 100))(state.at)
    learned, points = ppo.learned_reward(steps.reward), at.env_state[1]
    np.testing.assert_array_equal(np.unique(learned), [0, 1])
    assert (points >= 10 * learned.sum(axis=0)).all()  # a dot is 10 points
