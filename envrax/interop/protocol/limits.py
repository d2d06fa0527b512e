# pyright: basic
"""The time limit of a library's object: where it is declared, and whether an end reads it."""

import copy
import dataclasses
import functools
from collections.abc import Callable
from operator import attrgetter
from types import ModuleType
from typing import Any

import numpy as np

from envrax._jax.types import is_traced
from envrax.interop.peer.params import with_changes
from envrax.interop.peer.types import NO_LIMIT
from envrax.interop.protocol.counting import (
    FAR,
    Programs,
    ends_differ,
    step_of_certain_end,
    steps_to_end,
)
from envrax.interop.protocol.refusal import Refusal

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

Traced = Callable[[Any, Any], Programs]
"""`traced(env, params)`: the programs of an object."""


@dataclasses.dataclass(frozen=True)
class Limit:
    """
    A time limit.

    Attributes
    ----------
    value : Any
        The field's value, which may be traced if it is one of the parameters.
    place : str
        Where it is: "params.step_limit", "max_steps" of the object, or "" where there is none.
    in_params : str
        Its name in the parameters; "" if it is a part of the object.
    steps : Any
        The number of steps of an episode that it ends: other than its value if it counts frames
        or seconds, or from zero; `NO_LIMIT` where that is not known.
    """

    value: Any = NO_LIMIT
    place: str = ""
    in_params: str = ""
    steps: Any = NO_LIMIT

    def longer(self, env: Any, params: Any) -> tuple[Any, Any]:
        """
        The object and its parameters with a limit that is far longer.

        A TypeError, or an AttributeError, if that cannot be done in a copy.
        """
        value = self.of(env, params)
        is_fixed = hasattr(value, "aval") or isinstance(value, float)
        value = value + FAR if is_fixed else int(value) + FAR
        if self.in_params:
            return env, self.in_params_with(params, value)
        return _copy_with(env, self.place.split("."), value), params

    def in_params_with(self, params: Any, value: Any) -> Any:
        """The parameters with another limit, of the type that it had."""
        is_float = isinstance(_field(params, self.in_params), float)
        value = float(value) if is_float else value
        return with_changes("envrax.wrap", params, {self.in_params: value})

    def of(self, env: Any, params: Any) -> Any:
        """Its value in an object and its parameters."""
        return _field(params, self.in_params) if self.in_params else attrgetter(self.place)(env)

    @property
    def is_in_steps(self) -> bool:
        """Whether its value is the number of steps."""
        if is_traced((self.value, self.steps)):
            return is_traced(self.value)
        return self.steps == self.value

    def __str__(self) -> str:
        if not self.place:
            return "none" if self.steps == NO_LIMIT else f"{self.steps} steps, as counted"
        if self.is_in_steps:
            return f"{self.steps} steps, `{self.place}`"
        is_counted = is_traced(self.steps) or self.steps != NO_LIMIT
        steps = f"{self.steps} steps" if is_counted else "not counted in steps"
        return f"{steps}, `{self.place}` = {self.value}"


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


def _number(x: Any) -> Any:
    """The value of a time limit; None for what is no number, or too large to be one."""
    if is_traced(x):
        return x if np.shape(x) == () else None
    if isinstance(x, bool | str) or x is None or callable(x) or np.shape(x) != ():
        return None
    is_number = np.issubdtype(np.asarray(x).dtype, np.number)
    if not is_number or not 0 < float(x) < 2**30:
        return None
    return int(x) if float(x).is_integer() else float(x)


def declared(env: Any, params: Any) -> list[Limit]:
    """All time limits that an object, its config and its parameters declare."""
    own = {} if isinstance(env, ModuleType) else getattr(env, "__dict__", {})
    parts = [(f"{x}.", own[x], False) for x in _PARTS if x in own]
    found: list[Limit] = []
    for prefix, owner, is_given in [("params.", params, True), ("", env, False), *parts]:
        for name in NAMES:
            for spelt in (name, f"_{name}", name.upper()):
                value = _number(_field(owner, spelt))
                if value is not None:
                    found.append(Limit(value, prefix + spelt, spelt if is_given else ""))
    return found


def is_read(traced: Traced, env: Any, params: Any, limit: Limit) -> bool:
    """Whether the ends of an object change with a field."""
    longer = _longer(traced, env, params, limit)
    return longer is not None and ends_differ(traced(env, params), longer)


def _longer(traced: Traced, env: Any, params: Any, limit: Limit) -> Programs | None:
    """The programs with a limit that is far longer; None for a field that cannot be set."""
    try:
        longer = limit.longer(env, params)
    except (AttributeError, TypeError, RecursionError):  # a property, or what cannot be copied
        return None
    try:
        return traced(*longer)
    except Refusal as error:
        raise Refusal(
            f"`{limit.place}` may be a time limit, and its functions cannot be traced with a "
            "longer one. limit='none' and max_steps=500 say what the flag counts"
        ) from error


def counted(traced: Traced, env: Any, params: Any, limit: Limit) -> Limit | None:
    """A limit with the number of its steps; None if more than a counter is compared with it."""
    longer = _longer(traced, env, params, limit)
    steps = longer and steps_to_end(traced(env, params), longer)
    if steps is None:
        return None
    return dataclasses.replace(limit, steps=steps if is_traced(steps) else int(steps))


def steps_with(traced: Traced, env: Any, params: Any, limit: Limit) -> Any:
    """The number of steps of a limit with other parameters than it was found with."""
    if not limit.place:
        no_limit = limit.steps == NO_LIMIT
        return NO_LIMIT if no_limit else step_of_certain_end(traced(env, params))
    found = counted(traced, env, params, limit)
    return NO_LIMIT if found is None else found.steps


def choose(traced: Traced, env: Any, params: Any, named: str | None) -> Limit:
    """
    The limit that ends read.

    Parameters
    ----------
    traced : callable
        See `Traced`.
    env, params : Any
        The object and its parameters.
    named : str, optional
        The field that the user named; "none" for no limit.

    Raises
    ------
    Refusal
        If there are several, or the field that is named has no number, or something else than a
        counter is compared with the one that is not named.
    """
    if named == "none":
        return Limit()
    found = declared(env, params) if named is None else [_named(env, params, named)]
    found = [x for x in found if is_read(traced, env, params, x)]
    if len(found) > 1:
        listed = " and ".join(f"`{x.place}` = {x.value}" for x in found)
        raise Refusal(
            f"two time limits that ends read, {listed}. `limit=` decides: "
            f"limit={found[0].place!r}, or limit='none'"
        )
    if not found and named:
        raise Refusal(f"no end reads `{named}`, which `limit` names. max_steps= gives a limit")
    if not found:
        return Limit()
    limit = counted(traced, env, params, found[0])
    if limit is None and named is None:
        raise Refusal(
            f"`{found[0].place}` = {found[0].value} decides ends, and more than a counter of steps "
            f"is compared with it. limit={found[0].place!r} says that it is the time limit, and "
            "max_steps= how many steps it has; limit='none' says that it is something else"
        )
    return limit or found[0]


def _named(env: Any, params: Any, named: str) -> Limit:
    """The field that a user names."""
    in_params = named[7:] if named.startswith("params.") and params is not None else ""
    owner, name = (params, in_params) if in_params else (env, named)
    value = _number(functools.reduce(_field, name.split("."), owner))
    if value is None:
        places = ", ".join(x.place for x in declared(env, params)) or "none"
        raise Refusal(
            f"expected `limit` to name a field with a number of steps; got {named!r}. Declared "
            f"here: {places}"
        )
    return Limit(value, named, in_params)
