# pyright: basic
"""The time limit of a library's object: where it is declared, and whether an end reads it."""

import copy
import dataclasses
import functools
import re
from collections.abc import Callable
from operator import attrgetter
from types import ModuleType
from typing import Any

import numpy as np

from envrax._jax.dead_code import without_dead_code
from envrax._jax.types import is_traced
from envrax.interop.params import with_changes
from envrax.interop.peer_types import NO_LIMIT
from envrax.interop.protocol.refusal import Refusal

FAR = 2**20  # steps, in place of no limit

NAMES = (
    "max_steps_in_episode",
    "max_timesteps",
    "max_time_steps",
    "max_steps",
    "max_num_steps",
    "max_episode_steps",
    "max_episode_length",
    "time_limit",
    "step_limit",
    "episode_length",
    "episode_steps",
    "horizon",
)
"""Names of fields that hold a time limit, in parameters, objects and their configs."""

_PARTS = ("config", "cfg", "_config", "static_env_params", "env_params", "params", "settings")

Ends = Callable[[Any, Any], Any]
"""`ends(env, params)`: the closed jaxpr of the ends of one step."""


@dataclasses.dataclass(frozen=True)
class Limit:
    """
    A time limit.

    Attributes
    ----------
    steps : Any
        The number of steps, which may be traced if it is one of the parameters.
    place : str
        Where it is: "params.step_limit", "max_steps" of the object, or "" where there is none.
    in_params : str
        Its name in the parameters; "" if it is a part of the object.
    """

    steps: Any = NO_LIMIT
    place: str = ""
    in_params: str = ""

    def longer(self, env: Any, params: Any) -> tuple[Any, Any]:
        """
        The object and its parameters with a limit that is far longer.

        A TypeError, or an AttributeError, if that cannot be done in a copy.
        """
        steps = self.of(env, params)
        steps = (
            steps + FAR if hasattr(steps, "aval") or isinstance(steps, float) else int(steps) + FAR
        )
        if self.in_params:
            return env, self.in_params_with(params, steps)
        return _copy_with(env, self.place.split("."), steps), params

    def in_params_with(self, params: Any, steps: Any) -> Any:
        """The parameters with another limit, of the type that it had."""
        before = self.of(None, params)
        steps = float(steps) if isinstance(before, float) else steps
        return with_changes("envrax.wrap", params, {self.in_params: steps})

    def of(self, env: Any, params: Any) -> Any:
        """The number of steps that an object and its parameters have here."""
        if not self.in_params:
            return attrgetter(self.place)(env)
        return _field(params, self.in_params)

    def __str__(self) -> str:
        return f"{self.steps} steps, `{self.place}`" if self.place else "none"


def _copy_with(owner: Any, path: list[str], value: Any) -> Any:
    """A copy of an object in which the field at a path has another value."""
    name, *rest = path
    before = _field(owner, name)
    value = _copy_with(before, rest, value) if rest else value
    if isinstance(owner, dict):
        return {**owner, name: value}
    if hasattr(owner, "_replace"):
        return owner._replace(**{name: value})
    twin = copy.copy(owner)
    if twin is owner:
        raise TypeError("its copy is itself")
    object.__setattr__(twin, name, value)
    if _field(owner, name) is not before:  # they share what holds it
        object.__setattr__(owner, name, before)
        raise TypeError("its copy is not its own")
    return twin


def _field(owner: Any, name: str) -> Any:
    return owner.get(name) if isinstance(owner, dict) else getattr(owner, name, None)


def _steps(x: Any) -> Any:
    """A time limit, at most `NO_LIMIT`; None for what is no number of steps."""
    if is_traced(x):
        return x if np.shape(x) == () else None
    if isinstance(x, bool | str) or x is None or callable(x) or np.shape(x) != ():
        return None
    is_number = np.issubdtype(np.asarray(x).dtype, np.number)
    is_count = is_number and 1 <= float(x) < 2**30 and float(x).is_integer()
    return int(x) if is_count else None  # larger ones mean no limit


def declared(env: Any, params: Any) -> list[Limit]:
    """All time limits that an object, its config and its parameters declare."""
    own = {} if isinstance(env, ModuleType) else getattr(env, "__dict__", {})
    parts = [(f"{x}.", own[x], False) for x in _PARTS if x in own]
    found: list[Limit] = []
    for prefix, owner, is_given in [("params.", params, True), ("", env, False), *parts]:
        for name in NAMES:
            for spelt in (name, f"_{name}", name.upper()):
                steps = _steps(_field(owner, spelt))
                if steps is not None:
                    found.append(Limit(steps, prefix + spelt, spelt if is_given else ""))
    return found


def is_read(ends: Ends, env: Any, params: Any, limit: Limit) -> bool:
    """Whether the program of the ends changes with a limit."""
    try:
        longer = limit.longer(env, params)
    except (AttributeError, TypeError, RecursionError):  # a property, or what cannot be copied
        return False
    try:
        changed = ends(*longer)
    except Refusal as error:
        raise Refusal(
            f"`{limit.place}` may be a time limit, and its functions cannot be traced with a "
            "longer one. limit='none' and max_steps=500 say what the flag counts"
        ) from error
    return _program(changed) != _program(ends(env, params))


def _program(closed: Any) -> Any:
    """What a program computes, in a form to compare."""
    used, constants = without_dead_code(closed)
    values = [id(x) if is_traced(x) else np.asarray(x).tobytes() for x in constants]
    return re.sub(r"0x[0-9a-f]+", "", str(used)), values


def choose(ends: Ends, env: Any, params: Any, named: str | None) -> Limit:
    """
    The limit that ends read.

    Parameters
    ----------
    ends : callable
        See `Ends`.
    env, params : Any
        The object and its parameters.
    named : str, optional
        The field that the user named; "none" for no limit.

    Raises
    ------
    Refusal
        If there are several, or the field that is named has no number.
    """
    found = declared(env, params)
    if named not in (None, "none"):
        in_params = named[7:] if named.startswith("params.") and params is not None else ""
        owner, name = (params, in_params) if in_params else (env, named)
        steps = functools.reduce(_field, name.split("."), owner)
        steps = _steps(steps)
        if steps is None:
            places = ", ".join(x.place for x in found) or "none"
            raise Refusal(
                f"expected `limit` to name a field with a number of steps; got {named!r}. Declared "
                f"here: {places}"
            )
        found = [Limit(steps, named, in_params)]
    found = [x for x in found if is_read(ends, env, params, x)] if named != "none" else []
    if named not in (None, "none") and not found:
        raise Refusal(f"no end reads `{named}`, which `limit` names. max_steps= gives a limit")
    if len(found) > 1:
        listed = " and ".join(map(str, found))
        raise Refusal(
            f"two time limits that ends read, {listed}. `limit=` decides: "
            f"limit={found[0].place!r}, or limit='none'"
        )
    return found[0] if found else Limit()
