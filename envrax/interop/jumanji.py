# pyright: basic
"""jumanji: `envrax.make("jumanji/Snake-v1")`, or `wrap(env)` for one built by hand."""

import copy
import functools
import math
from collections.abc import Collection, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax.agent_values import by_agent, for_each
from envrax.env import AnyEnv
from envrax.interop.peer.base import PeerEnv
from envrax.interop.peer.containers import as_dicts
from envrax.interop.peer.library import key_used_twice, require, suite_of, wrap_object
from envrax.interop.peer.spaces import box, from_library_space, unbounded
from envrax.interop.peer.types import NO_LIMIT, PeerReset, PeerState, PeerStep
from envrax.interop.protocol.wrapping import follows_a_protocol, wrap_by_protocol
from envrax.registry import register_suite
from envrax.spaces import Dict, Discrete, MultiDiscrete, Space

jumanji = require("jumanji", "1.1")
specs = jumanji.specs


MENDED = {
    "Snake": {"step_count": (0, None, "it reaches the time limit, which the spec leaves out")},
    "Tetris": {"step_count": (0, None, "it reaches the time limit, which the spec leaves out")},
    "TSP": {"position": (-1, None, "it is -1 before the first city, where the spec says 0")},
}
"""Bounds of the library's specs that are wrong, by class and key: (low, high, reason)."""

AGENTS = {
    "Cleaner": ("agents_locations", "action_mask"),
    "Connector": ("action_mask",),
    "LevelBasedForaging": ("agents_view", "action_mask"),
    "MultiCVRP": ("vehicles", "action_mask"),
    "RobotWarehouse": ("agents_view", "action_mask"),
    "SearchAndRescue": ("searcher_views", "positions"),
}
"""Games of several agents: the entries of an observation with a row for each agent, by class."""

FIXED_LIMITS = {
    "FlatPack": lambda peer: peer.num_blocks,
    "MultiCVRP": lambda peer: 2 * peer._num_customers,
}
"""The number of steps after which a game ends that has no option `time_limit`, by class."""

FINISHED = {
    "FlatPack": lambda inner: inner.placed_blocks.all(),
    "MultiCVRP": lambda inner: (
        (inner.nodes.demands.sum() == 0) & (inner.vehicles.positions == 0).all()
    ),
    "SearchAndRescue": lambda inner: jnp.all(inner.targets.found),
}
"""Whether the task is done, by class, where the library's end does not distinguish the limit."""

_KEY_TWICE = "jumanji uses a key twice: "
_IN_GENERATOR = key_used_twice(_KEY_TWICE + "at reset, in the generator of problems")
WAIVERS: dict[str, dict[str, str]] = {
    "FlatPack": _IN_GENERATOR,
    "MMST": _IN_GENERATOR,
    "PacMan": key_used_twice(_KEY_TWICE + "in a step, where the ghosts move"),
    "Tetris": {"calls_share_no_key": _KEY_TWICE + "its state keeps a key that reset has used"},
}
"""Rules of `check_env` that the library breaks, by class: {rule: reason}."""


