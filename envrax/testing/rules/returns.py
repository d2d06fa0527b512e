"""Rules on the results of `reset`, `step`, `observe` and `render`."""

from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._jax.returned import RETURNS, declare, undeclared
from envrax.env import carries_over, starting_method_name
from envrax.testing.probe import Probe
from envrax.testing.pytrees import (
    describe,
    describe_as,
    describe_weak,
    edits_of,
    leaves,
    type_differences,
    value_differences,
)
from envrax.testing.rules.base import Fault, Faults, SkipRule, fault_of

SOME_IMAGES = 8  # of states, or of slots: drawing may be slow
_PYTHON_NUMBERS = (bool, int, float, complex)


def reset_returns(probe: Probe) -> Faults:
    """`reset(rng)` runs and returns `(obs, state)`; the state of a `JaxEnv` is an `EnvState`."""
    yield from _call_faults(probe, "reset", lambda: probe.at_reset)


def step_returns(probe: Probe) -> Faults:
    """`step(state, action)` runs and returns `(obs, new_state, reward, done, info)`."""
    first = probe.at_reset[1]
    state = probe.state_to_pass(first)
    action = probe.action(0, first)
    yield from _call_faults(probe, "step", lambda: probe.env.step(state, action))


def reset_after_begins_an_episode(probe: Probe) -> Faults:
    """`reset_after(state)`, if overridden, returns the same types as `reset`: an observation in \
the space, and a state with `step` 0 and `done` False."""
    env = probe.env
    if not carries_over(env):
        return
    first = probe.at_reset[1]
    last = env.step(probe.state_to_pass(first), probe.action(0, first))[1]
    last = last.replace(done=jnp.ones_like(last.done))

    def call() -> Any:
        return env.reset_after(probe.state_to_pass(last))

    yield from _call_faults(probe, "reset_after", call)
    obs, state = call()
    at_reset = {"obs": probe.at_reset[0], "state": probe.at_reset[1]}
    for leaf, before, now in type_differences(at_reset, {"obs": obs, "state": state}):
        fix = "Return the same from both, for example with `jnp.asarray(x, dtype)`."
        yield Fault(".reset_after", f"`{leaf}` as at reset, {before}", now, fix)
    if bool(state.done) or int(state.step) != 0:
        got, fix = f"{state.done} and {state.step}", "Return the state of a reset."
        yield Fault(".reset_after", "`state.done` to be False and `state.step` 0", got, fix)
    if not bool(env.observation_space.contains(obs)):
        fix = "Return the observation of the new state."
        yield Fault(".reset_after", "the observation to be in the space", describe(obs), fix)


def _call_faults(probe: Probe, method: str, call: Any) -> Faults:
    """Faults of a call and of the tuple that it returns."""
    returns = f"({RETURNS[method]})"
    try:
        returned = call()
    except Exception as error:
        fix = "The check passes one typed key to `reset`, and samples of `action_space` to `step`."
        yield fault_of(error, f".{method}", f"{returns} to be returned", fix)
        return
    size = len(returns.split(", "))
    if not isinstance(returned, tuple) or len(returned) != size:
        is_tuple = isinstance(returned, tuple)
        got = f"a tuple of length {len(returned)}" if is_tuple else describe(returned)
        yield Fault(f".{method}", f"a tuple {returns}", got, f"Return these {size}, in this order.")
    if not isinstance(returned[1], probe.state_class):
        fix = "Extend EnvState with `@chex.dataclass`."
        got = type(returned[1]).__name__
        yield Fault(f".{method}", "the second value to be an EnvState", got, fix)
    if name := undeclared(returned[1]):
        expected = "the state to have the fields of its class"
        yield Fault(f".{method}", expected, f"`{name}` too", declare(name))
    info = cast(Any, returned[4] if size == 5 else {})
    is_dict = isinstance(info, dict)
    if not is_dict:
        fix = "Return `{}` if there is none."
        yield Fault(f".{method}", "info to be a dict", repr(info), fix)
    keys: list[object] = [*info] if is_dict else []
    for key in keys:
        if not isinstance(key, str):
            fix = "Use a string as the key."
            yield Fault(f".{method}", "the keys of `info` to be strings", repr(key), fix)


