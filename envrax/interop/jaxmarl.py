# pyright: basic
"""JaxMARL: `envrax.make("jaxmarl/MPE_simple_spread_v3")`, or `wrap(env)` for one built by hand."""

import contextlib
import copy
import io
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envrax.env import AnyEnv
from envrax.interop.peer.base import PeerEnv
from envrax.interop.peer.containers import as_dicts
from envrax.interop.peer.figures import image_of, on_first_use
from envrax.interop.peer.library import innermost, key_used_twice, require, suite_of
from envrax.interop.peer.spaces import from_library_space
from envrax.interop.peer.types import NO_LIMIT, PeerConfig, PeerReset, PeerState, PeerStep
from envrax.interop.protocol.wrapping import follows_a_protocol, wrap_by_protocol
from envrax.registry import register_suite
from envrax.spaces import Dict, Discrete, Space

jaxmarl = require("jaxmarl", "0.2")

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
                return key_used_twice(f"JaxMARL {what} from one key")
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

    @property
    def can_render(self) -> bool:
        return drawer(self.peer) is not None

    def draw(self, inner: Any) -> Any:
        draw: Any = drawer(self.peer)
        return draw(self.peer, inner)


KEYS_TWICE = {
    "SimpleFacmacMPE": "draws the move of each prey, and the noise of the physics",
    "InTheGrid": "draws the places and directions of the agents",
    "InTheGrid_2p": "draws the places and directions of the agents",
    "InTheMatrix": "draws the places and directions of the agents",
}
"""Classes of JaxMARL that use a PRNG key twice: the draws that share it."""

DEPEND_ON_LIMIT = ("Overcooked", "OvercookedV2", "JaxNav")
"""Classes of JaxMARL whose episodes depend on the limit before it is reached."""


class _Rule(NamedTuple):
    """
    The rules of a family of games.

    Attributes
    ----------
    limit : callable
        The time limit.
    terminated : callable
        Whether a step ends an episode before the limit.
    active : callable, optional
        Which agents act in a state; None for all of them.
    ended : callable, optional
        Which agents ended before their world; None if agents never do.
    idle_action : callable
        The action that is given to JaxMARL for an agent that does not act.
    """

    limit: Callable[[Any], int]
    terminated: Callable[[Any, Any, Any, Any], Any] = lambda peer, before, after, action: False
    active: Callable[[Any, Any], Any] | None = None
    ended: Callable[[Any, Any], Any] | None = None
    idle_action: Callable[[Any], Any] = lambda peer: 0


def _alive(after: Any) -> Any:
    return getattr(after, "state", after).unit_alive


def _one_side_is_dead(peer: Any, before: Any, after: Any, action: Any) -> Any:
    alive = _alive(after)
    return ~alive[: peer.num_allies].any() | ~alive[peer.num_allies :].any()


def _inner_times_outer(peer: Any) -> int:
    return peer.num_inner_steps * peer.num_outer_steps


def _was_told(peer: Any, before: Any, _: Any, action: Any) -> Any:
    chosen = jnp.stack([action[agent] for agent in peer.agents])
    return chosen[before.agent_in_room] == peer.game_actions["TELL"]


