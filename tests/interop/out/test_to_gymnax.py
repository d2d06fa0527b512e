"""`to_gymnax`: the trajectories of `VecEnv` under the trainer's own `vmap`."""

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from batched_fakes import OnTheHost
from fakes import NestedEnv, VectorConfig, VectorEnv
from helpers import assert_trees_equal, slow_but

import envrax
from envrax import EpisodicLife, RecordEpisodeStatistics, TimeLimit, VecEnv, with_config
from envrax.classic import CartPole
from envrax.interop import to_gymnax
from envrax.testing import CountingEnv, MaskedEnv

N = 16


def played(bridge: Any, rng: jax.Array, n_steps: int, params: Any = None) -> Any:
    """Random actions in `N` slots, as a trainer written for gymnax plays: each step's results."""

    @jax.jit
    def run(rng: jax.Array) -> Any:
        obs, state = jax.vmap(bridge.reset, (0, None))(jax.random.split(rng, N), params)

        def one(carry: Any, rng: jax.Array) -> Any:
            keys = jax.random.split(rng, N)
            actions = jax.vmap(bridge.action_space(params).sample)(keys)
            out = jax.vmap(bridge.step, (0, 0, 0, None))(keys, carry[1], actions, params)
            return out[:2], out

        return obs, jax.lax.scan(one, (obs, state), jax.random.split(rng, n_steps))[1]

    return run(rng)


def played_here(env: Any, rng: jax.Array, n_steps: int) -> Any:
    """The same in a `VecEnv`."""
    batch = VecEnv(env, N, final_obs=True)

    @jax.jit
    def run(rng: jax.Array) -> Any:
        obs, state = batch.reset(rng)

        def one(state: Any, rng: jax.Array) -> Any:
            actions = jax.vmap(env.action_space.sample)(jax.random.split(rng, N))
            out = batch.step(state, actions)
            return out[1], out

        return obs, jax.lax.scan(one, state, jax.random.split(rng, n_steps))[1]

    return run(rng)


def limited(env_class: Any) -> Any:
    return RecordEpisodeStatistics(TimeLimit(env_class(), 30))


@cache
def steps_of(env_class: Any) -> Any:
    """With keys of the old kind; other tests have new ones."""
    return played(to_gymnax(limited(env_class)), jax.random.PRNGKey(0), 200)


@pytest.mark.parametrize("env_class", slow_but(CartPole, values=[CartPole, NestedEnv]))
def test_it_is_a_vec_env_in_both_protocols(env_class: Any) -> None:
    """Also where the default params are given, which change no bit."""
    env, key = limited(env_class), jax.random.PRNGKey(0)
    obs, (after, state, reward, done, info) = steps_of(env_class)
    expected, (obs_there, state_there, *there, infos) = played_here(env, key, 200)
    assert_trees_equal((obs, after, state.env_state), (expected, obs_there, state_there))
    assert_trees_equal((reward, done), tuple(there))
    assert_trees_equal(info["final_observation"], infos["final_obs"])
    new = to_gymnax(env, version=1)
    _, (*new, terminated, truncated, infos) = played(new, key, 200, new.default_params)
    assert_trees_equal((after, state, reward, info), (*new, infos))
    done, terminated, truncated = map(np.asarray, (done, terminated, truncated))
    assert_trees_equal(done, terminated | truncated)
    assert_trees_equal((terminated, truncated), (info["terminated"], info["truncated"]))
    assert done.any()
    if env_class is CartPole:
        assert (terminated & ~truncated).any() and (truncated & ~terminated).any()


def test_statistics_of_the_last_episode_stay() -> None:
    _, (*_, done, info) = jax.device_get(steps_of(CartPole))
    episode = info["episode"]
    seen = np.zeros(N, np.float32), np.zeros(N, np.int32)
    for t, ended in enumerate(done):
        seen = np.where(ended, episode["r"][t], seen[0]), np.where(ended, episode["l"][t], seen[1])
        np.testing.assert_array_equal(info["returned_episode_returns"][t], seen[0])
        np.testing.assert_array_equal(info["returned_episode_lengths"][t], seen[1])
    np.testing.assert_array_equal(info["returned_episode"], done)


