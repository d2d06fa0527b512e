# pyright: basic
"""What the ends of a library's object mean, and whether its step resets itself."""

import functools
import inspect
import sys
from typing import Any

import jax
import jax.numpy as jnp

from envrax.interop.peer.containers import copy_containers
from envrax.interop.peer.types import NO_LIMIT
from envrax.interop.protocol import limits
from envrax.interop.protocol.calls import roles_of
from envrax.interop.protocol.counting import Programs, is_counted, step_of_certain_end
from envrax.interop.protocol.dependence import begins_anew
from envrax.interop.protocol.limits import Limit
from envrax.interop.protocol.reader import Reader
from envrax.interop.protocol.refusal import Refusal
from envrax.interop.protocol.results import ENDS, FIELDS, get, names_in


def find_ends(reader: Reader, at_step: Any, state: Any, action: Any) -> None:
    """What tells a termination from a truncation, and whether a step resets itself."""
    r = reader.r
    named = reader.choices.limit
    if reader.choices.done not in (None, "terminated"):
        raise Refusal(f"expected `done` to be 'terminated'; got {reader.choices.done!r}")
    if "step_type" in r.at_step:
        owner = type(get(at_step, r.at_step["step_type"][:-1]))
        r.step_types = _step_types(owner)
    r.programs = _programs(reader, state, action, ENDS)
    own = reader.env, reader.params
    _require_no_reset(reader, r.programs(*own), state)
    _require_order(reader, state, action)
    flags = {*r.at_step, *r.calls} & {*ENDS}
    if flags >= {"done", "truncated"} and "truncated" in r.calls:
        # Code written before gymnax 1.0 counts the limit in `done`, and inherits the other.
        call = r.calls.pop("truncated")
        r.limit = limits.choose(r.programs, *own, named) if named else _only_limit(reader)
        r.calls["truncated"] = call
        if r.limit.place:
            flags -= {"truncated"}
        else:
            r.at_step["terminated"] = r.at_step.pop("done")
    if not r.limit.place and _is_explained(reader, flags):
        r.limit = _only_limit(reader)
    elif not r.limit.place and (named or not reader.choices.done):
        r.limit = limits.choose(r.programs, *own, named)
    if r.calls:
        r.facts["beside"] = "; ".join(f"{role}: {call}" for role, call in r.calls.items())
    _explain(reader, flags, state)
    is_counted_only = r.reason == "two flags" and not r.limit.place
    if is_counted_only:
        r.limit = Limit(steps=step_of_certain_end(r.programs(*own)))
    is_unknown = is_counted_only and r.limit.steps == NO_LIMIT
    r.facts["limit"] = "not known; the flags tell" if is_unknown else str(r.limit)


def _only_limit(reader: Reader) -> Limit:
    """The one limit that is counted in the ends, if there is one."""
    own = reader.r.programs, reader.env, reader.params
    read = [x for x in limits.declared(*own[1:]) if limits.is_read(*own, x)]
    found = [x for x in (limits.counted(*own, limit) for limit in read) if x]
    return found[0] if len(found) == 1 else Limit()


def _programs(reader: Reader, state: Any, action: Any, ends: tuple[str, ...]) -> limits.Traced:
    """The programs of an object, with some of the ends that its step gives."""
    r = reader.r

    def programs(env: Any, params: Any) -> Programs:
        def begun(key: Any) -> Any:
            return jax.tree.leaves(r.begin(env, params, key)["state"])

        def after(key: Any, state: Any, action: Any) -> Any:
            parts = r.advance(env, params, copy_containers(state), action, key)
            flags = [_is_end(reader, role, parts[role]) for role in ends if role in parts]
            return flags, jax.tree.leaves(parts["state"])

        step, (flags, _) = reader.program(after, reader.key, state, action)
        return Programs(lambda: reader.program(begun, reader.key)[0], step, len(flags))

    return programs


def _is_end(reader: Reader, role: str, value: Any) -> Any:
    """Whether a part of a result says that the episode ended; a discount, that it terminated."""
    if role == "step_type":
        return functools.reduce(jnp.logical_or, [value == x for x in reader.r.step_types])
    return value == 0 if role == "discount" else value


