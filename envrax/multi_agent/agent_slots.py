"""`agents_as_slots`: a batch of worlds in which every agent is a slot."""

from collections.abc import Sequence
from typing import Any, cast

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from envrax._checks.counts import slot_index
from envrax._jax.keys import is_key
from envrax._jax.mesh import reshard, where_slots
from envrax._jax.returned import with_info_entry
from envrax.agent_values import map_info
from envrax.batched_env import AnyBatch, StepOptions, step_with
from envrax.multi_agent.agents import require_agents
from envrax.multi_agent.other_agents import OtherAgentsPolicy
from envrax.rollouts.policy import Policy
from envrax.spaces import Space
from envrax.spaces.masks import with_full_masks
from envrax.wrappers.vector.base import BatchedWrapper, BatchedWrapperState


def agents_as_slots(
    batched_env: AnyBatch, agents: Sequence[str] | None = None, others: Policy | None = None
) -> AnyBatch:
    """
    A batch of worlds as a batch in which every agent is a slot, to train agents that are alike.

    Parameters
    ----------
    batched_env : BatchedEnv
        The worlds, such as `make_vec(id, n_worlds)`.
    agents : sequence of str, optional
        The agents, of equal spaces; all if not given.
    others : callable, optional
        A policy without a state for the other agents, as for `rollout` of this batch; it takes and
        returns dicts of these agents. By default their actions are uniform among the legal ones.
    """
    return AgentSlots(batched_env, agents, others)


@chex.dataclass
class AgentSlotsState(BatchedWrapperState):
    """
    State of `AgentSlots`.

    Attributes
    ----------
    last_obs : dict
        The last observations of the agents that are not slots.
    rng : jax.Array, optional
        A typed PRNG key for their policy; None if there are none.
    """

    last_obs: dict[str, Any]
    rng: jax.Array | None


