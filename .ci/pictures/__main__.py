"""
Draw the pictures of the documentation, into `docs/img`.

    python .ci/pictures                           all of them
    python .ci/pictures learning-curve env-maze   these

Needs the packages of the extra `examples`. On the same machine, running it
again changes no byte.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import learning_curve
import rollouts

FOLDER = Path(__file__).parents[2] / "docs" / "img"
PICTURES: dict[str, Callable[[Path], list[Path]]] = {
    **{f"env-{name}": partial(rollouts.draw, name) for name in rollouts.SCENES},
    "learning-curve": learning_curve.draw,
}


def main() -> None:
    parser = argparse.ArgumentParser(usage="python .ci/pictures [--output folder] [name ...]")
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(PICTURES))
    parser.add_argument("--output", type=Path, default=FOLDER, help="in place of docs/img")
    arguments = parser.parse_args()
    names, folder = arguments.names or list(PICTURES), arguments.output
    if unknown := sorted(set(names) - set(PICTURES)):
        parser.error(f"expected names among {', '.join(PICTURES)}; got {', '.join(unknown)}.")
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        start = time.perf_counter()
        for path in PICTURES[name](folder):
            print(f"{path.name:<28}{path.stat().st_size / 1024:7.1f} KB")
        print(f"{name}: {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
