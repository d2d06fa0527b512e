"""
PPO on any environment that is registered with envrax, in pure JAX.

    python examples/ppo.py                                  # CartPole, solved in seconds
    python examples/ppo.py classic/Pendulum-v0 --seed 1
    python examples/ppo.py their/Env-v0 --import their_package --total-steps 2000000

Rollouts and updates are one compiled program, `PPO.train`: Python only draws the progress bar.
"""
# ruff: noqa: E402

import time

START = time.perf_counter()  # before the imports, which are part of the wait

import argparse
import importlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import envrax
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from envrax import Box, Discrete
from tqdm import tqdm


@dataclass(frozen=True)
class Config:
    """What to train on, and how. Every field is an option of the command line."""

    env: str = "classic/CartPole-v0"
    seed: int = 0
    total_steps: int = 1_000_000  # of all environments together
    n_envs: int = 64
    n_steps: int = 64  # of each environment between two updates
    epochs: int = 4
    minibatches: int = 8
    learning_rate: float = 1e-3  # falls to 0
    max_grad_norm: float = 0.5
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy: float = 0.01
    value_weight: float = 0.5
    reward_scale: float = 1.0
    hidden: int = 64
    fps: int = 30  # of the video

    @property
    def n_updates(self) -> int:
        return max(1, self.total_steps // (self.n_envs * self.n_steps))


PRESETS: dict[str, dict[str, Any]] = {
    "classic/CartPole-v0": dict(total_steps=300_000),
    "classic/Pendulum-v0": dict(gamma=0.95, reward_scale=0.1, entropy=0.0),
    "classic/Catch-v0": dict(fps=5),
}
EPISODES = 100  # of an evaluation


class VectorAction(envrax.ActionWrapper[Any, Box, Any, Any]):
    """
    Take any real vector as action: what is out of bounds is clipped.

    Where a bound is finite on both sides, they are at -1 and 1.
    """

    @property
    def action_space(self) -> Box:
        return Box(-np.inf, np.inf, (self.env.action_space.size,))

    def action(self, action: jax.Array) -> jax.Array:
        space: Box = self.env.action_space
        low, high = (np.broadcast_to(b, space.shape) for b in (space.low, space.high))
        bounded = np.isfinite(low) & np.isfinite(high)
        middle = np.where(bounded, low / 2 + high / 2, 0).astype(np.float32)
        reach = np.where(bounded, high / 2 - low / 2, 1).astype(np.float32)
        wanted = middle + reach * action.reshape(space.shape)
        return jnp.clip(wanted.astype(space.dtype), low, high)


def wrappers_for(name: str) -> list[Any]:
    """What it takes, beside counting, to put a network in front of an environment."""
    env = envrax.make(name, jit_compile=False)
    wrappers: list[Any] = [envrax.RecordEpisodeStatistics]
    if env.observation_space.dtype == jnp.uint8:
        wrappers.append(envrax.NormalizeObservation)
    if isinstance(env.action_space, Box):
        wrappers.append(VectorAction)
    return wrappers


class Categorical(NamedTuple):
    """A policy over a Discrete space."""

    logits: jax.Array

    def sample(self, rng: jax.Array) -> jax.Array:
        return jax.random.categorical(rng, self.logits)

    def mode(self) -> jax.Array:
        return jnp.argmax(self.logits, axis=-1)

    def log_prob(self, action: jax.Array) -> jax.Array:
        log_probs = jax.nn.log_softmax(self.logits)
        return jnp.take_along_axis(log_probs, action[..., None], axis=-1)[..., 0]

    def entropy(self) -> jax.Array:
        log_probs = jax.nn.log_softmax(self.logits)
        return -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)


class Gaussian(NamedTuple):
    """A policy over real vectors, one independent component each."""

    mean: jax.Array
    log_std: jax.Array

    def sample(self, rng: jax.Array) -> jax.Array:
        noise = jax.random.normal(rng, self.mean.shape, self.mean.dtype)
        return self.mean + jnp.exp(self.log_std) * noise

    def mode(self) -> jax.Array:
        return self.mean

    def log_prob(self, action: jax.Array) -> jax.Array:
        return jnp.sum(jax.scipy.stats.norm.logpdf(action, self.mean, jnp.exp(self.log_std)), -1)

    def entropy(self) -> jax.Array:
        return jnp.sum(self.log_std + 0.5 * np.log(2 * np.pi * np.e), axis=-1)


