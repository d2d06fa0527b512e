"""Wrappers that repeat actions."""

from collections.abc import Callable
from typing import Any, Generic, cast

import chex
import jax
import jax.numpy as jnp

from envrax._checks.counts import require_count
from envrax._jax.keys import cond
from envrax._jax.types import strip_weak_type
from envrax.agent_values import by_agent, for_each, require_one_agent
from envrax.env import ActSpaceT, ConfigT, Info, JaxEnv, ObsSpaceT, StateT
from envrax.spaces import Box, conform
from envrax.spaces.flattening import zero_element
from envrax.wrappers.base import Wrapper
from envrax.wrappers.dict_observation import require_box
from envrax.wrappers.hooks import refuse_mask
from envrax.wrappers.stateful import InnerStateT, StatefulWrapper, WrapperState

Step = Callable[[Any, Any], tuple[Any, ...]]

_MAY_BECOME_ILLEGAL = "a repeated action may become illegal"


class RepeatAction(Wrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    Repeat each action for several steps, and add up the rewards, in float32.

    All other results are those of the last step. The repetition stops when the episode ends.
    `state.step` counts every step of the environment.

    A repeated action may become illegal. If the environment has masks and `num_repeats` is above 1,
    `action_mask` raises a `NotImplementedError`.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    num_repeats : int
        Number of steps for one action.

    Raises
    ------
    TypeError
        If `num_repeats` is not an int.
    ValueError
        If `num_repeats` is below 1.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> env = RepeatAction(CountingEnv(), num_repeats=3)
    >>> obs, state = env.reset(jax.random.key(0))
    >>> obs, state, reward, done, info = env.step(state, 2)
    >>> float(reward), int(state.step)
    (6.0, 3)
    """

    def __init__(
        self, env: JaxEnv[ObsSpaceT, ActSpaceT, StateT, ConfigT], num_repeats: int
    ) -> None:
        super().__init__(env)
        self.num_repeats = require_count("RepeatAction: expected num_repeats", num_repeats)

    def step(self, state: StateT, action: Any) -> tuple[Any, StateT, jax.Array, jax.Array, Info]:
        _, *results = _repeat(self, super().step, state, action, self.num_repeats)
        return cast(Any, tuple(results))

    def observe(self, state: StateT) -> Any:
        return self._observe_inner(state)

    def action_mask(self, state: StateT) -> Any:
        mask = super().action_mask(state)
        return mask if self.num_repeats == 1 else refuse_mask(self, mask, _MAY_BECOME_ILLEGAL)


class MaxAndSkipObservation(Wrapper[Box, ActSpaceT, StateT, ConfigT]):
    """
    Repeat the action, and return the elementwise maximum of the last two observations.

    Rewards are added up, in float32. The repetition stops when the episode ends. The maximum is
    then over the last two observations of this call, or its only one. Gymnasium includes frames of
    an earlier call. If the environment has `observe`, only these two are drawn.

    If the environment has masks, `action_mask` raises a `NotImplementedError`, because a repeated
    action may become illegal.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    skip : int, default 4
        Number of steps for one action.

    Raises
    ------
    TypeError
        If the observations are not in a Box, or `skip` is not an int.
    ValueError
        If `skip` is below 2.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> env = MaxAndSkipObservation(CountingEnv())
    >>> obs, state = env.reset(jax.random.key(0))
    >>> int(env.step(state, 0)[0][1])
    4
    """

    def __init__(self, env: JaxEnv[Any, ActSpaceT, StateT, ConfigT], skip: int = 4) -> None:
        super().__init__(env)
        require_one_agent("MaxAndSkipObservation", env)
        require_box(type(self), env)
        self.skip = require_count("MaxAndSkipObservation: expected skip", skip, least=2)

    def step(self, state: StateT, action: Any) -> tuple[Any, StateT, jax.Array, jax.Array, Info]:
        previous_obs, obs, *rest = _repeat(self, super().step, state, action, self.skip)
        return cast(Any, (jnp.maximum(previous_obs(), obs), *rest))

    def action_mask(self, state: StateT) -> Any:
        return refuse_mask(self, super().action_mask(state), _MAY_BECOME_ILLEGAL)


@chex.dataclass
class StickyActionState(WrapperState[InnerStateT]):
    """
    State of `StickyAction`.

    Attributes
    ----------
    last_action : pytree of jax.Array
        The action that the environment took in the last step.
    has_acted : jax.Array
        bool scalar, whether this episode had a step. In a multi-agent environment, a dict with one
        for each agent.
    """

    last_action: Any
    has_acted: jax.Array


class StickyAction(
    StatefulWrapper[ObsSpaceT, ActSpaceT, StickyActionState[InnerStateT], ConfigT, InnerStateT],
    Generic[ObsSpaceT, ActSpaceT, InnerStateT, ConfigT],
):
    """
    Repeat the last action with a fixed probability, instead of the new action.

    The first action of an episode is always taken. Every step splits `state.rng` and draws again;
    Gymnasium's `repeat_action_duration` is not supported. In a multi-agent environment, the draws
    of the agents are independent. An agent repeats its action of the last step in which it was
    active.

    A repeated action may be illegal. If the environment has masks, `action_mask` raises a
    `NotImplementedError`.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    repeat_action_probability : float
        At least 0 and below 1.

    Raises
    ------
    ValueError
        If the probability is out of range.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> env = StickyAction(CountingEnv(), repeat_action_probability=0.25)
    >>> obs, state = env.reset(jax.random.key(0))
    >>> float(env.step(state, 2)[2])
    2.0
    """

    def __init__(
        self,
        env: JaxEnv[ObsSpaceT, ActSpaceT, InnerStateT, ConfigT],
        repeat_action_probability: float,
    ) -> None:
        super().__init__(env)
        if not 0 <= repeat_action_probability < 1:
            raise ValueError(
                "StickyAction: expected 0 <= repeat_action_probability < 1; got "
                f"{repeat_action_probability}."
            )
        self.repeat_action_probability = repeat_action_probability

    def observe(self, state: StickyActionState[InnerStateT]) -> Any:
        return self._observe_inner(state.env_state)

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        has_acted = by_agent(self, jnp.bool_(False))
        return obs, {"last_action": zero_element(self.action_space), "has_acted": has_acted}

    def step(self, state: Any, action: Any) -> tuple[Any, Any, jax.Array, jax.Array, Info]:
        action = conform(self.action_space, action, "StickyAction.step")
        rng, key = jax.random.split(state.rng)
        keys: Any = key
        if self.agents:
            agent_keys = jax.random.split(key, len(self.agents))
            keys = dict(zip(self.agents, agent_keys, strict=True))
        active = self.active(state) or True
        choices = for_each(
            self, self._choose, keys, state.has_acted, active, state.last_action, action
        )
        taken, last, has_acted = (for_each(self, lambda x, i=i: x[i], choices) for i in range(3))
        return super().step(state.replace(rng=rng, last_action=last, has_acted=has_acted), taken)

    def _choose(
        self, key: jax.Array, has_acted: jax.Array, active: Any, last: Any, new: Any
    ) -> tuple[Any, Any, jax.Array]:
        """The action that one agent takes, its new `last_action` and its new `has_acted`."""
        draw = jax.random.uniform(key, (), jnp.float32)
        repeats = has_acted & (draw < self.repeat_action_probability)
        taken = jax.tree.map(lambda last, new: jnp.where(repeats, last, new), last, new)
        last = jax.tree.map(lambda last, taken: jnp.where(active, taken, last), last, taken)
        return taken, last, has_acted | active

    def action_mask(self, state: StickyActionState[InnerStateT]) -> Any:
        return refuse_mask(self, super().action_mask(state), _MAY_BECOME_ILLEGAL)


def _repeat(wrapper: Any, step: Step, state: Any, action: Any, times: int) -> tuple[Any, ...]:
    """
    Take up to `times` steps with the same action. Stop when the episode ends.

    If the environment has `observe`, only the last two observations are drawn: the loop keeps
    states, and XLA leaves out what the steps draw.

    Returns
    -------
    previous_obs : callable
        Draws the observation of the step before the last one; after a single step, of this step.
    obs, state, reward, done, info
        The results of the last step, with the sum of the rewards, float32.
    """
    observe = wrapper._observe_inner
    draws_later = wrapper.traceable and jax.eval_shape(observe, state) is not None

    def kept(obs: Any, state: Any) -> Any:
        return state if draws_later else obs

    def draw(kept: Any) -> Any:
        return strip_weak_type(observe(kept)) if draws_later else kept

    def take_one(state: Any) -> tuple[Any, Any]:
        obs, state, reward, done, info = strip_weak_type(step(state, action))
        # A narrow dtype, such as int8, would overflow.
        reward = jax.tree.map(lambda x: x.astype(jnp.float32), reward)
        return None if draws_later else obs, (state, reward, done, info)

    def take_step(carry: Any) -> Any:
        _, obs, (state, total, *_) = carry
        previous = kept(obs, state)
        obs, (state, reward, done, info) = take_one(state)
        return previous, obs, (state, jax.tree.map(jnp.add, total, reward), done, info)

    def step_unless_done(carry: Any, _: None) -> tuple[Any, None]:
        return cond(carry[2][0].done, lambda carry: carry, take_step, carry), None

    obs, results = take_one(state)
    carry = (kept(obs, results[0]), obs, results)
    if wrapper.traceable:
        carry = jax.lax.scan(step_unless_done, carry, None, times - 1)[0]
    else:
        for _ in range(times - 1):
            carry = carry if bool(carry[2][0].done) else take_step(carry)
    previous, obs, results = carry
    return lambda: draw(previous), draw(kept(obs, results[0])), *results
