"""Rules on worlds: environments of several agents."""

from collections.abc import Iterator
from typing import Any, cast

import jax
import numpy as np

from envrax.spaces import Dict
from envrax.testing.probe import REASONS, Probe, Transition, by_name
from envrax.testing.pytrees import describe, value_differences
from envrax.testing.rules.base import Fault, Faults, SkipRule


def agents_are_named(probe: Probe) -> Faults:
    """`agents` is a tuple of different names, equal on every access. Both spaces are a `Dict` \
with exactly these keys."""
    env = probe.env
    names: Any = env.agents
    is_legal = isinstance(names, tuple) and {*map(type, cast(Any, names))} == {str}
    if not is_legal or len(set(names)) < len(names) or env.agents != names:
        fix = "Return the same tuple of names each time."
        expected = "a tuple of different names, equal on every access"
        yield Fault(".agents", expected, repr(names), fix)
    for kind in ("observation_space", "action_space"):
        space: Any = getattr(env, kind)
        if not isinstance(space, Dict) or {*space} != {*names}:
            fix = f"Return a `Dict` with the keys {', '.join(names)}."
            yield Fault(".agents", f"`{kind}` to have the space of each agent", f"{space}", fix)


def someone_is_active(probe: Probe) -> Faults:
    """`active` is a dict with a bool scalar for each agent. At least one is True until the world \
ends."""
    names = set(probe.env.agents)
    for state, active in _active(probe):
        got = {agent: describe(x) for agent, x in active.items()}
        if got != dict.fromkeys(names, "bool[]"):
            fix = "Return a bool scalar for each agent."
            yield Fault(".active", "bool[] for each agent", f"{got}", fix)
        if not any(map(bool, active.values())) and not bool(state.done):
            fix = "End the world in the step after which no agent is active."
            yield Fault(".active", "an active agent while the world runs", "none", fix)


def inactive_actions_do_nothing(probe: Probe) -> Faults:
    """The action of an inactive agent has no effect."""
    waited = False
    for i, (t, (_, active)) in enumerate(zip(probe.transitions, _active(probe), strict=False)):
        waiting = [agent for agent, acts in active.items() if not bool(acts)]
        drawn = probe.env.action_space.sample(jax.random.fold_in(probe.rng, i))
        if not waiting:
            continue
        waited = True
        action = {**t.action, **{agent: drawn[agent] for agent in waiting}}
        other = by_name(probe.step(probe.state_to_pass(t.before), action))
        for leaf, a, b in value_differences(by_name(t[2:]), other):
            fix = "Ignore the actions of agents for which `active` is False."
            expected = f"`{leaf}` to ignore the actions of {', '.join(waiting)}"
            yield Fault(".step", expected, f"{a} and {b}", fix)
    if not waited:
        raise SkipRule("all agents were active in all steps")


def ended_agents_stay(probe: Probe) -> Faults:
    """`info["agents"]`, if there is one, has bool scalars by agent under "terminated" and \
"truncated". A True stays until the world ends, and that agent is not `active`."""
    names = probe.env.agents
    active = _active_function(probe)
    form = {name: dict.fromkeys(sorted(names), "bool[]") for name in REASONS}
    before: Any = None
    for t, with_keys in zip(probe.numpy_transitions, probe.transitions, strict=True):
        ends = t.info.get("agents")
        if ends is None:
            return
        if (got := jax.tree.map(describe, ends)) != form:
            fix = "Return both reasons, with a bool scalar for each agent."
            yield Fault(".step", f'`info["agents"]` to be {form}', f"{got}", fix)
        back = before and jax.tree.map(lambda was, now: was & ~now, before, ends)
        if back and np.any(jax.tree.leaves(back)):
            fix = (
                "Keep in the state which agents have ended. An agent that may return has not "
                "ended: it is not `active`."
            )
            yield Fault(".step", '`info["agents"]` to stay True', "False after True", fix)
        acts = active(with_keys.state)
        ended = [x for x in names if ends["terminated"][x] | ends["truncated"][x]]
        back = [agent for agent in ended if bool(acts[agent])]
        if back and not t.state.done:
            fix = "Return False for an agent whose episode has ended."
            got = f"{back[0]} active"
            yield Fault(".active", "an agent that has ended to be inactive", got, fix)
        before = None if bool(t.state.done) else ends


def _active(probe: Probe) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The state before each step and the last one, each with its active agents."""
    steps: list[Transition] = probe.transitions
    active = _active_function(probe)
    for state in [*(t.before for t in steps), steps[-1].state]:
        yield state, active(state)


def _active_function(probe: Probe) -> Any:
    return jax.jit(probe.env.active) if probe.compiles else probe.env.active
