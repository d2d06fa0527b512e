"""Which way of auto-reset is chosen: by cost, by batch, by backend, and never by chance."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from fakes import CoinConfig, CoinEnv, CounterEnv, VectorConfig, VectorEnv
from helpers import assert_trees_close, assert_trees_equal

from envrax import JitWrapper, VecEnv
from envrax.autoreset import Compact, Select, choose
from envrax.autoreset.choice import operations
from envrax_classic import CartPole


def cost(function: Any, *args: Any) -> float:
    return operations(jax.make_jaxpr(function)(*args).jaxpr)


X = jnp.ones(64, jnp.float32)


def test_cost_counts_elements() -> None:
    assert cost(lambda x: x + x, X) == 64
    assert cost(lambda x: jnp.sum(x * x), X) == 128
    assert cost(lambda x: jnp.dot(x, x), X) == 128
    assert cost(jnp.sin, X) > 5 * cost(lambda x: x + x, X)


def test_cost_of_randomness_is_that_of_its_bits() -> None:
    rng = jax.random.key(0)
    one = cost(lambda r: jax.random.bits(r, (1,)), rng)
    many = cost(lambda r: jax.random.bits(r, (1000,)), rng)
    assert many == 1000 * one > 10_000
    assert cost(lambda r: jax.random.bits(r, (1,)), jax.random.PRNGKey(0)) >= one


@pytest.mark.parametrize("length", [1, 7, 1000])
def test_cost_of_a_loop_is_that_of_its_turns(length: int) -> None:
    def loop(x: jax.Array) -> Any:
        return jax.lax.scan(lambda x, _: (x + x, None), x, length=length)[0]

    assert cost(loop, X) == 64 * length


def test_a_loop_of_unknown_length_is_dear() -> None:
    def loop(x: jax.Array) -> Any:
        return jax.lax.while_loop(lambda x: jnp.max(x) < 9.0, lambda x: x + x, x)

    assert cost(loop, X) > 50 * cost(lambda x: x + x, X)


def test_of_branches_the_dearest_counts() -> None:
    def branches(x: jax.Array) -> Any:
        return jax.lax.switch(1, [lambda x: x, jnp.sin, lambda x: x + x], x)

    def of_runtime(i: jax.Array, x: jax.Array) -> Any:
        return jax.lax.switch(i, [lambda x: x, jnp.sin, lambda x: x + x], x)

    assert cost(of_runtime, jnp.int32(0), X) == pytest.approx(cost(jnp.sin, X), abs=10)
    assert cost(branches, X) <= cost(of_runtime, jnp.int32(0), X)


def test_cost_of_a_convolution_is_that_of_its_products() -> None:
    image, kernel = jnp.ones((1, 3, 8, 8), jnp.float32), jnp.ones((5, 3, 3, 3), jnp.float32)
    convolved = cost(lambda x, w: jax.lax.conv(x, w, (1, 1), "VALID"), image, kernel)
    assert convolved == 2 * (5 * 6 * 6) * (3 * 3 * 3)  # a product and a sum for each


def test_cost_of_a_sort_is_that_of_its_comparisons() -> None:
    assert cost(jnp.sort, X) == pytest.approx(5 * 64 * 6, rel=0.01)  # some five for each


def test_a_root_costs_what_a_division_does() -> None:
    assert cost(jnp.sqrt, X) == cost(lambda x: x / 3, X) > cost(lambda x: x + x, X)


def test_costs_are_seen_through_every_transform() -> None:
    plain = cost(jnp.sin, X)
    assert cost(jax.jit(jnp.sin), X) == plain
    assert cost(jax.checkpoint(jnp.sin), X) == plain
    assert cost(jax.vmap(jnp.sin), X) == plain
    assert cost(jax.nn.relu, X) == 64  # a custom_jvp inside a jit


def coins(kind: str) -> CoinEnv:
    return CoinEnv(CoinConfig(reset_kind=kind))


def test_a_dearer_reset_is_done_in_smaller_chunks() -> None:
    cheap, dear = (choose(coins(kind), 65_536, "cpu") for kind in ("plain", "loop"))
    assert isinstance(cheap, Compact) and isinstance(dear, Compact)
    assert cheap.chunk is not None and dear.chunk is not None
    assert 1 <= dear.chunk < cheap.chunk


@pytest.mark.parametrize("n", [1024, 65_536])
def test_a_chunk_of_dear_resets_is_a_power_of_two_near_its_root(n: int) -> None:
    """Of `2 * ends * turn / cost`, see `choose_for`."""
    chosen, of_one = choose(coins("loop"), n, "cpu"), cost(coins("loop").reset, jax.random.key(0))
    assert isinstance(chosen, Compact) and chosen.chunk is not None
    assert chosen.chunk.bit_count() == 1
    assert 0.6 < chosen.chunk / (1000 * n / of_one) ** 0.5 < 1.6


def test_little_that_is_left_of_a_large_batch_is_done_in_small_chunks() -> None:
    large, small = (choose(coins("plain"), n, "cpu") for n in (65_536, 64))
    assert isinstance(large, Compact) and large.chunk is not None and large.rest is not None
    assert 1 <= large.rest < large.chunk
    assert isinstance(small, Compact) and small.rest is None  # compiled once


@pytest.mark.parametrize("n", [1, 2, 15, 64, 100_000])
@pytest.mark.parametrize("kind", ["plain", "loop"])
def test_a_chunk_fits_the_batch(n: int, kind: str) -> None:
    chosen = choose(coins(kind), n, "cpu")
    assert isinstance(chosen, Compact)
    assert chosen.chunk is not None and 1 <= chosen.chunk <= max(1, n // 16)


def test_an_accelerator_resets_all_slots_where_that_is_little_work() -> None:
    assert choose(VectorEnv(), 64, "gpu") == choose(VectorEnv(), 64, "tpu") == Select()
    assert isinstance(choose(VectorEnv(), 10_000_000, "gpu"), Compact)


def test_the_choice_for_a_cheap_reset() -> None:
    assert choose(CartPole(), 4096, "cpu") == Compact(256, 32)
    assert choose(CartPole(), 1024, "cpu") == Compact(64, 8)
    assert choose(CartPole(), 1023, "cpu") == Compact(63)
    assert choose(CartPole(), 4, "cpu") == Compact(1)


def resets_done(way: Any, ended: jax.Array) -> int:
    """How many resets a batch, or several under `vmap`, computes; the result is a select's."""
    done: list[Any] = []

    def count(bits: Any) -> Any:
        done.append(bits)
        return bits

    def fresh(consts: list[Any], rng: jax.Array) -> Any:
        bits = jax.random.bits(rng)
        return jax.pure_callback(count, bits, bits, vmap_method="sequential")

    def replace(*args: Any) -> Any:
        return way(fresh, [], *args)

    rngs, kept = (
        jax.random.split(jax.random.key(0), ended.shape),
        jnp.zeros(ended.shape, jnp.uint32),
    )
    got = jax.jit(jax.vmap(replace) if ended.ndim > 1 else replace)(rngs, ended, kept)
    bits = jax.random.bits
    new = (jax.vmap(jax.vmap(bits)) if ended.ndim > 1 else jax.vmap(bits))(rngs)
    assert_trees_equal(got, jnp.where(ended, new, kept))
    return len(done)


