"""The PPO example: its estimates against arithmetic, its command line, what it learns."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import ppo
import pytest
from fakes import VectorConfig, VectorEnv
from ppo_algorithm import EPISODES, Choice, advantages
from ppo_options import PRESETS, Options, Run, parse

import envrax
from envrax import Box, Discrete, EnvConfig, EnvState, JaxEnv


@pytest.fixture(autouse=True)
def standard_promotion() -> Iterator[None]:
    """Adam, as optax writes it, does not hold under strict promotion."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture
def registered() -> Iterator[Callable[[Any, EnvConfig], str]]:
    """`registered(cls, config)`: a name that is known to envrax for the length of the test."""
    names = list[str]()

    def register(cls: Any, config: EnvConfig) -> str:
        names.append(f"test/{cls.__name__}-v{len(names)}")
        envrax.register(names[-1], cls, config)
        return names[-1]

    yield register
    for name in names:
        envrax.unregister(name)


@chex.dataclass
class ClockConfig(EnvConfig):
    max_steps: int = 8
    terminates: bool = False
    short: float = 0.0


@chex.dataclass
class ClockState(EnvState):
    length: jax.Array


class Clock(JaxEnv[Box, Discrete, ClockState, ClockConfig]):
    """
    Reward 1 on every step, nothing to see, until time is up.

    A share `short` of the episodes ends after a single step.
    """

    @property
    def observation_space(self) -> Box:
        return Box(0.0, 1.0, (1,))

    @property
    def action_space(self) -> Discrete:
        return Discrete(2)

    def reset(self, rng: jax.Array) -> tuple[jax.Array, ClockState]:
        rng, key = jax.random.split(rng)
        short = jax.random.bernoulli(key, self.config.short)
        length = jnp.where(short, jnp.int32(1), jnp.int32(self.config.max_steps))
        state = ClockState(rng=rng, step=jnp.int32(0), done=jnp.bool_(False), length=length)
        return jnp.ones(1, jnp.float32), state

    def step(self, state: ClockState, action: jax.Array) -> tuple[Any, ...]:
        step = state.step + 1
        state = state.replace(step=step, done=step >= state.length)
        dies = jnp.bool_(self.config.terminates)
        info = {"terminated": state.done & dies, "truncated": state.done & ~dies}
        return jnp.ones(1, jnp.float32), state, jnp.float32(1.0), state.done, info


def learned_value(name: str, **options: Any) -> float:
    """What the critic says of the one observation of a `Clock`, after training."""
    sizes = dict(n_envs=16, n_steps=32, minibatches=4, hidden=8, total_steps=100_000)
    trainer = ppo.PPO(Options(env=name, learning_rate=3e-2, **sizes, **options))
    params = ppo.run(trainer).params
    return float(trainer.forward(params, jnp.ones((1, 1), jnp.float32))[1][0])


@pytest.mark.integration
def test_an_episode_that_is_cut_short_is_bootstrapped(registered: Any) -> None:
    name = registered(Clock, ClockConfig())
    # 1 + gamma + gamma^2 and so on for ever, whatever the time limit.
    assert learned_value(name, gamma=0.9) == pytest.approx(1 / (1 - 0.9), rel=0.01)


@pytest.mark.slow
def test_an_episode_that_terminates_is_not_bootstrapped(registered: Any) -> None:
    length, gamma = 8, 0.9
    name = registered(Clock, ClockConfig(max_steps=length, terminates=True))
    # The observation does not tell the time: all that the critic can learn is the mean return.
    returns = [sum(gamma**k for k in range(length - t)) for t in range(length)]
    value = learned_value(name, gamma=gamma, gae_lambda=1.0)
    assert value == pytest.approx(np.mean(returns), rel=0.01)


@pytest.mark.parametrize("gae_lambda", [0.0, 0.9, 1.0])
def test_advantages_are_plain_sums(gae_lambda: float) -> None:
    n_steps, n_envs, gamma = 40, 5, 0.97
    rng = np.random.default_rng(0)
    reward, value, next_value = rng.normal(size=(3, n_steps, n_envs)).astype(np.float32)
    terminated, truncated = rng.random((2, n_steps, n_envs)) < 0.1
    assert (terminated & truncated).any() and (terminated ^ truncated).any()

    expected = np.zeros((n_steps, n_envs))
    for env in range(n_envs):
        for start in range(n_steps):
            weight = 1.0
            for t in range(start, n_steps):
                later = 0.0 if terminated[t, env] else gamma * next_value[t, env]
                expected[start, env] += weight * (reward[t, env] + later - value[t, env])
                if terminated[t, env] or truncated[t, env]:
                    break
                weight *= gamma * gae_lambda

    steps = envrax.Transition(
        obs=None,
        action=None,
        reward=jnp.asarray(reward),
        done=jnp.asarray(terminated | truncated),
        terminated=jnp.asarray(terminated),
        truncated=jnp.asarray(truncated),
        next_obs=None,
        info={},
        extras=Choice(jnp.asarray(value), jnp.asarray(value), None),
    )
    found = advantages(steps, jnp.asarray(next_value), gamma, gae_lambda)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_the_value_after_a_step_is_that_of_no_reset(registered: Any) -> None:
    """Within an episode it is the value of the next row; at an end that row is elsewhere."""
    name = registered(VectorEnv, VectorConfig(max_steps=4))
    trainer = ppo.PPO(Options(env=name, n_envs=3, n_steps=12, minibatches=1, hidden=4))
    state = jax.jit(trainer.init)(0)
    params = jax.tree.map(lambda x: x + 0.1, state.params)  # untrained, every value is 0
    steps = envrax.rollout(trainer.env, partial(trainer.explore, params), state.at, 12)[1]
    done = np.asarray(steps.done)
    assert done.sum() == 3 * 3
    agree = np.isclose(trainer.values(params, steps.next_obs)[:-1], steps.extras.value[1:])
    np.testing.assert_array_equal(agree, ~done[:-1])


