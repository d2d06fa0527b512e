"""The rules for a `BatchedEnv`, in the order in which they are checked."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax.testing import form_rules as form
from envrax.testing import jax_rules as pure
from envrax.testing import key_rules as keys
from envrax.testing import slot_rules as slots
from envrax.testing.batched_probe import BatchedProbe
from envrax.testing.membership import why_outside
from envrax.testing.rules import Fault, Faults, Rule
from envrax.testing.trees import leaves, strong_form


def batch_spaces_are_legal(probe: BatchedProbe) -> Faults:
    """`n_slots` is an int of at least 1; all four spaces are a `Space`, equal on every access, \
and contain what they sample; the batched ones hold stacked elements of the single ones."""
    n: Any = probe.batch.n_slots
    if not isinstance(n, int) or n < 1:
        yield Fault(probe.who, "`n_slots` to be an int of at least 1", repr(n), "Return one.")
        return
    for kind in ("observation_space", "action_space"):
        faults: list[Fault] = []
        for name in (f"single_{kind}", kind):
            space = getattr(probe.batch, name)
            again = lambda name=name: getattr(probe.batch, name)  # noqa: E731
            faults += form.space_faults(f"{probe.who}.{name}", space, probe.rng, again)
        yield from faults
        if not faults:
            single, batch = (getattr(probe.batch, name) for name in (f"single_{kind}", kind))
            rows = jax.tree.map(lambda x: jnp.stack([x] * n), single.sample(probe.rng))
            if outside := why_outside(batch, rows, "sample"):
                fix = f"Leave `{kind}` out: by default it is `single_{kind}.batch(n_slots)`."
                where, (leaf, expected, got) = f"{probe.who}.{kind}", outside
                yield Fault(where, f"stacked samples, `{leaf}`, {expected}", got, fix)


def reset_returns(probe: BatchedProbe) -> Faults:
    """`reset(rng)` runs and returns `(obs, state)`, of all slots."""
    yield from form.call_faults(probe, "reset", lambda: probe.begun, object)


def step_returns(probe: BatchedProbe) -> Faults:
    """`step(state, actions)` runs and returns `(obs, new_state, rewards, dones, infos)`."""
    state, actions = probe.lend(probe.begun[1]), probe.actions[0]
    yield from form.call_faults(probe, "step", lambda: probe.batch.step(state, actions), object)


def dones_are_flags(probe: BatchedProbe) -> Faults:
    """`dones` is bool[n_slots], or what the hooks of the wrappers in a `VecEnv` make of it."""
    like = strong_form(probe.expected("done", probe.zeros(jnp.bool_)))
    for t in probe.plain:
        if strong_form(t.done) != like:
            fix = "Return one bool for every slot, for example the result of a comparison."
            yield Fault(f"{probe.who}.step", f"`dones` to be {like}", strong_form(t.done), fix)
            return


def infos_have_slots(probe: BatchedProbe) -> Faults:
    """Every leaf of `infos` has the leading axis `n_slots`."""
    n = probe.batch.n_slots
    for leaf, x in leaves(probe.plain[0].info, "infos").items():
        if np.shape(x)[:1] != (n,):
            fix = "Give every slot a value; broadcast what they share."
            yield Fault(f"{probe.who}.step", f"`{leaf}` of shape ({n}, ...)", strong_form(x), fix)


_RUNS = ("step_returns",)
_PURE = ("traces_under_jit", "inputs_are_left_alone", "same_key_same_episode")
_FORMS = (
    "infos_have_slots",
    "observations_are_in_the_space",
    "reset_and_step_agree",
    "dones_are_flags",
    "reward_is_a_float",
)

# A new rule is a function here or in one of these modules, and a row.
BATCHED_RULES = (
    Rule(batch_spaces_are_legal),
    Rule(reset_returns),
    Rule(step_returns, ("reset_returns", "batch_spaces_are_legal")),
    Rule(form.info_is_fixed, _RUNS),
    Rule(infos_have_slots, ("info_is_fixed",)),
    Rule(pure.inputs_are_left_alone, _RUNS),
    Rule(keys.same_key_same_episode, ("inputs_are_left_alone",), traced=True),
    Rule(pure.traces_under_jit, ("info_is_fixed",), traced=True),
    Rule(form.observations_are_in_the_space, _RUNS),
    Rule(form.reset_and_step_agree, ("observations_are_in_the_space",), traced=True),
    Rule(dones_are_flags, _RUNS),
    Rule(form.reward_is_a_float, _RUNS),
    Rule(slots.render_slot_is_an_image, _RUNS),
    Rule(slots.slot_state_takes_an_index, _RUNS),
    Rule(keys.both_kinds_of_keys, ("same_key_same_episode",)),
    Rule(pure.no_tracer_leaks, _PURE, traced=True),
    Rule(pure.jit_agrees, _PURE, traced=True),
    Rule(pure.compiles_once, ("jit_agrees", "reset_and_step_agree"), traced=True),
    Rule(pure.vmap_agrees, ("jit_agrees", "no_tracer_leaks"), traced=True),
    Rule(pure.scan_agrees, ("compiles_once", "no_tracer_leaks"), traced=True),
    Rule(slots.slots_are_independent, (*_PURE, *_FORMS)),
    Rule(slots.slots_step_like_one, ("slots_are_independent",)),
    Rule(slots.ended_slots_begin_anew, ("slots_step_like_one",)),
)
