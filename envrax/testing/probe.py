"""What the rules for a `JaxEnv` look at, worked out once."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from envrax.env import EnvState, JaxEnv, episode_ended
from envrax.testing.trees import host, lent, rows
from envrax.wrappers.base import Wrapper, layers

AnyEnv = JaxEnv[Any, Any, Any, Any]

RETURNED = ("obs", "state", "reward", "done", "info")
PLAIN_STEPS = 4  # uncompiled ones, which are slow


class Transition(NamedTuple):
    """A step: what it was given, and what it returned."""

    before: Any
    action: Any
    obs: Any
    state: Any
    reward: Any
    done: Any
    info: Any

    @property
    def returned(self) -> dict[str, Any]:
        """What `step` returned, by name."""
        return {name: getattr(self, name) for name in RETURNED}


class Counted:
    """A function under `jax.jit` that counts how often it is traced."""

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
    An environment under examination.

    Parameters
    ----------
    env : JaxEnv
        The environment.
    num_steps : int
        Compiled steps; the first few are repeated uncompiled.
    seed : int
        Seed of all keys.
    gradients : bool
        Whether gradients are looked at.
    """

    def __init__(self, env: AnyEnv, num_steps: int, seed: int, gradients: bool) -> None:
        self.env, self.num_steps, self.seed, self.gradients = env, num_steps, seed, gradients
        self.who = type(env).__name__
        self.traceable = env.traceable
        self.reset, self.step = Counted(env.reset), Counted(env.step)
        self.traced = False  # set by the rule that traces

    @cached_property
    def rng(self) -> jax.Array:
        """The key of the episode."""
        return jax.random.key(self.seed)

    @cached_property
    def other_rng(self) -> jax.Array:
        """Another key."""
        return jax.random.key(self.seed + 1)

    @cached_property
    def actions(self) -> list[Any]:
        """An action for each step."""
        n = max(self.num_steps, PLAIN_STEPS)
        keys = jax.random.split(jax.random.fold_in(self.rng, 1), n)
        drawn = jax.vmap(self.env.action_space.sample)(keys)
        return [rows(drawn, i) for i in range(n)]

    @cached_property
    def begun(self) -> tuple[Any, Any]:
        """Observation and state of a plain reset."""
        return self.env.reset(self.rng)

    @cached_property
    def plain(self) -> list[Transition]:
        """The first steps, uncompiled."""
        return list(self._play(self.env.reset, self.env.step, PLAIN_STEPS))

    @cached_property
    def first_episode(self) -> list[Transition]:
        """Those of the plain steps that belong to the first episode."""
        ends = [i for i, t in enumerate(self.plain) if self.ended(t)]
        return self.plain[: ends[0] + 1 if ends else None]

    @cached_property
    def played(self) -> list[Transition]:
        """All steps: compiled, on the host, or the plain ones of what cannot be compiled."""
        if not self.traceable:
            return list(self._play(self.env.reset, self.env.step, self.num_steps))
        if not self.traced:
            return self.plain
        played = list(self._play(self.reset, self.step, self.num_steps))
        return played if any(map(self.ended, played)) else played + self.end(played[-1].state)

    @cached_property
    def episode(self) -> list[Transition]:
        """All steps as NumPy arrays."""
        return [host(transition) for transition in self.played]

    def ended(self, t: Transition) -> bool:
        """Whether the next episode has to be begun by hand."""
        return bool(jnp.any(jnp.asarray(t.state.done)))

    def lend(self, state: Any) -> Any:
        """The state for a call that may edit it."""
        return lent(state)

    def again(self, t: Transition) -> Transition:
        """The same step once more, uncompiled."""
        return t._replace(**named(self.env.step(self.lend(t.before), t.action)))

    def _play(self, reset: Any, step: Any, n: int) -> Iterator[Transition]:
        _, state = reset(self.rng)
        for action in self.actions[:n]:
            transition = Transition(state, action, *lent(step(self.lend(state), action)))
            yield transition
            state = transition.state
            if self.ended(transition):
                _, state = reset(jax.random.split(state.rng)[0])

    def end(self, state: Any) -> list[Transition]:
        """The step that ends a longer episode, run to in one program; nothing if none comes."""
        env, limit = self.env, self.env.config.max_steps

        def running(carry: Any) -> jax.Array:
            *_, over, n = carry
            return ~over & (n < limit)

        def advance(carry: Any) -> Any:
            _, _, state, _, n = carry
            action = env.action_space.sample(jax.random.fold_in(self.rng, n))
            _, new_state, _, done, _ = env.step(state, action)
            return state, action, new_state, episode_ended(env, new_state, done), n + 1

        try:
            begun = state, self.actions[0], state, jnp.bool_(False), jnp.int32(self.num_steps)
            before, action, _, over, _ = jax.lax.while_loop(running, advance, begun)
        except Exception:  # what keeps it from running in a loop is for the rules to say
            return []
        if not over:
            return []
        return [Transition(before, action, *lent(self.step(self.lend(before), action)))]

    def notes(self) -> Iterator[str]:
        """What the episode did not show."""
        played = vars(self).get("played", ())
        if played and not any(map(self.ended, played)):
            limit, n = self.env.config.max_steps, len(played)
            if n < self.num_steps:
                advice = "mend what is broken first, no more were looked at."
            else:
                n = max(n, limit)
                advice = f"`config.max_steps` is {limit}, does `step` read it?"
            yield f"no episode ended within {n} steps, so that no end was looked at: {advice}"

    def zeros(self, dtype: Any) -> jax.Array:
        """A number, or one of every slot."""
        return jnp.zeros((), dtype)

    def expected(self, hook: str, value: Any) -> Any:
        """
        What the wrappers of the stack make of a value of the innermost environment.

        `ExpandDims` and `EpisodeDiscount` re-type the reward and the done that they return: the
        hook of the wrapper says how, so that it is the contract of the stack.
        """
        return through_hooks(self.env, hook, value)


def through_hooks(env: AnyEnv, hook: str, value: Any) -> Any:
    """What the wrappers of a stack make of a value, the innermost first."""
    for layer in reversed(list(layers(env))):
        if isinstance(layer, Wrapper):
            value = getattr(layer, hook)(value)
    return value


def named(returned: tuple[Any, ...]) -> dict[str, Any]:
    """What `reset` or `step` returned, by name."""
    return dict(zip(RETURNED[: len(returned)], returned, strict=True))


def with_rng(state: Any, rng: jax.Array) -> Any:
    """The state with another key, the states of wrapped environments in it too."""
    inner = getattr(state, "env_state", None)
    changes = {"env_state": with_rng(inner, rng)} if isinstance(inner, EnvState) else {}
    return state.replace(rng=rng, **changes)
