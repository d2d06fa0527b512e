"""Keys of episodes, and the seeds that simulators get of them."""

from typing import Any

import jax
import numpy as np

from envrax._jax.keys import of_kind, split_key, to_threefry
from envrax._jax.mesh import where_slots


def seed_of(rng: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The key that an episode which begins with `rng` keeps, and the seed of its simulator."""
    rng, key = jax.random.split(rng)
    return rng, jax.random.randint(key, (), 0, 2**31 - 1)


def _of_first(rng: jax.Array, n: int | None) -> tuple[jax.Array, jax.Array]:
    """The keys and the seeds of `n` slots that begin with a key; one of both for `None`."""
    if n is None:
        return rng, jax.random.bits(rng, (), np.uint32) >> np.uint32(2)  # slots add their number
    return jax.vmap(seed_of)(split_key(rng, n))


def _of_next(rngs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The keys and the seeds of the episodes that follow."""
    return jax.vmap(lambda rng: seed_of(to_threefry(jax.random.split(rng)[0])))(rngs)


def _where(mask: Any, new: jax.Array, old: jax.Array) -> jax.Array:
    return where_slots(mask, of_kind(to_threefry(new), old), old)


first_episodes: Any = jax.jit(_of_first, static_argnums=1)
next_episodes: Any = jax.jit(_of_next)
keys_where: Any = jax.jit(_where)
