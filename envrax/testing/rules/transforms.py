"""Rules on `reset` and `step` under `jit`, `vmap`, `scan` and `grad`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax._jax.keys import is_key
from envrax.testing.probe import Probe, Transition, by_name
from envrax.testing.pytrees import leaves, stack, take
from envrax.testing.rules.base import Fault, Faults, SkipRule, fault_of
from envrax.testing.rules.purity import PURE

_NO_VALUE = "While JAX traces, an array has no value for"

_SLOTS = f"{PURE} In a rule of your own for `vmap`, compute each slot from its own arguments."

# The advice on an error is that of the first class in this list that it is an instance of.
_TRACE_FIXES: tuple[tuple[type[Exception], str], ...] = (
    (
        jax.errors.TracerBoolConversionError,
        f"{_NO_VALUE} `if`, `while`, `and`, `or`, `not` or `bool()`: use `jnp.where` or "
        "`jax.lax.cond`, `&`, `|` and `~`, and keep bools as arrays.",
    ),
    (
        jax.errors.TracerIntegerConversionError,
        f"{_NO_VALUE} `range()` or the index of a list: use `jax.lax.fori_loop`, and make the list "
        "an array.",
    ),
    (
        jax.errors.NonConcreteBooleanIndexError,
        "While JAX traces, the size of `x[mask]` is not known: use `jnp.where(mask, x, 0)`.",
    ),
    (jax.errors.TracerArrayConversionError, f"{_NO_VALUE} functions of `np`: use `jnp`."),
    (
        jax.errors.ConcretizationTypeError,
        f"{_NO_VALUE} `int()`, `float()`, `.item()` or a shape: use `x.astype(...)`, and take "
        "shapes from the config.",
    ),
)


def traces_under_jit(probe: Probe) -> Faults:
    """`reset` and `step` can be compiled."""
    first = probe.uncompiled[0]
    calls = {
        "reset": lambda: probe.reset(probe.rng),
        "step": lambda: probe.step(probe.state_to_pass(first.before), first.action),
    }
    for method, call in calls.items():
        try:
            call()
        except Exception as error:
            yield untraceable(error, f".{method}")
            return
    probe.compiles = True


def untraceable(error: Exception, where: str) -> Fault:
    """The fault of code that cannot be compiled, with advice for the error."""
    found = (fix for error_class, fix in _TRACE_FIXES if isinstance(error, error_class))
    fix = next(found, "Use `jnp` instead of `np`, and arrays instead of Python objects.")
    return fault_of(error, where, "it to work under `jax.jit`", fix)


def jit_agrees(probe: Probe) -> Faults:
    """Compiled, `reset` and `step` give the same results as uncompiled; floats up to rounding."""
    yield from _disagreements(probe, "reset", "jit", probe.at_reset, probe.reset(probe.rng))
    for t in probe.uncompiled:
        compiled = probe.step(probe.state_to_pass(t.before), t.action)
        yield from _disagreements(probe, "step", "jit", t[2:], compiled)


def vmap_agrees(probe: Probe) -> Faults:
    """Under `vmap`, `reset` and `step` give for each of several keys, states and actions what \
