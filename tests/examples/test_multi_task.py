"""`multi_task.py`: masked choices, rows against the members, and what it learns."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import multi_task
import numpy as np
import pytest

import envrax
from envrax.classic import Acrobot, AcrobotConfig, BallConfig, BallEnv, CartPole, CartPoleConfig

pytestmark = pytest.mark.usefixtures("standard_promotion")
N = multi_task.N_EACH


@pytest.fixture(scope="module")
def trainer() -> Iterator[multi_task.MultiTaskPPO]:
    """Tasks whose time is up after 4, 3 and 2 steps: one that ends earlier has terminated."""
    short = {
        "test/CartPole-v0": (CartPole, CartPoleConfig(max_steps=4)),
        "test/Acrobot-v0": (Acrobot, AcrobotConfig(max_steps=3)),
        "test/Ball-v0": (BallEnv, BallConfig(max_steps=2)),
    }
    for name, spec in short.items():
        envrax.register(name, *spec)
    yield multi_task.MultiTaskPPO(list(short), total_steps=1, hidden=4)
    for name in short:
        envrax.unregister(name)


@pytest.mark.integration
def test_choices_that_a_task_does_not_have_are_never_made(trainer: Any) -> None:
    params, _, obs, states, _ = jax.jit(trainer.init)(0)
    choices = trainer.rows(trainer.fleet.action_masks(states))
    log_probs, _ = trainer.network.apply(params, obs, choices)
    # Untrained, a policy is fair: over the choices there are, and no others.
    for task, probs in enumerate(np.split(np.exp(log_probs), 3)):
        n = [2, 3, 4][task]
        np.testing.assert_allclose(probs, np.tile([1 / n] * n + [0] * (4 - n), (N, 1)), rtol=1e-5)


@pytest.mark.slow
def test_the_rows_are_those_of_the_members(trainer: Any) -> None:
    """Against the members stepped alone: each with its share of the key and of the actions."""
    params, _, rows, states, _ = jax.jit(trainer.init)(0)
    resets = jax.random.split(jax.random.split(jax.random.key(0), 3)[1], 3)
    members = [envrax.VecEnv(env, N, final_obs=True) for env in trainer.envs.values()]
    alone = [member.reset(key) for member, key in zip(members, resets, strict=True)]
    play, cut = jax.jit(trainer.play), np.zeros(3, bool)
    for t in range(6):
        (rows, states), step = play(params, (rows, states), jax.random.key(t))
        for i, member in enumerate(members):
            mine = slice(i * N, (i + 1) * N)
            obs, state = alone[i]
            np.testing.assert_allclose(step.obs[mine, :6], obs, rtol=1e-5, atol=1e-6)
            assert (step.obs[mine, 6:] == jnp.eye(3)[i]).all()
            obs, state, reward, done, info = member.step(state, step.action[mine])
            alone[i] = obs, state
            np.testing.assert_allclose(step.reward[mine], reward * trainer.factors[mine], rtol=1e-5)
            np.testing.assert_array_equal(step.terminated[mine], info["terminated"])
            np.testing.assert_allclose(step.info["return"][mine], info["episode"]["r"], rtol=1e-5)
            last = info["final_obs"]
            np.testing.assert_allclose(step.next_obs[mine, :6], last, rtol=1e-5, atol=1e-6)
            cut[i] |= bool(np.any(step.truncated[mine]))
    assert cut.all()


@pytest.mark.slow
def test_a_short_run_learns_all_three(run_python: Any) -> None:
    """As its users start it: a process of its own, without strict flags."""
    folder = str(Path(multi_task.__file__).parent)
    printed = run_python(
        f"import sys; sys.path.insert(0, {folder!r})\n"
        "import multi_task; multi_task.main(['--total-steps=150000'])"
    )
    lines = [line.split("|") for line in printed.splitlines() if line.startswith("classic/")]
    after = {name.strip(): float(last) for name, _, last in lines}
    assert after["classic/CartPole-v0"] >= 200
    assert after["classic/Acrobot-v0"] >= -130 and after["classic/Ball-v0"] >= -10