def reset_and_step_agree(probe: Probe) -> Faults:
    """The state holds only arrays. State and observation have the same leaves, shapes, dtypes and \
weak types after a step as at reset."""
    obs, state = probe.at_reset
    numbers = {k: x for k, x in leaves(state, "state").items() if type(x) in _PYTHON_NUMBERS}
    for leaf, x in numbers.items():
        fix = "Write `jnp.int32(0)`, `jnp.bool_(False)` or `jnp.asarray(x, dtype)`."
        got = f"the Python {type(x).__name__} {x}"
        yield Fault(".reset", f"`{leaf}` to be an array", got, fix)
    if numbers:
        return
    at_reset = {"obs": obs, "state": state}
    for t in probe.uncompiled:
        for leaf, before, now in type_differences(at_reset, {"obs": t.obs, "state": t.state}):
            fix = (
                "A Python number makes it weak: write `jnp.int32(0)` or `jnp.asarray(x, dtype)`."
                if "weak" in before + now
                else "Return the same from both, for example with `jnp.asarray(x, dtype)`."
            )
            yield Fault(".step", f"`{leaf}` as at reset, {before}", now, fix)
        if type(t.state) is not type(state):
            got, fix = type(t.state).__name__, "Return the same class from both."
            yield Fault(".step", f"a state of class {type(state).__name__}", got, fix)


def observe_agrees(probe: Probe) -> Faults:
    """`observe(new_state)`, if it is not None, equals the observation that `reset` or `step` \
returns, bit for bit where both are compiled together."""
    env = probe.env

    def both(method: Any) -> Any:
        def call(*args: Any) -> Any:
            obs, state = method(*args)[:2]
            return obs, env.observe(state)

        return jax.jit(call)

    def faults(method: str, obs: Any, observed: Any) -> Faults:
        for leaf, a, b in value_differences({"obs": obs}, {"obs": observed}, exact=True):
            fix = (
                f"Return `self.observe(new_state)` from `{method}`, or None from `observe` if the "
                "state does not determine the observation."
            )
            got = f"{b}, where `{method}` has {a}"
            yield Fault(".observe", f"`{leaf}` of `{method}`", got, fix)

    obs, observed = both(env.reset)(probe.rng)
    if observed is None:
        return
    yield from faults("reset", obs, observed)
    step = both(env.step)
    for t in probe.transitions:
        yield from faults("step", *step(probe.state_to_pass(t.before), t.action))
    ended = [t.state for t in probe.transitions if probe.needs_reset(t)]
    begin = both(env.reset_after)
    for state in ended or [probe.transitions[-1].state]:
        yield from faults(starting_method_name(env), *begin(probe.state_to_pass(state)))


def info_is_fixed(probe: Probe) -> Faults:
    """`info` has the same string keys, shapes and dtypes on every step, and holds only arrays."""
    first = probe.uncompiled[0].info
    for leaf, x in leaves(first, "info").items():
        if (got := describe(x)).startswith("a "):
            fix = "Remove it, or encode it as a number."
            yield Fault(".step", f"`{leaf}` to be an array", got, fix)
    for t in probe.uncompiled[1:]:
        for leaf, before, now in type_differences({"info": first}, {"info": t.info}):
            fix = "Return every key on every step; use a default such as 0 where there is no value."
            yield Fault(".step", f"`{leaf}` as on the first step, {before}", now, fix)


def render_is_an_image(probe: Probe) -> Faults:
    """`render`, if there is one, returns a NumPy array of shape (H, W, 3), uint8, of one size. It \
changes no state."""

    steps = probe.transitions
    ended = [t.state for t in steps if probe.needs_reset(t)]
    some = [t.state for t in steps[:: 1 + len(steps) // SOME_IMAGES]]
    drawn: list[tuple[Any, str]] = []

    def draw(state: Any) -> Any:
        drawn.append(edits_of(probe.env.render, {"state": probe.state_to_pass(state)}))
        return drawn[-1][0]

    for state in (probe.at_reset[1], *some, *ended[:1]):
        yield from image_faults(".render", partial(draw, state))
        if edited := drawn[-1][1]:
            fix = "Write only into arrays of your own."
            yield Fault(".render", "the state to stay unchanged", edited, fix)
    shapes = [image.shape for image, _ in drawn]
    if other := next((x for x in shapes if x != shapes[0]), None):
        fix = "Draw every state at the same size: a video has one size."
        yield Fault(".render", f"every image of shape {shapes[0]}", str(other), fix)


def image_faults(where: str, draw: Any) -> Faults:
    """Faults of an image."""
    try:
        image = draw()
    except NotImplementedError:
        raise SkipRule("there is no `render`") from None
    except Exception as error:
        yield fault_of(error, where, "an image", "It is called with the state of one environment.")
        return
    is_numpy = isinstance(image, np.ndarray)
    got = describe_as(image.dtype, image.shape) if is_numpy else describe_weak(image)
    got = f"{type(image).__name__} {got}"
    if not is_numpy or image.dtype != np.uint8 or image.shape[2:] != (3,):
        fix = "Return `np.asarray(image, np.uint8)` with red, green and blue on the last axis."
        yield Fault(where, "a NumPy array of shape (H, W, 3), uint8", got, fix)
