"""Show what costs the time of an environment on this machine."""

import json
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import jax
from tqdm import tqdm

from envrax._checks.packages import version_of
from envrax.command.measure.compiling import CALLS, Compilation, compilations, device_kind
from envrax.command.measure.speed import LOOP, REPEATS, RESET, Speed, difference, measure
from envrax.testing.find import NAMES, find_env

NUMBERS = 64, 1024, 8192
ENOUGH = 0.9  # of the most steps per second
NOTICEABLE = 1.1  # times as fast
_LABEL = 33

_LEGEND = f"""
Medians of {REPEATS} repetitions, taken in turns in a scan, with random legal actions.
ns a slot    nanoseconds, divided by N; ~0 is within the spread of repetitions
step         without auto-reset: a slot goes on after its episode has ended
auto-reset   by the strategy that `VecEnv` chooses
from Python  calls of `VecEnv.step`, and of a compiled function for the actions
bytes        all that the program of the scan needs"""
_COMPILE_LEGEND = """
Each call in a process of its own, with an empty compile cache; then in a second one.
`rollout` and `evaluate` come after `make_vec`, which is not counted again.
start  import of JAX, envrax and the environment's package, and its constructor
XLA    compiles a program, or reads it from the cache. JAX unrolls Python's loops,
       which makes it large: `jax.lax.fori_loop` or `scan` keeps it small
rest   the steps themselves, and all else
Programs of `rollout` and `evaluate` hold steps and resets of their own. Who only plays spares the
row `make_vec` by `pre_warm=False`, and caches by JAX's own `jax_compilation_cache_dir`."""


def table(speeds: Sequence[Speed]) -> Iterator[str]:
    """The lines of the table: a column for each number of slots."""

    def line(label: str, values: Iterable[Any]) -> str:
        return f"{label:<{_LABEL}}" + "".join(f"{value:>13}" for value in values)

    def nanoseconds(seconds: float | None, n: int) -> str:
        return "~0" if seconds is None else _short(1e9 * seconds / n)

    yield line("ns a slot", (f"N = {speed.n:,}" for speed in speeds))
    parts = [dict(speed.parts()) for speed in speeds]
    for name in parts[0]:
        label = name if name in speeds[0].layers else f"+ {name}, {speeds[0].strategy}"
        costs = zip(parts, speeds, strict=True)
        yield line(label, (nanoseconds(part[name], speed.n) for part, speed in costs))
    if any(None in part.values() for part in parts):
        rests = (
            speed.seconds_of_step() - sum(filter(None, part.values()))
            for part, speed in zip(parts, speeds, strict=True)
        )
        yield line("+ all that is ~0", map(nanoseconds, rests, (speed.n for speed in speeds)))
    yield line("= a step", (_short(1e9 / speed.per_second()) for speed in speeds))
    resets = (statistics.median(speed.seconds[RESET]) for speed in speeds)
    yield line("a reset", map(nanoseconds, resets, (speed.n for speed in speeds)))
    yield ""
    yield line("M steps/s in a scan", (_short(speed.per_second() / 1e6) for speed in speeds))
    yield line("M steps/s from Python", (_short(speed.per_second(LOOP) / 1e6) for speed in speeds))
    sizes = [speed.bytes_per_slot for speed in speeds]
    yield line("bytes a slot", ("-" if size is None else f"{size:,.0f}" for size in sizes))


def _short(number: float) -> str:
    """Three digits, and no exponent."""
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"


def enough(speeds: Sequence[Speed], way: str = "") -> int | None:
    """The least number of slots with 90 % of the most steps per second; None within the spread."""
    best = max(speeds, key=lambda speed: speed.per_second(way))
    for speed in sorted(speeds, key=lambda speed: speed.n):
        if speed.per_second(way) >= ENOUGH * best.per_second(way):
            return speed.n
        if difference(speed.per_slot(way), best.per_slot(way)) is None:
            return None
    return best.n


