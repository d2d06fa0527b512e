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

from envrax.interop.base import PeerEnv
from envrax.interop.containers import as_dicts
from envrax.interop.gymnasium_spaces import from_space
from envrax.interop.library import require, suite_of
from envrax.interop.peer_types import NO_LIMIT, PeerConfig, PeerReset, PeerState, PeerStep
from envrax.registry import register_suite
from envrax.spaces import Space
from envrax.spaces.base import canonical

gymnasium = require("gymnasium", "1.2")

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
    `state_info`. The time limit is that of Gymnasium's registry; without an id there is none.
    """

    library = "gymnasium"

    def build(self) -> Any:
        module, _, name = CLASSES[self.config.id].rpartition(".")
        require("flax", "0.10", extra="gymnasium-jax")  # these modules import it
        func_env = getattr(importlib.import_module(f"gymnasium.envs.{module}"), name)
        return func_env(**self.config.options)

    def default_params(self) -> Any:
        return self.peer.get_default_params()

    def limit(self) -> int:
        spec = gymnasium.registry.get(self.config.id)
        return getattr(spec, "max_episode_steps", None) or NO_LIMIT

    def spaces(self) -> tuple[Space, Space]:
        return from_space(self.peer.observation_space), from_space(self.peer.action_space)

    @property
    def waivers(self) -> dict[str, str]:
        if type(self.peer).__name__ != "BlackjackFunctional":
            return {}
        return dict.fromkeys(
            ("keys_are_used_once", "calls_share_no_key"),
            "Gymnasium's Blackjack draws a card from a key that it then splits",
        )

    def begin(self, params: Any, rng: jax.Array) -> PeerReset:
        initial_rng, obs_rng = jax.random.split(rng)
        inner = self.peer.initial(initial_rng, **_given(params))
        return PeerReset(self._observe(params, inner, obs_rng), inner)

    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> PeerStep:
        peer = self.peer
        given = _given(params)
        # Where nothing is drawn, `rng` is that of the state and stays there.
        step_rng, reward_rng, terminal_rng, obs_rng = jax.random.split(jax.random.clone(rng), 4)
        after = peer.transition(inner, action, step_rng, **given)
        return PeerStep(
            self._observe(params, after, obs_rng),
            after,
            peer.reward(inner, action, after, reward_rng, **given),
            peer.terminal(after, terminal_rng, **given),
            info={
                **peer.state_info(after, **given),
                **peer.transition_info(inner, action, after, **given),
            },
        )

    def _observe(self, params: Any, inner: Any, rng: jax.Array) -> Any:
        """The observation, with the dtypes of the space."""
        obs = as_dicts(self.peer.observation(inner, rng, **_given(params)))
        dtypes = from_space(self.peer.observation_space).dtype
        return jax.tree.map(lambda dtype, x: jnp.asarray(x, canonical(dtype)), dtypes, obs)


class RenderedEnv(FunctionalEnv):
    """A `FuncEnv` that renders. The first image makes its render state, which `close` closes."""

    def render(self, state: PeerState) -> np.ndarray:
        given = _given(self.concrete_params)
        with jax.numpy_dtype_promotion("standard"):
            held, image = self.peer.render_image(state.inner, self._render_state[0], **given)
        self._render_state[0] = held
        return np.array(image)

    @functools.cached_property
    def _render_state(self) -> list[Any]:
        return [self.peer.render_init()]

    def close(self) -> None:
        """Close the render state. Gymnasium's own environments end pygame then, for all."""
        if "_render_state" in vars(self):
            self.peer.render_close(*vars(self).pop("_render_state"))


class CliffWalkingEnv(RenderedEnv):
    """Gymnasium's cliff walk. Its first state lacks an axis of `fallen`, which is added."""

    def begin(self, params: Any, rng: jax.Array) -> PeerReset:
        obs, inner, _ = super().begin(params, rng)
        return PeerReset(obs, inner._replace(fallen=jnp.reshape(inner.fallen, (1,))))


def _given(params: Any) -> dict[str, Any]:
    """The keyword `params`, which functions without parameters need not have."""
    return {} if params is None else {"params": params}


def wrap(func_env: Any, params: Any = None, *, max_steps: int = 0) -> FunctionalEnv:
    """
    A functional environment of Gymnasium that you built or wrote.

    Parameters
    ----------
    func_env : gymnasium.experimental.functional.FuncEnv
        The environment. Its functions take one state; `transform(jax.vmap)`, which Gymnasium's
        `FunctionalJaxVectorEnv` calls, changes them.
    params : pytree or dict, optional
        Its parameters, or changes to those of `get_default_params`.
    max_steps : int, default 0
        Time limit; 0 for none.

    Raises
    ------
    TypeError
        If it is not a `FuncEnv`, or reset and step differ in structure or shape.
    """
    if not isinstance(func_env, FuncEnv):
        raise TypeError(
            "envrax.interop.gymnasium.wrap: expected a FuncEnv of Gymnasium, with functions "
            f"such as `initial`; got {func_env!r}. Step other environments of Gymnasium from "
            "Python, with `from_gymnasium_vec`."
        )
    name = type(func_env).__name__
    draws = type(func_env).render_image is not FuncEnv.render_image
    env_class = RenderedEnv if draws else FunctionalEnv
    env_class = CliffWalkingEnv if name == "CliffWalkingFunctional" else env_class
    return env_class(PeerConfig(id=name, params=params, max_steps=max_steps), peer=func_env)


register_suite(suite_of(RenderedEnv, CLASSES, {"tabular/CliffWalking-v0": CliffWalkingEnv}))
