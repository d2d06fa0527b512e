"""What an unknown name is told: close matches, and what there is to choose from."""

import difflib
from typing import Any

MOST_LISTED = 40  # names in an error


def unknown_suite(prefix: str, suites: list[str]) -> ValueError:
    """The error for a prefix that is not one of `suites`."""
    listed = ", ".join(suites) or "none"
    return ValueError(
        f"Unknown suite {prefix!r}.{_did_you_mean(prefix, suites)} Available: {listed}."
    )


def unknown_env(name: Any, names: list[str], suites: list[str]) -> ValueError:
    """The error for what is not one of the registered `names`, given the prefixes of all suites."""
    hint = f"{_hint(name, names, suites)} Available: {_available(name, names)}."
    return ValueError(f"Unknown environment {name!r}.{hint}")


def _hint(name: Any, names: list[str], suites: list[str]) -> str:
    """What is probably wrong with the name."""
    if not isinstance(name, str):
        return " Pass a name; an environment or its class needs no `make`."
    hint = _did_you_mean(name, names)
    prefix, slash, _ = name.partition("/")
    if slash and not any(known.startswith(f"{prefix}/") for known in names):
        hint += (
            f" No suite with the prefix {prefix!r} is registered: import the package that "
            "registers it, or install it first."
        )
        hint += _did_you_mean(prefix, suites, " the suite")
    return hint


def _did_you_mean(name: str, names: list[str], kind: str = "") -> str:
    lower = {known.lower(): known for known in names}
    close = [lower[match] for match in difflib.get_close_matches(name.lower(), lower)]
    return f" Did you mean{kind} {' or '.join(map(repr, close))}?" if close else ""


def _available(name: Any, names: list[str]) -> str:
    """The names to choose from: those of the same prefix, if there are many."""
    prefix = name.partition("/")[0] if isinstance(name, str) else ""
    alike = [known for known in names if known.startswith(f"{prefix}/")] or names
    listed = names if len(names) <= MOST_LISTED else alike
    if not listed:
        return "none; import the package that registers it"
    more = len(listed) - MOST_LISTED
    return ", ".join(listed[:MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