class AgentSlots(BatchedWrapper[Space, Space]):
    """
    A batch of worlds in which every agent is a slot: `agents_as_slots` makes it.

    Slot `i * len(agents) + j` is agent j of world i. A slot gets the observation, reward and mask
    of its agent, its return in `infos["episode"]`, and its ends in `infos["agents"]`. Everything
    else is repeated for all slots of a world, also an info that is a dict with the names of agents;
    so is `dones`, because an episode is the world's. `reset_where` begins the worlds of which the
    mask has any slot. `infos["active"]` is False where the agent did not act in the step.
    """

    state_class = AgentSlotsState

    def __init__(
        self,
        batched_env: AnyBatch,
        agents: Sequence[str] | None = None,
        others: Policy | None = None,
    ) -> None:
        self.slots = tuple(batched_env.agents if agents is None else agents)
        who = "agents_as_slots: expected"
        if not batched_env.traceable:
            raise TypeError(f"{who} a batch that JAX can trace; got {batched_env!r}.")
        require_agents(f"{who} agents", batched_env, self.slots)
        for kind in ("observation", "action"):
            space: Any = getattr(batched_env, f"single_{kind}_space")
            if len({space[agent] for agent in self.slots}) != 1:
                raise TypeError(
                    f"{who} agents whose {kind} spaces are equal; got {space} for "
                    f"{', '.join(self.slots)}. Name agents that are alike."
                )
        self.others = others
        super().__init__(batched_env)

    def _wrap(self, env: AnyBatch) -> None:
        rest = [agent for agent in env.agents if agent not in self.slots]
        self._others = OtherAgentsPolicy(env, rest, self.others)
        super()._wrap(env)

    @property
    def agents(self) -> tuple[str, ...]:
        return ()

    @property
    def n_slots(self) -> int:
        return self.env.n_slots * len(self.slots)

    @property
    def copied_env(self) -> None:
        return None  # the slots of a world begin together

    @property
    def single_observation_space(self) -> Any:
        space: Any = self.env.single_observation_space
        return space[self.slots[0]]

    @property
    def single_action_space(self) -> Any:
        space: Any = self.env.single_action_space
        return space[self.slots[0]]

    def _reset_all(self, rng: jax.Array) -> tuple[Any, Any]:
        own_rng: Any = None
        env_rng: Any = rng
        if self._others.agents:
            own_rng, env_rng = jax.random.split(rng)
            # The two numbers of a legacy key would pass for rows of two worlds.
            own_rng = own_rng if is_key(own_rng) else cast(Any, jax.random.wrap_key_data)(own_rng)
        obs, inner = self.env.reset(env_rng)
        state = AgentSlotsState(env_state=inner, last_obs=self._others.of(obs), rng=own_rng)
        return self._agent_rows(obs), self._place_state(state, "")

    def _step_all(self, state: Any, actions: Any, options: StepOptions) -> Any:
        inner = state.env_state
        rng = state.rng
        n = len(self.slots)
        every: dict[str, Any] = {
            agent: jax.tree.map(lambda x, i=i: x.reshape(-1, n, *x.shape[1:])[:, i], actions)
            for i, agent in enumerate(self.slots)
        }
        if self._others.agents:
            moves, rng, _ = self._others.move(inner, None, state.last_obs, rng)
            every |= moves
        active = self.env.active(inner)
        obs, inner, rewards, dones, infos = step_with(self.env, inner, every, options)
        state = AgentSlotsState(env_state=inner, last_obs=self._others.of(obs), rng=rng)
        if "final_mask" in infos:
            infos = {**infos, "final_mask": self._alike(infos["final_mask"])}
        infos = map_info(infos, self._agent_rows, self._world_rows)
        acts = self._agent_rows(active)
        infos = with_info_entry("agents_as_slots", self.env, infos, "active", acts)
        return (
            self._agent_rows(obs),
            self._place_state(state, ""),
            self._agent_rows(rewards),
            self._world_rows(dones),
            infos,
        )

    def _slot_keys(self, rng: jax.Array) -> Any:
        return super()._slot_keys(jax.random.split(rng)[1] if self._others.agents else rng)

    def _begin_slots(self, mask: Any, state: Any, *how: Any) -> tuple[Any, Any, jax.Array]:
        worlds = jnp.any(mask.reshape(-1, len(self.slots)), axis=1)  # of which any slot begins
        first, inner, begun = self._begin_inside(worlds, state.env_state, *how)
        last_obs = where_slots(begun, self._others.of(first), state.last_obs)
        state = self._place_state(state.replace(env_state=inner, last_obs=last_obs), "")
        return self._agent_rows(first), state, self._world_rows(begun)

    def action_mask(self, state: Any) -> Any:
        masks = self.env.action_mask(state.env_state)
        return None if masks is None else self._agent_rows(self._alike(masks))

    def active(self, state: Any) -> dict[str, jax.Array]:
        return {}

    def slot_state(self, state: Any, slot_idx: int | jax.Array = 0) -> Any:
        """The state of the world that holds the slot."""
        return super().slot_state(state, self._world(slot_idx))

    def render_slot(self, state: Any, slot_idx: int = 0) -> np.ndarray:
        return super().render_slot(state, self._world(slot_idx))

    def _world(self, slot_idx: Any) -> Any:
        if not isinstance(slot_idx, Tracer):
            slot_idx = slot_index("agents_as_slots", slot_idx, self.n_slots)
        return slot_idx % self.n_slots // len(self.slots)

    def _alike(self, masks: Any) -> Any:
        """The masks of the slots by agent, all of one structure."""
        if len({jax.tree.structure(masks[agent]) for agent in self.slots}) == 1:
            return masks
        space: Any = self.env.action_space
        masks = {agent: with_full_masks(space[agent], masks[agent]) for agent in self.slots}
        return masks if self.layout is None else reshard(masks, self.layout)

    def _agent_rows(self, by_agent: Any) -> Any:
        """A row for each slot, of a dict by agent."""
        mine = [by_agent[agent] for agent in self.slots]
        return jax.tree.map(lambda *x: jnp.stack(x, 1).reshape(-1, *x[0].shape[1:]), *mine)

    def _world_rows(self, tree: Any) -> Any:
        """A row for each slot: that of its world."""
        return jax.tree.map(lambda x: jnp.repeat(x, len(self.slots), axis=0), tree)
