"""
Prioritised level replay: PPO on the mazes from which its policy learns most.

    python examples/plr.py --seeds 1              compared with a new maze in every episode

A buffer holds the first observations and states of mazes. `envrax.StartStates` starts episodes from
them, inside the compiled training loop. Most episodes replay a maze, preferably one that the policy
solves half of the time: a success rate p has the score p (1 - p), called learnability by Rutherford
et al. (2024). Some episodes replay a maze that was not played for long, as in Jiang et al. (2021).
The others play new mazes, which replace those with the lowest scores. Tests are 100 new mazes, and
the 100 with the longest paths among 4,000. The algorithm is the one of `ppo.py`.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

import envrax
from envrax.classic.maze import CORAL, INK, TEAL  # colours: the agent, the walls, the goal

N_LEVELS = 512  # in the buffer
N_NEW = 64  # levels in the buffer that were not played yet, after every rollout
REPLAYED = 0.9  # part of the episodes that replay a level; the others play a new one
STALE = 0.1  # part of the replays that are chosen by the time since the level was played
SHARPNESS = 4  # power of the score
N_TESTS, N_CANDIDATES, TEST_SEED = 100, 4000, 1_000_003
N_ENVS, N_STEPS, EPOCHS, MINIBATCHES = 128, 128, 4, 16
LEARNING_RATE, GAMMA, GAE_LAMBDA, CLIP, ENTROPY_WEIGHT = 1e-3, 0.99, 0.95, 0.2, 0.02
RADIUS = 6  # how far the agent sees, in tiles


class AroundAgent(envrax.ObservationWrapper[envrax.Box, Any, Any, Any]):
    """From stacked frames: walls, goal and the agent's trail around it, and its position."""

    @property
    def observation_space(self) -> envrax.Box:
        return envrax.Box(0.0, 1.0, (3 * (2 * RADIUS + 1) ** 2 + 2,))

    def observation(self, obs: jax.Array) -> jax.Array:
        def painted(colour: Any) -> jax.Array:
            same = obs == np.array(colour, np.uint8)[:, None]
            return jnp.all(same, axis=2).astype(jnp.float32)

        newest = np.arange(1, obs.shape[-1] + 1, dtype=np.float32) / obs.shape[-1]
        trail = jnp.max(painted(CORAL) * newest, axis=-1)
        row, column = jnp.unravel_index(jnp.argmax(trail), trail.shape)
        planes = jnp.stack([painted(INK)[..., -1] - 1, painted(TEAL)[..., -1], trail])
        padded = jnp.pad(planes, ((0, 0), (RADIUS, RADIUS), (RADIUS, RADIUS)))
        planes = padded.at[0].add(1)  # everything beyond the border is wall
        side = 2 * RADIUS + 1
        window = jax.lax.dynamic_slice(planes, (0, row, column), (3, side, side))
        where = jnp.stack([row, column]).astype(jnp.float32) / trail.shape[0]
        return jnp.concatenate([window.ravel(), where])


class Levels(NamedTuple):
    """
    The buffer. Place i holds the level with number i; its replacement has the number i + N_LEVELS.

    An episode that runs while its level is replaced has the old number. It is not counted for the
    new level.
    """

    start: Any  # obs, state and number
    wins: jax.Array  # solved episodes; older ones count half as much per rollout
    plays: jax.Array  # all episodes, counted in the same way
    age: jax.Array  # rollouts since the level was played

    @property
    def number(self) -> jax.Array:
        return self.start[2]

    @property
    def score(self) -> jax.Array:
        """Learnability: 1 if half of the episodes are solved, 0 if all or none are."""
        rate = (self.wins + 0.5) / (self.plays + 1)
        return 4 * rate * (1 - rate)

    def chances(self) -> jax.Array:
        """The cumulative sum of the probabilities that an episode plays each level."""
        played = self.plays > 0
        replay = jnp.where(jnp.any(played), REPLAYED, 0.0)
        by_score = share(jnp.where(played, self.score**SHARPNESS, 0))
        by_age = share(jnp.where(played, self.age, 0))
        old = (1 - STALE) * by_score + STALE * by_age
        return jnp.cumsum(replay * old + (1 - replay) * share(~played))

    def counted(self, steps: envrax.Transition) -> "Levels":
        """The buffer after counting the episodes that ended in a rollout."""
        number = steps.info["start"]
        place = number % N_LEVELS
        known = steps.done & (self.number[place] == number)
        plays = jnp.zeros_like(self.plays).at[place].add(known)
        wins = jnp.zeros_like(self.wins).at[place].add(known & steps.terminated)
        kept = jnp.where(plays > 0, 0.5, 1.0)
        wins, total = kept * self.wins + wins, kept * self.plays + plays
        return self._replace(wins=wins, plays=total, age=jnp.where(plays > 0, 0, self.age + 1))


