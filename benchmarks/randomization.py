"""What a configuration of its own in every slot costs, against one that all slots share."""

from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.measure import Table, compare
from benchmarks.rollout import of_vec_env
from envrax import DomainRandomization, VecEnv
from envrax_classic import CartPole


def sample(rng: jax.Array) -> dict[str, Any]:
    """The length, the mass and the force of an episode."""
    drawn = jax.random.uniform(rng, (3,), jnp.float32, 0.5, 2.0)
    return {"half_length": 0.5 * drawn[0], "pole_mass": 0.1 * drawn[1], "force": 10.0 * drawn[2]}


def fixed(rng: jax.Array) -> dict[str, Any]:
    """The config's own numbers, so that episodes are as long as without."""
    return {"half_length": 0.5, "pole_mass": 0.1, "force": 10.0}


def cartpole(sizes: tuple[int, ...] = (64, 4096, 65_536)) -> list[Table]:
    """CartPole in a scan, three fields of its config drawn or shared."""
    tables: list[Table] = []
    for n in sizes:
        steps = max(20, min(2000, 1_600_000 // n))
        env = CartPole()
        ways = {
            "one config for all": env,
            "drawn for every episode": DomainRandomization(env, sample),
            "drawn for every slot, then kept": DomainRandomization(env, sample, redraw=False),
            "in the state of every slot, all the same": DomainRandomization(env, fixed),
        }
        works = {name: of_vec_env(VecEnv(each, n), 2, steps) for name, each in ways.items()}
        tables.append(Table(f"CartPole, N = {n}, configs", compare(works), steps))
    return tables
