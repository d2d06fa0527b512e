"""
Environments of other libraries by `make_vec`, against the libraries' own auto-reset loops.

    python -m benchmarks craftax jumanji         these
    python -m benchmarks interop                 all libraries
"""

import time
from collections.abc import Callable

from benchmarks import loops
from benchmarks.libraries import first_line
from benchmarks.measure import Table, Values, compare
from benchmarks.rollout import Loop, RandomPlay

SIZES = (64, 1024)
SECONDS = 0.4
SHORT = 5
OURS = "envrax"

# Of a library: ids, and how many steps a scan has at least.
CASES: dict[str, tuple[tuple[str, ...], int]] = {
    "gymnax": (("CartPole-v1", "Pendulum-v1", "Breakout-MinAtar", "FourRooms-misc"), 100),
    "jumanji": (("Snake-v1", "Game2048-v1", "Maze-v0"), 20),
    "navix": (("Navix-Empty-5x5-v0", "Navix-DoorKey-8x8-v0"), 20),
    "pgx": (("minatar-breakout", "2048", "connect_four"), 20),
    "xminigrid": (("MiniGrid-Empty-8x8", "MiniGrid-FourRooms"), 20),
    "craftax": (("Craftax-Classic-Symbolic-v1", "Craftax-Symbolic-v1"), SHORT),
    "brax": (("inverted_pendulum", "ant"), SHORT),
    "jaxtari": (("pong", "breakout"), 20),
    "jaxmarl": (("MPE_simple_spread_v3", "overcooked"), 20),
    "kinetix": (("s/h4_thrust_aim", "m/h0_unicycle"), SHORT),
    "playground": (("CartpoleBalance", "CheetahRun"), SHORT),
}


def library(name: str) -> list[Values]:
    """A table for each case of a library; a case that fails costs its table."""
    tables: list[Values] = []
    for id in CASES[name][0]:
        for n in SIZES:
            title = f"{name}/{id}, N = {n}"
            try:
                tables.append(Values(title, timed(name, id, n)))
            except ImportError:
                raise
            except Exception as error:
                print(f"{title}: left out: {first_line(error)}", flush=True)
    return tables


def timed(library: str, id: str, n: int) -> dict[str, dict[str, float]]:
    """By way: its row of a `Table`, with ends in 1000 steps of a slot, and the mean reward."""
    least = CASES[library][1]
    ours, space = loops.ours(f"{library}/{id}", n)
    makers: dict[str, Callable[[], Loop]] = {
        OURS: lambda: ours,
        library: lambda: getattr(loops, library)(id, n),
    }
    if library == "craftax":
        makers["craftax, optimistic resets"] = lambda: loops.craftax_optimistic(id, n)
    # Where a step is slow, Stoa's loop takes minutes to compile.
    is_slow = least == SHORT and (n > min(SIZES) or id != CASES[library][0][0])
    if library in loops.STOA and not is_slow:
        makers["Stoa"] = lambda: loops.stoa(library, id, n)
    if least == SHORT and n > min(SIZES):
        least = 2
    ways: dict[str, RandomPlay] = {}
    for name, make in makers.items():
        begin = time.perf_counter()
        try:
            ways[name] = RandomPlay(make(), space, least)
            ways[name](1)
            ways[name](1)  # a library's state may have other types after a step: another program
        except Exception as error:
            if name in (OURS, library):
                raise
            ways.pop(name, None)
            print(f"{name} does not run: {first_line(error)}", flush=True)
        print(f"{name}: {time.perf_counter() - begin:.0f} s to compile", flush=True)
    chunks = chunks_of(ways[OURS], ways[library])
    seconds = compare({name: lambda way=way: way(chunks) for name, way in ways.items()})
    rows = Table("", seconds, chunks * least).data()
    for name, way in ways.items():
        rows[name]["ends"] = round(1000 * way.ends / way.steps / n, 3)
        rows[name]["reward"] = round(way.reward / way.steps / n, 5)
    return rows


def chunks_of(*ways: RandomPlay) -> int:
    """How many chunks take the slowest of them `SECONDS`."""
    chunks = 1
    while True:
        times = list[float]()
        for way in ways:
            begin = time.perf_counter()
            way(chunks)
            times.append(time.perf_counter() - begin)
        if max(times) > SECONDS / 4:
            return max(1, round(chunks * SECONDS / max(times)))
        chunks *= 2
