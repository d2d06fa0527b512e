"""
Multi-task PPO: one policy for several environments, in one `MultiVecEnv`.

    python examples/multi_task.py                              three tasks, in half a minute
    python examples/multi_task.py gymnax/CartPole-v1 navix/Navix-Empty-5x5-v0

The tasks differ in their observations and numbers of actions. `pad_spaces` gives them equal spaces,
and masks of the choices that a task has. Each observation has a one-hot code of its task. `FACTORS`
scale rewards, so that no task dominates the loss. The algorithm is the one of `ppo.py`.
"""

import argparse
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from tqdm import tqdm

import envrax

FACTORS = {
    "classic/CartPole-v0": 0.1,
    "classic/Acrobot-v0": 0.1,
    "classic/Ball-v0": 1.0,
    "gymnax/CartPole-v1": 0.1,
}
N_EACH, N_STEPS, EPOCHS, MINIBATCHES, N_CALLS = 32, 32, 4, 8, 20  # slots of each task
LEARNING_RATE, GAMMA, GAE_LAMBDA, CLIP = 1e-3, 0.99, 0.95, 0.2


class Network(nn.Module):
    """The log-probabilities of the actions that a task has, and the value."""

    n_choices: int
    hidden: int = 64

    @nn.compact
    def __call__(self, x: jax.Array, choices: jax.Array) -> tuple[jax.Array, jax.Array]:
        def head(x: jax.Array, n_outputs: int) -> jax.Array:
            for _ in range(2):
                x = nn.tanh(nn.Dense(self.hidden, kernel_init=nn.initializers.he_uniform())(x))
            return nn.Dense(n_outputs, kernel_init=nn.initializers.zeros)(x)

        # -inf would give NaN gradients.
        logits = jnp.where(choices, head(x, self.n_choices), -1e9)
        return jax.nn.log_softmax(logits), head(x, 1)[..., 0]


class MultiTaskPPO:
    """The algorithm. `init` and `update` are pure functions, to be compiled."""

    def __init__(self, names: list[str], total_steps: int, hidden: int = 64) -> None:
        wrappers = [envrax.RecordEpisodeStatistics]
        made = {name: envrax.make(name, wrappers=wrappers, jit_compile=False) for name in names}
        self.names = names
        self.envs = envrax.pad_spaces(made)
        slots = {name: envrax.VecEnv(x, N_EACH, final_obs=True) for name, x in self.envs.items()}
        self.fleet = envrax.MultiVecEnv(slots)
        # One row for each slot, as in all arrays below.
        self.task = np.repeat(np.eye(len(names), dtype=np.float32), N_EACH, axis=0)
        self.factors = np.repeat([FACTORS.get(name, 1.0) for name in names], N_EACH)
        self.network = Network(next(iter(self.envs.values())).action_space.n, hidden)
        self.batch = len(names) * N_EACH * N_STEPS
        self.n_updates = -(-total_steps // (self.batch * N_CALLS))  # per call
        n_descents = N_CALLS * self.n_updates * EPOCHS * MINIBATCHES
        falling = optax.linear_schedule(LEARNING_RATE, 0.0, n_descents)
        self.optimiser = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(falling))

    def see(self, obs: Any) -> jax.Array:
        """The input of the network: observations with the one-hot code of the task."""
        return jnp.concatenate([self.rows(obs), self.task], axis=1)

    def rows(self, values: Any) -> jax.Array:
        """The results of all members in one array."""
        return jnp.concatenate([values[name] for name in self.names])

    def init(self, seed: Any) -> Any:
        rng, reset_rng, network_rng = jax.random.split(jax.random.key(seed), 3)
        obs, states = self.fleet.reset(reset_rng)
        params = self.network.init(network_rng, self.see(obs), jnp.bool_(True))
        return params, self.optimiser.init(params), self.see(obs), states, rng

    def play(self, params: Any, carry: Any, rng: jax.Array) -> tuple[Any, envrax.Transition]:
        """A step of all slots of all tasks."""
        obs, states = carry
        choices = self.rows(self.fleet.action_masks(states))
        log_probs, value = self.network.apply(params, obs, choices)
        action = jax.random.categorical(rng, log_probs)
        actions = dict(zip(self.names, jnp.split(action, len(self.names)), strict=True))
        after, states, reward, done, info = self.fleet.step(states, actions)
        terminated = {name: info[name].get("terminated", done[name]) for name in self.names}
        step = envrax.Transition(
            obs=obs,
            action=action,
            reward=self.rows(reward) * self.factors,
            done=self.rows(done),
            terminated=self.rows(terminated),
            truncated=self.rows(done) & ~self.rows(terminated),
            next_obs=self.see({name: info[name]["final_obs"] for name in self.names}),
            info={"return": self.rows({name: info[name]["episode"]["r"] for name in self.names})},
            extras=(choices, taken(log_probs, action), value),
        )
        return (self.see(after), states), step

    def update(self, state: Any, _: None) -> tuple[Any, Any]:
        """A rollout and gradient descent on it; sums and numbers of the returns, by task."""
        params, opt_state, obs, states, rng = state
        rng, play_rng, *shuffle_rngs = jax.random.split(rng, EPOCHS + 2)
        keys = jax.random.split(play_rng, N_STEPS)
        (obs, states), steps = jax.lax.scan(partial(self.play, params), (obs, states), keys)
        choices, log_prob, value = steps.extras
        _, next_value = self.network.apply(params, steps.next_obs, choices)
        gain = advantages(steps, value, next_value)
        rows = steps.obs, choices, steps.action, log_prob, gain, gain + value
        rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rows)

        def descend(carry: Any, chosen: jax.Array) -> tuple[Any, None]:
            params, opt_state = carry
            gradient = jax.grad(self.loss)(params, jax.tree.map(lambda x: x[chosen], rows))
            change, opt_state = self.optimiser.update(gradient, opt_state)
            return (optax.apply_updates(params, change), opt_state), None

        orders = jnp.stack([jax.random.permutation(key, gain.size) for key in shuffle_rngs])
        minibatches = orders.reshape(EPOCHS * MINIBATCHES, -1)
        (params, opt_state), _ = jax.lax.scan(descend, (params, opt_state), minibatches)
        ended = jnp.stack([steps.info["return"], steps.done])
        ended = ended.reshape(2, N_STEPS, len(self.names), -1)
        return (params, opt_state, obs, states, rng), jnp.sum(ended, axis=(1, 3))

    def loss(self, params: Any, rows: Any) -> jax.Array:
        obs, choices, action, log_prob, gain, target = rows
        log_probs, value = self.network.apply(params, obs, choices)
        gain = (gain - jnp.mean(gain)) / (jnp.std(gain) + 1e-8)
        ratio = jnp.exp(taken(log_probs, action) - log_prob)
        kept = jnp.minimum(ratio * gain, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * gain)
        return 0.5 * jnp.mean(jnp.square(value - target)) - jnp.mean(kept)

    def evaluate(self, params: Any) -> list[float]:
        """The mean return of 100 episodes of each task."""
        means = list[float]()
        for env, task in zip(self.envs.values(), self.task[::N_EACH], strict=True):

            def act(params: Any, obs: Any, rng: Any, mask: Any, task: Any = task) -> Any:
                log_probs, _ = self.network.apply(params, jnp.concatenate([obs, task]), mask)
                return jnp.argmax(log_probs), params, None

            how: Any = {"policy_state": params, "max_steps": 5_000}
            found = envrax.evaluate(env, act, jax.random.key(1_000_003), 100, **how)
            means.append(float(jnp.mean(found.returns)))
        return means