def share(weights: jax.Array) -> jax.Array:
    return weights / jnp.maximum(jnp.sum(weights), 1e-9)


def draw(start: Any, chances: jax.Array, rng: jax.Array) -> Any:
    """The `sample` of `StartStates`: draws an entry of the buffer."""
    i = jnp.searchsorted(chances, chances[-1] * (1 - jax.random.uniform(rng)))
    return jax.tree.map(lambda x: x[i], start)


class Network(nn.Module):
    """The log-probabilities of the four moves, and the value."""

    @nn.compact
    def __call__(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        def head(x: jax.Array, n_outputs: int) -> jax.Array:
            for _ in range(2):
                x = nn.tanh(nn.Dense(128, kernel_init=nn.initializers.he_uniform())(x))
            return nn.Dense(n_outputs, kernel_init=nn.initializers.zeros)(x)

        return jax.nn.log_softmax(head(x, 4)), head(x, 1)[..., 0]


def taken(log_probs: jax.Array, action: jax.Array) -> jax.Array:
    return jnp.take_along_axis(log_probs, action[..., None], axis=-1)[..., 0]


class PLR:
    """PPO that replays levels; with `replays=False`, every episode plays a new level."""

    def __init__(self, total_steps: int, replays: bool, **config: Any) -> None:
        self.base: Any = envrax.make("classic/Maze-v0", jit_compile=False, **config)
        self.replays, self.network = replays, Network()
        self.uniform = self.started(lambda rng: (*self.base.reset(rng), -1))
        self.n_updates = -(-total_steps // (N_ENVS * N_STEPS))
        n_descents = self.n_updates * EPOCHS * MINIBATCHES
        falling = optax.linear_schedule(LEARNING_RATE, 0.0, n_descents)
        self.optimiser = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(falling))

    def started(self, sample: Callable[[jax.Array], Any]) -> Any:
        """The environment, with episodes that start from what `sample` draws."""
        starts = envrax.StartStates(self.base, sample)
        return AroundAgent(envrax.FrameStackObservation(starts, n_stack=4))

    def new(self, rng: jax.Array, number: jax.Array) -> Any:
        """New levels with these numbers."""
        return *jax.vmap(self.base.reset)(jax.random.split(rng, len(number))), number

    def init(self, seed: Any) -> Any:
        rng, network_rng, level_rng = jax.random.split(jax.random.key(seed), 3)
        params = self.network.init(network_rng, jnp.zeros(self.uniform.observation_space.shape))
        at = envrax.start(envrax.VecEnv(self.uniform, N_ENVS), rng, params)
        number, none = jnp.arange(N_LEVELS), jnp.zeros(N_LEVELS)
        levels = Levels(self.new(level_rng, number), none, none, 0 * number)
        return at, self.optimiser.init(params), levels

    def renewed(self, levels: Levels, rng: jax.Array) -> Levels:
        """The buffer with the worst levels replaced, so that `N_NEW` levels are not played yet."""
        played = levels.plays > 0
        worst = jnp.argsort(jnp.where(played, levels.score, jnp.inf))[:N_NEW]
        is_needed = jnp.arange(N_NEW) < N_NEW - jnp.sum(~played)
        number, none = levels.number[worst] + N_LEVELS, jnp.zeros(N_NEW)
        new = Levels(self.new(rng, number), none, none, 0 * number)
        place = jnp.where(is_needed, worst, N_LEVELS)  # an index out of bounds writes nothing
        return jax.tree.map(lambda x, y: x.at[place].set(y, mode="drop"), levels, new)

    def act(self, params: Any, obs: jax.Array, rng: jax.Array) -> Any:
        log_probs, value = self.network.apply(params, obs)
        action = jax.random.categorical(rng, log_probs)
        return action, params, (taken(log_probs, action), value)

    def update(self, state: Any, _: None) -> tuple[Any, None]:
        """A rollout, gradient descent on it, and an update of the buffer."""
        at, opt_state, levels = state
        sample = partial(draw, levels.start, levels.chances())
        env = self.started(sample) if self.replays else self.uniform
        at, steps = envrax.rollout(envrax.VecEnv(env, N_ENVS), self.act, at, N_STEPS)
        rng, level_rng, *shuffle_rngs = jax.random.split(at.rng, EPOCHS + 2)
        log_prob, value = steps.extras
        gain = advantages(steps, value, self.network.apply(at.policy_state, steps.next_obs)[1])
        rows = steps.obs, steps.action, log_prob, gain, gain + value
        rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rows)

        def descend(carry: Any, chosen: jax.Array) -> tuple[Any, None]:
            params, opt_state = carry
            gradient = jax.grad(self.loss)(params, jax.tree.map(lambda x: x[chosen], rows))
            change, opt_state = self.optimiser.update(gradient, opt_state)
            return (optax.apply_updates(params, change), opt_state), None

        orders = jnp.stack([jax.random.permutation(key, gain.size) for key in shuffle_rngs])
        minibatches = orders.reshape(EPOCHS * MINIBATCHES, -1)
        (params, opt_state), _ = jax.lax.scan(descend, (at.policy_state, opt_state), minibatches)
        if self.replays:
            levels = self.renewed(levels.counted(steps), level_rng)
        return (at._replace(policy_state=params, rng=rng), opt_state, levels), None

    def loss(self, params: Any, rows: Any) -> jax.Array:
        obs, action, log_prob, gain, target = rows
        log_probs, value = self.network.apply(params, obs)
        gain = (gain - jnp.mean(gain)) / (jnp.std(gain) + 1e-8)
        ratio = jnp.exp(taken(log_probs, action) - log_prob)
        kept = jnp.minimum(ratio * gain, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * gain)
        bonus = -ENTROPY_WEIGHT * jnp.mean(jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1))
        return 0.5 * jnp.mean(jnp.square(value - target)) - jnp.mean(kept) - bonus

    def solved(self, params: Any, starts: Any) -> jax.Array:
        """Whether the policy solves each level within the time limit."""

        def play(start: Any, rng: jax.Array) -> jax.Array:
            # Only the goal has a positive reward.
            env = envrax.TransformReward(self.started(lambda _: start), lambda x: x > 0)
            found = envrax.evaluate(env, self.act, rng, 1, policy_state=params)
            return found.returns[0] > 0

        rngs = jax.random.split(jax.random.key(TEST_SEED), len(starts[2]))
        return jax.vmap(play)(starts, rngs)

    def tests(self) -> Any:
        """`N_TESTS` uniform levels, followed by as many hard ones."""
        starts = jax.jit(self.new)(jax.random.key(TEST_SEED), jnp.full(N_CANDIDATES, -1))
        lengths = jax.jit(jax.vmap(path_length))(starts[1].walls)
        hard = jnp.argsort(-lengths)[:N_TESTS]
        chosen = jnp.concatenate([jnp.arange(N_TESTS), hard])
        return jax.tree.map(lambda x: x[chosen], starts)


