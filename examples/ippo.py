"""
Independent PPO for several agents. Agents with equal spaces share a network.

    python examples/ippo.py                                       three seeds at once
    python examples/ippo.py jaxmarl/MPE_simple_speaker_listener_v4      agents of two kinds

Agents with equal spaces are one kind. `agents_as_slots` makes them the slots of a batch, on which
PPO trains. Each kind learns in worlds of its own, in which the others act with their current
networks. The script prints, by kind and seed, the mean return of an agent in worlds that ended.
"""

import argparse
import time
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

import envrax
from envrax.multi_agent.agent_slots import agents_as_slots

N_WORLDS, N_STEPS, N_CALLS = 64, 32, 20  # worlds per kind, steps per rollout, lines of the curve
EPOCHS, MINIBATCHES, LEARNING_RATE = 4, 4, 2e-3  # the learning rate falls to 0
GAMMA, GAE_LAMBDA, CLIP, ENTROPY_WEIGHT = 0.99, 0.95, 0.2, 0.01


class Network(nn.Module):
    """The log-probabilities of the legal actions, and the value."""

    n_actions: int

    @nn.compact
    def __call__(self, x: jax.Array, mask: Any = None) -> tuple[jax.Array, jax.Array]:
        def head(x: jax.Array, n_outputs: int) -> jax.Array:
            for _ in range(2):
                x = nn.tanh(nn.Dense(64)(x))
            return nn.Dense(n_outputs, kernel_init=nn.initializers.zeros)(x)

        logits = head(x, self.n_actions)
        logits = logits if mask is None else jnp.where(mask, logits, -1e9)
        return jax.nn.log_softmax(logits), head(x, 1)[..., 0]


def taken(log_probs: jax.Array, action: jax.Array) -> jax.Array:
    return jnp.take_along_axis(log_probs, action[..., None], axis=-1)[..., 0]


def advantages(steps: envrax.Transition, value: jax.Array, next_value: jax.Array) -> jax.Array:
    """
    Generalised advantage estimation, bootstrapped unless the world terminated.

    An agent whose episode has ended still gets the rewards of its team.
    """
    surprise = steps.reward + GAMMA * jnp.where(steps.terminated, 0.0, next_value) - value

    def back(later: jax.Array, step: Any) -> tuple[jax.Array, jax.Array]:
        surprise, done = step
        advantage = surprise + GAMMA * GAE_LAMBDA * jnp.where(done, 0.0, later)
        return advantage, advantage

    return jax.lax.scan(back, jnp.zeros_like(surprise[0]), (surprise, steps.done), reverse=True)[1]


