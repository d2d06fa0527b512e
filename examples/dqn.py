"""
DQN with a replay buffer, on any environment that envrax knows by name whose actions are a few, and
always legal.

    python examples/dqn.py                                     MountainCar, in a minute
    python examples/dqn.py classic/CartPole-v0 --seed 1

A replay buffer needs the observation that each step led to. Where an episode ended, the next row of
a rollout is another episode; `Transition.next_obs` is the right one. The target is bootstrapped
from it unless the step *terminated* the episode: one that a time limit truncated would have gone
on.

Double DQN, in pure JAX. The buffer is flashbax's. `ppo.py` draws the progress bar.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import flashbax
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from ppo import run
from ppo_algorithm import EPISODES, LONGEST
from ppo_network import Conv
from ppo_spaces import Features

import envrax


@dataclass(frozen=True)
class Options:
    """The environment and the hyper-parameters. Every field is a command-line option."""

    env: str = "classic/MountainCar-v0"
    seed: int = 0
    total_steps: int = 250_000  # of all slots together
    n_envs: int = 16
    n_steps: int = 1  # per slot between two updates
    buffer_size: int = 50_000  # steps
    first_steps: int = 2_000  # taken before learning begins
    minibatch: int = 128
    descents: int = 8  # gradient steps of an update
    learning_rate: float = 1e-3
    gamma: float = 0.98
    target_period: int = 300  # gradient steps between two copies of the network
    explore_until: float = 0.2  # part of the training after which exploration is least
    explore_least: float = 0.07  # part of the actions that are random in the end
    hidden: int = 128

    @property
    def batch_size(self) -> int:
        """Steps between two updates, of all slots together."""
        return self.n_envs * self.n_steps

    @property
    def updates_per_call(self) -> int:
        """Updates in one call of the compiled program; about twenty calls make up the training."""
        return -(-self.total_steps // (20 * self.batch_size))

    @property
    def n_calls(self) -> int:
        return -(-self.total_steps // (self.updates_per_call * self.batch_size))


PRESETS: dict[str, dict[str, Any]] = {
    "classic/CartPole-v0": dict(total_steps=100_000, gamma=0.99, explore_least=0.04),
}


class Step(NamedTuple):
    """What the buffer keeps of a step."""

    obs: Any
    action: jax.Array
    reward: jax.Array
    terminated: jax.Array
    next_obs: Any  # that of the step itself, also where an episode ended


class Values(nn.Module):
    """The value of each action; two convolutions for each image."""

    n_actions: int
    hidden: int

    @nn.compact
    def __call__(self, obs: Any) -> jax.Array:
        leaves = jax.tree.leaves(obs)
        parts = [Conv(32)(Conv(16)(x)).ravel() if x.ndim == 3 else x.ravel() for x in leaves]
        x = jnp.concatenate(parts)
        for _ in range(2):
            x = nn.relu(nn.Dense(self.hidden)(x))
        return nn.Dense(self.n_actions)(x)


class TrainState(NamedTuple):
    """Everything that changes during training."""

    params: Any
    target: Any  # older parameters, which the targets are made of
    opt_state: Any
    n_descents: jax.Array
    buffer: Any
    at: envrax.Rollout


class DQN:
    """The algorithm: `init`, `train` and `evaluate` are pure functions, to be compiled."""

    tasks = ("return",)
    n_episodes = EPISODES

    def __init__(self, options: Options) -> None:
        self.options = o = options
        wrappers = [envrax.RecordEpisodeStatistics, Features]
        self.single_env = envrax.make(o.env, wrappers=wrappers, jit_compile=False)
        space = self.single_env.action_space
        if not isinstance(space, envrax.Discrete):
            raise TypeError(f"dqn: expected actions in a Discrete; got {space} from {o.env}.")
        masks = jax.eval_shape(self.first_mask, jax.random.key(0))
        if masks is not None:
            raise TypeError(f"dqn: expected actions that are always legal; {o.env} has a mask.")
        self.env = envrax.VecEnv(self.single_env, o.n_envs)
        self.network = Values(space.n, o.hidden)
        self.optimiser = optax.flatten(optax.adam(o.learning_rate))
        self.replay = flashbax.make_item_buffer(
            o.buffer_size, o.first_steps, o.minibatch, add_batches=True
        )

    def first_mask(self, rng: jax.Array) -> Any:
        return self.single_env.action_mask(self.single_env.reset(rng)[1])

    def init(self, seed: int) -> TrainState:
        rng, network_rng = jax.random.split(jax.random.key(seed))
        at = envrax.start(self.env, rng)
        obs = jax.tree.map(lambda x: x[0], at.obs)
        params = self.network.init(network_rng, obs)
        item = Step(obs, jnp.int32(0), jnp.float32(0), jnp.bool_(False), obs)
        opt_state, buffer = self.optimiser.init(params), self.replay.init(item)
        return TrainState(params, params, opt_state, jnp.int32(0), buffer, at)

    def values(self, params: Any, obs: Any) -> Any:
        """Of each action, for many observations."""
        return jax.vmap(self.network.apply, (None, 0))(params, obs)

    def act(self, params: Any, epsilon: Any, _: Any, obs: Any, rng: jax.Array) -> Any:
        """The policy of a rollout: the best action, or with probability `epsilon` any."""
        random_rng, which_rng = jax.random.split(rng)
        best = jnp.argmax(self.values(params, obs), axis=-1).astype(jnp.int32)
        random = jax.random.randint(random_rng, best.shape, 0, self.network.n_actions, jnp.int32)
        return (
            jnp.where(jax.random.bernoulli(which_rng, epsilon, best.shape), random, best),
            _,
            None,
        )

    def train(self, state: TrainState) -> tuple[TrainState, Any]:
        """Some updates; for each, the sum and number of finished returns."""
        return jax.lax.scan(self.update, state, length=self.options.updates_per_call)

    def update(self, state: TrainState, _: None) -> tuple[TrainState, Any]:
        o = self.options
        n_until = o.explore_until * o.total_steps / o.batch_size * o.descents
        epsilon = jnp.maximum(1 - state.n_descents / n_until, o.explore_least)
        policy = partial(self.act, state.params, epsilon)
        at, steps = envrax.rollout(self.env, policy, state.at, o.n_steps)
        rows = Step(steps.obs, steps.action, steps.reward, steps.terminated, steps.next_obs)
        rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rows)
        state = state._replace(at=at, buffer=self.replay.add(state.buffer, rows))
        enough = self.replay.can_sample(state.buffer)
        state = jax.lax.cond(enough, self.improve, lambda state: state, state)
        episode = steps.info["episode"]
        ended = jnp.stack([episode["r"], (episode["l"] > 0).astype(jnp.float32)])
        return state, jnp.sum(ended, axis=(1, 2))[:, None]

    def improve(self, state: TrainState) -> TrainState:
        """A few steps of gradient descent on what the buffer holds."""
        rng, *rngs = jax.random.split(state.at.rng, self.options.descents + 1)

        def descend(state: TrainState, rng: jax.Array) -> tuple[TrainState, None]:
            rows = self.replay.sample(state.buffer, rng).experience
            gradient = jax.grad(self.loss)(state.params, state.target, rows)
            change, opt_state = self.optimiser.update(gradient, state.opt_state)
            params, n = optax.apply_updates(state.params, change), state.n_descents + 1
            period = self.options.target_period
            target = optax.periodic_update(params, state.target, n, period)
            return state._replace(
                params=params, target=target, opt_state=opt_state, n_descents=n
            ), None

        state, _ = jax.lax.scan(descend, state, jnp.stack(rngs))
        return state._replace(at=state.at._replace(rng=rng))

    def loss(self, params: Any, target: Any, rows: Step) -> jax.Array:
        best = jnp.argmax(self.values(params, rows.next_obs), axis=-1)
        later = taken(self.values(target, rows.next_obs), best)
        bootstrap = jnp.where(rows.terminated, 0.0, later)
        wanted = jax.lax.stop_gradient(rows.reward + self.options.gamma * bootstrap)
        found = taken(self.values(params, rows.obs), rows.action)
        return jnp.mean(optax.l2_loss(found, wanted))

    def evaluate(self, params: Any, seed: int) -> jax.Array:
        """Returns of the first 100 episodes that start, without exploration."""
        env = envrax.VecEnv(self.single_env, EPISODES)
        policy, rng = partial(self.act, params, 0.0), jax.random.key(seed)
        return envrax.evaluate(env, policy, rng, EPISODES, max_steps=LONGEST).returns


def taken(values: jax.Array, action: jax.Array) -> jax.Array:
    """The value of one action in each row."""
    return jnp.take_along_axis(values, action[:, None], axis=1)[:, 0]


def parse(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line; defaults are those of `PRESETS`, else those of `Options`."""
    parser = argparse.ArgumentParser(
        description="Train DQN.", argument_default=argparse.SUPPRESS, usage="dqn.py [env] [options]"
    )
    parser.add_argument("env", nargs="?", default=Options.env, help="its name")
    for field in fields(Options)[1:]:
        kind: Any = field.type
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=kind, metavar=kind.__name__)
    given = vars(parser.parse_args(arguments))
    return Options(**{**PRESETS.get(given["env"], {}), **given})


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    print(f"DQN on {options.env}, seed {options.seed}: compiling")
    try:
        result = run(DQN(options))
    except (ImportError, TypeError, ValueError) as error:
        raise SystemExit(f"dqn.py: error: {error}") from error
    for name, returns in (("before", result.before), ("after", result.after)):
        score = f"{returns.mean():.2f} ± {returns.std():.2f}"
        print(f"{name:>6}: {score} over the first {EPISODES} episodes started")

    from ppo_report import save_curve  # matplotlib is slow to import

    path = Path("runs") / f"dqn-{options.env}-{options.seed}" / "curve.png"
    (curve,) = result.curves
    save_curve(path, f"DQN on {options.env}", curve, result.before, result.after)
    print(f"see {path}")


if __name__ == "__main__":
    main()
