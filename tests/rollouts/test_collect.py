"""`collect`: what a rollout keeps of each step."""

from functools import partial
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import pytest
from fakes import PixelEnv
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from helpers import assert_trees_equal
from rollouts.test_rollout import COINS, coins

from envrax import MultiVecEnv, Transition, VecEnv, rollout, start
from envrax.interop import from_gymnasium_vec

KEY = jax.random.key(0)


def some(step: Transition) -> dict[str, Any]:
    return {"seen": step.obs, "ends": (step.terminated, step.truncated), "info": step.info}


def host() -> Any:
    make = [partial(gymnasium.make, "CartPole-v1", max_episode_steps=9)] * 2
    return from_gymnasium_vec(SyncVectorEnv(make, autoreset_mode=AutoresetMode.SAME_STEP))


@pytest.mark.parametrize(("make", "progress"), [(lambda: COINS, True), (host, False), (host, True)])
def test_it_is_the_same_part_of_each_step(make: Any, progress: bool) -> None:
    env, twin = make(), make()
    end, steps = rollout(twin, None, start(twin, KEY), 30)
    at, kept = rollout(env, None, start(env, KEY), 30, collect=some, progress=progress)
    assert_trees_equal(kept, some(steps))
    assert_trees_equal(at.obs, end.obs)
    assert steps.done.any()


def test_in_fleets_and_in_the_callers_jit() -> None:
    at, _, steps = coins()

    @jax.jit
    def run(scale: jax.Array) -> Any:
        return rollout(COINS, None, at, 30, collect=lambda step: step.reward * scale)[1]

    assert_trees_equal(run(jnp.float32(2)), steps.reward * 2)
    fleet = MultiVecEnv({"a": COINS, "b": VecEnv(PixelEnv(), 2)})

    def ends(rng: jax.Array) -> Any:
        return rollout(fleet, None, start(fleet, rng), 4, collect=lambda step: step.done)[1]

    kept = jax.eval_shape(ends, KEY)
    assert {name: x.shape for name, x in kept.items()} == {"a": (4, 3), "b": (4, 2)}


def test_it_is_read_at_each_call(compile_counter: Any) -> None:
    env, at = COINS, coins()[0]
    weights = jnp.float32(1)
    collect: Any = lambda step: step.reward * weights  # noqa: E731
    _, first = rollout(env, None, at, 5, collect=collect)
    weights = jnp.float32(3)
    with compile_counter() as compiled:
        _, second = rollout(env, None, at, 5, collect=collect)
        _, third = rollout(env, None, at, 5, collect=lambda step: step.reward * weights)
    assert compiled.count == 0
    assert_trees_equal(second, first * weights)
    assert_trees_equal(third, second)