class IPPO:
    """The algorithm. `init` and `train` are pure functions, to be compiled."""

    def __init__(self, name: str, total_steps: int) -> None:
        wrappers: Any = [envrax.FlattenObservation, envrax.RecordEpisodeStatistics]
        self.world: Any = envrax.make(name, wrappers=wrappers, jit_compile=False)
        kinds: dict[Any, list[str]] = {}
        for agent in self.world.agents:
            spaces = self.world.observation_space[agent], self.world.action_space[agent]
            kinds.setdefault(spaces, []).append(agent)
        self.kinds = list(kinds.values())
        self.kind_of = {agent: i for i, agents in enumerate(self.kinds) for agent in agents}
        self.networks = [Network(acts.n) for _, acts in kinds]
        self.n_updates = -(-total_steps // (N_WORLDS * N_STEPS * N_CALLS))  # of a call
        n_descents = N_CALLS * self.n_updates * EPOCHS * MINIBATCHES
        falling = optax.linear_schedule(LEARNING_RATE, 0.0, n_descents)
        self.optimiser = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(falling))

    def act(self, kind: int, params: Any, obs: Any, rng: jax.Array, mask: Any) -> Any:
        """The policy of a kind, for one agent or a batch of agents."""
        log_probs, value = self.networks[kind].apply(params, obs, mask)
        action = jax.random.categorical(rng, log_probs)
        return action, params, (taken(log_probs, action), value, mask)

    def slots(self, kind: int, everyones: Any) -> Any:
        """Worlds in which the agents of a kind are the slots; the others act by their networks."""

        def others(_: None, obs: Any, rng: jax.Array, mask: Any) -> Any:
            actions = {}
            for (agent, x), key in zip(obs.items(), jax.random.split(rng, len(obs)), strict=True):
                i, legal = self.kind_of[agent], mask and mask[agent]
                actions[agent] = self.act(i, everyones[i], x, key, legal)[0]
            return actions, None, None

        return agents_as_slots(envrax.VecEnv(self.world, N_WORLDS), self.kinds[kind], others)

    def init(self, rng: jax.Array) -> Any:
        """For each kind, the start of its rollouts with its parameters, and its optimiser state."""
        rng, *rngs = jax.random.split(rng, 1 + len(self.kinds))
        shapes = [self.world.observation_space[agents[0]].shape for agents in self.kinds]
        params = [x.init(rng, jnp.zeros(y)) for x, y in zip(self.networks, shapes, strict=True)]
        return [
            (envrax.start(self.slots(i, params), key, x), self.optimiser.init(x))
            for i, (x, key) in enumerate(zip(params, rngs, strict=True))
        ]

    def train(self, state: Any) -> tuple[Any, jax.Array]:
        """Several updates; the mean return of an agent in the worlds that ended, by kind."""
        state, ended = jax.lax.scan(self.update, state, length=self.n_updates)
        return state, jnp.stack([jnp.sum(r) / jnp.sum(n) for r, n in ended])

    def update(self, state: Any, _: None) -> tuple[Any, Any]:
        everyones = [at.policy_state for at, _ in state]
        updated = [self.update_kind(i, everyones, *one) for i, one in enumerate(state)]
        return tuple(map(list, zip(*updated, strict=True)))

    def update_kind(self, kind: int, everyones: Any, at: envrax.Rollout, opt_state: Any) -> Any:
        """A rollout and gradient descent on it; sum and number of the returns of ended episodes."""
        act, apply = partial(self.act, kind), self.networks[kind].apply
        at, steps = envrax.rollout(self.slots(kind, everyones), act, at, N_STEPS)
        log_prob, value, mask = steps.extras
        gain = advantages(steps, value, apply(at.policy_state, steps.next_obs)[1])
        rows = steps.obs, mask, steps.action, log_prob, gain, gain + value, steps.info["active"]
        rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rows)

        def loss(params: Any, rows: Any) -> jax.Array:
            obs, mask, action, log_prob, gain, target, active = rows
            log_probs, value = apply(params, obs, mask)
            gain -= jnp.mean(gain, where=active)
            gain /= jnp.std(gain, where=active) + 1e-8
            ratio = jnp.exp(taken(log_probs, action) - log_prob)
            kept = jnp.minimum(ratio * gain, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * gain)
            entropy = -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)
            gained = jnp.mean(kept + ENTROPY_WEIGHT * entropy, where=active)
            # The value is learned in all steps, since each is bootstrapped from the next one, in
            # which the agent may not act.
            return 0.5 * jnp.mean(jnp.square(value - target)) - gained

        def descend(carry: Any, chosen: jax.Array) -> tuple[Any, None]:
            params, opt_state = carry
            gradient = jax.grad(loss)(params, jax.tree.map(lambda x: x[chosen], rows))
            change, opt_state = self.optimiser.update(gradient, opt_state)
            return (optax.apply_updates(params, change), opt_state), None

        rng, *rngs = jax.random.split(at.rng, 1 + EPOCHS)
        orders = jnp.stack([jax.random.permutation(key, gain.size) for key in rngs])
        minibatches = orders.reshape(EPOCHS * MINIBATCHES, -1)
        (params, opt_state), _ = jax.lax.scan(descend, (at.policy_state, opt_state), minibatches)
        ended = jnp.sum(steps.info["episode"]["r"]), jnp.sum(steps.done)
        return (at._replace(policy_state=params, rng=rng), opt_state), ended


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("env", nargs="?", default="jaxmarl/MPE_simple_spread_v3")
    parser.add_argument("--seeds", type=int, default=3, help="trained at once")
    parser.add_argument("--total-steps", type=int, default=500_000, help="of the worlds of a kind")
    given = parser.parse_args(arguments)
    ippo = IPPO(given.env, given.total_steps)
    print(f"mean return of {'; '.join(', '.join(agents) for agents in ippo.kinds)}")
    random = envrax.evaluate(ippo.world, None, jax.random.key(1_000_003), 1_000).returns
    means = [np.mean([random[agent] for agent in agents]) for agents in ippo.kinds]
    print(f"    random play: {'; '.join(f'{x:.2f}' for x in means)}")
    began = time.perf_counter()
    state = jax.jit(jax.vmap(ippo.init))(jax.vmap(jax.random.key)(jnp.arange(given.seeds)))
    train = jax.jit(jax.vmap(ippo.train), donate_argnums=0)
    for call in range(1, N_CALLS + 1):
        state, means = train(state)
        steps = call * ippo.n_updates * N_WORLDS * N_STEPS
        shown = "; ".join(" ".join(f"{x:.2f}" for x in seeds) for seeds in means.T)
        print(f"{steps:>9,} steps: {shown}", flush=True)
    print(f"trained in {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
