"""
Prioritised level replay: PPO on the mazes from which its policy learns most.

    python examples/plr.py                        against uniform mazes, three seeds, ten minutes
    python examples/plr.py --seeds 1 --total-steps 300000

A buffer holds mazes as first observations and states. `envrax.StartStates` begins the episodes in
it, inside the compiled training loop, where the buffer is traced and changes after every rollout.
Most episodes replay a maze, one that the policy solves half of the time rather than one that it
always or never solves: its success rate p gives it the score p (1 - p), called its learnability by
Rutherford et al. (2024). Some replay what was not played for long, as in Jiang et al. (2021). The
others play a new maze; new ones take the places of those with the lowest scores.

The algorithm is that of `ppo.py`, with the hyper-parameters that it has for the maze. What counts
is how many mazes are solved that no training has seen: 100 drawn uniformly, and the 100 with the
longest shortest paths among 4,000. It draws the curves in `runs/plr`.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
from ppo_algorithm import PPO, TrainState
from ppo_options import PRESETS, Options
from ppo_spaces import Features
from ppo_views import VIEWS

import envrax

MAZE = "classic/Maze-v0"
N_LEVELS = 512  # in the buffer
N_NEW = 64  # of them not played yet, after every rollout
REPLAYED = 0.9  # of the episodes; the others play new mazes
STALE = 0.1  # of those: chosen by how long they were not played
SHARPNESS = 4  # power of the score
N_TESTS, N_CANDIDATES, TEST_SEED = 100, 4000, 1_000_003


@chex.dataclass
class LevelState(envrax.wrappers.WrapperState[Any]):
    """`level`, int32: the number of the level that is played; -1 for one without a number."""

    level: jax.Array


class Level(envrax.StatefulWrapper[Any, Any, LevelState, Any, Any]):
    """Tell in every step's info which level is played."""

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        return obs, {"level": jnp.int32(-1)}

    def on_step(self, obs: Any, state: LevelState, *rest: Any) -> tuple[Any, ...]:
        reward, done, info = rest
        return obs, state, reward, done, {**info, "level": state.level}


class Levels(NamedTuple):
    """
    The buffer. Place i holds the level with the number i, later i + N_LEVELS, and so on: an episode
    that goes on while its level is replaced is not counted for the next one.
    """

    start: Any  # obs and state
    number: jax.Array  # int32
    wins: jax.Array  # float32, solved episodes; both are halved before new ones are counted
    plays: jax.Array  # float32, all episodes
    age: jax.Array  # int32, rollouts since it was played

    @property
    def score(self) -> jax.Array:
        """How much there is to learn: 1 where half of the episodes are solved."""
        rate = (self.wins + 0.5) / (self.plays + 1)
        return 4 * rate * (1 - rate)

    def chances(self) -> jax.Array:
        """Running sums of how often an episode plays each level."""
        played = self.plays > 0
        replay = jnp.where(jnp.any(played), REPLAYED, 0.0)
        by_score = share(jnp.where(played, self.score**SHARPNESS, 0))
        by_age = share(jnp.where(played, self.age, 0))
        old = (1 - STALE) * by_score + STALE * by_age
        return jnp.cumsum(replay * old + (1 - replay) * share(~played))

    def counted(self, steps: envrax.Transition) -> "Levels":
        """With the episodes that ended in a rollout."""
        number = steps.info["level"]
        place = number % N_LEVELS
        known = steps.done & (self.number[place] == number)
        plays = jnp.zeros_like(self.plays).at[place].add(known)
        wins = jnp.zeros_like(self.wins).at[place].add(known & steps.terminated)
        kept = jnp.where(plays > 0, 0.5, 1.0)
        return self._replace(
            wins=kept * self.wins + wins,
            plays=kept * self.plays + plays,
            age=jnp.where(plays > 0, 0, self.age + 1),
        )


def share(weights: jax.Array) -> jax.Array:
    return weights / jnp.maximum(jnp.sum(weights), 1e-9)


def draw(start: Any, chances: jax.Array, rng: jax.Array) -> Any:
    """The `sample` of `StartStates`: an entry of the buffer."""
    i = jnp.searchsorted(chances, chances[-1] * (1 - jax.random.uniform(rng)))
    return jax.tree.map(lambda x: x[i], start)


class State(NamedTuple):
    """Everything that changes during training."""

    ppo: TrainState
    levels: Levels


