"""`python -m benchmarks dispatch scan`: run the named benchmarks, or all of them."""

import argparse

from benchmarks import cartpole, fleet
from benchmarks.measure import machine

BENCHMARKS = {
    "dispatch": cartpole.dispatch,
    "scan": cartpole.scan,
    "fleet": fleet.step,
    "fleet-compile": fleet.compile_time,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(BENCHMARKS)}; default all")
    names = parser.parse_args().names or list(BENCHMARKS)
    if unknown := set(names) - set(BENCHMARKS):
        parser.error(f"expected names of {', '.join(BENCHMARKS)}; got {', '.join(unknown)}")
    print(machine())
    for name in names:
        print(f"\n{BENCHMARKS[name]()}")


if __name__ == "__main__":
    main()
