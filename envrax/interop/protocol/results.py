# pyright: basic
"""The results of a reset and of a step: what each part of them is."""

from typing import Any

import jax
import jax.numpy as jnp

from envrax.interop.protocol.refusal import Refusal
from envrax.spaces.base import is_mapping

FIELDS = {
    "obs": "observation obs",
    "reward": "reward rewards",
    "done": "done",
    "terminated": "terminated termination terminal",
    "truncated": "truncated truncation",
    "step_type": "step_type",
    "discount": "discount",
    "info": "info extras metrics",
    "mask": "action_mask legal_action_mask",
}
"""The parts of a time step, or of a state that is one, and the names of their fields."""

ENDS = ("done", "terminated", "truncated", "step_type", "discount")

_STEPS = {
    4: "obs state reward done",
    5: "obs state reward done info",
    6: "obs state reward terminated truncated info",
}
"""What the values of a step are, by their number, in gymnax and all that follow it."""

_STEPS_OF_STATE = {4: "state reward done info", 5: "state reward terminated truncated info"}
"""The same where a reset returns no observation, which is a function of the state then."""

Path = tuple[Any, ...]
"""Indices, keys and attributes that lead to a part of a result."""

Parts = dict[str, Path]
"""Where each part of a result is, by role."""


def get(tree: Any, path: Path) -> Any:
    """The part of a result at a path."""
    for step in path:
        by_item = isinstance(step, int) or is_plain_mapping(tree)
        tree = tree[step] if by_item else getattr(tree, str(step))
    return tree


def is_plain_mapping(x: Any) -> bool:
    """Whether `x` is a mapping, and no dataclass of chex, which is one too."""
    return is_mapping(x) and not hasattr(x, "__dataclass_fields__")


def names_in(x: Any) -> tuple[str, ...]:
    """The names of the parts of a mapping, a named tuple or a dataclass."""
    if is_plain_mapping(x):
        return tuple(map(str, x))
    return tuple(getattr(x, "_fields", getattr(x, "__dataclass_fields__", ())))


def parts_of(
    kind: str,
    name: str,
    results: Any,
    written: tuple[str, ...] | None,
    fields: dict[str, str],
    at_reset: Parts | None = None,
) -> Parts:
    """
    What the results of a function are.

    Parameters
    ----------
    kind : str
        "reset" or "step".
    name : str
        The name of the function.
    results : Any
        The types of what it returns.
    written : tuple of str, optional
        The roles of the values, as the user wrote them.
    fields : dict
        Fields of a time step by role, as the user named them.
    at_reset : dict, optional
        For a step: where the parts of a reset are.

    Raises
    ------
    Refusal
        If they have two meanings, or none.
    """
    values = list(results) if type(results) in (tuple, list) else [results]
    if written is not None:
        if len(written) != len(values):
            raise Refusal(f"`{name}` returns {len(values)} values, not {len(written)} as written")
        parts: Parts = {}
        for i, role in enumerate(written):
            place = (i,) if len(values) > 1 else ()
            is_step = role == "timestep"
            parts |= fields_of(name, values[i], place, fields) if is_step else {role: place}
        if "state" not in parts:
            raise Refusal(f"`{name}` as written returns no `state`")
        return parts
    if len(values) == 1:
        return {
            "state": _state_in(name, values[0], fields),
            **fields_of(name, values[0], (), fields),
        }
    if len(values) == 2:
        steps = [i for i, x in enumerate(values) if is_time_step(x, fields)]
        if len(steps) == 1:
            i = steps[0]
            return {"state": (1 - i,), **fields_of(name, values[i], (i,), fields)}
        if not steps and kind == "reset":
            has_obs = jax.tree.leaves(values[1])
            return {"obs": (0,), "state": (1,)} if has_obs else {"state": (0,), "info": (1,)}
    known = _STEPS if at_reset is None or "obs" in at_reset else _STEPS_OF_STATE
    if kind == "step" and len(values) in known:
        roles = known[len(values)].split()
        if roles[-1] == "info" and is_flag(values[-1]):
            roles = ["obs", "state", "reward", "terminated", "truncated"]
        return {role: (i,) for i, role in enumerate(roles)}
    raise Refusal(
        f"{len(values)} values of `{name}` without a known meaning: {describe(results)}. "
        f'{kind}="{name} -> ..." says what they are, of state, obs, reward, done, terminated, '
        "truncated, timestep; other names are left out"
    )


