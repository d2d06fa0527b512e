"""CartPole: `VecEnv` against the alternatives."""

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.measure import Table, Work, available, compare
from benchmarks.rollout import in_python, in_scan, of_vec_env
from envrax import VecEnv
from envrax.autoreset import Select
from envrax.classic import CartPole


def scan(sizes: tuple[int, ...] = (64, 4096)) -> list[Table]:
    """One compiled rollout; libraries without JAX are called in a Python loop."""
    tables: list[Table] = []
    for n in sizes:
        steps = max(20, min(2000, 800_000 // n))
        ways = {"envrax": of_vec_env(VecEnv(CartPole(), n), 2, steps)}
        plain = VecEnv(CartPole(), n, autoreset=Select())
        ways["the same, every slot reset on every step"] = of_vec_env(plain, 2, steps)
        ways["JAX by hand, every slot reset, one key for all"] = by_hand_in_scan(n, steps)
        hashed = by_hand_in_scan(n, steps, begin=_begin_by_counters)
        ways["JAX with hashed counters in place of keys"] = hashed
        peers: dict[str, Callable[[int, int], Work]] = {
            "gymnax": gymnax_in_scan,
            "Gymnasium, NumPy": _gymnasium,
        }
        ways |= {name: make(n, steps) for name, make in available(peers)}
        tables.append(Table(f"CartPole, N = {n}, rollout", compare(ways), steps))
    return tables


def large() -> list[Table]:
    """`scan` with more slots."""
    return scan((65_536,))


def envpool(sizes: tuple[int, ...] = (64, 4096)) -> list[Table]:
    """In a benchmark of its own: EnvPool's threads would slow the others down."""
    tables: list[Table] = []
    for name, make in available({"EnvPool, C++ threads": _envpool}):
        for n in sizes:
            steps = max(20, 100_000 // n)
            ways = {"envrax": of_vec_env(VecEnv(CartPole(), n), 2, steps), name: make(n, steps)}
            tables.append(Table(f"CartPole, N = {n}, rollout", compare(ways), steps))
    return tables


def dispatch(num_envs: int = 64, steps: int = 1000) -> list[Table]:
    """A Python loop over `VecEnv.step`, against the same function jitted by hand, and gymnax."""
    vec_env = VecEnv(CartPole(), num_envs)
    _, start = vec_env.reset(jax.random.key(0))
    actions = vec_env.action_space.sample(jax.random.key(1))
    by_hand = jax.jit(VecEnv(CartPole(), num_envs, jit_compile=False).step)
    ways = {
        "the same, jitted by hand": in_python(start, lambda s: by_hand(s, actions)[1], steps),
        "`VecEnv.step`": in_python(start, lambda s: vec_env.step(s, actions)[1], steps),
    }
    peers: dict[str, Callable[[int, int], Work]] = {
        "gymnax, jitted, its keys split in Python": partial(_gymnax_in_python, False),
        "gymnax, its keys split in the compiled step": partial(_gymnax_in_python, True),
    }
    ways |= {name: make(num_envs, steps) for name, make in available(peers)}
    return [Table(f"CartPole, N = {num_envs}, Python loop", compare(ways), steps)]


def _begin_by_key(shape: tuple[int, int], rng: jax.Array, _: jax.Array) -> jax.Array:
    return jax.random.uniform(rng, shape, jnp.float32, -0.05, 0.05)


def _begin_by_counters(shape: tuple[int, int], _: jax.Array, count: jax.Array) -> jax.Array:
    """Starts from a hash of 32 bits, lowbias32 by C. Wellons: weaker than JAX's, and cheaper."""
    n = shape[0] * shape[1]
    x = jnp.arange(n, dtype=jnp.uint32).reshape(shape) + count * np.uint32(n)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
    x = x ^ (x >> np.uint32(16))
    return (x >> np.uint32(8)).astype(jnp.float32) * jnp.float32(0.1 / 2**24) - 0.05


def by_hand_in_scan(
    num_envs: int, steps: int, begin: Callable[..., jax.Array] = _begin_by_key
) -> Work:
    """JAX without a library: the physics, one draw for the whole batch, a reset of every slot."""
    env = CartPole()
    shape = 4, num_envs

    def step(carry: Any, actions: jax.Array, rng: jax.Array) -> Any:
        physics, age, count = carry
        names = ("position", "velocity", "angle", "spin")
        # The suite's equations work on a batch, because they are elementwise.
        state: Any = _State(**dict(zip(names, physics, strict=True)))
        state, _, terminated = env.advance(state, actions)
        done = terminated | (age + 1 >= env.config.max_steps)
        stepped = jnp.stack([getattr(state, name) for name in names])
        physics = jnp.where(done, begin(shape, rng, count), stepped)
        age = jnp.where(done, 0, age + 1)
        return (physics, age, count + 1), (physics, jnp.ones(num_envs), done)

    physics = begin(shape, jax.random.key(0), jnp.uint32(0))
    start = physics, jnp.zeros(num_envs, jnp.int32), jnp.uint32(1)
    return in_scan(start, step, num_envs, 2, steps)


class _State:
    """Attributes, with the `replace` that the suite's equations use."""

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)

    def replace(self, **changes: Any) -> "_State":
        return _State(**{**vars(self), **changes})


def _gymnax_parts(num_envs: int) -> tuple[Any, Any]:
    env, params = importlib.import_module("gymnax").make("CartPole-v1")
    keys = jax.random.split(jax.random.key(0), num_envs)
    _, start = jax.vmap(env.reset, (0, None))(keys, params)

    def step(state: Any, actions: Any, rng: jax.Array) -> Any:
        keys = jax.random.split(rng, num_envs)
        returned = jax.vmap(env.step, (0, 0, 0, None))(keys, state, actions, params)
        obs, state, reward, terminated, truncated, _ = returned
        return state, (obs, reward, terminated | truncated)

    return start, step


def gymnax_in_scan(num_envs: int, steps: int) -> Work:
    return in_scan(*_gymnax_parts(num_envs), num_envs, 2, steps)


def _gymnax_in_python(split_inside: bool, num_envs: int, steps: int) -> Work:
    env, params = importlib.import_module("gymnax").make("CartPole-v1")
    start, _ = _gymnax_parts(num_envs)
    actions = jnp.zeros(num_envs, jnp.int32)

    def split(rng: jax.Array) -> tuple[jax.Array, jax.Array]:
        rng, key = jax.random.split(rng)
        return rng, jax.random.split(key, num_envs)

    def step(state: Any, keys: jax.Array) -> Any:
        return jax.vmap(env.step, (0, 0, 0, None))(keys, state, actions, params)

    def both(state: Any, rng: jax.Array) -> Any:
        rng, keys = split(rng)
        return rng, step(state, keys)

    step_only = jax.jit(step)
    step_and_split = jax.jit(both)

    def next_one(carry: Any) -> Any:
        state, rng = carry
        if split_inside:
            rng, (_, state, *_) = step_and_split(state, rng)
        else:
            rng, keys = split(rng)
            _, state, *_ = step_only(state, keys)
        return state, rng

    return in_python((start, jax.random.key(1)), next_one, steps)


def _gymnasium(num_envs: int, steps: int) -> Work:
    gymnasium = importlib.import_module("gymnasium")
    env = gymnasium.make_vec("CartPole-v1", num_envs, vectorization_mode="vector_entry_point")
    env.reset(seed=0)
    return _on_the_host(env.step, num_envs, steps)


def _envpool(num_envs: int, steps: int) -> Work:
    env = importlib.import_module("envpool").make(
        "CartPole-v1", env_type="gymnasium", num_envs=num_envs
    )
    env.reset()
    return _on_the_host(env.step, num_envs, steps)


def _on_the_host(step: Callable[[np.ndarray], Any], num_envs: int, steps: int) -> Work:
    rng = np.random.default_rng(1)

    def work() -> object:
        for _ in range(steps):
            step(rng.integers(0, 2, num_envs, dtype=np.int32))
        return None

    return work
