"""
PPO in pure JAX, for any environment with `Discrete` actions or a `Box` of one axis.

    python examples/ppo.py                                     CartPole, in seconds
    python examples/ppo.py classic/Pendulum-v0 --seed 1
    python examples/ppo.py jumanji/Snake-v1                    from an installed library
    python examples/ppo.py Walk-v0 --import walk               registered by walk.py, in this folder

Rollouts and updates are one compiled program. Images get a small convolution. The script says what
it learned, and writes a learning curve, the policy and a video to `runs/`.
"""

import argparse
import importlib
import sys
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
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

    env: str = "classic/CartPole-v0"
    seed: int = 0
    total_steps: int = 300_000  # over all slots
    n_envs: int = 64
    n_steps: int = 32  # per slot between two updates
    epochs: int = 4
    minibatches: int = 8
    learning_rate: float = 1e-3  # falls to 0
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy_weight: float = 0.0
    reward_scale: float = 1.0
    hidden: int = 64
    fps: int = 30  # of the video


PRESETS: dict[str, dict[str, Any]] = {
    "classic/CartPole-v0": {"learning_rate": 2e-3, "gamma": 0.98, "gae_lambda": 0.98},
    "classic/Pendulum-v0": {"total_steps": 1_500_000, "gamma": 0.95, "reward_scale": 0.1},
    "classic/Catch-v0": {"total_steps": 100_000, "entropy_weight": 0.01, "fps": 6},
    "classic/ConnectFour-v0": {"total_steps": 500_000, "entropy_weight": 0.01, "fps": 2},
}


def is_image(space: Any) -> bool:
    """Whether it is a Box of height, width and channels, from 10x10 on."""
    return isinstance(space, envrax.Box) and len(space.shape) == 3 and min(space.shape[:2]) >= 10


def scaled(env: Any) -> Any:
    """Images, else vectors; they and `Box` actions in -1..1, where they are bounded."""
    if not is_image(env.observation_space):
        env = envrax.FlattenObservation(env)
    env = envrax.RescaleObservation(env, *unit_bounds(env.observation_space))
    if isinstance(env.action_space, envrax.Box):
        env = envrax.ClipAction(envrax.RescaleAction(env, *unit_bounds(env.action_space)))
    return env


def unit_bounds(space: envrax.Box) -> tuple[np.ndarray, np.ndarray]:
    """Bounds divided by the larger absolute value, so that 0 stays 0; huge ones are kept."""
    low, high = np.float64(space.low), np.float64(space.high)
    size = np.maximum(np.abs(low), np.abs(high))
    size = np.where((size > 0) & (size < 1e4), size, 1.0)
    return low / size, high / size


class Categorical(NamedTuple):  # a policy over a `Discrete` space
    log_probs: jax.Array

    def sample(self, rng: jax.Array) -> jax.Array:
        return jax.random.categorical(rng, self.log_probs)

    def log_prob(self, action: jax.Array) -> jax.Array:
        return jnp.take_along_axis(self.log_probs, action[..., None], axis=-1)[..., 0]

    def entropy(self) -> jax.Array:
        return -jnp.sum(jnp.exp(self.log_probs) * self.log_probs, axis=-1)


class Gaussian(NamedTuple):  # a policy over vectors with independent components
    mean: jax.Array
    log_std: jax.Array

    def sample(self, rng: jax.Array) -> jax.Array:
        return self.mean + jnp.exp(self.log_std) * jax.random.normal(rng, self.mean.shape)

    def log_prob(self, action: jax.Array) -> jax.Array:
        std = jnp.exp(self.log_std)
        return jnp.sum(jax.scipy.stats.norm.logpdf(action, self.mean, std), axis=-1)

    def entropy(self) -> jax.Array:
        return jnp.sum(self.log_std + 0.5 * np.log(2 * np.pi * np.e), axis=-1)


