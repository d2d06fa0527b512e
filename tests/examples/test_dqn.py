"""The off-policy example: what its critic learns at the end of an episode, and that it learns."""

from collections.abc import Callable, Iterator
from typing import Any

import dqn
import jax
import jax.numpy as jnp
import numpy as np
import ppo
import pytest
from examples.test_ppo import Clock, ClockConfig

import envrax

pytestmark = pytest.mark.slow
GAMMA, LENGTH = 0.9, 8


@pytest.fixture(autouse=True)
def standard_promotion() -> Iterator[None]:
    """Optax and flashbax do not hold under strict promotion."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture
def registered() -> Iterator[Callable[[bool], str]]:
    def register(terminates: bool) -> str:
        config = ClockConfig(max_steps=LENGTH, terminates=terminates)
        envrax.register("test/Clock-v0", Clock, config)
        return "test/Clock-v0"

    yield register
    envrax.unregister("test/Clock-v0")


@pytest.mark.parametrize(
    ("terminates", "wanted"),
    # Reward 1 on every step. Cut by a time limit the episode would have gone on: 1 + gamma + ... If
    # the limit is taken for a termination, one row in eight is worth 1 and no more.
    [(False, 1 / (1 - GAMMA)), (True, 1 / (1 - GAMMA * (1 - 1 / LENGTH)))],
)
def test_the_value_of_a_clock(registered: Any, terminates: bool, wanted: float) -> None:
    options = dqn.Options(
        registered(terminates),
        gamma=GAMMA,
        total_steps=40_000,
        hidden=8,
        first_steps=500,
        target_period=100,
    )
    trained = ppo.run(dqn.DQN(options)).params
    values = dqn.DQN(options).values(trained, jnp.ones((1, 1), jnp.float32))
    np.testing.assert_allclose(values, wanted, rtol=0.02)


def test_the_buffer_holds_the_observation_of_the_step() -> None:
    """In `CountingEnv` it is the same number, and a step more, also at the end."""
    envrax.register("test/Counting-v0", envrax.testing.CountingEnv, envrax.EnvConfig(max_steps=4))
    agent = dqn.DQN(dqn.Options("test/Counting-v0", n_steps=6, first_steps=10**4))
    state = jax.jit(agent.update)(jax.jit(agent.init)(0), None)[0]
    envrax.unregister("test/Counting-v0")
    rows = state.buffer.experience
    n = agent.options.batch_size
    obs, after = (np.asarray(x).reshape(-1, 2)[:n] for x in (rows.obs, rows.next_obs))
    np.testing.assert_allclose(after - obs, np.tile([0, 1e-3], (n, 1)), atol=1e-6)


def test_actions_that_may_be_illegal_are_refused() -> None:
    with pytest.raises(TypeError, match="dqn: expected actions that are always legal; classic/Con"):
        dqn.DQN(dqn.Options("classic/ConnectFour-v0"))


def test_real_actions_are_refused() -> None:
    with pytest.raises(TypeError, match="dqn: expected actions in a Discrete; got Box"):
        dqn.DQN(dqn.Options("classic/Pendulum-v0"))


def test_mountain_car_is_climbed(capsys: pytest.CaptureFixture[str]) -> None:
    dqn.main(["--seed=0"])
    said = capsys.readouterr().out
    assert "before: -200.00" in said
    after = float(said.split("after: ")[1].split()[0])
    assert after > -160, said
