"""Which strategy is chosen, by what a reset computes, and how many resets each one makes."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from fakes import CoinConfig, CoinEnv, PixelEnv, VectorConfig, VectorEnv
from helpers import assert_trees_close, assert_trees_equal, slow_but

from envrax import VecEnv
from envrax.autoreset import Compact, Select, choose
from envrax.autoreset.choice import numbers_computed
from envrax_classic import CartPole, Maze


def numbers(function: Any, *args: Any) -> int:
    return numbers_computed(jax.make_jaxpr(function)(*args).jaxpr)


X = jnp.ones(64, jnp.float32)


def test_what_counts_is_the_elements_of_every_result() -> None:
    assert numbers(lambda x: x + x, X) == 64
    assert numbers(lambda x: jnp.sum(x * x), X) == 64 + 1
    assert numbers(lambda x: jnp.split(x, 2), X) == 64
    assert numbers(lambda rng: jax.random.bits(rng, (1000,)), jax.random.key(0)) == 1000


def test_what_depends_on_no_argument_is_left_out() -> None:
    assert numbers(lambda x: x + jnp.arange(64.0) ** 2, X) == 64
    assert numbers(lambda x: jnp.zeros((8, 8)).at[2, 2].set(1.0), X) == 0
    assert numbers(lambda: jax.random.bits(jax.random.key(0), (1000,))) == 0

    def helper(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return x + x, jnp.sin(y)

    def calls(x: jax.Array) -> jax.Array:
        doubled, sines = jax.jit(helper)(x, jnp.zeros(640))
        return doubled * sines[:64]  # of which the slice depends on nothing

    assert numbers(calls, X) == 64 + 64


@pytest.mark.parametrize("length", [1, 7, 1000])
def test_a_loop_counts_once_for_every_iteration(length: int) -> None:
    def loop(x: jax.Array) -> Any:
        return jax.lax.scan(lambda x, _: (x + x, None), x, length=length)[0]

    assert numbers(loop, X) == 64 * length


def test_a_loop_of_unknown_length_counts_a_thousand_times() -> None:
    def loop(x: jax.Array) -> Any:
        return jax.lax.while_loop(lambda x: x[0] < 9.0, lambda x: x + x, x)

    assert 64_000 <= numbers(loop, X) < 70_000


def test_of_branches_the_largest_counts() -> None:
    def branches(i: jax.Array, x: jax.Array) -> Any:
        return jax.lax.switch(i, [lambda x: x, lambda x: jnp.sin(x) + x, jnp.sin], x)

    assert numbers(branches, jnp.int32(0), X) == pytest.approx(2 * 64, abs=10)


def test_transforms_are_seen_through() -> None:
    assert numbers(jax.jit(jnp.sin), X) == 64
    assert numbers(jax.checkpoint(jnp.sin), X) == 64
    assert numbers(jax.vmap(jnp.sin), X) == 64
    assert numbers(jax.nn.relu, X) == 64  # a custom_jvp inside a jit


def test_a_call_to_the_host_is_expensive() -> None:
    def call(x: jax.Array) -> Any:
        return jax.pure_callback(lambda x: x, x, x)

    assert numbers(call, jnp.float32(0)) > 100_000


def coins(kind: str) -> CoinEnv:
    return CoinEnv(CoinConfig(reset_kind=kind))


CHOICES = {
    # (kind of reset, slots, backend): what the table of `choose` says
    ("plain", 65_536, "cpu"): Compact(4096, 512),
    ("plain", 1024, "cpu"): Compact(64, 8),
    ("plain", 1023, "cpu"): Compact(63),  # a second size is not worth its compilation
    ("plain", 4, "cpu"): Compact(1),
    ("loop", 65_536, "cpu"): Compact(512),
    ("loop", 1024, "cpu"): Compact(8),
    ("loop", 64, "cpu"): Compact(1),
    ("plain", 1024, "gpu"): Select(),
    ("plain", 1_000_000, "tpu"): Select(),
    ("loop", 1024, "gpu"): Compact(64),
}


@pytest.mark.parametrize(("kind", "n", "backend"), CHOICES)
def test_the_choice_is_that_of_the_table(kind: str, n: int, backend: str) -> None:
    assert choose(coins(kind), n, backend) == CHOICES[kind, n, backend]


def test_common_environments_are_cheap_to_reset_and_world_generators_expensive() -> None:
    assert choose(CartPole(), 1024, "gpu") == choose(PixelEnv(), 1024, "gpu") == Select()
    assert choose(Maze(), 1024, "gpu") == Compact(64)


def resets_done(strategy: Any, ended: jax.Array) -> int:
    """How many resets a batch, or several under `vmap`, computes. The result is a select's."""
    done: list[Any] = []

    def count(bits: Any) -> Any:
        done.append(bits)
        return bits

    def reset_one(consts: list[Any], rng: jax.Array) -> Any:
        bits = jax.random.bits(rng)
        return jax.pure_callback(count, bits, bits, vmap_method="sequential")

    def replace(*args: Any) -> Any:
        return strategy(reset_one, [], *args)

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
    ("ended", "resets"),
    [
        (5, 5),
        (7, 8),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((0, 0), (1, 1), (2, 2), (3, 4), (4, 4), (15, 16))
        ),
    ],
)
def test_no_more_is_reset_than_the_chunks_hold(ended: int, resets: int) -> None:
    """Fours, and ones for what is not more than half of that."""
    assert resets_done(Compact(4, 1), jnp.arange(16) < ended) == resets