class Conv(nn.Module):
    """A 3x3 convolution of stride 2, as a matrix product: its gradient is far faster on a CPU."""

    features: int

    @nn.compact
    def __call__(self, image: jax.Array) -> jax.Array:
        height, width, _ = image.shape
        padded = jnp.pad(image, ((1, 1), (1, 1), (0, 0)))
        patches = [padded[y : y + height : 2, x : x + width : 2] for y in range(3) for x in range(3)]
        return nn.relu(nn.Dense(self.features)(jnp.concatenate(patches, axis=-1)))


class MLP(nn.Module):
    """Two hidden layers; all outputs are 0 before training."""

    hidden: int
    n_out: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for _ in range(2):
            x = nn.tanh(nn.Dense(self.hidden, kernel_init=nn.initializers.he_uniform())(x))
        return nn.Dense(self.n_out, kernel_init=nn.initializers.zeros)(x)


class ActorCritic(nn.Module):
    """From one observation to a policy and a value."""

    action_space: Discrete | Box
    hidden: int

    @nn.compact
    def __call__(self, obs: jax.Array) -> tuple[Categorical | Gaussian, jax.Array]:
        x = Conv(32)(Conv(16)(obs)).ravel() if obs.ndim == 3 else obs.ravel()
        value = MLP(self.hidden, 1, name="critic")(x)[0]
        if isinstance(self.action_space, Discrete):
            return Categorical(MLP(self.hidden, self.action_space.n, name="actor")(x)), value
        mean = MLP(self.hidden, self.action_space.size, name="actor")(x)
        return Gaussian(mean, self.param("log_std", nn.initializers.zeros, mean.shape)), value


class Transition(NamedTuple):
    """A step of every environment."""

    obs: jax.Array
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    next_value: jax.Array  # of what the step led to, before any reset
    reward: jax.Array
    terminated: jax.Array
    done: jax.Array


