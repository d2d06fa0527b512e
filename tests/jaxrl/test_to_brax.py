# pyright: reportMissingImports=false
"""`to_brax` and `brax_training_wrap`: what Brax's trainers step."""

import pickle
from typing import Any

import brax.envs
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brax.training.agents.ppo.losses import compute_gae

import envrax
from envrax import RecordEpisodeStatistics, TimeLimit, VecEnv, with_config
from envrax.classic import CartPole, Pendulum
from envrax.interop import brax_training_wrap, to_brax
from envrax.interop.brax import wrap

N = 4


def actions_of(i: int) -> jax.Array:
    return jax.random.uniform(jax.random.key(i), (N, 1), jnp.float32, -1.0, 1.0)


@pytest.mark.parametrize("key", [jax.random.key, jax.random.PRNGKey])
def test_it_is_a_vec_env(key: Any) -> None:
    env = TimeLimit(Pendulum(), 20)
    bridge, batch = to_brax(env), VecEnv(env, N)
    assert (bridge.observation_size, bridge.action_size, bridge.unwrapped) == (3, 1, bridge)
    state = jax.jit(jax.vmap(bridge.reset))(jax.random.split(key(1), N))
    obs, there = batch.reset(key(1))
    step = jax.jit(jax.vmap(bridge.step))
    for i in range(50):
        state = step(state, actions_of(i))
        obs, there, reward, done, info = batch.step(there, 2 * actions_of(i))
        np.testing.assert_array_equal(state.obs, obs)
        np.testing.assert_array_equal(state.reward, reward)
        np.testing.assert_array_equal(state.done, done)
        np.testing.assert_array_equal(state.info["truncation"], info["truncated"])


def test_the_statistics_of_a_training_batch() -> None:
    env = with_config(Pendulum(), max_steps=1000)
    batch = brax_training_wrap(to_brax(env), episode_length=20, action_repeat=3)
    by_hand = envrax.RepeatAction(TimeLimit(env, 20), 3)
    there = VecEnv(envrax.RecordEpisodeStatistics(by_hand), N)
    state = jax.jit(batch.reset)(jax.random.split(jax.random.key(1), N))
    _, other = there.reset(jax.random.key(1))
    first: list[Any] = []
    for i in range(15):
        state = jax.jit(batch.step)(state, actions_of(i))
        _, other, _, done, info = there.step(other, 2 * actions_of(i))
        np.testing.assert_array_equal(state.info["episode_done"], done)
        metrics = state.info["episode_metrics"]
        played = min(3 * (i % 7 + 1), 20)  # the last action is cut short
        assert state.info["steps"].tolist() == [played] * N == metrics["length"].tolist()
        if done.all():
            first.append(state.obs)
            np.testing.assert_allclose(metrics["sum_reward"], info["episode"]["r"], rtol=1e-5)
            assert state.info["truncation"].all()
    assert len(first) == 2 and not np.array_equal(*first)  # Brax returns to the same states


@pytest.mark.parametrize("env", [to_brax(Pendulum()), brax.envs.get_environment("fast")])
def test_a_limit_counts_steps_of_the_environment_inside_of_a_repeat(env: Any) -> None:
    """With four steps an action, a limit of 10 ends after 4 + 4 + 2, in Brax's environment too."""
    batch = brax_training_wrap(env, episode_length=10, action_repeat=4)
    state, seen = jax.jit(batch.reset)(jax.random.split(jax.random.key(0), N)), []
    for _ in range(6):
        state = jax.jit(batch.step)(state, jnp.zeros((N, batch.action_size)))
        seen.append((int(state.info["episode_metrics"]["length"][0]), bool(state.done[0])))
    assert seen == [(4, False), (8, False), (10, True)] * 2


