"""`python -m benchmarks dispatch scan`: run the named benchmarks, or all of them."""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Protocol

from benchmarks import (
    adapters,
    carried,
    cartpole,
    costs,
    fleet,
    interop_speed,
    limit,
    memory,
    operations,
    randomization,
    resets,
    scale,
    scaling,
    start,
    starts,
    trainers,
    training,
)
from benchmarks.measure import Table, machine
from benchmarks.plot import save


class Shown(Protocol):
    """A part of what a benchmark reports."""

    def markdown(self) -> str: ...


def seeds() -> Sequence[Shown]:
    from benchmarks.seeds import train  # needs what the example PPO needs

    return train()


def resume() -> Sequence[Shown]:
    from benchmarks.resume import sigkill  # needs what the example PPO needs

    return sigkill()


def jax_trainers() -> Sequence[Shown]:
    from benchmarks.jax_trainers import speed  # needs the libraries

    return speed()


def worlds() -> Sequence[Shown]:
    from benchmarks.worlds import views  # needs the libraries

    return views()


def physics() -> Sequence[Shown]:
    from benchmarks.physics import speed  # needs the libraries

    return speed()


BENCHMARKS: dict[str, Callable[[], Sequence[Shown]]] = {
    "scan": cartpole.scan,
    "scan-all-sizes": lambda: cartpole.scan((1, 8, 64, 512, 4096, 65_536)),
    "limit": limit.limit,
    "envpool": cartpole.envpool,
    "dispatch": cartpole.dispatch,
    "resets": resets.synthetic,
    "craftax": resets.craftax,
    "jumanji": adapters.jumanji,
    "brax": adapters.brax,
    "fleet": fleet.step,
    "fleet-compile": fleet.compile_time,
    "seeds": seeds,
    "training": training.cartpole,
    "resume": resume,
    "start": start.both,
    "start-gymnax": start.peers,
    "start-states": starts.starts,
    "interop": interop_speed.interop,
    "jax-trainers": jax_trainers,
    "worlds": worlds,
    "physics": physics,
    "trainers": trainers.vector_envs,
    "trainers-overhead": trainers.overhead,
    "trainers-sb3": trainers.sb3,
    "rollouts": costs.rollouts,
    "parts": costs.parts,
    "memory": memory.memory,
    "operations": operations.operations,
    "randomization": randomization.cartpole,
    "scaling": scaling.both,
    "scale": scale.scale,
    "reset-after": carried.reset_after,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(BENCHMARKS)}; default all")
    where = "folder for a JSON file, a Markdown file and a picture each"
    parser.add_argument("--output", type=Path, help=where)
    arguments = parser.parse_args()
    names = arguments.names or list(BENCHMARKS)
    if unknown := set(names) - set(BENCHMARKS):
        parser.error(f"expected names of {', '.join(BENCHMARKS)}; got {', '.join(unknown)}")
    if len(names) == 1:
        run(names[0], arguments.output)
        return
    for name in names:  # separate processes: no leftover threads or memory
        where = ["--output", str(arguments.output)] if arguments.output else []
        subprocess.run([sys.executable, "-m", "benchmarks", name, *where], check=True)


def run(name: str, output: Path | None) -> None:
    print(machine())
    tables = BENCHMARKS[name]()
    text = "\n\n".join(table.markdown() for table in tables)
    print(f"\n{text}\n", flush=True)
    if output and tables:
        output.mkdir(parents=True, exist_ok=True)
        (output / f"{name}.md").write_text(f"{machine()}\n\n{text}\n")
        if times := [table for table in tables if isinstance(table, Table)]:
            made: dict[str, Any] = {"date": f"{date.today()}", "machine": machine()}
            made["tables"] = [table.data() for table in times]
            (output / f"{name}.json").write_text(json.dumps(made, indent=1) + "\n")
            save(output / f"{name}.png", times, machine())


if __name__ == "__main__":
    main()
