"""Environments of simulators on the host for tests, and the same stepped by hand."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium.spaces import Box, Dict
from gymnasium.wrappers import TransformObservation
from helpers import assert_trees_equal

KEY = jax.random.key(7)


def seed_of(rng: jax.Array) -> int:
    """The seed that `from_gymnasium_vec` makes of a key."""
    return int(jax.random.bits(rng, (), np.uint32)) >> 2


def nested_cartpole() -> gymnasium.Env:
    """CartPole whose observation is a dict."""
    parts = Dict({"place": Box(-np.inf, np.inf, (2,)), "angle": Box(-np.inf, np.inf, (2,))})
    return TransformObservation(gymnasium.make("CartPole-v1"), _split, parts)


def _split(obs: Any) -> Any:
    return {"place": obs[:2], "angle": obs[2:]}


MAKE: dict[str, Callable[[], gymnasium.Env]] = {
    "CartPole": partial(gymnasium.make, "CartPole-v1"),
    "time limit": partial(gymnasium.make, "MountainCar-v0", max_episode_steps=13),
    "tuple": partial(gymnasium.make, "Blackjack-v1"),
    "dict": nested_cartpole,
}


def stacked(rows: list[Any]) -> Any:
    """Single observations as a batch, in the dtypes that JAX has."""
    arrays = jax.tree.map(lambda *leaves: np.stack(leaves), *rows)
    return jax.tree.map(lambda x: x.astype(jax.dtypes.canonicalize_dtype(x.dtype)), arrays)


class ByHand:
    """Single environments of Gymnasium, reset by hand in the step that ends an episode."""

    def __init__(self, make: Callable[[], gymnasium.Env], n: int, rng: jax.Array) -> None:
        self.envs = [make() for _ in range(n)]
        seed = seed_of(rng)
        begun = [env.reset(seed=seed + i) for i, env in enumerate(self.envs)]
        self.first = stacked([obs for obs, _ in begun])

    def step(self, actions: Any) -> tuple[Any, ...]:
        """obs, rewards, dones, terminated, truncated, final_obs, infos of the step."""
        last, rewards, terminated, truncated, infos = zip(
            *(env.step(a) for env, a in zip(self.envs, actions, strict=True)), strict=True
        )
        dones = np.array(terminated) | np.array(truncated)
        pairs = zip(self.envs, last, dones, strict=True)
        obs = [env.reset()[0] if done else obs for env, obs, done in pairs]
        ends = np.array(terminated), np.array(truncated)
        rewards = np.array(rewards, np.float32)
        return stacked(obs), rewards, dones, *ends, stacked(list(last)), infos


def draw(space: Any, n: int, seed: int = 0) -> Iterator[Any]:
    """`n` random batches of actions."""
    sample = jax.jit(space.sample)
    for rng in jax.random.split(jax.random.key(seed), n):
        yield jax.tree.map(np.asarray, sample(rng))


def check_returned_arrays_stay(left: Any, written: Any, steps: int = 40) -> None:
    """
    Arrays that were returned do not change later, and belong to the caller.

    `written` is the same as `left`; its results are written over, and it goes on as before.
    """
    (obs, a), (theirs, b) = left.reset(KEY), written.reset(KEY)
    kept, copies = [obs], [np.copy(obs)]
    theirs[:] = 7
    for actions in draw(left.action_space, steps):
        obs, a, *rest = left.step(a, actions)
        theirs, b, *others = written.step(b, actions)
        assert_trees_equal([obs, rest], [theirs, others])
        kept.append([obs, rest])
        copies.append(jax.tree.map(np.copy, kept[-1]))
        for array in jax.tree.leaves([theirs, others]):
            array[:] = 7
    assert_trees_equal(kept, copies)


Stream = list[list[tuple[Any, ...]]]


def same_step_stream(env: Any, actions: Any, info: str) -> Stream:
    """Transitions by slot: observation, action, reward, ends, an info, last observation."""
    obs, state = env.reset(KEY)
    slots: Stream = [[] for _ in range(env.n_slots)]
    for row in actions:
        before = obs
        obs, state, rewards, _, infos = env.step(state, row)
        for i, slot in enumerate(slots):
            ends = infos["terminated"][i], infos["truncated"][i]
            slot.append(
                (before[i], row[i], rewards[i], *ends, infos[info][i], infos["final_obs"][i])
            )
    return slots


def next_step_stream(pool: Any, actions: Any, info: str, **options: Any) -> Stream:
    """The same of a pool that spends a step on a reset, in which it ignores the action."""
    obs, _ = pool.reset(**options)
    slots: Stream = [[] for _ in range(len(actions[0]))]
    ended = np.zeros(len(slots), bool)
    while min(map(len, slots)) < len(actions):
        at = [min(len(slot), len(actions) - 1) for slot in slots]
        chosen = actions[at, np.arange(len(slots))]
        before = np.array(obs)
        obs, rewards, terminated, truncated, infos = pool.step(chosen.astype(np.int32))
        for i, slot in enumerate(slots):
            if not ended[i]:
                ends = (terminated[i], truncated[i])
                final = (infos[info][i], np.array(obs[i]))
                slot.append((before[i], chosen[i], rewards[i], *ends, *final))
        ended = terminated | truncated
    return [slot[: len(actions)] for slot in slots]


def assert_streams_equal(ours: Stream, theirs: Stream) -> None:
    """Transition by transition; at least one episode of each slot ended."""
    assert len(ours) == len(theirs)
    for mine, yours in zip(ours, theirs, strict=True):
        assert any(step[3] or step[4] for step in mine)
        for step, other in zip(mine, yours, strict=True):
            for a, b in zip(step, other, strict=True):
                np.testing.assert_array_equal(a, b)
