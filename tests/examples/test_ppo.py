"""`ppo.py`: its estimates against arithmetic, its policies, what it writes and what it learns."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import ppo
import pytest
from examples.clock import Clock, ClockConfig
from fakes import CoinConfig, CoinEnv

import envrax
from envrax.testing import MaskedEnv, NestedEnv
from envrax.testing.fakes import FakeConfig

pytestmark = pytest.mark.usefixtures("standard_promotion")
LENGTH, GAMMA = 8, 0.9


def learned_value(name: str, **options: Any) -> float:
    """What the critic says of the one observation of a `Clock`, after training."""
    sizes: Any = dict(n_envs=16, n_steps=32, minibatches=4, hidden=8, total_steps=100_000)
    trainer = ppo.PPO(ppo.Options(env=name, gamma=GAMMA, learning_rate=3e-2, **sizes, **options))
    params, *_ = ppo.run(trainer)
    return float(trainer.network.apply(params, jnp.ones(1))[1])


@pytest.mark.integration
def test_an_episode_that_is_cut_short_is_bootstrapped(registered: Any) -> None:
    """1 + gamma + gamma^2 and so on for ever, whatever the time limit."""
    name = registered(Clock, ClockConfig(max_steps=LENGTH))
    assert learned_value(name) == pytest.approx(1 / (1 - GAMMA), rel=0.01)


@pytest.mark.slow
def test_an_episode_that_terminates_is_not_bootstrapped(registered: Any) -> None:
    """The observation does not say the time: all that the critic can learn is the mean return."""
    name = registered(Clock, ClockConfig(max_steps=LENGTH, terminates=True))
    returns = [sum(GAMMA**k for k in range(LENGTH - t)) for t in range(LENGTH)]
    assert learned_value(name, gae_lambda=1.0) == pytest.approx(np.mean(returns), rel=0.01)


@pytest.mark.parametrize("gae_lambda", [0.0, 0.9, 1.0])
def test_advantages_are_plain_sums(gae_lambda: float) -> None:
    n_steps, n_envs, gamma = 40, 5, 0.97
    rng = np.random.default_rng(0)
    reward, value, next_value = rng.normal(size=(3, n_steps, n_envs)).astype(np.float32)
    terminated, truncated = rng.random((2, n_steps, n_envs)) < 0.1
    assert (terminated & truncated).any() and (terminated ^ truncated).any()
    done = terminated | truncated
    expected = np.zeros((n_steps, n_envs))
    for env in range(n_envs):
        for start in range(n_steps):
            weight = 1.0
            for t in range(start, n_steps):
                later = 0.0 if terminated[t, env] else gamma * next_value[t, env]
                expected[start, env] += weight * (reward[t, env] + later - value[t, env])
                if done[t, env]:
                    break
                weight *= gamma * gae_lambda
    columns = map(jnp.asarray, (reward, done, terminated, truncated))
    steps = envrax.Transition(None, None, *columns, None, {}, None)
    options = ppo.Options(gamma=gamma, gae_lambda=gae_lambda)
    found = ppo.advantages(steps, jnp.asarray(value), jnp.asarray(next_value), options)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.integration
@pytest.mark.parametrize(
    "policy",
    [
        ppo.Categorical(np.log(np.array([0.2, 0.5, 0.3], np.float32))),
        ppo.Gaussian(np.array([1.0, -2.0], np.float32), np.array([-0.5, 0.3], np.float32)),
    ],
)
def test_policies_agree_with_their_samples(policy: Any) -> None:
    many = jax.tree.map(lambda x: jnp.repeat(x[None], 20_000, axis=0), policy)
    log_probs = many.log_prob(many.sample(jax.random.key(0)))
    assert log_probs.shape == (20_000,)
    assert -float(jnp.mean(log_probs)) == pytest.approx(float(policy.entropy()), abs=0.03)


def test_what_the_network_sees_and_does() -> None:
    nested = ppo.scaled(NestedEnv())
    obs, _ = jax.eval_shape(nested.reset, jax.random.key(0))
    assert obs.shape == nested.observation_space.shape == (106,)
    pole = ppo.scaled(envrax.make("classic/CartPole-v0", jit_compile=False))
    low = pole.observation_space.low
    np.testing.assert_array_equal(low, [-1, -np.inf, -1, -np.inf])
    pendulum: Any = ppo.scaled(envrax.make("classic/Pendulum-v0", jit_compile=False))
    taken = jax.jit(lambda x: pendulum.env.action(pendulum.action(x)))
    for given, torque in ((0.5, 1.0), (1.0, 2.0), (9.0, 2.0), (-9.0, -2.0)):
        np.testing.assert_allclose(taken(np.float32([given])), [torque], rtol=1e-6)


@pytest.mark.slow
def test_illegal_actions_are_never_taken(registered: Any) -> None:
    """The fake allows no action twice in a row, and punishes it."""
    sizes: Any = dict(n_envs=4, n_steps=40, minibatches=2, hidden=4, total_steps=160)
    trainer = ppo.PPO(ppo.Options(registered(MaskedEnv, FakeConfig()), **sizes))
    at, opt_state = jax.jit(trainer.init)(0)
    _, steps = envrax.rollout(trainer.vec_env, trainer.act, at, 40)
    _, _, mask = steps.extras
    assert np.take_along_axis(np.asarray(mask), np.asarray(steps.action)[..., None], axis=2).all()
    assert not mask.all() and not steps.terminated.any() and steps.done.any()
    (after, _), _ = jax.jit(trainer.update)((at, opt_state), None)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(after.policy_state))


@pytest.mark.slow
def test_the_curve_begins_when_most_slots_have_ended(registered: Any) -> None:
    """Before that, returns are those of short episodes. No action changes a length here."""
    name = registered(CoinEnv, CoinConfig(end_rate=0.2))
    sizes: Any = dict(n_envs=16, n_steps=2, minibatches=2, hidden=4, total_steps=32 * 20)
    trainer = ppo.PPO(ppo.Options(name, **sizes))
    steps = envrax.rollout(trainer.vec_env, trainer.act, jax.jit(trainer.init)(0)[0], 40)[1]
    ends: Any = np.asarray(steps.done).reshape(20, 2, 16).any(axis=1)
    n_ended = np.logical_or.accumulate(ends).sum(axis=1)
    assert {*n_ended} & {*range(1, 15)} and 15 in n_ended and 16 in n_ended
    shown = (n_ended >= 15) & ends.any(axis=1)
    curve = ppo.run(trainer)[1]
    np.testing.assert_array_equal(curve[0], 32 * (1 + np.flatnonzero(shown)))


def test_a_small_convolution_sees_every_pixel() -> None:
    """Of images whose sides are no multiples of a patch; alike alone and in a batch."""
    network = ppo.Network(envrax.Discrete(3), 8, image=True)
    images = jax.random.normal(jax.random.key(0), (16, 21, 23, 2))
    params = network.init(jax.random.key(1), images[0])
    changed: Any = jax.tree.map(lambda x: x + 0.01, params)  # the last layer begins with zeros

    def value(image: Any) -> Any:
        return network.apply(changed, image)[1]

    np.testing.assert_allclose(value(images), jax.vmap(value)(images), rtol=1e-4)
    slopes = jax.vmap(jax.grad(value))(images)
    assert (np.abs(slopes).max(axis=0) > 0).all()


@pytest.mark.slow
def test_a_module_in_the_working_directory_is_found(tmp_path: Path, run_python: Any) -> None:
    (tmp_path / "point.py").write_text(
        "import envrax\nfrom envrax.classic import CartPole, CartPoleConfig\n"
        "envrax.register('Point-v0', CartPole, CartPoleConfig())\n"
    )
    tiny = ["Point-v0", "--import=point", "--total-steps=64", "--n-envs=4", "--n-steps=4"]
    as_script = f"import sys; sys.path[0] = {str(Path(ppo.__file__).parent)!r}"
    printed = run_python(f"{as_script}; import ppo; ppo.main({tiny!r})")
    assert "return of 100 episodes: random " in printed and "It did not learn" in printed
    like = jax.eval_shape(ppo.PPO(ppo.Options()).init, 0)[0].policy_state
    envrax.load(tmp_path / "runs" / "Point-v0-0" / "policy.npz", like)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Pendulum", "Catch"])  # real actions, images
def test_the_command_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tiny = ["--total-steps=64", "--n-envs=4", "--n-steps=4", "--minibatches=2", "--hidden=4"]
    ppo.main([f"classic/{name}-v0", "--seed=7", *tiny])
    said = capsys.readouterr()
    assert "return of 100 episodes: " in said.out and "steps/s" in said.err
    folder = tmp_path / "runs" / "classic" / f"{name}-v0-7"
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert [path.stat().st_size > 1000 for path in folder.glob("*.mp4")] == [True]


@pytest.mark.slow
def test_the_default_run_balances_the_pole(run_python: Any) -> None:
    """As its users start it: a process of its own, without strict flags."""
    folder = str(Path(ppo.__file__).parent)
    printed = run_python(f"import sys; sys.path.insert(0, {folder!r}); import ppo; ppo.main([])")
    assert float(printed.split(" -> ")[1].split()[0]) >= 475
