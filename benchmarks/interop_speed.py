"""
Step environments of other libraries by `make_vec` and by the libraries' own auto-reset loops.

    python -m benchmarks interop                          all libraries
    python -m benchmarks.interop_speed gymnax pgx         these
    python -m benchmarks.interop_speed --table            the table, from the results so far

A process of its own times each library. Results go to `benchmarks/results/interop/LIBRARY.json`
as they come; cases that are there already are not timed again, unless `--again` is given.
"""

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks import files
from benchmarks.measure import Table, compare

SIZES, SECONDS, SHORT = (64, 1024), 0.4, 5
OURS = "envrax"
FIRST = "draws no new start: it goes back to the first state of each slot"
NEXT = "the step after an end resets and ignores its action"
LEVEL = "as much: a reset returns the level, which costs nothing"
BOTH = "has no opponent: the benchmark draws the second move, with one key for all slots"
HALF = "has no opponent: a step is one move, half of the work"
SHARED = "a sixteenth of the resets, which slots share"

# Of a way: what it does less, in all of a library or in one id.
LESS: dict[tuple[str, str], str] = {
    ("navix", "navix"): NEXT,
    ("gxm", "navix"): NEXT,
    ("pgx", "connect_four"): BOTH,
    ("Stoa", "connect_four"): HALF,
    ("gxm", "connect_four"): HALF,
    ("gxm", "xminigrid"): "never resets: it goes on after an end",
    ("craftax, optimistic resets", "craftax"): SHARED,
    ("brax", "brax"): FIRST,
    ("gxm", "brax"): FIRST,
    ("kinetix", "kinetix"): LEVEL,
    ("playground", "playground"): FIRST,
}

# Of a library: ids, and how many steps a scan has at least.
CASES: dict[str, tuple[tuple[str, ...], int]] = {
    "gymnax": (("CartPole-v1", "Pendulum-v1", "Breakout-MinAtar", "FourRooms-misc"), 100),
    "jumanji": (("Snake-v1", "Game2048-v1", "Maze-v0"), 20),
    "navix": (("Navix-Empty-5x5-v0", "Navix-DoorKey-8x8-v0"), 20),
    "pgx": (("minatar-breakout", "2048", "connect_four"), 20),
    "xminigrid": (("MiniGrid-Empty-8x8", "MiniGrid-FourRooms"), 20),
    "craftax": (("Craftax-Classic-Symbolic-v1", "Craftax-Symbolic-v1"), SHORT),
    "brax": (("inverted_pendulum", "ant"), SHORT),
    "jaxmarl": (("MPE_simple_spread_v3", "overcooked"), 20),
    "kinetix": (("s/h4_thrust_aim", "m/h0_unicycle"), SHORT),
    "playground": (("CartpoleBalance", "CheetahRun"), SHORT),
}


def interop() -> list[Table]:
    """All libraries, a process each, as far as there is no result yet: they have own files."""
    for library in CASES:
        time_library(library)
    print("\n".join(table()))
    return []


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("libraries", nargs="*", help=f"of {', '.join(CASES)}; default all")
    parser.add_argument("--only", default="", help="cases with this in their name")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--again", action="store_true", help="time these cases anew")
    parser.add_argument("--table", action="store_true", help="only print the table")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(given)
    for library in [] if arguments.table else arguments.libraries or CASES:
        if not arguments.child:
            time_library(library, arguments.sizes, arguments.only, arguments.again)
            continue
        for id, n in _cases(library, arguments.sizes, arguments.only):
            _time(library, id, n)
    if not arguments.child:
        print("\n".join(table()))


def time_library(
    library: str, sizes: Sequence[int] = SIZES, only: str = "", again: bool = False
) -> None:
    """Time the cases of a library that have no result, in a process: a crash costs one case."""
    for id, n in _cases(library, sizes, only) if again else []:
        _write(library, _name(library, id, n), None)
    child = [sys.executable, "-m", "benchmarks.interop_speed", library, "--child", "--only", only]
    for _ in _cases(library, sizes, only):
        if not subprocess.run([*child, "--sizes", *map(str, sizes)]).returncode:
            break
        print(f"{library}: the process ended; on with the next case", flush=True)


def _cases(library: str, sizes: Sequence[int], only: str) -> list[tuple[str, int]]:
    cases = [(id, n) for id in CASES[library][0] for n in sizes]
    return [case for case in cases if only in _name(library, *case)]


def _time(library: str, id: str, n: int) -> None:
    name, found = _name(library, id, n), _read(library)
    if name in found["tables"] or name in found["why"]:
        return
    _write(library, name, {}, {"": "the process ended"})  # what stays if it does
    try:
        _write(library, name, *timed(library, id, n))
    except Exception as error:
        _write(library, name, {}, {"": first_line(error)})
    print("\n".join(_rows(name, _read(library))), flush=True)


