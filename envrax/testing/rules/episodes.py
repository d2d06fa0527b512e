"""Rules on the values of an episode: reward, step count, done, terminated and truncated."""

from bisect import bisect_left
from functools import partial
from itertools import pairwise, takewhile
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax.agent_values import by_agent
from envrax.env import with_config
from envrax.episodic_env import EpisodicEnv
from envrax.testing.probe import REASONS, Probe, Transition
from envrax.testing.pytrees import describe, describe_weak, leaves, tree_to_numpy
from envrax.testing.rules.base import Fault, Faults, SkipRule
from envrax.wrappers import EpisodicLife, RecordEpisodeStatistics
from envrax.wrappers.base import layers

_EPISODES = 7  # that several of them end at one step by chance
_COUNTERS = "step", "step_count"
_ONE_BOOL = "Return one bool, such as the result of a comparison."


def done_is_a_flag(probe: Probe) -> Faults:
    """`done` is a bool scalar, equal to `state.done`, and False where an episode begins. With \
wrappers, it is `state.done` after their `done` hooks."""
    done = probe.at_reset[1].done
    if describe(done) != "bool[]":
        yield Fault(".reset", "`state.done` to be bool[]", describe(done), _ONE_BOOL)
    start_with = "Start with `jnp.bool_(False)`."
    if bool(done):
        yield Fault(".reset", "`state.done` to be False", "True", start_with)
    like = describe_weak(probe.after_hooks("done", jnp.bool_(False)))
    if like == "bool[]":
        for flag in (False, True):
            after = bool(probe.after_hooks("done", jnp.bool_(flag)))
            if after != flag:
                fix = "End episodes in `on_step` or `step`, by `state.replace(done=...)` as well."
                yield Fault(".done", "a bool to stay as it is", f"{after} for {flag}", fix)
                return
    for t in probe.uncompiled:
        for name, x, expected in (("state.done", t.state.done, "bool[]"), ("done", t.done, like)):
            if describe(x) != expected:
                yield Fault(".step", f"`{name}` to be {expected}", describe(x), _ONE_BOOL)
    for t in probe.numpy_transitions:
        expected = tree_to_numpy(probe.after_hooks("done", jnp.asarray(t.state.done)))
        if not np.array_equal(expected, t.done):
            got = f"{t.done} with a `state.done` of {t.state.done}"
            fix = "Write the same value to both: `state.replace(done=done)`."
            yield Fault(".step", "`done` to equal `state.done`", got, fix)
    for _, state in probe.begun:
        if bool(state.done):
            expected = "`state.done` to be False after an end"
            yield Fault(probe.begins_in, expected, "True", start_with)


def step_counts(probe: Probe) -> Faults:
    """`state.step` is an int32 scalar: 0 where an episode begins, 1 more after every step, and at \
most `config.max_steps`. A wrapper may take several steps in one."""
    first, wrapped = probe.at_reset[1].step, probe.env.unwrapped is not probe.env
    start_with = "Start with `jnp.int32(0)`."
    if describe(first) != "int32[]":
        yield Fault(".reset", "`state.step` to be int32[]", describe(first), start_with)
    if int(first) != 0:
        yield Fault(".reset", "`state.step` to be 0", str(first), start_with)
    steps = [*probe.all_steps()]
    for _, state in probe.begun:
        if int(state.step) != 0:
            expected = "`state.step` to be 0 after an end"
            yield Fault(probe.begins_in, expected, str(state.step), start_with)
    for t in steps:
        counted = int(t.state.step) - int(t.before.step)
        if counted != 1 and not (wrapped and counted > 1):
            got = f"{t.state.step} after {t.before.step}"
            fix = "Write `state.replace(step=state.step + 1)`."
            yield Fault(".step", "`state.step` to be 1 more after a step", got, fix)
        if not wrapped and int(t.state.step) > (limit := probe.env.config.max_steps):
            fix = "Truncate where `step >= self.config.max_steps`."
            yield Fault(".step", f"an end within {limit} steps", f"{limit + 1} steps", fix)
    if isinstance(probe.env, EpisodicEnv):
        yield from _dropped_by_the_base(probe, probe.env)


def _dropped_by_the_base(probe: Probe, env: EpisodicEnv[Any, Any, Any, Any]) -> Faults:
    """What `advance` writes to `step` and `done`, which `EpisodicEnv.step` replaces."""
    advance: Any = jax.jit(env.advance) if probe.compiles else env.advance
    for t in (*probe.uncompiled, *probe.transitions):
        state = advance(probe.state_to_pass(t.before), t.action)[0]
        for name, fix in (("step", "Leave it as it is."), ("done", "Return it as `terminated`.")):
            if state[name] != t.before[name]:
                got = f"{t.before[name]} before and {state[name]} after"
                expected = f"`state.{name}` as it was, since `step` replaces it"
                yield Fault(".advance", expected, got, fix)


