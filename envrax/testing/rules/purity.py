"""Rules on `reset` and `step` as pure functions: same results, no edits, no leaked tracers."""

import re
from collections.abc import Callable
from typing import Any, cast

import jax
import numpy as np
from jax.core import Tracer

from envrax.testing.attributes import (
    as_first_built,
    changed_attributes,
    read_attributes,
    whole_stack,
)
from envrax.testing.probe import Probe, by_name
from envrax.testing.rules.base import Fault, Faults
from envrax.testing.trees import copy_containers, leaves, value_differences

PURE = "Use only the arguments and the config."


def no_tracer_leaks(probe: Probe) -> Faults:
    """No traced value is kept after a trace, for example in a `cached_property`. The first call \
of `reset`, `step` and `action_mask` is traced here, as in `make`."""
    env = probe.env
    _ = env.observation_space, env.action_space  # `make` reads them before it traces anything
    action, state = probe.actions[0], None

    def reset() -> None:
        nonlocal state
        _, state = jax.eval_shape(lambda rng: env.reset(rng), probe.rng)

    def step() -> None:
        jax.eval_shape(lambda state, action: env.step(state, action), state, action)

    def action_mask() -> None:
        jax.eval_shape(lambda state: env.action_mask(state), state)

    # An uncompiled call would fill caches with arrays, and hide tracers that leak into them.
    with as_first_built(env):
        for trace in (reset, step, action_mask):
            error = _leak(trace)
            if error is not None:
                got = _holder(env, error)
                where = f"{probe.class_name}.{trace.__name__}"
                fix = "Compute tables in `__init__`; keep no traced value in an attribute or list."
                yield Fault(where, "no traced value to be kept", got, fix)
                return


def _leak(trace: Callable[[], None]) -> Exception | None:
    """The error that JAX raises if a trace leaks a value; None if it does not."""
    try:
        with jax.checking_leaks():
            trace()
        return None
    except Exception as error:
        found = error
    try:  # JAX has no class for this error: it is one if the trace works when leaks are allowed
        trace()
    except jax.errors.UnexpectedTracerError:
        return found
    except Exception:  # other rules report what cannot be traced
        return None
    return found


def _holder(env: Any, error: Exception) -> str:
    for layer in whole_stack(env):
        for owner in (layer, *type(layer).__mro__):
            for name, value in cast(dict[str, Any], vars(owner)).items():
                if any(isinstance(x, Tracer) for x in jax.tree.leaves(value)):
                    return f"one in `{name}`"
    holders = re.findall(r"is referred to by (.*)", str(error))
    return f"one in {re.sub(r' ?[0-9]{6,}', '', holders[0])}" if holders else "one"


def inputs_are_left_alone(probe: Probe) -> Faults:
    """`reset` and `step` edit no argument, not the config, and no attribute of the environment."""
    steps = probe.uncompiled[:2]
    newest = None if probe.traceable else probe.env.reset(probe.rng)[1]
    for t in steps:
        before = t.before if probe.traceable else newest  # a simulator on the host cannot go back
        state = probe.state_to_pass(before)
        action = copy_containers(t.action)
        given = {**leaves(state, "state"), **leaves(action, "action")}
        copies = copy_containers(given)
        newest = probe.env.step(state, action)[1]
        after = {**leaves(state, "state"), **leaves(action, "action")}
        edited = [k for k in dict.fromkeys([*given, *after]) if given.get(k) is not after.get(k)]
        edited += [k for k, x in given.items() if _was_edited(x, copies[k])]
        if edited:
            names = ", ".join(f"`{name}`" for name in dict.fromkeys(edited))
            fix = "Return a new state: `state.replace(...)`."
            where = f"{probe.class_name}.step"
            yield Fault(where, "the arguments to stay as they are", f"an edit of {names}", fix)
            return
    if not probe.traceable:  # an environment on the host may keep its state in attributes
        return
    calls = {
        "reset": lambda: probe.env.reset(probe.rng),
        "step": lambda: probe.repeat(probe.uncompiled[0]),
    }
    for method, call in calls.items():
        before = read_attributes(probe.env)
        call()
        if names := changed_attributes(before, read_attributes(probe.env)):
            got = f"a change of {', '.join(f'`{name}`' for name in names)}"
            fix = (
                "Keep what changes in the state: compiled, this code runs only while it is traced."
            )
            where = f"{probe.class_name}.{method}"
            yield Fault(where, "the environment to stay as it is", got, fix)
            return


def _was_edited(x: Any, copy: Any) -> bool:
    return isinstance(x, np.ndarray) and not np.array_equal(x, copy)


def same_key_same_episode(probe: Probe) -> Faults:
    """The same key and actions give the same episode, to the bit."""
    fix = f"{PURE} Draw with `jax.random`, never with `random` or `numpy.random`."
    first = by_name(probe.at_reset)
    again = by_name(probe.env.reset(probe.rng))
    for leaf, a, b in value_differences(first, again, exact=True):
        expected = f"the same `{leaf}` from the same key"
        yield Fault(f"{probe.class_name}.reset", expected, f"{a}, then {b}", fix)
        return
    for t in probe.uncompiled:
        again = probe.repeat(t).returned
        for leaf, a, b in value_differences(t.returned, again, exact=True):
            expected = f"the same `{leaf}` from the same state and action"
            yield Fault(f"{probe.class_name}.step", expected, f"{a}, then {b}", fix)
            return
