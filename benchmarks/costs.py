"""What `rollout` costs over a scan by hand, and what each part of a training loop adds to it."""

from typing import Any

import jax
import jax.numpy as jnp

import envrax
from benchmarks.measure import Table, Work, compare
from envrax import RecordEpisodeStatistics, VecEnv
from envrax.wrappers import vector
from envrax_classic import CartPole


class Legal(CartPole):
    """CartPole with a mask, in which both actions are legal."""

    def action_mask(self, state: Any) -> jax.Array:
        return jnp.ones(2, jnp.bool_)


def rollouts(sizes: tuple[int, ...] = (64, 4096)) -> list[Table]:
    """`envrax.rollout` against the same scan by hand, with the same outputs."""
    tables: list[Table] = []
    for n in sizes:
        steps = max(20, min(1000, 400_000 // n))
        env = VecEnv(CartPole(), n)
        at = envrax.start(env, jax.random.key(0))
        ways = {
            "the same scan by hand": _by_hand(n, steps),
            "`envrax.rollout`": lambda env=env, at=at, steps=steps: jax.block_until_ready(
                envrax.rollout(env, None, at, steps)
            ),
        }
        tables.append(Table(f"CartPole, N = {n}, all transitions", compare(ways), steps))
    return tables


def parts(n: int = 4096, steps: int = 100) -> list[Table]:
    """Rewards and ends of a scan, with one part more at a time."""
    cartpole = CartPole()
    running = vector.NormalizeObservation(VecEnv(cartpole, n))
    known = running.reset(jax.random.key(0))[1].statistics
    envs: dict[str, Any] = {
        "rewards and ends alone": VecEnv(cartpole, n),
        "`final_obs`": VecEnv(cartpole, n),
        "`RecordEpisodeStatistics`": VecEnv(RecordEpisodeStatistics(cartpole), n),
        "a mask, and draws among what is legal": VecEnv(Legal(), n),
        "running `NormalizeObservation`": running,
        "the same, frozen": vector.NormalizeObservation(
            VecEnv(cartpole, n), frozen=True, statistics=known
        ),
        "running `NormalizeReward`": vector.NormalizeReward(VecEnv(cartpole, n)),
    }
    ways = {name: _summed(env, steps, name == "`final_obs`") for name, env in envs.items()}
    return [Table(f"CartPole, N = {n}, one part more", compare(ways), steps)]


def _summed(env: Any, steps: int, last: bool) -> Work:
    """A rollout of which sums are kept, so that what is not asked for is not computed."""
    begin = envrax.start(env, jax.random.key(0))

    @jax.jit
    def run(at: Any) -> Any:
        def step(at: Any, _: None) -> tuple[Any, Any]:
            at, one = envrax.rollout(env, None, at, 1)
            seen = one.obs, one.reward, one.done, one.info, one.next_obs if last else None
            return at, jax.tree.map(jnp.sum, seen)

        return jax.lax.scan(step, at, length=steps)

    return lambda: jax.block_until_ready(run(begin))


def _by_hand(n: int, steps: int) -> Work:
    env = VecEnv(CartPole(), n, final_obs=True)

    def step(carry: Any, _: None) -> tuple[Any, Any]:
        obs, state, rng = carry
        rng, key = jax.random.split(rng)
        action = env.action_space.sample(key)
        next_obs, state, reward, done, info = env.step(state, action)
        last = info.pop("final_obs")
        kept = obs, action, reward, done, info["terminated"], info["truncated"], last, info
        return (next_obs, state, rng), kept

    rng, key = jax.random.split(jax.random.key(0))
    start = (*env.reset(key), rng)
    run = jax.jit(lambda carry: jax.lax.scan(step, carry, length=steps))
    return lambda: jax.block_until_ready(run(start))