class Network(nn.Module):
    """The policy and the value, for one observation or a batch."""

    action_space: Any
    hidden: int
    image: bool = False

    @nn.compact
    def __call__(self, x: jax.Array, mask: Any = None) -> tuple[Any, jax.Array]:
        value = self.head(x, 1)[..., 0]
        if isinstance(self.action_space, envrax.Box):
            log_std = self.param("log_std", nn.initializers.zeros, self.action_space.shape)
            return Gaussian(self.head(x, self.action_space.size), log_std), value
        logits = self.head(x, self.action_space.n)
        if mask is not None:  # illegal actions; -inf would give NaN gradients
            logits = jnp.where(mask, logits, -1e9)
        return Categorical(jax.nn.log_softmax(logits)), value

    def head(self, x: jax.Array, n_outputs: int) -> jax.Array:
        for features in (16, 32) if self.image else ():  # a convolution by patches of n x n
            h, w, c = x.shape[-3:]
            n = 4 if min(h, w) > 20 else 2
            x = jnp.pad(x, [(0, 0)] * (x.ndim - 3) + [(0, -h % n), (0, -w % n), (0, 0)])
            x = x.reshape(*x.shape[:-3], -(-h // n), n, -1, n * c).swapaxes(-3, -2)
            x = nn.relu(nn.Dense(features)(x.reshape(*x.shape[:-2], n * n * c)))
        x = x.reshape(*x.shape[:-3], -1) if self.image else x
        for _ in range(2):
            x = nn.tanh(nn.Dense(self.hidden, kernel_init=nn.initializers.he_uniform())(x))
        return nn.Dense(n_outputs, kernel_init=nn.initializers.zeros)(x)


def advantages(steps: envrax.Transition, value: Any, next_value: Any, o: Options) -> jax.Array:
    """Generalised advantage estimation. `next_value` is the value of `steps.next_obs`."""
    # A truncated episode would have gone on. Only a terminated one has no further rewards.
    bootstrap = jnp.where(steps.terminated, 0.0, next_value)
    surprise = o.reward_scale * steps.reward + o.gamma * bootstrap - value

    def back(later: jax.Array, step: Any) -> tuple[jax.Array, jax.Array]:
        surprise, done = step  # after `done`, the next row is another episode
        advantage = surprise + o.gamma * o.gae_lambda * jnp.where(done, 0.0, later)
        return advantage, advantage

    return jax.lax.scan(back, jnp.zeros_like(surprise[0]), (surprise, steps.done), reverse=True)[1]


class PPO:
    """The algorithm. `init` and `update` are pure functions, to be compiled."""

    def __init__(self, options: Options) -> None:
        self.options = o = options
        self.env, self.vec_env = self.make()
        space = self.vec_env.single_action_space
        if not isinstance(space, envrax.Discrete | envrax.Box) or len(space.shape) > 1:
            raise ValueError(f"PPO: expected Discrete actions or a Box of one axis; got {space}.")
        self.network = Network(space, o.hidden, is_image(self.vec_env.single_observation_space))
        self.n_updates = -(-o.total_steps // (o.n_envs * o.n_steps * N_CALLS))  # of a call
        n_descents = N_CALLS * self.n_updates * o.epochs * o.minibatches
        learning_rate = optax.linear_schedule(o.learning_rate, 0.0, n_descents)
        chain = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(learning_rate))
        self.optimiser = optax.flatten(chain)  # parameters in one vector make a smaller program

    def make(self) -> tuple[Any, Any]:
        """The environment, and the batch that it is trained in."""
        wrappers = [envrax.RecordEpisodeStatistics, scaled]
        env = envrax.make(self.options.env, wrappers=wrappers, jit_compile=False)
        return env, envrax.VecEnv(env, self.options.n_envs)

    def init(self, seed: Any) -> Any:
        """The start of the rollouts, with the policy's parameters, and the optimiser state."""
        rng, obs_rng, network_rng = jax.random.split(jax.random.key(seed), 3)
        obs = self.vec_env.single_observation_space.sample(obs_rng)
        params = self.network.init(network_rng, obs)
        return envrax.start(self.vec_env, rng, params), self.optimiser.init(params)

    def act(self, params: Any, obs: jax.Array, rng: jax.Array, mask: Any) -> Any:
        """The policy: a drawn action, the parameters, and what the loss needs."""
        policy, value = self.network.apply(params, obs, mask)
        action = policy.sample(rng)
        return action, params, (policy.log_prob(action), value, mask)

    def evaluate(self, env: Any, params: Any, n: int, max_steps: int, **policy: Any) -> np.ndarray:
        """Returns of n episodes, of the policy or of `policy=`; None draws legal actions."""
        how = {"policy": self.act, "policy_state": params, "max_steps": max_steps, **policy}
        rng = jax.random.key(1_000_003)
        return np.asarray(envrax.evaluate(env, rng=rng, n_episodes=n, **how).returns)

    def update(self, state: Any, _: None) -> tuple[Any, Any]:
        """A rollout and gradient descent on it; sums and numbers of the returns, by slot."""
        o, (at, opt_state) = self.options, state
        at, steps = envrax.rollout(self.vec_env, self.act, at, o.n_steps)
        log_prob, value, mask = steps.extras
        _, next_value = self.network.apply(at.policy_state, steps.next_obs)
        gain = advantages(steps, value, next_value, o)
        rows = steps.obs, mask, steps.action, log_prob, gain, gain + value
        rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rows)

        def descend(carry: Any, chosen: jax.Array) -> tuple[Any, None]:
            params, opt_state = carry
            gradient = jax.grad(self.loss)(params, jax.tree.map(lambda x: x[chosen], rows))
            change, opt_state = self.optimiser.update(gradient, opt_state)
            return (optax.apply_updates(params, change), opt_state), None

        rng, *shuffle_rngs = jax.random.split(at.rng, o.epochs + 1)
        orders = jnp.stack([jax.random.permutation(key, gain.size) for key in shuffle_rngs])
        minibatches = orders.reshape(o.epochs * o.minibatches, -1)
        (params, opt_state), _ = jax.lax.scan(descend, (at.policy_state, opt_state), minibatches)
        ended = jnp.sum(steps.info["episode"]["r"], axis=0), jnp.sum(steps.done, axis=0)
        return (at._replace(policy_state=params, rng=rng), opt_state), ended

    def loss(self, params: Any, rows: Any) -> jax.Array:
        obs, mask, action, log_prob, gain, target = rows
        policy, value = self.network.apply(params, obs, mask)
        gain = (gain - jnp.mean(gain)) / (jnp.std(gain) + 1e-8)
        ratio = jnp.exp(policy.log_prob(action) - log_prob)
        clipped = jnp.clip(ratio, 1 - self.options.clip, 1 + self.options.clip)
        policy_loss = -jnp.mean(jnp.minimum(ratio * gain, clipped * gain))
        value_loss = 0.5 * jnp.mean(jnp.square(value - target))
        return policy_loss + value_loss - self.options.entropy_weight * jnp.mean(policy.entropy())


def run(ppo: PPO) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    """Train; return the parameters, the learning curve, and the returns before and after."""
    o, ended, state = ppo.options, [], jax.jit(ppo.init)(ppo.options.seed)
    before = ppo.evaluate(ppo.env, state[0].policy_state, 100, 5_000)
    train = jax.jit(partial(jax.lax.scan, ppo.update, length=ppo.n_updates), donate_argnums=0)
    train, batch = train.lower(state).compile(), o.n_envs * o.n_steps
    with tqdm(total=N_CALLS * ppo.n_updates * batch, unit=" steps", unit_scale=True) as bar:
        for _ in range(N_CALLS):
            state, (totals, episodes) = train(state)
            ended.append(np.asarray([totals, episodes]))
            bar.set_postfix({"return": f"{totals.sum() / episodes.sum():.4g}"}, refresh=False)
            bar.update(ppo.n_updates * batch)
    totals, episodes = np.concatenate(ended, axis=1)  # by update and slot
    # Until nine of ten slots have ended an episode, the returns are only those of short ones.
    shown = ((episodes.cumsum(axis=0) > 0).mean(axis=1) > 0.9) & episodes.any(axis=1)
    means = totals[shown].sum(axis=1) / episodes[shown].sum(axis=1)
    curve = np.stack([batch * (1 + np.flatnonzero(shown)), means])
    params = state[0].policy_state
    return params, curve, before, ppo.evaluate(ppo.env, params, 100, 5_000)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS)
    parser.add_argument("env", nargs="?", default=Options.env)
    for field in fields(Options)[1:]:
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=type(field.default))
    parser.add_argument("--import", dest="module", help="a module that registers the environment")
    given = vars(parser.parse_args(arguments))
    sys.path.insert(0, "")  # so that modules in the working directory are found
    if "module" in given:
        importlib.import_module(given.pop("module"))
    o = Options(**{**PRESETS.get(given["env"], {}), **given})
    print(f"PPO on {o.env}, seed {o.seed}: compiling")
    ppo = PPO(o)
    params, curve, before, after = run(ppo)
    drawn = ppo.evaluate(ppo.env, params, 100, 5_000, policy=None)
    said = "return of 100 episodes: random {:.2f}, untrained {:.2f} -> {:.2f} ± {:.2f}"
    print(said.format(drawn.mean(), before.mean(), after.mean(), after.std()))
    if after.mean() - drawn.mean() < 0.3 * np.hypot(after.std(), drawn.std()):  # 3 standard errors
        print("It did not learn: no better than random. Try more --total-steps, or several --seed.")
    from matplotlib.figure import Figure  # a slow import

    folder = Path("runs") / f"{o.env}-{o.seed}"
    envrax.save(folder / "policy.npz", params)
    figure = Figure(figsize=(7, 4), dpi=150, layout="constrained")
    axes = figure.add_subplot(xlabel="environment steps", ylabel="return of an episode")
    axes.plot(*curve, label="training, while exploring")
    axes.axhline(after.mean(), color="C1", ls=":", label=f"after training: {after.mean():.4g}")
    axes.legend(title=f"PPO on {o.env}")
    figure.savefig(folder / "curve.png")
    try:
        with envrax.RecordVideo(envrax.JitWrapper(ppo.env, pre_warm=False), folder, o.fps) as film:
            ppo.evaluate(film, params, 1, max_steps=30 * o.fps)
    except Exception as error:  # a library may need a screen, or cannot draw
        print(f"no video: {error}")
    print(f"in {folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}")


if __name__ == "__main__":
    main()
