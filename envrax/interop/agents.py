"""`AgentBatch`: multi-agent worlds in which every agent is a slot."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import jax
import jax.numpy as jnp
from jax.core import Tracer

from envrax.autoreset import AutoReset
from envrax.interop.base import PeerEnv
from envrax.interop.records import PeerConfig, PeerState
from envrax.spaces import Space
from envrax.vec_env import Copies, VecEnv, slot_index


class World(PeerEnv):
    """
    One world of several agents, as a `JaxEnv`.

    Observations and actions have a leading axis of agents. The reward is the sum over agents, and
    `info` has the `rewards` of each; every entry of `info` but `terminated` and `truncated` has
    that axis.
    """

    @property
    @abstractmethod
    def agents(self) -> tuple[str, ...]:
        """The library's names of the agents, in order."""

    @property
    @abstractmethod
    def agent_spaces(self) -> tuple[Space, Space]:
        """The spaces of one agent's observation and action, which all agents share."""

    def spaces(self) -> tuple[Space, Space]:
        seen, acted = self.agent_spaces
        return seen.batch(len(self.agents)), acted.batch(len(self.agents))


@dataclass(frozen=True)
class _AgentCopies(Copies):
    """Copies of a world, with every agent as a slot."""

    def begin(self, rngs: jax.Array) -> Any:
        obs, state = super().begin(rngs)
        return _merged(obs), state

    def step(self, state: Any, actions: Any) -> Any:
        n_agents = len(cast(World, self.env).agents)
        actions = jax.tree.map(lambda x: x.reshape(-1, n_agents, *x.shape[1:]), actions)
        obs, state, _, dones, infos = super().step(state, actions)
        ends = {name: infos.pop(name) for name in ("terminated", "truncated")}
        ends, dones = jax.tree.map(lambda x: jnp.repeat(x, n_agents), (ends, dones))
        infos = _merged(infos)
        return _merged(obs), state, infos.pop("rewards"), dones, infos | ends

    def action_mask(self, state: Any) -> Any:
        return _merged(super().action_mask(state))


class AgentBatch(VecEnv[Space, Space, PeerState, PeerConfig]):
    """
    `n_envs` worlds, in which every agent is a slot; the agents of one world lie side by side.

    Slot `i * n_agents + j` is agent j of world i. Each slot gets the reward of its agent. Episodes
    are those of worlds: `dones`, `infos["terminated"]` and `infos["truncated"]` are equal for all
    agents of a world, which is auto-reset as in `VecEnv`.

    Parameters
    ----------
    config : PeerConfig
        Which environment, and how to build it.
    n_envs : int, default 1
        Number of worlds.
    jit_compile, final_obs, autoreset, donate
        As for `VecEnv`.
    peer : Any, optional
        The library's object, if it is built already.

    Attributes
    ----------
    library : str
        The library's name, which is the prefix of its ids.
    world : World
        The environment of one world. Its `peer` is the library's object.
    n_worlds, n_agents : int
        Number of worlds, and of agents in each.
    agents : tuple of str
        The library's names of the agents, in order.
    """

    library: ClassVar[str]
    world_class: ClassVar[type[World]]
    _copies_class = _AgentCopies

    def __init__(
        self,
        config: PeerConfig,
        n_envs: int = 1,
        *,
        jit_compile: bool = True,
        final_obs: bool = False,
        autoreset: AutoReset | None = None,
        donate: bool = False,
        peer: Any = None,
    ) -> None:
        self.world = self.world_class(config, peer=peer)
        self.agents, self.n_agents = self.world.agents, len(self.world.agents)
        options: dict[str, Any] = dict(final_obs=final_obs, autoreset=autoreset, donate=donate)
        super().__init__(self.world, n_envs, jit_compile=jit_compile, **options)

    @property
    def n_worlds(self) -> int:
        return self.num_envs

    @property
    def n_slots(self) -> int:
        return self.num_envs * self.n_agents

    @property
    def single_observation_space(self) -> Space:
        return self.world.agent_spaces[0]

    @property
    def single_action_space(self) -> Space:
        return self.world.agent_spaces[1]

    def slot_state(self, state: Any, slot_idx: int | jax.Array = 0) -> Any:
        """The state of the world that holds the slot."""
        if not isinstance(slot_idx, Tracer):
            slot_idx = slot_index(f"{type(self).__name__}.slot_state", slot_idx, self.n_slots)
        return super().slot_state(state, slot_idx // self.n_agents)

    def __repr__(self) -> str:
        shown = f"{self.name!r}, n_worlds={self.n_worlds}, n_agents={self.n_agents}"
        return f"{type(self).__name__}({shown})"


def _merged(tree: Any) -> Any:
    """The axes of worlds and of agents as one axis of slots."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tree)
