# pyright: basic, reportMissingImports=false
"""
Gymnasium's functional API: `envrax.make("gymnasium/phys2d/CartPole-v1")`, or `wrap(func_env)`.

A `FuncEnv` of Gymnasium is a set of pure functions. Its other environments are stepped from Python:
see `from_gymnasium_vec`.
"""

import functools
import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.names import require_known
from envrax.interop.gymnasium_spaces import from_space
from envrax.interop.peer.base import PeerEnv
from envrax.interop.peer.containers import as_dicts, copy_containers
from envrax.interop.peer.library import key_used_twice, require, suite_of
from envrax.interop.peer.types import NO_LIMIT, PeerConfig, PeerReset, PeerStep
from envrax.registry import register_suite
from envrax.spaces import Space
from envrax.spaces.base import canonical, kind

gymnasium = require("gymnasium", "1.2", "experimental.functional")

from gymnasium.experimental.functional import FuncEnv  # noqa: E402

CLASSES = {
    "phys2d/CartPole-v1": "phys2d.cartpole.CartPoleFunctional",
    "phys2d/Pendulum-v0": "phys2d.pendulum.PendulumFunctional",
    "tabular/Blackjack-v0": "tabular.blackjack.BlackjackFunctional",
    "tabular/CliffWalking-v0": "tabular.cliffwalking.CliffWalkingFunctional",
}
"""The ids, and the classes in `gymnasium.envs` that have their functions."""


class FunctionalEnv(PeerEnv):
    """
    A `FuncEnv` of Gymnasium. `options` are keywords of its class.

    Each of its functions has a key of its own. `info` has `transition_info` and, of the new state,
    `state_info`; an entry `truncated` ends the episode. The time limit is that of Gymnasium's
    registry; without an id there is none.
    """

    library = "gymnasium"

    def build(self) -> Any:
        module, _, name = CLASSES[self.config.id].rpartition(".")
        require("flax", "0.10", extra="gymnasium-jax")  # these modules import it
        func_env = getattr(importlib.import_module(f"gymnasium.envs.{module}"), name)
        # Gymnasium takes any name.
        constants = [k for k, x in vars(func_env).items() if k[0] != "_" and not callable(x)]
        given = self.config.options.get("options") or {}
        require_known(f"{self._who}: expected constants of {name}:", given, constants)
        return func_env(**self.config.options)

    def default_params(self) -> Any:
        return self.peer.get_default_params()

    def limit(self) -> int:
        if self.config.id not in CLASSES:
            return NO_LIMIT
        return gymnasium.spec(self.config.id).max_episode_steps or NO_LIMIT

    def spaces(self) -> tuple[Space, Space]:
        return from_space(self.peer.observation_space), from_space(self.peer.action_space)

    @property
    def waivers(self) -> dict[str, str]:
        if not _is_a("BlackjackFunctional", self.peer):
            return {}
        return key_used_twice("Gymnasium's Blackjack draws a card from a key that it then splits")

    def begin(self, params: Any, rng: jax.Array) -> PeerReset:
        initial_rng, obs_rng = jax.random.split(rng)
        inner = self._call("initial", params, initial_rng)
        if _is_a("CliffWalkingFunctional", self.peer):  # Gymnasium's own lacks an axis of `fallen`
            inner = inner._replace(fallen=jnp.reshape(inner.fallen, (1,)))
        return PeerReset(self._observe(params, inner, obs_rng), inner)

    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> PeerStep:
        step_rng, reward_rng, terminal_rng, obs_rng = jax.random.split(rng, 4)
        after = self._call("transition", params, inner, action, step_rng)
        reward = self._call("reward", params, inner, action, after, reward_rng)
        terminal = self._call("terminal", params, after, terminal_rng)
        info = {
            **self._call("state_info", params, after),
            **self._call("transition_info", params, inner, action, after),
        }
        return PeerStep(
            self._observe(params, after, obs_rng),
            after,
            self._one_number("reward", reward),
            self._one_number("terminal", terminal),
            self._one_number("truncated", info.get("truncated", False)),
            info,
        )

    def _call(self, function: str, params: Any, *args: Any) -> Any:
        """Call a function of the environment on copies, since it may edit what it is given."""
        return getattr(self.peer, function)(*copy_containers(args), **_given(params))

    def _observe(self, params: Any, inner: Any, rng: jax.Array) -> Any:
        """The observation, with the dtypes of the space."""
        obs = as_dicts(self._call("observation", params, inner, rng))
        dtypes = from_space(self.peer.observation_space).dtype
        return jax.tree.map(self._cast, dtypes, obs)

    def _cast(self, dtype: Any, x: Any) -> jax.Array:
        x = jnp.asarray(x)
        dtype = jnp.dtype(canonical(dtype))
        narrower = dtype.itemsize < x.dtype.itemsize and kind(dtype) != "float"
        if narrower or not np.can_cast(x.dtype, dtype, "same_kind"):
            raise TypeError(
                f"{self._who}: expected `observation` to return {dtype}, as its space; got "
                f"{x.dtype}. Cast it there, or give the space another dtype."
            )
        return x.astype(dtype)

    def _one_number(self, name: str, value: Any) -> Any:
        if np.size(value) != 1:
            raise TypeError(
                f"{self._who}: expected one number for `{name}`; got an array of shape "
                f"{np.shape(value)}. `VecEnv` makes batches."
            )
        return value

    @property
    def can_render(self) -> bool:
        return _defines("render_image", self.peer)

    def draw(self, inner: Any) -> Any:
        given = _given(self.concrete_params)
        self._render_state[0], image = self.peer.render_image(inner, *self._render_state, **given)
        return image

    @functools.cached_property
    def _render_state(self) -> list[Any]:
        # The first image makes it, and `close` closes it.
        return [self.peer.render_init() if _defines("render_init", self.peer) else None]

    def close(self) -> None:
        """Close the render state. Gymnasium's own environments end pygame then, for all."""
        if "_render_state" in vars(self):
            (held,) = vars(self).pop("_render_state")
            if _defines("render_close", self.peer):
                self.peer.render_close(held)


