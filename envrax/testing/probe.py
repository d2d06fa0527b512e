"""`Probe`: the data that the rules check, each computed once, at the first use."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from envrax._jax.jaxprs import changes_host, largest_eps
from envrax.env import AnyEnv, EnvState, carries_over, starting_method_name
from envrax.termination import step_env
from envrax.testing.masks import why_unfit
from envrax.testing.pytrees import copy_to_edit, take, tree_to_numpy, value_differences
from envrax.wrappers.base import Wrapper, layers

RETURNED = ("obs", "state", "reward", "done", "info")
REASONS = ("terminated", "truncated")
UNCOMPILED_STEPS = 4  # they are slow
MOST_STEPS = 100_000  # of an episode whose end is looked for: there may be none
_SEVERAL = 5  # ends at one step that are hardly chance


class Transition(NamedTuple):
    """One step: its arguments and its results."""

    before: Any
    action: Any
    obs: Any
    state: Any
    reward: Any
    done: Any
    info: Any

    @property
    def returned(self) -> dict[str, Any]:
        """The results of `step`, by name."""
        return {name: getattr(self, name) for name in RETURNED}


class TraceCounter:
    """A function under `jax.jit` that counts its traces."""

    def __init__(self, function: Any) -> None:
        self.traces = 0
        self._function = function
        self._compiled: Any = jax.jit(self._trace)

    def _trace(self, *args: Any) -> Any:
        self.traces += 1
        return self._function(*args)

    def __call__(self, *args: Any) -> Any:
        return self._compiled(*args)


class Probe:
    """
    An environment under test.

    Parameters
    ----------
    env : JaxEnv
        The environment.
    num_steps : int
        Number of compiled steps. The first few also run uncompiled.
    seed : int
        Seed of all keys.
    gradients : bool
        Whether to check gradients.
    """

    state_class: type = EnvState
    may_keep_on_host = False

    def __init__(self, env: AnyEnv, num_steps: int, seed: int, gradients: bool) -> None:
        self.env = env
        self.num_steps = num_steps
        self.seed = seed
        self.gradients = gradients
        self.class_name = type(env).__name__
        self.traceable = env.traceable  # `nothing_is_kept_on_the_host` may set it
        self.reset = TraceCounter(env.reset)
        self.step = TraceCounter(env.step)
        self.compiled_mask: Any = jax.jit(env.action_mask)
        self.compiles = False  # `traces_under_jit` sets it
        self.traced_attributes: set[str] = set()  # `no_tracer_leaks` sets it
        self.begun: list[tuple[Any, Any]] = []  # what `next_episode` returned, in all steps so far

    @cached_property
    def rng(self) -> jax.Array:
        """The key of the first episode."""
        return jax.random.key(self.seed)

    @cached_property
    def other_rng(self) -> jax.Array:
        """Another key."""
        return jax.random.key(self.seed + 1)

    @cached_property
    def _action_keys(self) -> jax.Array:
        n = max(self.num_steps, UNCOMPILED_STEPS)
        return jax.random.split(jax.random.fold_in(self.rng, 1), n)

    @cached_property
    def actions(self) -> list[Any]:
        """A random action for each step, legal or not."""
        drawn = jax.vmap(self.env.action_space.sample)(self._action_keys)
        return [take(drawn, i) for i in range(len(self._action_keys))]

    def action(self, i: int, state: Any) -> Any:
        """The action of step `i`: a random action that is legal in the state before it."""
        mask = self.mask(state)
        if mask is None:
            return self.actions[i]
        return self.env.action_space.sample(self._action_keys[i], mask)

    @cached_property
    def has_masks(self) -> bool:
        """Whether the environment has a mask in the state after a reset."""
        try:
            return self.env.action_mask(self.at_reset[1]) is not None
        except Exception:  # `masks_fit_the_space` reports it
            return False

    def mask(self, state: Any) -> Any:
        """The mask of legal actions; None if there is none, or if it is faulty."""
        if not self.has_masks:
            return None
        try:
            mask = (self.compiled_mask if self.compiles else self.env.action_mask)(state)
        except Exception:
            return None
        return None if why_unfit(self.env.action_space, mask) else mask

    @cached_property
    def at_reset(self) -> tuple[Any, Any]:
        """Observation and state of an uncompiled reset."""
        return self.env.reset(self.rng)

    @cached_property
    def changes_host(self) -> str:
        """The first of `reset` and `step` with an `io_callback`; "" if neither has one."""
        changing = [method for method, program in self._programs.items() if changes_host(program)]
        return next(iter(changing), "")

    @cached_property
    def _programs(self) -> dict[str, Any]:
        """What `reset` and `step` are traced to; without those that cannot be traced."""
        programs: dict[str, Any] = {}
        if self.traceable:
            args = {"reset": (self.rng,), "step": (self.at_reset[1], self.actions[0])}
            for method, given in args.items():
                try:
                    programs[method] = jax.make_jaxpr(getattr(self.env, method))(*given)
                except Exception:  # `traces_under_jit` reports it
                    break
        return programs

    @cached_property
    def _eps(self) -> float:
        return largest_eps(self._programs.values())

    def differences(self, a: dict[str, Any], b: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
        """`value_differences`, floats up to rounding in the coarsest dtype of the environment."""
        return value_differences(a, b, self._eps)

    @cached_property
    def uncompiled(self) -> list[Transition]:
        """The first steps, uncompiled."""
        return list(self._run(self.env.reset, self.env.step, UNCOMPILED_STEPS))

    @cached_property
    def first_episode(self) -> list[Transition]:
        """The uncompiled steps that belong to the first episode."""
        ends = [i for i, t in enumerate(self.uncompiled) if self.needs_reset(t)]
        return self.uncompiled[: ends[0] + 1 if ends else None]

    @cached_property
    def transitions(self) -> list[Transition]:
        """All steps, compiled if the environment can be compiled."""
        if not self.traceable:
            return list(self._run(self.env.reset, self.env.step, self.num_steps))
        if not self.compiles:
            return self.uncompiled
        found = list(self._run(self.reset, self.step, self.num_steps))
        if any(map(self.needs_reset, found)):
            return found
        last = self.run_to_end(found[-1].state, self.rng)
        for t in filter(self.needs_reset, last):
            self.next_episode(t.state, self.reset)
        return found + last

    @cached_property
    def numpy_transitions(self) -> list[Transition]:
        """All steps as NumPy arrays."""
        return [tree_to_numpy(transition) for transition in self.transitions]

    def all_steps(self) -> Iterator[Transition]:
        """The uncompiled steps, then all steps as NumPy arrays, each computed when it is needed."""
        yield from self.uncompiled
        yield from self.numpy_transitions

    def needs_reset(self, t: Transition) -> bool:
        """Whether the caller has to reset after this step."""
        return bool(jnp.any(jnp.asarray(t.state.done)))

    def state_to_pass(self, state: Any) -> Any:
        """A copy of the state, for a call that may edit it."""
        return copy_to_edit(state)

    def repeat(self, t: Transition) -> Transition:
        """The same step again, uncompiled."""
        return t._replace(**by_name(self.env.step(self.state_to_pass(t.before), t.action)))

    def _run(self, reset: Any, step: Any, n: int) -> Iterator[Transition]:
        _ = self.has_masks  # asks a state of its own, before a simulator on the host is stepped
        _, state = reset(self.rng)
        for i in range(n):
            action = self.action(i, state)
            returned = copy_to_edit(step(self.state_to_pass(state), action))
            transition = Transition(state, action, *returned)
            yield transition
            state = transition.state
            if self.needs_reset(transition):
                _, state = self.next_episode(state, reset)

    def next_episode(self, state: Any, reset: Any) -> Any:
        """First observation and state of the episode after one that ended in `state`."""
        if carries_over(self.env):
            begun = self.env.reset_after(self.state_to_pass(state))
        else:
            begun = reset(jax.random.split(state.rng)[0])
        self.begun.append(begun)
        return begun

    @property
    def begins_in(self) -> str:
        """The method that begins the next episode, as the place of a fault."""
        return f".{starting_method_name(self.env)}"

    def run_to_end(self, state: Any, rng: jax.Array) -> list[Transition]:
        """
        The step that ends a long episode, or whose info says that it ends.

        A compiled loop runs up to it, with random actions of the key `rng`. The list is empty if no
        such step comes within `config.max_steps`, or within `MOST_STEPS`.
        """
        try:
            before, action, ended = self._loop_to_end(state, rng)
        except Exception:  # other rules report why it cannot run in a loop
            return []
        if not ended:
            return []
        returned = copy_to_edit(self.step(self.state_to_pass(before), action))
        return [Transition(before, action, *returned)]

    @cached_property
    def _loop_to_end(self) -> Any:
        """The loop of `run_to_end`: the last state, the action there, and whether it ends."""
        env, limit = self.env, jnp.minimum(self.env.config.max_steps, MOST_STEPS)

        def running(carry: Any) -> jax.Array:
            *_, ended, n, _ = carry
            return ~ended & (n < limit)

        def advance(carry: Any) -> Any:
            _, _, state, _, n, rng = carry
            key = jax.random.fold_in(rng, n)
            mask = self.mask(state)
            sample = env.action_space.sample
            action = sample(key) if mask is None else sample(key, mask)
            _, new_state, _, _, info = step_env(env, state, action)
            ended = new_state.done
            for reason in REASONS:
                ended |= jnp.any(jnp.asarray(info.get(reason, False)))
            return state, action, new_state, ended, n + 1, rng

        first, _ = self.actions[0], self.has_masks  # before JAX traces

        def loop(state: Any, rng: jax.Array) -> Any:
            start = state, first, state, jnp.bool_(False), jnp.int32(self.num_steps), rng
            before, action, _, ended, *_ = jax.lax.while_loop(running, advance, start)
            return before, action, ended

        return jax.jit(loop)

    def notes(self) -> Iterator[str]:
        """Notes on what the steps did not cover, and on ends that look like a time limit."""
        steps: list[Transition] = [*vars(self).get("transitions", ())]
        limit: Any = self.env.config.max_steps
        if not isinstance(limit, int):  # each episode draws its own
            limit = self.num_steps
        if limit == 1:
            yield "`config.max_steps` is 1, so every episode is one step: is it a placeholder?"
        ends = [t for t in steps if self.needs_reset(t)]
        if len(ends) >= _SEVERAL and not any(map(_is_truncated, ends)):
            counts = {int(t.state.step) for t in ends}
            if len(counts) == 1 and 1 not in counts:
                yield (
                    f"all {len(ends)} episodes ended at step {counts.pop()}, and none was "
                    "truncated: if that is a time limit, it truncates"
                )
        if steps and not ends:
            n = len(steps)
            if n < self.num_steps:
                advice = "fix the findings first; no more steps were run."
            else:
                n = max(n, min(limit, MOST_STEPS))
                advice = f"`config.max_steps` is {limit}; does `step` use it?"
                if n < limit:
                    advice = f"`config.max_steps` is {limit}: check it with a smaller one too."
            yield f"no episode ended within {n} steps, so no end was checked: {advice}"

    def zeros(self, dtype: Any) -> jax.Array:
        """A scalar 0; for a batch, one 0 per slot."""
        return jnp.zeros((), dtype)

    def after_hooks(self, hook: str, value: Any) -> Any:
        """
        A value of the innermost environment, passed through one hook of every wrapper.

        The rules expect this type from a stack: `ExpandDims` and `EpisodeDiscount` change the types
        of reward and done in their hooks.
        """
        return apply_hooks(self.env, hook, value)


def _is_truncated(t: Transition) -> bool:
    return bool(jnp.any(jnp.asarray(t.info.get("truncated", False))))


def apply_hooks(env: AnyEnv, hook: str, value: Any) -> Any:
    """Pass a value through a hook of every wrapper, the innermost first."""
    for layer in reversed(list(layers(env))):
        if isinstance(layer, Wrapper):
            value = getattr(layer, hook)(value)
    return value


def by_name(returned: tuple[Any, ...]) -> dict[str, Any]:
    """The results of `reset` or `step`, by name."""
    return dict(zip(RETURNED[: len(returned)], returned, strict=True))
