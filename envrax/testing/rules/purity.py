"""Rules on `reset` and `step` as pure functions: no leaked tracers, no changes, same results."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from envrax._jax.jaxprs import calls_host, constants
from envrax._jax.types import is_traced
from envrax.testing.attributes import (
    changed_attributes,
    read_attributes,
    traced_attributes,
    without_cached_properties,
)
from envrax.testing.probe import Probe, by_name
from envrax.testing.pytrees import copy_to_edit, edits_of, value_differences
from envrax.testing.rules.base import ON_HOST, Fault, Faults, SkipRule

PURE = "Use only the arguments and the config."


def no_tracer_leaks(probe: Probe) -> Faults:
    """A trace of `reset`, `step` and `action_mask` leaves no traced value behind in an attribute \
or a `cached_property`, nor anywhere that the next trace reads."""
    env = probe.env
    _ = env.observation_space, env.action_space  # `make` reads them before it traces anything
    action, state = probe.actions[0], None

    def reset() -> Any:
        nonlocal state
        program, (_, state) = jax.make_jaxpr(lambda rng: env.reset(rng), return_shape=True)(
            probe.rng
        )
        return program

    def step() -> Any:
        return jax.make_jaxpr(lambda state, action: env.step(state, action))(state, action)

    def action_mask() -> Any:
        return jax.make_jaxpr(lambda state: env.action_mask(state))(state)

    # A call before the trace would fill caches with arrays, and so hide leaks into them.
    with without_cached_properties(env):
        for trace in (reset, step, action_mask):
            read = _leak_read(trace)
            kept = traced_attributes(env)
            if not kept and not read:
                continue
            probe.traced_attributes = set(kept)
            place = next(iter(kept.values()), "")
            got = f"one in {place}" if place else f"one that the next call reads{read}"
            fix = (
                "Keep what changes in the state, as a field of its class; compute tables in "
                "`__init__`."
            )
            yield Fault(f".{trace.__name__}", "no traced value to be kept", got, fix)


def _leak_read(trace: Callable[[], Any]) -> str:
    """Where the value was made that one trace leaves behind and the next one reads; else ""."""
    try:
        trace()
        leaked = [x for x in constants(trace()) if is_traced(x)]
    except Exception:  # other rules report what cannot be traced
        return ""
    if not leaked:
        return ""
    try:
        jax.jit(lambda: leaked[0])()
    except jax.errors.UnexpectedTracerError as error:
        if made := re.search(r"created on line (\S+) \((\S+)\)", str(error)):
            return f", made by {made[2]} at {Path(made[1]).name}"
    return " "


def nothing_is_kept_on_the_host(probe: Probe) -> Faults:
    """`reset` and `step` get no value from an `io_callback`: what the host keeps is not in the \
state, so no call can be repeated. Rules that repeat one are skipped where this one is broken or \
waived. A batch of simulators may keep them there."""
    if probe.changes_host and probe.may_keep_on_host:
        probe.traceable = False
        raise SkipRule(ON_HOST)
    if probe.changes_host:
        got = "an `io_callback`, which calls the host"
        fix = (
            "Keep all that changes in the state, or write a `BatchedEnv` with `traceable = False`. "
            "If the host is meant, waive this rule."
        )
        yield Fault(f".{probe.changes_host}", "all that changes to be in the state", got, fix)


def inputs_are_left_alone(probe: Probe) -> Faults:
    """`reset` and `step` change neither their arguments, nor the config, nor an attribute of the \
environment. Standard containers and dataclasses are searched, other objects are not."""
    steps = probe.uncompiled[:2]
    newest = None if probe.traceable else probe.env.reset(probe.rng)[1]
    for t in steps:
        # A simulator on the host cannot go back to an earlier state.
        before = t.before if probe.traceable else newest
        args = {"state": probe.state_to_pass(before), "action": copy_to_edit(t.action)}
        returned, edited = edits_of(probe.env.step, args)
        newest = returned[1]
        if edited:
            fix = "Return a new state: `state.replace(...)`."
            yield Fault(".step", "the arguments to stay unchanged", edited, fix)
    if not probe.traceable or probe.changes_host:  # attributes may hold a simulator
        return
    calls = {
        "reset": lambda: probe.env.reset(probe.rng),
        "step": lambda: probe.repeat(probe.uncompiled[0]),
    }
    for method, call in calls.items():
        before = read_attributes(probe.env)
        call()
        changed = changed_attributes(before, read_attributes(probe.env))
        # The others are a finding of `no_tracer_leaks` already.
        if names := [name for name in changed if name not in probe.traced_attributes]:
            got = f"a change of {', '.join(f'`{name}`' for name in names)}"
            fix = "Keep what changes in the state: under `jit`, this code runs only in the trace."
            yield Fault(f".{method}", "the environment to stay unchanged", got, fix)


def same_key_same_episode(probe: Probe) -> Faults:
    """The same key and actions give the same episode, bit for bit, whatever was called before."""
    if probe.changes_host:
        raise SkipRule("calls the host, which cannot go back")
    first = by_name(probe.at_reset)
    again = by_name(probe.env.reset(probe.rng))
    for leaf, a, b in value_differences(first, again, exact=True):
        expected = f"the same `{leaf}` from the same key"
        fix = _how_to_be_pure(probe, probe.env.reset, probe.rng)
        yield Fault(".reset", expected, f"{a}, then {b}", fix)
    steps = probe.uncompiled
    if probe.traceable:  # the results depend neither on other episodes nor on the order of calls
        probe.env.reset(probe.other_rng)
        steps = steps[::-1]
    for t in steps:
        again = probe.repeat(t).returned
        for leaf, a, b in value_differences(t.returned, again, exact=True):
            expected = f"the same `{leaf}` from the same state and action"
            fix = _how_to_be_pure(probe, probe.env.step, t.before, t.action)
            yield Fault(".step", expected, f"{a}, then {b}", fix)


def _how_to_be_pure(probe: Probe, function: Callable[..., Any], *args: Any) -> str:
    """The advice for a function whose results differ from call to call."""
    try:
        on_the_host = probe.traceable and calls_host(jax.make_jaxpr(function)(*args))
    except Exception:  # `traces_under_jit` reports it
        on_the_host = False
    if on_the_host:
        return (
            "It calls the host: keep all that changes there in the state, or write a `BatchedEnv` "
            "with `traceable = False`."
        )
    return f"{PURE} Draw with `jax.random`, never with `random` or `numpy.random`."
