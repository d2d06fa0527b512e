"""`python -m envrax.testing module:EnvClass` checks; `... match module:function` compares."""

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from envrax.batched_env import BatchedEnv
from envrax.testing.check import report_batched_env, report_env
from envrax.testing.find import NAMES, find_env
from envrax.testing.match.command import main as match_main
from envrax.testing.report import Report
from envrax.vec_env import VecEnv


def main(argv: Sequence[str] | None = None) -> int:
    """
    Check the environments that the arguments name, and print a report on each one.

    After `match`, compare environments with references: see `envrax.testing.match.command`.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments. Default: those of the command line.

    Returns
    -------
    int
        Exit code: 0 if no rule is broken and nothing differs, else 1.

    Raises
    ------
    SystemExit
        With code 2 if an argument is wrong, or an environment cannot be found or built.
    """
    argv = sys.argv[1:] if argv is None else argv
    if argv and argv[0] == "match":
        return match_main(argv[1:])
    parser = argparse.ArgumentParser(
        prog="python -m envrax.testing",
        description="Check environments against the contract of envrax.",
    )
    arguments(parser.add_argument)
    given = parser.parse_args(argv)
    try:
        return run(given)
    except BrokenPipeError:
        raise
    except (Exception, SystemExit) as error:  # whatever an import or a constructor raises
        parser.error(f"{type(error).__name__}: {error}")


def arguments(add: Callable[..., Any]) -> None:
    """The arguments of a check, for `argparse`."""
    add("env", nargs="+", help=NAMES)
    about = "import this package first, to register its names (can be repeated)"
    add("--import", dest="packages", action="append", default=[], metavar="PACKAGE", help=about)
    add("--num-steps", type=int, default=100, metavar="N", help="number of steps (default: 100)")
    add("--num-envs", type=int, default=0, metavar="N", help="also check a VecEnv of size N")
    add("--seed", type=int, default=0, metavar="N", help="seed of the PRNG keys (default: 0)")
    add("--gradients", action="store_true", help="also check the gradients of the reward")


def run(given: Any) -> int:
    """Check what the arguments name, and print the reports; the exit code."""
    for package in given.packages:
        importlib.import_module(package)
    envs = [find_env(name) for name in given.env]
    reports = [report for env in envs for report in _reports(env, given)]
    print(*reports, sep="\n")
    return 0 if all(report.ok for report in reports) else 1


def exit_with(command: Callable[[], int]) -> NoReturn:
    """Exit with the code of a command; quietly if the reader of its output, as `head`, has left."""
    try:
        try:
            code = command()
        finally:
            print(end="", flush=True)
    except BrokenPipeError:
        # Python flushes once more when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)


def _reports(env: Any, given: Any) -> list[Report]:
    steps, seed = given.num_steps, given.seed
    if isinstance(env, BatchedEnv):
        return [report_batched_env(env, num_steps=steps, seed=seed)]
    reports = [report_env(env, num_steps=steps, seed=seed, gradients=given.gradients)]
    if given.num_envs and reports[0].ok:
        batch = VecEnv(env, given.num_envs)
        reports.append(report_batched_env(batch, num_steps=steps, seed=seed))
    return reports


if __name__ == "__main__":
    exit_with(main)
