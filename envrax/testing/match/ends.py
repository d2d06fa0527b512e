"""Where episodes end: the limit by the clock, the edges at which they terminate, their lengths."""

from typing import Any

import jax
import numpy as np

from envrax.testing.match.checks import Pair
from envrax.testing.match.coverage import Steps
from envrax.testing.match.numbers import is_continuous, join, take
from envrax.testing.match.report import ALIKE, DIFFERS, EQUAL, SKIPPED, Case, Check
from envrax.testing.match.samples import difference
from envrax.testing.match.slots import REWARD, TERMINATED, TRUNCATED, WIDTH

LONGEST = 20_000  # steps to the limit that are tried
BISECTIONS = 60
SAMPLES = 256  # episodes, where no state can be set


def check_limit(pair: Pair) -> Check:
    """The step at which an episode is truncated, by the clock."""
    declared = getattr(getattr(pair.reference.raw, "spec", None), "max_episode_steps", None)
    ours = pair.slots.env.config.max_steps
    theirs = declared
    if pair.reference.inject is not None and ours <= LONGEST:
        one = pair.episode(0, 0).at([0])
        theirs = _their_limit(pair, one, ours + 1) or declared  # `inject` may reset the clock
        ours = _our_limit(pair, one, ours)
    elif declared is None:
        return Check("limit", SKIPPED, "the reference tells none")
    when = "later or never" if theirs is None else f"at step {theirs}"
    said = f"ours at step {ours}, the reference's {when}"
    return Check("limit", EQUAL if ours == theirs else DIFFERS, said)


def check_ends(pair: Pair) -> Check:
    """Where episodes terminate; without `inject`, their lengths, returns and last observations."""
    if pair.reference.inject is None:
        return _check_episodes(pair)
    terminated = pair.cases.terminated
    floats = any(is_continuous(x) for x in jax.tree.leaves(pair.cases.state))
    if not floats or not terminated.any() or terminated.all():
        return Check("ends", SKIPPED, "no step terminates, or no number of the state is a float")
    running, ending = (
        pair.cases.at(pair.slots.random.choice(np.flatnonzero(which), WIDTH))
        for which in (~terminated, terminated)
    )

    def between(share: np.ndarray) -> Steps:
        def mix(a: Any, b: Any) -> Any:
            weight = share.reshape(-1, *[1] * (a.ndim - 1))
            moves = is_continuous(a) or is_continuous(b)
            return (a + weight * (b - a)).astype(a.dtype) if moves else a

        state = jax.tree.map(mix, running.state, ending.state)
        numbers = pair.slots.ask(state, ending.action)
        return ending._replace(state=state, terminated=numbers[:, TERMINATED] > 0)

    low = np.zeros(WIDTH)
    high = np.ones(WIDTH)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        ends = between(middle).terminated
        low = np.where(ends, low, middle)
        high = np.where(ends, middle, high)
    edge = pair.rounding.precision.edge
    sides = [between(low - edge), between(high + edge)]
    found = ~sides[0].terminated & sides[1].terminated & ~pair.random(sides[1])
    if not found.any():
        return Check("ends", SKIPPED, "no edge was found")
    both = join([side.at(found) for side in sides])
    theirs = pair.reference.ask(both.state, both.action)
    differs = both.terminated != theirs[:, TERMINATED]
    said = f"{found.sum()} edges, to {edge:g} of the way between two states"
    if not differs.any():
        return Check("ends", EQUAL, said)
    i = int(np.argmax(differs))
    one = both.at(i)
    case = Case(one.state, one.action, "terminated", one.terminated, theirs[i, TERMINATED] > 0)
    return Check("ends", DIFFERS, f"{differs.sum()} sides of {said}", case)


def _check_episodes(pair: Pair) -> Check:
    """Episodes of both sides under the same actions, each from a start of its own."""
    ended = pair.visited.terminated | pair.visited.truncated
    begins = np.argwhere(np.concatenate([np.ones((1, WIDTH), bool), ended[:-1]]))
    chosen = pair.slots.random.permutation(begins)[:SAMPLES]
    rows: tuple[list[Any], list[Any]] = ([], [])
    for step, slot in chosen:
        own = pair.episode(step, slot)
        actions = take(pair.visited.action, (slice(step, None), slot))
        runs = pair.slots.ask(own.state, own.action), pair.reference.play(actions)
        for side, run in zip(rows, runs, strict=True):
            side.append([len(run), run[:, REWARD].sum(), *run[-1]])
    names = ["length", "return", *(f"last {name}" for name in pair.slots.names)]
    ours, theirs = map(np.array, rows)
    said, p = difference(names, ours, theirs, pair.slots.random)
    text = f"{len(chosen)} episodes under the same actions; {said or p}"
    return Check("ends", DIFFERS if said else ALIKE, text)


def _our_limit(pair: Pair, one: Steps, limit: int) -> int | None:
    """
    The step around the limit of the config that truncates, with all clocks moved on.

    Clocks are the whole numbers of the state to which every step adds 1.
    """
    own = pair.episode(0, 0).state
    passed = np.maximum(limit - WIDTH // 2 + np.arange(WIDTH), 0)

    def move(x: Any, values: Any) -> Any:
        is_clock = x.dtype.kind in "iu" and x.ndim == 1 and bool(np.all(np.diff(values) == 1))
        rows = np.repeat(x, WIDTH, axis=0)
        return (rows + passed).astype(x.dtype) if is_clock else rows

    state = jax.tree.map(move, one.state, own)
    numbers = pair.slots.ask(state, take(one.action, np.zeros(WIDTH, int)))
    truncated = numbers[:, TRUNCATED] > 0
    return int(passed[np.argmax(truncated)]) + 1 if truncated.any() else None


def _their_limit(pair: Pair, one: Steps, most: int) -> int | None:
    """The step that truncates, put back into one state before each step; the clock goes on."""
    inject: Any = pair.reference.inject
    pair.reference.reset()
    for i in range(most):
        inject(pair.reference.raw, take(one.state, 0))
        if pair.reference.step(take(one.action, 0))[TRUNCATED]:
            return i + 1
    return None
