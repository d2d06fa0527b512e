"""Rules on how `reset` and `step` behave as pure functions, and under transformations."""

import re
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._value import take_snapshot
from envrax.testing.probe import Probe, named
from envrax.testing.rules import Fault, Faults, SkipRule, raised
from envrax.testing.trees import any_differences, is_key, leaves, lent, rows, stack

PURE = "Take all that matters from the arguments and the config."


def inputs_are_left_alone(probe: Probe) -> Faults:
    """Neither call edits its state, action, config or the environment's attributes."""
    for t in probe.plain[:2]:
        where, state, action = f"{probe.who}.step", probe.lend(t.before), lent(t.action)
        given = {**leaves(state, "state"), **leaves(action, "action")}
        copies = lent(given)
        probe.env.step(state, action)
        after = {**leaves(state, "state"), **leaves(action, "action")}
        edited = [k for k in dict.fromkeys([*given, *after]) if given.get(k) is not after.get(k)]
        edited += [k for k, x in given.items() if _was_edited(x, copies[k])]
        if edited:
            names = ", ".join(f"`{name}`" for name in dict.fromkeys(edited))
            fix = "Build a new one: `state.replace(...)`."
            yield Fault(where, "what it is given to stay as it is", f"an edit of {names}", fix)
            return
    if not probe.traceable:  # what works on the host keeps count of its episodes
        return
    before = take_snapshot(probe.env)
    calls = {
        "reset": lambda: probe.env.reset(probe.rng),
        "step": lambda: probe.again(probe.plain[0]),
    }
    for method, call in calls.items():
        attributes = _attributes(probe.env)
        call()
        after = take_snapshot(probe.env)
        if before is not None and (after is None or after.value != before.value):
            names = [f"`{k}`" for k, v in _attributes(probe.env).items() if attributes.get(k) != v]
            got = f"another {' and '.join(names)}" if names else "another value of it"
            fix = "Keep what changes in the state: under `jit` such code runs once, while tracing."
            yield Fault(f"{probe.who}.{method}", "the environment to stay as it is", got, fix)
            return


def _was_edited(x: Any, copy: Any) -> bool:
    return isinstance(x, np.ndarray) and not np.array_equal(x, copy)


def _attributes(env: Any) -> dict[str, Any]:
    """Of each attribute something that can be compared."""
    values: dict[str, Any] = {}
    for name, value in cast(dict[str, Any], vars(env)).items():
        snapshot = take_snapshot(value)
        values[name] = snapshot and snapshot.value
    return values


def traces_under_jit(probe: Probe) -> Faults:
    """`reset` and `step` can be compiled."""
    calls = {
        "reset": lambda: probe.reset(probe.rng),
        "step": lambda: probe.step(probe.lend(probe.plain[0].before), probe.actions[0]),
    }
    for method, call in calls.items():
        try:
            call()
        except Exception as error:
            fix = "Use `jnp.where` or `jax.lax.cond` for `if`, `jnp` for `np`, arrays for strings."
            yield raised(f"{probe.who}.{method}", "it to work under `jax.jit`", error, fix)
            return
    probe.traced = True


def no_tracer_leaks(probe: Probe) -> Faults:
    """Nothing of a trace outlives it."""
    calls = {"reset": (probe.env.reset, probe.rng), "step": (probe.env.step, *probe.plain[0][:2])}
    for method, (function, *args) in calls.items():
        try:
            with jax.checking_leaks():
                jax.eval_shape(lambda *args, f=function: f(*args), *args)
        except Exception as error:
            holders = re.findall(r"is referred to by (.*)", str(error))
            got = (
                f"one, held by {re.sub(r' ?[0-9]{6,}', '', holders[0])}" if holders else str(error)
            )
            fix = "Return what is computed; keep it in no attribute, list or cache."
            yield Fault(f"{probe.who}.{method}", "no traced value to outlive it", got, fix)
            return


def jit_agrees(probe: Probe) -> Faults:
    """Compiled, both give what they give uncompiled; floats up to rounding."""
    plain = named(probe.begun)
    ours = named(probe.reset(probe.rng))
    yield from disagreements(f"{probe.who}.reset", "jit", plain, ours)
    for t in probe.plain:
        ours = named(probe.step(probe.lend(t.before), t.action))
        yield from disagreements(f"{probe.who}.step", "jit", t.returned, ours)


