"""
DQN with a replay buffer, for any environment with `Discrete` actions and no mask.

    python examples/dqn.py                                     MountainCar, in a minute
    python examples/dqn.py classic/CartPole-v0 --seed 1
    python examples/dqn.py classic/Catch-v0                    pixels, four frames

The replay buffer, `FrameBuffer`, gives the observation after each step, `Transition.next_obs`: the
next row of a rollout may belong to another episode. The target is bootstrapped from it unless the
step *terminated* the episode. This is double DQN in pure JAX.
"""

import argparse
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from tqdm import tqdm

import envrax

N_CALLS = 20  # calls of the compiled training; each one moves the progress bar


@dataclass(frozen=True)
class Options:
    """The environment and the hyper-parameters; each is a command-line option."""

    env: str = "classic/MountainCar-v0"
    seed: int = 0
    total_steps: int = 250_000  # over all slots
    n_envs: int = 16  # each slot takes one step per update
    n_stack: int = 1  # observations that the network sees at once
    buffer_size: int = 50_000  # observations
    first_steps: int = 2_000  # steps at random before learning begins
    minibatch: int = 128
    descents: int = 8  # gradient steps per update
    learning_rate: float = 1e-3
    gamma: float = 0.98
    target_period: int = 300  # gradient steps between updates of the target network
    explore_until: float = 0.2  # part of training in which exploration falls
    explore_least: float = 0.07  # part of random actions after that
    hidden: int = 128


PRESETS: dict[str, dict[str, Any]] = {
    "classic/CartPole-v0": {"total_steps": 100_000, "gamma": 0.99, "explore_least": 0.04},
    "classic/Catch-v0": {"total_steps": 50_000, "n_stack": 4, "descents": 2},
}


class Network(nn.Module):  # the value of each action
    n_actions: int
    hidden: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = x / 255 if x.dtype == jnp.uint8 else x
        x = x.reshape(*x.shape[:-2], -1)  # the frames of a stack
        for _ in range(2):
            x = nn.relu(nn.Dense(self.hidden)(x))
        return nn.Dense(self.n_actions)(x)


class TrainState(NamedTuple):
    """Everything that changes during training."""

    params: Any
    target: Any  # parameters of the target network
    opt_state: Any
    n_descents: jax.Array
    buffer: Any
    at: envrax.Rollout


