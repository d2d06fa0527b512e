"""`MultiAgentEnv`: the interface of an environment of several agents, a world."""

from abc import abstractmethod
from typing import Any

import jax

from envrax.env import ConfigT, Info, JaxEnv, StateT
from envrax.spaces import Dict


class MultiAgentEnv(JaxEnv[Dict, Dict, StateT, ConfigT]):
    """
    A world of several agents: a `JaxEnv` of which obs, actions and rewards are dicts by agent.

    An `EpisodicEnv` becomes a world by this second base: its `advance` returns a dict of rewards.

    Both spaces are a `Dict` with the space of each agent; agents may be alike or not. All agents
    act in every step, unless `active` says otherwise: it covers death, return and turns. The action
    of an inactive agent is ignored, and its reward still counts. `action_mask` is a dict by agent.

    `done`, `info["terminated"]` and `info["truncated"]` are the world's, with which all agents end.
    Where agents end before it, `info["agents"]` is `{"terminated": {...}, "truncated": {...}}`: a
    bool for each agent, which stays True until the world ends. Every other entry of an info is the
    world's.
    """

    @property
    @abstractmethod
    def agents(self) -> tuple[str, ...]:
        """The names of the agents, in order. `Dict` and JAX sort their keys."""

    @abstractmethod
    def step(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, state: StateT, action: dict[str, Any]
    ) -> tuple[dict[str, Any], StateT, dict[str, jax.Array], jax.Array, Info]:
        """Take one step of all agents: as `JaxEnv.step`, with dicts by agent."""