def _given(params: Any) -> dict[str, Any]:
    """The keyword `params`, which functions without parameters need not have."""
    return {} if params is None else {"params": params}


def _is_a(name: str, func_env: Any) -> bool:
    """Whether it is of one of Gymnasium's classes, by name: only its extra can import them."""
    return name in (x.__name__ for x in type(func_env).__mro__)


def _defines(function: str, func_env: Any) -> bool:
    return getattr(type(func_env), function) is not getattr(FuncEnv, function)


def wrap(func_env: Any, params: Any = None, *, max_steps: int = 0) -> FunctionalEnv:
    """
    A functional environment of Gymnasium that you built or wrote.

    Parameters
    ----------
    func_env : gymnasium.experimental.functional.FuncEnv
        The environment. Its functions take one state. Give a new object, not one that Gymnasium's
        `FunctionalJaxVectorEnv` has: its `transform(jax.vmap)` replaces the functions.
    params : pytree or dict, optional
        Its parameters, or changes to those of `get_default_params`.
    max_steps : int, default 0
        Time limit; 0 for none.

    Raises
    ------
    TypeError
        If it is not a `FuncEnv`, its functions were replaced, or reset and step differ in structure
        or shape.
    """
    if not isinstance(func_env, FuncEnv):
        raise TypeError(
            "envrax.interop.gymnasium.wrap: expected a FuncEnv of Gymnasium, an object with "
            f"functions such as `initial`; got {func_env!r}. Step other environments of Gymnasium "
            "from Python, with `from_gymnasium_vec`."
        )
    initial = vars(func_env).get("initial")
    if hasattr(initial, "__wrapped__") and not hasattr(initial, "lower"):  # what `jit` returns has
        raise TypeError(
            "envrax.interop.gymnasium.wrap: expected functions of one state; got those that "
            f"`transform` made, as `FunctionalJaxVectorEnv` does, in {func_env!r}. Give a new "
            "object to each."
        )
    id = type(func_env).__name__
    return FunctionalEnv(PeerConfig(id=id, params=params, max_steps=max_steps), peer=func_env)


register_suite(suite_of(FunctionalEnv, CLASSES))
