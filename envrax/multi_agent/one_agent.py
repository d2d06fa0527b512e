"""`OneAgent`: the view of one agent, in which a policy moves the others."""

from functools import partial
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from envrax._jax.keys import cond
from envrax._jax.mesh import while_loop
from envrax._jax.returned import strip_weak_type
from envrax.autoreset.slot import checked_reset, checked_step, next_episode
from envrax.batched_env import AnyBatch, BatchedEnv
from envrax.env import AnyEnv, ConfigT, EnvState, Info, JaxEnv
from envrax.multi_agent.agents import always_acts, require_agents
from envrax.multi_agent.other_agents import OtherAgentsPolicy
from envrax.rollouts.policy import Policy
from envrax.spaces.base import kind, limits
from envrax.spaces.conform import conform
from envrax.spaces.flattening import zero_element
from envrax.spaces.masks import all_legal_if
from envrax.termination import end_of_step
from envrax.wrappers.base import AgentSpaces, require_that


@chex.dataclass
class OneAgentState(EnvState):
    """
    State of `OneAgent`. Its `step` counts the agent's own moves.

    Attributes
    ----------
    env_state : EnvState
        State of the world; its `step` counts the steps of the world.
    policy_state : pytree
        State of the other agents' policy.
    last_obs, last_info : dict
        The last observations of the others, and an empty dict; in a world with turns, the last
        observations of all agents and the last info.
    pending_reward : jax.Array
        float32 scalar, rewards of the agent since its last move.
    agent_done : jax.Array
        bool scalar, whether the agent's episode ended, even before its first move.
    """

    env_state: Any
    policy_state: Any
    last_obs: dict[str, Any]
    pending_reward: jax.Array
    last_info: Info
    agent_done: jax.Array


class OneAgent(AgentSpaces[OneAgentState, ConfigT]):
    """
    One agent of a multi-agent environment, as a plain `JaxEnv` in which a policy moves the others.

    `reset` and `step` play the turns of the others until the agent is active or its episode ends.
    The agent's rewards of these turns are summed; those of turns in `reset` are added to the first
    step. If the episode ends before the agent's first move, the first step only reports it. JAX
    differentiates these turns forward only: use `jax.jvp`, not `jax.grad`.

    Parameters
    ----------
    env : JaxEnv
        The world.
    agent : str
        The agent.
    others : callable or None
        A policy as for `rollout`, which takes and returns dicts of the other agents. None draws
        legal actions.
    policy_state : pytree, optional
        The policy's first state. It is part of the environment's state: put parameters that change
        here. Auto-reset keeps it; `with_policy_state` replaces it.
    end_with_agent : bool, default True
        End the episode when the agent's own ends. If False, it ends with the world's.

    Raises
    ------
    ValueError
        If there is no such agent.
    TypeError
        If `env` has a `RecordEpisodeStatistics`, which would miss the ends of the agent, or a
        wrapper that runs on the host, such as `RecordVideo`: put these around `OneAgent`.
    """

    changes_episodes = True

    def __init__(
        self,
        env: JaxEnv[Any, Any, Any, ConfigT],
        agent: str,
        others: Policy | None,
        policy_state: Any = None,
        *,
        end_with_agent: bool = True,
    ) -> None:
        require_agents("OneAgent: expected agent", env, [agent])
        super().__init__(env, agent)
        require_that(env.traceable, type(self), "a world that JAX can trace", env)
        self.policy_state, self.end_with_agent = policy_state, end_with_agent
        self._others = OtherAgentsPolicy(env, [x for x in env.agents if x != agent], others)
        self._has_turns = not always_acts(env, agent)

    def reset(self, rng: jax.Array) -> tuple[Any, OneAgentState]:
        rng, key = jax.random.split(rng)
        policy_state = strip_weak_type(self.policy_state)
        return self._begin(*checked_reset(self.env, key), rng, policy_state)

    def reset_after(self, state: OneAgentState) -> tuple[Any, OneAgentState]:
        """Begin the world's next episode, with the same `policy_state`."""
        obs, inner = next_episode(self.env, state.env_state)
        return self._begin(obs, inner, state.rng, state.policy_state)

    def step(
        self, state: OneAgentState, action: Any
    ) -> tuple[Any, OneAgentState, jax.Array, jax.Array, Info]:
        action = conform(self.action_space, action, "OneAgent.step", "action")
        play = self._round if self._has_turns else self._turn
        played = play(state, action)
        new = played.replace(
            step=state.step + 1, pending_reward=jnp.float32(0), done=played.agent_done
        )
        return (
            played.last_obs[self.agent],
            self._drop_turn_fields(new),
            played.pending_reward,
            played.agent_done,
            played.last_info,
        )

    def action_mask(self, state: OneAgentState) -> Any:
        # The action is ignored if the episode ended before the first move.
        return all_legal_if(state.agent_done, self.action_space, super().action_mask(state))

    def close(self) -> None:
        self.env.close()

    def _inner(self, state: Any) -> Any:
        return state.env_state

    def _begin(self, obs: Any, inner: Any, rng: jax.Array, policy_state: Any) -> Any:
        state = OneAgentState(
            rng=rng,
            step=jnp.int32(0),
            done=jnp.bool_(False),
            env_state=inner,
            policy_state=policy_state,
            last_obs=obs,
            pending_reward=jnp.float32(0),
            last_info={},
            agent_done=jnp.bool_(False),
        )
        if self._has_turns:
            action = zero_element(self.action_space)
            types = jax.eval_shape(self._turn, state, action).last_info
            info = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), types)
            state = self._until_active(state.replace(last_info=info), action)
        return state.last_obs[self.agent], self._drop_turn_fields(state)

    def _drop_turn_fields(self, state: OneAgentState) -> OneAgentState:
        """The state without the fields that only worlds with turns need."""
        if self._has_turns:
            return state
        return state.replace(last_obs=self._others.of(state.last_obs), last_info={})

    def _until_active(self, state: OneAgentState, action: Any) -> OneAgentState:
        """Play turns until the agent is active or its episode ends."""

        def must_wait(state: OneAgentState) -> jax.Array:
            return ~state.agent_done & ~self.env.active(state.env_state)[self.agent]

        turn = partial(self._turn, action=action)
        return while_loop(True, must_wait, turn, state)

    def _round(self, state: OneAgentState, action: Any) -> OneAgentState:
        """Play the agent's turn, and those of the others until it is active again."""

        def move(state: OneAgentState) -> OneAgentState:
            args = state.env_state, state.policy_state, state.last_obs, state.rng
            return self._turn(state, action, self._others.move_if_active(*args))

        # If the episode ended before the agent's first move, its results are reported unchanged.
        played = cond(state.agent_done, lambda state: state, move, state)
        return self._until_active(played, action)

    def _turn(self, state: OneAgentState, action: Any, moved: Any = None) -> OneAgentState:
        """Step the world; `moved` has the others' actions, if they are chosen already."""
        inner = state.env_state
        args = inner, state.policy_state, state.last_obs, state.rng
        actions, rng, policy_state = moved or self._others.move(*args)
        stepped = checked_step(self.env, inner, {**actions, self.agent: action})
        obs, inner, rewards, _, info = stepped
        _, terminated, truncated = end_of_step("OneAgent.step", self.env, inner, info)
        by_agent = info.get("agents")
        if by_agent is not None:
            ended, cut = (by_agent[name][self.agent] for name in ("terminated", "truncated"))
            terminated, truncated = ended | (terminated & ~cut), (cut | truncated) & ~ended
        agent_done = terminated | truncated if self.end_with_agent else inner.done
        info = {name: x for name, x in info.items() if name != "agents"}
        return state.replace(
            rng=rng,
            env_state=inner,
            policy_state=policy_state,
            last_obs=obs,
            pending_reward=state.pending_reward + jnp.sum(rewards[self.agent], dtype=jnp.float32),
            last_info=info
            | {"terminated": terminated & agent_done, "truncated": truncated & agent_done},
            agent_done=agent_done,
        )


