"""`StartStates`: where episodes begin, with which keys, and what is refused."""

import pickle
from functools import partial
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CoinEnv, CoinState, CounterEnv, NestedEnv, PixelEnv, VectorConfig, VectorEnv
from helpers import assert_trees_equal, plain, slow_but
from reset_after_envs import CountEpisodes
from wrapper_rows import draw

from envrax import (
    EpisodeDiscount,
    FrameStackObservation,
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


def test_every_episode_begins_in_an_entry_of_the_buffer() -> None:
    env = CoinEnv()
    buffer = saved(env)
    batch = VecEnv(from_buffer(env, buffer), 8)
    at = start(batch, jax.random.key(0))
    _, steps = rollout(batch, None, at, 60)
    begun = np.asarray(steps.obs)[1:][np.asarray(steps.done)[:-1]]
    entries = np.asarray(buffer[0])
    assert len(begun) > 40
    which = (begun[:, None] == entries[None]).all(axis=2)
    assert which.any(axis=1).all()  # each is an entry,
    assert which.any(axis=0).all()  # and all entries are used


@pytest.mark.parametrize("strategy", slow_but(Compact(2), values=[Select(), Compact(2)]))
def test_a_batch_does_what_a_loop_over_one_slot_does(strategy: Any) -> None:
    env = RecordEpisodeStatistics(from_buffer(FrameStackObservation(CoinEnv(), n_stack=2)))
    batch, actions = VecEnv(env, 3, autoreset=strategy), jnp.ones((3, 2), jnp.float32)
    obs, state = batch.reset(jax.random.key(0))
    reset, step = jax.jit(env.reset), jax.jit(env.step)
    alone = [reset(key) for key in jax.random.split(jax.random.key(0), 3)]
    ended = 0
    for _ in range(15):
        obs, state, _, done, _ = batch.step(state, actions)
        for i, (_, one) in enumerate(alone):
            alone[i] = step(one, actions[i])[:2]
            if bool(alone[i][1].done):
                alone[i] = reset(jax.random.split(alone[i][1].rng)[0])
                ended += 1
                assert bool(done[i])
        assert_trees_equal((obs, state), jax.tree.map(lambda *x: jnp.stack(x), *alone))
    assert ended > 3


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


def test_a_traced_buffer_may_change_without_another_compilation() -> None:
    env, traces = VectorEnv(), []

    @jax.jit
    def run(buffer: Any, rng: jax.Array) -> Any:
        traces.append(1)
        batch = VecEnv(from_buffer(env, buffer), 3, autoreset=Compact(2))
        return rollout(batch, None, start(batch, rng), 12)[1].obs

    for seed in range(2):
        buffer = saved(env, seed=seed)
        seen = np.asarray(run(buffer, jax.random.key(0)))
        begun = seen[[0, 5, 10]].reshape(-1, 3)  # an episode takes five steps
        assert (begun[:, None] == np.asarray(buffer[0])[None]).all(axis=2).any(axis=1).all()
    assert len(traces) == 1


@pytest.mark.parametrize("strategy", slow_but(Compact(2), values=[Select(), Compact(2)]))
def test_gradients_reach_the_buffer(strategy: Any) -> None:
    env = VectorEnv(VectorConfig(max_steps=2, gravity=0.0))
    _, states = saved(env)

    def total(pos: jax.Array) -> jax.Array:
        batch = VecEnv(from_buffer(env, (pos, states.replace(pos=pos))), 3, autoreset=strategy)
        steps = rollout(batch, None, start(batch, jax.random.key(0)), 6)[1]
        return jnp.sum(steps.reward)

    pos = jnp.arange(1, 3 * N + 1, dtype=jnp.float32).reshape(N, 3)
    gradient = np.asarray(jax.jit(jax.grad(total))(pos))
    # Without gravity a position shrinks by a tenth in each of an episode's two steps.
    once = -2 * np.asarray(pos) * (0.9**2 + 0.9**4)
    times = gradient / once
    np.testing.assert_allclose(times, times.round(), atol=1e-4)
    assert times[:, 0].round().sum() == 9  # nine episodes in all


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
    for _ in range(3):
        obs, state, *_ = env.step(state, 1)
    env = EpisodeDiscount(StartStates(env, lambda rng: (obs, state.replace(done=jnp.bool_(True)))))
    _, at = env.reset(jax.random.key(1))
    assert (int(at.step), bool(at.done), int(at.env_state.step)) == (0, False, 3)
    assert not bool(at.env_state.done)
    _, at, _, discount, _ = env.step(at, 1)
    assert (int(at.step), float(discount), int(at.env_state.step)) == (1, 1.0, 4)
    _, at, _, discount, _ = env.step(at, 1)
    assert (int(at.step), float(discount), bool(at.done)) == (2, 0.0, True)


def test_numbers_and_legacy_keys_are_taken() -> None:
    """A sampler that writes Python numbers; states saved with a key of the other kind."""
    env = VectorEnv()
    _, typed = env.reset(jax.random.key(0))
    wrapped = StartStates(env, lambda rng: (np.ones(3, np.float32), typed.replace(done=False)))
    legacy = jax.random.PRNGKey(0)
    _, state = wrapped.reset(legacy)
    assert state.rng.dtype == state.env_state.rng.dtype == np.uint32
    assert not any(getattr(x, "weak_type", False) for x in jax.tree.leaves(state))


def test_further_keys_are_replaced() -> None:
    for make_key in (jax.random.key, jax.random.PRNGKey):
        env = from_buffer(RecordEpisodeStatistics(NestedEnv()))
        states = [env.reset(make_key(i))[1].env_state.env_state for i in range(2)]
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
    _, state = from_buffer(SeededEnv(), buffer).reset(jax.random.key(0))
    assert (buffer[1].seed == state.env_state.seed).all(axis=1).any()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [CoinEnv, NestedEnv, PixelEnv, CounterEnv])
