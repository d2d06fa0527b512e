"""Small environments of several agents, for examples and tests."""

from typing import Any

import chex
import jax
import jax.numpy as jnp

from envrax.env import EnvConfig, EnvState, Info
from envrax.episodic_env import EpisodicEnv
from envrax.multi_agent.world import MultiAgentEnv
from envrax.spaces import Box, Dict, Discrete


@chex.dataclass
class NimConfig(EnvConfig):
    """
    Configuration of `NimWorld`.

    Attributes
    ----------
    stones : int
        Stones in the heap at the start.
    """

    stones: int = 9


@chex.dataclass
class NimState(EnvState):
    """
    State of `NimWorld`.

    Attributes
    ----------
    left : jax.Array
        int32 scalar, stones in the heap.
    turn : jax.Array
        int32 scalar, the number of the agent whose turn it is.
    """

    left: jax.Array
    turn: jax.Array


class NimWorld(EpisodicEnv[Dict, Dict, NimState, NimConfig], MultiAgentEnv[NimState, NimConfig]):
    """
    Nim: two agents in turn take one to three stones from a heap.

    The agent that takes the last stone wins. Both observe the number of stones. The winner's reward
    is 1, the loser's -1. The agent that begins is drawn at reset.

    Examples
    --------
    >>> env = NimWorld()
    >>> obs, state = env.reset(jax.random.key(0))
    >>> {agent: bool(acts) for agent, acts in env.active(state).items()}
    {'alice': True, 'bob': False}
    >>> obs, state, reward, done, info = env.step(state, {"alice": 2, "bob": 0})
    >>> obs["bob"].tolist()
    [6]
    """

    @property
    def agents(self) -> tuple[str, ...]:
        return "alice", "bob"

    @property
    def observation_space(self) -> Dict:
        return Dict(dict.fromkeys(self.agents, Box(0, self.config.stones, (1,), jnp.int32)))

    @property
    def action_space(self) -> Dict:
        return Dict(dict.fromkeys(self.agents, Discrete(3)))

    def begin(self, key: jax.Array, **episode: jax.Array) -> NimState:
        turn = jax.random.randint(key, (), 0, 2, jnp.int32)
        return NimState(left=jnp.int32(self.config.stones), turn=turn, **episode)

    def advance(
        self, state: NimState, action: dict[str, Any]
    ) -> tuple[NimState, dict[str, jax.Array], jax.Array]:
        chosen = jnp.stack([jnp.asarray(action[agent]) for agent in self.agents])[state.turn]
        left = jnp.maximum(state.left - 1 - chosen, 0)
        terminated = left == 0
        alice_reward = jnp.where(state.turn == 0, jnp.float32(1), jnp.float32(-1))
        alice_reward = jnp.where(terminated, alice_reward, jnp.float32(0))
        reward = {"alice": alice_reward, "bob": -alice_reward}
        return state.replace(left=left, turn=1 - state.turn), reward, terminated

    def active(self, state: NimState) -> dict[str, jax.Array]:
        return {agent: state.turn == i for i, agent in enumerate(self.agents)}

    def action_mask(self, state: NimState) -> dict[str, jax.Array]:
        legal = jnp.arange(3, dtype=jnp.int32) < jnp.maximum(state.left, 1)
        return dict.fromkeys(self.agents, legal)

    def observe(self, state: NimState) -> dict[str, Any]:
        return dict.fromkeys(self.agents, state.left[None])


@chex.dataclass
class ChaseState(EnvState):
    """
    State of `ChaseWorld`.

    Attributes
    ----------
    place : dict of jax.Array
        int32 scalar for each agent, its place.
    caught : dict of jax.Array
        bool scalar for each runner, whether it was caught.
    """

    place: dict[str, jax.Array]
    caught: dict[str, jax.Array]


class ChaseWorld(
    EpisodicEnv[Dict, Dict, ChaseState, EnvConfig], MultiAgentEnv[ChaseState, EnvConfig]
):
    """
    A hunter and two runners on a line of ten places: agents with different spaces and ends.

    In a step a runner moves by up to one place, the hunter by up to two. A runner at the hunter's
    place is caught: its episode ends, and its reward is -1. The hunter's reward is the number of
    runners that it catches in the step. The world ends when both are caught. The hunter observes
    all places, a runner its distance from the hunter.
    """

    @property
    def agents(self) -> tuple[str, ...]:
        return "runner_1", "runner_2", "hunter"

    @property
    def observation_space(self) -> Dict:
        runner = Box(-1.0, 1.0, (1,))
        return Dict(runner_1=runner, runner_2=runner, hunter=Box(0, 9, (3,), jnp.int32))

    @property
    def action_space(self) -> Dict:
        return Dict(runner_1=Discrete(3), runner_2=Discrete(3), hunter=Box(-2.0, 2.0, ()))

    def begin(self, key: jax.Array, **episode: jax.Array) -> ChaseState:
        drawn = jax.random.randint(key, (2,), 0, 9, jnp.int32)
        place = {"runner_1": drawn[0], "runner_2": drawn[1], "hunter": jnp.int32(9)}
        false = jnp.bool_(False)
        caught = {"runner_1": false, "runner_2": false}
        return ChaseState(place=place, caught=caught, **episode)

    def advance(
        self, state: ChaseState, action: dict[str, Any]
    ) -> tuple[ChaseState, dict[str, jax.Array], jax.Array]:
        moves = {agent: jnp.asarray(action[agent]) - 1 for agent in state.caught}
        moves |= {"hunter": jnp.round(jnp.asarray(action["hunter"])).astype(jnp.int32)}
        active = self.active(state)
        place = {
            agent: jnp.where(active[agent], jnp.clip(x + moves[agent], 0, 9), x)
            for agent, x in state.place.items()
        }
        caught_now = {
            agent: active[agent] & (place[agent] == place["hunter"]) for agent in state.caught
        }
        caught = {agent: state.caught[agent] | caught_now[agent] for agent in caught_now}
        reward = {agent: -x.astype(jnp.float32) for agent, x in caught_now.items()}
        reward["hunter"] = -reward["runner_1"] - reward["runner_2"]
        return state.replace(place=place, caught=caught), reward, _all_caught(caught)

    def info(self, state: ChaseState) -> Info:
        false = dict.fromkeys(self.agents, jnp.bool_(False))
        terminated = {**state.caught, "hunter": _all_caught(state.caught)}
        return {"agents": {"terminated": terminated, "truncated": false}}

    def active(self, state: ChaseState) -> dict[str, jax.Array]:
        active = {agent: ~caught for agent, caught in state.caught.items()}
        return {**active, "hunter": jnp.bool_(True)}

    def observe(self, state: ChaseState) -> dict[str, Any]:
        place = state.place
        offsets = {agent: (place["hunter"] - x)[None] for agent, x in place.items()}
        distance = {agent: x.astype(jnp.float32) / 9 for agent, x in offsets.items()}
        return {**distance, "hunter": jnp.stack([place[agent] for agent in self.agents])}


def _all_caught(caught: dict[str, jax.Array]) -> jax.Array:
    return caught["runner_1"] & caught["runner_2"]