@pytest.mark.parametrize("limit", [None, 8])  # of the environment, or of the trainer
def test_a_limit_of_time_is_not_a_termination(limit: Any) -> None:
    """By Brax's own estimate of advantages: reward 1, gamma 0.9, a limit of 8: worth 10."""

    class One(Pendulum):
        def step(self, state: Any, action: Any) -> Any:
            obs, state, _, done, info = super().step(state, action)
            return obs, state, jnp.float32(1), done, info

    env = with_config(One(), max_steps=8) if limit is None else One()
    batch = brax_training_wrap(to_brax(env), episode_length=limit or 1000)
    state, steps = jax.jit(batch.reset)(jax.random.split(jax.random.key(1), N)), []
    for i in range(16):
        state = jax.jit(batch.step)(state, actions_of(i))
        steps.append((state.done, state.info["truncation"], state.reward))
    done, truncation, reward = (jnp.stack(x) for x in zip(*steps, strict=True))
    assert truncation.sum() == 2 * N
    ten = jnp.full((16, N), 10.0)
    target, advantage = compute_gae(
        truncation, done * (1 - truncation), reward, ten, ten[0], 1.0, 0.9
    )
    np.testing.assert_allclose(target, 10, rtol=1e-5)
    np.testing.assert_allclose(advantage, 0, atol=1e-4)


def test_an_environment_of_brax_begins_new_episodes() -> None:
    theirs = brax.envs.get_environment("fast")
    batch = brax_training_wrap(theirs, episode_length=5)
    state = jax.jit(batch.reset)(jax.random.split(jax.random.key(0), N))
    for _ in range(5):
        state = jax.jit(batch.step)(state, jnp.zeros((N, theirs.action_size)))
    assert state.done.all() and state.info["truncation"].all()


def test_rewards_of_any_dtype_in_a_scan_and_of_one_shape() -> None:
    class Ints(Pendulum):
        def step(self, state: Any, action: Any) -> Any:
            obs, state, reward, *rest = super().step(state, action)
            return obs, state, jnp.round(reward).astype(jnp.int32), *rest

    ints = to_brax(Ints())
    step = lambda state, _: (ints.step(state, jnp.ones(1)), None)  # noqa: E731
    last, _ = jax.lax.scan(step, ints.reset(jax.random.key(0)), length=3)
    assert last.reward.dtype == jnp.float32
    column = to_brax(envrax.ExpandDims(Pendulum()))
    with pytest.raises(ValueError, match="ExpandDims"):
        column.step(column.reset(jax.random.key(0)), jnp.ones(1))


def test_bridges_can_be_pickled() -> None:
    bridge = pickle.loads(pickle.dumps(to_brax(Pendulum())))
    state = bridge.step(bridge.reset(jax.random.key(0)), jnp.ones(1))
    batch = pickle.loads(pickle.dumps(brax_training_wrap(bridge, 10)))
    assert batch.reset(jax.random.split(jax.random.key(0), N)).obs.shape == (N, *state.obs.shape)


@pytest.mark.parametrize(("length", "repeat"), [(10, 0), (0, 1), (10, 1.5), (10.5, 2)])
def test_lengths_that_are_no_counts(length: Any, repeat: Any) -> None:
    noun = "episode_length" if repeat in (1, 2) else "action_repeat"
    for env in (to_brax(Pendulum()), brax.envs.get_environment("fast")):
        with pytest.raises((TypeError, ValueError), match=f"brax_training_wrap.*{noun}"):
            brax_training_wrap(env, length, repeat)


def test_the_way_back() -> None:
    env = Pendulum()
    assert wrap(to_brax(env)) is env


@pytest.mark.parametrize(
    ("call", "noun"),
    [
        (lambda: to_brax(CartPole()), "Box"),
        (lambda: to_brax(envrax.ClipAction(Pendulum())), "Box"),
        (lambda: to_brax(VecEnv(Pendulum(), 2)), "JaxEnv"),  # type: ignore[arg-type]
        (
            lambda: brax_training_wrap(to_brax(Pendulum()), randomization_fn=id),
            "DomainRandomization",
        ),
        (
            lambda: brax_training_wrap(to_brax(RecordEpisodeStatistics(Pendulum()))),
            "without RecordEpisodeStatistics",
        ),
        (lambda: brax_training_wrap(3), "brax"),
    ],
)
def test_errors(call: Any, noun: str) -> None:
    with pytest.raises(TypeError, match=noun):
        call()
