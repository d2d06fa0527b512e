"""Expensive resets: a synthetic environment with a given reset cost."""

import statistics
from typing import Any

import chex
import jax
import jax.numpy as jnp

from benchmarks.measure import Table, Values, Work, compare
from benchmarks.rollout import of_vec_env
from envrax import Box, Discrete, EnvConfig, EnvState, JaxEnv, VecEnv
from envrax.autoreset import Select

NEVER, NEEDED = "no reset at all", "the resets that happened, and nothing else"


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


def synthetic(num_envs: int = 1024, steps: int = 200) -> list[Table | Values]:
    """Auto-reset against no reset at all, and against the necessary resets by themselves."""
    tables = list[Table | Values]()
    over = dict[str, dict[str, float]]()
    for mean_steps in (22, 200):
        config = WorldConfig(mean_steps=mean_steps)
        vec_env = VecEnv(World(config), num_envs)
        never = VecEnv(World(config.replace(ends=False)), num_envs)
        ways = {
            "envrax": of_vec_env(vec_env, 2, steps),
            NEVER: of_vec_env(never, 2, steps),
            NEEDED: _resets(vec_env, steps * num_envs // mean_steps),
            "every slot reset on every step": of_vec_env(
                VecEnv(World(config), num_envs, autoreset=Select()), 2, steps
            ),
        }
        title = f"A reset of 100 steps' work, an end every {mean_steps} steps, N = {num_envs}"
        seconds = compare(ways)
        tables.append(Table(title, seconds, steps))
        rounds = zip(seconds["envrax"], seconds[NEVER], seconds[NEEDED], strict=True)
        ratio = statistics.median(ours / (a + b) for ours, a, b in rounds)
        over[f"an end every {mean_steps} steps"] = {"ratio": ratio}
    return [*tables, Values("envrax against the steps and the necessary resets", over)]


def _resets(vec_env: VecEnv[Any, Any, Any, Any], n_resets: int, at_once: int = 64) -> Work:
    """`n_resets` resets, `at_once` in a batch."""

    def some(total: jax.Array, rng: jax.Array) -> tuple[jax.Array, None]:
        fresh = jax.vmap(vec_env.env.reset)(jax.random.split(rng, at_once))
        leaves = [x for x in jax.tree.leaves(fresh) if jnp.issubdtype(x.dtype, jnp.number)]
        return total + sum(jnp.sum(x).astype(jnp.float32) for x in leaves), None

    rngs = jax.random.split(jax.random.key(0), max(1, n_resets // at_once))
    run = jax.jit(lambda rngs: jax.lax.scan(some, jnp.float32(0), rngs))
    return lambda: jax.block_until_ready(run(rngs))
