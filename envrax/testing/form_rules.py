"""Rules on what `reset` and `step` return: structure, shape, dtype, values."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax.env import EnvState
from envrax.spaces import Space
from envrax.testing.membership import why_outside
from envrax.testing.probe import Probe
from envrax.testing.rules import Fault, Faults, SkipRule, raised
from envrax.testing.trees import form, forms, host, leaves, other_forms, strong_form

_RETURNS = {"reset": "(obs, state)", "step": "(obs, new_state, reward, done, info)"}

PYTHON_NUMBERS = (bool, int, float, complex)


def spaces_are_legal(probe: Probe) -> Faults:
    """Both spaces are a `Space`, equal on every access, and contain what they sample."""
    for name in ("observation_space", "action_space"):
        where = f"{probe.who}.{name}"
        try:
            space = getattr(probe.env, name)
        except Exception as error:
            yield raised(where, "a Space", error, "Return a space, such as a Box.")
            continue
        yield from space_faults(where, space, probe.rng, lambda n=name: getattr(probe.env, n))


def space_faults(where: str, space: Any, rng: jax.Array, again: Any) -> Faults:
    """What is wrong with one space; `again` gives it anew."""
    if not isinstance(space, Space):
        fix = "Return an instance of a space, such as Discrete(4)."
        yield Fault(where, "a Space", repr(space), fix)
        return
    second = again()
    if second != space:
        fix = "Build it from the config alone, and give a space of your own an `__eq__`."
        yield Fault(where, "an equal space on every access", f"{space}, then {second}", fix)
    try:
        sample = space.sample(rng)
        outside = why_outside(space, sample, "sample")
    except Exception as error:
        yield raised(where, "a space that samples", error, "Mend its `sample` and `contains`.")
        return
    if outside:
        fix = "Let `sample` and `contains` agree."
        yield Fault(where, f"`{outside[0]}` {outside[1]}", outside[2], fix)


def reset_returns(probe: Probe) -> Faults:
    """`reset(rng)` runs and returns `(obs, state)`, the state an `EnvState`."""
    yield from call_faults(probe, "reset", lambda: probe.begun, EnvState)


def step_returns(probe: Probe) -> Faults:
    """`step(state, action)` runs and returns `(obs, new_state, reward, done, info)`."""
    state, action = probe.lend(probe.begun[1]), probe.actions[0]
    yield from call_faults(probe, "step", lambda: probe.env.step(state, action), EnvState)


def call_faults(probe: Probe, method: str, call: Any, state_class: type) -> Faults:
    """What is wrong with a call and the form of what it returns."""
    where, returns = f"{probe.who}.{method}", _RETURNS[method]
    try:
        returned = call()
    except Exception as error:
        fix = "It is called with one typed key, and with samples of `action_space`."
        yield raised(where, f"{returns} to be returned", error, fix)
        return
    size = len(returns.split(", "))
    if not isinstance(returned, tuple) or len(returned) != size:
        got = f"a tuple of length {len(returned)}" if isinstance(returned, tuple) else ""
        got = got or strong_form(returned)
        yield Fault(where, f"a tuple {returns}", got, f"Return these {size}, in that order.")
        return
    if not isinstance(returned[1], state_class):
        fix = "Extend EnvState with `@chex.dataclass`."
        yield Fault(where, "an EnvState in second place", type(returned[1]).__name__, fix)
    if size == 5 and not isinstance(returned[4], dict):
        yield Fault(where, "info to be a dict", repr(returned[4]), "Return `{}` if there is none.")


def observations_are_in_the_space(probe: Probe) -> Faults:
    """Every observation has the structure, shapes, dtypes and bounds of `observation_space`."""
    space = probe.env.observation_space
    reset, step = f"{probe.who}.reset", f"{probe.who}.step"
    seen = [(reset, probe.begun[0])] + [(step, t.obs) for t in (*probe.plain, *probe.episode)]
    for where, obs in seen:
        if outside := why_outside(space, obs, "obs"):
            leaf, expected, got = outside
            fix = f"Return what `observation_space` promises, {space}, or widen the space."
            yield Fault(where, f"`{leaf}` {expected}", got, fix)
            return


def reset_and_step_agree(probe: Probe) -> Faults:
    """The state is made of arrays; after a step it has the leaves, shapes, dtypes and weak types \
