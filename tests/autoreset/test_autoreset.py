"""Auto-reset equals the plain select inside the vmapped step, whatever transforms it."""

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CoinConfig, CoinEnv, NestedEnv, VectorConfig, VectorEnv
from helpers import assert_trees_close, assert_trees_equal, random_actions, slow_but

from envrax import FrameStackObservation, RecordEpisodeStatistics, TimeLimit, VecEnv, start
from envrax import rollout as rollout_of
from envrax.autoreset import Compact, Select

RATES = (0.0, 0.01, 0.5, 1.0)
STEPS = 12


def reference_step(env: Any, state: Any, actions: Any) -> Any:
    """What the auto-reset promises, as the contract words it."""

    def one(state: Any, action: Any) -> Any:
        obs, state, reward, done, info = env.step(state, action)
        fresh = env.reset(jax.random.split(state.rng)[0])
        kept = jax.tree.map(partial(jnp.where, state.done), fresh, (obs, state))
        return *kept, reward, done, info

    return jax.vmap(one)(state, actions)


def rollout(step: Any, reset: Any, rng: jax.Array, actions: Any) -> Any:
    def body(state: Any, action: Any) -> Any:
        obs, state, reward, done, info = step(state, action)
        return state, (obs, state, reward, done, info)

    obs, state = reset(rng)
    return obs, state, jax.lax.scan(body, state, actions)[1]


def our_rollout(make_env: Any, n: int, strategy: Any) -> Any:
    actions = random_actions(make_env().action_space, (STEPS, n))

    @jax.jit
    def run(rng: jax.Array, *config: Any) -> Any:
        vec_env = VecEnv(make_env(*config), n, autoreset=strategy)
        return rollout(vec_env.step, vec_env.reset, rng, actions)

    return run


@cache
def reference_rollout(make_env: Any, n: int) -> Any:
    actions = random_actions(make_env().action_space, (STEPS, n))

    @jax.jit
    def run(rng: jax.Array, *config: Any) -> Any:
        env = make_env(*config)
        reset = lambda rng: jax.vmap(env.reset)(jax.random.split(rng, n))  # noqa: E731
        return rollout(partial(reference_step, env), reset, rng, actions)

    return run


def both_rollouts(make_env: Any, n: int, strategy: Any, rng: jax.Array, *config: Any) -> Any:
    """One rollout by `VecEnv` and one by the reference, each in a program of its own."""
    ours, theirs = our_rollout(make_env, n, strategy), reference_rollout(make_env, n)
    return ours(rng, *config), theirs(rng, *config)


def coin(end_rate: Any = 0.5, reset_kind: str = "plain") -> CoinEnv:
    return CoinEnv(CoinConfig(end_rate=end_rate, reset_kind=reset_kind))


def stacked(end_rate: Any = 0.5) -> Any:
    return RecordEpisodeStatistics(FrameStackObservation(coin(end_rate), n_stack=2))


def check_equals_select_bitwise(n: int, strategy: Any, key: Any, make_env: Any = coin) -> None:
    ours = our_rollout(make_env, n, strategy)
    theirs = reference_rollout(make_env, n)
    for end_rate in RATES:  # a traced config value: one program for all four
        got = ours(key(n), end_rate)
        assert_trees_equal(got, theirs(key(n), end_rate))
        ended = got[2][3]
        assert ended.mean() == pytest.approx(end_rate, abs=0.3)


def test_equals_select_bitwise_under_stateful_wrappers() -> None:
    check_equals_select_bitwise(16, Compact(3), jax.random.key, stacked)


# A chunk may divide the batch or not, and one that is larger is cut to it.
EVERYWHERE = [(1, Compact(3)), (7, Compact(7)), (7, Select()), (257, Compact(3))]


class RefEnv(VectorEnv):
    """Its reset computes in place, by `jax.new_ref`."""

    in_place = True

    def reset(self, rng: jax.Array) -> Any:
        obs, state = super().reset(rng)
        if self.in_place:
            ref: Any = jax.new_ref(obs)
            ref[...] += 1
            obs = ref[...]
        else:
            obs = obs + 1
        return obs, state.replace(pos=obs)


class ValueEnv(RefEnv):
    in_place = False


@pytest.mark.parametrize("strategy", [None, Select(), Compact(3)])
def test_a_reset_may_compute_in_place(strategy: Any) -> None:
    in_place, by_value = (
        our_rollout(x, 8, strategy)(jax.random.key(0)) for x in (RefEnv, ValueEnv)
    )
    assert_trees_equal(in_place, by_value)
    assert in_place[2][3].any()


class SharedRefEnv(RefEnv):
    """Its reset reads a `jax.Ref` that it did not make."""

    def __init__(self) -> None:
        super().__init__()
        self.one: Any = jax.new_ref(jnp.float32(1))

    def reset(self, rng: jax.Array) -> Any:
        obs, state = VectorEnv.reset(self, rng)
        obs = obs + self.one[...]
        return obs, state.replace(pos=obs)


