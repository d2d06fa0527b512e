"""`StartStates`: where episodes begin, with which keys, and refusals."""

import pickle
from functools import partial
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CoinEnv, CoinState, CounterEnv, NestedEnv, VectorConfig, VectorEnv
from helpers import assert_trees_equal, plain, slow_but
from reset_after_envs import CountEpisodes
from wrapper_rows import draw

from envrax import (
    EpisodeDiscount,
    RecordEpisodeStatistics,
    StartStates,
    StickyAction,
    TimeLimit,
    VecEnv,
    evaluate,
    rollout,
    start,
)
from envrax.autoreset import Compact, Select
from envrax.testing import check_env

N = 4


def saved(env: Any, n: int = N, seed: int = 9) -> Any:
    """The first observations and states of `n` episodes."""
    return jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(seed), n))


def from_buffer(env: Any, buffer: Any = None) -> Any:
    return StartStates(env, partial(draw, saved(env) if buffer is None else buffer))


def rngs(state: Any) -> list[np.ndarray]:
    """`rng` of every layer, the outermost first."""
    below = rngs(state.env_state) if hasattr(state, "env_state") else []
    return [plain(state.rng), *below]


def test_two_episodes_from_one_entry_differ_and_every_layer_has_the_same_key() -> None:
    inner = StickyAction(TimeLimit(CoinEnv(), max_steps=9), repeat_action_probability=0.5)
    entry = jax.tree.map(lambda x: x[0], saved(inner))
    env = RecordEpisodeStatistics(StartStates(inner, lambda rng: entry))
    states = [env.reset(jax.random.key(seed))[1] for seed in range(2)]
    keys = [rngs(state) for state in states]
    for own in keys:
        assert len(own) == 5 and all((key == own[0]).all() for key in own)
    assert (keys[0][0] != keys[1][0]).any()
    assert (keys[0][0] != plain(entry[1].rng)).any()
    # And so in the next episode of a slot, by the rule of auto-reset.
    again = env.reset(jax.random.split(states[0].rng)[0])[1]
    assert (rngs(again)[0] != keys[0][0]).any()
    assert_trees_equal(
        states[0].env_state.env_state.env_state.env_state.world, entry[1].env_state.env_state.world
    )


@pytest.mark.parametrize("strategy", slow_but(Compact(2), values=[Select(), Compact(2)]))
def test_episodes_begin_in_entries_of_the_buffer_and_a_third_value_tells_it(strategy: Any) -> None:
    """Of the episode that a step belongs to, in its last step too; a number is an array."""
    inner = CoinEnv()
    buffer = saved(inner)

    def sample(rng: jax.Array) -> Any:
        obs, state = draw(buffer, rng)
        return obs, state, {"obs": obs, "two": 2}

    env = StartStates(inner, sample)
    batch = VecEnv(RecordEpisodeStatistics(env), 3, autoreset=strategy)
    play = jax.jit(lambda rng: rollout(batch, None, start(batch, rng), 60)[1])
    steps = play(jax.random.key(0))
    told, done, obs = jax.tree.map(np.asarray, (steps.info["start"], steps.done, steps.obs))
    assert done.sum() > 3 and told["two"].dtype == np.int32 and (told["two"] == 2).all()
    first = np.concatenate([np.full((1, 3), True), done[:-1]])
    begun = obs[first]
    assert (told["obs"][first] == begun).all()
    which = (begun[:, None] == np.asarray(buffer[0])[None]).all(axis=2)
    assert which.any(axis=1).all() and which.any(axis=0).all()  # each entry is used, no other
    assert (told["obs"][:-1] == told["obs"][1:])[~done[:-1]].all()

    twice = StartStates(env, lambda rng: (*env.reset(rng), 0))
    _, state = jax.eval_shape(twice.reset, jax.random.key(0))
    with pytest.raises(ValueError, match="'start'"):
        jax.eval_shape(twice.step, state, jnp.ones(2, jnp.float32))


@pytest.mark.slow
def test_gradients_reach_the_buffer() -> None:
    env = VectorEnv(VectorConfig(max_steps=2, gravity=0.0))
    _, states = saved(env)

    def total(pos: jax.Array) -> jax.Array:
        batch = VecEnv(from_buffer(env, (pos, states.replace(pos=pos))), 3, autoreset=Compact(2))
        steps = rollout(batch, None, start(batch, jax.random.key(0)), 6)[1]
        return jnp.sum(steps.reward)

    pos = jnp.arange(1, 3 * N + 1, dtype=jnp.float32).reshape(N, 3)
    gradient = np.asarray(jax.jit(jax.grad(total))(pos))
    # Without gravity a position shrinks by a tenth in each of an episode's two steps.
    once = -2 * np.asarray(pos) * (0.9**2 + 0.9**4)
    times = gradient / once
    np.testing.assert_allclose(times, times.round(), atol=1e-4)
    assert times[:, 0].round().sum() == 9  # nine episodes in all


