# pyright: basic, reportMissingImports=false
"""`to_pettingzoo`: for trainers that take worlds of PettingZoo."""

from importlib import import_module
from typing import Any

import jax
import numpy as np

from envrax.agent_values import map_info
from envrax.env import AnyEnv, JaxEnv
from envrax.interop.gymnasium_spaces import to_space
from envrax.interop.out.gymnasium import FPS, with_scalars
from envrax.interop.out.host_loop import HostLoop, StepResult, transfers
from envrax.interop.out.infos import single_info
from envrax.interop.out.masks import gymnasium_mask
from envrax.interop.out.rendering import can_render, require_render_mode
from envrax.interop.peer.library import require
from envrax.spaces.base import is_mapping
from envrax.spaces.flattening import zero_element

require("pettingzoo", "1.25", extra="pettingzoo")

# By name, since a type checker takes `import pettingzoo` for this file.
pettingzoo: Any = import_module("pettingzoo")

_WHO = "to_pettingzoo"


class PettingZooEnv(pettingzoo.ParallelEnv):
    """A world of envrax as a parallel environment of PettingZoo; made by `to_pettingzoo`."""

    def __init__(self, env: AnyEnv, render_mode: str | None = None) -> None:
        if not isinstance(env, JaxEnv) or not env.agents:
            raise TypeError(
                f"{_WHO}: expected a world of several agents, as one `JaxEnv`; got {env!r}. Pass "
                "an environment of one agent to `to_gymnasium`."
            )
        require_render_mode(_WHO, env, render_mode)
        self.jax_env = env
        self.render_mode = render_mode
        modes = ["rgb_array"] if can_render(env) else []
        self.metadata = {"name": env.name, "render_modes": modes, "render_fps": FPS}
        self.possible_agents = list(env.agents)
        self.agents = []
        obs_spaces = env.observation_space
        action_spaces = env.action_space
        self.observation_spaces = {agent: to_space(obs_spaces[agent]) for agent in env.agents}
        self.action_spaces = {agent: to_space(action_spaces[agent]) for agent in env.agents}
        self._loop = HostLoop(env, _WHO, worlds=True)
        # Actions of agents that have left, which the world ignores.
        with transfers():
            self._ignored_actions = jax.tree.map(np.asarray, zero_element(env.action_space))

    def observation_space(self, agent: str) -> Any:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        result = self._loop.reset(seed)
        self.agents = list(self.possible_agents)
        return self._observations(result), self._infos(result, {})

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        if not is_mapping(actions) or not {*self.agents} <= {*actions}:
            raise ValueError(
                f"{_WHO}: step: expected a dict with an action of {', '.join(self.agents)}; got "
                f"{actions!r}. Agents that are not active need one too; it is ignored."
            )
        # A dead agent may have any action, such as PettingZoo's None.
        alive = {agent: actions[agent] for agent in self.agents}
        result = self._loop.step({**self._ignored_actions, **alive})
        world_info: Any = result.info
        agent_ends = world_info.pop("agents", None)
        terminated = self._ends("terminated", bool(result.terminated), agent_ends)
        truncated = self._ends("truncated", bool(result.truncated), agent_ends)
        observations = self._observations(result)
        rewards = {agent: float(result.reward[agent]) for agent in self.agents}
        world_ended = bool(result.terminated or result.truncated)
        infos = self._infos(result, single_info(world_info, ended=world_ended))
        self.agents = [x for x in self.agents if not (terminated[x] or truncated[x])]
        return observations, rewards, terminated, truncated, infos

    def render(self) -> Any:
        return None if self.render_mode is None else np.array(self.jax_env.render(self._loop.state))

    def close(self) -> None:
        self.jax_env.close()

    def _ends(self, reason: str, world_ended: bool, agent_ends: Any) -> dict[str, bool]:
        """Whether each agent ended for a reason: itself, or with the world."""
        if agent_ends is None:
            return dict.fromkeys(self.agents, world_ended)
        own = agent_ends[reason]
        other = agent_ends["truncated" if reason == "terminated" else "terminated"]
        return {x: bool(own[x]) or (world_ended and not bool(other[x])) for x in self.agents}

    def _observations(self, result: StepResult) -> dict[str, Any]:
        spaces: Any = self.jax_env.observation_space
        return {agent: with_scalars(spaces[agent], result.obs[agent]) for agent in self.agents}

    def _infos(self, result: StepResult, info: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """The info of each agent: that of the world, with its own return."""
        spaces: Any = self.jax_env.action_space
        infos = {
            agent: map_info(info, lambda x, agent=agent: x[agent], lambda x: x)
            for agent in self.agents
        }
        if result.mask is None:
            return infos
        masks = {agent: gymnasium_mask(spaces[agent], result.mask[agent]) for agent in infos}
        return {agent: {**infos[agent], "action_mask": mask} for agent, mask in masks.items()}


def to_pettingzoo(env: AnyEnv, *, render_mode: str | None = None) -> PettingZooEnv:
    """
    A world of several agents as a `pettingzoo.ParallelEnv`.

    An agent leaves `agents` in the step in which its episode ends, or that of the world: PettingZoo
    has no place for rewards that it gets later. Actions of agents that are not active are ignored,
    and those of agents that have left may be anything, such as None. `reset(seed=s)` works as for
    `to_gymnasium`; its `options` are ignored. `pettingzoo.utils.parallel_to_aec` makes an AEC
    environment of it.

    Parameters
    ----------
    env : JaxEnv
        The world.
    render_mode : str, optional
        With `"rgb_array"`, `render` returns an image of the current state.

    Returns
    -------
    pettingzoo.ParallelEnv
        Observations, rewards, ends and infos of live agents, as `to_gymnasium` gives them. Each
        agent gets the info of the world, with its own return in `"episode"` and its own mask of
        legal actions in `"action_mask"`.

    Raises
    ------
    TypeError
        If it is not a world of several agents, Gymnasium has no such space, or it cannot render.
    ValueError
        If `render_mode` is unknown.
    """
    return PettingZooEnv(env, render_mode)
