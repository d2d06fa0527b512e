"""Rules on the dones, infos, slot states and images of a `BatchedEnv`."""

import copy
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.marks import adds
from envrax.batched_env import BatchedEnv, StepOptions, step_with
from envrax.testing.batched_probe import BatchedProbe
from envrax.testing.mismatch import why_outside
from envrax.testing.probe import UNCOMPILED_STEPS, Transition, by_name
from envrax.testing.pytrees import describe, leaves, take, tree_to_numpy, value_differences
from envrax.testing.rules.base import Fault, Faults, SkipRule, fault_of
from envrax.testing.rules.returns import SOME_IMAGES, image_faults

MOST_ENDS = 8  # compared by `next_episode_begins_at_once`


def dones_are_flags(probe: BatchedProbe) -> Faults:
    """`dones` is bool[n_slots]; in a `VecEnv`, after the `done` hooks of its wrappers."""
    like = describe(probe.after_hooks("done", probe.zeros(jnp.bool_)))
    for t in probe.uncompiled:
        if (got := describe(t.done)) != like:
            fix = "Return one bool per slot, such as the result of a comparison."
            yield Fault(".step", f"`dones` to be {like}", got, fix)


def infos_have_slots(probe: BatchedProbe) -> Faults:
    """Every leaf of `infos` has the leading axis `n_slots`."""
    n = probe.batch.n_slots
    for leaf, x in leaves(probe.uncompiled[0].info, "infos").items():
        if np.shape(x)[:1] != (n,):
            fix = "Give every slot a value; use `jnp.broadcast_to` for a shared one."
            yield Fault(".step", f"`{leaf}` of shape ({n}, ...)", describe(x), fix)


def slot_state_takes_an_index(probe: BatchedProbe) -> Faults:
    """`slot_state`, if there is one, takes an index as a list does: negative from the end, an \
`IndexError` out of range. The index may be traced."""
    n, state = probe.batch.n_slots, probe.uncompiled[0].state
    slot_state = probe.batch.slot_state
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
            yield fault_of(error, ".slot_state", f"the last slot at {index}", fix)
            return
        for leaf, a, b in differing[:1]:
            yield Fault(".slot_state", f"`{leaf}` of the last slot, {a}, at {index}", b, fix)
    for index in (n, -n - 1):
        try:
            slot_state(state, index)
            got = "a state"
        except IndexError:
            continue
        except Exception as error:
            got = type(error).__name__
        yield Fault(".slot_state", f"an IndexError at {index} of {n} slots", got, fix)


