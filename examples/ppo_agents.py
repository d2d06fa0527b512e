"""Batched environments for `ppo.py`, such as worlds of several agents, each of whom is a slot."""

from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from ppo_algorithm import PPO
from ppo_options import Options
from ppo_spaces import features, require_policy, rescaled, vectors

import envrax
from envrax import Box, Tuple


class Slots(envrax.BatchedEnv[Any, Any]):
    """
    A `BatchedEnv` as `PPO` needs it: with floats to see, real vectors as actions, and statistics.

    Wrappers do the same around an environment of one agent.

    Parameters
    ----------
    batch : BatchedEnv
        It gives `infos["final_obs"]`, `terminated` and `truncated`.
    """

    def __init__(self, batch: Any) -> None:
        self.batch, self.acts = batch, batch.single_action_space
        require_policy(self.acts, batch.name)
        self.see: Any = jax.vmap(partial(features, batch.single_observation_space))

    @property
    def n_slots(self) -> int:
        return self.batch.n_slots

    @property
    def single_observation_space(self) -> Any:
        seen, _ = jax.eval_shape(self.reset, jax.random.key(0))
        boxes = jax.tree.map(lambda x: Box(-np.inf, np.inf, x.shape[1:]), seen)
        return Tuple(boxes) if isinstance(boxes, tuple) else boxes

    @property
    def single_action_space(self) -> Any:
        return vectors(self.acts) if isinstance(self.acts, Box) else self.acts

    def reset(self, rng: jax.Array) -> tuple[Any, Any]:
        obs, inner = self.batch.reset(rng)
        returns = jnp.zeros(self.batch.n_slots, jnp.float32)
        return self.see(obs), (inner, returns, jnp.zeros_like(returns, jnp.int32))

    def step(self, state: Any, actions: jax.Array) -> tuple[Any, ...]:
        inner, returns, lengths = state
        obs, inner, rewards, dones, infos = self.batch.step(inner, self.do(actions))
        returns, lengths = returns + rewards, lengths + 1
        ended = {"r": jnp.where(dones, returns, 0), "l": jnp.where(dones, lengths, 0)}
        running = jnp.where(dones, 0, returns), jnp.where(dones, 0, lengths)
        seen = self.see(infos["final_obs"])
        info = {"terminated": infos["terminated"], "final_obs": seen, "episode": ended}
        return self.see(obs), (inner, *running), rewards, dones, info

    def do(self, actions: jax.Array) -> jax.Array:
        """The environment's actions."""
        if isinstance(self.acts, Box):
            return jax.vmap(partial(rescaled, self.acts))(actions)
        return actions

    def action_mask(self, state: Any) -> Any:
        return self.batch.action_mask(state[0])


class AgentsPPO(PPO):
    """PPO on worlds of several agents; `n_envs` are slots, so worlds times agents."""

    def __init__(self, options: Options) -> None:
        self.one = self.worlds(options, 1)
        self.n_agents = self.one.batch.n_slots
        super().__init__(options)

    @staticmethod
    def worlds(options: Options, n_worlds: int) -> Slots:
        batch: Any = envrax.make_vec(
            options.env, n_worlds, final_obs=True, jit_compile=False, pre_warm=False
        )
        return Slots(batch)

    def make_env(self, n_slots: int) -> Slots:
        n_worlds, rest = divmod(n_slots, self.n_agents)
        if rest:
            raise ValueError(
                f"expected n_envs to be a multiple of the {self.n_agents} agents of a world; got "
                f"{n_slots}."
            )
        return self.worlds(self.options, n_worlds)

    @cached_property
    def single_env(self) -> Any:
        """One world: its observations and actions are those of all agents."""
        return self.one.batch.world

    def act(self, params: Any, obs: Any, mask: Any, rng: jax.Array) -> Any:
        policy, _ = self.forward(params, self.one.see(obs), mask)
        return self.one.do(self.choose(policy, rng))
