# pyright: basic
"""jumanji: `envrax.make("jumanji/Snake-v1")`, or `wrap(env)` for one built by hand."""

import copy
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax.agent_values import by_agent, for_each
from envrax.interop.base import PeerEnv
from envrax.interop.convert import box, unbounded
from envrax.interop.forms import as_dicts
from envrax.interop.jumanji_rules import AGENTS, GRAPHS, MENDED, WAIVERS
from envrax.interop.library import innermost, require, suite_of
from envrax.interop.records import NO_LIMIT, Advanced, Begun, PeerConfig, PeerState
from envrax.registry import register_suite
from envrax.spaces import Dict, Discrete, MultiDiscrete, Space

jumanji = require("jumanji", "1.1")
specs = jumanji.specs


class JumanjiEnv(PeerEnv):
    """
    An environment of jumanji.

    The time limit, `config.max_steps`, truncates. Observations are dicts; `info` holds the
    `extras`, and for several agents `rewards` and `discounts`. If the library masks combinations,
    as in Tetris, actions are one `Discrete` over the combinations, in the order of
    `numpy.ravel_multi_index`. `action_mask` marks all actions as legal if none is.

    With `options={"agents": "all"}` a game of several agents is a world of `agent_0`, `agent_1` and
    so on. Each observes its own rows, and all else of the observation. A reward of the whole team
    goes to each in full. In Connector, who is connected or blocked has ended, and is not `active`.
    """

    library = "jumanji"

    def build(self) -> Any:
        id, steps = self.config.id, self.config.max_steps
        options = {k: v for k, v in self.config.options.items() if k != "agents"}
        peer = jumanji.make(id, **options)
        # The state, the spec and the reward of some depend on the limit.
        if steps and self._own_limit(peer) not in (steps, NO_LIMIT):
            return jumanji.make(id, **{**options, "time_limit": steps})
        return peer

    def limit(self) -> int:
        return self._own_limit(self.peer)

    @property
    def agents(self) -> tuple[str, ...]:
        asked = self.config.options.get("agents")
        return tuple(f"agent_{i}" for i in range(self.peer.action_spec.shape[0] if asked else 0))

    def spaces(self) -> tuple[Space, Space]:
        asked = self.config.options.get("agents")
        legal = [None, *["all"] * (self._kind in AGENTS)]
        if asked not in legal:
            raise ValueError(f"{self._who}: expected `agents` among {legal}; got {asked!r}.")
        if self.config.max_steps > self.limit():
            raise ValueError(
                f"{self._who}: expected `max_steps` of at most the library's own time limit, "
                f"{self.limit()}; got {self.config.max_steps}. Build it with a larger `time_limit`."
            )
        mended = MENDED.get(self._kind, {})
        spec = self.peer.observation_spec
        acted = by_agent(self, self._acted())
        seen = for_each(self, lambda x: self._space(spec, x, "observation", mended), self.observed)
        return (Dict(seen), Dict(acted)) if self.agents else (seen, acted)

    def begin(self, params: Any, rng: jax.Array) -> Begun:
        inner, timestep = self._unlimited.reset(rng)
        obs = as_dicts(timestep.observation)
        return Begun(self._seen(obs), inner, self._mask(obs))

    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> Advanced:
        if self._combined:
            action = jnp.stack(jnp.unravel_index(action, self._counts)).astype(jnp.int32)
        if self.agents:
            action = jnp.stack([action[agent] for agent in self.agents])
        inner, timestep = self._unlimited.step(inner, action)
        obs = as_dicts(timestep.observation)
        reward = timestep.reward
        discount = timestep.discount
        info = dict(timestep.extras)
        terminated = timestep.last() & jnp.all(discount == 0)
        if isinstance(self.peer.unwrapped, jumanji.environments.SearchAndRescue):
            terminated = jnp.all(inner.targets.found)
        truncated = timestep.last() & ~terminated
        if jnp.ndim(reward) and not self.agents:
            info |= {"rewards": reward, "discounts": discount}
        elif jnp.ndim(reward):
            ends = (discount == 0) & ~truncated
            no = by_agent(self, jnp.bool_(False))
            info["agents"] = {"terminated": self._rows(ends), "truncated": no}
        reward = self._rows(jnp.broadcast_to(reward, len(self.agents))) if self.agents else reward
        seen = self._seen(obs)
        mask = self._mask(obs)
        return Advanced(seen, inner, reward, terminated, truncated, info, mask)

    def active(self, state: PeerState) -> dict[str, jax.Array]:
        if self._kind != "Connector":
            return super().active(state)
        return self._rows(state.inner.action_mask[:, 1:].any(axis=-1))

    @property
    def waivers(self) -> dict[str, str]:
        return WAIVERS.get(self._kind, {})

    @property
    def mended_bounds(self) -> dict[str, str]:
        mended = MENDED.get(self._kind, {})
        return {f"obs.{key}": reason for key, (_, _, reason) in mended.items()}

    def render(self, state: PeerState) -> np.ndarray:
        import matplotlib.pyplot as plt

        # Copies: the viewer would open a window, and `Snake.render` forgets to return the image.
        env = copy.copy(self.peer.unwrapped)
        drawn = []
        name = next((x for x in ("_viewer", "_env_viewer", "viewer") if x in vars(env)), None)
        if name is None:
            return super().render(state)
        viewer: Any = copy.copy(getattr(env, name))
        setattr(env, name, viewer)

        def display(figure: Any) -> None:
            if graph:
                figure.axes[0].set(xlim=(0, 1), ylim=(0, 1))
            drawn.append(np.array(viewer._display_rgb_array(figure))[..., :3])

        graph = type(env).__name__ in GRAPHS
        viewer._display = display
        viewer._get_fig_ax = functools.partial(viewer._get_fig_ax, show=False)
        with plt.ioff(), jax.numpy_dtype_promotion("standard"):
            env.render(jax.device_get(state.inner) if graph else state.inner)
            viewer.close()
        return drawn[-1]

    @property
    def _kind(self) -> str:
        return type(self.peer.unwrapped).__name__

    def _rows(self, tree: Any) -> dict[str, Any]:
        """The rows of each agent."""
        return {x: jax.tree.map(lambda a, i=i: a[i], tree) for i, x in enumerate(self.agents)}

    def _seen(self, obs: Any) -> Any:
        """The observation; in a world, of each agent."""
        if not self.agents:
            return obs
        own = self._rows({key: obs[key] for key in AGENTS[self._kind]})
        return {agent: {**obs, **own[agent]} for agent in self.agents}

    @functools.cached_property
    def _unlimited(self) -> Any:
        """`peer` without its own time limit, which it does not distinguish from a loss."""
        if isinstance(self.peer.unwrapped, jumanji.environments.SearchAndRescue):
            return self.peer  # its reward reads the limit
        return _without_limit(self.peer)

    @functools.cached_property
    def _counts(self) -> tuple[int, ...]:
        """The number of values of each entry of an action; empty if they are not countable."""
        spec = self.peer.action_spec
        integers = isinstance(spec, specs.BoundedArray) and jnp.issubdtype(spec.dtype, jnp.integer)
        if not integers or np.any(spec.minimum):
            return ()
        highest = np.broadcast_to(np.asarray(spec.maximum), spec.shape)
        return tuple(int(n) + 1 for n in highest.ravel())

    @functools.cached_property
    def _combined(self) -> bool:
        """Whether the mask is over combinations, and not for each entry."""
        shape = getattr(getattr(self.peer.observation_spec, "action_mask", None), "shape", ())
        spec, counts = self.peer.action_spec, self._counts
        for_each = (*spec.shape, max(counts, default=0))
        return len(counts) > 1 and shape == counts and (shape != for_each or len({*counts}) > 1)

    @staticmethod
    def _own_limit(peer: Any) -> int:
        return int(getattr(peer, "time_limit", NO_LIMIT))

    def _mask(self, obs: Any) -> Any:
        """The library's mask in an observation, in the form of `JaxEnv.action_mask`."""
        if not self._counts or not isinstance(obs, dict) or "action_mask" not in obs:
            return None
        mask = jnp.asarray(obs["action_mask"], jnp.bool_)
        mask = mask.ravel() if self._combined else mask
        # Some continue with no legal action, whatever is chosen: FlatPack, MMST, a trapped snake.
        mask |= ~mask.any(axis=-1, keepdims=True)
        if self._combined:
            return mask
        # Values beyond the mask, which the spec of MultiCVRP has, are never legal.
        missing = max(self._counts) - mask.shape[-1]
        mask = jnp.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, missing)])
        return self._rows(mask) if self.agents else mask

    def _acted(self) -> Space:
        """The space of actions; in a world, of an agent."""
        spec = self.peer.action_spec
        counts = self._counts
        lead = bool(self.agents)
        if self._combined:
            return Discrete(math.prod(counts))
        types = jax.ShapeDtypeStruct(spec.shape[lead:], spec.dtype)
        if not counts:
            return self._space(spec, types, "action", {}, lead)
        if not types.shape:
            return Discrete(counts[0], spec.dtype)
        return MultiDiscrete(np.reshape(counts, spec.shape), spec.dtype)

    def _space(
        self, spec: Any, types: Any, where: str, mended: dict[str, Any], lead: int = 0
    ) -> Space:
        """The space of a spec, in the dtypes that are observed; `lead` is 1 for rows of agents."""
        children = {k: x for k, x in vars(spec).items() if isinstance(x, specs.Spec)}
        fits = set(children) == set(types if hasattr(types, "keys") else ())
        if not fits or (not children and types.shape != spec.shape[lead:]):
            raise TypeError(
                f"{self._who}: expected `{where}` as in the spec, {spec}; got {types}. The library "
                "breaks its own contract here; wrap its environment and mend it."
            )
        if children:
            rows = AGENTS[self._kind] if self.agents else ()
            each = [(k, x, f"{where}.{k}", lead or int(k in rows)) for k, x in children.items()]
            return Dict({k: self._space(x, types[k], at, mended, n) for k, x, at, n in each})
        if not isinstance(spec, specs.BoundedArray):
            return unbounded(types)
        low = np.asarray(spec.minimum)
        high = np.asarray(spec.maximum)
        if (key := where.rpartition(".")[2]) in mended:
            low, high = mended[key][0], self.limit() if key == "step_count" else high
        elif isinstance(spec, specs.DiscreteArray):
            return Discrete(spec.num_values, types.dtype)
        return box(low, high, types)


def _without_limit(env: Any) -> Any:
    twin = copy.copy(env)
    if "_env" in vars(twin):
        twin._env = _without_limit(twin._env)
    elif "time_limit" in vars(twin):
        twin.time_limit = NO_LIMIT
    return twin


def wrap(env: Any, params: Any = None, *, max_steps: int = 0) -> JumanjiEnv:
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
    layer = innermost("jumanji", env, jumanji.env.Environment)
    config = PeerConfig(id=type(layer).__name__, params=params, max_steps=max_steps)
    return JumanjiEnv(config, peer=env)


register_suite(suite_of(JumanjiEnv, sorted(jumanji.registered_environments())))
