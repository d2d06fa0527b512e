"""`AgentBatch`: worlds that hold several agents, each of whom is a slot."""

import operator
from abc import abstractmethod
from functools import partial
from typing import Any, ClassVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from envrax._jax.cache import Compilation
from envrax._jax.keys import require_key
from envrax._jax.programs import Compiled, CompiledEnv, next_step, require_not_donated
from envrax.autoreset import AutoReset
from envrax.batched_env import BatchedEnv, Part
from envrax.env import Info
from envrax.interop.base import PeerEnv
from envrax.interop.records import PeerConfig
from envrax.spaces import Space
from envrax.spaces.conform import conform
from envrax.vec_env import VecEnv


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


class AgentBatch(BatchedEnv[Space, Space]):
    """
    `n_envs` worlds, in which every agent is a slot; the agents of one world lie side by side.

    Slot `i * n_agents + j` is agent j of world i. Each slot gets the reward of its agent. An
    episode is that of a world: `dones`, `infos["terminated"]` and `infos["truncated"]` are equal
    for all its agents, and the world that ended is reset in the same step, by the rule of `VecEnv`.

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
        options: dict[str, Any] = dict(final_obs=final_obs, autoreset=autoreset)
        self._worlds: Any = VecEnv(self.world, n_envs, jit_compile=False, **options)
        self._options = dict(options, jit_compile=jit_compile, donate=donate)
        self.n_worlds, self.agents = self._worlds.num_envs, self.world.agents
        self.n_agents = len(self.agents)
        self._action_space = self.single_action_space.batch(self.n_slots)
        self._donate = donate and jit_compile
        self._reset: Any = partial(_reset, self._worlds)
        self._step: Any = partial(_step, self._worlds, self.n_agents)
        self._mask: Any = partial(_masks, self._worlds)
        self._compiled: CompiledEnv | None = None
        if jit_compile:
            arguments = partial(next_step, self._action_space.sample)
            self._compiled = CompiledEnv(self._reset, self._step, arguments, self._donate)
            self._reset, self._step = self._compiled.reset, self._compiled.step
            self._mask = Compiled(self._mask)

    @property
    def n_slots(self) -> int:
        return self.n_worlds * self.n_agents

    @property
    def name(self) -> str:
        return self.world.name

    @property
    def config(self) -> PeerConfig:
        """The configuration of a world."""
        return self.world.config

    @property
    def compilation(self) -> Compilation | None:
        return None if self._compiled is None else Compilation(donate=self._donate)

    @property
    def unwrapped(self) -> World:
        return self.world

    @property
    def single_observation_space(self) -> Space:
        return self.world.agent_spaces[0]

    @property
    def single_action_space(self) -> Space:
        return self.world.agent_spaces[1]

    @property
    def action_space(self) -> Space:
        return self._action_space

    def reset(self, rng: jax.Array) -> tuple[Any, Any]:
        require_key(rng, f"{self._who}.reset", f"pass one key; {self._who} splits it.")
        return self._reset(rng)

    def step(self, state: Any, actions: Any) -> tuple[Any, Any, jax.Array, jax.Array, Info]:
        self._require_own(state, "step")
        return self._step(state, conform(self._action_space, actions, f"{self._who}.step"))

    def action_mask(self, state: Any) -> Any:
        self._require_own(state, "action_mask")
        return self._mask(state)

    def part(self, n_parts: int) -> Part | None:
        worlds = self._worlds.part(n_parts)
        if worlds is None:
            return None
        options = dict(self._options, jit_compile=False, peer=self.world.peer)
        batch = type(self)(self.config, self.n_worlds // n_parts, **options)
        return Part(batch, partial(_reset_part, worlds))

    def with_final_obs(self) -> "AgentBatch":
        options = dict(self._options, final_obs=True, peer=self.world.peer)
        return type(self)(self.config, self.n_worlds, **options)

    def slot_state(self, state: Any, slot_idx: int | jax.Array = 0) -> Any:
        """The state of the world that holds the slot."""
        self._require_own(state, "slot_state")
        if not isinstance(slot_idx, Tracer):
            slot_idx = operator.index(cast(Any, slot_idx))
            if not -self.n_slots <= slot_idx < self.n_slots:
                raise IndexError(
                    f"{self._who}.slot_state: expected an index from {-self.n_slots} to "
                    f"{self.n_slots - 1}; got {slot_idx}."
                )
        return self._worlds.slot_state(state, slot_idx // self.n_agents)

    def render_slot(self, state: Any, slot_idx: int = 0) -> np.ndarray:
        """Draw the world that holds the slot."""
        return self.world.render(self.slot_state(state, slot_idx))

    # A fleet compiles what has this very method by itself.
    compile = cast(Any, VecEnv).compile

    def close(self) -> None:
        self.world.close()

    @property
    def _who(self) -> str:
        return type(self).__name__

    def _require_own(self, state: Any, method: str) -> None:
        if self._donate:
            require_not_donated(state, f"{self._who}.{method}")

    def __repr__(self) -> str:
        shown = f"{self.name!r}, n_worlds={self.n_worlds}, n_agents={self.n_agents}"
        return f"{self._who}({shown})"


def _merged(tree: Any) -> Any:
    """The axes of worlds and of agents as one axis of slots."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tree)


def _reset(worlds: Any, rng: jax.Array) -> Any:
    obs, state = worlds.reset(rng)
    return _merged(obs), state


def _reset_part(worlds: Part, rng: jax.Array, part: Any) -> Any:
    obs, state = worlds.reset(rng, part)
    return _merged(obs), state


def _step(worlds: Any, n_agents: int, state: Any, actions: Any) -> Any:
    actions = jax.tree.map(lambda x: x.reshape(-1, n_agents, *x.shape[1:]), actions)
    obs, state, _, dones, infos = worlds.step(state, actions)
    ends = {name: infos.pop(name) for name in ("terminated", "truncated")}
    ends, dones = jax.tree.map(lambda x: jnp.repeat(x, n_agents), (ends, dones))
    infos = _merged(infos)
    return _merged(obs), state, infos.pop("rewards"), dones, infos | ends


def _masks(worlds: Any, state: Any) -> Any:
    return _merged(worlds.action_mask(state))
