"""`python -m envrax bench ID`: how fast an environment is on this machine, by number of slots."""

import argparse
import json
import statistics
from collections.abc import Sequence
from typing import Any, cast

import jax
from tqdm import tqdm

from envrax._checks.packages import version_of
from envrax.testing.find import find_env
from envrax.testing.speed import LOOP, NO_RESET, REPEATS, Speed, measure, ticks

NUMBERS = 64, 1024, 8192
ENOUGH = 0.9  # of the most steps per second: a larger batch pays nothing

_HEAD = f"""
{"compile":>18}{"M steps/s in a scan":>32}{"Python loop":>13}{"auto-":>9}{"bytes":>8}
{"N":>9}{"seconds":>9}{"Compact":>10}{"Select":>11}{"no reset":>11}{"M steps/s":>13}{"reset":>9}\
{"a slot":>8}"""
_LEGEND = f"""
Medians of {REPEATS} repetitions, taken in turns, with random legal actions.
compile      `VecEnv.compile`: reset and step, without a compile cache
M steps/s    million steps per second of all slots together
*            the strategy that `VecEnv` chooses
Python loop  calls of `VecEnv.step`, and of a compiled function for the actions
auto-reset   what it adds to a step that never resets, in a scan
bytes        all that the program of the scan needs, for each slot"""


def row(speed: Speed) -> str:
    """A row of the table, of 80 characters."""
    rates = {way: f"{speed.per_second(way) / 1e6:.3g}" for way in speed.seconds}
    rates[speed.strategy] = f"*{rates[speed.strategy]}"
    scans = f"{rates['Compact']:>10}{rates['Select']:>11}{rates[NO_RESET]:>11}"
    size = "-" if speed.bytes_per_slot is None else f"{speed.bytes_per_slot:,.0f}"
    cost = f"{100 * speed.reset_cost:+.0f} %"
    row = f"{speed.n:>9,}{speed.compile_seconds:>9.2f}{scans}{rates[LOOP]:>13}"
    return f"{row}{cost:>9}{size:>8}"


def enough(speeds: Sequence[Speed]) -> int:
    """The least number of slots with 90 % of the most steps per second in a scan."""
    most = max(speed.per_second() for speed in speeds)
    return min(speed.n for speed in speeds if speed.per_second() >= ENOUGH * most)


def verdict(speeds: Sequence[Speed]) -> str:
    """Whether more slots pay, and whether the timed steps had resets in them."""
    n = enough(speeds)
    largest = max(speed.n for speed in speeds)
    text = f"N = {n:,} has 90 % of the most steps per second: more slots pay nothing."
    if n == largest:
        text = f"N = {n:,}, the largest, is the fastest: more may pay, try `--n {4 * n}`."
    lengths = [x for speed in speeds if (x := speed.episode_steps) is not None]
    if not lengths:
        return f"{text}\nNo episode ended in the timed steps, so no reset is timed."
    return f"{text}\nEpisodes of random actions take {statistics.median(lengths):.0f} steps."


def main(argv: Sequence[str] | None = None) -> int:
    """
    Measure the environment that the arguments name, and print a table or JSON.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments. Default: those of the command line.

    Returns
    -------
    int
        Exit code 0.

    Raises
    ------
    SystemExit
        With code 2 if an argument is wrong, or the environment cannot be found, built or stepped.
    """
    about = "Time an environment on this machine, by number of slots."
    parser = argparse.ArgumentParser(prog="python -m envrax bench", description=about)
    add = parser.add_argument
    add("id", help="an id, `package.module:prefix/Name-v0` or `module:EnvClass`")
    add("--n", type=int, nargs="+", default=NUMBERS, help="numbers of slots (64 1024 8192)")
    add("--json", action="store_true", help="print all that was measured as JSON")
    given = parser.parse_args(argv)
    numbers = sorted({*cast(Sequence[int], given.n)})
    speeds: list[Speed] = []
    try:
        env = find_env(given.id)
        device = cast(list[Any], jax.devices())[0]
        where = f"{device.device_kind}, JAX {jax.__version__}, envrax {version_of('envrax')}"
        if not given.json:
            print(f"{given.id} on {where}\n{_HEAD}")
        with tqdm(total=len(numbers) * ticks(), leave=False) as bar:
            for n in numbers:
                bar.set_description(f"N = {n:,}")
                speeds.append(measure(env, n, bar.update))
                if not given.json:
                    bar.write(row(speeds[-1]))
    except BrokenPipeError:
        raise
    except (Exception, SystemExit) as error:  # whatever an import, a constructor or a step raises
        parser.error(f"{type(error).__name__}: {error}")
    found: dict[str, Any] = {"id": given.id, "on": where, "repeats": REPEATS}
    found |= {"enough": enough(speeds), "slots": [speed.data() for speed in speeds]}
    print(json.dumps(found, indent=1) if given.json else f"\n{verdict(speeds)}\n{_LEGEND}")
    return 0
