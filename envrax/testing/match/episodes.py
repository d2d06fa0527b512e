"""Starts, and episodes from starts of each side, under lists of actions or a policy."""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envrax.rollouts.evaluate import evaluate
from envrax.testing.match.environment import PROBES, ended
from envrax.testing.match.numbers import Sketch, count, is_constant, size, take
from envrax.testing.match.report import OPEN, Check
from envrax.testing.match.sizes import FLOAT32
from envrax.testing.match.statistics import Evidence, compare
from envrax.testing.match.trials import LOG_ALPHA, Sides, Windows, check_of, legal

MOST_FLIPS = 0.002  # the share of a list's episodes that rounding may decide
LISTS = 6  # of actions, for episodes
EPISODE = 32  # steps of an episode that is compared
LONG_EPISODE = 256  # where no state can be set
EPISODES = 0.075  # of a list, for each reset
MOST_OF_START = 1200  # numbers of a first observation that are tested
SOME = 200  # starts of each side, of which the numbers that vary most are kept
PLAYED = 64  # episodes of a policy, on each side
MORE = 5  # times as many, if the first look different


def check_starts(sides: Sides) -> Check:
    """The distribution of the first observations."""
    ours = sides.environment.reset(sides.n_resets)[0]
    theirs = np.stack([sides.reference.reset() for _ in range(sides.n_resets)])
    said = f"{sides.n_resets} resets"
    if is_constant(theirs) and not is_constant(ours):
        said += "; the reference's are all the same: does each of its resets begin with one seed?"
    tolerance = sides.usual_tolerance(np.maximum(size(ours), size(theirs)).max(axis=0))
    some = np.concatenate([ours[:SOME], theirs[:SOME]])
    sketch = Sketch(some, 0, sides.environment.names, sides.random, MOST_OF_START)
    both = sketch(ours)[None], sketch(theirs)[None]
    tolerance = sketch.tolerance(tolerance)[None]
    tested = compare(*both, tolerance, sketch.names, {}, sides.random, most=MOST_OF_START)
    return check_of("starts", said, tested, sides.n_resets, [])


def check_episodes(sides: Sides) -> Check:
    """Episodes from starts of each side, under the same lists of actions."""
    longest = LONG_EPISODE if sides.reference.inject is None else EPISODE
    length = min(longest, sides.limit or longest)
    rows = sides.random.integers(count(sides.starts), size=LISTS * PROBES)
    actions = sides.environment.plan(take(sides.starts, rows), LISTS, length)
    draws = max(40, round(sides.n_resets * EPISODES))
    for n_draws in (draws, MORE * draws):
        episodes = [_episodes(sides, take(actions, np.full(n_draws, i))) for i in range(LISTS)]
        tested = _compared(sides, episodes)
        if tested.log_p > math.log(0.5):
            break
    left_out: list[str] = []
    n_legal = min(x.legal for x in episodes)
    if n_legal < length:
        left_out.append(
            f"what follows {n_legal} steps, where an action is illegal in some episodes"
        )
    if tested.log_p < LOG_ALPHA:
        episodes = [x for x in map(partial(_with_slack, sides), episodes) if x is not None]
        lost = LISTS - len(episodes)
        if lost:
            left_out.append(f"{lost} of {LISTS} lists of actions, where rounding decides")
        if lost > LISTS / 2:
            return Check("episodes", OPEN, "rounding decides", left_out=(*left_out,))
        tested = _compared(sides, episodes)
    said = f"{len(episodes)} lists of up to {length} actions, {n_draws} episodes each"
    return check_of("episodes", said, tested, len(episodes) * n_draws, left_out)


class _Episodes(NamedTuple):
    """Our windows under one list of actions, and both sides' numbers, of the starts first."""

    windows: Windows
    ours: np.ndarray
    theirs: np.ndarray
    legal: int  # steps that are legal in all episodes
    slack: Any = 0.0  # for each step and number what rounding may change


def _with_slack(sides: Sides, one: _Episodes) -> _Episodes | None:
    """The same, and what a rounding of the states changes; None if that are results."""
    _, tolerance, edges = sides.nearby(one.windows, FLOAT32)  # starts are float32
    if edges.mean() > MOST_FLIPS:
        return None
    return one._replace(slack=sides.sketch.tolerance(tolerance[~edges].max(axis=0)))