def advantages(t: Transition, gamma: float, gae_lambda: float) -> jax.Array:
    """
    Generalised advantage estimates of a rollout, whose leading axis is time.

    The return of an episode that was cut short goes on, as the critic sees it; that of one that
    terminated does not. In both cases the next row is of another episode.
    """
    delta = t.reward + gamma * jnp.where(t.terminated, 0.0, t.next_value) - t.value

    def back(later: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        delta, done = step
        advantage = delta + gamma * gae_lambda * jnp.where(done, 0.0, later)
        return advantage, advantage

    return jax.lax.scan(back, jnp.zeros_like(delta[0]), (delta, t.done), reverse=True)[1]


class TrainState(NamedTuple):
    """All that changes during training."""

    params: Any
    opt_state: Any
    obs: jax.Array
    env_state: Any
    rng: jax.Array


class PPO:
    """The algorithm: `init`, `train` and `evaluate` are pure functions."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.wrappers = wrappers_for(config.env)
        self.env = envrax.make_vec(
            config.env, config.n_envs, wrappers=self.wrappers, final_obs=True, pre_warm=False
        )
        self.network = ActorCritic(self.env.single_action_space, config.hidden)
        self.policy = jax.vmap(self.network.apply, (None, 0))
        n_updates = config.n_updates * config.epochs * config.minibatches
        adam = optax.adam(optax.linear_schedule(config.learning_rate, 0.0, n_updates))
        clip = optax.clip_by_global_norm(config.max_grad_norm)
        self.optimiser = optax.flatten(optax.chain(clip, adam))  # one long vector compiles faster
        self.updates_per_call = max(1, round(config.n_updates / 20))

    def init(self, seed: int) -> TrainState:
        rng, env_rng, network_rng = jax.random.split(jax.random.key(seed), 3)
        obs, env_state = self.env.reset(env_rng)
        params = self.network.init(network_rng, obs[0])
        return TrainState(params, self.optimiser.init(params), obs, env_state, rng)

    def train(self, state: TrainState) -> tuple[TrainState, Any]:
        """Some updates, and for each of them the sum of the returns and the episodes that ended."""
        return jax.lax.scan(self.update, state, length=self.updates_per_call)

    def update(self, state: TrainState, _: None) -> tuple[TrainState, Any]:
        rng, rollout_rng, shuffle_rng = jax.random.split(state.rng, 3)
        (obs, env_state), (rollout, episode) = jax.lax.scan(
            partial(self.step, state.params),
            (state.obs, state.env_state),
            jax.random.split(rollout_rng, self.config.n_steps),
        )
        params, opt_state = self.improve(state.params, state.opt_state, rollout, shuffle_rng)
        ended = (jnp.sum(episode["r"]), jnp.sum(episode["l"] > 0))
        return TrainState(params, opt_state, obs, env_state, rng), ended

    def step(self, params: Any, carry: Any, rng: jax.Array) -> tuple[Any, Any]:
        obs, env_state = carry
        policy, value = self.policy(params, obs)
        action = policy.sample(rng)
        next_obs, env_state, reward, done, info = self.env.step(env_state, action)
        transition = Transition(
            obs=obs,
            action=action,
            log_prob=policy.log_prob(action),
            value=value,
            next_value=self.policy(params, info["final_obs"])[1],
            reward=reward * self.config.reward_scale,
            terminated=info.get("terminated", done),
            done=done,
        )
        return (next_obs, env_state), (transition, info["episode"])

    def improve(
        self, params: Any, opt_state: Any, rollout: Transition, rng: jax.Array
    ) -> tuple[Any, Any]:
        """Some epochs of gradient descent over a rollout, in shuffled minibatches."""
        c = self.config
        advantage = advantages(rollout, c.gamma, c.gae_lambda)
        samples = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (rollout, advantage))
        in_order = jnp.tile(jnp.arange(c.n_envs * c.n_steps), (c.epochs, 1))
        shuffled = jax.random.permutation(rng, in_order, axis=1, independent=True)

        def descend(carry: Any, rows: jax.Array) -> tuple[Any, None]:
            params, opt_state = carry
            minibatch = jax.tree.map(lambda x: x[rows], samples)
            gradient = jax.grad(self.loss)(params, *minibatch)
            change, opt_state = self.optimiser.update(gradient, opt_state)
            return (optax.apply_updates(params, change), opt_state), None

        minibatches = shuffled.reshape(c.epochs * c.minibatches, -1)
        return jax.lax.scan(descend, (params, opt_state), minibatches)[0]

    def loss(self, params: Any, t: Transition, advantage: jax.Array) -> jax.Array:
        c = self.config
        policy, value = self.policy(params, t.obs)
        value_loss = jnp.mean(jnp.square(value - (t.value + advantage)))
        advantage = (advantage - jnp.mean(advantage)) / (jnp.std(advantage) + 1e-8)
        ratio = jnp.exp(policy.log_prob(t.action) - t.log_prob)
        clipped = jnp.clip(ratio, 1 - c.clip, 1 + c.clip)
        policy_gain = jnp.mean(jnp.minimum(ratio * advantage, clipped * advantage))
        entropy = jnp.mean(policy.entropy())
        return c.value_weight * value_loss - policy_gain - c.entropy * entropy

    def evaluate(self, params: Any, seed: int) -> jax.Array:
        """
        Returns of the first 100 episodes started, by the policy without its noise.

        Each slot plays one episode to its end. The first 100 to finish would be the short ones.
        """
        env = self.env.env
        obs, env_state = jax.vmap(env.reset)(jax.random.split(jax.random.key(seed), EPISODES))

        def running(carry: Any) -> jax.Array:
            return ~jnp.all(carry[2]) & (carry[4] < env.config.max_steps)

        def step(carry: Any) -> Any:
            obs, env_state, over, returns, n = carry
            action = self.policy(params, obs)[0].mode()
            obs, env_state, reward, done, _ = jax.vmap(env.step)(env_state, action)
            return obs, env_state, over | done, returns + jnp.where(over, 0.0, reward), n + 1

        over, returns = jnp.zeros(EPISODES, bool), jnp.zeros(EPISODES, jnp.float32)
        return jax.lax.while_loop(running, step, (obs, env_state, over, returns, jnp.int32(0)))[3]