@pytest.mark.integration
@pytest.mark.parametrize("terminates", [False, True])
def test_the_evaluation_counts_the_first_episodes_started(
    registered: Any, terminates: bool
) -> None:
    config = ClockConfig(max_steps=40, short=0.5, terminates=terminates)
    trainer = ppo.PPO(Options(env=registered(Clock, config), n_envs=8, hidden=2))
    returns = jax.jit(trainer.evaluate)(jax.jit(trainer.init)(0).params, 3)

    starts = jax.random.split(jax.random.split(jax.random.key(3))[1], EPISODES)
    lengths = np.asarray(jax.vmap(Clock(config).reset)(starts)[1].length)
    # Of the first 100 to finish, nearly all would be short.
    assert 30 < np.sum(lengths == 40) < 70
    np.testing.assert_array_equal(returns, lengths)


@pytest.mark.parametrize(
    ("name", "video"),
    [
        pytest.param(*case, marks=pytest.mark.slow)
        for case in (("Ball", True), ("Pendulum", False), ("Catch", True))
    ],
)  # discrete actions, real actions, images
def test_the_command_line(
    name: str,
    video: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    tiny = ["--total-steps=64", "--n-envs=4", "--n-steps=4", "--minibatches=2", "--hidden=4"]
    ppo.main([f"classic/{name}-v0", "--seed=7", *tiny, *([] if video else ["--no-video"])])
    said = capsys.readouterr()
    assert "before:" in said.out and "after:" in said.out and "wall time" in said.out
    assert "64.0/64.0" in said.err and "steps/s" in said.err
    folder = tmp_path / "runs" / "classic" / f"{name}-v0-7"
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert [path.stat().st_size > 1000 for path in folder.glob("*.mp4")] == [True] * video


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["classic/CartPol-v0"], "Did you mean 'classic/CartPole-v0'"),
        (["--import", "no_such_package"], "No module named 'no_such_package'"),
        (["nowhere/Thing-v0"], "Unknown environment 'nowhere/Thing-v0'"),
        (["--minibatches", "7"], "expected n_envs * n_steps to be a multiple of minibatches"),
        (["--interval", "-1"], "expected an interval of 0 updates or more; got -1."),
    ],
)
def test_the_command_line_refuses(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        ppo.main(arguments)
    assert sentence in capsys.readouterr().err


def test_another_package_may_register_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
import envrax, fakes
envrax.register("mine/Vector-v0", fakes.VectorEnv, fakes.VectorConfig())
"""
    (tmp_path / "suite_of_mine.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    options, run = parse(["mine/Vector-v0", "--import", "suite_of_mine"])
    envrax.unregister("mine/Vector-v0")
    assert (options, run) == (Options(env="mine/Vector-v0"), Run(video=True))


# Those of libraries: tests/interop/test_training.py.
@pytest.mark.parametrize("name", [name for name in PRESETS if name.startswith("classic/")])
def test_presets_give_way_to_what_is_given(name: str) -> None:
    options, run = parse([name, "--gamma", "0.5", "--no-video"])
    assert options == Options(**{"env": name, **PRESETS[name], "gamma": 0.5})
    assert run == Run(video=False)


@pytest.mark.slow
def test_the_default_run_balances_the_pole(run_python: Any) -> None:
    """As its users start it: a process of its own, without strict flags."""
    script = Path(ppo.__file__)
    printed = run_python(
        f"import sys; sys.path.insert(0, {str(script.parent)!r})\n"
        "import ppo; ppo.main(['--no-video'])"
    )
    [after] = [line for line in printed.splitlines() if "after:" in line]
    assert float(after.split("after:")[1].split()[0]) >= 475


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("Acrobot", -400, -100),
        ("Pendulum", -1000, -200),
        ("Catch", 0, 0.9),
        ("Ball", -20, -5),
        ("MountainCar", -190, -120),
        ("ConnectFour", 0.7, 0.9),  # wins minus losses; always the first legal column wins too
    ],
)
def test_the_others_are_learned(name: str, before: float, after: float) -> None:
    result = ppo.run(ppo.PPO(parse([f"classic/{name}-v0"])[0]))
    assert result.before.mean() < before and result.after.mean() >= after
