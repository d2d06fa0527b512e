# pyright: basic
"""`read`: what an object of any JAX library means, or which argument decides it."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax.interop.peer.common_types import cast_to, types_of
from envrax.interop.protocol.calls import IS_BATCH, Call, Written, bind, roles_of
from envrax.interop.protocol.ends import find_ends
from envrax.interop.protocol.reader import (
    FUNCTIONS,
    Choices,
    Reader,
    Reading,
    has_function,
    name_of,
)
from envrax.interop.protocol.refusal import Refusal
from envrax.interop.protocol.results import (
    ENDS,
    alike,
    describe,
    get,
    is_flag,
    is_info,
    is_number,
    names_in,
    parts_of,
    require_fields,
)
from envrax.interop.protocol.spaces import find_actions, find_mask, find_observations
from envrax.spaces.base import is_mapping

OF_STATE = {
    "obs": "observe observation get_obs",
    "reward": "reward",
    "terminated": "terminal",
    "truncated": "truncate is_truncated",
    "mask": "action_mask get_avail_actions get_legal_moves",
}
"""Functions of a state that give what a step does not return, by role."""


def read(env: Any, params: Any, choices: Choices) -> Reading:
    """
    Read an object by its functions.

    Parameters
    ----------
    env : Any
        The object.
    params : Any
        Its parameters, or changes to its defaults.
    choices : Choices
        What the user decided.

    Raises
    ------
    Refusal
        If it has two readings, or none.
    """
    reading = Reading(env, {"object": name_of(env)})
    try:
        with jax.numpy_dtype_promotion("standard"):
            _read(Reader(reading, params, choices))
    except Refusal as error:
        raise Refusal(
            f"envrax.wrap({name_of(env)}): {error}.\n\nUnderstood so far:\n{reading}\n\n"
            'Or write an adapter of 8 to 15 lines: the page "Writing an adapter".'
        ) from error
    return reading


def _read(reader: Reader) -> None:
    """Fill in the reading, topic by topic."""
    r = reader.r
    require_fields(reader.choices.fields)
    before = _snapshot(reader.env)
    r.reset, reset = _function(reader, "reset", ("key", *reader.known_params))
    r.step, step = _function(reader, "step", ("key", "state", "action", *reader.known_params))
    if "state" not in r.step.roles:
        raise Refusal(f"`{r.step}` takes no state: an environment of JAX is given its state")

    def begun(key: Any) -> Any:
        return r.reset(reader.env, reader.given(key=key))

    at_reset = _of_one_key(reader, begun)
    r.at_reset = parts_of("reset", r.reset.name, at_reset, reset.results, reader.choices.fields)
    r.facts["reset"] = r.written(r.reset, r.at_reset)
    state = get(at_reset, r.at_reset["state"])
    _find_agents(reader, at_reset, state)
    action = find_actions(reader, state)

    def stepped(key: Any, state: Any, action: Any) -> Any:
        return r.step(reader.env, reader.given(key=key, state=state, action=action))

    at_step = reader.trace(stepped, reader.key, state, action)
    r.at_step = parts_of(
        "step", r.step.name, at_step, step.results, reader.choices.fields, r.at_reset
    )
    _find_functions_of_state(reader, state, action)
    r.facts["step"] = r.written(r.step, r.at_step)
    _require_parts(reader, state, at_reset, at_step, action)

    def again(*given: Any) -> Any:
        return begun(given[0]), stepped(*given), stepped(*given)

    _require_no_change(reader, before, lambda: reader.trace(again, reader.key, state, action))
    find_ends(reader, at_step, state, action)
    find_observations(reader, state)
    find_mask(reader)


def _function(reader: Reader, kind: str, known: tuple[str, ...]) -> tuple[Call, Written]:
    """The function for a reset or a step, and what the user wrote of it."""
    given = getattr(reader.choices, kind)
    plain, others = FUNCTIONS[kind]
    if given is not None:
        written = Written.parse(given)
        if not has_function(reader.env, written.name):
            raise Refusal(f"expected `{kind}` to name a function; got {written.name!r}")
    else:
        found = [x for x in plain if has_function(reader.env, x)]
        found = found or [x for x in others if has_function(reader.env, x)]
        if kind == "reset":  # a function that takes a state does something else beside it
            found = [x for x in found if "state" not in roles_of(reader.env, x)] or found
        if len(found) != 1:
            listed = " and ".join(f"`{x}`" for x in found)
            raise Refusal(
                f"two functions for a {kind}, {listed}. `{kind}=` decides: {kind}={found[0]!r}"
                if found
                else f"no function for a {kind}: none of {', '.join((*plain, *others))}. "
                f"{kind}='name' names it"
            )
        written = Written(found[0], None, None)
    if written.arguments is not None:
        return Call(written.name, written.arguments), written
    return bind(reader.env, written.name, known), written


def _find_agents(reader: Reader, at_reset: Any, state: Any) -> None:
    """The agents of a world: those of a dict of observations, or players who take turns."""
    r = reader.r
    agents = getattr(reader.env, "agents", None)
    obs = get(at_reset, r.at_reset["obs"]) if "obs" in r.at_reset else None
    if isinstance(agents, list | tuple) and is_mapping(obs) and {*agents} <= {*obs}:
        r.peer_agents = tuple(agents)
        r.agents = tuple(map(str, agents))
    elif "current_player" in names_in(state) and "reward" in r.at_reset:
        n = get(at_reset, r.at_reset["reward"]).size
        r.agents = tuple(f"player_{i}" for i in range(n)) if n > 1 else ()
        r.in_turn = bool(r.agents)
    who = f"{', '.join(r.agents)}{', in turn' if r.in_turn else ''}"
    r.facts["agents"] = who or "one"


def _find_functions_of_state(reader: Reader, state: Any, action: Any) -> None:
    """Functions of a state for the parts that a step does not return."""
    r = reader.r
    roles = ("key", "state", "action", "next_state", "agent")
    ended = {"done", "terminated", "step_type"} & {*r.at_step}
    is_decided = reader.choices.done or reader.choices.limit not in (None, "none")
    for role, names in OF_STATE.items():
        found = [x for x in names.split() if has_function(reader.env, x)]
        is_known = role in r.at_step or (role == "terminated" and ended)
        if role == "truncated" and "done" in r.at_step and is_decided:
            continue  # the user says what `done` is: a function for truncations does not count
        if role == "obs" and r.in_turn:  # of each player
            r.at_step.pop(role, None)
            r.at_reset.pop(role, None)
            is_known = False
        if is_known or not found:
            continue
        if len(found) > 1:
            listed = " and ".join(f"`{x}`" for x in found)
            raise Refusal(f"two functions for the {role}, {listed}; an adapter decides")
        r.calls[role] = bind(reader.env, found[0], [*roles, *reader.known_params])
        if role == "obs" and r.in_turn and "agent" not in r.calls[role].roles:
            raise Refusal(
                f"`{r.calls[role]}` takes no player, and {len(r.agents)} take turns: what does "
                "one see while another acts? An adapter decides"
            )
        given = {*r.calls[role].roles}
        if role == "reward" and {"state", "action"} <= given and "next_state" not in given:
            raise Refusal(
                f"`{r.calls[role]}` takes one state, and a step has two: the one before it and the "
                "one after. An adapter decides"
            )
        types = _implemented(reader, r.calls[role], state, action)
        if types is None:
            del r.calls[role]
        elif role in ENDS and not is_flag(types):
            raise Refusal(f"`{r.calls[role]}` returns {describe(types)}: not one bool")


def _implemented(reader: Reader, call: Call, state: Any, action: Any) -> Any:
    """The types of a function of a state; None for that of a base class, which raises."""

    def called(key: Any, state: Any, action: Any) -> Any:
        values = reader.given(key=key, state=state, action=action, next_state=state)
        return reader.r.by_player(call, reader.env, values)

    try:
        return reader.trace(called, reader.key, state, action)
    except Refusal as error:
        if isinstance(error.__cause__, NotImplementedError):
            return None
        raise


def _of_one_key(reader: Reader, begun: Callable[..., Any]) -> Any:
    """The types of the results of a reset, which takes one key."""
    try:
        return reader.trace(begun, reader.key)
    except Refusal:
        several = jax.ShapeDtypeStruct((2, *reader.key.shape), reader.key.dtype)
        try:
            reader.trace(begun, several)
        except Refusal:
            several = None
        if several is None:
            raise
        raise Refusal(f"`{reader.r.reset}` takes several keys{IS_BATCH}") from None


def _require_parts(reader: Reader, state: Any, at_reset: Any, at_step: Any, action: Any) -> None:
    """Refuse results that are not what their places say."""
    r = reader.r
    values = {role: get(at_step, path) for role, path in r.at_step.items()}
    advice = "`step=` says what each value is"
    if not alike(state, values["state"]):
        raise Refusal(
            f"`{r.step.name}` returns {describe(at_step)}, where the state of `{r.reset.name}` "
            f"is {describe(state)}. `reset=` and `step=` say what each value is"
        )
    if "obs" in r.at_reset and "obs" in values:
        obs = get(at_reset, r.at_reset["obs"])
        if not alike(obs, values["obs"]):
            raise Refusal(f"observations of {describe(obs)} and {describe(values['obs'])}")
        is_written = reader.choices.in_order or (reader.choices.reset and reader.choices.step)
        are_arrays = not names_in(obs) and not names_in(state) and _is_undeclared(reader, state)
        if (alike(obs, state) or are_arrays) and not is_written and r.at_step["state"]:
            raise Refusal(
                f"two candidates for the state, {describe(at_reset)}. `reset=` and `step=` "
                "decide, as in reset='reset(key) -> obs, state'"
            )
    if "obs" not in {*values, *r.calls}:
        raise Refusal("no observation: `step=` names it, or `fields=`")
    if "obs" in r.at_reset and "obs" not in values:
        raise Refusal(f"`{r.reset.name}` returns an observation, `{r.step.name}` returns none")
    if "current_player" in names_in(state) and jax.numpy.shape(values.get("reward", 0)) == ():
        raise Refusal(
            "players who take turns, by `current_player`, and one number for a reward: whose is "
            "it? An adapter decides, a `TurnEnv`"
        )
    if r.agents and is_mapping(values.get("done")):
        if "__all__" not in values["done"]:
            raise Refusal("no `__all__` among the ends of its agents")
        if r.peer_agents and {*r.peer_agents} <= {*values["done"]}:
            r.at_step["agents_done"] = r.at_step["done"]
        r.at_step["done"] = (*r.at_step["done"], "__all__")
    for role in ("done", "terminated", "truncated"):
        if role not in r.at_step:
            continue
        flag: Any = get(at_step, r.at_step[role])
        is_named = isinstance(r.at_step[role][-1:][0], str) if r.at_step[role] else False
        is_named |= reader.choices.step is not None and "->" in reader.choices.step
        is_read = is_named or (
            role == "done" and is_number(flag) and _is_zero_or_one(reader, action)
        )
        if not (is_flag(flag) or (is_number(flag) and is_read)):
            raise Refusal(
                f"`{role}` is {describe(flag)} at its place in `{r.step.name}`, which returns "
                f"{describe(at_step)}: not one bool. {advice}{IS_BATCH}"
            )
    if not {*ENDS[:4]} & {*values, *r.calls}:
        raise Refusal(
            f"no end of an episode in {describe(at_step)}. `fields=` names it, as in "
            "fields={'terminated': 'is_over', 'truncated': 'timed_out'}"
        )
    if "truncated" in {*values, *r.calls} and not {*ENDS[:2]} & {*values, *r.calls}:
        raise Refusal(
            f"`truncated`, and no other end, in {describe(at_step)}. `fields=` names the other"
        )
    reward: Any = values.get("reward", 0)
    if r.peer_agents and not (is_mapping(reward) and {*r.peer_agents} <= {*reward}):
        raise Refusal(f"the reward is {describe(reward)}: not one for each agent")
    if "reward" not in {*values, *r.calls}:
        raise Refusal(f"no reward in the results of `{r.step.name}`. {advice}")
    if "reward" in values and not r.agents and not is_number(reward):
        raise Refusal(f"the reward is {describe(reward)}: not one number. {advice}")
    if "info" in values and not is_info(values["info"]):
        raise Refusal(f"the info is {describe(values['info'])}: no dict. {advice}")


def _is_zero_or_one(reader: Reader, action: Any) -> bool:
    """Whether the number in the place of `done` is 0 at first, as no discount is, then 0 or 1."""
    r = reader.r
    key = jax.random.PRNGKey(0) if reader.choices.legacy_keys else jax.random.key(0)
    action = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), action)

    def stepped(state: Any, key: Any) -> Any:
        results = r.step(reader.env, reader.given(key=key, state=state, action=action))
        after = get(results, r.at_step["state"])
        return cast_to(types_of(state), after), get(results, r.at_step["done"])

    def episode(keys: Any) -> Any:
        begun = r.reset(reader.env, reader.given(key=keys[0]))
        state = jax.tree.map(jnp.asarray, get(begun, r.at_reset["state"]))
        return jax.lax.scan(stepped, state, keys)[1]

    flags = np.asarray(jax.vmap(episode)(jax.random.split(key, (8, 16))))
    return not flags[:, 0].any() and bool(np.isin(flags, (0, 1)).all())


def _is_undeclared(reader: Reader, state: Any) -> bool:
    """Whether the space of observations leaves open which of two arrays is the observation."""
    declared = getattr(reader.env, "observation_space", None)
    shape = getattr(declared, "shape", None)
    return reader.choices.observation_space is None and shape in (None, getattr(state, "shape", 0))


def _require_no_change(
    reader: Reader, before: dict[str, Any], trace_again: Callable[[], Any]
) -> None:
    """
    Refuse an object that keeps its state itself.

    An attribute that a function sets first may be a cache: it must not change again.
    """
    first = _snapshot(reader.env)
    if first.keys() - before.keys():
        trace_again()
    second = _snapshot(reader.env)
    if changed := [name for name, x in {**first, **before}.items() if second.get(name) != x]:
        raise Refusal(
            f"a stateful object: tracing its functions changed {', '.join(changed)}. What "
            "changes belongs in the state"
        )


def _snapshot(env: Any) -> dict[str, Any]:
    """What an object holds: its attributes, and what is in its lists, dicts, sets and arrays."""
    if isinstance(env, ModuleType):
        return {}
    slots = [x for cls in type(env).__mro__ for x in getattr(cls, "__slots__", ())]
    own = {**{x: getattr(env, x, None) for x in slots}, **getattr(env, "__dict__", {})}

    def held(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return x.tobytes()
        if isinstance(x, np.random.Generator):
            return str(x.bit_generator.state)
        if isinstance(x, bool | int | float | str | np.generic):
            return repr(x)
        if isinstance(x, dict):
            return [(name, held(value)) for name, value in x.items()]
        return [*map(held, x)] if isinstance(x, list | tuple | set) else id(x)

    return {name: held(x) for name, x in own.items()}
