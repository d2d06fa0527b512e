# pyright: basic
"""What is understood of a library's object so far, and the tools to find out more."""

import dataclasses
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp

from envrax.interop.peer.containers import as_dicts
from envrax.interop.peer.params import with_changes
from envrax.interop.protocol.calls import Call
from envrax.interop.protocol.limits import Limit
from envrax.interop.protocol.refusal import Refusal
from envrax.interop.protocol.results import Parts, get, names_in
from envrax.spaces import Space

FUNCTIONS = {
    "reset": (("reset_env",), ("reset", "initial", "init")),
    "step": (("step_env",), ("step", "transition")),
}
"""Names of the two functions: those that never reset by themselves, and the others."""


@dataclasses.dataclass(frozen=True)
class Choices:
    """What decides a reading, by the keywords of `wrap`; None where the object decides."""

    observation_space: Any = None
    action_space: Any = None
    reset: str | None = None
    step: str | None = None
    fields: dict[str, str] = dataclasses.field(default_factory=dict)
    limit: str | None = None
    done: str | None = None
    resets: bool | None = None
    legacy_keys: bool = False
    in_order: bool = False  # obs, state, reward, ..., as in gymnax


@dataclasses.dataclass
class Reading:
    """
    What is understood of a library's object. `print` shows it.

    Attributes
    ----------
    env : Any
        The object.
    params : Any
        Its parameters.
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
    programs : callable
        `programs(env, params)`: the programs of such an object; see `counting`.
    """

    env: Any
    facts: dict[str, str]
    params: Any = None
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
    programs: Any = None

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

    def by_agent(self, tree: Any) -> Any:
        """A tree in dicts and tuples; that of a world by the names of its agents."""
        tree = as_dicts(tree)
        names = zip(self.agents, self.peer_agents, strict=False)
        return {a: tree[str(p)] for a, p in names} or tree

    def written(self, call: Call, parts: Parts) -> str:
        """A function with its arguments and results."""
        return f"{call} -> {', '.join(parts)}"

    def __str__(self) -> str:
        width = max(map(len, self.facts)) + 2
        return "\n".join(f"{name:{width}}{text}" for name, text in self.facts.items())


class Reader:
    """
    Fills in a `Reading`.

    Attributes
    ----------
    r : Reading
        What is understood so far.
    env, params : Any
        The object and its parameters.
    choices : Choices
        What the user decided.
    key : jax.ShapeDtypeStruct
        The type of a key.
    """

    def __init__(self, reading: Reading, params: Any, choices: Choices) -> None:
        self.r = reading
        self.env = reading.env
        self.choices = choices
        if isinstance(self.env, type):
            raise Refusal("expected an object; got a class. Pass an instance")
        self.params = with_changes("envrax.wrap", default_params(self.env, params), params)
        reading.params = self.params
        self.known_params = () if self.params is None else ("params",)
        key = jax.random.PRNGKey(0) if choices.legacy_keys else jax.random.key(0)
        self.key = jax.ShapeDtypeStruct(key.shape, key.dtype)

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
    """The parameters that an object has by default; else those that the user gave, whole."""
    names = ("default_params", "get_default_params")
    declared = next((x for name in names if (x := getattr(env, name, None)) is not None), None)
    if declared is None or not (params is None or isinstance(params, dict)):
        return params
    is_function = isinstance(declared, type) or not names_in(declared)
    if not (callable(declared) and is_function):
        return declared
    required = [x.name for x in inspect.signature(declared).parameters.values() if _is_required(x)]
    if required and params is None:
        raise Refusal(
            f"its default parameters take arguments, {', '.join(required)}. `params` gives the "
            "parameters"
        )
    return params if required else declared()


def _is_required(x: inspect.Parameter) -> bool:
    return x.default is x.empty and x.kind not in (x.VAR_POSITIONAL, x.VAR_KEYWORD)
