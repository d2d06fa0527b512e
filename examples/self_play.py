"""
Self-play: PPO learns a game of two players by playing against itself and its earlier versions.

    python examples/self_play.py                       Connect Four of pgx
    python examples/self_play.py pgx/tic_tac_toe --calls 6

The game is an environment of two agents that take turns. `OneAgent` is the view of one of them: a
plain environment, in whose `step` the opponent answers. Half of the opponents are the current
network, the others are drawn from earlier ones. The state of a slot holds the index of its
opponent, whose parameters are data: nothing is compiled again. One network learns in both seats.
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
from envrax.multi_agent.one_agent import OneAgent, with_policy_state

N_ENVS, N_STEPS, N_UPDATES = 128, 32, 16  # slots per seat, steps per rollout, updates per call
N_PAST = 3  # earlier versions among the opponents
EPOCHS, MINIBATCHES, LEARNING_RATE = 4, 8, 1e-3  # the learning rate falls to a tenth
GAMMA, GAE_LAMBDA, CLIP, ENTROPY_WEIGHT = 0.99, 0.9, 0.2, 0.01


class Network(nn.Module):
    """The log-probabilities of the legal actions, and the value. An untrained one is uniform."""

    n_actions: int

    @nn.compact
    def __call__(self, x: jax.Array, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
        for _ in range(2):
            x = nn.relu(nn.Dense(128)(x))
        out = nn.Dense(self.n_actions + 1, kernel_init=nn.initializers.zeros)(x)
        return jax.nn.log_softmax(jnp.where(mask, out[..., 1:], -1e9)), out[..., 0]


def taken(log_probs: jax.Array, action: jax.Array) -> jax.Array:
    return jnp.take_along_axis(log_probs, action[..., None], axis=-1)[..., 0]


def advantages(steps: envrax.Transition, value: jax.Array, next_value: jax.Array) -> jax.Array:
    """Generalised advantage estimation, bootstrapped unless the game terminated."""
    surprise = steps.reward + GAMMA * jnp.where(steps.terminated, 0.0, next_value) - value

    def back(later: jax.Array, step: Any) -> tuple[jax.Array, jax.Array]:
        surprise, done = step
        advantage = surprise + GAMMA * GAE_LAMBDA * jnp.where(done, 0.0, later)
        return advantage, advantage

    return jax.lax.scan(back, jnp.zeros_like(surprise[0]), (surprise, steps.done), reverse=True)[1]


class SelfPlay:
    """The algorithm. `init`, `train` and `play` are compiled once each."""

    def __init__(self, world: Any, n_calls: int) -> None:
        self.world: Any = envrax.FlattenObservation(world)
        self.network = Network(world.action_space[world.agents[0]].n)
        n_descents = n_calls * N_UPDATES * EPOCHS * MINIBATCHES
        falling = optax.linear_schedule(LEARNING_RATE, LEARNING_RATE / 10, n_descents)
        self.optimiser = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(falling))

    def act(self, params: Any, obs: jax.Array, rng: jax.Array, mask: jax.Array) -> Any:
        log_probs, value = self.network.apply(params, obs, mask)
        action = jax.random.categorical(rng, log_probs)
        return action, params, (taken(log_probs, action), value, mask)

    def seats(self, *pool: Any) -> list[Any]:
        """The game from both seats. An opponent is the index of its parameters in `pool`."""
        stacked = jax.tree.map(lambda *x: jnp.stack(x), *pool)

        def others(index: jax.Array, obs: Any, rng: jax.Array, mask: Any) -> Any:
            [other] = obs
            # All opponents compute a move: gathering the parameters of one of them for every slot
            # would cost more.
            apply = jax.vmap(self.network.apply, in_axes=(0, None, None))
            log_probs, _ = apply(stacked, obs[other], mask[other])
            return {other: jax.random.categorical(rng, log_probs[index])}, index, None

        return [OneAgent(self.world, agent, others, jnp.int32(0)) for agent in self.world.agents]

    @partial(jax.jit, static_argnums=0)
    def init(self, seed: Any) -> Any:
        """The starts of the rollouts of both seats, with parameters; optimiser state; a key."""
        rng, network_rng, *rngs = jax.random.split(jax.random.key(seed), 4)
        obs = jnp.zeros(self.world.observation_space[self.world.agents[0]].shape)
        params = self.network.init(network_rng, obs, jnp.bool_(True))
        envs = [envrax.VecEnv(seat, N_ENVS) for seat in self.seats(params)]
        ats = [envrax.start(env, rng, params) for env, rng in zip(envs, rngs, strict=True)]
        return ats, self.optimiser.init(params), rng

    @partial(jax.jit, static_argnums=0)
    def train(self, state: Any, past: list[Any]) -> tuple[Any, jax.Array]:
        """Several updates against itself and `past`; the mean reward of a game."""
        state, (total, games) = jax.lax.scan(partial(self.update, past), state, length=N_UPDATES)
        return state, jnp.sum(total) / jnp.sum(games)

    def update(self, past: list[Any], state: Any, _: None) -> tuple[Any, Any]:
        """A rollout from each seat, and gradient descent on both."""
        (ats, opt_state, rng), played = state, []
        params = ats[0].policy_state
        rng, index_rng, *rngs = jax.random.split(rng, 2 + EPOCHS)
        for seat, at in zip(self.seats(params, *past), ats, strict=True):
            env: Any = envrax.VecEnv(seat, N_ENVS)
            index = jax.random.randint(index_rng, (N_ENVS,), 1 - len(past), 1 + len(past))
            faced = with_policy_state(env, at.env_state, jnp.maximum(index, 0))
            played.append(envrax.rollout(env, self.act, at._replace(env_state=faced), N_STEPS))
        ats, parts = zip(*played, strict=True)
        steps = jax.tree.map(lambda *x: jnp.concatenate(x, axis=1), *parts)
        log_prob, value, mask = steps.extras
        gain = advantages(steps, value, self.network.apply(params, steps.next_obs, mask)[1])
        rows = steps.obs, mask, steps.action, log_prob, gain, gain + value
        rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rows)

        def descend(carry: Any, chosen: jax.Array) -> tuple[Any, None]:
            params, opt_state = carry
            gradient = jax.grad(self.loss)(params, jax.tree.map(lambda x: x[chosen], rows))
            change, opt_state = self.optimiser.update(gradient, opt_state)
            return (optax.apply_updates(params, change), opt_state), None

        orders = jnp.stack([jax.random.permutation(key, gain.size) for key in rngs])
        minibatches = orders.reshape(EPOCHS * MINIBATCHES, -1)
        (params, opt_state), _ = jax.lax.scan(descend, (params, opt_state), minibatches)
        ats = [at._replace(policy_state=params) for at in ats]
        return (ats, opt_state, rng), (jnp.sum(steps.reward), jnp.sum(steps.done))

    def loss(self, params: Any, rows: Any) -> jax.Array:
        obs, mask, action, log_prob, gain, target = rows
        log_probs, value = self.network.apply(params, obs, mask)
        gain = (gain - jnp.mean(gain)) / (jnp.std(gain) + 1e-8)
        ratio = jnp.exp(taken(log_probs, action) - log_prob)
        kept = jnp.minimum(ratio * gain, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * gain)
        entropy = -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)
        return jnp.mean(0.5 * jnp.square(value - target) - kept - ENTROPY_WEIGHT * entropy)

    @partial(jax.jit, static_argnums=(0, 4))
    def play(self, params: Any, opponent: Any, rng: jax.Array, n_games: int) -> jax.Array:
        """The parts of games won, drawn and lost, in `n_games` from each seat."""
        how: Any = {"policy_state": params}
        found = [envrax.evaluate(x, self.act, rng, n_games, **how) for x in self.seats(opponent)]
        score = jnp.sign(jnp.concatenate([x.returns for x in found]))
        return jnp.stack([jnp.mean(score == x) for x in (1, 0, -1)])


def run(game: SelfPlay, seed: int, n_calls: int) -> list[Any]:
    """Train; return the parameters before the first call and after each."""
    state, draw = game.init(seed), np.random.default_rng(seed)
    history = [state[0][0].policy_state]
    for call in range(1, n_calls + 1):
        # The untrained parameters stay an opponent, so that winning against weak play is not
        # forgotten.
        past = [history[0], *(history[i] for i in draw.integers(call, size=N_PAST - 1))]
        state, mean = game.train(state, past)
        history.append(state[0][0].policy_state)
        print(f"call {call} of {n_calls}, mean reward of a game {float(mean):.2f}", flush=True)
    return history


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("env", nargs="?", default="pgx/connect_four")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calls", type=int, default=16, help="of the compiled training")
    given = parser.parse_args(arguments)
    fields: Any = {"options": {"player": "all"}} if given.env.startswith("pgx/") else {}
    game = SelfPlay(envrax.make(given.env, jit_compile=False, **fields), given.calls)
    began = time.perf_counter()
    history = run(game, given.seed, given.calls)
    print(f"trained in {time.perf_counter() - began:.0f} s")
    for rival, i in {"uniform play": 0, "itself at two thirds": given.calls * 2 // 3}.items():
        won, drawn, lost = game.play(history[-1], history[i], jax.random.key(1_000_003), 1_000)
        print(f"against {rival}: won {won:.1%}, drawn {drawn:.1%}, lost {lost:.1%}")


if __name__ == "__main__":
    main()