they give for it without; floats up to rounding."""
    reset, step = probe.env.reset, probe.env.step
    rngs = [probe.rng, probe.other_rng]
    resets = [probe.at_reset, probe.reset(probe.other_rng)]
    steps = [probe.uncompiled[0], _step_of_another_episode(probe)]
    given = stack(rngs), stack([t.before for t in steps]), stack([t.action for t in steps])
    try:
        both: Any = jax.jit(lambda r, s, a: (jax.vmap(reset)(r), jax.vmap(step)(s, a)))
        at_reset, stepped = both(*given)
    except Exception as error:
        fix = "Use operations that JAX can batch; give a callback a `vmap_method`."
        yield fault_of(error, ".step", "it to work under `jax.vmap`", fix)
        return
    compared: Any = (("reset", resets, at_reset), ("step", [t[2:] for t in steps], stepped))
    for method, alone, batch in compared:
        for i, plain in enumerate(alone):
            if found := [*_disagreements(probe, method, "vmap", plain, take(batch, i))]:
                yield from (fault._replace(fix=_SLOTS) for fault in found)
                break


def _step_of_another_episode(probe: Probe) -> Transition:
    """The first step of an episode with another key, compiled, with another action."""
    _, state = probe.reset(probe.other_rng)
    action = probe.action(1, state)
    return Transition(state, action, *probe.step(probe.state_to_pass(state), action))


def scan_agrees(probe: Probe) -> Faults:
    """`jax.lax.scan` over `step` gives the same results as a loop; floats up to rounding."""
    steps = probe.first_episode

    def body(state: Any, action: Any) -> tuple[Any, Any]:
        out = probe.env.step(state, action)
        return out[1], out

    actions = stack([t.action for t in steps])
    try:  # with a length, since a space without actions gives nothing to scan over
        _, out = jax.lax.scan(body, steps[0].before, actions, length=len(steps))
    except Exception as error:
        fix = "Return a state with the same structure, shapes, dtypes and weak types."
        yield fault_of(error, ".step", "it to work under `jax.lax.scan`", fix)
        return
    for i, t in enumerate(steps):
        yield from _disagreements(probe, "step", "scan", t[2:], take(out, i))


def _disagreements(
    probe: Probe, method: str, transform: str, plain: Any, transformed: Any
) -> Faults:
    """The first leaf that a transformation changes."""
    for leaf, a, b in probe.differences(by_name(plain), by_name(transformed)):
        expected = f"`{leaf}` as in a plain call, {a}"
        fix = f"{PURE} Do not test whether a value is traced."
        yield Fault(f".{method}", expected, f"{b} under `{transform}`", fix)


def compiles_once(probe: Probe) -> Faults:
    """`reset` and `step` are each compiled only once, over whole episodes and resets."""
    _ = probe.numpy_transitions
    for method, counter in (("reset", probe.reset), ("step", probe.step)):
        if counter.traces > 1:
            fix = "Keep static fields and Python objects in the state the same from step to step."
            yield Fault(f".{method}", "one compilation", f"{counter.traces}", fix)


def gradients_are_finite(probe: Probe) -> Faults:
    """With `gradients=True`: in each step, the reward has a finite gradient by the floats of \
state and action."""
    if not probe.gradients:
        raise SkipRule("only with `gradients=True`")
    t = probe.transitions[0]
    inputs: Any = t.before, t.action
    at = [i for i, x in enumerate(jax.tree.leaves(inputs)) if _is_float(x)]

    def reward(floats: list[Any], flat: list[Any]) -> Any:
        filled = dict(enumerate(flat)) | dict(zip(at, floats, strict=True))
        returned = probe.env.step(*jax.tree.unflatten(jax.tree.structure(inputs), filled.values()))
        return sum(jnp.sum(x) for x in jax.tree.leaves(returned[2]))

    def gradients_of(t: Transition) -> list[Any]:
        flat: list[Any] = jax.tree.leaves((t.before, t.action))
        return gradient_of_reward([flat[i] for i in at], flat)

    gradient_of_reward: Any = jax.jit(jax.grad(reward))
    try:
        found = [gradients_of(t) for t in probe.transitions]
    except Exception as error:
        fix = "Use operations that JAX can differentiate: `jax.lax.scan` instead of `while_loop`."
        yield fault_of(error, ".step", "a reward that can be differentiated", fix)
        return
    paths = [*leaves(t.before, "state"), *leaves(t.action, "action")]
    for i, gradient in [pair for row in found for pair in zip(at, row, strict=True)]:
        if not np.isfinite(np.asarray(gradient, np.float64)).all():
            fix = (
                "Guard roots, divisions and logarithms at zero, in both branches of a `jnp.where`."
            )
            expected = f"a finite gradient of the reward by `{paths[i]}`"
            yield Fault(".step", expected, str(gradient), fix)


def _is_float(x: Any) -> bool:
    return not is_key(x) and jnp.issubdtype(jnp.result_type(x), jnp.floating)
