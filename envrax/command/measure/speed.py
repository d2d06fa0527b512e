"""What a step of an environment costs in so many slots: its parts, and steps per second."""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from envrax.autoreset import Compact, Select, choose
from envrax.env import AnyEnv
from envrax.vec_env import VecEnv
from envrax.wrappers.base import layers

REPEATS = 7
SECONDS = 0.25  # that one repetition takes, about
MOST_STEPS = 10_000  # of one scan
LOOP, RESET = "python_loop", "reset"


class Speed(NamedTuple):
    """
    What was measured with one number of slots.

    Attributes
    ----------
    n : int
        Number of slots.
    strategy : str
        The strategy of auto-reset that `VecEnv` chooses, "Compact" or "Select".
    seconds : dict
        Seconds for all slots, in each repetition: of a step in a scan with "Compact" and with
        "Select", of one from a "python_loop", and of a "reset" in a scan.
    layers : dict
        The same of a step that never resets: of the environment, then with each of its wrappers
        around it, the innermost first.
    bytes_per_slot : float or None
        Arguments, results and temporary arrays of the scan; None if the backend does not tell.
    episode_steps : float or None
        Mean length of the episodes; None if no episode ended.
    """

    n: int
    strategy: str
    seconds: dict[str, list[float]]
    layers: dict[str, list[float]]
    bytes_per_slot: float | None
    episode_steps: float | None

    def per_second(self, way: str = "") -> float:
        """Steps of all slots per second: the median; by default in a scan, as `VecEnv` resets."""
        return self.n / self.seconds_of_step(way)

    def seconds_of_step(self, way: str = "") -> float:
        """Seconds of a step of all slots: the median."""
        return statistics.median(self.seconds[way or self.strategy])

    def per_slot(self, way: str = "") -> list[float]:
        """Seconds of a step of one slot, in each repetition."""
        return [seconds / self.n for seconds in self.seconds[way or self.strategy]]

    def parts(self) -> Iterator[tuple[str, float | None]]:
        """
        The environment, its wrappers and auto-reset, and the seconds that each adds to a step.

        None in place of seconds that are negative, or within the spread of the repetitions.
        """
        ours = self.seconds[self.strategy]
        without = [0.0] * len(ours)
        for name, times in [*self.layers.items(), ("auto-reset", ours)]:
            cost = difference(times, without)
            yield name, cost if cost is not None and cost > 0 else None
            without = times

    def gain(self, strategy: str) -> float | None:
        """How many times as fast a step is with another strategy; None within the spread."""
        ours, other = self.seconds[self.strategy], self.seconds[strategy]
        if difference(ours, other) is None:
            return None
        return statistics.median(ours) / statistics.median(other)

    def data(self) -> dict[str, Any]:
        """All of it for a JSON file."""
        rates = {way: self.per_second(way) for way in self.seconds if way != RESET}
        return {**self._asdict(), "steps_per_second": rates, "parts": dict(self.parts())}


def difference(these: Sequence[float], those: Sequence[float]) -> float | None:
    """
    The difference of two medians; None if it is not larger than the spread.

    The spread is the range of the middle half of the differences in each repetition.
    """
    pairs = [a - b for a, b in zip(these, those, strict=True)]
    first, _, third = statistics.quantiles(pairs, n=4, method="inclusive")
    found = statistics.median(these) - statistics.median(those)
    return found if abs(found) > third - first else None


def measure(env: AnyEnv, n: int, tell: Callable[[str], object] = lambda doing: None) -> Speed:
    """
    Measure an environment in `n` slots: compile all programs, then time them in turns.

    Parameters
    ----------
    env : JaxEnv
        The environment; it must be traceable.
    n : int
        Number of slots.
    tell : callable, optional
        Called with a text about what is done next.
    """
    tell("number of steps")
    play = RandomPlay(VecEnv(env, n))
    start = play.start
    steps = _how_many(lambda turns: play.in_python(start, turns))
    resets = _how_many(lambda turns: [play.vec_env.reset(start.rng) for _ in range(turns)])
    ways = {LOOP: _Way(partial(play.in_python, n_steps=steps), start, steps)}

    def add(name: str, scan: Callable[[Carry], Carry], start: Carry, turns: int) -> None:
        tell(f"compile {name}")
        ways[name] = _Way(jax.jit(scan).lower(start).compile(), start, turns)

    chosen = choose(env, n)
    strategies: dict[str, Any] = {type(x).__name__: x for x in (Compact(), Select(), chosen)}
    for name, autoreset in strategies.items():
        step = VecEnv(env, n, autoreset=autoreset).step
        add(name, partial(play.in_scan, step=step, n_steps=steps), start, steps)
    add(RESET, partial(play.resets, n_resets=resets), start, resets)
    names: list[str] = []
    for i, layer in enumerate(reversed(layers(env))):
        inner = RandomPlay(VecEnv(layer, n, autoreset=False))
        names.append(f"{'+ ' if i else 'step of '}{type(layer).__name__}")
        names[-1] += f" ({i})" if names[-1] in ways else ""  # the same wrapper, once more
        scan = partial(inner.in_scan, step=inner.vec_env.step, n_steps=steps)
        add(names[-1], scan, inner.start, steps)
    strategy = type(chosen).__name__
    seconds, last = _in_turns(ways, tell)
    taken, ended = int(last[strategy].steps), int(last[strategy].ended)
    return Speed(
        n,
        strategy,
        {name: times for name, times in seconds.items() if name not in names},
        {name: seconds[name] for name in names},
        _bytes_of(ways[strategy].run, n),
        n * taken / ended if ended else None,
    )