def observed_counters_count(probe: Probe) -> Faults:
    """A whole number in an observation that is called `step` or `step_count` changes within an \
episode."""
    changes: dict[str, bool] = {}
    for t, later in pairwise(probe.numpy_transitions):
        after = leaves(later.obs, "obs")
        for name, x in leaves(t.obs, "obs").items() if not t.state.done else ():
            if name.rpartition(".")[2] in _COUNTERS and x.ndim == 0 and x.dtype.kind in "iu":
                changes[name] = changes.get(name, False) or x != after[name]
    for name in changes:
        if not changes[name]:
            got, fix = "one number in all of them", "Observe `state.step`."
            yield Fault(".step", f"`{name}` to count the steps of an episode", got, fix)


def reward_is_a_float(probe: Probe) -> Faults:
    """The reward is a finite float32 scalar; with several agents, a dict of one per agent. With \
wrappers, it has the type that their `reward` hooks give it."""
    zeros = by_agent(probe.env, probe.zeros(jnp.float32))
    hooked = probe.after_hooks("reward", zeros)
    named = leaves(hooked, "reward")
    shapes = {name: describe_weak(x).rpartition("[")[2] for name, x in named.items()}
    expected = {name: f"float32[{shape}" for name, shape in shapes.items()}
    for t in probe.uncompiled:
        got = {name: describe(x) for name, x in leaves(t.reward, "reward").items()}
        for name in [*expected, *got]:
            if expected.get(name) != got.get(name):
                fix = (
                    "Convert it with `jnp.asarray(reward, jnp.float32)`; sum it if it is an array."
                )
                of = expected.get(name, "left out")
                yield Fault(".step", f"`{name}` to be {of}", got.get(name, "none"), fix)
        if expected == got and jax.tree.structure(t.reward) != jax.tree.structure(hooked):
            fix = "Return a `dict`: a batch takes no other mapping of rewards."
            yield Fault(".step", "`reward` to be a `dict`", type(t.reward).__name__, fix)
    for t in probe.numpy_transitions:
        for name, x in leaves(t.reward, "reward").items():
            if not np.isfinite(np.asarray(x, np.float64)).all():
                fix = (
                    "Guard the division or the overflow: one NaN or infinity spoils a whole batch."
                )
                yield Fault(".step", f"`{name}` to be finite", str(x), fix)


def ends_have_reasons(probe: Probe) -> Faults:
    """`info["terminated"]` and `info["truncated"]`, if there are any, are bool scalars. The \
episode is done exactly where at least one of them is True."""
    info = probe.uncompiled[0].info
    given = [name for name in REASONS if name in info]
    if not given:
        raise SkipRule('info has neither "terminated" nor "truncated"')
    if len(given) == 1:
        fix = "Return both: bootstrapping at a time limit depends on which one is True."
        yield Fault(".step", f"`info` with {' and '.join(REASONS)}", f"only {given[0]}", fix)
    for name in REASONS:
        if (got := describe(info[name])) != "bool[]":
            yield Fault(".step", f"`info.{name}` to be bool[]", got, _ONE_BOOL)
    for t in probe.numpy_transitions:
        terminated, truncated = (bool(t.info[name]) for name in REASONS)
        if (terminated or truncated) != bool(t.state.done):
            got = f"terminated {terminated}, truncated {truncated}, done {t.state.done}"
            fix = "Write `done = terminated | truncated`."
            yield Fault(".step", "`done` to be `terminated | truncated`", got, fix)


def limits_have_reasons(probe: Probe) -> Faults:
    """An episode that ends where `state.step` reaches `config.max_steps` says why in `info`."""
    if any(name in probe.uncompiled[0].info for name in REASONS):
        return
    limit = probe.env.config.max_steps
    ends_there = any(t.state.done and t.state.step >= limit for t in probe.numpy_transitions)
    if ends_there or _ends_only_at(probe, limit):
        fix = (
            "Set both: `truncated = step >= self.config.max_steps`, "
            '`info = {"terminated": terminated, "truncated": truncated}`.'
        )
        expected = '`info["terminated"]` and `info["truncated"]` where the time limit ends episodes'
        yield Fault(".step", expected, "neither", fix)


def _ends_only_at(probe: Probe, limit: int) -> bool:
    """Whether a step from the first state ends the episode at the limit, and not a step sooner."""
    return probe.compiles and not _ends_at(probe, limit - 1) and _ends_at(probe, limit)


def _ends_at(probe: Probe, step: int) -> bool:
    """Whether a step from the first state that is counted as this one ends the episode."""
    first = probe.at_reset[1]
    before = first.replace(step=jnp.int32(step - 1))
    return bool(probe.step(before, probe.action(0, first))[1].done)


