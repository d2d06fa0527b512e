"""The multi-task example: masked choices, rows against the members, what it reports and learns."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import multi_task
import numpy as np
import pytest
from ppo_algorithm import Choice
from ppo_options import Options

import envrax
from envrax_classic import Acrobot, AcrobotConfig, BallConfig, BallEnv, CartPole, CartPoleConfig

N_STEPS, N_EACH = 10, 2
SCALES = [2.0, 3.0, 5.0]
SIZES = dict(CartPole=4, Acrobot=6, Ball=4)  # of an observation


@pytest.fixture(autouse=True)
def standard_promotion() -> Iterator[None]:
    """Adam, as optax writes it, does not hold under strict promotion."""
    with jax.numpy_dtype_promotion("standard"):
        yield


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
    options = Options(n_envs=3 * N_EACH, n_steps=N_STEPS, minibatches=1, hidden=4)
    yield multi_task.MultiTaskPPO(options, dict(zip(short, SCALES, strict=True)))
    for name in short:
        envrax.unregister(name)


@pytest.fixture(scope="module")
def start(trainer: multi_task.MultiTaskPPO) -> Any:
    """The state before training."""
    with jax.numpy_dtype_promotion("standard"):
        return jax.jit(trainer.init)(0)


def favouring_the_last(params: Any) -> Any:
    """Parameters of a policy that wants nothing but the last of the four choices."""
    bias = jnp.asarray([0.0, 0.0, 0.0, 50.0], jnp.float32)
    return jax.tree.map(lambda x: x + bias if x.shape == bias.shape else x, params)


@pytest.mark.integration
def test_choices_that_a_task_does_not_have_are_never_made(trainer: Any, start: Any) -> None:
    mask = trainer.env.action_mask(start.at.env_state)
    policy, _ = trainer.forward(favouring_the_last(start.params), start.at.obs, mask)
    samples = jax.vmap(policy.sample)(jax.random.split(jax.random.key(1), 1000))
    for task, seen in enumerate(np.split(np.asarray(samples), 3, axis=1)):
        n = [2, 3, 4][task]
        assert seen.max() == n - 1
        assert policy.mode()[task * N_EACH : (task + 1) * N_EACH].max() < n
    # Untrained, a policy is fair: over the choices there are, and no others.
    entropy = trainer.forward(start.params, start.at.obs, mask)[0].entropy()
    np.testing.assert_allclose(entropy, np.repeat(np.log([2, 3, 4]), N_EACH), rtol=1e-5)


@pytest.mark.integration
def test_masked_choices_leave_the_gradients_finite(trainer: Any, start: Any) -> None:
    params = favouring_the_last(start.params)
    mask = trainer.env.action_mask(start.at.env_state)
    policy, value = trainer.forward(params, start.at.obs, mask)
    action = policy.mode()
    batch = start.at.obs, action, Choice(policy.log_prob(action), value, mask)
    gradients = jax.jit(jax.grad(trainer.loss))(params, *batch, jnp.arange(6, dtype=jnp.float32))
    for gradient in jax.tree.leaves(gradients):
        assert np.isfinite(gradient).all()


@pytest.mark.slow
def test_the_rows_are_those_of_the_members(trainer: Any, start: Any) -> None:
    """Against the members stepped alone: each with its share of the key and of the actions."""
    params = jax.tree.map(lambda x: x + 0.1, start.params)  # untrained, every value is 0
    rng = jax.random.key(1)
    at = envrax.Rollout(*trainer.env.reset(rng), None, jax.random.key(2))
    rollout = envrax.rollout(trainer.env, partial(trainer.explore, params), at, N_STEPS)[1]
    episode, next_value = rollout.info["episode"], trainer.values(params, rollout.next_obs)
    rows = np.asarray(rollout.obs)
    for i, (name, size) in enumerate(zip(trainer.envs, SIZES.values(), strict=True)):
        mine = slice(i * N_EACH, (i + 1) * N_EACH)
        wrappers = [envrax.RecordEpisodeStatistics]
        alone = envrax.make_vec(name, N_EACH, wrappers=wrappers, final_obs=True, pre_warm=False)
        obs, state = alone.reset(jax.random.split(rng, 3)[i])
        assert (rows[:, mine, 6:] == np.eye(3)[i]).all()
        assert (rows[:, mine, size:6] == 0).all()
        for t in range(N_STEPS):
            np.testing.assert_allclose(rows[t, mine, :size], obs, rtol=1e-5, atol=1e-6)
            action = rollout.action[t, mine]
            obs, state, reward, done, info = alone.step(state, action)
            np.testing.assert_array_equal(rollout.done[t, mine], done)
            np.testing.assert_array_equal(rollout.terminated[t, mine], info["terminated"])
            learned = trainer.learned_reward(rollout.reward)[t, mine]
            np.testing.assert_allclose(learned, reward * SCALES[i], rtol=1e-5)
            np.testing.assert_allclose(episode["r"][t, mine], info["episode"]["r"], rtol=1e-5)

            last = np.zeros((N_EACH, 9), np.float32)
            last[:, :size], last[:, 6 + i] = info["final_obs"], 1
            value = trainer.forward(params, last)[1]
            np.testing.assert_allclose(next_value[t, mine], value, rtol=1e-4, atol=1e-5)
    ended = np.asarray(rollout.done & ~rollout.terminated).reshape(N_STEPS, 3, N_EACH)
    assert ended.any(axis=(0, 2)).all()


@pytest.mark.slow
def test_a_short_run_improves_every_task_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    multi_task.main(["--total-steps=150000", "--seed=3"])
    said = capsys.readouterr()
    scores = table(said.out)
    for task, margin in (("CartPole", 30), ("Acrobot", 300), ("Ball", 40)):
        before, after = scores[task]
        assert after > before + margin
        assert f"{task}=" in said.err
    assert "wall time" in said.out


def table(printed: str) -> dict[str, tuple[float, float]]:
    lines = [line.split("|") for line in printed.splitlines() if line.count("|") == 2]
    return {task.strip(): (float(b), float(a)) for task, b, a in lines[2:]}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--n-envs=64", "--minibatches=8"],
            "expected n_envs to be a multiple of the 3 tasks; got 64",
        ),
        (["--minibatches=7"], "expected n_envs * n_steps to be a multiple of minibatches"),
    ],
)
def test_the_command_line_refuses(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        multi_task.main(arguments)
    assert sentence in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_the_default_run_learns_all_three(run_python: Any, seed: int) -> None:
    """As its users start it: a process of its own, without strict flags."""
    script = Path(multi_task.__file__)
    printed = run_python(
        f"import sys; sys.path.insert(0, {str(script.parent)!r})\n"
        f"import multi_task; multi_task.main(['--seed={seed}'])"
    )
    after = {task: score for task, (_, score) in table(printed).items()}
    assert after["CartPole"] >= 450 and after["Acrobot"] >= -110 and after["Ball"] >= -5
