# pyright: basic
"""The spaces of a library's object, and its masks of actions."""

import importlib
import operator
from typing import Any

import jax
import jax.numpy as jnp

from envrax._jax.at_once import computed_at_once
from envrax._jax.types import output_types
from envrax.interop.peer.common_types import types_of
from envrax.interop.peer.containers import as_dicts
from envrax.interop.peer.spaces import box, from_library_space, nested, unbounded
from envrax.interop.protocol.calls import bind
from envrax.interop.protocol.reader import Reader
from envrax.interop.protocol.refusal import Refusal
from envrax.interop.protocol.results import describe, get, names_in
from envrax.spaces import Dict, Discrete, Space
from envrax.spaces.composite import map_leaves
from envrax.spaces.masks import mask_shape


def find_actions(reader: Reader, state: Any) -> Any:
    """The space of actions; and the types of an action as the object takes it."""
    r = reader.r
    space = _space(reader, "action", None)
    if space is None and "pipeline_state" in names_in(state):  # Brax
        size = int(reader.env.action_size)
        space = box(-1.0, 1.0, jax.ShapeDtypeStruct((size,), jnp.float32))
    if space is None and r.in_turn and "mask" in r.at_reset:
        space = Discrete(get(state, r.at_reset["mask"][-1:]).shape[-1])
    if space is None:
        raise Refusal("no space of actions: `action_space=` gives one")
    one = space
    if r.in_turn:
        space = Dict(dict.fromkeys(r.agents, space))
    r.spaces = (space,)
    r.facts["actions"] = str(space)
    if r.agents and not r.in_turn:
        types = output_types(space.sample)
        return {p: types[a] for a, p in zip(r.agents, r.peer_agents, strict=True)}
    return output_types(one.sample)


def find_observations(reader: Reader, state: Any) -> None:
    """The space of observations; that of a world is by agent."""
    r = reader.r
    obs = reader.trace(lambda key: r.begin(reader.env, reader.params, key)["obs"], reader.key)
    types = types_of(as_dicts(obs))
    if r.agents:
        names = r.agents if r.in_turn else map(str, r.peer_agents)
        types = {a: types[p] for a, p in zip(r.agents, names, strict=True)}
    one = types[r.agents[0]] if r.in_turn else types
    space = _space(reader, "observation", one)
    text = ""
    if space is None:
        space, text = nested(unbounded, one), ", since it declares none"
    if r.in_turn:
        space = Dict(dict.fromkeys(r.agents, space))
    r.spaces = (space, *r.spaces)
    r.facts["observations"] = f"{space}{text}"


def find_mask(reader: Reader) -> None:
    """The mask of actions, where it has the form of their space."""
    r = reader.r
    if "mask" not in {*r.at_reset, *r.calls}:
        return
    mask = reader.trace(lambda key: r.begin(reader.env, reader.params, key)["mask"], reader.key)
    space: Any = r.spaces[1]
    if _is_mask(reader, space[r.agents[0]] if r.in_turn else space, mask):
        r.facts["mask"] = "of legal actions"
        return
    r.facts["mask"] = f"none: {describe(mask)} is no mask for its actions, in bools"
    for parts in (r.at_reset, r.at_step, r.calls):
        parts.pop("mask", None)


def _is_mask(reader: Reader, space: Space, mask: Any) -> bool:
    """Whether a mask has bools in the form of a space. None for a part says that all is legal."""

    def is_one(space: Space, mask: Any) -> bool:
        return mask is None or (mask.shape == mask_shape(space) and mask.dtype == bool)

    try:
        fits = map_leaves(is_one, space, reader.r.by_agent(mask))
    except (AttributeError, LookupError, TypeError, ValueError):
        return False  # other containers
    return jax.tree.all(fits) and bool(jax.tree.leaves(mask))


def _space(reader: Reader, kind: str, types: Any) -> Space | None:
    """A space that the user gave, or that the object declares."""
    given = getattr(reader.choices, f"{kind}_space")
    short = {"observation": "obs", "action": "act"}[kind]
    names = (f"{kind}_space", f"{kind}_spec", f"{short}_space", f"{short}_spec")
    name = next((x for x in names if getattr(reader.env, x, None) is not None), None)
    try:
        with computed_at_once():
            if given is not None or name is not None:
                return _converted(reader, kind, name, given, types)
            number: Any = getattr(reader.env, "num_actions", None)
            if kind == "observation" or number is None:
                return None
            count: Any = number() if callable(number) else number
            return Discrete(operator.index(count))
    except Refusal:
        raise
    except (TypeError, ValueError, LookupError, AttributeError, NotImplementedError) as error:
        raise Refusal(
            f"its space of {kind}s does not fit: {error}. `{kind}_space=` gives another"
        ) from error


def _converted(reader: Reader, kind: str, name: str | None, given: Any, types: Any) -> Space:
    if given is not None:
        return _space_of(given, types)
    declared: Any = getattr(reader.env, str(name))
    if not callable(declared) or hasattr(declared, "shape") or hasattr(declared, "n"):
        return _space_of(declared, types)
    call = bind(reader.env, str(name), (*reader.known_params, "agent"))
    if not reader.r.peer_agents or "agent" not in call.roles:
        return _space_of(call(reader.env, reader.given(agent=0)), types)
    return Dict(
        {
            a: _space_of(call(reader.env, reader.given(agent=p)), types and types[a])
            for a, p in zip(reader.r.agents, reader.r.peer_agents, strict=True)
        }
    )


def _space_of(space: Any, types: Any) -> Space:
    """The space of envrax for one of a library, of Gymnasium, or of envrax."""
    if any(cls.__module__.startswith("gymnasium.") for cls in type(space).__mro__):
        space = importlib.import_module("envrax.interop.gymnasium_spaces").from_space(space)
    if not isinstance(space, Space):
        return from_library_space(space, types)
    if types is not None and jax.tree.map(lambda x: x.shape, types) != space.shape:
        raise TypeError(f"observations are {types}, and the space is {space}")
    return space