class PLR(PPO):
    """PPO that replays levels; with `replays=False`, that plays a new one in every episode."""

    def __init__(self, options: Options, replays: bool = True, **config: Any) -> None:
        self.base: Any = Level(envrax.make(options.env, jit_compile=False, **config))
        self.replays = replays
        super().__init__(options)

    def started(self, sample: Callable[[jax.Array], Any]) -> Any:
        """One environment whose episodes begin as `sample` says."""
        env: Any = envrax.RecordEpisodeStatistics(envrax.StartStates(self.base, sample))
        for wrapper in [*VIEWS.get(self.options.env, []), Features]:
            env = wrapper(env)
        return env

    def make_env(self, n_slots: int) -> Any:
        return envrax.VecEnv(self.started(self.base.reset), n_slots)

    def init(self, seed: int) -> Any:
        number = jnp.arange(N_LEVELS, dtype=jnp.int32)
        none, start = jnp.zeros(N_LEVELS), self.new(jax.random.key(~seed), number)
        return State(super().init(seed), Levels(start, number, none, none, 0 * number))

    def new(self, rng: jax.Array, number: jax.Array) -> Any:
        """New levels with these numbers."""
        obs, state = jax.vmap(self.base.reset)(jax.random.split(rng, len(number)))
        return obs, state.replace(level=number)

    def renewed(self, levels: Levels, rng: jax.Array) -> Levels:
        """With new levels in place of the worst ones, so that `N_NEW` are not played yet."""
        played = levels.plays > 0
        worst = jnp.argsort(jnp.where(played, levels.score, jnp.inf))[:N_NEW]
        is_needed = jnp.arange(N_NEW) < N_NEW - jnp.sum(~played)
        number = levels.number[worst] + N_LEVELS
        place = jnp.where(is_needed, worst, N_LEVELS)  # one that there is not: nothing is written
        new = Levels(self.new(rng, number), number, *[jnp.zeros(N_NEW)] * 2, 0 * number)
        return jax.tree.map(lambda x, y: x.at[place].set(y, mode="drop"), levels, new)

    def update(self, state: Any, _: None) -> tuple[Any, Any]:
        (params, opt_state, at), levels = state
        env = self.env
        if self.replays:
            sample = partial(draw, levels.start, levels.chances())
            env = envrax.VecEnv(self.started(sample), self.options.n_envs)
        explore = partial(self.explore, params)
        at, steps = envrax.rollout(env, explore, at, self.options.n_steps)
        rng, shuffle_rng, level_rng = jax.random.split(at.rng, 3)
        params, opt_state = self.improve(params, opt_state, steps, shuffle_rng)
        if self.replays:
            levels = self.renewed(levels.counted(steps), level_rng)
        ended = jnp.stack([jnp.sum(steps.terminated), jnp.sum(steps.done)])
        return State(TrainState(params, opt_state, at._replace(rng=rng)), levels), ended

    def solved(self, params: Any, starts: Any) -> jax.Array:
        """Whether the policy solves each level within the time limit."""

        def act(_: Any, obs: Any, rng: jax.Array) -> Any:
            return self.act(params, obs, None, rng), None, None

        def play(start: Any, rng: jax.Array) -> jax.Array:
            env = self.started(lambda _: start)
            return envrax.evaluate(env, act, rng, 1).lengths[0] < self.base.config.max_steps

        rngs = jax.random.split(jax.random.key(TEST_SEED), len(starts[1].level))
        return jax.vmap(play)(starts, rngs)

    def tests(self) -> Any:
        """`N_TESTS` uniform levels, and as many hard ones after them."""
        number = jnp.full(N_CANDIDATES, -1, jnp.int32)
        starts = jax.jit(self.new)(jax.random.key(TEST_SEED), number)
        lengths = jax.jit(jax.vmap(path_length))(starts[1].env_state.walls)
        hard = jnp.argsort(-lengths)[:N_TESTS]
        print(f"shortest paths: {lengths.mean():.0f} cells on average, {lengths[hard[-1]]} or more")
        chosen = jnp.concatenate([jnp.arange(N_TESTS), hard])
        return jax.tree.map(lambda x: x[chosen], starts)


def path_length(walls: jax.Array) -> jax.Array:
    """Moves on the shortest path from corner to corner."""
    far = walls.size
    first = jnp.full(walls.shape, far).at[1, 1].set(0)

    def spread(steps: jax.Array, _: None) -> tuple[jax.Array, None]:
        around = [jnp.roll(steps, by, axis) for by in (-1, 1) for axis in (0, 1)]
        nearest = jnp.min(jnp.stack([steps - 1, *around]), axis=0) + 1
        return jnp.where(walls, far, nearest), None

    return jax.lax.scan(spread, first, length=walls.size // 2)[0][-2, -2] // 2


def learn(plr: PLR, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """Steps, and for each seed, and each of them, the shares of uniform and hard mazes solved."""
    o, tests, curves = plr.options, plr.tests(), list[list[np.ndarray]]()
    init, solved = jax.jit(plr.init), jax.jit(plr.solved)
    train = jax.jit(plr.train, donate_argnums=0)
    for seed in range(seeds):
        begin, state, curve = time.perf_counter(), init(seed), list[np.ndarray]()
        for call in range(o.n_calls + 1):
            if call:
                state, _ = train(state)
            curve.append(np.asarray(solved(state.ppo.params, tests)).reshape(2, -1).mean(axis=1))
        curves.append(curve)
        seconds = time.perf_counter() - begin
        name = "replay" if plr.replays else "uniform"
        print(f"{name}, seed {seed}: {curve[-1][0]:.0%} of uniform mazes solved, "
              f"{curve[-1][1]:.0%} of hard ones, {seconds:.0f} s", flush=True)  # fmt: skip
    steps = np.arange(o.n_calls + 1) * o.updates_per_call * o.batch_size
    return steps, np.array(curves)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train PPO on replayed and on uniform mazes.")
    parser.add_argument("--seeds", type=int, default=3, help="how many (3)")
    parser.add_argument("--total-steps", type=int, default=1_000_000, help="of one run (1000000)")
    parser.add_argument("--size", type=int, default=11, help="cells along a side (11)")
    given = parser.parse_args(arguments)
    options = Options(MAZE, **{**PRESETS[MAZE], "total_steps": given.total_steps})
    steps, curves = np.zeros(0), dict[str, np.ndarray]()
    for name, replays in (("a new maze in every episode", False), ("replayed mazes", True)):
        steps, curves[name] = learn(PLR(options, replays, size=given.size), given.seeds)

    from plr_report import print_table, save_curves  # matplotlib is slow to import

    print_table(steps, curves)
    save_curves(Path("runs/plr/curve.png"), steps, curves)
    print("see runs/plr")


if __name__ == "__main__":
    main()