def advantages(steps: envrax.Transition, value: jax.Array, next_value: jax.Array) -> jax.Array:
    """Generalised advantage estimation, bootstrapped unless the episode was terminated."""
    surprise = steps.reward + GAMMA * jnp.where(steps.terminated, 0.0, next_value) - value

    def back(later: jax.Array, step: Any) -> tuple[jax.Array, jax.Array]:
        surprise, done = step
        advantage = surprise + GAMMA * GAE_LAMBDA * jnp.where(done, 0.0, later)
        return advantage, advantage

    return jax.lax.scan(back, jnp.zeros_like(surprise[0]), (surprise, steps.done), reverse=True)[1]


def path_length(walls: jax.Array) -> jax.Array:
    """The number of moves on the shortest path from corner to corner."""
    far = walls.size
    first = jnp.full(walls.shape, far).at[1, 1].set(0)

    def spread(steps: jax.Array, _: None) -> tuple[jax.Array, None]:
        around = [jnp.roll(steps, by, axis) for by in (-1, 1) for axis in (0, 1)]
        nearest = jnp.min(jnp.stack([steps - 1, *around]), axis=0) + 1
        return jnp.where(walls, far, nearest), None

    return jax.lax.scan(spread, first, length=walls.size // 2)[0][-2, -2] // 2


def learn(plr: PLR, seed: int, tests: Any) -> np.ndarray:
    """Train; return the parts of uniform and of hard mazes that the policy then solves."""
    train = jax.jit(partial(jax.lax.scan, plr.update, length=plr.n_updates), donate_argnums=0)
    (at, *_), _ = train(jax.jit(plr.init)(seed))
    return np.asarray(jax.jit(plr.solved)(at.policy_state, tests)).reshape(2, -1).mean(axis=1)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--total-steps", type=int, default=1_000_000, help="of one run")
    parser.add_argument("--size", type=int, default=11, help="cells along a side")
    given = parser.parse_args(arguments)
    tests = PLR(given.total_steps, False, size=given.size).tests()
    for name, replays in (("a new maze in every episode", False), ("replayed mazes", True)):
        plr = PLR(given.total_steps, replays, size=given.size)
        shares = np.stack([learn(plr, seed, tests) for seed in range(given.seeds)])
        for kind, x in zip(("uniform", "longest"), shares.T, strict=True):
            print(f"{name}: {x.mean():.0%} ({x.min():.0%} to {x.max():.0%}) of {kind} mazes solved")


if __name__ == "__main__":
    main()
