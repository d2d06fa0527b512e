# pyright: basic
"""Stoa: `wrap(env, params)` for an `Environment` of Stoa that you built."""

from typing import Any

import jax
import jax.numpy as jnp

from envrax._jax.types import is_traced
from envrax.env import AnyEnv
from envrax.interop.out.auto_reset import Bridge
from envrax.interop.peer.base import PeerEnv
from envrax.interop.peer.containers import as_dicts
from envrax.interop.peer.library import innermost, require, wrap_object
from envrax.interop.peer.spaces import from_library_space
from envrax.interop.peer.types import PeerReset, PeerStep
from envrax.spaces import Space

stoa = require("stoa", "0.1", package="stoa-env")


class StoaEnv(PeerEnv):
    """
    An environment of Stoa. `info` has the `extras` of a step, and its `discount`.

    `terminated` and `truncated` come from `step_type`, also if a time limit of Stoa sets it. An
    `action_mask` in the extras of a reset is the mask of legal actions. Without `params` the
    environment of Stoa uses its own.
    """

    library = "stoa"

    def build(self) -> Any:
        raise ValueError(
            "Stoa has no environments of its own: give the object that you built to "
            "`envrax.interop.stoa.wrap`"
        )

    def default_params(self) -> Any:
        return self.config.params

    def spaces(self) -> tuple[Space, Space]:
        params = None if is_traced(self.concrete_params) else self.concrete_params
        first = jax.eval_shape(self.peer.reset, jax.random.key(0), params)[1]
        self._has_mask = "action_mask" in first.extras
        obs_space = from_library_space(self.peer.observation_space(params), self.observed)
        return obs_space, from_library_space(self.peer.action_space(params))

    def begin(self, params: Any, rng: jax.Array) -> PeerReset:
        inner, step = self.peer.reset(rng, params)
        return PeerReset(as_dicts(step.observation), inner, self._mask(step))

    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> PeerStep:
        inner, step = self.peer.step(inner, action, params)
        info = {**as_dicts(step.extras), "discount": step.discount}
        obs = as_dicts(step.observation)
        terminated = step.step_type == stoa.StepType.TERMINATED
        truncated = step.step_type == stoa.StepType.TRUNCATED
        mask = self._mask(step)
        return PeerStep(obs, inner, step.reward, terminated, truncated, info, mask)

    def _mask(self, step: Any) -> Any:
        return step.extras["action_mask"].astype(jnp.bool_) if self._has_mask else None

    def close(self) -> None:
        self.peer.close()

    @property
    def can_render(self) -> bool:
        layer = type(innermost("stoa", self.peer, stoa.Environment))
        # Stoa's own adapters draw in the format of their libraries.
        is_adapter = layer.__module__.startswith("stoa.")
        return layer.render is not stoa.Environment.render and not is_adapter

    def draw(self, inner: Any) -> Any:
        return self.peer.render(inner, self.params)


def wrap(env: Any, params: Any = None, *, max_steps: int = 0) -> AnyEnv:
    """
    An environment of Stoa that you built.

    Parameters
    ----------
    env : stoa.Environment
        One environment, in any wrappers of Stoa except those that reset or batch. For a result of
        `to_stoa`, `wrap` returns the environment in it.
    params : pytree, optional
        The argument `env_params` of `reset` and `step`.
    max_steps : int, default 0
        Time limit; 0 leaves it to the environment.

    Raises
    ------
    TypeError
        If it is not an environment of Stoa, resets itself, is a batch, or breaks Stoa's contract.
    """
    if isinstance(env, Bridge):
        return env.configured(params, max_steps)
    return wrap_object(StoaEnv, env, stoa.Environment, params, max_steps)
