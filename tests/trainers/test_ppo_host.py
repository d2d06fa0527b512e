# pyright: reportMissingImports=false
"""The PPO example on a simulator of the host."""

import jax
import numpy as np
import pytest
from ppo_host import HostPPO
from ppo_options import Options

pytestmark = [
    pytest.mark.trainers,
    pytest.mark.filterwarnings("ignore:.*precision lowered"),
]


def test_atari_is_learned_from_clipped_rewards_and_reported_in_points() -> None:
    ppo = HostPPO(Options(env="gymnasium:ALE/MsPacman-v5", n_envs=2, hidden=4))
    state = ppo.init(0)
    start, keys = (state.obs, state.env_state), jax.random.split(jax.random.key(0), 100)
    (_, (_, points, _)), (seen, _) = jax.jit(
        lambda: jax.lax.scan(lambda c, k: ppo.step(state.params, c, k), start, keys)
    )()
    np.testing.assert_array_equal(np.unique(seen.reward), [0, 1])
    assert (points >= 10 * seen.reward.sum(axis=0)).all()  # a dot is 10 points