def _episodes(sides: Sides, actions: Any) -> _Episodes:
    """Episodes of each side under as many lists of actions."""
    first, states = sides.environment.reset(count(actions))
    windows = Windows(states, actions)
    numbers = sides.environment.play(*windows)
    their_first, theirs = sides.reference.play(None, actions)
    numbers, theirs, illegal = legal(numbers[None], theirs[None])
    ours = np.concatenate([first[:, None], numbers[0]], axis=1)
    theirs = np.concatenate([their_first[:, None], theirs[0]], axis=1)
    n_legal = max(1, int((~illegal).sum()))
    return _Episodes(windows, sides.sketch(ours), sides.sketch(theirs), n_legal)


def _compared(sides: Sides, episodes: list[_Episodes]) -> Evidence:
    length = episodes[0].ours.shape[1] - 1
    times = [2**i - 1 for i in range(length.bit_length())]  # steps 1, 2, 4, 8, ...
    kept: list[str] = sides.sketch.names
    names = ["return", "length"]
    names += [f"{x} in step {t + 1}, as a change" for t in times for x in kept]
    names += [f"{x} since the start, after {t + 1}" for t in times for x in kept]
    one = 2 * sides.usual_tolerance(sides.scale)
    tolerances: list[np.ndarray] = []
    for x in episodes:
        steps = sides.sketch.tolerance(one) + np.broadcast_to(x.slack, (length, len(kept)))
        ends = [steps[:, sides.environment.rewards].sum(), 0.0]
        tolerances.append(np.concatenate([ends, *[steps[times].ravel()] * 2]))
    ours = np.stack([_summary(sides, x.ours, times) for x in episodes])
    theirs = np.stack([_summary(sides, x.theirs, times) for x in episodes])
    return compare(ours, theirs, np.stack(tolerances), names, {}, sides.random)


def _summary(sides: Sides, numbers: np.ndarray, times: list[int]) -> np.ndarray:
    """The return, the length, and changes of observations, which do not show the start itself."""
    rewards = sides.environment.rewards
    steps = numbers[:, 1:]
    before = numbers.copy()
    before[:, :, : rewards.stop] = 0  # flags and rewards are no changes
    with np.errstate(invalid="ignore"):
        changes = (steps - before[:, :-1])[:, times]
        since = (steps - before[:, :1])[:, times]
    is_end = ended(steps)
    lengths = steps.shape[1] - is_end.sum(axis=1) + is_end.any(axis=1)
    ends = np.stack([steps[:, :, rewards].sum(axis=(1, 2)), lengths], axis=1)
    return np.concatenate([ends, *(x.reshape(len(x), -1) for x in (changes, since))], axis=1)


def check_transfer(sides: Sides, policy: Any, rng: jax.Array) -> Check:
    """Returns and lengths of episodes of a policy, such as one trained on one side."""
    env = sides.environment.env
    like: Any = jax.eval_shape(env.reset, rng)[0]
    splits = np.cumsum([x.size for x in jax.tree.leaves(like)])
    begin = len(sides.environment.names) - int(splits[-1])

    def act(numbers: jax.Array, state: Any, rng: jax.Array) -> Any:
        rng, key = jax.random.split(rng)
        parts = jax.tree.unflatten(jax.tree.structure(like), jnp.split(numbers, splits)[:-1])
        obs: Any = jax.tree.map(lambda x, y: x.reshape(y.shape).astype(y.dtype), parts, like)
        action, state, _ = policy(state, obs, key)
        return action, state, rng

    program: Any = jax.jit(act)

    def play(rng: jax.Array) -> tuple[float, int]:
        numbers = sides.reference.reset()
        state: Any = None
        total = 0.0
        length = 0
        while length < env.config.max_steps and not ended(numbers):
            action, state, rng = program(numbers[begin:], state, rng)
            numbers = sides.reference.step(jax.device_get(action))
            total += float(numbers[sides.environment.rewards].sum())
            length += 1
        return total, length

    found = jax.device_get(evaluate(env, policy, rng, PLAYED))
    ours = np.stack([found.returns, found.lengths], axis=1).astype(np.float64)
    theirs = np.array([play(key) for key in jax.random.split(rng, PLAYED)])
    tolerance = np.array([[1e-5 * max(1e-3, abs(ours[:, 0]).max()), 0]])
    tested = compare(ours[None], theirs[None], tolerance, ["return", "length"], {}, sides.random)
    means = (f"{x.mean():.4g} +- {x.std() / PLAYED**0.5:.2g}" for x in (ours[:, 0], theirs[:, 0]))
    said = f"{PLAYED} episodes, return {' here, '.join(means)} there"
    return check_of("transfer", said, tested, PLAYED, [])