def limit_is_in_the_config(probe: Probe) -> Faults:
    """No count of steps below `config.max_steps` truncates, or ends episodes without a reason in \
`info`, but where `at_limit` says so; nor do all truncated episodes end at one step. Another \
`max_steps` moves the limit, unless `at_limit` tells one of its own. Not checked with wrappers, \
which may have their own limit."""
    if not probe.compiles or probe.env.unwrapped is not probe.env:
        return
    limit = int(probe.env.config.max_steps)
    truncated = [t for t in probe.transitions if _is_truncation(t)]
    seen = [int(t.state.step) for t in truncated if not probe.env.at_limit(t.state)]
    steps = [step for step in {limit - 1, *seen[:1]} if 1 < step < limit]
    found = next(filter(None, (_counted_limit(probe, step) for step in steps)), None)
    if found or (found := _repeated_limit(probe, seen, limit)):
        fix = (
            "Truncate where `self.at_limit(state)`, and override it for a limit of your own. If "
            'the game itself ends there, set `info["terminated"]`. An adapter returns its limit '
            f"from `limit`, and `envrax.wrap` takes max_steps={found}."
        )
        expected = f"no time limit before `config.max_steps`, {limit}"
        yield Fault(".step", expected, f"one at step {found}", fix)
        return
    ends_there = any(t.state.step == limit for t in truncated)
    if limit > 1 and (ends_there or _ends_only_at(probe, limit)):
        yield from _stays_with_another_config(probe, limit)


def _stays_with_another_config(probe: Probe, limit: int) -> Faults:
    """A limit that stays where it is in an environment built with another `max_steps`."""
    shorter = limit - 1
    try:
        env = with_config(probe.env, max_steps=shorter)
        other = Probe(env, probe.num_steps, probe.seed, gradients=False)
        other.compiles = True
        is_its_limit = env.at_limit(other.at_reset[1].replace(step=jnp.int32(shorter)))
        if not is_its_limit or _ends_at(other, shorter):
            return
        # The limit may have a counter of its own, which only play moves.
        ends = [int(t.state.step) for t in other.numpy_transitions if t.state.done]
    except Exception:  # it has no other config, or does not run with another limit
        raise SkipRule("`with_config` cannot build it with another `max_steps`") from None
    if _ends_at(probe, limit) or not ends or max(ends) > shorter:
        fix = "Read the limit from `self.config.max_steps`: another config may hold another one."
        expected = f"a time limit at step {shorter} with `max_steps={shorter}`"
        yield Fault(".step", expected, f"one at step {limit}", fix)


def _is_truncation(t: Transition) -> bool:
    """Whether a step ends the episode, and does not say that this is a termination."""
    return bool(t.state.done) and not bool(t.info.get("terminated", False))


def _counted_limit(probe: Probe, step: int) -> int | None:
    """The first step up to this one where `state.step` by itself ends each of several episodes."""

    def ends(state: Any, step: int) -> bool:
        action, before = probe.action(0, state), state.replace(step=jnp.int32(step - 1))
        t = Transition(before, action, *probe.step(before, action))
        return _is_truncation(t) and not probe.env.at_limit(t.state)

    keys = jax.random.split(probe.other_rng, _EPISODES)
    starts = [probe.at_reset[1], *(probe.reset(key)[1] for key in keys)]
    if not all(ends(state, step) for state in starts):
        return None
    steps = range(1, step)
    first = {1 + bisect_left(steps, True, key=partial(ends, state)) for state in starts}
    # Where a first step may end the episode, or each episode has a length of its own: no limit.
    return None if len(first) > 1 or 1 in first else first.pop()


def _repeated_limit(probe: Probe, seen: list[int], limit: int) -> int | None:
    """The step below the limit where all episodes are truncated, whatever counts their steps."""
    if not seen or seen[0] >= limit or "truncated" not in probe.uncompiled[0].info:
        return None
    for rng in jax.random.split(probe.other_rng, 3 * _EPISODES):  # some of them may terminate
        if {*seen} != {seen[0]}:
            return None
        if len(seen) > _EPISODES:
            return seen[0]
        last = probe.run_to_end(probe.reset(rng)[1], rng)
        seen = [*seen, *(int(t.state.step) for t in last if _is_truncation(t))]
    return None


def statistics_see_each_end(probe: Probe) -> Faults:
    """With a `RecordEpisodeStatistics` in the stack, `info["episode"]["l"]` is above 0 exactly \
where the episode is done. Inside an `EpisodicLife`, it counts games, and is not checked."""
    outside = takewhile(lambda layer: not isinstance(layer, EpisodicLife), layers(probe.env))
    counts = any(isinstance(layer, RecordEpisodeStatistics) for layer in outside)
    for t in probe.numpy_transitions if counts else ():
        if (t.info["episode"]["l"] > 0) != bool(t.state.done):
            got = f"length {t.info['episode']['l']}, done {t.state.done}"
            fix = "Put `RecordEpisodeStatistics` around the wrapper that ends episodes."
            expected = "statistics at the end of each episode"
            yield Fault(".step", expected, got, fix)