class JumanjiEnv(PeerEnv):
    """
    An environment of jumanji.

    The time limit, `config.max_steps`, truncates. Observations are dicts; `info` holds the
    `extras`, and for several agents `rewards` and `discounts`. If the library masks combinations,
    as in Tetris, actions are one `Discrete` of the combinations, in the order of
    `numpy.ravel_multi_index`. If no action is legal, `action_mask` marks all as legal.

    With `options={"agents": "all"}` a game of several agents is a world of `agent_0`, `agent_1` and
    so on. Each observes its own rows, and the entries of the observation without rows. Each gets
    the full reward of a team. In Connector, an agent that is connected or blocked has ended, and is
    not `active`.
    """

    library = "jumanji"

    def build(self) -> Any:
        id, steps = self.config.id, self.config.max_steps
        options = {k: v for k, v in self.config.options.items() if k != "agents"}
        peer = jumanji.make(id, **options)
        # The state, the spec and the reward of some depend on the limit.
        if steps and getattr(peer, "time_limit", steps) != steps:
            return jumanji.make(id, **{**options, "time_limit": steps})
        return peer

    def limit(self) -> int:
        fixed = FIXED_LIMITS.get(self._class_name)
        if fixed:
            return int(fixed(self.peer.unwrapped))
        return int(getattr(self.peer, "time_limit", NO_LIMIT))

    @property
    def agents(self) -> tuple[str, ...]:
        n_agents = self.peer.action_spec.shape[0] if self.config.options.get("agents") else 0
        return tuple(f"agent_{i}" for i in range(n_agents))

    def spaces(self) -> tuple[Space, Space]:
        agents = self.config.options.get("agents")
        legal = [None, "all"] if self._class_name in AGENTS else [None]
        if agents not in legal:
            raise ValueError(f"{self._who}: expected `agents` among {legal}; got {agents!r}.")
        if self.config.max_steps > self.limit():
            raise ValueError(
                f"{self._who}: expected `max_steps` of at most the library's own time limit, "
                f"{self.limit()}; got {self.config.max_steps}. Build it with a larger `time_limit` "
                "or, where it has none, a larger problem."
            )
        obs_space = for_each(self, self._observation_space_of, self.observed)
        action_space = by_agent(self, self._action_space_of_one())
        return (Dict(obs_space), Dict(action_space)) if self.agents else (obs_space, action_space)

    def begin(self, params: Any, rng: jax.Array) -> PeerReset:
        inner, timestep = self._unlimited.reset(rng)
        obs = as_dicts(timestep.observation)
        return PeerReset(self._observation(obs), inner, self._mask(obs))

    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> PeerStep:
        if self._combined:
            action = jnp.stack(jnp.unravel_index(action, self._counts)).astype(jnp.int32)
        if self.agents:
            action = jnp.stack([action[agent] for agent in self.agents])
        if children := self.peer.action_spec._specs:  # several arrays, as in games of others
            action = self.peer.action_spec._constructor(**{k: action[k] for k in children})
        inner, timestep = self._unlimited.step(inner, action)
        obs = as_dicts(timestep.observation)
        if self._class_name == "Tetris":  # its observation always has 0
            obs["step_count"] = inner.step_count
        reward, discount = map(_one_array, (timestep.reward, timestep.discount))
        info = dict(timestep.extras)
        terminated = timestep.last() & jnp.all(discount == 0)
        if self._class_name in FINISHED:
            terminated = FINISHED[self._class_name](inner)
        truncated = timestep.last() & ~terminated
        if jnp.ndim(reward) and not self.agents:
            info |= {"rewards": reward, "discounts": discount}
        elif jnp.ndim(reward):
            info["agents"] = {
                "terminated": self._rows((discount == 0) & ~truncated),
                "truncated": by_agent(self, jnp.bool_(False)),
            }
        if self.agents:
            reward = self._rows(jnp.broadcast_to(reward, len(self.agents)))
        return PeerStep(
            self._observation(obs), inner, reward, terminated, truncated, info, self._mask(obs)
        )

    def active(self, state: PeerState) -> dict[str, jax.Array]:
        if self._class_name != "Connector":
            return super().active(state)
        return self._rows(state.inner.action_mask[:, 1:].any(axis=-1))

    @property
    def waivers(self) -> dict[str, str]:
        return WAIVERS.get(self._class_name, {})

    @property
    def mended_bounds(self) -> dict[str, str]:
        mended = MENDED.get(self._class_name, {})
        return {f"obs.{key}": reason for key, (_, _, reason) in mended.items()}

    @property
    def can_render(self) -> bool:
        return _viewer_name(self.peer.unwrapped) is not None

    def draw(self, inner: Any) -> Any:
        return draw(self.peer.unwrapped, inner)

    @property
    def _class_name(self) -> str:
        return type(self.peer.unwrapped).__name__

    def _rows(self, tree: Any) -> dict[str, Any]:
        """The rows of each agent."""
        return {x: jax.tree.map(lambda a, i=i: a[i], tree) for i, x in enumerate(self.agents)}

    def _observation(self, obs: Any) -> Any:
        """The observation; in a world, that of each agent."""
        if not self.agents:
            return obs
        own = self._rows({key: obs[key] for key in AGENTS[self._class_name]})
        return {agent: {**obs, **own[agent]} for agent in self.agents}

    @functools.cached_property
    def _unlimited(self) -> Any:
        """`peer` without its own time limit, which its results do not distinguish from a loss."""
        if isinstance(self.peer.unwrapped, jumanji.environments.SearchAndRescue):
            return self.peer  # its reward reads the limit
        return _without_limit(self.peer)

    @functools.cached_property
    def _counts(self) -> tuple[int, ...]:
        """The number of values of each entry of an action; empty if they cannot be counted."""
        spec = self.peer.action_spec
        is_bounded = isinstance(spec, specs.BoundedArray)
        if not is_bounded or not jnp.issubdtype(spec.dtype, jnp.integer) or np.any(spec.minimum):
            return ()
        highest = np.broadcast_to(np.asarray(spec.maximum), spec.shape)
        return tuple(int(n) + 1 for n in highest.ravel())

    @functools.cached_property
    def _combined(self) -> bool:
        """Whether the mask has an element for each combination of entries, and not a row each."""
        shape = getattr(getattr(self.peer.observation_spec, "action_mask", None), "shape", ())
        counts = self._counts
        if not counts:
            return False
        shape_of_rows = (*self.peer.action_spec.shape, max(counts, default=0))
        is_ambiguous = shape == shape_of_rows and len({*counts}) == 1
        return len(counts) > 1 and shape == counts and not is_ambiguous

    def _mask(self, obs: Any) -> Any:
        """The library's mask in an observation, in the form of `JaxEnv.action_mask`."""
        if not self._counts or not isinstance(obs, dict) or "action_mask" not in obs:
            return None
        mask = jnp.asarray(obs["action_mask"], jnp.bool_)
        mask = mask.ravel() if self._combined else mask
        # Some go on without a legal action: FlatPack, MMST, a trapped snake.
        mask |= ~mask.any(axis=-1, keepdims=True)
        if self._combined:
            return mask
        # Values beyond the mask, which the spec of MultiCVRP has, are never legal.
        missing = max(self._counts) - mask.shape[-1]
        mask = jnp.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, missing)])
        return self._rows(mask) if self.agents else mask

    def _observation_space_of(self, types: Any) -> Space:
        """The space of observations of these types; in a world, that of one agent."""
        bounds = {
            key: (low, self.limit() if key == "step_count" else high)
            for key, (low, high, _) in MENDED.get(self._class_name, {}).items()
        }
        spec = self.peer.observation_spec
        rows = AGENTS[self._class_name] if self.agents else ()
        return space_of(spec, types, self._who, "observation", bounds, rows)

    def _action_space_of_one(self) -> Space:
        """The space of actions; in a world, that of one agent."""
        spec = self.peer.action_spec
        counts = self._counts
        if spec._specs:
            return from_library_space(spec)
        lead = int(bool(self.agents))
        if self._combined:
            return Discrete(math.prod(counts))
        types = jax.ShapeDtypeStruct(spec.shape[lead:], spec.dtype)
        if not counts:
            return space_of(spec, types, self._who, "action", lead=lead)
        if not types.shape:
            return Discrete(counts[0], spec.dtype)
        return MultiDiscrete(np.reshape(counts, spec.shape), spec.dtype)