@pytest.mark.slow
def test_statistics_of_games_whose_lives_are_episodes() -> None:
    """A lost life ends an episode for the trainer, and no game."""

    class Game(CountingEnv):  # five steps with a reward of 1 each, and a life lost in every second
        def step(self, state: Any, action: Any) -> Any:
            obs, state, reward, done, info = super().step(state, action)
            return obs, state, jnp.float32(1), done, {**info, "lives": 3 - state.step // 2}

    env = EpisodicLife(RecordEpisodeStatistics(Game()))
    _, (*_, done, info) = played(to_gymnax(env), jax.random.key(0), 20)
    done, info = jax.device_get((done, info))
    ended = info["returned_episode"]
    assert ended.sum() == 4 * N and done.sum() > ended.sum()
    np.testing.assert_array_equal(info["returned_episode_returns"][ended], 5)
    np.testing.assert_array_equal(info["returned_episode_lengths"][4:], 5)


@pytest.mark.slow
def test_masks_are_those_of_the_next_step() -> None:
    bridge, batch = to_gymnax(MaskedEnv()), VecEnv(MaskedEnv(), N)
    _, (_, state, *_, done, info) = played(bridge, jax.random.key(0), 20)
    mask = jax.jit(jax.vmap(batch.action_mask))(state.env_state)
    mask, done, info = jax.device_get((mask, done, info))
    np.testing.assert_array_equal(info["action_mask"], mask)
    # The last action, which is the first number of the observation, is illegal.
    last = np.arange(3) != info["final_observation"][..., :1]
    np.testing.assert_array_equal(info["final_mask"], last)
    np.testing.assert_array_equal(info["final_mask"][~done], mask[~done])


@pytest.mark.slow
def test_params_are_live(compile_counter: Any) -> None:
    """64 environments that differ in gravity, in one program; and a second training."""
    bridge = to_gymnax(CartPole())
    gravities = jnp.linspace(1.0, 64.0, 64)

    @jax.jit
    def train(params: Any) -> Any:
        def one(state: Any, _: Any) -> Any:
            obs, state, *rest = bridge.step(jax.random.key(0), state, jnp.int32(1), params)
            return state, (obs, *rest)

        return jax.lax.scan(one, bridge.reset(jax.random.key(0), params)[1], length=60)[1]

    vary = lambda x: bridge.default_params.replace(gravity=x)  # noqa: E731
    obs, *_ = jax.vmap(lambda x: train(vary(x)))(gravities)
    alone = to_gymnax(with_config(CartPole(), gravity=gravities[40]))
    _, state = alone.reset(jax.random.key(0))
    for expected in np.asarray(obs)[40]:
        seen, state, *_ = alone.step(jax.random.key(0), state, jnp.int32(1))
        np.testing.assert_allclose(expected, seen, rtol=1e-4, atol=1e-5)
    train(bridge.default_params)
    with compile_counter() as compiled:
        train(bridge.default_params.replace(gravity=3.0, max_steps_in_episode=20))
    assert compiled.count == 0


def test_only_the_slots_that_ended_are_reset() -> None:
    """No reset of all slots: as in `VecEnv`, a loop over chunks of them."""
    bridge = to_gymnax(CartPole())
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 64))
    obs, state = jax.eval_shape(jax.vmap(bridge.reset), keys)
    step = jax.vmap(partial(bridge.step, jax.random.key(0)))
    traced = jax.jit(step).trace(state, jax.ShapeDtypeStruct((64,), jnp.int32))
    program = traced.lower(lowering_platforms=("cpu",)).as_text()
    assert "while" in program and "<64x4xui32>" not in program and "<4x4xui32>" in program


def test_without_auto_reset() -> None:
    env = CountingEnv()
    bridge = to_gymnax(env, version=1)
    _, state = bridge.reset_env(jax.random.key(0))
    steps: list[Any] = []
    for _ in range(5):
        steps.append(bridge.step_env(jax.random.key(0), state, jnp.int32(1)))
        state = steps[-1][1]
    obs, _, _, terminated, info = steps[-1]
    assert int(obs[1]) == 5 and bool(state.env_state.done)
    assert bool(terminated) == bool(info["terminated"])


def test_what_a_trainer_asks() -> None:
    bridge = to_gymnax(CartPole())
    assert bridge.name == "CartPole" and bridge.num_actions == 2
    assert {bridge: 1}[bridge] == 1
    assert bridge.observation_space().shape == (4,) and bridge.action_space().n == 2
    assert "gravity=9.8" in repr(bridge.default_params)
    assert to_gymnax(VectorEnv(VectorConfig(gravity=2.0))).default_params.gravity == 2.0


def test_a_reward_is_one_number() -> None:
    """Of shape (1,) it would become (N, N) in `reward + gamma * value` of N slots."""
    bridge = to_gymnax(envrax.ExpandDims(CountingEnv()))
    _, state = bridge.reset(jax.random.key(0))
    for step in (bridge.step, bridge.step_env, jax.jit(bridge.step)):
        with pytest.raises(ValueError, match="ExpandDims"):
            step(jax.random.key(0), state, jnp.int32(0))


@pytest.mark.parametrize(
    ("call", "error", "noun"),
    [
        (lambda: to_gymnax(VecEnv(CartPole(), 2)), TypeError, "JaxEnv"),  # type: ignore[arg-type]
        (lambda: to_gymnax(OnTheHost(2)), TypeError, "JaxEnv"),  # type: ignore[arg-type]
        (lambda: to_gymnax(CartPole(), version=2), ValueError, "version"),
        (lambda: to_gymnax(CartPole()).default_params.replace(gravty=1), TypeError, "gravty"),
        (lambda: to_gymnax(CartPole()).default_params.mass, AttributeError, "mass"),
        (lambda: to_gymnax(CartPole()).reset(jax.random.key(0), {"x": 1}), TypeError, "params"),
    ],
)
def test_errors(call: Any, error: Any, noun: str) -> None:
    with pytest.raises(error, match=noun):
        call()
