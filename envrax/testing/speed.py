"""Steps per second of an environment in so many slots, with auto-reset and without."""

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from envrax.autoreset import Compact, Select, choose
from envrax.env import AnyEnv
from envrax.vec_env import VecEnv

REPEATS = 7
SECONDS = 0.25  # that one repetition takes, about
MOST_STEPS = 10_000  # of one scan
NO_RESET, LOOP = "no_reset", "python_loop"


class Speed(NamedTuple):
    """
    What was measured with one number of slots.

    Attributes
    ----------
    n : int
        Number of slots.
    strategy : str
        The strategy of auto-reset that `VecEnv` chooses, "Compact" or "Select".
    compile_seconds : float
        Time of `VecEnv.compile`, without a compile cache.
    seconds : dict
        Seconds of a step of all slots, one for each repetition: in a scan with "Compact", "Select"
        and "no_reset", and from a "python_loop".
    bytes_per_slot : float or None
        Arguments, results and temporary arrays of the scan; None if the backend does not tell.
    episode_steps : float or None
        Mean length of the episodes; None if no episode ended.
    """

    n: int
    strategy: str
    compile_seconds: float
    seconds: dict[str, list[float]]
    bytes_per_slot: float | None
    episode_steps: float | None

    def per_second(self, way: str = "") -> float:
        """Steps of all slots per second: the median; by default in a scan, as `VecEnv` resets."""
        return self.n / statistics.median(self.seconds[way or self.strategy])

    @property
    def reset_cost(self) -> float:
        """What auto-reset adds to a step that never resets, as a share of it: the median."""
        pairs = zip(self.seconds[self.strategy], self.seconds[NO_RESET], strict=True)
        return statistics.median(ours / without for ours, without in pairs) - 1

    def data(self) -> dict[str, Any]:
        """All of it for a JSON file."""
        rates = {way: self.per_second(way) for way in self.seconds}
        return {**self._asdict(), "steps_per_second": rates, "reset_cost": self.reset_cost}


def measure(env: AnyEnv, n: int, tick: Callable[[], object] = lambda: None) -> Speed:
    """
    Measure an environment in `n` slots: compile all programs, then time them in turns.

    Parameters
    ----------
    env : JaxEnv
        The environment; it must be traceable.
    n : int
        Number of slots.
    tick : callable, optional
        Called `ticks()` times: after each program that was compiled, and after each repetition.
    """
    vec_env = VecEnv(env, n)
    begin = time.perf_counter()
    vec_env.compile(cache_dir=None)
    compile_seconds = time.perf_counter() - begin
    tick()
    play = RandomPlay(vec_env)
    steps = _steps_in(SECONDS, play)
    ways: dict[str, Callable[[Carry], Carry]] = {LOOP: partial(play.in_python, n_steps=steps)}
    chosen = choose(env, n)
    resets: dict[str, Any] = {type(x).__name__: x for x in (Compact(), Select(), chosen)}
    resets[NO_RESET] = False
    for name, autoreset in resets.items():
        step = VecEnv(env, n, autoreset=autoreset).step
        scan = jax.jit(partial(play.in_scan, step=step, n_steps=steps))
        ways[name] = scan.lower(play.start).compile()
        tick()
    strategy = type(chosen).__name__
    seconds, last = _in_turns(ways, play.start, tick)
    taken, ended = int(last[strategy].steps), int(last[strategy].ended)
    return Speed(
        n,
        strategy,
        compile_seconds,
        {name: [x / steps for x in times] for name, times in seconds.items()},
        _bytes_of(ways[strategy], n),
        n * taken / ended if ended else None,
    )


def ticks() -> int:
    """How often `measure` calls `tick`."""
    return 4 + REPEATS


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

    def in_python(self, carry: Carry, n_steps: int) -> Carry:
        """Calls of the compiled `step`, and of a compiled function that gives the actions."""
        rng, obs, state, before, *sums = carry
        first = int(before)
        for i in range(first, first + n_steps):
            rng, actions = self._compiled_actions(rng, state, np.int32(i))
            obs, state, *_rest = self.vec_env.step(state, actions)
        return Carry(rng, obs, state, jnp.int32(first + n_steps), *sums)


def _steps_in(seconds: float, play: RandomPlay) -> int:
    """The number of steps from Python that take so long, from a short try."""
    jax.block_until_ready(play.in_python(play.start, 2))  # compiles
    begin = time.perf_counter()
    jax.block_until_ready(play.in_python(play.start, 3))
    return min(max(2, int(3 * seconds / (time.perf_counter() - begin))), MOST_STEPS)


def _in_turns(
    ways: dict[str, Callable[[Carry], Carry]], start: Carry, tick: Callable[[], object]
) -> tuple[dict[str, list[float]], dict[str, Carry]]:
    """
    Seconds of a call of each way in each repetition, and where it ended.

    A repetition is as many calls as take `SECONDS`, and every other turn goes backwards. The first
    call of each way is not timed. Each goes on where it stopped.
    """
    at: dict[str, Carry] = {name: jax.block_until_ready(way(start)) for name, way in ways.items()}

    def seconds_of(name: str, calls: int) -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            at[name] = ways[name](at[name])
        jax.block_until_ready(at[name])
        return (time.perf_counter() - begin) / calls

    calls = {name: max(1, int(SECONDS / seconds_of(name, 1))) for name in ways}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(REPEATS):
        for name in list(ways)[:: -1 if turn % 2 else 1]:
            seconds[name].append(seconds_of(name, calls[name]))
        tick()
    return seconds, at


def _bytes_of(compiled: Any, n: int) -> float | None:
    memory = compiled.memory_analysis()
    if memory is None:
        return None
    needed: int = memory.argument_size_in_bytes + memory.output_size_in_bytes
    return (needed + memory.temp_size_in_bytes) / n