def _one_array(values: Any) -> Any:
    """An array, or those of several kinds of agents as one, as games of others have them."""
    leaves = jax.tree.leaves(values)
    return leaves[0] if len(leaves) == 1 else jnp.concatenate([jnp.ravel(x) for x in leaves])


def _without_limit(env: Any) -> Any:
    twin = copy.copy(env)
    if "_env" in vars(twin):
        twin._env = _without_limit(twin._env)
    elif "time_limit" in vars(twin):
        twin.time_limit = NO_LIMIT
    return twin


def space_of(
    spec: Any,
    types: Any,
    who: str,
    path: str,
    bounds: Mapping[str, tuple[Any, Any]] = {},
    rows: Collection[str] = (),
    lead: int = 0,
) -> Space:
    """
    The space of a spec, in the dtypes that are observed.

    Parameters
    ----------
    spec : jumanji.specs.Spec
        The spec.
    types : pytree of jax.ShapeDtypeStruct
        Shapes and dtypes that are observed.
    who, path : str
        The environment, and the name of the spec, for the message.
    bounds : mapping, optional
        Low and high by key, in place of those of the spec; a high of None is that of the spec.
    rows : collection of str, optional
        Keys whose arrays have a row for each agent, where the space is that of one agent.
    lead : int, default 0
        1 if the spec has a first axis of agents, which the space leaves out.

    Raises
    ------
    TypeError
        If the types are not those of the spec.
    """
    children = {k: x for k, x in vars(spec).items() if isinstance(x, specs.Spec)}
    fits = set(children) == set(types if hasattr(types, "keys") else ())
    if not fits or (not children and types.shape != spec.shape[lead:]):
        raise TypeError(
            f"{who}: expected `{path}` as in the spec, {spec}; got {types}. The library breaks its "
            "own contract here; wrap its environment and correct it."
        )
    if children:
        spaces: dict[str, Space] = {}
        for key, child in children.items():
            child_lead = lead or int(key in rows)
            child_path = f"{path}.{key}"
            spaces[key] = space_of(child, types[key], who, child_path, bounds, rows, child_lead)
        return Dict(spaces)
    if not isinstance(spec, specs.BoundedArray):
        return unbounded(types)
    key = path.rpartition(".")[2]
    if key in bounds:
        low, high = bounds[key]
        return box(low, spec.maximum if high is None else high, types)
    if isinstance(spec, specs.DiscreteArray):
        return Discrete(spec.num_values, types.dtype)
    return box(spec.minimum, spec.maximum, types)