def render_slot_is_an_image(probe: BatchedProbe) -> Faults:
    """`render_slot`, if there is one, returns a NumPy array of shape (H, W, 3), uint8."""
    state = probe.state_to_pass(probe.newest_state())
    n = probe.batch.n_slots
    for slot in sorted({*range(0, n, 1 + n // SOME_IMAGES), n - 1}):  # drawing may be slow
        yield from image_faults(".render_slot", partial(probe.batch.render_slot, state, slot))


def final_obs_is_of_the_step(probe: BatchedProbe) -> Faults:
    """`infos["final_obs"]`, if the batch has it as an option or always, is in \
`observation_space`, and equals `obs` in each slot that did not end."""
    probe = _rolled_out(probe)
    batch = probe.batch
    if "final_obs" not in probe.uncompiled[0].info:
        if not _gives_final_obs(vars(batch).get("env"), probe.rng):
            raise SkipRule("there is no `final_obs`")
        fix = "Return it too, changed in the same way as `obs`."
        yield Fault(".step", "`infos.final_obs`, as the wrapped batch returns it", "none", fix)
    for t in probe.all_steps():
        final = t.info["final_obs"]
        fix = "Change it in the same way as `obs`."
        if outside := why_outside(batch.observation_space, final, "infos.final_obs", rounded=True):
            yield Fault(".step", f"`{outside.path}` {outside.expected}", outside.got, fix)
        runs = _running(t)
        obs, final = (take(x, runs) for x in (t.obs, final))
        for leaf, a, b in value_differences({"infos.final_obs": obs}, {"infos.final_obs": final}):
            yield Fault(".step", f"`{leaf}` as in `obs` where no episode ended, {a}", b, fix)


def final_mask_is_of_the_step(probe: BatchedProbe) -> Faults:
    """`infos["final_mask"]`, if there is one, equals `action_mask` in each slot that did not \
end."""
    probe = _rolled_out(probe)
    if "final_mask" not in probe.uncompiled[0].info:
        raise SkipRule("there is no `final_mask`")
    for t in probe.uncompiled:
        runs = _running(t)
        mask = take(probe.batch.action_mask(t.state), runs)
        final = take(t.info["final_mask"], runs)
        for leaf, a, b in value_differences(
            {"infos.final_mask": mask}, {"infos.final_mask": final}
        ):
            fix = "Change it in the same way as `action_mask`, or leave it out."
            yield Fault(".step", f"`{leaf}` as `action_mask` where no episode ended, {a}", b, fix)


def _running(t: Transition) -> np.ndarray:
    """Which slots did not end; none where a wrapper changed the type of `done`."""
    done = np.asarray(t.done)
    is_told = done.dtype == bool and done.ndim == 1
    return ~done if is_told else np.zeros(len(done), bool)


def _rolled_out(probe: BatchedProbe) -> BatchedProbe:
    """A probe of the batch as `rollout` steps it, with `final_obs`."""
    # A `VecEnv` adds the option by itself. A wrapper may forget what the option adds.
    if probe.single is not None or adds(probe.batch.step):
        return probe
    rolled_out: Any = copy.copy(probe.batch)
    rolled_out._options = probe.options._replace(final_obs=True)
    return BatchedProbe(rolled_out, UNCOMPILED_STEPS, probe.seed)


def _gives_final_obs(batch: Any, rng: jax.Array) -> bool:
    if not isinstance(batch, BatchedEnv):
        return False
    _, state = batch.reset(rng)
    asked = StepOptions(final_obs=True)
    return "final_obs" in step_with(batch, state, batch.action_space.sample(rng), asked)[4]


def next_episode_begins_at_once(probe: BatchedProbe) -> Faults:
    """A slot whose episode ends begins the next one in the same step. The step after the end is \
the first of the new episode: it depends on the action, if the step after `reset` does."""
    if not probe.options.autoreset:
        raise SkipRule("auto-reset is off")
    if probe.single is not None:
        return  # `ended_slots_start_again` compares a `VecEnv` with its environment
    steps = probe.transitions
    every_slot = np.ones(probe.batch.n_slots, bool)
    after_reset: list[bool] = []
    for draw in range(1, 4):
        after_reset += _depend_on_actions(probe, 0, every_slot, draw)
    after_ends: list[bool] = []
    for i in [i for i, t in enumerate(steps[:-1]) if np.any(np.asarray(t.done))][:MOST_ENDS]:
        after_ends += _depend_on_actions(probe, i + 1, np.asarray(steps[i].done), 1)
    if after_reset and all(after_reset) and len(after_ends) >= 3 and not any(after_ends):
        expected = "the step after an end to depend on its actions, as the one after `reset` does"
        fix = (
            "Reset a slot in the step that ends its episode, and return the first observation. If "
            "episodes begin with an action that is ignored, except after `reset`, waive this rule."
        )
        yield Fault(".step", expected, "a step that ignores them", fix)


def _depend_on_actions(probe: BatchedProbe, i: int, slots: Any, draw: int) -> list[bool]:
    """For some slots, whether the results of step `i` change with the action; those that got \
another action by chance."""
    t = probe.transitions[i]
    state = probe.state_to_pass(t.before) if probe.traceable else _played(probe, i)
    other = probe.action((i + draw) % len(probe.transitions), state)
    action = jax.tree.map(np.copy, tree_to_numpy(t.action))
    pairs = zip(jax.tree.leaves(action), jax.tree.leaves(tree_to_numpy(other)), strict=True)
    for x, y in pairs:
        x[slots] = y[slots]
    again = by_name(probe.batch.step(state, action))
    results = [{name: x[name] for name in ("obs", "reward", "done")} for x in (t.returned, again)]
    is_compared = slots & _differing_rows(action, t.action)
    return [bool(changed) for changed in _differing_rows(*results)[is_compared]]


def _played(probe: BatchedProbe, n_steps: int) -> Any:
    """The state after some steps. A simulator on the host cannot go back to an earlier one."""
    _, state = probe.batch.reset(probe.rng)
    for t in probe.transitions[:n_steps]:
        _, state, _, done, _ = probe.batch.step(state, t.action)
        if not np.array_equal(done, t.done):
            raise SkipRule("the same key and actions give other episodes")
    return state


def _differing_rows(a: Any, b: Any) -> Any:
    """For each slot, whether any leaf differs."""
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    rows = [np.asarray(x) != np.asarray(y) for x, y in pairs]
    return np.any([x.reshape(len(x), -1).any(axis=1) for x in rows], axis=0)
