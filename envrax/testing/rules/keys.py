"""Rules on PRNG keys: each is used once, and all are derived from the key given to `reset`."""

from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._jax.keys import is_key, key_types
from envrax.env import EnvState, JaxEnv, carries_over
from envrax.testing.key_usage import drawn_keys, draws_from_a_fixed_key, reused_key
from envrax.testing.probe import Probe, by_name
from envrax.testing.pytrees import describe_weak, tree_to_numpy, value_differences
from envrax.testing.rules.base import Fault, Faults, SkipRule, fault_of

_SPLIT = "Split a key once: draw from one part, keep the other in `state.rng`."
_EPISODES = 6  # besides the first: what is the same in all of them is hardly drawn
_FOLDED = "`fold_in(state.rng, state.step)` will not do: at step 0 it is the key of the next reset."


def key_moves_on(probe: Probe) -> Faults:
    """`state.rng` is one key of the kind given to `reset`, derived from that key but not equal to \
it. A step that draws from it replaces it, and so does a `reset_after`, if overridden."""
    state = probe.at_reset[1]
    kind = describe_weak(probe.rng)
    if describe_weak(state.rng) != kind:
        fix = "Keep one of the keys that `jax.random.split` returns."
        yield Fault(".reset", f"`state.rng` to be a key, {kind}", describe_weak(state.rng), fix)
    if _same_key(state.rng, probe.rng):
        fix = "Write `rng, key = jax.random.split(rng)`, draw from `key`, keep `rng`."
        yield Fault(".reset", "`state.rng` to differ from the key given", "the same key", fix)
    elif _same_key(probe.env.reset(probe.other_rng)[1].rng, state.rng):
        fix = "Derive it from the key given: otherwise every episode draws the same numbers."
        got = "the same key for two different keys"
        yield Fault(".reset", "`state.rng` to depend on the key given", got, fix)
    env: Any = probe.env
    steps = probe.transitions if probe.compiles else probe.uncompiled
    step = probe.step if probe.compiles else env.step
    calls = [("step", step, t.before, (t.action,), t.returned) for t in steps]
    if carries_over(env):
        ended = [t.state for t in steps if probe.needs_reset(t)]
        calls += [("reset_after", env.reset_after, x, (), None) for x in ended[:_EPISODES]]
    others = jax.random.split(probe.other_rng, len(calls))  # one could draw the same by chance
    for (method, function, before, args, given), rng in zip(calls, others, strict=True):
        returned = given or by_name(function(probe.state_to_pass(before)))
        kept = _same_key(returned["state"].rng, before.rng)
        if kept and _draws(probe, function, returned, rng, before, *args):
            expected = f"`state.rng` to be another key after a {method} that draws from it"
            fix = f"{_SPLIT} {_FOLDED}" if method == "step" else _SPLIT
            yield Fault(f".{method}", expected, "the same key", fix)


def _same_key(a: Any, b: Any) -> bool:
    return np.array_equal(tree_to_numpy(a), tree_to_numpy(b))


def _draws(
    probe: Probe, function: Any, returned: dict[str, Any], rng: jax.Array, state: Any, *args: Any
) -> bool:
    """Whether a call draws, and its results, apart from the key, are others with another key."""
    again = by_name(function(_with_rng(probe.state_to_pass(state), rng), *args))
    kept: Any = np.zeros(())  # in place of both keys
    one, other = (x | {"state": _with_rng(x["state"], kept)} for x in (returned, again))
    if not any(True for _ in value_differences(one, other, exact=True)):
        return False
    # A result may be a copy of the key.
    return not probe.traceable or bool(drawn_keys(function, state, *args))


def _with_rng(state: Any, rng: jax.Array) -> Any:
    """The state with another key, in the states of wrapped environments too that have the same."""
    inner = getattr(state, "env_state", None)
    has_same = isinstance(inner, EnvState) and _same_key(inner.rng, state.rng)
    changes = {"env_state": _with_rng(inner, rng)} if has_same else {}
    return state.replace(rng=rng, **changes)


