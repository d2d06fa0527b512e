"""Rules on the slots of a `BatchedEnv`: what one has to do with the others, and its state."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

from envrax.testing.batched_probe import BatchedProbe
from envrax.testing.form_rules import image_faults
from envrax.testing.probe import named
from envrax.testing.rules import Fault, Faults, SkipRule, raised
from envrax.testing.trees import any_differences, differences, rows


def slots_are_independent(probe: BatchedProbe) -> Faults:
    """Another state and action in slot 0 changes nothing in the other slots of a `VecEnv`."""
    _ = probe.single
    if probe.batch.n_slots < 2:
        return
    t, other = probe.plain[0], probe.actions[1]
    before = jax.tree.map(lambda x: x.at[0].set(x[1]), t.before)
    action = jax.tree.map(lambda x, y: x.at[0].set(y[0]), t.action, other)
    changed = probe.again(t._replace(before=before, action=action))
    for name, tree in t.returned.items():
        others = slice(1, None)
        for leaf, a, b in differences(
            rows(tree, others), rows(changed.returned[name], others), name
        ):
            fix = "Compute every slot from its own state, action and key."
            expected = f"`{leaf}` of a slot to depend on that slot alone"
            yield Fault(f"{probe.who}.step", expected, f"{a}, and {b} beside another slot 0", fix)
            return


def slots_step_like_one(probe: BatchedProbe) -> Faults:
    """Slot i of a `VecEnv` is reset with `jax.random.split(rng, num_envs)[i]`, and steps as the \
environment does alone; floats up to rounding."""
    n, single = probe.batch.n_slots, probe.single
    rngs = jax.random.split(probe.rng, n)
    fix = "Compute every slot as `env.reset` and `env.step` do, with its own key."
    for slot in sorted({0, n - 1}):
        alone, ours = named(single.reset(rngs[slot])), named(rows(probe.begun, slot))
        for leaf, a, b in any_differences(alone, ours):
            expected = f"`{leaf}` of slot {slot} as from the environment alone, {a}"
            yield Fault(f"{probe.who}.reset", expected, b, fix)
            return
    for t, slot, alone, fresh in _slots(probe):
        ours = rows(t.returned, slot)
        ours["info"] = {k: ours["info"][k] for k in alone["info"] if k in ours["info"]}
        for name in ("obs", "state") if fresh else ():
            del alone[name], ours[name]
        for leaf, a, b in any_differences(alone, ours):
            expected = f"`{leaf}` of slot {slot} as from the environment alone, {a}"
            yield Fault(f"{probe.who}.step", expected, b, fix)
            return


def ended_slots_begin_anew(probe: BatchedProbe) -> Faults:
    """A slot of a `VecEnv` whose episode ends returns the first observation and state of the \
next one, reset with `jax.random.split(new_state.rng)[0]`; `infos["final_obs"]`, where there is \
one, is the observation of the step."""
    ends = [(t, slot, alone, fresh) for t, slot, alone, fresh in _slots(probe) if fresh]
    probe.saw_an_end = bool(ends)
    for t, slot, alone, fresh in ends:
        ours = {"obs": rows(t.obs, slot), "state": rows(t.state, slot)}
        for leaf, a, b in any_differences(fresh, ours):
            fix = "Reset a slot in the step that ends its episode."
            expected = f"`{leaf}` of slot {slot} as in its next episode, {a}"
            yield Fault(f"{probe.who}.step", expected, b, fix)
            return
        if "final_obs" in t.info and "final_obs" not in alone["info"]:
            final = rows(t.info["final_obs"], slot)
            for leaf, a, b in differences(alone["obs"], final, "infos.final_obs"):
                fix = "Keep the observation of the step, before any reset."
                yield Fault(f"{probe.who}.step", f"`{leaf}` of slot {slot} to be {a}", b, fix)
                return


def _slots(probe: BatchedProbe) -> Iterator[tuple[Any, int, dict[str, Any], dict[str, Any]]]:
    """Of each step, for the first and the last slot: what it gives alone, and what comes next."""
    for t in probe.played:
        for slot in sorted({0, probe.batch.n_slots - 1}):
            yield t, slot, *probe.single.step(t, slot)


def slot_state_takes_an_index(probe: BatchedProbe) -> Faults:
    """`slot_state`, where there is one, follows the rules of lists: negative from the end, an \
`IndexError` out of range; the index may be traced."""
    n, state, where = probe.batch.n_slots, probe.plain[0].state, f"{probe.who}.slot_state"
    slot_state, fix = probe.batch.slot_state, "Follow the rules of lists, `operator.index` for one."
    try:
        last = slot_state(state, n - 1)
    except NotImplementedError:
        raise SkipRule("slots have no state of their own") from None
    same = {"-1": lambda: slot_state(state, -1)}
    if probe.traceable:
        same["a traced index"] = lambda: jax.jit(slot_state)(state, jnp.int32(n - 1))
    for index, take in same.items():
        try:
            differing = list(differences(last, take(), "state"))
        except Exception as error:
            yield raised(where, f"the last slot at {index}", error, fix)
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
    """`render_slot`, where there is one, gives a NumPy array of shape (H, W, 3), uint8."""
    state = probe.plain[0].state
    yield from image_faults(f"{probe.who}.render_slot", lambda: probe.batch.render_slot(state, 0))
