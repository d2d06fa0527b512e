# pyright: basic
"""`read`: what an object of any JAX library means, or which argument decides it."""

import dataclasses
import importlib
import inspect
import operator
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp

from envrax._jax.dependence import begins_anew
from envrax._jax.types import computed_at_once, output_types
from envrax.interop.common_types import types_of
from envrax.interop.containers import as_dicts, copy_containers
from envrax.interop.params import with_changes
from envrax.interop.peer_spaces import box, from_library_space, nested, unbounded
from envrax.interop.protocol import limits
from envrax.interop.protocol.adapter import adapter_of
from envrax.interop.protocol.calls import Call, Written, bind, roles_of
from envrax.interop.protocol.limits import Limit
from envrax.interop.protocol.refusal import Refusal
from envrax.interop.protocol.results import (
    ENDS,
    FIELDS,
    Parts,
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
from envrax.spaces import Dict, Discrete, Space
from envrax.spaces.masks import mask_shape

FUNCTIONS = {
    "reset": (("reset_env",), ("reset", "initial", "init")),
    "step": (("step_env",), ("step", "transition")),
}
"""Names of the two functions: those that never reset by themselves, and the others."""

OF_STATE = {
    "obs": "observe observation get_obs",
    "reward": "reward",
    "terminated": "terminal",
    "truncated": "truncate is_truncated",
    "mask": "action_mask get_avail_actions get_legal_moves",
}
"""Functions of a state that give what a step does not return, by role."""


@dataclasses.dataclass(frozen=True)
class Choices:
    """The keywords of `wrap` that decide a reading; None where the object decides."""

    observation_space: Any = None
    action_space: Any = None
    reset: str | None = None
    step: str | None = None
    fields: dict[str, str] = dataclasses.field(default_factory=dict)
    limit: str | None = None
    done: str | None = None
    resets: bool | None = None
    legacy_keys: bool = False


@dataclasses.dataclass
class Reading:
    """
    What is understood of a library's object. `print` shows it.

    Attributes
    ----------
    env : Any
        The object.
    facts : dict of str
        What is printed, by topic.
    reset, step : Call
        The functions, and the meaning of their arguments.
    at_reset, at_step : dict
        Where each part of their results is.
    calls : dict of Call
        Functions of a state, for parts that the results lack.
    agents : tuple of str
        The agents of a world.
    in_turn : bool
        Whether they act in turn.
    spaces : tuple of Space
        Of observations and actions.
    limit : Limit
        The time limit that ends read.
    reason : str
        What an end is: "two flags", "one flag", "terminated" or "discount".
    """

    env: Any
    facts: dict[str, str]
    reset: Call = dataclasses.field(default_factory=Call)
    step: Call = dataclasses.field(default_factory=Call)
    at_reset: Parts = dataclasses.field(default_factory=dict)
    at_step: Parts = dataclasses.field(default_factory=dict)
    calls: dict[str, Call] = dataclasses.field(default_factory=dict)
    agents: tuple[str, ...] = ()
    peer_agents: tuple[Any, ...] = ()
    in_turn: bool = False
    spaces: tuple[Space, ...] = ()
    limit: Limit = dataclasses.field(default_factory=Limit)
    reason: str = ""
    step_types: tuple[int, ...] = ()

    def begin(self, env: Any, params: Any, key: Any) -> dict[str, Any]:
        """The parts of a reset of an object like `env`."""
        keys = self._keys(key, self.reset, "reward", "terminated", "truncated")
        results = self.reset(env, {"params": params, "key": keys["reset"]})
        return self._parts(env, results, self.at_reset, {"params": params}, keys)

    def advance(self, env: Any, params: Any, state: Any, action: Any, key: Any) -> dict[str, Any]:
        """The parts of a step of an object like `env`."""
        keys = self._keys(key, self.step)
        given = {"params": params, "state": state, "action": action}
        results = self.step(env, {**given, "key": keys["step"]})
        given["next_state"] = get(results, self.at_step["state"])
        return self._parts(env, results, self.at_step, given, keys)

    def _keys(self, key: Any, first: Call, *without: str) -> dict[str, Any]:
        """The key of each function: where one takes a key, that of the step; else parts of it."""
        calls = {"reset": first, "step": first}
        others = {role: call for role, call in self.calls.items() if role not in without}
        takers = [role for role, call in others.items() if "key" in call.roles]
        n = len(takers) + ("key" in first.roles)
        keys = [key] if n < 2 else list(jax.random.split(key, n))
        by_role = dict(zip(reversed(takers), reversed(keys), strict=False))
        return dict.fromkeys(calls, keys[0]) | dict.fromkeys(others) | by_role

    def _parts(self, env: Any, results: Any, at: Parts, given: dict[str, Any], keys: Any) -> Any:
        values = {role: get(results, path) for role, path in at.items()}
        after = values["state"]
        for role, call in self.calls.items():
            if role in keys and role not in values:
                state = given.get("state", after) if "next_state" in call.roles else after
                known = {**given, "state": state, "key": keys[role]}
                values[role] = self.by_player(call, env, known)
        return values

    def by_player(self, call: Call, env: Any, known: dict[str, Any]) -> Any:
        if "agent" not in call.roles:
            return call(env, known)
        return {x: call(env, {**known, "agent": jnp.int32(i)}) for i, x in enumerate(self.agents)}

    def written(self, call: Call, parts: Parts) -> str:
        """A function with its arguments and results."""
        return f"{call} -> {', '.join(parts)}"

    def __str__(self) -> str:
        width = max(map(len, self.facts)) + 2
        return "\n".join(f"{name:{width}}{text}" for name, text in self.facts.items())


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
            _Reader(reading, params, choices).read()
    except Refusal as error:
        raise Refusal(
            f"envrax.wrap({name_of(env)}): {error}.\n\nUnderstood so far:\n{reading}\n\n"
            + adapter_of(reading)
        ) from error
    return reading


class _Reader:
    """Fills in a `Reading`, topic by topic."""

    def __init__(self, reading: Reading, params: Any, choices: Choices) -> None:
        self.r = reading
        self.env = reading.env
        self.choices = choices
        if isinstance(self.env, type):
            raise Refusal("expected an object; got a class. Pass an instance")
        self.params = with_changes("envrax.wrap", default_params(self.env, params), params)
        self.known_params = () if self.params is None else ("params",)
        key = jax.random.PRNGKey(0) if choices.legacy_keys else jax.random.key(0)
        self.key = jax.ShapeDtypeStruct(key.shape, key.dtype)

    def read(self) -> None:
        r = self.r
        require_fields(self.choices.fields)
        before = _snapshot(self.env)
        r.reset, reset = self.function("reset", ("key", *self.known_params))
        r.step, step = self.function("step", ("key", "state", "action", *self.known_params))
        if "state" not in r.step.roles:
            raise Refusal(f"`{r.step}` takes no state: an environment of JAX is given its state")
        at_reset = self.trace(lambda key: r.reset(self.env, self.given(key=key)), self.key)
        r.at_reset = parts_of("reset", r.reset.name, at_reset, reset.results, self.choices.fields)
        r.facts["reset"] = r.written(r.reset, r.at_reset)
        state = get(at_reset, r.at_reset["state"])
        self.find_agents(at_reset, state)
        action = self.find_actions(state)

        def stepped(key: Any, state: Any, action: Any) -> Any:
            return r.step(self.env, self.given(key=key, state=state, action=action))

        at_step = self.trace(stepped, self.key, state, action)
        r.at_step = parts_of(
            "step", r.step.name, at_step, step.results, self.choices.fields, r.at_reset
        )
        self.find_functions_of_state(state, action)
        r.facts["step"] = r.written(r.step, r.at_step)
        self.require_parts(state, at_reset, at_step)
        self.require_no_change(before)
        self.find_ends(at_step, state, action)
        self.find_observations(state)
        self.find_mask()

    def given(self, **values: Any) -> dict[str, Any]:
        return {"params": self.params, **values}

    def trace(self, function: Callable[..., Any], *types: Any) -> Any:
        """The types of the results of functions of the object."""
        return self.program(function, *types)[1]

    def program(self, function: Callable[..., Any], *types: Any) -> tuple[Any, Any]:
        """The program of functions of the object, and the types of its results."""
        try:
            return jax.make_jaxpr(function, return_shape=True)(*types)
        except Exception as error:
            what = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:200]}"
            raise Refusal(
                f"its functions cannot be traced as understood: {what.rstrip('.: ')}. Where the "
                "order of results or arguments is another, `reset=` and `step=` give it; where it "
                "takes legacy keys only, legacy_keys=True"
            ) from error

    def function(self, kind: str, known: tuple[str, ...]) -> tuple[Call, Written]:
        """The function for a reset or a step, and what the user wrote of it."""
        given = getattr(self.choices, kind)
        plain, others = FUNCTIONS[kind]
        if given is not None:
            written = Written.parse(given)
            if not has_function(self.env, written.name):
                raise Refusal(f"expected `{kind}` to name a function; got {written.name!r}")
        else:
            found = [x for x in plain if has_function(self.env, x)]
            found = found or [x for x in others if has_function(self.env, x)]
            if kind == "reset":  # a function that takes a state does something else beside it
                found = [x for x in found if "state" not in roles_of(self.env, x)] or found
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
        return bind(self.env, written.name, known), written

    def find_agents(self, at_reset: Any, state: Any) -> None:
        """The agents of a world: those of a dict of observations, or players who take turns."""
        r = self.r
        agents = getattr(self.env, "agents", None)
        obs = get(at_reset, r.at_reset["obs"]) if "obs" in r.at_reset else None
        if isinstance(agents, list | tuple) and isinstance(obs, dict) and {*agents} <= {*obs}:
            r.peer_agents = tuple(agents)
            r.agents = tuple(map(str, agents))
        elif "current_player" in names_in(state) and "reward" in r.at_reset:
            n = get(at_reset, r.at_reset["reward"]).size
            r.agents = tuple(f"player_{i}" for i in range(n)) if n > 1 else ()
            r.in_turn = bool(r.agents)
        who = f"{', '.join(r.agents)}{', in turn' if r.in_turn else ''}"
        r.facts["agents"] = who or "one"

    def find_functions_of_state(self, state: Any, action: Any) -> None:
        """Functions of a state for the parts that a step does not return."""
        r = self.r
        roles = ("key", "state", "action", "next_state", "agent")
        ended = {"done", "terminated", "step_type"} & {*r.at_step}
        is_decided = self.choices.done or self.choices.limit not in (None, "none")
        for role, names in OF_STATE.items():
            found = [x for x in names.split() if has_function(self.env, x)]
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
            r.calls[role] = bind(self.env, found[0], [*roles, *self.known_params])
            if role == "obs" and r.in_turn and "agent" not in r.calls[role].roles:
                raise Refusal(
                    f"`{r.calls[role]}` takes no player, and {len(r.agents)} take turns: what does "
                    "one see while another acts? An adapter decides"
                )
            types = self.implemented(r.calls[role], state, action)
            if types is None:
                del r.calls[role]
            elif role in ENDS and not is_flag(types):
                raise Refusal(f"`{r.calls[role]}` returns {describe(types)}: not one bool")

    def implemented(self, call: Call, state: Any, action: Any) -> Any:
        """The types of a function of a state; None for that of a base class, which raises."""

        def called(key: Any, state: Any, action: Any) -> Any:
            values = self.given(key=key, state=state, action=action, next_state=state)
            return self.r.by_player(call, self.env, values)

        try:
            return self.trace(called, self.key, state, action)
        except Refusal as error:
            if isinstance(error.__cause__, NotImplementedError):
                return None
            raise

    def find_actions(self, state: Any) -> Any:
        """The space of actions; and the types of an action as the object takes it."""
        r = self.r
        space = self.space("action", None)
        if space is None and "pipeline_state" in names_in(state):  # Brax
            size = int(self.env.action_size)
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

    def space(self, kind: str, types: Any) -> Space | None:
        """A space that the user gave, or that the object declares."""
        given = getattr(self.choices, f"{kind}_space")
        names = (f"{kind}_space", f"{kind}_spec")
        name = next((x for x in names if getattr(self.env, x, None) is not None), None)
        try:
            with computed_at_once():
                if given is not None or name is not None:
                    return self.converted_space(kind, name, given, types)
                number: Any = getattr(self.env, "num_actions", None)
                if kind == "observation" or number is None:
                    return None
                count: Any = number() if callable(number) else number
                return Discrete(operator.index(count))
        except Refusal:
            raise
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise Refusal(
                f"its space of {kind}s does not fit: {error}. `{kind}_space=` gives another"
            ) from error

    def converted_space(self, kind: str, name: str | None, given: Any, types: Any) -> Space:
        if given is not None:
            return _space_of(given, types)
        declared: Any = getattr(self.env, str(name))
        if not callable(declared) or hasattr(declared, "shape") or hasattr(declared, "n"):
            return _space_of(declared, types)
        call = bind(self.env, str(name), (*self.known_params, "agent"))
        if not self.r.peer_agents or "agent" not in call.roles:
            return _space_of(call(self.env, self.given(agent=0)), types)
        return Dict(
            {
                a: _space_of(call(self.env, self.given(agent=p)), types and types[a])
                for a, p in zip(self.r.agents, self.r.peer_agents, strict=True)
            }
        )

    def is_undeclared(self, state: Any) -> bool:
        """Whether the space of observations leaves open which of two arrays is the observation."""
        declared = getattr(self.env, "observation_space", None)
        shape = getattr(declared, "shape", None)
        return self.choices.observation_space is None and shape in (
            None,
            getattr(state, "shape", 0),
        )

    def require_parts(self, state: Any, at_reset: Any, at_step: Any) -> None:
        """Refuse results that are not what their places say."""
        r = self.r
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
            is_written = self.choices.reset and self.choices.step
            are_arrays = not names_in(obs) and not names_in(state) and self.is_undeclared(state)
            if (alike(obs, state) or are_arrays) and not is_written and r.at_step["state"]:
                raise Refusal(
                    f"two candidates for the state, {describe(at_reset)}. `reset=` and `step=` "
                    "decide, as in reset='reset(key) -> obs, state'"
                )
        if "obs" not in {*values, *r.calls}:
            raise Refusal("no observation: `step=` names it, or `fields=`")
        if "obs" in r.at_reset and "obs" not in values:
            raise Refusal(f"`{r.reset.name}` returns an observation, `{r.step.name}` returns none")
        if r.agents and "done" in values and isinstance(values["done"], dict):
            if "__all__" not in values["done"]:
                raise Refusal("no `__all__` among the ends of its agents")
            r.at_step["agents_done"] = r.at_step["done"]
            r.at_step["done"] = (*r.at_step["done"], "__all__")
        for role in ("done", "terminated", "truncated"):
            if role not in r.at_step:
                continue
            flag: Any = get(at_step, r.at_step[role])
            is_field = isinstance(r.at_step[role][-1:][0], str) if r.at_step[role] else False
            if not (is_flag(flag) or (is_field and is_number(flag))):
                raise Refusal(
                    f"`{role}` is {describe(flag)} at its place in `{r.step.name}`, which returns "
                    f"{describe(at_step)}: not one bool. {advice}; an environment is one, and no "
                    "batch"
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
        if r.peer_agents and not (isinstance(reward, dict) and {*r.peer_agents} <= {*reward}):
            raise Refusal(f"the reward is {describe(reward)}: not one for each agent")
        if "reward" not in {*values, *r.calls}:
            raise Refusal(f"no reward in the results of `{r.step.name}`. {advice}")
        if "reward" in values and not r.agents and not is_number(reward):
            raise Refusal(f"the reward is {describe(reward)}: not one number. {advice}")
        if "info" in values and not is_info(values["info"]):
            raise Refusal(f"the info is {describe(values['info'])}: no dict. {advice}")

    def require_no_change(self, before: dict[str, Any]) -> None:
        """Refuse an object that keeps its state itself."""
        after = _snapshot(self.env)
        if changed := [name for name, x in before.items() if after.get(name) != x]:
            raise Refusal(
                f"a stateful object: tracing its functions changed {', '.join(changed)}. What "
                "changes belongs in the state"
            )

    def find_ends(self, at_step: Any, state: Any, action: Any) -> None:
        """What tells a termination from a truncation, and whether a step resets itself."""
        r = self.r
        if self.choices.done not in (None, "terminated"):
            raise Refusal(f"expected `done` to be 'terminated'; got {self.choices.done!r}")
        if "step_type" in r.at_step:
            owner = type(get(at_step, r.at_step["step_type"][:-1]))
            r.step_types = _step_types(owner)

        def ends(env: Any, params: Any, *roles: str) -> Any:
            def after(key: Any, state: Any, action: Any) -> Any:
                parts = r.advance(env, params, copy_containers(state), action, key)
                others = [jax.tree.leaves(parts[x]) for x in roles]
                return [parts[x] for x in ENDS if x in parts], others

            return self.program(after, self.key, state, action)[0]

        self.require_no_reset(ends(self.env, self.params, "state"), state)
        flags = {*r.at_step, *r.calls} & {*ENDS}
        if r.at_step.get("terminated") == (3,) and self.choices.step is None:

            def first(env: Any, params: Any) -> Any:
                def flag(key: Any, state: Any, action: Any) -> Any:
                    return r.advance(env, params, copy_containers(state), action, key)["terminated"]

                return self.program(flag, self.key, state, action)[0]

            found = limits.declared(self.env, self.params)
            if any(limits.is_read(first, self.env, self.params, x) for x in found):
                raise Refusal(
                    f"the first of two flags of `{r.step.name}` counts the time limit. `step=` "
                    "says what they are, of done, terminated, truncated, and other names"
                )
        if flags >= {"done", "truncated"} and "truncated" in r.calls:
            # Code written before gymnax 1.0 counts the limit in `done`, and inherits the other.
            call = r.calls.pop("truncated")
            r.limit = limits.choose(ends, self.env, self.params, self.choices.limit)
            r.calls["truncated"] = call
            if r.limit.place:
                flags -= {"truncated"}
            else:
                r.at_step["terminated"] = r.at_step.pop("done")
        if not r.limit.place and self.is_explained(flags):
            found = limits.declared(self.env, self.params)
            found = [x for x in found if limits.is_read(ends, self.env, self.params, x)]
            r.limit = found[0] if len(found) == 1 else Limit()
        elif not r.limit.place:
            r.limit = limits.choose(ends, self.env, self.params, self.choices.limit)
        if r.calls:
            r.facts["beside"] = "; ".join(f"{role}: {call}" for role, call in r.calls.items())
        self.explain(flags, state)
        r.facts["limit"] = str(r.limit)

    def is_explained(self, flags: set[str]) -> bool:
        two = "truncated" in flags or len(self.r.step_types) == 2
        return two and self.choices.limit is None

    def explain(self, flags: set[str], state: Any) -> None:
        """The reason of an end."""
        r = self.r
        counted = f", and at `{r.limit.place}` a truncation" if r.limit.place else ""
        if self.is_explained(flags):
            r.reason, text = "two flags", "its own two flags"
            if len(r.step_types) == 2:
                text = "`step_type`"
        elif "discount" in flags and r.step_types:
            r.reason = "discount"
            text = f"`discount` at the last step: a termination where it is 0{counted}"
        elif "terminated" in flags or self.choices.done or "pipeline_state" in names_in(state):
            r.reason, text = "terminated", f"every end is a termination{counted}"
        else:
            r.reason = "one flag"
            text = "one flag; an end that the limit makes is a truncation"
            if not r.limit.place:
                text = "one flag, and no limit is known"
        r.facts["ends"] = text

    def require_no_reset(self, program: Any, state: Any) -> None:
        """Refuse a step whose end decides its state."""
        r = self.r
        if self.choices.resets is not None:
            r.facts["resets"] = f"`{r.step.name}` does not, by `resets=`"
            if self.choices.resets:
                raise Refusal(f"`{r.step.name}` resets itself: `step=` names another function")
            return
        known = {str(path[-1]) for role, path in r.at_step.items() if role in FIELDS and path}
        n_flags = len(program.out_avals) - len(jax.tree.leaves(state))
        paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(state)]
        decided = begins_anew(program, n_flags, 1)
        anew = [path for path, x in zip(paths, decided, strict=True) if x]
        if not r.at_step["state"]:  # a state that is a time step has these parts of it
            anew = [x for x in anew if jax.tree_util.keystr(x[:1], simple=True) not in known]
        names = [*map(jax.tree_util.keystr, anew)]
        if names:
            others = [x for x in FUNCTIONS["step"][0] if hasattr(self.env, x) and x != r.step.name]
            beside = f"; step={others[0]!r} takes the function beside it" if others else ""
            raise Refusal(
                f"`{r.step.name}` may reset itself: its end begins anew "
                f"{', '.join(names[:4])}. `resets=` decides: resets=False says that it never "
                f"begins an episode{beside}"
            )
        r.facts["resets"] = f"`{r.step.name}` does not: its end begins nothing anew in its state"

    def find_observations(self, state: Any) -> None:
        r = self.r
        obs = self.trace(lambda key: r.begin(self.env, self.params, key)["obs"], self.key)
        types = types_of(as_dicts(obs))
        if r.agents:
            names = r.agents if r.in_turn else map(str, r.peer_agents)
            types = {a: types[p] for a, p in zip(r.agents, names, strict=True)}
        one = types[r.agents[0]] if r.in_turn else types
        space = self.space("observation", one)
        text = ""
        if space is None:
            space, text = nested(unbounded, one), ", since it declares none"
        if r.in_turn:
            space = Dict(dict.fromkeys(r.agents, space))
        r.spaces = (space, *r.spaces)
        r.facts["observations"] = f"{space}{text}"

    def find_mask(self) -> None:
        """The mask of actions, where it has the form of their space."""
        r = self.r
        if "mask" not in {*r.at_reset, *r.calls}:
            return
        mask = self.trace(lambda key: r.begin(self.env, self.params, key)["mask"], self.key)
        space: Any = r.spaces[1]
        space = space[r.agents[0]] if r.agents else space
        masks = [*(mask if isinstance(mask, dict) else {"": mask}).values()]
        if all(getattr(x, "shape", None) == mask_shape(space) and x.dtype == bool for x in masks):
            r.facts["mask"] = "of legal actions"
            return
        r.facts["mask"] = f"none: {describe(mask)} is no mask for its actions, in bools"
        for parts in (r.at_reset, r.at_step, r.calls):
            parts.pop("mask", None)


