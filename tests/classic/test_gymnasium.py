"""The classic control environments of the suite `classic` against Gymnasium's own."""

from dataclasses import fields
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from classic_envs import Env, compiled, rollout
from helpers import slow_but

from envrax import EnvState, classic

PEERS: dict[type[Env], str] = {
    classic.CartPole: "CartPole-v1",
    classic.MountainCar: "MountainCar-v0",
    classic.Pendulum: "Pendulum-v1",
    classic.Acrobot: "Acrobot-v1",
}


def those(quick: Any, *slow: Any) -> Any:
    """Whole episodes of all four are compared in `testing/test_match.py` too."""
    return pytest.mark.parametrize(
        "cls", slow_but(*quick, values=[*quick, *slow]), ids=lambda cls: cls.__name__
    )


def physics(state: EnvState) -> dict[str, Any]:
    own = {f.name for f in fields(EnvState)}
    return {f.name: getattr(state, f.name) for f in fields(state) if f.name not in own}


def gym_env(cls: type[Env]) -> Any:
    return gymnasium.make(PEERS[cls], disable_env_checker=True)


def put(peer: Any, state: EnvState) -> None:
    """Begin an episode of Gymnasium's where ours is."""
    peer.reset(seed=0)
    peer.unwrapped.state = np.array(list(physics(state).values()), np.float64)


def gym_step(cls: type[Env], peer: Any, action: np.ndarray) -> tuple[np.ndarray, ...]:
    # Gymnasium's Pendulum would round a float32 torque once more; a float64 one it takes as it is.
    return peer.step(action.astype(np.float64) if cls is classic.Pendulum else int(action))


def random_actions(env: Env, n: int) -> np.ndarray:
    """Legal actions; torques also from beyond the bounds, which clip them."""
    actions = env.action_space.batch(n).sample(jax.random.key(9))
    return np.asarray(actions if hasattr(env.action_space, "n") else 1.5 * actions)


@those([classic.MountainCar], classic.CartPole, classic.Pendulum, classic.Acrobot)
def test_physics_equal_gymnasium_in_double_precision(cls: type[Env]) -> None:
    """The same code on a float64 state: equal to 1e-9 after 200 steps, so no constant is off."""
    env = cls()
    with jax.enable_x64(True):
        step = jax.jit(env.step)

        def begin(rng: jax.Array) -> Any:
            _, state = env.reset(rng)
            return state.replace(**{k: x.astype(np.float64) for k, x in physics(state).items()})

        peer, state = gym_env(cls), begin(jax.random.key(3))
        put(peer, state)
        for action in random_actions(env, 200):
            _, state, reward, done, info = step(state, action)
            _, peer_reward, *ends, _ = gym_step(cls, peer, action)
            ours = np.array(list(physics(state).values()))
            np.testing.assert_allclose(ours, peer.unwrapped.state, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(reward, peer_reward, rtol=1e-9)
            assert [info["terminated"], info["truncated"]] == ends
            if done:
                state = begin(state.rng)
                put(peer, state)


SPREAD = {
    classic.CartPole: [2.6, 3.0, 0.25, 3.0],
    classic.Pendulum: [4.0, 8.0],
    classic.MountainCar: [1.4, 0.07],
    classic.Acrobot: [np.pi, np.pi, 4 * np.pi, 9 * np.pi],
}


@those([classic.CartPole, classic.Pendulum], classic.MountainCar, classic.Acrobot)
def test_one_step_from_anywhere_equals_gymnasium(cls: type[Env]) -> None:
    env, n = cls(), 300
    starts = np.random.default_rng(0).uniform(-1.0, 1.0, (n, len(SPREAD[cls]))) * SPREAD[cls]
    starts = starts.astype(np.float32)
    if cls is classic.MountainCar:
        starts[:, 0] = np.clip(starts[:, 0], -1.2, 0.6)
    actions = random_actions(env, n)

    @jax.jit
    @jax.vmap
    def step(start: Any, action: Any) -> Any:
        _, state = env.reset(jax.random.key(0))
        return env.step(state.replace(**dict(zip(physics(state), start, strict=True))), action)

    obs, _, reward, _, info = step(starts, actions)
    peer, endings = gym_env(cls), set()
    for i in range(n):
        peer.reset(seed=0)
        peer.unwrapped.state = starts[i].astype(np.float64)
        peer_obs, peer_reward, terminated, _, _ = gym_step(cls, peer, actions[i])
        np.testing.assert_allclose(obs[i], peer_obs, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(reward[i], peer_reward, rtol=1e-5, atol=1e-5)
        assert bool(info["terminated"][i]) == terminated
        endings.add(terminated)
    assert endings == ({False} if cls is classic.Pendulum else {False, True})


def stay_up(obs: Any) -> np.ndarray:
    """Balance the pole well past the time limit."""
    x, velocity, angle, spin = np.asarray(obs).tolist()
    return np.array(0.1 * x + 0.3 * velocity + 3.0 * angle + spin > 0.0, np.int32)


@those([classic.CartPole, classic.Acrobot])
def test_time_limit_is_gymnasiums(cls: type[Env]) -> None:
    env, reset, step = compiled(cls)
    peer = gym_env(cls)
    assert peer.spec.max_episode_steps == env.config.max_steps
    obs, state = reset(jax.random.key(0))
    put(peer, state)
    peer_obs = np.asarray(obs)
    done = truncated = False

    def policy(obs: Any) -> np.ndarray:
        return stay_up(obs) if cls is classic.CartPole else np.array(1, np.int32)

    while not done:
        obs, state, _, done, info = step(state, policy(obs))
        # Each balances itself: over 500 steps the one's actions would not hold the other's pole.
        peer_obs, _, _, truncated, _ = gym_step(cls, peer, policy(peer_obs))
        assert bool(info["truncated"]) == truncated
        assert not info["terminated"]
    assert truncated


@those([classic.CartPole, classic.Acrobot], classic.MountainCar, classic.Pendulum)
def test_starts_are_distributed_as_gymnasiums(cls: type[Env]) -> None:
    """Two samples of 1500 starts, compared by their largest difference in cumulative share."""
    env, peer, n = cls(), gym_env(cls), 1500
    ours, _ = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), n))
    peer.reset(seed=0)
    theirs = np.array([peer.reset()[0] for _ in range(n)])
    for a, b in zip(np.asarray(ours).T, theirs.T, strict=True):
        grid = np.sort(np.concatenate([a, b]))
        share_a = np.searchsorted(np.sort(a), grid, side="right") / n
        share_b = np.searchsorted(np.sort(b), grid, side="right") / n
        assert np.max(np.abs(share_a - share_b)) < 0.06
        assert abs(a.min() - b.min()) <= 0.02 * np.ptp(b) >= abs(a.max() - b.max())


@those([classic.MountainCar], classic.Pendulum, classic.CartPole, classic.Acrobot)
def test_gradients_reach_the_physics(cls: type[Env]) -> None:
    env = cls()
    actions = env.action_space.batch(5).sample(jax.random.key(0))

    def final(gravity: Any) -> jax.Array:
        heavy = cls(env.config.replace(gravity=gravity))
        return jnp.sum(rollout(heavy, jax.random.key(1), actions)[1][1][0][-1])

    gravity, width = env.config.gravity, 0.2 * env.config.gravity
    points = jnp.float32([gravity - width, gravity, gravity + width])
    (low, _, high), slopes = jax.jit(jax.vmap(jax.value_and_grad(final)))(points)
    assert slopes[1] != 0.0
    np.testing.assert_allclose(slopes[1], (high - low) / (2 * width), rtol=0.05)
