"""Worlds of several agents that break one rule each."""

from collections import OrderedDict
from typing import Any

import jax
import jax.numpy as jnp

from envrax import Dict, Discrete
from envrax.testing import ChaseWorld, NimWorld


class AgentsAreAList(NimWorld):
    @property
    def agents(self) -> Any:
        return ["alice", "bob"]


class AnAgentHasNoAction(NimWorld):
    """It can be stepped all the same: it waits for its turn, and takes one stone."""

    @property
    def action_space(self) -> Any:
        return Dict(alice=Discrete(3))

    def advance(self, state: Any, action: Any) -> Any:
        return super().advance(state, {"bob": jnp.int32(0), **action})

    def action_mask(self, state: Any) -> Any:
        return {"alice": super().action_mask(state)["alice"]}


class NobodyActs(NimWorld):
    """In the middle of an episode."""

    def active(self, state: Any) -> dict[str, jax.Array]:
        return {agent: acts & (state.step != 1) for agent, acts in super().active(state).items()}


class ActsByNumber(NimWorld):
    def active(self, state: Any) -> Any:
        return {agent: acts.astype(jnp.int32) for agent, acts in super().active(state).items()}


class MovesOutOfTurn(NimWorld):
    def active(self, state: Any) -> dict[str, jax.Array]:
        return {"alice": jnp.bool_(True), "bob": jnp.bool_(False)}


class ComesBack(ChaseWorld):
    """A caught runner is reported once, and not again."""

    def step(self, state: Any, action: Any) -> Any:
        obs, new, reward, done, info = super().step(state, action)
        now = {agent: info["agents"]["terminated"][agent] & ~x for agent, x in state.caught.items()}
        terminated = {**info["agents"]["terminated"], **now}
        agents = {**info["agents"], "terminated": terminated}
        return obs, new, reward, done, {**info, "agents": agents}


class CaughtButActive(ChaseWorld):
    """A caught runner is active again in the step after."""

    def active(self, state: Any) -> dict[str, jax.Array]:
        return {agent: jnp.bool_(True) for agent in self.agents}


class RewardIsAnOrderedDict(NimWorld):
    def step(self, state: Any, action: Any) -> Any:
        obs, new, reward, *rest = super().step(state, action)
        return obs, new, OrderedDict(reward), *rest


BROKEN: dict[str, list[Any]] = {
    "agents_are_named": [AgentsAreAList, AnAgentHasNoAction],
    "someone_is_active": [ActsByNumber, NobodyActs],
    "inactive_actions_do_nothing": [MovesOutOfTurn],
    "reward_is_a_float": [RewardIsAnOrderedDict],
    "ended_agents_stay": [ComesBack, CaughtButActive],
}
