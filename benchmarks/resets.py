"""Expensive resets: a synthetic environment with a given reset cost, and Craftax."""

import importlib
from typing import Any

import chex
import jax
import jax.numpy as jnp

from benchmarks.measure import Table, Work, available, compare
from benchmarks.rollout import in_scan, of_vec_env
from envrax import Box, Discrete, EnvConfig, EnvState, JaxEnv, VecEnv
from envrax.autoreset import Select

CRAFTAX = "Craftax-Classic-Symbolic-v1"


@chex.dataclass
class WorldConfig(EnvConfig):
    """A reset is `rounds` times the work of a step; episodes take `mean_steps` on average."""

    rounds: int = 100
    mean_steps: int = 22
    ends: bool = True


@chex.dataclass
class WorldState(EnvState):
    world: jax.Array
    left: jax.Array


class World(JaxEnv[Box, Discrete, WorldState, WorldConfig]):
    """An environment with an expensive reset and a cheap step."""

    @property
    def observation_space(self) -> Box:
        return Box(-jnp.inf, jnp.inf, (8,))

    @property
    def action_space(self) -> Discrete:
        return Discrete(2)

    def reset(self, rng: jax.Array) -> tuple[jax.Array, WorldState]:
        rng, key, length_key = jax.random.split(rng, 3)
        world = jax.random.normal(key, (8,), jnp.float32)
        world = jax.lax.fori_loop(0, self.config.rounds, lambda _, world: _round(world), world)
        left = jax.random.randint(length_key, (), 1, 2 * self.config.mean_steps, jnp.int32)
        state = WorldState(
            rng=rng, step=jnp.int32(0), done=jnp.bool_(False), world=world, left=left
        )
        return world, state

    def step(self, state: WorldState, action: Any) -> tuple[Any, ...]:
        world = _round(state.world) + 0.1 * action
        left = state.left - 1
        done = (left <= 0) & self.config.ends
        state = state.replace(world=world, left=left, step=state.step + 1, done=done)
        return world, state, world[0], done, {}


def _round(world: jax.Array) -> jax.Array:
    return jnp.sin(1.1 * world + jnp.roll(world, 1))


def synthetic(num_envs: int = 1024, steps: int = 200, repeats: int = 9) -> list[Table]:
    """Auto-reset against no reset at all, and against the necessary resets by themselves."""
    tables: list[Table] = []
    for mean_steps in (22, 200):
        config = WorldConfig(mean_steps=mean_steps)
        vec_env = VecEnv(World(config), num_envs)
        never = VecEnv(World(config.replace(ends=False)), num_envs)
        ways = {
            "envrax": of_vec_env(vec_env, 2, steps),
            "no reset at all": of_vec_env(never, 2, steps),
            "the resets that truly happened, and nothing else": _resets(
                vec_env, steps * num_envs // mean_steps
            ),
            "every slot reset on every step": of_vec_env(
                VecEnv(World(config), num_envs, autoreset=Select()), 2, steps
            ),
        }
        title = f"A reset of 100 steps' work, an end every {mean_steps} steps, N = {num_envs}"
        tables.append(Table(title, compare(ways, repeats), steps))
    return tables


