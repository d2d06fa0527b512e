"""`dqn.py`: what its critic learns at the end of an episode, and that it learns."""

from typing import Any

import dqn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from examples.clock import Clock, ClockConfig

from envrax import EnvConfig
from envrax.testing import CountingEnv

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("standard_promotion")]
GAMMA, LENGTH = 0.9, 8


@pytest.mark.parametrize(
    ("terminates", "wanted"),
    # Reward 1 on every step. Cut by a time limit the episode would have gone on: 1 + gamma + ... If
    # the limit is taken for a termination, one row in eight is worth 1 and no more.
    [(False, 1 / (1 - GAMMA)), (True, 1 / (1 - GAMMA * (1 - 1 / LENGTH)))],
)
def test_the_value_of_a_clock(registered: Any, terminates: bool, wanted: float) -> None:
    name = registered(Clock, ClockConfig(max_steps=LENGTH, terminates=terminates))
    sizes: Any = dict(total_steps=40_000, hidden=8, first_steps=500, target_period=100)
    agent = dqn.DQN(dqn.Options(name, gamma=GAMMA, **sizes))
    params, *_ = dqn.run(agent)
    np.testing.assert_allclose(agent.network.apply(params, jnp.ones((1, 1))), wanted, rtol=0.02)


def test_the_buffer_holds_the_observation_of_the_step(registered: Any) -> None:
    """In `CountingEnv` it is the same number, and a step more, also at the end."""
    agent = dqn.DQN(dqn.Options(registered(CountingEnv, EnvConfig(max_steps=4)), n_stack=2))
    state = jax.jit(agent.init)(0)
    for _ in range(6):
        state, _ = jax.jit(agent.update)(state, None)
    rows = state.buffer.sample(jax.random.key(0), 100)
    assert rows.done.any()
    np.testing.assert_allclose(
        rows.next_obs[..., -1] - rows.obs[..., -1], np.tile([0, 1], (100, 1))
    )
    np.testing.assert_array_equal(rows.next_obs[..., 0], rows.obs[..., 1])


def test_a_pole_is_balanced_for_longer(capsys: pytest.CaptureFixture[str]) -> None:
    dqn.main(["classic/CartPole-v0", "--total-steps=24000", "--seed=0"])
    before, after = capsys.readouterr().out.split("episodes: ")[1].split(" -> ")
    assert float(before) < 30 and float(after.split()[0]) > 100


def test_pixels_are_caught(capsys: pytest.CaptureFixture[str]) -> None:
    """Of four frames, each kept once. At random the return is -0.5."""
    dqn.main(["classic/Catch-v0", "--total-steps=24000"])
    assert float(capsys.readouterr().out.split(" -> ")[1].split()[0]) > 0.5


def test_an_environment_with_illegal_actions_is_refused() -> None:
    agent = dqn.DQN(dqn.Options("classic/ConnectFour-v0"))
    with pytest.raises(SystemExit, match="illegal actions"):
        agent.init(0)
