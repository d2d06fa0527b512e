"""Waivers: the rules that an environment may break, each with a reason."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from envrax._checks.names import close_matches, did_you_mean


@dataclass(frozen=True)
class Waiver:
    """
    Why an environment may break a rule.

    Attributes
    ----------
    reason : str
        The reason.
    is_needed : bool
        Whether the waiver is a finding if the rule holds.
    """

    reason: str
    is_needed: bool


Waivers = dict[str, Waiver]


def read_waivers(who: str, given: Any, known: Iterable[str], *, is_needed: bool) -> Waivers:
    """
    Waivers from a dict that a user wrote, checked.

    Parameters
    ----------
    who : str
        How an error message begins: "check_env: expected `waive`".
    given : Any
        A dict from rule to reason, or None.
    known : iterable of str
        The names of all rules.
    is_needed : bool
        As in `Waiver`.

    Raises
    ------
    TypeError
        If `given` is not a dict.
    ValueError
        If a rule is unknown, or a reason is not a non-empty text.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"{who} to be a dict {{rule: reason}}; got {given!r}.")
    legal = list(dict.fromkeys(known))
    waivers: Waivers = {}
    for rule, reason in cast(Mapping[Any, Any], given).items():
        if rule not in legal:
            meant = did_you_mean(close_matches(str(rule), legal))
            raise ValueError(
                f"{who} to name rules; got {rule!r}.{meant} The rules are {', '.join(legal)}."
            )
        if not (isinstance(reason, str) and reason.strip()):
            raise ValueError(
                f"{who} to give {rule!r} a reason, a text; got {reason!r}. Say why the rule cannot "
                "be kept."
            )
        waivers[rule] = Waiver(reason.strip(), is_needed)
    return waivers


def declared_waivers(owner: Any, known: Iterable[str], *, is_needed: bool) -> Waivers:
    """The waivers in the attribute `waivers` of an environment or a batch, if it has one."""
    given = getattr(owner, "waivers", None)
    who = f"{type(owner).__name__}: expected `waivers`"
    return read_waivers(who, given, known, is_needed=is_needed)
