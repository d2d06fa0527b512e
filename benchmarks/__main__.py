"""
Run benchmarks: `python -m benchmarks dispatch scan` these, `python -m benchmarks` all of them.

    python -m benchmarks --output benchmarks/results     a JSON file of each
    python -m benchmarks ids|gpu|table|gallery|pages --help    longer runs, and what pages show
"""

import argparse
import importlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import files
from benchmarks.measure import Result, machine

# From the name of a benchmark to the module and the function.
BENCHMARKS = {
    "scan": "cartpole.scan",
    "scan-large": "cartpole.large",
    "limit": "limit.limit",
    "limit-parts": "limit.parts",
    "envpool": "cartpole.envpool",
    "dispatch": "cartpole.dispatch",
    "resets": "resets.synthetic",
    "fleet": "fleet.step",
    "fleet-compile": "fleet.compile_time",
    "seeds": "seeds.train",
    "training": "training.cartpole",
    "learned-ppo": "learned.ppo",
    "learned-dqn": "learned.dqn",
    "learned-fleet": "learned.fleet",
    "learned-self-play": "learned.self_play",
    "learned-agents": "learned.agents",
    "learned-mazes": "learned.mazes",
    "resume": "resume.sigkill",
    "start": "start.start",
    "start-states": "starts.starts",
    "interop": "interop_speed.interop",
    "misses": "misses.misses",
    "jax-trainers": "jax_trainers.speed",
    "worlds": "worlds.views",
    "physics": "physics.speed",
    "physics-training": "physics.train",
    "trainers": "trainers.vector_envs",
    "trainers-overhead": "trainers.overhead",
    "trainers-sb3": "trainers.sb3",
    "rollouts": "costs.rollouts",
    "parts": "costs.parts",
    "memory": "memory.memory",
    "operations": "operations.operations",
    "randomization": "randomization.cartpole",
    "scaling": "scaling.both",
    "cores": "scaling.cores",
    "scale": "scale.scale",
    "reset-after": "carried.reset_after",
}
COMMANDS = {
    **{"ids": "ids", "gallery": "gallery", "gpu": "gpu", "pages": "pages"},
    "table": "interop_table",
}


def main() -> None:
    if sys.argv[1:2] and sys.argv[1] in COMMANDS:
        command = importlib.import_module(f"benchmarks.{COMMANDS[sys.argv.pop(1)]}")
        command.main()
        return
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(BENCHMARKS)}; default all")
    parser.add_argument("--output", type=Path, help="folder for a JSON file of each")
    arguments = parser.parse_args()
    names = arguments.names or list(BENCHMARKS)
    if unknown := set(names) - set(BENCHMARKS):
        parser.error(f"expected names of {', '.join(BENCHMARKS)}; got {', '.join(unknown)}")
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
    module, _, function = BENCHMARKS[name].partition(".")
    try:
        work: Callable[[], Sequence[Result]] = getattr(
            importlib.import_module(f"benchmarks.{module}"), function
        )
        tables = work()
    except ImportError as error:
        print(f"{name}: left out: {error}")
        return
    for table in tables:
        print(f"\n{table.markdown()}\n", flush=True)
    if output and tables:
        files.write(name, {table.title: table.data() for table in tables}, output)


if __name__ == "__main__":
    main()