def _resets(vec_env: VecEnv[Any, Any, Any, Any], n_resets: int, at_once: int = 64) -> Work:
    """`n_resets` resets, `at_once` in a batch."""

    def some(total: jax.Array, rng: jax.Array) -> tuple[jax.Array, None]:
        fresh = jax.vmap(vec_env.env.reset)(jax.random.split(rng, at_once))
        leaves = [x for x in jax.tree.leaves(fresh) if jnp.issubdtype(x.dtype, jnp.number)]
        return total + sum(jnp.sum(x).astype(jnp.float32) for x in leaves), None

    rngs = jax.random.split(jax.random.key(0), max(1, n_resets // at_once))
    run = jax.jit(lambda rngs: jax.lax.scan(some, jnp.float32(0), rngs))
    return lambda: jax.block_until_ready(run(rngs))


class Craftax(JaxEnv[Box, Discrete, Any, EnvConfig]):
    """Craftax-Classic as a `JaxEnv`, without its own auto-reset."""

    def __init__(self) -> None:
        super().__init__(EnvConfig(max_steps=10_000))
        self.inner, self.params = _craftax(auto_reset=False)
        self.space = self.inner.action_space(self.params)

    @property
    def observation_space(self) -> Box:
        return Box(-jnp.inf, jnp.inf, self.inner.observation_space(self.params).shape)

    @property
    def action_space(self) -> Discrete:
        return Discrete(self.space.n)

    def reset(self, rng: jax.Array) -> tuple[Any, Any]:
        rng, key = jax.random.split(rng)
        obs, inner = self.inner.reset(key, self.params)
        state = CraftaxState(rng=rng, step=jnp.int32(0), done=jnp.bool_(False), inner=inner)
        return obs, state

    def step(self, state: Any, action: Any) -> tuple[Any, ...]:
        rng, key = jax.random.split(state.rng)
        obs, inner, reward, done, _ = self.inner.step(key, state.inner, action, self.params)
        state = state.replace(rng=rng, step=state.step + 1, done=done, inner=inner)
        return obs, state, reward, done, {}


@chex.dataclass
class CraftaxState(EnvState):
    inner: Any


def craftax(num_envs: int = 64, steps: int = 100, repeats: int = 5) -> list[Table]:
    """Craftax with its own auto-reset, with its optimistic resets, and with envrax's auto-reset."""
    makers = {"Craftax, its own auto-reset": _own, "Craftax, optimistic resets (not exact)": _hope}
    peers = dict(available(makers))
    if not peers:
        return []
    vec_env = VecEnv(Craftax(), num_envs)
    ways = {"envrax": of_vec_env(vec_env, vec_env.env.action_space.n, steps)}
    ways |= {name: make(num_envs, steps) for name, make in peers.items()}
    return [Table(f"{CRAFTAX}, N = {num_envs}, rollout", compare(ways, repeats), steps)]


def _craftax(auto_reset: bool) -> tuple[Any, Any]:
    make = importlib.import_module("craftax.craftax_env").make_craftax_env_from_name
    env = make(CRAFTAX, auto_reset=auto_reset)
    return env, env.default_params


def _own(num_envs: int, steps: int) -> Work:
    env, params = _craftax(auto_reset=True)
    keys = jax.random.split(jax.random.key(0), num_envs)
    _, start = jax.vmap(env.reset, (0, None))(keys, params)

    def step(state: Any, actions: Any, rng: jax.Array) -> Any:
        keys = jax.random.split(rng, num_envs)
        obs, state, reward, done, _ = jax.vmap(env.step, (0, 0, 0, None))(
            keys, state, actions, params
        )
        return state, (obs, reward, done)

    return in_scan(start, step, num_envs, env.action_space(params).n, steps)


def _hope(num_envs: int, steps: int, ratio: int = 16) -> Work:
    """A few new worlds per step, shared by the slots whose episode ended in it."""
    env, params = _craftax(auto_reset=False)
    reset = jax.vmap(env.reset, (0, None))
    n_fresh = num_envs // ratio
    _, start = reset(jax.random.split(jax.random.key(0), num_envs), params)

    def step(state: Any, actions: Any, rng: jax.Array) -> Any:
        step_rng, reset_rng, choice_rng = jax.random.split(rng, 3)
        keys = jax.random.split(step_rng, num_envs)
        obs, state, reward, done, _ = jax.vmap(env.step, (0, 0, 0, None))(
            keys, state, actions, params
        )
        fresh = reset(jax.random.split(reset_rng, n_fresh), params)
        which = jax.random.randint(choice_rng, (num_envs,), 0, n_fresh)

        def replace(new: jax.Array, old: jax.Array) -> jax.Array:
            return jax.vmap(jnp.where)(done, new[which].astype(old.dtype), old)

        obs, state = jax.tree.map(replace, fresh, (obs, state))
        return state, (obs, reward, done)

    return in_scan(start, step, num_envs, env.action_space(params).n, steps)
