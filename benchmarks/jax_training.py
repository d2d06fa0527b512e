# pyright: reportMissingImports=false
"""
Trainers written in JAX, unmodified, on environments of envrax: returns of three seeds.

    python -m benchmarks.jax_training              all; needs the extra `jax-trainers`
    python -m benchmarks.jax_training purejaxrl brax-pendulum
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import envrax
from benchmarks.measure import machine
from envrax.interop import to_gymnax

SEEDS = 3
STEPS = dict(total_timesteps=1_310_720, eval_freq=262_144)
PPO = dict(
    num_envs=64, num_steps=64, num_epochs=4,
    num_minibatches=16, learning_rate=3e-4, gamma=0.99, gae_lambda=0.95, ent_coef=0.0,
    max_grad_norm=0.5,
)  # fmt: skip
DQN = dict(
    total_timesteps=200_000, eval_freq=40_000, num_envs=16, buffer_size=10_000, fill_buffer=1_000,
    batch_size=256, num_epochs=2, target_update_freq=16, polyak=0.98, gamma=0.98,
    exploration_fraction=0.3, eps_end=0.2, learning_rate=optax.linear_schedule(1e-3, 0, 25_000),
)  # fmt: skip
MINATAR_DQN = {
    **DQN, "total_timesteps": 320_000, "eval_freq": 64_000, "batch_size": 128, "polyak": 0.99,
    "gamma": 0.97, "eps_end": 0.05, "learning_rate": 5e-4,
}  # fmt: skip
BRAX = dict(
    num_timesteps=400_000, num_envs=64, num_minibatches=8, num_updates_per_batch=8, batch_size=64,
    unroll_length=10, normalize_observations=True, num_evals=4, learning_rate=1e-3,
    entropy_cost=1e-3,
)  # fmt: skip


def rejax(algo: str, id: str, wrappers: Any = (), **options: Any) -> str:
    import rejax

    env = to_gymnax(envrax.make(id, wrappers=list(wrappers)))
    cls = rejax.get_algo(algo)
    trainer = cls.create(env=env, env_params=env.default_params, **options)
    rngs = jax.random.split(jax.random.key(0), SEEDS)
    returns = jax.jit(jax.vmap(trainer.train))(rngs)[1][1]
    return _shown(np.asarray(returns.mean(-1)))


def purejaxrl(version: int) -> str:
    from benchmarks.purejaxrl_ppo import make_train

    made = envrax.make("classic/CartPole-v0", wrappers=[envrax.RecordEpisodeStatistics])
    env = to_gymnax(made, version=version)
    train = make_train(env, env.default_params, 400_000, version)
    return _shown(np.asarray(jax.jit(jax.vmap(train))(jax.random.split(jax.random.key(0), SEEDS))))


def brax(id: str, **options: Any) -> str:
    from brax.training.agents.ppo import train as ppo

    from envrax.interop import brax_training_wrap, to_brax

    rows: list[list[float]] = []
    for seed in range(SEEDS):
        rows.append([])
        ppo.train(
            environment=to_brax(envrax.make(id)),
            wrap_env_fn=brax_training_wrap,
            seed=seed,
            progress_fn=lambda _, m: rows[-1].append(float(m["eval/episode_reward"])),
            **{**BRAX, **options},
        )
    return _shown(np.array(rows))


def evolution() -> str:
    """OpenAI's strategy in a few lines, on returns of whole episodes."""

    def generation(mean: Any, rng: Any) -> Any:
        noise = jax.random.normal(rng, (32, 4))
        scores = jax.vmap(_fitness, (0, None))(mean + 0.5 * noise, rng)
        weights = (scores - scores.mean()) / (scores.std() + 1e-6)
        return mean + 0.5 * (weights @ noise) / 32, _fitness(mean, rng)

    run = jax.jit(lambda rng: jax.lax.scan(generation, jnp.zeros(4), jax.random.split(rng, 30))[1])
    return _shown(np.stack([run(rng) for rng in jax.random.split(jax.random.key(0), SEEDS)]))


def evosax() -> str:
    """OpenAI's strategy from evosax, which minimizes."""
    from evosax.algorithms import Open_ES

    strategy = Open_ES(32, jnp.zeros(4), optimizer=optax.sgd(0.5))
    params = strategy.default_params

    def generation(state: Any, rng: Any) -> Any:
        ask, play, tell, show = jax.random.split(rng, 4)
        asked, state = strategy.ask(ask, state, params)
        scores = jax.vmap(_fitness, (0, None))(asked, play)
        state, _ = strategy.tell(tell, asked, -scores, state, params)
        return state, _fitness(state.mean, show)

    def run(rng: Any) -> Any:
        state = strategy.init(rng, jnp.zeros(4), params)
        return jax.lax.scan(generation, state, jax.random.split(rng, 30))[1]

    return _shown(np.asarray(jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(0), SEEDS))))


def _fitness(params: jax.Array, rng: jax.Array) -> jax.Array:
    """Mean return of eight episodes of CartPole, of a linear policy."""
    env = envrax.make("classic/CartPole-v0")
    act: Any = lambda p, obs, _: ((obs @ p > 0).astype(jnp.int32), p, None)  # noqa: E731
    return envrax.evaluate(env, act, rng, 8, policy_state=params, max_steps=500).returns.mean()


def _shown(returns: np.ndarray) -> str:
    """The first, and the best and last, mean returns of each seed."""
    rows = returns.reshape(SEEDS, -1)
    parts = (f"{row[0]:.4g} -> {row[-1]:.4g} (best {row.max():.4g})" for row in rows)
    return "; ".join(parts)


MINATAR = "gymnax/Breakout-MinAtar"
FLAT = [envrax.FlattenObservation]
TRAININGS: dict[str, Callable[[], str]] = {
    "rejax-ppo": lambda: rejax("ppo", "classic/CartPole-v0", **PPO, **STEPS),
    "rejax-dqn": lambda: rejax("dqn", "classic/CartPole-v0", **DQN),
    "rejax-ppo-minatar": lambda: rejax("ppo", MINATAR, FLAT, **PPO, **STEPS),
    "rejax-dqn-minatar": lambda: rejax("dqn", MINATAR, FLAT, **MINATAR_DQN),
    "purejaxrl": lambda: purejaxrl(0),
    "purejaxrl-1": lambda: purejaxrl(1),
    "brax-pendulum": lambda: brax(
        "classic/Pendulum-v0", episode_length=200, discounting=0.95, reward_scaling=0.1,
    ),
    "brax-inverted-pendulum": lambda: brax(
        "brax/inverted_pendulum", episode_length=1000, discounting=0.97, learning_rate=3e-4,
        entropy_cost=1e-2, num_updates_per_batch=4, num_evals=5,
    ),
    "evolution": evolution,
    "evosax": evosax,
}  # fmt: skip


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(TRAININGS)}; default all")
    print(machine())
    for name in parser.parse_args(given).names or TRAININGS:
        begin = time.perf_counter()
        told = TRAININGS[name]()
        print(f"{name}: {told}; {time.perf_counter() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
