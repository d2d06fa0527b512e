"""The command line: `python -m envrax list`, `find WORD`, `show ID`, `check ID` and `new NAME`."""

import argparse
import dataclasses
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from envrax._core.installed import how_to_install, installed_suites, lacking
from envrax.make import make
from envrax.registry import available_suites, find, get_spec, registered_names
from envrax.suite import load_suite
from envrax.testing.__main__ import main as check_main


def main(argv: Sequence[str] | None = None) -> int:
    """
    List suites and environments, show one, or check it.

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
    listing = commands.add_parser("list", help="the suites, or the ids of one of them")
    listing.add_argument("prefix", nargs="?", help="a suite, such as gymnax")
    finding = commands.add_parser("find", help="ids of installed suites that are like a word")
    finding.add_argument("word")
    showing = commands.add_parser("show", help="spaces, config, time limit and origin of an id")
    showing.add_argument("id")
    starting = commands.add_parser("new", help="write a suite of your own into a new folder")
    starting.add_argument("name")
    checking = commands.add_parser("check", help="check an environment against the contract")
    checking.add_argument("id")
    checking.add_argument("options", nargs=argparse.REMAINDER, help="of python -m envrax.testing")
    arguments = parser.parse_args(argv)
    sys.path.insert(0, "")  # so that modules in the working directory are found
    if arguments.command == "check":
        return check_main([arguments.id, *arguments.options])
    try:
        match arguments.command:
            case "list":
                lines = listed(arguments.prefix)
            case "find":
                lines = iter(find(arguments.word) or ["none: `list` shows which suites to install"])
            case "show":
                lines = show(arguments.id)
            case _:
                lines = new(arguments.name)
        print(*lines, sep="\n")
    except Exception as error:  # whatever an import or a constructor raises
        parser.error(f"{error}")
    return 0


def listed(prefix: str | None) -> Iterator[str]:
    """One line for each suite, without importing any; or for each id of one suite."""
    if prefix is not None:
        yield from load_suite(prefix)
        return
    installed = installed_suites()
    for name in available_suites():
        point = installed.get(name)
        origin = f"{point.module}, from {_distribution(point)}" if point else "registered"
        if point and point.dist and lacking(point):
            origin += f"; not installed: {how_to_install(name, point.dist.name)}"
        yield f"{name:<12}  {origin}"
    yield from (name for name in registered_names() if "/" not in name)


def show(name: str) -> Iterator[str]:
    """Class, spaces, config and origin of an environment, one line each."""
    spec = get_spec(name)
    env = make(name, jit_compile=False)
    base = env.unwrapped
    config = getattr(base, "config", spec.default_config)
    fields = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    rows: dict[str, Any] = {
        "id": spec.name,
        "class": f"{type(base).__module__}.{type(base).__qualname__}",
        "suite": spec.name.rpartition("/")[0] or "none",
        "category": spec.suite or "none",
        "wrappers": ", ".join(map(repr, spec.wrappers)) or "none",
        **({"agents": ", ".join(env.agents)} if env.agents else {}),
        "observations": env.observation_space,
        "actions": env.action_space,
        "max_steps": "none" if config.max_steps == 2**31 - 1 else config.max_steps,
        "config": ", ".join(f"{key}={value!r}" for key, value in fields.items()),
        **_library_faults(base),
    }
    for label, value in rows.items():
        yield f"{label:<12}  {value}"


def new(name: str) -> Iterator[str]:
    """Write a suite with an environment, its test and a training script; the next commands."""
    if not (name.isidentifier() and name.islower()) or importlib.util.find_spec(name):
        raise ValueError(
            f"new: expected lower-case letters, digits and `_` that no module and no folder is "
            f"named, such as my_suite; got {name!r}."
        )
    template = Path(__file__).parent / "_template"
    for source in template.rglob("*.txt"):
        relative = str(source.relative_to(template)).removesuffix(".txt")
        path = Path(name, relative.replace("my_suite", name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source.read_text(encoding="utf-8").replace("my_suite", name), "utf-8")
    yield f"cd {name} && pip install -e '.[test]' && pytest && python train.py"


def _library_faults(base: Any) -> dict[str, str]:
    """Faults of the wrapped library, as its adapter declares them."""
    labels = {"waivers": "waived", "mended_bounds": "mended"}
    faults = {label: getattr(base, name, {}) for name, label in labels.items()}
    return {
        label: "; ".join(f"{what}: {reason}" for what, reason in found.items())
        for label, found in faults.items()
        if found
    }


def _distribution(point: metadata.EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown package"


if __name__ == "__main__":
    sys.exit(main())