of that at reset, and so has the observation."""
    obs, state = probe.begun
    for leaf, x in leaves(state, "state").items():
        if type(x) in PYTHON_NUMBERS:
            fix = "Write `jnp.int32(0)`, `jnp.bool_(False)` or `jnp.asarray(x, dtype)`."
            got = f"the Python {type(x).__name__} {x}"
            yield Fault(f"{probe.who}.reset", f"`{leaf}` to be an array", got, fix)
    if any(type(x) in PYTHON_NUMBERS for x in leaves(state, "state").values()):
        return
    at_reset = {**forms(obs, "obs"), **forms(state, "state")}
    for t in probe.plain:
        after = {**forms(t.obs, "obs"), **forms(t.state, "state")}
        for leaf, before, now in other_forms(at_reset, after):
            weak = "weak" in before + now
            fix = (
                "A Python number makes it weak: write `jnp.int32(0)` or `jnp.asarray(x, dtype)`."
                if weak
                else "Return the same from both, for example with `jnp.asarray(x, dtype)`."
            )
            yield Fault(f"{probe.who}.step", f"`{leaf}` as at reset, {before}", now, fix)
        if type(t.state) is not type(state):
            got, fix = type(t.state).__name__, "Return the same class from both."
            yield Fault(f"{probe.who}.step", f"a state of class {type(state).__name__}", got, fix)


def done_is_a_flag(probe: Probe) -> Faults:
    """`done` is a bool scalar that equals `state.done`, False at reset; a wrapper whose hook \
`done` re-types it returns what the hook makes of `state.done`."""
    reset, step = f"{probe.who}.reset", f"{probe.who}.step"
    state, fix = probe.begun[1], "Return one bool, for example the result of a comparison."
    if strong_form(state.done) != "bool[]":
        yield Fault(reset, "`state.done` to be bool[]", strong_form(state.done), fix)
        return
    if bool(state.done):
        yield Fault(reset, "`state.done` to be False", "True", "Begin with `jnp.bool_(False)`.")
    like = form(probe.expected("done", jnp.bool_(False)))
    for t in probe.plain:
        for name, done, wanted in (("state.done", t.state.done, "bool[]"), ("done", t.done, like)):
            if strong_form(done) != wanted:
                yield Fault(step, f"`{name}` to be {wanted}", strong_form(done), fix)
                return
    for t in probe.episode:
        told = host(probe.expected("done", jnp.asarray(t.state.done)))
        if not np.array_equal(told, t.done):
            got = f"{t.done} beside a `state.done` of {t.state.done}"
            fix = "Write the same value to both: `state.replace(done=done)`."
            yield Fault(step, "`done` to equal `state.done`", got, fix)


def step_counts(probe: Probe) -> Faults:
    """`state.step` is an int32 scalar, 0 at reset and one more after every step; a wrapper may \