def _require_order(reader: Reader, state: Any, action: Any) -> None:
    """
    Refuse two flags of which the first counts the time limit.

    Those that are known by their places are a termination, which the count of steps never makes,
    and a truncation, which only it makes.
    """
    r = reader.r
    is_named = reader.choices.step or "terminated" in reader.choices.fields
    if not {"terminated", "truncated"} <= {*r.at_step} or is_named:
        return
    own = reader.env, reader.params
    first = _programs(reader, state, action, ("terminated",))
    counts = any(limits.is_read(first, *own, x) for x in limits.declared(*own))
    if isinstance(r.at_step["terminated"][-1], int):
        second = _programs(reader, state, action, ("truncated",))
        counts |= step_of_certain_end(first(*own)) != NO_LIMIT
        if not is_counted(second(*own)):
            raise Refusal(
                f"the last flag of `{r.step.name}` does not follow from the count of steps, as a "
                "truncation would. `step=` says what its flags are, of done, terminated, "
                "truncated; other names are left out"
            )
    if counts:
        raise Refusal(
            f"the termination of `{r.step.name}` counts the time limit. `step=` or `fields=` says "
            "what its flags are, of done, terminated, truncated"
        )


def _is_explained(reader: Reader, flags: set[str]) -> bool:
    two = "truncated" in flags or len(reader.r.step_types) == 2
    return two and reader.choices.limit is None


def _explain(reader: Reader, flags: set[str], state: Any) -> None:
    """The reason of an end."""
    r = reader.r
    counted = f", and at `{r.limit.place}` a truncation" if r.limit.place else ""
    if _is_explained(reader, flags):
        r.reason, text = "two flags", "its own two flags"
        if len(r.step_types) == 2:
            text = "`step_type`"
    elif "discount" in flags and r.step_types:
        r.reason = "discount"
        text = f"`discount` at the last step: a termination where it is 0{counted}"
    elif "terminated" in flags or reader.choices.done or "pipeline_state" in names_in(state):
        r.reason, text = "terminated", f"every end is a termination{counted}"
    else:
        r.reason = "one flag"
        text = "one flag; an end that the limit makes is a truncation"
        if not r.limit.place:
            text = "one flag, and no limit is known"
    r.facts["ends"] = text


def _require_no_reset(reader: Reader, programs: Programs, state: Any) -> None:
    """Refuse a step whose end decides its state."""
    r = reader.r
    if reader.choices.resets is not None:
        r.facts["resets"] = f"`{r.step.name}` does not, by `resets=`"
        if reader.choices.resets:
            raise Refusal(f"`{r.step.name}` resets itself: `step=` names another function")
        return
    known = {str(path[-1]) for role, path in r.at_step.items() if role in FIELDS and path}
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(state)]
    decided = begins_anew(programs.step, programs.n_ends, 1)
    anew = [path for path, x in zip(paths, decided, strict=True) if x]
    if not r.at_step["state"]:  # a state that is a time step has these parts of it
        anew = [x for x in anew if jax.tree_util.keystr(x[:1], simple=True) not in known]
    names = [*map(jax.tree_util.keystr, anew)]
    if names:
        beside = "".join(f"; step={x!r} takes `{x}`" for x in _steps_beside(reader))
        raise Refusal(
            f"`{r.step.name}` may reset itself: its end resets "
            f"{', '.join(names[:4])}. `resets=` decides: resets=False says that it never "
            f"begins an episode{beside or '; where it does, a step that does not is needed'}"
        )
    r.facts["resets"] = f"`{r.step.name}` does not: its end resets nothing in its state"


def _steps_beside(reader: Reader) -> list[str]:
    """The other functions of an object that take a state and an action."""
    env = reader.env
    names = [x for x in dir(env) if not x.startswith("__") and x != reader.r.step.name]
    functions = [x for x in names if inspect.isfunction(inspect.getattr_static(env, x))]
    return [x for x in functions if {"state", "action"} <= {*roles_of(env, x)}]


def _step_types(owner: type) -> tuple[int, ...]:
    """The values of `step_type` that are ends: (last,), or (terminated, truncated)."""
    for cls in owner.__mro__:
        kinds: Any = getattr(sys.modules.get(cls.__module__), "StepType", None)
        members = {x for x in dir(kinds) if x.isupper()}
        for names in (("TERMINATED", "TRUNCATED"), ("TERMINATION", "TRUNCATION"), ("LAST",)):
            if members in ({"FIRST", "MID", *names}, {"FIRST", "MID", "LAST", *names}):
                return tuple(int(getattr(kinds, name)) for name in names)
    raise Refusal(
        f"`step_type` of {owner.__name__}, without a class `StepType` beside it that says what its "
        "values mean. An adapter compares it"
    )
