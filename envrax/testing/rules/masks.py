"""The rule on masks of legal actions."""

from typing import Any

import jax

from envrax.testing.masks import why_not_playable, why_unfit
from envrax.testing.probe import Probe
from envrax.testing.pytrees import type_differences, value_differences
from envrax.testing.rules.base import Fault, Faults, fault_of
from envrax.testing.rules.purity import PURE
from envrax.testing.rules.transforms import untraceable

_FIX = "Return a mask as `JaxEnv.action_mask` describes, or None if all actions are legal."


def masks_fit_the_space(probe: Probe) -> Faults:
    """`action_mask` is None, or a bool mask that fits the action space, False in its padding, and \
equal when compiled. At least one action is legal while the episode runs."""
    env = probe.env
    states = [probe.at_reset[1], *(t.state for t in probe.uncompiled)]
    try:
        masks = [env.action_mask(state) for state in states]
    except Exception as error:
        fix = "It is called with the state that `reset` or `step` returned."
        yield fault_of(error, ".action_mask", "a mask or None", fix)
        return
    for mask in masks:
        if unfit := why_unfit(env.action_space, mask):
            yield Fault(".action_mask", f"`{unfit.path}` {unfit.expected}", unfit.got, _FIX)
        for leaf, before, now in type_differences({"mask": masks[0]}, {"mask": mask}):
            fix = "Return a mask in every state, with True for each legal action."
            yield Fault(".action_mask", f"`{leaf}` as at reset, {before}", now, fix)
    if not jax.tree.leaves(masks[0]):
        return
    if probe.traceable:
        yield from _compiled_faults(probe, states[0], masks[0])
    running = [True, *(not probe.needs_reset(t) for t in probe.transitions)]
    masks = [masks[0], *(probe.mask(t.state) for t in probe.transitions)]
    begun = [probe.mask(state) for _, state in probe.begun]  # in all these steps
    running, masks = running + [True] * len(begun), masks + begun
    for mask, runs in zip(masks, running, strict=True):
        if wrong := why_not_playable(env.action_space, mask, running=runs):
            fix = "End the episode in the step after which no action is legal."
            fix = fix if wrong.got == "none" else _FIX
            yield Fault(".action_mask", f"`{wrong.path}` {wrong.expected}", wrong.got, fix)


def _compiled_faults(probe: Probe, state: Any, mask: Any) -> Faults:
    try:
        compiled = probe.compiled_mask(state)
    except Exception as error:
        yield untraceable(error, ".action_mask")
        return
    for leaf, a, b in value_differences({"mask": mask}, {"mask": compiled}):
        fix = f"{PURE} Do not test whether a value is traced."
        yield Fault(".action_mask", f"`{leaf}` as in a plain call, {a}", f"{b} under `jit`", fix)