@pytest.mark.slow
def test_evaluate_begins_in_the_states_too() -> None:
    env = CounterEnv()
    _, states = saved(env)
    late = states.replace(step=jnp.full(N, 3, jnp.int32))
    late_env = from_buffer(env, (saved(env)[0], late))
    assert evaluate(late_env, None, jax.random.key(0), 6).lengths.tolist() == [2] * 6
    assert evaluate(VecEnv(late_env, 2), None, jax.random.key(0), 6).lengths.tolist() == [2] * 6


def test_the_clock_of_the_environment_goes_on_and_the_episode_counts_from_0() -> None:
    env = CounterEnv()  # five steps
    obs, state = env.reset(jax.random.key(0))
    late = state.replace(step=jnp.int32(3), done=jnp.bool_(True))
    env = EpisodeDiscount(StartStates(env, lambda rng: (obs, late)))
    _, at = env.reset(jax.random.key(1))
    assert (int(at.step), int(at.env_state.step)) == (0, 3)
    assert not bool(at.done) and not bool(at.env_state.done)
    for step, discount in ((1, 1.0), (2, 0.0)):
        _, at, _, got, _ = env.step(at, 1)
        assert (int(at.step), float(got), int(at.env_state.step)) == (step, discount, 3 + step)
    assert bool(at.done)


def test_numbers_and_legacy_keys_are_taken() -> None:
    """A sampler that writes Python numbers; states saved with a key of the other kind."""
    env = VectorEnv()
    _, typed = env.reset(jax.random.key(0))
    wrapped = StartStates(env, lambda rng: (np.ones(3, np.float32), typed.replace(done=False)))
    legacy = jax.random.PRNGKey(0)
    _, state = wrapped.reset(legacy)
    assert state.rng.dtype == state.env_state.rng.dtype == np.uint32
    assert not any(getattr(x, "weak_type", False) for x in jax.tree.leaves(state))


@pytest.mark.slow
def test_further_keys_are_replaced() -> None:
    inner = StickyAction(NestedEnv(), repeat_action_probability=0.5)
    reset = jax.jit(lambda rng: from_buffer(inner).reset(rng)[1].env_state.env_state)
    for make_key in (jax.random.key, jax.random.PRNGKey):
        states = [reset(make_key(i)) for i in range(2)]
        for name in ("rng", "key"):
            one, other = (plain(getattr(state, name)) for state in states)
            assert (one != other).any()
        assert (plain(states[0].rng) != plain(states[0].key)).any()


@chex.dataclass
class SeededState(CoinState):
    seed: jax.Array


class SeededEnv(CoinEnv):
    """Keeps the seed of its level as `key_data`."""

    def reset(self, rng: jax.Array) -> Any:
        obs, state = super().reset(rng)
        return obs, SeededState(**state, seed=jax.random.key_data(rng))


def test_the_data_of_a_key_stay() -> None:
    buffer = saved(SeededEnv())
    _, state = jax.jit(from_buffer(SeededEnv(), buffer).reset)(jax.random.key(0))
    assert (buffer[1].seed == state.env_state.seed).all(axis=1).any()


@pytest.mark.slow
def test_it_keeps_the_rules_of_an_environment() -> None:
    check_env(RecordEpisodeStatistics(from_buffer(NestedEnv())))


BAD: dict[str, Any] = {
    r"float32\[4\]": lambda obs, state: (obs, state.replace(pos=jnp.zeros(4, jnp.float32))),
    r"float16\[3\]": lambda obs, state: (obs.astype(jnp.float16), state),
    "state.pos": lambda obs, state: RecordEpisodeStatistics(VectorEnv()).reset(jax.random.key(0)),
    r"float32\[4, 3\]": lambda obs, state: saved(VectorEnv()),
    "tuple": lambda obs, state: state,
    "EnvState": lambda obs, state: (obs, obs),
    "object": lambda obs, state: (object(), state),
}


@pytest.mark.parametrize("noun", BAD)
def test_what_is_not_as_reset_returns_it_is_refused(noun: str) -> None:
    env = VectorEnv()
    wrapped = StartStates(env, lambda rng: BAD[noun](*env.reset(rng)))
    with pytest.raises(TypeError, match=noun):
        jax.eval_shape(wrapped.reset, jax.random.key(0))


def test_it_pickles_where_sample_does() -> None:
    inner = CoinEnv()
    # Typed keys cannot be pickled by JAX 0.9.
    buffer = jax.jit(jax.vmap(inner.reset))(jax.random.split(jax.random.PRNGKey(9), N))
    env = from_buffer(inner, buffer)
    copy = pickle.loads(pickle.dumps(env))
    assert_trees_equal(*jax.jit(lambda rng: (copy.reset(rng), env.reset(rng)))(jax.random.key(0)))


def test_what_carries_over_goes_around_it() -> None:
    inner = CountEpisodes(CoinEnv())
    with pytest.raises(TypeError, match="reset_after"):
        StartStates(inner, inner.reset)
    env = CountEpisodes(StartStates(CoinEnv(), CoinEnv().reset))
    assert int(env.reset_after(env.reset(jax.random.key(0))[1])[1].episodes) == 2