@pytest.mark.parametrize(
    ("ended", "resets"), [(0, 0), (1, 1), (2, 2), (3, 4), (4, 4), (5, 5), (7, 8), (15, 16)]
)
def test_no_more_is_reset_than_the_chunks_hold(ended: int, resets: int) -> None:
    """Fours, and ones for what is not more than half of that."""
    assert resets_done(Compact(4, 1), jnp.arange(16) < ended) == resets


@pytest.mark.parametrize(
    ("way", "ended", "resets"),
    [(Compact(4), 3, 16), (Compact(1), 3, 4), (Compact(4, 1), 3, 4), (Compact(4, 1), 9, 16)],
)
def test_chunks_grow_with_the_seeds(way: Compact, ended: int, resets: int) -> None:
    """For four seeds a fair share of a batch becomes four times as large, a single slot twice."""
    spread = (jnp.arange(64) * 7 % 64).reshape(4, 16) < ended
    assert resets_done(way, spread) == resets


def test_by_default_a_sixteenth_is_reset_at_once() -> None:
    assert resets_done(Compact(), jnp.arange(240) == 7) == 15


@pytest.mark.parametrize("way", [Compact(3, 1), Select()])
def test_a_way_is_a_value(way: Any) -> None:
    assert hash(way) == hash(dataclasses.replace(way))
    with pytest.raises(dataclasses.FrozenInstanceError):
        way.chunk = 1


