"""CartPole: `VecEnv` against what a user would take instead."""

import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.measure import Work, compare, table
from envrax import VecEnv
from envrax.autoreset import Select
from envrax_classic import CartPole


def dispatch(num_envs: int = 64, steps: int = 1000, repeats: int = 15) -> str:
    """A Python loop over `VecEnv.step`, against the same function jitted by hand."""
    vec_env = VecEnv(CartPole(), num_envs)
    _, start = vec_env.reset(jax.random.key(0))
    actions = vec_env.action_space.sample(jax.random.key(1))
    by_hand = jax.jit(VecEnv(CartPole(), num_envs, jit_compile=False).step)

    def loop(step: Any) -> Work:
        def work() -> object:
            state = start
            for _ in range(steps):
                _, state, *_ = step(state, actions)
            return jax.block_until_ready(state)

        return work

    ways = {"the same, jitted by hand": loop(by_hand), "`VecEnv.step`": loop(vec_env.step)}
    title = f"CartPole, N = {num_envs}, Python loop"
    return table(title, compare(ways, repeats), steps)


def scan(num_envs: int = 4096, steps: int = 200, repeats: int = 9) -> str:
    """Rollouts with random actions in `lax.scan`; Gymnasium's NumPy one in a Python loop."""
    ways = {
        "envrax": _rollout(VecEnv(CartPole(), num_envs), steps),
        "envrax, a reset of every slot on every step": _rollout(
            VecEnv(CartPole(), num_envs, autoreset=Select()), steps
        ),
    }
    for name, peer in (("gymnax", _gymnax), ("Gymnasium, NumPy vector env", _gymnasium)):
        try:
            ways[name] = peer(num_envs, steps)
        except ImportError as error:
            print(f"{name}: left out, {error.name} is not installed (extra `bench`).")
    return table(f"CartPole, N = {num_envs}, rollout", compare(ways, repeats), steps)


def _rollout(vec_env: VecEnv[Any, Any, Any, Any], steps: int) -> Work:
    def body(carry: Any, _: None) -> tuple[Any, Any]:
        state, rng = carry
        rng, key = jax.random.split(rng)
        actions = jax.random.randint(key, (vec_env.num_envs,), 0, 2, jnp.int32)
        obs, state, reward, done, info = vec_env.step(state, actions)
        return (state, rng), (jnp.sum(obs), jnp.sum(reward), jnp.sum(done))

    _, state = vec_env.reset(jax.random.key(0))
    run = jax.jit(lambda carry: jax.lax.scan(body, carry, None, steps))
    return lambda: jax.block_until_ready(run((state, jax.random.key(1))))


def _gymnax(num_envs: int, steps: int) -> Work:
    gymnax = importlib.import_module("gymnax")
    env, params = gymnax.make("CartPole-v1")

    def body(carry: Any, _: None) -> tuple[Any, Any]:
        state, rng = carry
        rng, key, step_key = jax.random.split(rng, 3)
        actions = jax.random.randint(key, (num_envs,), 0, 2, jnp.int32)
        keys = jax.random.split(step_key, num_envs)
        step = jax.vmap(env.step, (0, 0, 0, None))
        obs, state, reward, terminated, truncated, _ = step(keys, state, actions, params)
        return (state, rng), (jnp.sum(obs), jnp.sum(reward), jnp.sum(terminated | truncated))

    keys = jax.random.split(jax.random.key(0), num_envs)
    _, state = jax.vmap(env.reset, (0, None))(keys, params)
    run = jax.jit(lambda carry: jax.lax.scan(body, carry, None, steps))
    return lambda: jax.block_until_ready(run((state, jax.random.key(1))))


def _gymnasium(num_envs: int, steps: int) -> Work:
    gymnasium = importlib.import_module("gymnasium")
    env = gymnasium.make_vec("CartPole-v1", num_envs, vectorization_mode="vector_entry_point")
    env.reset(seed=0)
    rng = np.random.default_rng(1)

    def work() -> object:
        for _ in range(steps):
            env.step(rng.integers(0, 2, num_envs))
        return env

    return work