class Carry(NamedTuple):
    """What a loop hands from step to step; the sum, so that the compiler removes no output."""

    rng: jax.Array
    obs: Any
    state: Any
    steps: jax.Array
    ended: jax.Array
    reward: jax.Array


class RandomPlay:
    """
    Steps of a batch with random actions, in a scan and from Python.

    They go on where the last call ended. Legal actions are drawn in every step. Where all are
    legal, they are drawn beforehand, since a draw takes longer than the step of a cheap
    environment: in step t slot i takes action `i + t % 1021` of a row of them.
    """

    spare = 1021

    def __init__(self, vec_env: Any) -> None:
        self.vec_env = vec_env
        obs, state = vec_env.reset(jax.random.key(0))
        zero = jnp.int32(0)
        self.start = Carry(jax.random.key(1), obs, state, zero, zero, jnp.float32(0))
        row = vec_env.single_action_space.batch(vec_env.n_slots + self.spare)
        self._row = jax.jit(row.sample)(jax.random.key(2))
        self._compiled_actions: Any = jax.jit(self._actions)

    def _actions(self, rng: jax.Array, state: Any, steps: jax.Array) -> tuple[jax.Array, Any]:
        mask = self.vec_env.action_mask(state)
        if mask is not None:
            rng, key = jax.random.split(rng)
            return rng, self.vec_env.action_space.sample(key, mask)

        def take(row: jax.Array) -> jax.Array:
            return lax.dynamic_slice_in_dim(row, steps % self.spare, self.vec_env.n_slots)

        return rng, jax.tree.map(take, self._row)

    def in_scan(self, carry: Carry, step: Callable[[Any, Any], Any], n_steps: int) -> Carry:
        """Steps in one program, by the given function of state and actions."""

        def body(carry: Carry, _: None) -> tuple[Carry, None]:
            rng, actions = self._actions(carry.rng, carry.state, carry.steps)
            obs, state, reward, *_rest = step(carry.state, actions)
            begun = jnp.sum(state.step <= carry.state.step, dtype=jnp.int32)
            total = sum(jnp.sum(x, dtype=jnp.float32) for x in jax.tree.leaves(reward))
            sums = carry.steps + 1, carry.ended + begun, carry.reward + total
            return Carry(rng, obs, state, *sums), None

        return lax.scan(body, carry, length=n_steps)[0]

    def resets(self, carry: Carry, n_resets: int) -> Carry:
        """Resets of all slots in one program."""

        def body(carry: Carry, _: None) -> tuple[Carry, None]:
            rng, key = jax.random.split(carry.rng)
            obs, state = self.vec_env.reset(key)
            return carry._replace(rng=rng, obs=obs, state=state), None

        return lax.scan(body, carry, length=n_resets)[0]

    def in_python(self, carry: Carry, n_steps: int) -> Carry:
        """Calls of the compiled `step`, and of a compiled function that gives the actions."""
        rng, obs, state, before, *sums = carry
        first = int(before)
        for i in range(first, first + n_steps):
            rng, actions = self._compiled_actions(rng, state, np.int32(i))
            obs, state, *_rest = self.vec_env.step(state, actions)
        return Carry(rng, obs, state, jnp.int32(first + n_steps), *sums)


class _Way(NamedTuple):
    """A function that takes so many steps, or resets, in one call."""

    run: Callable[[Carry], Carry]
    start: Carry
    turns: int


def _how_many(run: Callable[[int], Any]) -> int:
    """How many turns from Python take `SECONDS`, from a short try."""
    jax.block_until_ready(run(2))  # compiles
    begin = time.perf_counter()
    jax.block_until_ready(run(3))
    return min(max(2, int(3 * SECONDS / (time.perf_counter() - begin))), MOST_STEPS)


def _in_turns(
    ways: dict[str, _Way], tell: Callable[[str], object]
) -> tuple[dict[str, list[float]], dict[str, Carry]]:
    """
    Seconds of a step, or reset, of each way in each repetition, and where it ended.

    A repetition is as many calls as take `SECONDS`, and every other one goes backwards. The first
    call of each way is not timed. Each goes on where it stopped.
    """
    tell("a call of each")
    at: dict[str, Carry] = {
        name: jax.block_until_ready(way.run(way.start)) for name, way in ways.items()
    }

    def seconds_of(name: str, calls: int) -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            at[name] = ways[name].run(at[name])
        jax.block_until_ready(at[name])
        return (time.perf_counter() - begin) / calls

    calls = {name: max(1, int(SECONDS / seconds_of(name, 1))) for name in ways}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for repetition in range(REPEATS):
        tell(f"repetition {repetition + 1} of {REPEATS}")
        for name in list(ways)[:: -1 if repetition % 2 else 1]:
            seconds[name].append(seconds_of(name, calls[name]) / ways[name].turns)
    return seconds, at


def _bytes_of(compiled: Any, n: int) -> float | None:
    memory = compiled.memory_analysis()
    if memory is None:
        return None
    needed: int = memory.argument_size_in_bytes + memory.output_size_in_bytes
    return (needed + memory.temp_size_in_bytes) / n
