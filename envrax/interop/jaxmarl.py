# pyright: basic
"""JaxMARL: `envrax.make("jaxmarl/MPE_simple_spread_v3")`, or `wrap(env)` for one built by hand."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax.env import AnyEnv
from envrax.interop.jaxmarl_frames import drawer
from envrax.interop.jaxmarl_rules import DEPEND_ON_LIMIT, KEYS_TWICE, is_a, rule_of
from envrax.interop.peer.base import PeerEnv
from envrax.interop.peer.containers import as_dicts
from envrax.interop.peer.library import innermost, require, suite_of
from envrax.interop.peer.spaces import from_library_space
from envrax.interop.peer.types import NO_LIMIT, PeerConfig, PeerReset, PeerState, PeerStep
from envrax.interop.protocol.wrapping import follows_a_protocol, wrap_by_protocol
from envrax.registry import register_suite
from envrax.spaces import Dict, Discrete, Space

jaxmarl = require("jaxmarl", "0.2")

DRAWN = (
    "MPE",
    "SMAX",
    "HeuristicEnemySMAX",
    "LearnedPolicyEnemySMAX",
    "jaxnav",
    "overcooked",
    "storm",
)
"""Prefixes of the ids that JaxMARL can draw."""

_BRAX_IDS = ("ant_4x2", "halfcheetah_6x1", "hopper_3x1", "humanoid_9|8", "walker2d_2x3")


class JaxMarlEnv(PeerEnv):
    """
    A world of JaxMARL.

    Rewards are those that JaxMARL gives to each agent. In most of its games a team shares one
    reward, which every agent gets in full: MPE's spread, SMAX, Brax, Hanabi, Overcooked and the
    riddle. `active` has the agent whose turn it is in Hanabi, the one in the room of the riddle,
    those alive in SMAX, and those that still drive in JaxNav; the last two have `info["agents"]`.
    The `world_state` of SMAX is not an observation: `peer.get_world_state` computes it.
    """

    library = "jaxmarl"

    def build(self) -> Any:
        options = self.config.options
        if self.config.id in _BRAX_IDS:
            options = {"auto_reset": False, **options}
        peer = jaxmarl.make(self.config.id, **options)
        steps = self.config.max_steps
        # Agents of these observe the time left, or stop at the limit.
        if steps and any(is_a(peer, x) for x in DEPEND_ON_LIMIT):
            return jaxmarl.make(self.config.id, **{**options, "max_steps": steps})
        return peer

    def limit(self) -> int:
        rule = rule_of(self.peer)
        return rule.limit(self.peer) if rule else NO_LIMIT

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(map(str, self.peer.agents))

    def spaces(self) -> tuple[Space, Space]:
        peer = self.peer
        observed = self.observed
        self._require_usable(peer)
        obs_spaces: dict[str, Space] = {}
        action_spaces: dict[str, Space] = {}
        for agent, name in self._names.items():
            space = peer.observation_space(name)
            obs_spaces[agent] = from_library_space(space, observed[agent], exact=False)
            action_spaces[agent] = from_library_space(peer.action_space(name))
        return Dict(obs_spaces), Dict(action_spaces)

    def begin(self, params: Any, rng: jax.Array) -> PeerReset:
        obs, inner = self.peer.reset(rng)
        return PeerReset(self._by_agent(obs), inner)

    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> PeerStep:
        peer = self.peer
        rule = rule_of(peer)
        if rule and rule.active:
            acts = self._active_by_agent(rule, inner)
            idle_action = rule.idle_action(peer)
            action = {x: jnp.where(acts[x], action[x], idle_action) for x in self.agents}
        actions = [action[x] for x in self.agents] if 0 in peer.agents else action
        obs, after, rewards, dones, info = peer.step_env(rng, inner, actions)
        terminated = rule.terminated(peer, inner, after, action) if rule else dones["__all__"]
        info = as_dicts(dict(info))
        if rule and rule.ended:
            ended = rule.ended(peer, after)
            info["agents"] = {
                "terminated": {x: ended[i] for i, x in enumerate(self.agents)},
                "truncated": dict.fromkeys(self.agents, jnp.bool_(False)),
            }
        return PeerStep(self._by_agent(obs), after, self._by_agent(rewards), terminated, info=info)

    def active(self, state: PeerState) -> dict[str, jax.Array]:
        rule = rule_of(self.peer)
        if rule is None or rule.active is None:
            return super().active(state)
        return self._active_by_agent(rule, state.inner)

    def action_mask(self, state: PeerState) -> Any:
        space: Any = self.action_space
        # The mask of JaxNav is two ones, whatever its actions are.
        if is_a(self.peer, "JaxNav") or not isinstance(space[self.agents[0]], Discrete):
            return None
        method = getattr(self.peer, "get_legal_moves", self.peer.get_avail_actions)
        with jax.numpy_dtype_promotion("standard"):
            try:
                legal = self._by_agent(method(state.inner))
            except NotImplementedError:
                return None
        return jax.tree.map(lambda x: jnp.asarray(x).astype(jnp.bool_), legal)

    @property
    def waivers(self) -> dict[str, str]:
        for family, what in KEYS_TWICE.items():
            if is_a(self.peer, family):
                rules = "keys_are_used_once", "calls_share_no_key"
                return dict.fromkeys(rules, f"JaxMARL {what} from one key")
        noise = "Brax divides differences of places by a short time, which magnifies rounding"
        return {"vmap_agrees": noise} if is_a(self.peer, "Humanoid") else {}

    def _active_by_agent(self, rule: Any, inner: Any) -> dict[str, jax.Array]:
        acts = rule.active(self.peer, inner)
        return {x: jnp.asarray(acts[i]).astype(jnp.bool_) for i, x in enumerate(self.agents)}

    @property
    def _names(self) -> dict[str, Any]:
        """JaxMARL's names of the agents, by our names. In STORM they are numbers."""
        return dict(zip(self.agents, self.peer.agents, strict=True))

    def _by_agent(self, tree: Any) -> dict[str, Any]:
        """The values of each agent. Those of STORM come stacked."""
        if isinstance(tree, dict) and all(name in tree for name in self.peer.agents):
            return {x: as_dicts(tree[name]) for x, name in self._names.items()}
        if isinstance(tree, tuple | list):
            return dict(zip(self.agents, map(as_dicts, tree), strict=True))
        if is_a(self.peer, "InTheGrid") and isinstance(tree, dict):
            tree = {"observation": tree["observations"], "inventory": tree["inventory"].T}
        tree = as_dicts(tree)
        return {x: jax.tree.map(lambda a, i=i: a[i], tree) for i, x in enumerate(self.agents)}

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


