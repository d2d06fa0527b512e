"""Which strategy is chosen, and how many resets each one makes."""

from itertools import product
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CoinConfig, CoinEnv, PixelEnv, VectorConfig, VectorEnv
from helpers import assert_trees_close, assert_trees_equal
from jax.sharding import AxisType

from envrax import VecEnv, shard
from envrax.autoreset import Compact, Select, choose
from envrax.classic import CartPole, Maze


def coins(kind: str) -> CoinEnv:
    return CoinEnv(CoinConfig(reset_kind=kind))


class HostResetEnv(CoinEnv):
    def reset(self, rng: jax.Array) -> Any:
        obs, state = super().reset(rng)
        return jax.pure_callback(lambda x: x, obs, obs, vmap_method="sequential"), state


@pytest.mark.parametrize(
    ("kind", "n", "backend", "expected"),
    [
        ("plain", 1024, "cpu", Compact()),
        ("loop", 64, "cpu", Compact(1)),
        ("plain", 1024, "gpu", Select()),
        ("loop", 1024, "gpu", Compact(cond=False)),
    ],
)
def test_the_choice_is_that_of_the_table(kind: str, n: int, backend: str, expected: Any) -> None:
    assert choose(coins(kind), n, backend) == expected


def reset_and_step(kind: str, on_mesh: bool, strategy: Any = None) -> Any:
    env: Any = VecEnv(coins(kind), 64, jit_compile=False, autoreset=strategy)
    if on_mesh:
        env = shard(env, jax.make_mesh((1,), ("x",), axis_types=(AxisType.Auto,)))
    actions = np.ones((64, 2), np.float32)

    def run(seed: jax.Array) -> jax.Array:
        _, state = env.reset(jax.random.key(seed))
        return env.step(state, actions)[1].done

    return jax.jit(run)


LOWERED = [*product(("cpu", "cuda", "tpu"), ("plain", "loop"), (False, True))]
# On a mesh the program is exported, too.
PAIRS = [
    *(("cpu", "loop", True), ("cuda", "plain", True)),
    *(("cuda", "loop", False), ("tpu", "plain", False)),
]


@pytest.mark.parametrize(
    ("platform", "kind", "on_mesh"),
    [pytest.param(*x, marks=() if x in PAIRS else pytest.mark.exhaustive) for x in LOWERED],
)
def test_a_program_has_the_choice_of_the_platform_it_is_lowered_for(
    platform: str, kind: str, on_mesh: bool
) -> None:
    """In an exported program too: this process has a CPU only."""
    seed = jax.ShapeDtypeStruct((), jnp.uint32)

    def loops(program: Any) -> int:
        if on_mesh:
            exported = jax.export.export(program, platforms=[platform])(seed).mlir_module()
            return exported.count("stablehlo.while")
        lowered = program.trace(seed).lower(lowering_platforms=(platform,)).as_text()
        return lowered.count("stablehlo.while")

    chosen = choose(coins(kind), 64, "cpu" if platform == "cpu" else "gpu")
    program = reset_and_step(kind, on_mesh)
    assert loops(program) == loops(reset_and_step(kind, on_mesh, chosen))


def test_common_environments_are_cheap_to_reset_and_world_generators_expensive() -> None:
    assert choose(CartPole(), 1024, "gpu") == choose(PixelEnv(), 1024, "gpu") == Select()
    expensive = Compact(cond=False)
    assert choose(Maze(), 1024, "gpu") == choose(HostResetEnv(), 1024, "gpu") == expensive


def resets_done(strategy: Any, *cases: np.ndarray) -> list[int]:
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

    shape = cases[0].shape
    rngs, kept = jax.random.split(jax.random.key(0), shape), np.zeros(shape, np.uint32)
    replace_all = jax.jit(jax.vmap(replace) if len(shape) > 1 else replace)
    new = np.asarray([jax.random.bits(rng) for rng in rngs.ravel()]).reshape(shape)
    counts: list[int] = []
    for ended in cases:
        before = len(done)
        assert_trees_equal(replace_all(rngs, ended, kept), np.where(ended, new, kept))
        counts.append(len(done) - before)
    return counts


def test_no_more_is_reset_than_the_chunks_hold() -> None:
    cases = [np.arange(16) < ended for ended in (0, 4, 5, 15)]
    assert resets_done(Compact(4), *cases) == [0, 4, 8, 16]


@pytest.mark.parametrize(("strategy", "resets"), [(Compact(4), 16), (Compact(1), 4)])
def test_chunks_grow_with_the_seeds(strategy: Compact, resets: int) -> None:
    """For four seeds a fair share of a batch becomes four times as large, a single slot twice."""
    spread = (np.arange(64) * 7 % 64).reshape(4, 16) < 3
    assert resets_done(strategy, spread) == [resets]


def test_the_choice_can_be_asked_for_and_overridden() -> None:
    assert VecEnv(CoinEnv(), 64).autoreset == choose(CoinEnv(), 64)
    assert VecEnv(CoinEnv(), 64, autoreset=Compact(3)).autoreset == Compact(3)
    assert VecEnv(CoinEnv(), 64, autoreset=Select()).autoreset == Select()


@pytest.mark.slow
@pytest.mark.parametrize(("batched_config", "strategy"), [(False, Compact(1)), (True, Compact(4))])
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
    rngs = jax.random.split(jax.random.key(0), 3)
    states = jax.eval_shape(jax.vmap(vec_env.reset), rngs)[1]
    actions = np.ones((3, 8, 2), np.float32)
    program = str(jax.make_jaxpr(jax.vmap(vec_env.step))(states, actions))
    # Of the platform, for the strategy and for the draws, and of whether any episode ended.
    assert program.count(" cond[") == 3
    assert program.count(" while[") == 1
    assert "24,4" in program  # the world of all slots, as one batch