def _space_of(space: Any, types: Any) -> Space:
    """The space of envrax for one of a library, of Gymnasium, or of envrax."""
    if any(cls.__module__.startswith("gymnasium.") for cls in type(space).__mro__):
        space = importlib.import_module("envrax.interop.gymnasium_spaces").from_space(space)
    if not isinstance(space, Space):
        return from_library_space(space, types)
    if types is not None and jax.tree.map(lambda x: x.shape, types) != space.shape:
        raise TypeError(f"observations are {types}, and the space is {space}")
    return space


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


def _snapshot(env: Any) -> dict[str, Any]:
    """What an object holds: its attributes, and what lies in its lists, dicts and sets."""
    if isinstance(env, ModuleType):
        return {}
    slots = [x for cls in type(env).__mro__ for x in getattr(cls, "__slots__", ())]
    own = {**{x: getattr(env, x, None) for x in slots}, **getattr(env, "__dict__", {})}

    def held(x: Any) -> Any:
        if isinstance(x, dict):
            return [(name, id(value)) for name, value in x.items()]
        return [*map(id, x)] if isinstance(x, list | set) else id(x)

    return {name: held(x) for name, x in own.items()}


def has_function(env: Any, name: str) -> bool:
    """Whether an object has a function itself: a wrapper may forward those of what it wraps."""
    missing = object()
    is_own = inspect.getattr_static(env, name, missing) is not missing
    return is_own and callable(getattr(env, name))


def name_of(env: Any) -> str:
    """The name of an object, or of its class."""
    if isinstance(env, ModuleType | type):
        return env.__name__
    module, name = type(env).__module__, type(env).__qualname__
    return name if module in ("__main__", "builtins", "types") else f"{module}.{name}"


def default_params(env: Any, params: Any) -> Any:
    """The parameters that an object has by default; else those that the user gave."""
    declared = getattr(env, "default_params", None)
    if declared is not None:
        is_function = isinstance(declared, type) or not names_in(declared)
        return declared() if callable(declared) and is_function else declared
    function = getattr(env, "get_default_params", None)
    return function() if callable(function) else params