@pytest.mark.parametrize(
    ("strategy", "ended", "resets"),
    [
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((Compact(4), 3, 16), (Compact(1), 3, 4), (Compact(4, 1), 3, 4))
        ),
        (Compact(4, 1), 9, 16),
    ],
)
def test_chunks_grow_with_the_seeds(strategy: Compact, ended: int, resets: int) -> None:
    """For four seeds a fair share of a batch becomes four times as large, a single slot twice."""
    spread = (jnp.arange(64) * 7 % 64).reshape(4, 16) < ended
    assert resets_done(strategy, spread) == resets


def test_by_default_a_sixteenth_is_reset_at_once() -> None:
    assert resets_done(Compact(), jnp.arange(240) == 7) == 15


@pytest.mark.parametrize("strategy", [Compact(3, 1), Select()])
def test_a_strategy_is_a_value(strategy: Any) -> None:
    assert hash(strategy) == hash(dataclasses.replace(strategy))
    with pytest.raises(dataclasses.FrozenInstanceError):
        strategy.chunk = 1


def test_the_choice_can_be_asked_for_and_overridden() -> None:
    assert VecEnv(CoinEnv(), 64).autoreset == choose(CoinEnv(), 64)
    assert VecEnv(CoinEnv(), 64, autoreset=Compact(3)).autoreset == Compact(3)
    assert VecEnv(CoinEnv(), 64, autoreset=Select()).autoreset == Select()


@pytest.mark.parametrize("asked_first", slow_but(True, values=[True, False]))
def test_what_is_reported_is_what_the_step_does(asked_first: bool, monkeypatch: Any) -> None:
    """Whatever the environment has become since the choice was made."""
    done: list[Any] = []
    merge = Compact.__call__

    def noted(self: Compact, *args: Any) -> Any:
        done.append(self)
        return merge(self, *args)

    monkeypatch.setattr(Compact, "__call__", noted)
    env = coins("loop")
    vec_env = VecEnv(env, 256, jit_compile=not asked_first)
    actions = jnp.zeros((256, 2), jnp.float32)
    _, state = vec_env.reset(jax.random.PRNGKey(0))
    if asked_first:
        assert vec_env.autoreset == Compact(2)
    else:
        vec_env.step(state, actions)
    env.config.reset_kind = "plain"
    vec_env.step(state, actions)
    assert {*done, vec_env.autoreset} == {Compact(2)}


@pytest.mark.slow
@pytest.mark.parametrize("batched_config", [False, True])
@pytest.mark.parametrize("strategy", [Compact(1), Compact(4, 1)])
def test_batches_of_batches_reset_as_one(batched_config: bool, strategy: Compact) -> None:
    """Several seeds under an outer vmap, also where each has a config of its own."""
    rates = jnp.asarray([0.1, 0.5, 0.9], jnp.float32)

    def episode(rng: jax.Array, rate: Any, strategy: Any) -> Any:
        vec_env = VecEnv(CoinEnv(CoinConfig(end_rate=rate)), 5, autoreset=strategy)
        actions = jnp.ones((5, 2), jnp.float32)
        _, state = vec_env.reset(rng)
        return jax.lax.scan(lambda s, _: vec_env.step(s, actions)[1::-1], state, length=6)

    def all_seeds(strategy: Any) -> Any:
        rngs = jax.random.split(jax.random.key(0), 3)
        if batched_config:
            return jax.jit(jax.vmap(lambda r, c: episode(r, c, strategy)))(rngs, rates)
        return jax.jit(jax.vmap(lambda r: episode(r, 0.5, strategy)))(rngs)

    assert_trees_equal(all_seeds(strategy), all_seeds(Select()))


def test_batches_whose_resets_differ_are_reset_each_by_itself() -> None:
    """A value of the config that the reset uses, mapped over: a select for every batch."""

    def episode(gravity: Any, strategy: Any) -> Any:
        vec_env = VecEnv(
            VectorEnv(VectorConfig(max_steps=3, gravity=gravity)), 5, autoreset=strategy
        )
        _, state = vec_env.reset(jax.random.key(0))
        actions = jnp.ones(5, jnp.int32)
        return jax.lax.scan(lambda s, _: vec_env.step(s, actions)[1::-1], state, length=6)

    def all_batches(strategy: Any) -> Any:
        gravities = jnp.asarray([0.1, 0.5, 0.9], jnp.float32)
        return jax.jit(jax.vmap(lambda gravity: episode(gravity, strategy)))(gravities)

    assert_trees_close(all_batches(Compact(2)), all_batches(Select()), rtol=1e-6)


def test_one_loop_for_all_seeds() -> None:
    """No select of the whole carry on every turn, which a batched loop would be."""
    vec_env = VecEnv(CoinEnv(), 8, jit_compile=False)
    states = jax.vmap(vec_env.reset)(jax.random.split(jax.random.key(0), 3))[1]
    actions = jnp.ones((3, 8, 2), jnp.float32)
    program = str(jax.make_jaxpr(jax.vmap(vec_env.step))(states, actions))
    assert program.count(" cond[") == 1
    assert "24,4" in program  # the world of all slots, as one batch