def test_it_keeps_the_rules_of_an_environment(kind: Any) -> None:
    check_env(RecordEpisodeStatistics(from_buffer(kind())))


BAD: dict[str, tuple[Any, str]] = {
    "shape": (
        lambda obs, state: (obs, state.replace(pos=jnp.zeros(4, jnp.float32))),
        r"VectorEnv does, float32\[3\] at `state.pos`; got float32\[4\]. Give what `reset`",
    ),
    "dtype": (
        lambda obs, state: (obs.astype(jnp.float16), state),
        r"float32\[3\] at `obs`; got float16\[3\]",
    ),
    "another state": (
        lambda obs, state: (obs, PixelEnv().reset(jax.random.key(0))[1]),
        r"float32\[3\] at `state.pos`; got int32\[1\]",
    ),
    "a wrapper's": (
        lambda obs, state: RecordEpisodeStatistics(VectorEnv()).reset(jax.random.key(0)),
        r"float32\[3\] at `state.pos`; got no such leaf",
    ),
    "a batch": (
        lambda obs, state: saved(VectorEnv()),
        r"float32\[3\] at `obs`; got float32\[4, 3\]",
    ),
    "structure": (lambda obs, state: ({"": obs}, state), "StartStates: expected sample to return"),
    "no tuple": (lambda obs, state: state, r"StartStates: expected sample to return a tuple"),
    "no state": (lambda obs, state: (obs, obs), "StartStates: expected sample to return an EnvS"),
    "no array": (lambda obs, state: (object(), state), "to return arrays and.*object.*at `obs`"),
}


@pytest.mark.parametrize("fault", BAD)
def test_what_is_not_as_reset_returns_it_is_refused(fault: str) -> None:
    spoil, sentence = BAD[fault]
    env = VectorEnv()
    wrapped = StartStates(env, lambda rng: spoil(*env.reset(rng)))
    for batch_or_env in (wrapped, VecEnv(wrapped, 2, jit_compile=False)):
        with pytest.raises(TypeError, match=sentence):
            jax.eval_shape(batch_or_env.reset, jax.random.key(0))


def test_it_pickles_where_sample_does() -> None:
    inner = CoinEnv()
    # Typed keys cannot be pickled by JAX 0.9.
    buffer = jax.vmap(inner.reset)(jax.random.split(jax.random.PRNGKey(9), N))
    env = from_buffer(inner, buffer)
    expected = env.reset(jax.random.key(0))
    copy = pickle.loads(pickle.dumps(env))
    assert_trees_equal(copy.reset(jax.random.key(0)), expected)


@pytest.mark.slow
def test_it_is_the_same_on_several_devices(run_python: Any) -> None:
    assert "equal" in run_python(MESH)


MESH = """
import os
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + (
    " --xla_force_host_platform_device_count=4"
)
import jax, jax.numpy as jnp
from functools import partial
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from fakes import CoinConfig, CoinEnv
from helpers import assert_trees_equal
from wrapper_rows import draw
from envrax import RecordEpisodeStatistics, StartStates, VecEnv
from envrax.autoreset import Compact, Select

env = CoinEnv(CoinConfig(end_rate=0.5))
mesh = jax.make_mesh((4,), ("d",), axis_types=(AxisType.Auto,))

def play(strategy, buffer, keys):
    batch = VecEnv(
        RecordEpisodeStatistics(StartStates(env, partial(draw, buffer))), 2, autoreset=strategy
    )
    out = batch.reset(keys[0])
    def step(carry, _):
        obs, state, reward, done, info = batch.step(carry[1], jnp.ones((2, 2), jnp.float32))
        return (obs, state), (obs, reward, done, state.rng)
    return jax.lax.scan(step, out, length=9)[1]

keys = jax.random.split(jax.random.key(1), 4)
for strategy in (Select(), Compact(1)):
    for spec in (P(), P("d")):
        # One buffer for all devices, or a quarter of it on each.
        size = 4 if spec == P() else 16
        buffer = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), size))
        run = partial(play, strategy)
        sharded = jax.jit(jax.shard_map(
            run, mesh=mesh, in_specs=(spec, P("d")), out_specs=P(None, "d")
        ))(buffer, keys)
        parts = [
            jax.jit(run)(
                buffer if spec == P() else jax.tree.map(lambda x: x[4 * i : 4 * i + 4], buffer),
                keys[i : i + 1],
            )
            for i in range(4)
        ]
        expected = jax.tree.map(lambda *x: jnp.concatenate(x, axis=1), *parts)
        assert_trees_equal(sharded, expected)
        assert sharded[2].any()
print("equal")
"""


def test_what_carries_over_goes_around_it() -> None:
    inner = CountEpisodes(CoinEnv())
    with pytest.raises(TypeError, match="without a `reset_after` of its own"):
        StartStates(inner, inner.reset)
    env = CountEpisodes(StartStates(CoinEnv(), CoinEnv().reset))
    assert int(env.reset_after(env.reset(jax.random.key(0))[1])[1].episodes) == 2