def _state_in(name: str, x: Any, fields: dict[str, str]) -> Path:
    """Where the state is in one object: the object itself, or a field of it."""
    found = [n for n in ("state", "env_state") if n in names_in(x)]
    if "state" not in fields and found:
        raise Refusal(
            f"two candidates for the state in what `{name}` returns, the whole and its field "
            f"`{found[0]}`. `fields=` decides: fields={{'state': {found[0]!r}}}, or "
            "fields={'state': ''} for the whole"
        )
    return (fields["state"],) if fields.get("state") else ()


def fields_of(name: str, x: Any, place: Path, fields: dict[str, str]) -> Parts:
    """The parts of a time step by role."""
    own = names_in(x)
    parts: Parts = {}
    for role, names in FIELDS.items():
        free = [n for n in names.split() if n in own and n not in fields.values()]
        found = [fields[role]] if role in fields else free
        if role == "info" and len(found) > 1:
            found = [n for n in found if n != "info"]  # Brax: its info is a state
        if len(found) > 1:
            listed = " and ".join(f"`{n}`" for n in found)
            raise Refusal(
                f"two candidates for the {role} in a result of `{name}`, {listed}. `fields=` "
                f"decides: fields={{{role!r}: {found[0]!r}}}"
            )
        if found and found[0] in own:
            parts[role] = (*place, found[0])
    if "obs" in parts and "mask" not in parts:  # Jumanji
        inside = names_in(None if is_plain_mapping(x) else getattr(x, parts["obs"][-1]))
        if "action_mask" in inside:
            parts["mask"] = (*parts["obs"], "action_mask")
    return parts


def is_time_step(x: Any, fields: dict[str, str]) -> bool:
    """Whether a result has an observation and a reward, by the names of its fields."""
    own = {*names_in(x)}
    wanted = ({*FIELDS[role].split(), fields.get(role)} for role in ("obs", "reward"))
    return not is_plain_mapping(x) and all(own & names for names in wanted)


def alike(a: Any, b: Any) -> bool:
    """Whether two trees have the same structure and shapes; dtypes may differ."""
    if jax.tree.structure(a) != jax.tree.structure(b):
        return False
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(x.shape == y.shape for x, y in pairs)


def is_flag(x: Any) -> bool:
    """Whether a value is one bool."""
    return str(getattr(x, "dtype", "")) == "bool" and x.size == 1


def is_number(x: Any) -> bool:
    """Whether a value is one number; no bool is."""
    return hasattr(x, "dtype") and x.size == 1 and jnp.issubdtype(x.dtype, jnp.number)


def is_info(x: Any) -> bool:
    """Whether a value can be an info: a container with names, or nothing."""
    return bool(names_in(x)) or not jax.tree.leaves(x)


def require_fields(fields: dict[str, str]) -> None:
    """Refuse roles that there are not."""
    known = (*FIELDS, "state")
    if unknown := [role for role in fields if role not in known]:
        raise Refusal(f"expected `fields` of {', '.join(known)}; got {', '.join(unknown)}")


def describe(results: Any) -> str:
    """Types of results, in short."""

    def one(x: Any) -> str:
        if hasattr(x, "dtype"):
            return f"{x.dtype}{list(x.shape)}"
        return f"{type(x).__name__}({', '.join(names_in(x))})" if names_in(x) else str(x)

    return ", ".join(map(one, results if type(results) in (tuple, list) else [results]))
