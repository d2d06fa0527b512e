"""
Run benchmarks: `python -m benchmarks dispatch scan` these, `python -m benchmarks` all of them.

    python -m benchmarks --output benchmarks/results     a JSON file of each
    python -m benchmarks NAME --help                     longer runs, and what pages show: NAME of
                                                         accelerators, pods, lowers, ids, matches,
                                                         scores, gpu, table, gallery, pages
"""

import argparse
import importlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks import files
from benchmarks.libraries import TIMED
from benchmarks.measure import Result, machine

# From the name of a benchmark to the module and the function.
BENCHMARKS = {
    "scan": "cartpole.scan",
    "scan-large": "cartpole.large",
    "envpool": "cartpole.envpool",
    "dispatch": "cartpole.dispatch",
    "functional": "functional.steps",
    "resets": "resets.synthetic",
    "fleet": "fleet.step",
    "rollouts": "costs.rollouts",
    "parts": "costs.parts",
    "replay": "replay.frames",
    "randomization": "costs.randomization",
    "start": "start.start",
    "scale": "memory.scale",
    "slots": "choosing.slots",
    "bridges": "bridges.steps",
    "hosts": "hosts.steps",
    "learned-ppo": "learned.ppo",
    "learned-dqn": "learned.dqn",
    "learned-fleet": "learned.fleet",
    "learned-self-play": "learned.self_play",
    "learned-agents": "learned.agents",
    "learned-mazes": "learned.mazes",
}
ABOUT = """
what they measure:
  scan, scan-large, envpool   a CartPole rollout in `lax.scan`, against gymnax, Gymnasium, EnvPool
                              and plain JAX
  resets                      an environment whose reset costs 100 of its steps
  dispatch                    `VecEnv.step` from a Python loop, against the same function jitted
  functional                  the same, against Gymnasium's `FunctionalJaxVectorEnv`
  fleet                       a `MultiVecEnv` against a loop over its members
  start                       from `import envrax` to the first step
  learned-...                 what each example learns
  bridges                     a step in other trainers
  hosts                       a step of simulators on the host
  scale                       memory and time of a million slots
  randomization               a config in every slot
  rollouts, parts             `rollout`, and single parts of a step
  replay                      a replay buffer of frames, against stacks
  interop                     the loops of other libraries
"""
COMMANDS = (
    *("accelerators", "pods", "lowers", "ids", "matches"),
    *("scores", "gpu", "table", "gallery", "pages"),
)


NAMES = (*BENCHMARKS, *TIMED)


def main() -> None:
    if sys.argv[1:2] and sys.argv[1] in COMMANDS:
        importlib.import_module(f"benchmarks.{sys.argv.pop(1)}").main()
        return
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, epilog=ABOUT, formatter_class=form)
    parser.add_argument(
        "names", nargs="*", help=f"of {', '.join(NAMES)}; `interop` for all libraries; default all"
    )
    parser.add_argument("--output", type=Path, help="folder for a JSON file of each")
    arguments = parser.parse_args()
    given = arguments.names or list(NAMES)
    names = [name for each in given for name in (TIMED if each == "interop" else [each])]
    if unknown := set(names) - set(NAMES):
        parser.error(f"expected names of {', '.join(NAMES)}; got {', '.join(unknown)}")
    if len(names) == 1:
        run(names[0], arguments.output)
        return
    where = ["--output", str(arguments.output)] if arguments.output else []
    failed: list[str] = []
    for name in names:  # separate processes: no leftover threads or memory
        command = [sys.executable, "-m", "benchmarks", name, *where]
        if subprocess.run(command).returncode:
            failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def run(name: str, output: Path | None) -> None:
    print(machine())
    try:
        tables = work_of(name)()
    except ImportError as error:
        print(f"{name}: left out: {error}")
        return
    for table in tables:
        print(f"\n{table.markdown()}\n", flush=True)
    if output and tables:
        where = f"interop/{name}" if name in TIMED else name
        files.write(where, {table.title: table.data() for table in tables}, output)


def work_of(name: str) -> Callable[[], Sequence[Result]]:
    """The function of a benchmark."""
    if name in TIMED:
        return partial(importlib.import_module("benchmarks.interop").library, name)
    module, _, function = BENCHMARKS[name].partition(".")
    return getattr(importlib.import_module(f"benchmarks.{module}"), function)


if __name__ == "__main__":
    main()
