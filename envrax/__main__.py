"""The command line: `python -m envrax list`, `find WORD`, `show ID`, `check ID`, `new NAME`."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from envrax.interop.catalogue import find_ids, list_suites, show_env
from envrax.testing.__main__ import main as check_main
from envrax.testing.__main__ import run
from envrax.testing.new_suite import write_suite

_COMMANDS: dict[str, tuple[Any, str, str]] = {
    "list": (list_suites, "prefix", "the suites, or the ids of one, such as gymnax"),
    "find": (find_ids, "word", "ids that contain a word, such as cartpole, installed or not"),
    "show": (show_env, "id", "spaces, config, time limit and origin of an environment"),
    "new": (write_suite, "name", "write a package with a suite of your own, such as my_suite"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """
    List suites and environments, find, show or check one, or begin a suite.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; by default those of the command line.

    Returns
    -------
    int
        Exit code: 0, or 1 if a check finds a broken rule.

    Raises
    ------
    SystemExit
        With code 2 if an argument is wrong, or an environment cannot be found or built.
    """
    parser = argparse.ArgumentParser(prog="python -m envrax", description="Environments by name.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (_, argument, about) in _COMMANDS.items():
        command = commands.add_parser(name, help=about)
        command.add_argument("argument", metavar=argument, nargs="?" if name == "list" else None)
    commands.add_parser("check", help="check an environment against the contract")
    argv = sys.argv[1:] if argv is None else argv
    if [*argv[:1]] == ["check"]:
        return check_main(argv[1:])
    arguments = parser.parse_args(argv)
    try:
        lines = [*_COMMANDS[arguments.command][0](arguments.argument)]
    except (Exception, SystemExit) as error:  # whatever an import or a constructor raises
        parser.error(f"{error}")
    print(*lines, sep="\n")
    return 0


if __name__ == "__main__":
    run(main)