def draws_depend_on_the_key(probe: Probe) -> Faults:
    """No number is drawn from a key that is the same in every episode, such as \
`jax.random.key(0)`, or `fold_in` of that and `state.step`."""
    rngs = [probe.rng, *jax.random.split(probe.other_rng, _EPISODES)]
    episodes = [_calls(probe, rng, i // 2) for i, rng in enumerate(rngs)]
    if probe.has_masks:
        for calls in episodes:
            calls["action_mask"] = probe.env.action_mask, calls["step"][1]
    for method, (function, *_) in episodes[0].items():
        source = "the key given" if method == "reset" else "`state.rng`"
        if draws_from_a_fixed_key(function, [calls[method][1:] for calls in episodes]):
            fix = f"Split {source}, and draw from one part. Compute constants in `__init__`."
            expected = f"every draw to depend on {source}"
            yield Fault(f".{method}", expected, "a draw that is the same in every episode", fix)


def keys_are_used_once(probe: Probe) -> Faults:
    """Within one call of `reset` or `step`, no key is used twice, as JAX's checker counts. A key \
that is computed twice, such as by `fold_in` or a traced index, counts as two."""
    for method, call in _calls(probe, probe.rng).items():
        if error := reused_key(*call):
            yield fault_of(error, f".{method}", "every key to be used once", _SPLIT)


def _calls(probe: Probe, rng: jax.Array, action: int = 0) -> dict[str, tuple[Any, ...]]:
    """The functions that may draw, with arguments to trace them, of an episode with this key."""
    env = probe.env
    _, state = (probe.reset if probe.compiles else env.reset)(rng)
    calls = {"reset": (env.reset, rng), "step": (env.step, state, probe.actions[action])}
    return calls | ({"reset_after": (env.reset_after, state)} if carries_over(env) else {})


def calls_share_no_key(probe: Probe) -> Faults:
    """No two calls of an episode use the same key, as JAX's checker counts, or draw from equal \
keys, but for seeds that the state keeps as data: `reset`, two steps, then `reset_after`."""
    env, action = probe.env, probe.actions[0]

    def reset_and_step(rng: jax.Array) -> Any:
        return env.step(env.reset(rng)[1], action)[1]

    def up_to_next_reset(rng: jax.Array) -> Any:
        state = env.step(reset_and_step(rng), action)[1]
        return env.reset_after(state)

    sequences = {
        "reset, then step": reset_and_step,
        "reset, two steps, then the next reset": up_to_next_reset,
    }
    for calls, function in sequences.items():
        if error := reused_key(function, probe.rng):
            expected = "every call to use keys of its own"
            fix = f"{_SPLIT} Keep no used key in the state."
            yield fault_of(error, f" ({calls})", expected, fix)
    yield from _equal_draws(probe, action)


def _equal_draws(probe: Probe, action: Any) -> Faults:
    # To JAX, a key that each call computes again, as `fold_in` of one in the state, is a new key.
    env, state = probe.env, probe.at_reset[1]
    seen = drawn_keys(env.reset, probe.rng)
    for call in "the first step", "the second step":
        drawn = drawn_keys(env.step, state, action)
        repeated = seen & drawn
        if repeated:  # a seed that the state keeps as data is to give the same numbers again
            repeated -= drawn_keys(env.step, _with_other_keys(state), action)
        if repeated:
            expected = "every call to draw from keys of its own"
            got = f"a draw in {call} from a key that an earlier call drew from"
            fix = (
                f"{_SPLIT} A key that an episode keeps gives the same numbers in every step. If "
                "they must stay, as in a level, keep `jax.random.key_data(key)`. If `jnp.where` "
                "drops what is drawn, as in an auto-reset inside of the environment, waive this "
                "rule."
            )
            yield Fault(".step", expected, got, fix)
        seen |= drawn
        state = probe.step(state, action)[1]
        if state.done:  # a frame skip ignores what it draws after an end
            return


def _with_other_keys(state: Any) -> Any:
    """The state with another key in place of each of its keys."""

    def other(x: Any) -> Any:
        bits = jax.random.key_data(x) ^ 1
        return cast(Any, jax.random.wrap_key_data(bits, impl=jax.random.key_impl(x)))

    return jax.tree.map(lambda x: other(x) if is_key(x) else x, state)


def both_kinds_of_keys(probe: Probe) -> Faults:
    """A legacy key gives the same results as the typed key with the same bits, in `reset_after` \
too where it is overridden."""
    if len(key_types()) < 2:
        raise SkipRule("legacy keys are switched off")
    env, t = probe.env, probe.uncompiled[0]
    stepped: dict[str, Any] = {}

    def begin_and_step() -> dict[str, Any]:
        obs, state = env.reset(jax.random.key_data(probe.rng))
        stepped.update(by_name(env.step(state, t.action)))
        return stepped | {"obs": obs}

    def begin_again(last: Any) -> dict[str, Any]:
        return by_name(env.reset_after(last.replace(done=jnp.ones_like(last.done))))

    yield from _faults_of_a_legacy_key("", t.returned | {"obs": probe.at_reset[0]}, begin_and_step)
    if isinstance(cast(Any, env), JaxEnv) and carries_over(env):
        typed = begin_again(t.state)
        yield from _faults_of_a_legacy_key(
            ".reset_after", typed, lambda: begin_again(stepped["state"])
        )


def _faults_of_a_legacy_key(where: str, typed: dict[str, Any], call: Any) -> Faults:
    fix = "Use keys as they are: `jax.random.split` and all other functions take both kinds."
    try:
        legacy = call()
    except Exception as error:
        expected = "it to work with legacy keys, `jax.random.PRNGKey(0)`"
        yield fault_of(error, where, expected, fix)
        return
    if isinstance(legacy["state"], EnvState) and is_key(legacy["state"].rng):
        yield Fault(where, "`state.rng` to stay a legacy key", "a typed key", fix)
    values = {name: typed[name] for name in ("obs", "reward", "done") if name in typed}
    for leaf, a, b in value_differences(values, legacy):
        expected = f"the same `{leaf}` from a legacy key as from a typed one, {a}"
        yield Fault(where, expected, b, fix)