class DrawnJaxMarlEnv(JaxMarlEnv):
    """A world of JaxMARL that JaxMARL can draw."""

    def render(self, state: PeerState) -> np.ndarray:
        draw: Any = drawer(self.peer)
        with jax.numpy_dtype_promotion("standard"):
            return draw(self.peer, state.inner)


def wrap(env: Any, params: Any = None, *, max_steps: int = 0) -> AnyEnv:
    """
    A world of JaxMARL that you built.

    Parameters
    ----------
    env : jaxmarl.environments.MultiAgentEnv
        The environment, without a wrapper of JaxMARL.
    params : None
        JaxMARL has no parameters.
    max_steps : int, default 0
        Time limit; 0 takes JaxMARL's own.

    Raises
    ------
    TypeError
        If it is not an environment of JaxMARL, or breaks the contract of one.
    """
    kind = jaxmarl.environments.MultiAgentEnv
    if follows_a_protocol(env, kind):
        return wrap_by_protocol(env, params, max_steps=max_steps)
    innermost("jaxmarl", env, kind)
    if rule_of(env) is None:  # its `dones` may count a limit
        return wrap_by_protocol(env, params, max_steps=max_steps)
    env_class = DrawnJaxMarlEnv if drawer(env) else JaxMarlEnv
    return env_class(PeerConfig(id=env.name, params=params, max_steps=max_steps), peer=env)


_IDS = jaxmarl.registration.registered_envs
register_suite(
    suite_of(JaxMarlEnv, _IDS, {id: DrawnJaxMarlEnv for id in _IDS if id.startswith(DRAWN)})
)