GRAPHS = ("GraphColoring", "MMST")
"""Classes that draw in the unit square, for which matplotlib finds wrong limits."""

_VIEWERS = ("_viewer", "_env_viewer", "viewer")  # attributes that hold the viewer


def _viewer_name(env: Any) -> Any:
    return next((x for x in _VIEWERS if x in vars(env)), None)


def draw(env: Any, inner: Any) -> np.ndarray:
    """The image of a state, by the viewer of the environment."""
    import matplotlib.pyplot as plt

    name = _viewer_name(env)
    # Copies: the viewer would open a window, and `Snake.render` forgets to return the image.
    env = copy.copy(env)
    viewer: Any = copy.copy(getattr(env, name))
    setattr(env, name, viewer)
    is_graph = type(env).__name__ in GRAPHS
    frames: list[np.ndarray] = []

    def display(figure: Any) -> None:
        if is_graph:
            figure.axes[0].set(xlim=(0, 1), ylim=(0, 1))
        frames.append(np.array(viewer._display_rgb_array(figure))[..., :3])

    viewer._display = display
    viewer._get_fig_ax = functools.partial(viewer._get_fig_ax, show=False)
    with plt.ioff():
        env.render(jax.device_get(inner) if is_graph else inner)
        viewer.close()
    return frames[-1]


def wrap(env: Any, params: Any = None, *, max_steps: int = 0) -> AnyEnv:
    """
    A jumanji environment that you built.

    Parameters
    ----------
    env : jumanji.env.Environment
        The environment, without a wrapper that resets it or batches it.
    params : None
        jumanji has no parameters.
    max_steps : int, default 0
        Time limit, at most that of the environment; 0 takes its own.

    Raises
    ------
    TypeError
        If `env` is not such an environment.
    """
    if follows_a_protocol(env, jumanji.env.Environment):
        return wrap_by_protocol(env, params, max_steps=max_steps)
    return wrap_object(JumanjiEnv, env, jumanji.env.Environment, params, max_steps)


register_suite(suite_of(JumanjiEnv, sorted(jumanji.registered_environments())))
