# pyright: reportMissingImports=false
"""
What a step gives an H100 and a TPU v5e to do, without either: read from what XLA compiles.

    python -m benchmarks accelerators                        the ids of `interop`, classic ones
    python -m benchmarks accelerators gymnax/CartPole-v1     these
    python -m benchmarks accelerators --check                four ids against `accelerators.json`

`Select` and `Compact` beside the library's own loop, in a scan with random legal actions. Needs the
compilers that `benchmarks.deviceless` names. Results go to `benchmarks/results/accelerators` as
they come; what is there already is not compiled again, unless `--again` is given.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax

from benchmarks import deviceless, files, loops
from benchmarks.interop import CASES
from benchmarks.libraries import first_line
from benchmarks.rollout import Loop, random_step
from envrax import make_vec
from envrax.autoreset import Compact, Select, choose

DEVICES = {"H100": "cuda", "v5e": "tpu"}
SIZES = (1024, 65_536)
LENGTH = 100  # of the scan
STRATEGIES = {"`Select`": Select(), "`Compact`": Compact()}
CLASSIC = ("CartPole-v0", "Catch-v0", "ConnectFour-v0", "Maze-v0")
IDS = [f"classic/{name}" for name in CLASSIC]
IDS += [f"{library}/{name}" for library, (names, _) in CASES.items() for name in names]
ENDS = "", " with an end"
# What `--check` compares: kernels and syncs of the classic ids.
CHECKED = Path(__file__).parent / "accelerators.json"
ALLOWED = 1.1  # times as many kernels


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("ids", nargs="*", help="default: those of `interop`, and classic ones")
    parser.add_argument("--again", action="store_true", help="forget the results so far")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin nothing after them")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a step got dearer")
    parser.add_argument("--write", action="store_true", help="write what `--check` compares")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # libtpu looks for a machine in the cloud
    if given.check or given.write:
        sys.exit(check(given.write))
    ids = given.ids or IDS
    if given.child:
        device, n = given.child
        for id in ids:
            compile_each(id, device, int(n))
        return
    end = time.monotonic() + 60 * given.minutes
    if given.again:
        for library in {id.partition("/")[0] for id in ids}:
            files.write(f"accelerators/{library}", {}, why={})
    for n in SIZES:
        for device in DEVICES:
            for id in ids:
                if time.monotonic() > end:
                    return
                compile_apart(id, device, n)


def compile_apart(id: str, device: str, n: int) -> None:
    """`compile_each` in a process of its own, in another after one that did not reach its end."""
    child = ["accelerators", id, "--child", device, str(n)]
    while to_do(id, device, n):
        subprocess.run([sys.executable, "-m", "benchmarks", *child])
        left = to_do(id, device, n)
        if left:
            library = id.partition("/")[0]
            add(library, title_of(id, device, n), left[0], {}, "the process ended")


def to_do(id: str, device: str, n: int) -> list[str]:
    """The ways to step that have no result yet."""
    library = id.partition("/")[0]
    title = title_of(id, device, n)
    found = read(library)
    ways = [*STRATEGIES] + [library] * (library in CASES)
    known = {*found["tables"].get(title, {}), *found["why"].get(title, {})}
    return [way for way in ways if way not in known]


def title_of(id: str, device: str, n: int) -> str:
    return f"{id}, {device}, N = {n}"


def compile_each(id: str, device: str, n: int) -> None:
    """Add what is missing of an id."""
    library, _, name = id.partition("/")
    for way in to_do(id, device, n):
        try:
            strategy = STRATEGIES.get(way)
            env: Any = make_vec(id, n, pre_warm=False, cache_dir=None, autoreset=strategy)
            loop = getattr(loops, library)(name, n) if way == library else ours(env)
            row = measured(DEVICES[device], loop, env.action_space, n)
            row["chosen"] = float(choose(env.env, n, "gpu") == strategy)
            add(library, title_of(id, device, n), way, row, None)
        except Exception as error:
            row = {}
            add(library, title_of(id, device, n), way, row, first_line(error))
        print(title_of(id, device, n), way, row, flush=True)


def ours(env: Any) -> Loop:
    """The loop of a batch, without resetting it."""
    return loops.of_batch(env, jax.eval_shape(env.reset, jax.random.key(0))[1])


def measured(platform: str, loop: Loop, space: Any, n: int) -> dict[str, float]:
    """What a step costs, and bytes of memory for each slot."""
    body = random_step(loop, space)

    def steps(state: Any, rng: jax.Array) -> Any:
        return jax.lax.scan(body, (state, rng), None, LENGTH)

    types, _ = jax.eval_shape(body, (loop.start, jax.random.key(0)), None)
    row = deviceless.compiled(platform, steps, *deviceless.on_one(platform, types))
    row["bytes a slot"] = row.pop("bytes") / n
    return {name: round(value, 1) for name, value in row.items()}


def read(library: str) -> dict[str, Any]:
    """What was found so far: tables, and why there is none."""
    return {"why": {}, **files.read(f"accelerators/{library}")}


def add(library: str, title: str, way: str, row: dict[str, float], why: str | None) -> None:
    found = read(library)
    for kind, entry in ((found["tables"], row), (found["why"], why)):
        ways = kind.setdefault(title, {})
        ways.pop(way, None)
        if entry:
            ways[way] = entry
        if not ways:
            del kind[title]
    files.write(f"accelerators/{library}", found["tables"], why=found["why"])


def page() -> Iterator[str]:
    """Kernels, and how often the host waits; memory with the larger size, where it is known."""
    heads = ["id", "`Select`", "`Compact`", "the library's own loop", "on a v5e"]
    heads += [f"{SIZES[1]:,} slots", "bytes a slot", "slots in 80 GB"]
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for id in IDS:
        library = id.partition("/")[0]
        tables = read(library)["tables"]
        found = tables.get(title_of(id, "H100", SIZES[0]), {})
        cells = [shown(found.get(way)) for way in (*STRATEGIES, library)]
        fusions = tables.get(title_of(id, "v5e", SIZES[0]), {})
        cells.append(", ".join(f"{row['fusions']:.0f}" for row in fusions.values()))
        many = tables.get(title_of(id, "H100", SIZES[1]), {})
        cells.append(shown(chosen(many)).replace("*", ""))
        mine = chosen(many) or chosen(found)
        cells += [f"{mine['bytes a slot']:,.0f}", slots_in_80_gb(mine)] if mine else ["", ""]
        if any(cells):  # else it was not compiled
            yield f"| `{id}` | {' | '.join(cells)} |"


def chosen(ways: dict[str, dict[str, float]]) -> dict[str, float] | None:
    """The row of the strategy that `choose` takes."""
    return next((row for row in ways.values() if row.get("chosen")), None)


def slots_in_80_gb(row: dict[str, float]) -> str:
    """Such as "49 M" or "930 k"."""
    slots = 80e9 / row["bytes a slot"]
    return f"{slots / 1e6:,.0f} M" if slots > 9.5e6 else f"{slots / 1e3:,.0f} k"


def shown(row: dict[str, float] | None) -> str:
    """Kernels of a step and of one with an end, with the waits: "12 (1), 31 (3)"."""
    if not row:
        return ""
    cells = [f"{row[f'kernels{when}']:.0f} ({row[f'syncs{when}']:.0f})" for when in ENDS]
    text = ", ".join(dict.fromkeys(cells))
    return f"**{text}**" if row.get("chosen") else text


def in_words(row: dict[str, float]) -> str:
    """Such as "18 kernels and 1 wait a step, 37 and 3 in one with an end"."""
    (kernels, waits), at_an_end = [(row[f"kernels{when}"], row[f"syncs{when}"]) for when in ENDS]
    text = f"{kernels:,.0f} kernels and {waits:.0f} wait{'s' * (waits != 1)} a step"
    if at_an_end == (kernels, waits):
        return text
    return f"{text}, {at_an_end[0]:,.0f} and {at_an_end[1]:.0f} in one with an end"


def check(write: bool) -> int:
    """Compare the classic ids with the counts that are committed; 1 if a step got dearer."""
    before: dict[str, Any] = json.loads(CHECKED.read_text())
    now: dict[str, Any] = {"jax": jax.__version__, "kernels, syncs": {}}
    dearer = 0
    for id in IDS[: len(CLASSIC)]:
        env: Any = make_vec(id, SIZES[0], pre_warm=False, cache_dir=None)
        row = measured("cuda", ours(env), env.action_space, SIZES[0])
        names = ("kernels", "kernels with an end", "syncs", "syncs with an end")
        counts = {name: row[name] for name in names}
        now["kernels, syncs"][id] = counts
        known = counts if write else before["kernels, syncs"].get(id, {})
        if not known:
            dearer = 1
            print(f"{id}: no counts are committed; write them with --write")
        for name, count in counts.items():
            allowed = ALLOWED if name.startswith("kernels") else 1
            if known and count > allowed * known[name]:
                dearer = 1
                print(f"{id}: {name} were {known[name]:.0f}, and are {count:.0f}")
        print(id, counts, flush=True)
    if write:
        CHECKED.write_text(json.dumps(now, indent=1) + "\n")
        return 0
    if before["jax"] != now["jax"]:
        print(f"The counts are those of JAX {before['jax']}; this is {now['jax']}: not compared.")
        return 0
    return dearer