def test_the_choice_can_be_asked_for_and_overridden() -> None:
    assert VecEnv(CoinEnv(), 64).autoreset == choose(CoinEnv(), 64)
    assert VecEnv(CoinEnv(), 64, autoreset=Compact(3)).autoreset == Compact(3)
    assert VecEnv(CoinEnv(), 64, autoreset=Select()).autoreset == Select()


@pytest.mark.parametrize("key", [jax.random.key, jax.random.PRNGKey])
def test_what_is_said_is_what_is_done(key: Any, monkeypatch: Any) -> None:
    done: list[Any] = []
    replace = Compact.__call__

    def noted(self: Compact, *args: Any) -> Any:
        done.append(self)
        return replace(self, *args)

    monkeypatch.setattr(Compact, "__call__", noted)
    vec_env = VecEnv(JitWrapper(CounterEnv(), pre_warm=False), 48, jit_compile=False)
    _, state = vec_env.reset(key(0))
    vec_env.step(state, jnp.zeros(48, jnp.int32))
    assert done == [vec_env.autoreset]


@pytest.mark.parametrize("batched_config", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("way", [pytest.param(Compact(1), marks=pytest.mark.slow), Compact(4, 1)])
def test_batches_of_batches_reset_as_one(batched_config: bool, way: Compact) -> None:
    """Several seeds under an outer vmap, also where each has a config of its own."""
    rates = jnp.asarray([0.1, 0.5, 0.9], jnp.float32)

    def episode(rng: jax.Array, rate: Any, way: Any) -> Any:
        vec_env = VecEnv(CoinEnv(CoinConfig(end_rate=rate)), 5, autoreset=way)
        actions = jnp.ones((5, 2), jnp.float32)
        _, state = vec_env.reset(rng)
        return jax.lax.scan(lambda s, _: vec_env.step(s, actions)[1::-1], state, length=6)

    def all_seeds(way: Any) -> Any:
        rngs = jax.random.split(jax.random.key(0), 3)
        if batched_config:
            return jax.jit(jax.vmap(lambda r, c: episode(r, c, way)))(rngs, rates)
        return jax.jit(jax.vmap(lambda r: episode(r, 0.5, way)))(rngs)

    assert_trees_equal(all_seeds(way), all_seeds(Select()))


def test_batches_whose_resets_differ_are_reset_each_by_itself() -> None:
    """A value of the config that the reset uses, mapped over: a select for every batch."""

    def episode(gravity: Any, way: Any) -> Any:
        vec_env = VecEnv(VectorEnv(VectorConfig(max_steps=3, gravity=gravity)), 5, autoreset=way)
        _, state = vec_env.reset(jax.random.key(0))
        actions = jnp.ones(5, jnp.int32)
        return jax.lax.scan(lambda s, _: vec_env.step(s, actions)[1::-1], state, length=6)

    def all_batches(way: Any) -> Any:
        gravities = jnp.asarray([0.1, 0.5, 0.9], jnp.float32)
        return jax.jit(jax.vmap(lambda gravity: episode(gravity, way)))(gravities)

    assert_trees_close(all_batches(Compact(2)), all_batches(Select()), rtol=1e-6)


def test_one_loop_for_all_seeds() -> None:
    """No select of the whole carry on every turn, which a batched loop would be."""
    vec_env = VecEnv(CoinEnv(), 8, jit_compile=False)
    states = jax.vmap(vec_env.reset)(jax.random.split(jax.random.key(0), 3))[1]
    actions = jnp.ones((3, 8, 2), jnp.float32)
    program = str(jax.make_jaxpr(jax.vmap(vec_env.step))(states, actions))
    assert program.count(" cond[") == 1
    assert "24,4" in program  # the world of all slots, as one batch
