"""The command line: `python -m envrax list`, `find WORD`, `show ID`, `check ID`, `play ID`, ..."""

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from envrax.command.bench import main as bench_main
from envrax.command.catalogue import find_ids, list_suites, show_env
from envrax.command.info import show_installation
from envrax.command.new import write_suite
from envrax.error import MissingPackageError
from envrax.testing.__main__ import main as check_main
from envrax.testing.__main__ import run

_COMMANDS: dict[str, tuple[Any, str, str]] = {
    "list": (list_suites, "prefix", "the suites, or the ids of one, such as gymnax"),
    "find": (find_ids, "word", "ids that contain a word, such as cartpole, installed or not"),
    "show": (
        show_env,
        "id",
        "spaces, config and card: returns, speed, checks; or what is understood of module:object",
    ),
    "new": (write_suite, "name", "write a package with a suite of your own, such as my_suite"),
    "info": (show_installation, "", "versions, devices and settings, for the report of a bug"),
}


def _play(argv: Sequence[str]) -> int:
    """The command `play`, whose file needs Gymnasium and pygame."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        return importlib.import_module("envrax.command.play").main(argv)
    except MissingPackageError as error:
        print(f"python -m envrax play: error: {error}", file=sys.stderr)
        return 2


_WITH_OPTIONS: dict[str, tuple[Callable[[Sequence[str]], int], str]] = {
    "check": (check_main, "check an environment against the contract"),
    "bench": (bench_main, "show what costs the time of an environment on this machine"),
    "play": (_play, "show an environment in a window, to play it with keys or to watch a policy"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """
    List suites and ids; find, show, check, time or play one; begin a suite; tell of versions.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; by default those of the command line.

    Returns
    -------
    int
        Exit code: 0, 1 if a check finds a broken rule, or 2 if a package for `play` is missing.

    Raises
    ------
    SystemExit
        With code 2 if an argument is wrong, or an environment cannot be found or built.
    """
    parser = argparse.ArgumentParser(prog="python -m envrax", description="Environments by name.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (_, argument, about) in _COMMANDS.items():
        form = commands.add_parser(name, help=about)
        if argument:
            nargs = "?" if name == "list" else None
            form.add_argument("argument", metavar=argument, nargs=nargs)
    for name, (_, about) in _WITH_OPTIONS.items():
        commands.add_parser(name, help=about)
    argv = sys.argv[1:] if argv is None else argv
    if argv and argv[0] in _WITH_OPTIONS:
        return _WITH_OPTIONS[argv[0]][0](argv[1:])
    arguments = parser.parse_args(argv)
    command, argument, _ = _COMMANDS[arguments.command]
    try:
        lines = [*command(*([arguments.argument] if argument else []))]
    except (Exception, SystemExit) as error:  # whatever an import or a constructor raises
        parser.error(f"{error}")
    print(*lines, sep="\n")
    return 0


if __name__ == "__main__":
    run(main)
