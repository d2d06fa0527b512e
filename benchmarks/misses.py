"""Where a library's own loop is as quick or quicker: what of our step resets, and other chunks."""

from typing import Any

from benchmarks import interop_loops as loops
from benchmarks.interop_speed import CASES, Rollout, chunks_of
from benchmarks.measure import Table, compare
from envrax.autoreset import Compact, Select

MISSES = {
    **{"gymnax/Breakout-MinAtar": 64, "pgx/minatar-breakout": 64, "pgx/connect_four": 1024},
    **{"navix/Navix-Empty-5x5-v0": 64, "jaxmarl/overcooked": 64, "brax/inverted_pendulum": 1024},
}


def misses() -> list[Table]:
    """The chunk that `make_vec` takes, larger ones, every slot, and no resets; then the peer."""
    return [_table(name, n) for name, n in MISSES.items()]


def _table(name: str, n: int) -> Table:
    library, id = name.split("/", 1)
    least = CASES[library][1]
    own, space = loops.ours(name, n)
    strategies = {
        "without resets": _keep,
        "`Compact(N // 8)`": Compact(n // 8),
        "`Compact(N // 4)`": Compact(n // 4),
        "`Select()`": Select(),
    }
    found = {
        "envrax": own,
        **{way: loops.ours(name, n, autoreset=choice)[0] for way, choice in strategies.items()},
        library: getattr(loops, library)(id, n),
    }
    ways = {way: Rollout(loop, space, least) for way, loop in found.items()}
    for _ in range(2):
        for way in ways.values():
            way(1)
    chunks = chunks_of(*ways.values())
    seconds = compare({name: lambda way=way: way(chunks) for name, way in ways.items()})
    ends = 1000 * ways["envrax"].ends / ways["envrax"].steps / n
    return Table(f"{name}, N = {n}, {ends:.0f} ends in 1000 steps", seconds, chunks * least)


def _keep(reset_one: Any, consts: Any, last: Any, ended: Any, stepped: Any) -> Any:
    return stepped