def taken(log_probs: jax.Array, action: jax.Array) -> jax.Array:
    return jnp.take_along_axis(log_probs, action[..., None], axis=-1)[..., 0]


def advantages(steps: envrax.Transition, value: jax.Array, next_value: jax.Array) -> jax.Array:
    """Generalised advantage estimation, bootstrapped unless the episode was terminated."""
    surprise = steps.reward + GAMMA * jnp.where(steps.terminated, 0.0, next_value) - value

    def back(later: jax.Array, step: Any) -> tuple[jax.Array, jax.Array]:
        surprise, done = step
        advantage = surprise + GAMMA * GAE_LAMBDA * jnp.where(done, 0.0, later)
        return advantage, advantage

    return jax.lax.scan(back, jnp.zeros_like(surprise[0]), (surprise, steps.done), reverse=True)[1]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train one policy on several environments.")
    parser.add_argument("envs", nargs="*", help="their names")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--total-steps", type=int, default=750_000, help="of all tasks together")
    given = parser.parse_args(arguments)
    ppo = MultiTaskPPO(given.envs or list(FACTORS)[:3], given.total_steps)
    print(f"PPO on {', '.join(ppo.names)}, seed {given.seed}: compiling")
    state = jax.jit(ppo.init)(given.seed)
    before = ppo.evaluate(state[0])
    train = jax.jit(partial(jax.lax.scan, ppo.update, length=ppo.n_updates), donate_argnums=0)
    n_steps = ppo.n_updates * ppo.batch
    with tqdm(total=N_CALLS * n_steps, unit=" steps", unit_scale=True) as bar:
        for _ in range(N_CALLS):
            state, ended = train(state)
            totals, episodes = np.asarray(ended).sum(axis=0)
            means = dict(zip(ppo.names, totals / np.maximum(episodes, 1), strict=True))
            bar.set_postfix(means, refresh=False)
            bar.update(n_steps)
    after = ppo.evaluate(state[0])
    width = max(map(len, ppo.names))
    print(f"{'mean return':<{width}} |  before |   after\n{'-' * width}-|---------|--------")
    for name, first, last in zip(ppo.names, before, after, strict=True):
        print(f"{name:<{width}} | {first:7.2f} | {last:7.2f}")


if __name__ == "__main__":
    main()
