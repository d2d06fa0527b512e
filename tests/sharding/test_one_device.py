"""`shard` on a mesh of one device, and what it refuses."""

from collections.abc import Callable
from functools import cache
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from batched_fakes import OnTheHost
from fakes import CoinConfig, CoinEnv
from helpers import assert_trees_equal, small_vec

from envrax import (
    DelayObservation,
    FrameStackObservation,
    MultiVecEnv,
    VecEnv,
    make_vec,
    rollout,
    shard,
    start,
)
from envrax.sharding import ShardedEnv
from envrax.testing import check_batched_env
from envrax.wrappers import vector

KEY = jax.random.key(0)


def mesh() -> Any:
    return jax.make_mesh((1,), ("slots",))


def coin(n: int = 4, **options: Any) -> Any:
    return small_vec(CoinEnv(CoinConfig(end_rate=0.5)), n, **options)


@cache
def alone() -> Any:
    return coin()


@cache
def sharded() -> Any:
    return shard(coin(), mesh())


def test_it_computes_what_the_batch_does() -> None:
    plain, batch = alone(), sharded()
    ours, theirs = batch.reset(KEY), plain.reset(KEY)
    actions = np.ones((4, 2), np.float32)
    for _ in range(3):
        assert_trees_equal(ours, theirs)
        ours, theirs = batch.step(ours[1], actions), plain.step(theirs[1], actions)
    assert_trees_equal(batch.slot_state(ours[1], -1), plain.slot_state(theirs[1], 3))
    for name in ("n_slots", "name", "observation_space", "action_space"):
        assert getattr(batch, name) == getattr(plain, name)
    assert type(batch.unwrapped) is CoinEnv


def test_make_vec_takes_a_mesh() -> None:
    batch = make_vec("classic/CartPole-v0", 4, mesh=mesh(), cache_dir=None, max_steps=7)
    assert isinstance(batch, ShardedEnv)
    assert batch.config.max_steps == 7 and batch.num_envs == 4
    plain = make_vec("classic/CartPole-v0", 4, pre_warm=False, max_steps=7)
    assert_trees_equal(batch.reset(KEY), plain.reset(KEY))


def test_around_and_within_a_wrapper_are_the_same() -> None:
    inside = shard(vector.NormalizeReward(coin()), mesh())
    assert isinstance(inside, vector.NormalizeReward) and isinstance(inside.env, ShardedEnv)
    assert repr(inside).startswith("NormalizeReward(ShardedEnv(VecEnv(CoinEnv(")
    assert shard(shard(coin(), mesh()), mesh()).env.name == "CoinEnv"


@chex.dataclass
class CountedState(vector.BatchedWrapperState):
    n: Any


class Doubled(VecEnv[Any, Any, Any, Any]):
    def step(self, state: Any, actions: Any) -> Any:
        obs, *rest = super().step(state, actions)
        return jax.tree.map(lambda x: x * 2, obs), *rest


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: shard(MultiVecEnv([coin()]), mesh()), TypeError, "each member of a fleet"),  # type: ignore[arg-type]
    (lambda: shard(Doubled(CoinEnv(), 4), mesh()), TypeError, "reset"),
    (lambda: shard(OnTheHost(2), mesh()), TypeError, "VecEnv"),
    (lambda: shard(coin(), mesh()).slot_state(coin(8).reset(KEY)[1], 1), ValueError, "4 slots"),
    (
        lambda: shard(coin(), mesh()).step(coin(8).reset(KEY)[1], np.ones((4, 2), np.float32)),
        ValueError,
        "4 slots",
    ),
]


@pytest.mark.parametrize(("call", "error", "noun"), REFUSED)
def test_what_it_refuses(call: Any, error: Any, noun: str) -> None:
    with pytest.raises(error, match=noun):
        call()


class Counted(vector.BatchedWrapper[Any, Any]):
    """A wrapper whose own field begins as a Python number."""

    state_class = CountedState

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        return obs, {"n": 0}

    def on_step(self, obs: Any, state: Any, *rest: Any) -> Any:
        return obs, state.replace(n=state.n + 1), *rest


def test_a_field_may_begin_as_a_python_number() -> None:
    batch = Counted(sharded())
    state = batch.step(batch.reset(KEY)[1], np.ones((4, 2), np.float32))[1]
    assert int(state.n) == 1


@pytest.mark.slow
def test_as_many_slots_as_features() -> None:
    both = (vector.NormalizeObservation(batch) for batch in (sharded(), alone()))
    ours, theirs = (x.step(x.reset(KEY)[1], np.ones((4, 2), np.float32)) for x in both)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5)
    assert ours[1].statistics.mean.sharding.is_fully_replicated


@pytest.mark.parametrize(
    "wrap", [lambda x: x, pytest.param(vector.NormalizeReward, marks=pytest.mark.slow)]
)
def test_a_state_from_elsewhere_goes_on(wrap: Any) -> None:
    batch, plain = wrap(sharded()), wrap(alone())
    _, state = plain.reset(KEY)
    expected = plain.step(state, np.ones((4, 2), np.float32))
    is_key = lambda x: jnp.issubdtype(x.dtype, jax.dtypes.prng_key)  # noqa: E731
    data = jax.tree.map(lambda x: x if is_key(x) else np.asarray(x), state)
    for given in (data, jax.device_put(state, jax.devices()[0])):
        ours = batch.step(given, np.ones((4, 2), np.float32))
        np.testing.assert_allclose(ours[0], expected[0], rtol=1e-6)


def test_rollouts_compile_once(compile_counter: Any) -> None:
    batch = sharded()
    at, _ = rollout(batch, None, start(batch, KEY), 3)
    with compile_counter() as seen:
        for _ in range(2):
            at, _ = rollout(batch, None, at, 3)
    assert seen.count == 0


@pytest.mark.slow
def test_it_conforms() -> None:
    check_batched_env(shard(coin(final_obs=True), mesh()), num_steps=8)


def test_arrays_of_size_0_are_not_mapped_over_devices() -> None:
    # Not every release of JAX runs a program that maps them, so the program is only looked at.
    env = DelayObservation(FrameStackObservation(coin().env, n_stack=1), delay=0)
    batch: Any = shard(VecEnv(env, 4), mesh())
    plain = VecEnv(env, 4)
    obs, state = jax.eval_shape(plain.reset, KEY)
    assert any(x.size == 0 for x in jax.tree.leaves(state))
    actions = jnp.zeros((4, 2))
    mask = jnp.ones(4, bool)
    calls: list[Any] = [
        (batch._reset_slots, KEY),
        (lambda *args: batch._step_slots(*args, batch._options), state, actions),
        (lambda *args: batch._begin_slots(*args, None), mask, state),
    ]
    for function, *args in calls:
        traced, types = jax.make_jaxpr(function, return_shape=True)(*args)
        [mapped] = [eqn for eqn in traced.eqns if eqn.primitive.name == "shard_map"]
        assert mapped.invars and mapped.outvars
        assert all(x.aval.size for x in (*mapped.invars, *mapped.outvars))
        assert jax.tree.structure(types[1]) == jax.tree.structure(state)
        for found, expected in zip(jax.tree.leaves(types[1]), jax.tree.leaves(state), strict=True):
            assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