take several steps in one."""
    reset, step = f"{probe.who}.reset", f"{probe.who}.step"
    first, wrapped = probe.begun[1].step, probe.env.unwrapped is not probe.env
    if strong_form(first) != "int32[]":
        fix = "Begin with `jnp.int32(0)`."
        yield Fault(reset, "`state.step` to be int32[]", strong_form(first), fix)
        return
    if int(first) != 0:
        yield Fault(reset, "`state.step` to be 0", str(first), "Begin with `jnp.int32(0)`.")
    for t in (*probe.plain, *probe.episode):
        counted = int(t.state.step) - int(t.before.step)
        if counted != 1 and not (wrapped and counted > 1):
            got = f"{t.state.step} after {t.before.step}"
            fix = "Write `state.replace(step=state.step + 1)`."
            yield Fault(step, "`state.step` to be one more after a step", got, fix)


def reward_is_a_float(probe: Probe) -> Faults:
    """The reward is a finite float32 scalar, or what the hooks of wrappers make of one."""
    where, told = f"{probe.who}.step", form(probe.expected("reward", probe.zeros(jnp.float32)))
    like = f"float32{told[told.index('[') :]}"
    for t in probe.plain:
        if strong_form(t.reward) != like:
            fix = "Bring it there with `jnp.asarray(x, jnp.float32)`, or reduce it."
            yield Fault(where, f"`reward` to be {like}", strong_form(t.reward), fix)
            return
    for t in probe.episode:
        if not np.isfinite(np.asarray(t.reward, np.float64)).all():
            fix = "Guard what divides or overflows; one such value spoils a whole batch."
            yield Fault(where, "`reward` to be finite", str(t.reward), fix)


def info_is_fixed(probe: Probe) -> Faults:
    """`info` has the same string keys, shapes and dtypes on every step, and holds arrays only."""
    where, first = f"{probe.who}.step", probe.plain[0].info
    for key in first:
        if not isinstance(key, str):
            yield Fault(where, "the keys of `info` to be strings", repr(key), "Name it.")
    for leaf, got in forms(first, "info").items():
        if got.startswith("a "):
            fix = "Leave it out, or make a number of it."
            yield Fault(where, f"`{leaf}` to be an array", got, fix)
    for t in probe.plain[1:]:
        for leaf, before, now in other_forms(forms(first, "info"), forms(t.info, "info")):
            fix = "Return every key on every step, with a value that says nothing where it must."
            yield Fault(where, f"`{leaf}` as on the first step, {before}", now, fix)


def ends_have_reasons(probe: Probe) -> Faults:
    """`info["terminated"]` and `info["truncated"]`, where there are any, are bool scalars, at \
least one of them True just where the episode is done."""
    names, where = ("terminated", "truncated"), f"{probe.who}.step"
    told = [name for name in names if name in probe.plain[0].info]
    if not told:
        raise SkipRule('info tells neither "terminated" nor "truncated"')
    if len(told) == 1:
        fix = "Tell both: bootstrapping on a time limit depends on it."
        yield Fault(where, f"`info` with {' and '.join(names)}", f"{told[0]} alone", fix)
        return
    for name in names:
        got = strong_form(probe.plain[0].info[name])
        if got != "bool[]":
            fix = "Return one bool, for example the result of a comparison."
            yield Fault(where, f"`info.{name}` to be bool[]", got, fix)
            return
    for t in probe.episode:
        terminated, truncated = (bool(t.info[name]) for name in names)
        if (terminated or truncated) != bool(t.state.done):
            got = f"terminated {terminated}, truncated {truncated}, done {t.state.done}"
            fix = "Write `done = terminated | truncated`."
            yield Fault(where, "`done` to be `terminated | truncated`", got, fix)


def image_faults(where: str, draw: Any) -> Faults:
    """What is wrong with a drawing."""
    try:
        image = draw()
    except NotImplementedError:
        raise SkipRule("it does not draw itself") from None
    except Exception as error:
        yield raised(where, "an image", error, "It is called with a state of one environment.")
        return
    got = f"{type(image).__name__} {form(image)}"
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.shape[2:] != (3,):
        fix = "Return `np.asarray(image, np.uint8)`, red, green and blue last."
        yield Fault(where, "a NumPy array of shape (H, W, 3), uint8", got, fix)


def render_is_an_image(probe: Probe) -> Faults:
    """`render`, where there is one, gives a NumPy array of shape (H, W, 3), uint8, of one size."""
    where, states = f"{probe.who}.render", (probe.begun[1], probe.plain[-1].state)
    faults = list(image_faults(where, lambda: probe.env.render(states[0])))
    yield from faults
    if faults:
        return
    first, last = (probe.env.render(state) for state in states)
    if first.shape != last.shape:
        fix = "Draw every state at one size: a video has one."
        yield Fault(where, f"every image of shape {first.shape}", str(last.shape), fix)
