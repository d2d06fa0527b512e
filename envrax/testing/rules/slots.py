"""Rules that compare the slots of a `VecEnv` with each other, and with its environment."""

from collections.abc import Iterator
from typing import Any, cast

import jax

from envrax.testing.batched_probe import BatchedProbe, SingleEnv
from envrax.testing.probe import Transition, by_name
from envrax.testing.pytrees import take, value_differences
from envrax.testing.rules.base import Fault, Faults, SkipRule


def slots_are_independent(probe: BatchedProbe) -> Faults:
    """In a `VecEnv`, another state and action in slot 0 change nothing in the other slots."""
    _single(probe)
    if probe.batch.n_slots < 2:
        return
    t = probe.uncompiled[0]
    before = jax.tree.map(lambda x: x.at[0].set(x[1]), t.before)
    other = probe.action(1, before)
    action = jax.tree.map(lambda x, y: x.at[0].set(y[0]), t.action, other)
    changed = probe.repeat(t._replace(before=before, action=action))
    others, others_after = (take(x.returned, slice(1, None)) for x in (t, changed))
    for leaf, a, b in value_differences(others, others_after):
        fix = "Compute every slot from its own state, action and key."
        expected = f"`{leaf}` of a slot to depend on that slot only"
        got = f"{a}, and {b} after a change in slot 0"
        yield Fault(".step", expected, got, fix)


def slots_step_like_one(probe: BatchedProbe) -> Faults:
    """In a `VecEnv`, slot i is reset with `jax.random.split(rng, num_envs)[i]` and steps like its \
environment; floats up to rounding."""
    n = probe.batch.n_slots
    single = _single(probe)
    rngs = jax.random.split(probe.rng, n)
    fix = "Compute every slot as `env.reset` and `env.step` do, with its own key."
    for slot in sorted({0, n - 1}):
        reference = by_name(single.reset(rngs[slot]))
        of_slot = by_name(take(probe.at_reset, slot))
        for leaf, a, b in probe.differences(reference, of_slot):
            expected = f"`{leaf}` of slot {slot} as from its environment, {a}"
            yield Fault(".reset", expected, b, fix)
    for t, slot, reference, next_episode in _slots(probe):
        of_slot = take(t.returned, slot)
        of_slot["info"] = {k: of_slot["info"][k] for k in reference["info"] if k in of_slot["info"]}
        for name in ("obs", "state") if next_episode else ():
            del reference[name], of_slot[name]
        for leaf, a, b in probe.differences(reference, of_slot):
            expected = f"`{leaf}` of slot {slot} as from its environment, {a}"
            yield Fault(".step", expected, b, fix)


def ended_slots_start_again(probe: BatchedProbe) -> Faults:
    """In a `VecEnv`, a slot whose episode ends returns the next episode's first observation and \
state, from `env.reset_after(new_state)`. `infos["final_obs"]`, if there is one, is the last \
observation of the ended episode, and `infos["final_mask"]` the mask of that state."""
    if not probe.options.autoreset:
        raise SkipRule("auto-reset is off")
    ends = [found for found in _slots(probe) if found[-1]]
    probe.saw_episode_end = bool(ends)
    for t, slot, reference, next_episode in ends:
        of_slot = {"obs": take(t.obs, slot), "state": take(t.state, slot)}
        for leaf, a, b in probe.differences(next_episode, of_slot):
            fix = "Reset a slot in the step that ends its episode."
            expected = f"`{leaf}` of slot {slot} as in its next episode, {a}"
            yield Fault(".step", expected, b, fix)
        if "final_obs" in t.info and "final_obs" not in reference["info"]:
            final = {"infos.final_obs": take(t.info["final_obs"], slot)}
            for leaf, a, b in probe.differences({"infos.final_obs": reference["obs"]}, final):
                fix = "Return the observation of the step, from before the reset."
                yield Fault(".step", f"`{leaf}` of slot {slot} to be {a}", b, fix)
        if "final_mask" in t.info and "final_mask" not in reference["info"]:
            mask = cast(Any, _single(probe)).action_mask(reference["state"])
            final = {"infos.final_mask": take(t.info["final_mask"], slot)}
            for leaf, a, b in value_differences({"infos.final_mask": mask}, final):
                fix = "Return the mask of the state of the step, from before the reset."
                yield Fault(".step", f"`{leaf}` of slot {slot} to be {a}", b, fix)


def _single(probe: BatchedProbe) -> SingleEnv:
    if probe.single is None:
        raise SkipRule("only for a `VecEnv`, whose slots are copies of one environment")
    return probe.single


def _slots(probe: BatchedProbe) -> Iterator[tuple[Transition, int, dict[str, Any], dict[str, Any]]]:
    """For each step of the first and the last slot: the step, the slot, the results of the \
environment for it, and those of the reset that follows an end."""
    single = _single(probe)
    for t in probe.transitions:
        for slot in sorted({0, probe.batch.n_slots - 1}):
            yield t, slot, *single.step(t, slot)
