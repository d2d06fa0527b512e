"""The command line: `python -m envrax NAME ...` runs the file `NAME` in `envrax.command`."""

import argparse
import importlib
import pkgutil
from collections.abc import Sequence
from typing import Any

from envrax import command
from envrax.testing.__main__ import exit_with


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the command that the arguments name.

    A command is a module with a line of help, `arguments(add)`, where `add` is that of `argparse`,
    and `run(given)`, which returns the exit code.

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
        With code 2 if an argument is wrong, or whatever it names cannot be found, built or run.
    """
    parser = argparse.ArgumentParser(prog="python -m envrax", description="Environments by name.")
    forms = parser.add_subparsers(dest="command", required=True)
    commands: dict[str, tuple[argparse.ArgumentParser, Any]] = {}
    for found in pkgutil.iter_modules(command.__path__):
        if not found.ispkg:
            module: Any = importlib.import_module(f"envrax.command.{found.name}")
            about = str(module.__doc__).partition("\n")[0]
            form = forms.add_parser(found.name, help=about, description=about)
            module.arguments(form.add_argument)
            commands[found.name] = form, module
    given = parser.parse_args(argv)
    form, module = commands[given.command]
    try:
        return module.run(given)
    except BrokenPipeError:
        raise
    except (Exception, SystemExit) as error:  # whatever an import, a constructor or a step raises
        form.error(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    exit_with(main)
