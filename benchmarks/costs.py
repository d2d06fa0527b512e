"""What `rollout`, parts of a training loop and a config in every slot cost, in a scan."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp

import envrax
from benchmarks.measure import Table, Work, compare
from benchmarks.rollout import of_vec_env
from envrax import DomainRandomization, RecordEpisodeStatistics, VecEnv
from envrax.classic import CartPole
from envrax.wrappers import vector


def randomization(sizes: tuple[int, ...] = (64, 4096, 65_536)) -> list[Table]:
    """Three fields of CartPole's config, shared by all slots or in the state of each."""
    env = CartPole()
    envs = {
        "one config for all": env,
        "drawn for every episode": DomainRandomization(env, draw_config),
        "drawn for every slot, then kept": DomainRandomization(env, draw_config, redraw=False),
        "in the state of every slot, all the same": DomainRandomization(env, fixed_config),
    }
    tables: list[Table] = []
    for n in sizes:
        steps = max(20, min(2000, 1_600_000 // n))
        ways = {name: of_vec_env(VecEnv(env, n), 2, steps) for name, env in envs.items()}
        tables.append(Table(f"CartPole, N = {n}, configs", compare(ways), steps))
    return tables


def draw_config(rng: jax.Array) -> dict[str, Any]:
    """The length, the mass and the force of an episode."""
    drawn = jax.random.uniform(rng, (3,), jnp.float32, 0.5, 2.0)
    return {"half_length": 0.5 * drawn[0], "pole_mass": 0.1 * drawn[1], "force": 10.0 * drawn[2]}


def fixed_config(rng: jax.Array) -> dict[str, Any]:
    """The config's own numbers, so that episodes are as long as without."""
    return {"half_length": 0.5, "pole_mass": 0.1, "force": 10.0}


def rollouts(sizes: tuple[int, ...] = (64, 4096)) -> list[Table]:
    """`envrax.rollout` against the same scan by hand; and calls of one step from Python."""
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
    of_network = [one_step_from_python(n_layers) for n_layers in (2, 24)]
    return [*tables, *of_network, evaluate_from_python()]


def evaluate_from_python(n: int = 16, calls: int = 20) -> Table:
    """`evaluate`, called from Python: N short episodes in N slots."""
    env = VecEnv(CartPole(), n)
    params = jax.random.normal(jax.random.key(3), (4, 2), jnp.float32)

    def policy(params: Any, obs: jax.Array, rng: jax.Array) -> Any:
        return jnp.argmax(obs @ params, -1), params, None

    compiled = jax.jit(policy)

    def played(policy: Any, rng: jax.Array, params: Any) -> Any:
        return envrax.evaluate(env, policy, rng, n, policy_state=params, max_steps=10)

    own = jax.jit(lambda rng, params: played(compiled, rng, params))
    rng = jax.random.key(0)

    def work(call: Callable[[], Any]) -> Work:
        return lambda: [jax.block_until_ready(call()) for _ in range(calls)]

    ways = {
        "in one's own `jax.jit`": work(lambda: own(rng, params)),
        "`jax.jit(policy)`": work(lambda: played(compiled, rng, params)),
        "a plain policy": work(lambda: played(policy, rng, params)),
    }
    return Table(f"`evaluate` from Python, {n} episodes, N = {n}", compare(ways), calls)


def one_step_from_python(n_layers: int, n: int = 8, calls: int = 50) -> Table:
    """`rollout` of one step, called from Python, with a network in the policy."""
    env = VecEnv(CartPole(), n)
    keys = jax.random.split(jax.random.key(0), n_layers)
    widths = [4, *[64] * (n_layers - 1), 2]
    params = [
        jax.random.normal(key, shape, jnp.float32) / 8
        for key, shape in zip(keys, pairwise(widths), strict=True)
    ]

    def act(params: Any, policy_state: Any, obs: jax.Array, rng: jax.Array) -> Any:
        for weights in params[:-1]:
            obs = jnp.tanh(obs @ weights)
        return jax.random.categorical(rng, obs @ params[-1]), policy_state, None

    def in_state(params: Any, obs: jax.Array, rng: jax.Array) -> Any:
        return act(params, params, obs, rng)

    def closed_over(policy_state: Any, obs: jax.Array, rng: jax.Array) -> Any:
        return act(params, policy_state, obs, rng)

    at = envrax.start(env, jax.random.key(1))
    with_params = envrax.start(env, jax.random.key(1), params)
    own = jax.jit(lambda at: envrax.rollout(env, in_state, at, 1))
    compiled = jax.jit(in_state)
    bound = jax.tree_util.Partial(jax.jit(act), params)

    def work(call: Callable[[], Any]) -> Work:
        return lambda: [jax.block_until_ready(call()) for _ in range(calls)]

    ways = {
        "in one's own `jax.jit`": work(lambda: own(with_params)),
        "`jax.jit(policy)`": work(lambda: envrax.rollout(env, compiled, with_params, 1)),
        "`Partial(jax.jit(apply), params)`": work(lambda: envrax.rollout(env, bound, at, 1)),
        "a plain policy": work(lambda: envrax.rollout(env, in_state, with_params, 1)),
        "a plain policy that closes over them": work(
            lambda: envrax.rollout(env, closed_over, at, 1)
        ),
    }
    title = f"one step from Python, {n_layers} layers, N = {n}"
    return Table(title, compare(ways), calls)


class Legal(CartPole):
    """CartPole with a mask, in which both actions are legal."""

    def action_mask(self, state: Any) -> jax.Array:
        return jnp.ones(2, jnp.bool_)


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