def timed(library: str, id: str, n: int) -> tuple[dict[str, Any], dict[str, str]]:
    """By way: its row of a `Table`, with ends and rewards; why a way did not run."""
    from benchmarks import interop_loops as loops

    least = CASES[library][1]
    ours, space = loops.ours(f"{library}/{id}", n)
    makers: dict[str, Callable[[], loops.Loop]] = {
        OURS: lambda: ours,
        library: lambda: getattr(loops, library)(id, n),
    }
    if library == "craftax":
        makers["craftax, optimistic resets"] = lambda: loops.craftax_optimistic(id, n)
    ways, why = dict[str, Rollout](), dict[str, str]()
    is_slow = least == SHORT and n > min(SIZES)
    least = 2 if is_slow else least
    is_first = id == CASES[library][0][0]
    for name, (make, libraries) in loops.PEERS.items():
        if library in libraries and (is_slow or (least <= SHORT and not is_first)):
            why[name] = f"run only on the first id with {min(SIZES)} slots: it takes minutes"
        elif library in libraries:
            makers[name] = lambda make=make: make(library, id, n)
    for name, make in makers.items():
        begin = time.perf_counter()
        try:
            ways[name] = Rollout(make(), space, least)
            ways[name](1)
            ways[name](1)  # a library's state may have other types after a step: another program
        except Exception as error:
            if name in (OURS, library):
                raise
            ways.pop(name, None)
            why[name] = f"does not run: {first_line(error)}"
        print(f"{name}: {time.perf_counter() - begin:.0f} s to compile", flush=True)
    chunks = chunks_of(ways[OURS], ways[library])
    seconds = compare({name: lambda way=way: way(chunks) for name, way in ways.items()})
    rows = Table("", seconds, chunks * least).data()
    for name, way in ways.items():
        rows[name]["ends"] = round(1000 * way.ends / way.steps / n, 3)
        rows[name]["reward"] = round(way.reward / way.steps / n, 5)
    return rows, why


def chunks_of(*ways: "Rollout") -> int:
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


class Rollout:
    """
    Steps of a loop in one compiled program, with legal actions drawn inside.

    Each call goes on where the last one stopped, so that the slots soon differ in their ages.
    All outputs are summed, so that the compiler cannot remove any of them.
    """

    def __init__(self, loop: Any, space: Any, length: int) -> None:
        import jax
        import jax.numpy as jnp

        from envrax._jax.types import strip_weak_type

        def body(carry: Any, _: None) -> tuple[Any, Any]:
            state, rng = carry
            rng, draw, step = jax.random.split(rng, 3)
            actions = space.sample(draw, *([loop.mask(state)] if loop.mask else []))
            state, (obs, reward, done) = loop.step(state, actions, step)
            # The state of craftax is weakly typed after a reset.
            state = strip_weak_type(state)
            return (state, rng), tuple(map(total, (obs, reward, done)))

        def total(tree: Any) -> Any:
            return sum(jnp.sum(x, dtype=jnp.float32) for x in jax.tree.leaves(tree))

        def chunk(_: Any, carry: Any) -> Any:
            state, sums = carry
            state, seen = jax.lax.scan(body, state, None, length)
            return state, jax.tree.map(lambda a, b: a + jnp.sum(b), sums, seen)

        def run(n_chunks: Any, state: Any) -> Any:
            zeros = (jnp.float32(0),) * 3
            return jax.lax.fori_loop(0, n_chunks, chunk, (state, zeros))

        def typed(x: Any, like: Any) -> Any:
            is_key = jnp.issubdtype(like.dtype, jax.dtypes.prng_key)
            return x if is_key else strip_weak_type(jnp.asarray(x, like.dtype))

        start = loop.start, jax.random.key(2)
        after, _ = jax.eval_shape(body, start, None)
        self._state = jax.tree.map(typed, start, after)
        self._run, self._length = jax.jit(run), length
        self.steps, self.reward, self.ends = 0, 0.0, 0.0

    def __call__(self, n_chunks: int) -> None:
        self._state, (_, reward, ends) = self._run(n_chunks, self._state)
        self.reward, self.ends = self.reward + float(reward), self.ends + float(ends)
        self.steps += n_chunks * self._length


def table() -> Iterator[str]:
    """The lines of the table; `ends` are episodes that end in 1000 steps of a slot."""
    yield "| environment | way | µs per step | min .. max | times envrax | ends | |"
    yield "|---|---|---|---|---|---|---|"
    for library in CASES:
        found = _read(library)
        for name in found["tables"]:
            yield from _rows(name, found)


def _rows(name: str, found: dict[str, Any]) -> Iterator[str]:
    library, id = name.partition(", N = ")[0].split("/", 1)
    for way, row in found["tables"].get(name, {}).items():
        note = LESS.get((way, id), LESS.get((way, library), ""))
        spread = f"{row['min']:,.4g} .. {row['max']:,.4g}"
        figures = f"{row['median']:,.4g} | {spread} | {row['ratio']:.2f} | {row['ends']}"
        yield f"| {name} | {way} | {figures} | {note} |"
    for way, why in found["why"].get(name, {}).items():
        yield f"| {name} | {way} | | | | | {why} |"


def first_line(error: Exception) -> str:
    """The first line of an error, without paths of this machine."""
    line = f"{type(error).__name__}: {error}".split("\n")[0]
    return re.sub(r" ?\(?/\S+", "", line)[:160]


def _name(library: str, id: str, n: int) -> str:
    return f"{library}/{id}, N = {n}"


def _read(library: str) -> dict[str, Any]:
    return {"why": {}, **files.read(f"interop/{library}")}


def _write(library: str, name: str, rows: Any, why: dict[str, str] | None = None) -> None:
    """Keep the rows of a case and why ways of it did not run; forget it if there is neither."""
    found = _read(library)
    for kind, value in (("tables", rows), ("why", why)):
        found[kind] = {k: v for k, v in {**found[kind], name: value}.items() if v}
    files.write(f"interop/{library}", found["tables"], why=found["why"])


if __name__ == "__main__":
    main()
