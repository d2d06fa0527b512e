"""Rules on the spaces and the observations."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax.spaces import Space
from envrax.spaces.composite import map_leaves
from envrax.testing.batched_probe import BatchedProbe
from envrax.testing.mismatch import Mismatch, why_outside
from envrax.testing.probe import Probe
from envrax.testing.pytrees import describe, take, tree_to_numpy, value_differences
from envrax.testing.rules.base import Fault, Faults, fault_of

_SAMPLES = 100  # since one number in a hundred may lie outside
_MOST_NUMBERS = 2**20  # in the samples of a space


def spaces_are_legal(probe: Probe) -> Faults:
    """Both spaces are a `Space`, equal on every access, also where JAX traces, and contain their \
own samples, which depend on the key only. `contains` can be traced, never raises, and is False \
for None, texts and arrays of other shapes."""
    for name in ("observation_space", "action_space"):
        yield from _space_faults(probe, name)


def batch_spaces_are_legal(probe: BatchedProbe) -> Faults:
    """`n_slots` is an int of at least 1. All four spaces keep `spaces_are_legal`, and the batched \
ones contain stacked samples of the single ones."""
    n: Any = probe.batch.n_slots
    if not isinstance(n, int) or n < 1:
        fix = "Return the number of slots."
        yield Fault("", "`n_slots` to be an int of at least 1", repr(n), fix)
        return
    for kind in ("observation_space", "action_space"):
        names = f"single_{kind}", kind
        faults = [fault for name in names for fault in _space_faults(probe, name)]
        yield from faults
        if not faults:
            single, batch = (getattr(probe.batch, name) for name in names)
            rows = jax.tree.map(lambda x: jnp.stack([x] * n), single.sample(probe.rng))
            if outside := why_outside(batch, rows, "sample"):
                fix = f"Remove `{kind}`: the default is `single_{kind}.batch(n_slots)`."
                expected = f"stacked samples, `{outside.path}`, {outside.expected}"
                yield Fault(f".{kind}", expected, outside.got, fix)


def _space_faults(probe: Probe, name: str) -> Faults:
    try:
        space: Any = getattr(probe.env, name)
    except Exception as error:
        yield fault_of(error, f".{name}", "a Space", "Return a space, such as a Box.")
        return
    if not isinstance(space, Space):
        yield Fault(f".{name}", "a Space", repr(space), "Return a space, such as `Discrete(4)`.")
        return
    second: Any = getattr(probe.env, name)
    if second == space:
        try:
            second = _read_in_a_trace(probe.env, name)
        except Exception as error:
            expected = "a Space also where JAX traces its reader"
            yield fault_of(error, f".{name}", expected, "Make it a property, or compute it before.")
            return
    if second != space:
        fix = "Build it from the config only. A space class of your own needs an `__eq__`."
        yield Fault(f".{name}", "an equal space on every access", f"{space}, then {second}", fix)
    try:
        sample, again = (space.sample(probe.rng) for _ in range(2))
        n = max(1, min(_SAMPLES, _MOST_NUMBERS // max(1, space.size)))
        drawn = jax.vmap(space.sample)(jax.random.split(probe.other_rng, n))
        rows = (take(tree_to_numpy(drawn), i) for i in range(n))
        each = (why_outside(space, x, "sample") for x in (sample, *rows))
        outside = next(filter(None, each), None)
    except Exception as error:
        fix = "Fix its `sample` or its `contains`."
        yield fault_of(error, f".{name}", "a space that can be sampled", fix)
        return
    if outside:
        fix = "Make `sample` and `contains` agree."
        yield Fault(f".{name}", f"`{outside.path}` {outside.expected}", outside.got, fix)
        return
    for _, one, other in value_differences({"sample": sample}, {"sample": again}, exact=True):
        fix = "Draw with `jax.random` from the key that `sample` gets."
        yield Fault(f".{name}", f"the same sample from the same key, {one}", other, fix)
        return
    parts: list[tuple[Space, Any]] = []
    map_leaves(lambda *part: parts.append(part), space, sample)
    for part, x in parts:
        yield from _contains_faults(f".{name}", part, x)


def _contains_faults(where: str, space: Space, sample: Any) -> Faults:
    contains = f"{type(space).__name__}.contains"
    others: dict[str, Any] = {"None": None, "a text": "text"}
    if isinstance(sample, jax.Array):
        *axes, last = sample.shape or (1,)
        for shape in ((), (*axes, last + 1), (*axes, last, 2)):
            if shape != sample.shape:
                others[f"an array of shape {shape}"] = np.zeros(shape, sample.dtype)
    for shown, x in others.items():
        expected = f"`{contains}` to be False for {shown}"
        try:
            if not space.contains(x):
                continue
        except Exception as error:
            fix = "Look at the type and the shape first: `contains` never raises."
            yield fault_of(error, where, expected, fix)
        else:
            yield Fault(where, expected, "True", "Compare the type and the shape first.")
        return
    expected = f"`{contains}` to be a bool scalar also where its argument is traced"
    fix = "Compute with `jnp`; use `bool()` only where the result is no `jax.core.Tracer`."
    try:
        found: Any = jax.eval_shape(space.contains, sample)
    except Exception as error:
        yield fault_of(error, where, expected, fix)
        return
    if describe(found) != "bool[]":
        yield Fault(where, expected, describe(found), fix)


def _read_in_a_trace(env: Any, name: str) -> Any:
    found: list[Any] = []
    jax.eval_shape(lambda: found.append(getattr(env, name)))
    return found[0]


def observations_are_in_the_space(probe: Probe) -> Faults:
    """Every observation has the structure, shapes, dtypes and bounds of `observation_space`. A \
float may exceed a bound by 4 units in its last place; at a bound of 0, in that of the other \
bound."""
    space = probe.env.observation_space
    stepped = ((".step", t.obs) for t in probe.all_steps())
    begun = ((probe.begins_in, obs) for obs, _ in probe.begun)  # read after all steps
    for where, obs in itertools.chain([(".reset", probe.at_reset[0])], stepped, begun):
        if outside := why_outside(space, obs, "obs", rounded=True):
            expected = f"`{outside.path}` {outside.expected}"
            yield Fault(where, expected, outside.got, _fix(space, outside))


def _fix(space: Space, outside: Mismatch) -> str:
    if outside.dtype:
        cast = f"Cast it with `.astype(jnp.{outside.dtype})`"
        return f"{cast}. If the dtype is intended, change `observation_space` instead."
    return f"Return an element of `observation_space`, {space}, or change the space."
