# pyright: basic
"""JaxMARL: `envrax.make_vec("jaxmarl/MPE_simple_spread_v3", 8)`, a slot for each of its agents."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax.interop.agents import AgentBatch, World
from envrax.interop.convert import converted
from envrax.interop.forms import as_dicts
from envrax.interop.jaxmarl_frames import drawer
from envrax.interop.jaxmarl_rules import KEYS_TWICE, SEE_THE_LIMIT, is_a, rule_of
from envrax.interop.library import innermost, require, suite_of
from envrax.interop.records import NO_LIMIT, Advanced, Begun, PeerConfig, PeerState
from envrax.registry import register_suite
from envrax.spaces import Discrete, Space

jaxmarl = require("jaxmarl", "0.2")

DRAWN = (
    *("MPE", "SMAX", "HeuristicEnemySMAX", "LearnedPolicyEnemySMAX"),
    *("jaxnav", "overcooked", "storm"),
)
"""Prefixes of the ids that JaxMARL can draw."""

_OF_BRAX = ("ant_4x2", "halfcheetah_6x1", "hopper_3x1", "humanoid_9|8", "walker2d_2x3")


class JaxMarlWorld(World):
    """
    One world of JaxMARL, as a `JaxEnv`; `info` is that of JaxMARL, for each agent.

    Values of the world are repeated for every agent. `info["agent_done"]` are JaxMARL's own `dones`
    of the agents: a dead agent of SMAX stays dead until its world ends.
    """

    library = "jaxmarl"

    def build(self) -> Any:
        options = self.config.options
        if self.config.id in _OF_BRAX:
            options = {"auto_reset": False, **options}
        peer, steps = jaxmarl.make(self.config.id, **options), self.config.max_steps
        # Agents of these see the time left, or stop at the limit.
        if steps and any(is_a(peer, x) for x in SEE_THE_LIMIT):
            return jaxmarl.make(self.config.id, **{**options, "max_steps": steps})
        return peer

    def limit(self) -> int:
        rule = rule_of(self.peer)
        return rule.limit(self.peer) if rule else NO_LIMIT

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(map(str, self.peer.agents))

    @property
    def agent_spaces(self) -> tuple[Space, Space]:
        return self._agent_spaces

    def spaces(self) -> tuple[Space, Space]:
        peer, names = self.peer, self.peer.agents
        self._require_usable(peer)
        seen, acted = (
            [of(name) for name in names] for of in (peer.observation_space, peer.action_space)
        )
        for spaces in (seen, acted):
            ours = [converted(space) for space in spaces]
            for name, space in zip(names, ours, strict=True):
                if space != ours[0]:
                    raise TypeError(
                        f"{self._who}: expected agents that share their spaces, since each is a "
                        f"slot; got {ours[0]} of {names[0]} and {space} of {name}. Step it with "
                        "jaxmarl itself, or make them alike: the games of Brax take "
                        '`options={"homogenisation_method": "max"}`.'
                    )
        one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), self.observed)
        self._agent_spaces = converted(seen[0], one, exact=False), converted(acted[0])
        return super().spaces()

    def begin(self, params: Any, rng: jax.Array) -> Begun:
        obs, inner = self.peer.reset(rng)
        return Begun(self._of_agents(obs), inner)

    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> Advanced:
        peer, names = self.peer, self.peer.agents
        actions: Any = [jax.tree.map(lambda x, i=i: x[i], action) for i in range(len(names))]
        if not is_a(peer, "InTheGrid_2p"):  # which takes a pair
            actions = dict(zip(names, actions, strict=True))
        obs, after, rewards, dones, info = peer.step_env(rng, inner, actions)
        rewards, rule = self._of_agents(rewards), rule_of(peer)
        over = rule.over(peer, inner, after, action) if rule else dones["__all__"]
        info = {name: self._for_agents(x) for name, x in info.items()}
        info["rewards"] = jnp.asarray(rewards, jnp.float32)
        out = [jnp.asarray(dones.get(name, dones["__all__"])) for name in names]
        info["agent_done"] = jnp.stack(out)
        return Advanced(self._of_agents(obs), after, rewards, over, info=info)

    def action_mask(self, state: PeerState) -> Any:
        if not isinstance(self.agent_spaces[1], Discrete):
            return None
        method = getattr(self.peer, "get_legal_moves", self.peer.get_avail_actions)
        with jax.numpy_dtype_promotion("standard"):
            try:
                legal = method(state.inner)
            except NotImplementedError:
                return None
            return self._of_agents(legal).astype(jnp.bool_)

    @property
    def waivers(self) -> dict[str, str]:
        for family, what in KEYS_TWICE.items():
            if is_a(self.peer, family):
                rules = "keys_are_used_once", "calls_share_no_key"
                return dict.fromkeys(rules, f"JaxMARL {what} from one key")
        return {}

    def _of_agents(self, tree: Any) -> Any:
        """The values of all agents, stacked; those of STORM are stacked already."""
        if isinstance(tree, dict) and all(name in tree for name in self.peer.agents):
            tree = [tree[name] for name in self.peer.agents]
        if isinstance(tree, tuple | list):
            return jax.tree.map(lambda *x: jnp.stack(x), *map(as_dicts, tree))
        if is_a(self.peer, "InTheGrid") and isinstance(tree, dict):
            return {"observation": tree["observations"], "inventory": tree["inventory"].T}
        return as_dicts(tree)

    def _for_agents(self, tree: Any) -> Any:
        """An entry of `info` for each agent; values of the world are repeated."""
        names = self.peer.agents
        if isinstance(tree, dict) and set(tree) == set(names):
            return self._of_agents(tree)

        def repeated(x: Any) -> jax.Array:
            x = jnp.asarray(x)
            has_agents = x.shape[:1] == (len(names),)
            return x if has_agents else jnp.broadcast_to(x, (len(names), *x.shape))

        return jax.tree.map(repeated, as_dicts(tree))

    def _require_usable(self, peer: Any) -> None:
        if getattr(peer, "auto_reset", False):
            raise TypeError(
                f"{self._who}: expected a game of Brax without its own auto-reset; got "
                "`auto_reset=True`. Build it with `auto_reset=False`."
            )
        if is_a(peer, "JaxNav") and self.config.max_steps > peer.max_steps:
            raise TypeError(
                f"{self._who}: expected max_steps up to {peer.max_steps}, where JaxNav itself "
                f"stops all agents; got {self.config.max_steps}. Build it with `max_steps="
                f"{self.config.max_steps}`."
            )


class DrawnJaxMarlWorld(JaxMarlWorld):
    """One world of JaxMARL that JaxMARL can draw."""

    def render(self, state: PeerState) -> np.ndarray:
        draw: Any = drawer(self.peer)
        with jax.numpy_dtype_promotion("standard"):
            return draw(self.peer, state.inner)


class JaxMarlBatch(AgentBatch):
    """
    Worlds of JaxMARL, a slot for each agent: slot `i * n_agents + j` is agent j of world i.

    Rewards are those that JaxMARL gives to each agent. In most of its games a team shares one
    reward, which every agent gets in full: MPE's spread, SMAX, Brax, Hanabi, Overcooked and the
    riddle. An agent that is out before its world ends keeps its slot, still gets rewards and acts
    by its mask; `infos["agent_done"]` is True for it. All agents of a game must share their spaces.
    The global `world_state` of SMAX is not an observation: compute it with
    `env.world.peer.get_world_state` from `slot_state(state, i).inner`.
    """

    library = JaxMarlWorld.library
    world_class = JaxMarlWorld


class DrawnJaxMarlBatch(JaxMarlBatch):
    """Worlds of JaxMARL that JaxMARL can draw."""

    world_class = DrawnJaxMarlWorld


def wrap(env: Any, n_worlds: int = 1, *, max_steps: int = 0) -> JaxMarlBatch:
    """
    Worlds of a JaxMARL environment that you built.

    Parameters
    ----------
    env : jaxmarl.environments.MultiAgentEnv
        The environment, without a wrapper of JaxMARL.
    n_worlds : int, default 1
        Number of worlds.
    max_steps : int, default 0
        Time limit; 0 takes JaxMARL's own.

    Raises
    ------
    TypeError
        If it is not an environment of JaxMARL, breaks the contract of one, or has agents of
        different spaces.
    """
    innermost("jaxmarl", env, jaxmarl.environments.MultiAgentEnv)
    batch = DrawnJaxMarlBatch if drawer(env) else JaxMarlBatch
    return batch(PeerConfig(id=env.name, max_steps=max_steps), n_worlds, peer=env)


_IDS = jaxmarl.registration.registered_envs
register_suite(
    suite_of(JaxMarlBatch, _IDS, {id: DrawnJaxMarlBatch for id in _IDS if id.startswith(DRAWN)})
)
