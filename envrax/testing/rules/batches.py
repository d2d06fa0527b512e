"""Rules on the dones, infos, slot states and images of a `BatchedEnv`."""

import jax
import jax.numpy as jnp
import numpy as np

from envrax.testing.batched_probe import BatchedProbe
from envrax.testing.pytrees import describe, leaves, value_differences
from envrax.testing.rules.base import Fault, Faults, SkipRule, fault_of
from envrax.testing.rules.returns import image_faults


def dones_are_flags(probe: BatchedProbe) -> Faults:
    """`dones` is bool[n_slots]; in a `VecEnv`, after the `done` hooks of its wrappers."""
    like = describe(probe.after_hooks("done", probe.zeros(jnp.bool_)))
    for t in probe.uncompiled:
        if (got := describe(t.done)) != like:
            fix = "Return one bool per slot, such as the result of a comparison."
            yield Fault(f"{probe.class_name}.step", f"`dones` to be {like}", got, fix)
            return


def infos_have_slots(probe: BatchedProbe) -> Faults:
    """Every leaf of `infos` has the leading axis `n_slots`."""
    n = probe.batch.n_slots
    for leaf, x in leaves(probe.uncompiled[0].info, "infos").items():
        if np.shape(x)[:1] != (n,):
            fix = "Give every slot a value; use `jnp.broadcast_to` for a shared one."
            where = f"{probe.class_name}.step"
            yield Fault(where, f"`{leaf}` of shape ({n}, ...)", describe(x), fix)


def slot_state_takes_an_index(probe: BatchedProbe) -> Faults:
    """`slot_state`, if there is one, takes an index as a list does: negative from the end, an \
`IndexError` out of range. The index may be traced."""
    n, state = probe.batch.n_slots, probe.uncompiled[0].state
    where, slot_state = f"{probe.class_name}.slot_state", probe.batch.slot_state
    fix = "Take an index as a list does."
    try:
        last = slot_state(state, n - 1)
    except NotImplementedError:
        raise SkipRule("there is no `slot_state`") from None
    same = {"-1": lambda: slot_state(state, -1)}
    if probe.traceable:
        same["a traced index"] = lambda: jax.jit(slot_state)(state, jnp.int32(n - 1))
    for index, call in same.items():
        try:
            differing = list(value_differences({"state": last}, {"state": call()}))
        except Exception as error:
            yield fault_of(error, where, f"the last slot at {index}", fix)
            return
        for leaf, a, b in differing[:1]:
            yield Fault(where, f"`{leaf}` of the last slot, {a}, at {index}", b, fix)
    for index in (n, -n - 1):
        try:
            slot_state(state, index)
            got = "a state"
        except IndexError:
            continue
        except Exception as error:
            got = type(error).__name__
        yield Fault(where, f"an IndexError at {index} of {n} slots", got, fix)
        return


def render_slot_is_an_image(probe: BatchedProbe) -> Faults:
    """`render_slot`, if there is one, returns a NumPy array of shape (H, W, 3), uint8."""
    state = probe.newest_state()
    where = f"{probe.class_name}.render_slot"
    yield from image_faults(where, lambda: probe.batch.render_slot(state, 0))