class MappedEnv(RefEnv):
    """Its reset maps over a mesh of one device."""

    def reset(self, rng: jax.Array) -> Any:
        obs, state = VectorEnv.reset(self, rng)
        mesh = jax.make_mesh((1,), ("all",), axis_types=(jax.sharding.AxisType.Auto,))
        whole: Any = jax.sharding.PartitionSpec()
        add: Any = jax.shard_map(
            lambda x: x + 1, mesh=mesh, in_specs=whole, out_specs=whole, check_vma=False
        )
        obs = add(obs)
        return obs, state.replace(pos=obs)


@pytest.mark.parametrize("kind", [SharedRefEnv, MappedEnv])
@pytest.mark.parametrize("strategy", [None, Select(), Compact(3)])
def test_a_reset_may_read_a_ref_and_map_over_devices(kind: Any, strategy: Any) -> None:
    found, by_value = (our_rollout(x, 8, strategy)(jax.random.key(0)) for x in (kind, ValueEnv))
    assert_trees_equal(found, by_value)


def test_one_environment_whose_reset_computes_in_place_plays_on() -> None:
    played = [
        rollout_of(x(), None, start(x(), jax.random.key(0)), 12)[1] for x in (RefEnv, ValueEnv)
    ]
    assert_trees_equal(*played)
    assert played[0].done.any()


@pytest.mark.slow
@pytest.mark.parametrize(("n", "strategy"), EVERYWHERE)
def test_equals_select_bitwise_everywhere(n: int, strategy: Any) -> None:
    key = jax.random.PRNGKey if n == 257 else jax.random.key
    check_equals_select_bitwise(n, strategy, key)


@pytest.mark.slow
def test_equals_select_on_nested_state_and_observations() -> None:
    ours, theirs = both_rollouts(NestedEnv, 7, Compact(2), jax.random.PRNGKey(3))
    assert_trees_equal(ours, theirs)
    assert ours[2][3].any()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "norm", "matmul"])
def test_equals_select_to_rounding_where_xla_rounds_by_width(kind: str) -> None:
    make_env = partial(coin, reset_kind=kind)
    ours, theirs = both_rollouts(make_env, 64, Compact(3), jax.random.key(0), 0.5)
    assert_trees_close(ours, theirs, rtol=1e-6)


def loss(gravity: Any, strategy: Any, rng: jax.Array, actions: jax.Array) -> jax.Array:
    """Depends on the config through reset and step, over several episodes."""
    vec_env = VecEnv(VectorEnv(VectorConfig(gravity=gravity, max_steps=3)), 7, autoreset=strategy)
    _, _, (obs, state, reward, _, _) = rollout(vec_env.step, vec_env.reset, rng, actions)
    return jnp.sum(reward) + jnp.sum(obs**3) + jnp.sum(state.pos)


@pytest.mark.parametrize("forward", slow_but(False, values=[False, True]))
@pytest.mark.slow
def test_gradient_of_a_config_value_equals_that_of_select(forward: bool) -> None:
    rng = jax.random.key(0)
    actions = random_actions(VectorEnv().action_space, (7, 7))
    gravity = jnp.float32(0.4)

    def gradient(strategy: Any) -> Any:
        target = lambda g: loss(g, strategy, rng, actions)  # noqa: E731
        return jax.jit(jax.jacfwd(target) if forward else jax.grad(target))(gravity)

    ours, theirs = gradient(Compact(2)), gradient(Select())
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    assert np.abs(ours).min() > 0


def test_final_obs_is_what_the_step_gave_transformed_by_every_wrapper() -> None:
    env = FrameStackObservation(VectorEnv(VectorConfig(max_steps=2)), n_stack=2)
    vec_env, step = VecEnv(env, 3, final_obs=True), jax.jit(jax.vmap(env.step))
    _, state = vec_env.reset(jax.random.key(0))
    actions = jnp.asarray([0, 1, 2], jnp.int32)
    assert "final_obs" not in jax.eval_shape(VecEnv(env, 3).step, state, actions)[4]
    for t in range(1, 5):
        expected = step(state, actions)[0]
        obs, state, *_, infos = vec_env.step(state, actions)
        np.testing.assert_allclose(infos["final_obs"], expected, rtol=1e-6)
        assert np.array_equal(infos["final_obs"], obs) == (t % 2 == 1)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [Select(), Compact(2)])
def test_no_key_counts_as_used_twice(strategy: Any) -> None:
    """Nor does one that a wrapper keeps too."""
    env = RecordEpisodeStatistics(TimeLimit(coin(), 2))
    with jax.debug_key_reuse(True):
        vec_env = VecEnv(env, 4, autoreset=strategy)
        _, state = vec_env.reset(jax.random.key(0))
        for _ in range(3):
            _, state, *_ = vec_env.step(state, jnp.ones((4, 2), jnp.float32))
