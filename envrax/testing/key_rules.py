"""Rules on PRNG keys: the same one gives the same episode, and none is used twice."""

from typing import Any

import jax
import numpy as np

from envrax._keys import example_keys
from envrax.env import EnvState
from envrax.testing.jax_rules import PURE
from envrax.testing.probe import Probe, named, with_rng
from envrax.testing.rules import Fault, Faults, SkipRule, raised
from envrax.testing.trees import any_differences, form, host, is_key


def same_key_same_episode(probe: Probe) -> Faults:
    """The same key and actions give the same episode, to the bit."""
    fix = f"{PURE} Draw with `jax.random`, never with `random` or `numpy.random`."
    begun = named(probe.env.reset(probe.rng))
    first = named(probe.begun)
    for leaf, a, b in any_differences(first, begun, exact=True):
        yield Fault(
            f"{probe.who}.reset", f"the same `{leaf}` from the same key", f"{a}, then {b}", fix
        )
        return
    for t in probe.plain:
        again = probe.again(t)
        for leaf, a, b in any_differences(t.returned, again.returned, exact=True):
            expected = f"the same `{leaf}` from the same state and action"
            yield Fault(f"{probe.who}.step", expected, f"{a}, then {b}", fix)
            return


def key_moves_on(probe: Probe) -> Faults:
    """`state.rng` is one key of the kind given: after reset one that depends on the key given and \
is not it, and after every step that draws from it another one."""
    reset, step = f"{probe.who}.reset", f"{probe.who}.step"
    state = probe.begun[1]
    if form(state.rng) != form(probe.rng):
        fix = "Keep what `jax.random.split` left of the key."
        yield Fault(reset, f"`state.rng` to be a key, {form(probe.rng)}", form(state.rng), fix)
        return
    if _same_key(state.rng, probe.rng):
        fix = "Write `rng, key = jax.random.split(rng)`, draw from `key`, keep `rng`."
        yield Fault(reset, "`state.rng` to be another key than the one given", "the same", fix)
    elif _same_key(probe.env.reset(probe.other_rng)[1].rng, state.rng):
        fix = "Derive it from the key given: else every episode is the same."
        yield Fault(reset, "`state.rng` to depend on the key given", "the same for two keys", fix)
    for t in probe.plain:
        if _same_key(t.state.rng, t.before.rng) and _is_random(probe, t):
            fix = "Split `state.rng`, draw from one part and keep the other."
            expected = "`state.rng` to be another key after a step that draws from it"
            yield Fault(step, expected, "the same", fix)
            return


def _same_key(a: Any, b: Any) -> bool:
    return np.array_equal(host(a), host(b))


def _is_random(probe: Probe, t: Any) -> bool:
    """Whether another key in the state changes what the step returns, beside that key."""
    other = with_rng(t.before, probe.other_rng)
    again = t._replace(**named(probe.env.step(other, t.action)))
    again = again._replace(state=with_rng(again.state, t.state.rng))
    return any(True for _ in any_differences(t.returned, again.returned, exact=True))


def keys_are_used_once(probe: Probe) -> Faults:
    """No key is drawn from twice: not in `reset`, not in `step`, not between them, nor by the \
reset that follows with `jax.random.split(state.rng)[0]`."""
    env, action = probe.env, probe.actions[0]

    def one_reset(rng: jax.Array) -> Any:
        return env.reset(rng)[1]

    def reset_then_step(rng: jax.Array) -> Any:
        return env.step(one_reset(rng), action)[1]

    def then_reset(rng: jax.Array) -> Any:
        state = env.step(reset_then_step(rng), action)[1]
        return env.reset(jax.random.split(state.rng)[0])

    walks = {
        "reset": one_reset,
        "reset, then step": reset_then_step,
        "reset, two steps, then the next reset": then_reset,
    }
    for walk, function in walks.items():
        try:
            with jax.debug_key_reuse(True):
                jax.eval_shape(jax.jit(function), probe.rng)
        except jax.errors.KeyReuseError as error:
            fix = "Split a key once: draw from one part, keep the other in `state.rng`."
            yield raised(f"{probe.who} ({walk})", "every key to be used once", error, fix)
            return


def both_kinds_of_keys(probe: Probe) -> Faults:
    """A legacy key gives what the typed key with the same bits gives."""
    if len(example_keys()) < 2:
        raise SkipRule("legacy keys are switched off")
    fix = "Leave keys as they are: `jax.random.split` and the rest take both kinds."
    legacy = jax.random.key_data(probe.rng)
    try:
        obs, state = probe.env.reset(legacy)
        stepped = named(probe.env.step(state, probe.actions[0]))
    except Exception as error:
        expected = "it to work with legacy keys, `jax.random.PRNGKey(0)`"
        yield raised(probe.who, expected, error, fix)
        return
    if isinstance(state, EnvState) and is_key(stepped["state"].rng):
        yield Fault(probe.who, "`state.rng` to stay a legacy key", "a typed key", fix)
        return
    first = {"obs": probe.begun[0], **{k: probe.plain[0].returned[k] for k in ("reward", "done")}}
    ours = {"obs": obs, **{k: stepped[k] for k in ("reward", "done")}}
    for leaf, a, b in any_differences(first, ours):
        expected = f"the same `{leaf}` from a legacy key as from a typed one, {a}"
        yield Fault(probe.who, expected, b, fix)
        return