def vmap_agrees(probe: Probe) -> Faults:
    """Under `vmap`, both give what they give one by one; floats up to rounding."""
    pair = probe.plain[0], probe.plain[0]
    rngs = stack([probe.rng, probe.other_rng])
    states, actions = (stack([t[i] for t in pair]) for i in (0, 1))
    reset, step = probe.env.reset, probe.env.step
    try:
        both = jax.jit(lambda r, s, a: (jax.vmap(reset)(r), jax.vmap(step)(s, a)))
        begun, stepped = rows(both(rngs, states, actions), 0)
    except Exception as error:
        fix = "Use operations that JAX can batch; a callback wants its `vmap_method`."
        yield raised(f"{probe.who}.step", "it to work under `jax.vmap`", error, fix)
        return
    plain = named(probe.begun)
    ours = named(begun)
    yield from disagreements(f"{probe.who}.reset", "vmap", plain, ours)
    yield from disagreements(f"{probe.who}.step", "vmap", pair[0].returned, named(stepped))


def scan_agrees(probe: Probe) -> Faults:
    """`jax.lax.scan` over `step` gives what a Python loop gives; floats up to rounding."""
    steps = probe.first_episode

    def body(state: Any, action: Any) -> tuple[Any, Any]:
        out = probe.env.step(state, action)
        return out[1], out

    try:
        _, out = jax.lax.scan(body, steps[0].before, stack([t.action for t in steps]))
    except Exception as error:
        fix = "Return a state of one structure, shapes, dtypes and weak types."
        yield raised(f"{probe.who}.step", "it to work under `jax.lax.scan`", error, fix)
        return
    for i, t in enumerate(steps):
        ours = named(rows(out, i))
        yield from disagreements(f"{probe.who}.step", "scan", t.returned, ours)


def disagreements(where: str, transform: str, plain: Any, ours: Any) -> Faults:
    """What a transformation changes."""
    for leaf, a, b in any_differences(plain, ours):
        got = f"{b} under `{transform}`"
        yield Fault(
            where,
            f"`{leaf}` as in a plain call, {a}",
            got,
            f"{PURE} Do not ask whether it is traced.",
        )
        return


def compiles_once(probe: Probe) -> Faults:
    """A whole episode, next resets among it, needs one program for `reset` and one for `step`."""
    _ = probe.episode
    for method, counted in (("reset", probe.reset), ("step", probe.step)):
        if counted.traces > 1:
            fix = "Keep static fields and Python objects in the state the same from step to step."
            where = f"{probe.who}.{method}"
            yield Fault(where, "one compilation", f"{counted.traces}", fix)


def gradients_are_finite(probe: Probe) -> Faults:
    """If asked for: the reward can be differentiated by the floats of state and action, with a \
finite result."""
    if not probe.gradients:
        raise SkipRule("ask for it with `gradients=True`")
    t, where = probe.plain[0], f"{probe.who}.step"
    inputs = t.before, t.action
    flat: list[Any] = jax.tree.leaves(inputs)
    at = [i for i, x in enumerate(flat) if _is_float(x)]

    def reward(floats: list[Any]) -> Any:
        filled = dict(enumerate(flat)) | dict(zip(at, floats, strict=True))
        state, action = jax.tree.unflatten(jax.tree.structure(inputs), filled.values())
        returned = probe.env.step(state, action)
        return sum(jnp.sum(x) for x in jax.tree.leaves(returned[2]))

    try:
        gradients: list[Any] = cast(Any, jax.jit(jax.grad(reward)))([flat[i] for i in at])
    except Exception as error:
        fix = "Use operations that JAX can differentiate, `jax.lax.scan` for a `while_loop`."
        yield raised(where, "a reward that can be differentiated", error, fix)
        return
    paths = [*leaves(t.before, "state"), *leaves(t.action, "action")]
    for i, gradient in zip(at, gradients, strict=True):
        if not np.isfinite(np.asarray(gradient, np.float64)).all():
            fix = "Guard roots, divisions and logarithms at zero, on both sides of a `where`."
            yield Fault(
                where, f"a finite gradient of the reward by `{paths[i]}`", str(gradient), fix
            )


def _is_float(x: Any) -> bool:
    return not is_key(x) and jnp.issubdtype(jnp.result_type(x), jnp.floating)