def with_policy_state(env: AnyEnv | AnyBatch, state: Any, policy_state: Any) -> Any:
    """
    The state of a `OneAgent`, or of wrappers or a batch around it, with other opponents.

    Parameters
    ----------
    env : JaxEnv or BatchedEnv
        The environment that `state` is of.
    state : pytree
        Its state.
    policy_state : pytree
        The new state of the others' policy, for all slots, or with a leading axis of slots.

    Raises
    ------
    TypeError
        If there is no `OneAgent` in the stack.
    ValueError
        If the structure, a shape or a kind of `policy_state` differs from that in `state`, or a
        number does not fit the dtype there.
    """
    n_axes = int(isinstance(env, BatchedEnv))

    def fitted(old: jax.Array, given: Any) -> jax.Array:
        new = strip_weak_type(given)
        shapes = (old.shape[n_axes:], old.shape)
        is_alike = new.dtype == old.dtype or kind(new.dtype) == kind(old.dtype) != "other"
        if new.shape not in shapes or not is_alike:
            raise ValueError(
                f"with_policy_state: expected {old.dtype} of shape {shapes[0]}, or of shape "
                f"{shapes[1]} for all slots; got {new.dtype} of shape {new.shape}."
            )
        if not _can_hold(old.dtype, given):
            raise ValueError(
                f"with_policy_state: expected numbers that fit {old.dtype}; got {given}. Give a "
                "traced array in that dtype."
            )
        new = new if new.dtype == old.dtype else new.astype(old.dtype)  # keys have no `astype`
        return jnp.array(jnp.broadcast_to(new, old.shape))  # its own memory

    def put(state: Any) -> Any:
        if isinstance(state, OneAgentState):
            old: Any = state.policy_state
            if jax.tree.structure(policy_state) != jax.tree.structure(old):
                raise ValueError(
                    f"with_policy_state: expected {jax.tree.structure(old)}; got "
                    f"{jax.tree.structure(policy_state)}. Give `OneAgent` a first one like it."
                )
            return state.replace(policy_state=jax.tree.map(fitted, old, policy_state))
        if not (hasattr(state, "env_state") and hasattr(state, "replace")):  # a Rollout has one
            raise TypeError(
                f"with_policy_state: expected the state of a `OneAgent`, in any wrappers; got a "
                f"{type(state).__name__} with {env!r}. Of a `Rollout`, pass its `env_state`."
            )
        return state.replace(env_state=put(state.env_state))

    return put(state)


def _can_hold(dtype: Any, x: Any) -> bool:
    """Whether numbers fit a dtype: their values where these are known, else their dtype."""
    x = x if isinstance(x, jax.Array) else np.asarray(x)
    kind_of_x = kind(x.dtype)
    if kind_of_x not in ("integer", "float") or x.dtype == dtype or not x.size:
        return True
    if isinstance(x, Tracer):
        return kind_of_x == "float" or np.can_cast(x.dtype, dtype)
    values = np.asarray(x, np.float64 if kind_of_x == "float" else None)
    if kind_of_x == "float":
        values = values[np.isfinite(values)]
    low, high = limits(dtype)
    return bool(np.all((values >= low) & (values <= high)))