_SMAX = _Rule(
    lambda peer: peer.max_steps + 1,
    _one_side_is_dead,
    lambda peer, state: _alive(state)[: len(peer.agents)],
    lambda peer, state: ~_alive(state)[: len(peer.agents)],
    # JaxMARL records the actions of dead units. Their only legal one is to stop; of continuous
    # ones, zeros fire at the last target again, and "do_shoot" moves, here by nothing.
    lambda peer: (
        jnp.array([name == "do_shoot" for name in peer.continuous_action_dims], jnp.float32)
        if peer.action_type == "continuous"
        else peer.num_movement_actions - 1
    ),
)
_MATRIX_GAME = _Rule(_inner_times_outer)
_RULES = {
    # Here and in SMAX, the counter is compared with the limit before it counts the step.
    "SimpleMPE": _Rule(lambda peer: peer.max_steps + 1),
    "SwitchRiddle": _Rule(
        lambda peer: peer.max_steps,
        _was_told,
        lambda peer, state: jnp.arange(peer.num_agents) == state.agent_in_room,
    ),
    "SMAX": _SMAX,
    "EnemySMAX": _SMAX,
    "MABraxEnv": _Rule(
        lambda peer: -(-peer.episode_length // peer.action_repeat),
        lambda peer, before, after, _: after.done * (1 - after.info["truncation"]) > 0,
    ),
    "InTheGrid": _MATRIX_GAME,
    "InTheGrid_2p": _MATRIX_GAME,
    "InTheMatrix": _MATRIX_GAME,
    "CoinGame": _MATRIX_GAME,
    "Overcooked": _Rule(lambda peer: peer.max_steps),
    "OvercookedV2": _Rule(lambda peer: peer.max_steps),
    "JaxNav": _Rule(
        lambda peer: peer.max_steps,
        lambda peer, before, after, _: jnp.all(after.move_term | after.goal_reached | before.done),
        lambda peer, state: ~(state.done | state.move_term),
        # At the limit, all are done as well.
        lambda peer, state: state.done & (state.term | state.move_term | state.goal_reached),
    ),
    "HanabiEnv": _Rule(
        lambda peer: NO_LIMIT,
        lambda peer, before, after, _: peer.terminal(after),
        lambda peer, state: state.cur_player_idx[jnp.argsort(state.seat_order)],
    ),
}


def rule_of(peer: Any) -> _Rule | None:
    """The rule of a game of JaxMARL; None if its step is not JaxMARL's own."""
    if not _is_its_own(peer.step_env):
        return None
    families = [x for x in type(peer).__mro__ if x.__name__ in _RULES and _is_its_own(x)]
    return _RULES[families[0].__name__] if families else None


def _is_its_own(x: Any) -> bool:
    return str(getattr(x, "__module__", "")).startswith("jaxmarl.")


def is_a(peer: Any, name: str) -> bool:
    """Whether a game is of a class of JaxMARL, given by name."""
    return any(x.__name__ == name and _is_its_own(x) for x in type(peer).__mro__)


Draw = Callable[[Any, Any], np.ndarray]


def drawer(peer: Any) -> Draw | None:
    """The function that draws an environment and its state; None where JaxMARL cannot draw."""
    return next((_DRAWN[x.__name__] for x in type(peer).__mro__ if x.__name__ in _DRAWN), None)


def _particles(peer: Any, inner: Any) -> np.ndarray:
    colours = peer.colour
    peer = copy.copy(peer)
    # The push game lists the numbers of its last colours, from 0 to 1, in place of the colours.
    parts = [255 * x for x in colours if np.ndim(x) == 0]
    peer.colour = [x for x in colours if np.ndim(x)] + [*np.reshape(parts, (-1, 3))]
    with contextlib.redirect_stdout(io.StringIO()):  # it prints whether agents talk
        drawn = on_first_use("jaxmarl.environments.mpe.mpe_visualizer").MPEVisualizer(peer, [inner])
    return image_of(drawn.fig)


def _tiles(peer: Any, inner: Any) -> np.ndarray:
    drawn = copy.copy(peer)
    drawn.render_time = partial(_clock, peer)  # JaxMARL's own fails on NumPy 2 after the first step
    return np.asarray(drawn.render(inner), np.uint8)


def _clock(peer: Any, inner: Any, width: int, height: int = 32) -> np.ndarray:
    """Two bars: the steps of this round, and the rounds so far."""
    bars = np.zeros((2, height, width, 3), np.uint8)
    times = (inner.step, peer.num_inner_steps), (inner.outer_t, peer.num_outer_steps)
    for bar, (now, of) in zip(bars, times, strict=True):
        bar[:, : int(now) * (width // of)] = 255
    return bars.reshape(2 * height, width, 3)


def _kitchen(peer: Any, inner: Any) -> np.ndarray:
    visualizer = on_first_use("jaxmarl.viz.overcooked_visualizer").OvercookedVisualizer
    edge = peer.agent_view_size - 2
    grid = np.asarray(inner.maze_map[edge:-edge, edge:-edge, :])
    agents = dict(agent_dir_idx=inner.agent_dir_idx, agent_inv=inner.agent_inv)
    return np.asarray(visualizer._render_grid(grid, highlight_mask=None, **agents), np.uint8)


def _kitchen_2(peer: Any, inner: Any) -> np.ndarray:
    visualizer = on_first_use("jaxmarl.viz.overcooked_v2_visualizer").OvercookedV2Visualizer()
    return np.asarray(visualizer._render_state(inner), np.uint8)


def _map(peer: Any, inner: Any) -> np.ndarray:
    fig, ax = on_first_use("matplotlib.pyplot").subplots(figsize=(5, 5))
    peer.init_render(ax, inner, lidar=False, ticks_off=True)
    return image_of(fig)


def _battle(peer: Any, inner: Any) -> np.ndarray:
    inner = getattr(inner, "state", inner)
    fig, ax = on_first_use("matplotlib.pyplot").subplots(figsize=(5, 5))
    peer = getattr(peer, "_env", peer)
    actions = dict(zip(peer.agents, inner.prev_attack_actions, strict=True))
    peer.init_render(ax, (None, inner, actions), 0, int(inner.step)).remove()  # a copy on top
    ax.set(xlim=(0, peer.map_width), ylim=(0, peer.map_height), aspect="equal")
    return image_of(fig)


_DRAWN: dict[str, Draw] = {
    "SimpleMPE": _particles,
    "InTheGrid": _tiles,
    "InTheGrid_2p": _tiles,
    "InTheMatrix": _tiles,
    "Overcooked": _kitchen,
    "OvercookedV2": _kitchen_2,
    "JaxNav": _map,
    "SMAX": _battle,
    "EnemySMAX": _battle,
}


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
    return JaxMarlEnv(PeerConfig(id=env.name, params=params, max_steps=max_steps), peer=env)


register_suite(suite_of(JaxMarlEnv, jaxmarl.registration.registered_envs))
