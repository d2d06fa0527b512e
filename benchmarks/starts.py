"""Episodes that begin in states of a buffer, against those that begin by a reset."""

from typing import Any

import jax

from benchmarks.measure import Table, compare
from benchmarks.rollout import of_vec_env
from envrax import StartStates, VecEnv
from envrax_classic import CartPole, Maze

ENTRIES = 4096


def starts(sizes: tuple[int, ...] = (64, 4096)) -> list[Table]:
    """A plain reset first, then the same environment with `StartStates`."""
    tables: list[Table] = []
    for env, numbers in ((CartPole(), 400_000), (Maze(), 50_000)):
        buffered = StartStates(env, draw(env))
        n_actions = env.action_space.n
        for n in sizes:
            steps = max(20, min(1000, numbers // n))
            ways = {
                "a plain reset": of_vec_env(VecEnv(env, n), n_actions, steps),
                "`StartStates`": of_vec_env(VecEnv(buffered, n), n_actions, steps),
            }
            title = f"{env.name}, a buffer of {ENTRIES} states, N = {n}, rollout"
            tables.append(Table(title, compare(ways), steps))
    return tables


def draw(env: Any) -> Any:
    """A sampler of equally likely entries of a buffer."""
    buffer = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(3), ENTRIES))

    def sample(rng: jax.Array) -> Any:
        i = jax.random.randint(rng, (), 0, ENTRIES)
        return jax.tree.map(lambda x: x[i], buffer)

    return sample