class DQN:
    """The algorithm. `init` and `update` are pure functions, to be compiled."""

    def __init__(self, options: Options) -> None:
        self.options = o = options
        frames = envrax.FrameStackObservation(n_stack=o.n_stack)
        wrappers = [envrax.RecordEpisodeStatistics, envrax.FlattenObservation, frames]
        self.env = envrax.make(o.env, wrappers=wrappers, jit_compile=False)
        self.vec_env = envrax.VecEnv(self.env, o.n_envs)
        self.n_updates = -(-(o.total_steps - o.first_steps) // (o.n_envs * N_CALLS))  # of a call
        self.network = Network(self.env.action_space.n, o.hidden)
        self.optimiser = optax.flatten(optax.adam(o.learning_rate))

    def init(self, seed: Any) -> TrainState:
        rng, network_rng = jax.random.split(jax.random.key(seed))
        at = envrax.start(self.vec_env, rng)
        if self.vec_env.action_mask(at.env_state) is not None:
            raise SystemExit(f"{self.options.env} has illegal actions; train it with ppo.py")
        params = self.network.init(network_rng, at.obs[0])
        n_first = -(-self.options.first_steps // self.options.n_envs)
        at, steps = envrax.rollout(self.vec_env, None, at, n_first, collect=kept)
        buffer = envrax.FrameBuffer.init(steps, self.options.buffer_size)
        return TrainState(params, params, self.optimiser.init(params), jnp.int32(0), buffer, at)

    def act(self, epsilon: Any, params: Any, obs: jax.Array, rng: jax.Array) -> Any:
        """The best action; with probability `epsilon`, a random action."""
        random_rng, which_rng = jax.random.split(rng)
        best = jnp.argmax(self.network.apply(params, obs), axis=-1)
        random = jax.random.randint(random_rng, best.shape, 0, self.network.n_actions)
        is_random = jax.random.bernoulli(which_rng, epsilon, best.shape)
        return jnp.where(is_random, random, best), params, None

    def evaluate(self, params: Any) -> np.ndarray:
        """Returns of 100 episodes, without exploration."""
        policy, rng = partial(self.act, 0.0), jax.random.key(1_000_003)
        how: Any = {"policy_state": params, "max_steps": 5_000}
        return np.asarray(envrax.evaluate(self.env, policy, rng, 100, **how).returns)

    def update(self, state: TrainState, _: None) -> tuple[TrainState, Any]:
        """A step of each slot, then gradient steps on samples of the buffer."""
        o = self.options
        n_until = o.explore_until * N_CALLS * self.n_updates * o.descents
        epsilon = jnp.maximum(1 - state.n_descents / n_until, o.explore_least)
        at = state.at._replace(policy_state=state.params)
        at, steps = envrax.rollout(self.vec_env, partial(self.act, epsilon), at, 1)
        rng, *rngs = jax.random.split(at.rng, o.descents + 1)
        at = at._replace(policy_state=None, rng=rng)
        state = state._replace(buffer=state.buffer.add(kept(steps)), at=at)
        state, _ = jax.lax.scan(self.descend, state, jnp.stack(rngs))
        return state, (jnp.sum(steps.info["episode"]["r"]), jnp.sum(steps.done))

    def descend(self, state: TrainState, rng: jax.Array) -> tuple[TrainState, None]:
        rows = state.buffer.sample(rng, self.options.minibatch)
        gradient = jax.grad(self.loss)(state.params, state.target, rows)
        change, opt_state = self.optimiser.update(gradient, state.opt_state)
        params, n = optax.apply_updates(state.params, change), state.n_descents + 1
        target = optax.periodic_update(params, state.target, n, self.options.target_period)
        return TrainState(params, target, opt_state, n, state.buffer, state.at), None

    def loss(self, params: Any, target: Any, rows: envrax.Transition) -> jax.Array:
        best = jnp.argmax(self.network.apply(params, rows.next_obs), axis=-1)
        later = taken(self.network.apply(target, rows.next_obs), best)
        bootstrap = jnp.where(rows.terminated, 0.0, later)
        wanted = jax.lax.stop_gradient(rows.reward + self.options.gamma * bootstrap)
        found = taken(self.network.apply(params, rows.obs), rows.action)
        return jnp.mean(optax.l2_loss(found, wanted))


def kept(step: envrax.Transition) -> envrax.Transition:
    return step._replace(info=None, extras=None)


def taken(values: jax.Array, action: jax.Array) -> jax.Array:
    return jnp.take_along_axis(values, action[:, None], axis=1)[:, 0]


def run(dqn: DQN) -> tuple[Any, np.ndarray, np.ndarray]:
    """Train; return the parameters, and the returns of episodes before and after training."""
    state = jax.jit(dqn.init)(dqn.options.seed)
    before = dqn.evaluate(state.params)
    train = jax.jit(partial(jax.lax.scan, dqn.update, length=dqn.n_updates), donate_argnums=0)
    n_steps = dqn.n_updates * dqn.options.n_envs
    with tqdm(total=N_CALLS * n_steps, unit=" steps", unit_scale=True) as bar:
        for _ in range(N_CALLS):
            state, (totals, episodes) = train(state)
            bar.set_postfix({"return": f"{totals.sum() / episodes.sum():.4g}"}, refresh=False)
            bar.update(n_steps)
    return state.params, before, dqn.evaluate(state.params)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS)
    parser.add_argument("env", nargs="?", default=Options.env)
    for field in fields(Options)[1:]:
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=type(field.default))
    given = vars(parser.parse_args(arguments))
    o = Options(**{**PRESETS.get(given["env"], {}), **given})
    print(f"DQN on {o.env}, seed {o.seed}: compiling")
    _, before, after = run(DQN(o))
    print(f"return of 100 episodes: {before.mean():.2f} -> {after.mean():.2f} ± {after.std():.2f}")


if __name__ == "__main__":
    main()