def advice(speeds: Sequence[Speed]) -> Iterator[str]:
    """What to type for a higher speed, where the difference is larger than the spread."""
    for strategy in ("Compact", "Select"):
        gains = [(speed.n, speed.gain(strategy) or 0.0) for speed in speeds]
        clear = [
            f"{gain:.1f} times as fast with N = {n:,}" for n, gain in gains if gain >= NOTICEABLE
        ]
        if clear:
            yield f"`autoreset={strategy}()`: {', '.join(clear)}, here"
    largest = max(speed.n for speed in speeds)
    where = {"in a scan": enough(speeds), "from Python": enough(speeds, LOOP)}
    for n in dict.fromkeys(where.values()):
        places = " or ".join(place for place, least in where.items() if least == n)
        if n is None:
            yield f"No advice on slots {places}: repetitions differ more. Is the machine busy?"
        elif n < largest:
            yield f"`n_envs={n}`: more slots pay nothing {places}"
        elif len(speeds) > 1:
            yield f"`--n {4 * n}`: N = {n:,} is the fastest {places}; more may pay"


def about_episodes(speeds: Sequence[Speed]) -> str:
    """Whether the timed steps had resets in them."""
    lengths = [x for speed in speeds if (x := speed.episode_steps) is not None]
    if not lengths:
        return "No episode ended in the timed steps, so no auto-reset is timed."
    return f"Episodes of random actions take {statistics.median(lengths):.0f} steps."


def compile_table(found: Iterable[Compilation]) -> Iterator[str]:
    """The lines of the table of `--compile`: one for each process."""
    names = ("seconds", "start", "trace", "lower", "XLA", "rest", "all", "cache hits")
    yield f"{names[0]:<14}" + "".join(f"{name:>8}" for name in names[1:-1]) + f"{names[-1]:>14}"
    for row in found:
        stages = row.start, row.trace, row.lower, row.xla, row.rest
        seconds = "".join(f"{x:>8.2f}" for x in (*stages, sum(stages)))
        hits = f"{row.hits} of {row.hits + row.misses}"
        yield f"{'  again' if row.again else row.call:<14}{seconds}{hits:>14}"


def arguments(add: Callable[..., Any]) -> None:
    add("id", help=NAMES)
    add("--n", type=int, nargs="+", default=NUMBERS, help="numbers of slots (64 1024 8192)")
    about = "wrappers around it, the innermost first: `ClipReward`, `my_module:MyWrapper`, "
    about += "`'FrameStackObservation(n_stack=4)'`"
    add("--wrappers", nargs="+", default=[], metavar="WRAPPER", help=about)
    about = "in place of steps, time the first calls of `make_vec`, `rollout` and `evaluate` in "
    about += "new processes, with the least N"
    add("--compile", action="store_true", help=about)
    add("--json", action="store_true", help="print all that was measured as JSON")


def run(given: Any) -> int:
    """Measure the environment that the arguments name, and print a table or JSON."""
    found, lines = (_compile if given.compile else _steps)(given)
    versions = f"JAX {jax.__version__}, envrax {version_of('envrax')}"
    where = f"{found.pop('device')}, {versions}"
    shown = [f"{given.id} on {where}\n", *lines]
    found = {"id": given.id, "on": where, **found}
    print(json.dumps(found, indent=1) if given.json else "\n".join(shown))
    return 0


def _steps(given: Any) -> tuple[dict[str, Any], list[str]]:
    """What was measured of steps, and how it is shown."""
    env = find_env(given.id, given.wrappers)
    speeds: list[Speed] = []
    with tqdm(bar_format="{desc} ({elapsed})", leave=False, disable=None) as bar:
        for n in sorted({*cast(Sequence[int], given.n)}):

            def tell(doing: str, n: int = n) -> None:
                bar.set_description(f"N = {n:,}: {doing}")

            speeds.append(measure(env, n, tell))
    data = {"device": device_kind(), "repeats": REPEATS, "enough": enough(speeds)}
    data["enough_from_python"] = enough(speeds, LOOP)
    lines = [*table(speeds), "", *advice(speeds), about_episodes(speeds), _LEGEND]
    return data | {"slots": [speed.data() for speed in speeds]}, lines


def _compile(given: Any) -> tuple[dict[str, Any], list[str]]:
    """What was measured of first calls, and how it is shown."""
    n = min(cast(Sequence[int], given.n))
    rows = compilations(given.id, n, given.wrappers)
    found = [*tqdm(rows, "processes", 2 * len(CALLS), leave=False, disable=None)]
    data = {"device": found[0].device, "n": n, "calls": [row._asdict() for row in found]}
    return data, [*compile_table(found), _COMPILE_LEGEND]
