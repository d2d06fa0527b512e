# pyright: basic
"""XLand-MiniGrid: `envrax.make("xminigrid/MiniGrid-Empty-5x5")`, or `wrap(env, params)`."""

from typing import Any

import jax
import numpy as np

from envrax.interop.peer.base import PeerEnv
from envrax.interop.peer.containers import as_dicts
from envrax.interop.peer.library import require, suite_of, wrap_object
from envrax.interop.peer.spaces import box, nested, unbounded
from envrax.interop.peer.types import NO_LIMIT, PeerReset, PeerStep
from envrax.registry import register_suite
from envrax.spaces import Discrete, Space

xminigrid = require("xminigrid", "0.9")

_LAST = 2  # `StepType.LAST`


class XMiniGridEnv(PeerEnv):
    """
    An environment of XLand-MiniGrid.

    `params` are its `EnvParams`: only their arrays, the `ruleset` of XLand, may be traced.
    `options` are keywords of `xminigrid.make`, such as `view_size`. `state.inner` is its
    `TimeStep`.
    """

    library = "xminigrid"
    limit_param = "max_steps"

    def build(self) -> Any:
        env, self._default_params = xminigrid.make(self.config.id, **self.config.options)
        return env

    def default_params(self) -> Any:
        return self.peer.default_params() if self._user_peer else self._default_params

    def limit(self) -> int:
        return self.params.max_steps or NO_LIMIT

    def spaces(self) -> tuple[Space, Space]:
        return nested(_space, self.observed), Discrete(self.peer.num_actions(self.params))

    def begin(self, params: Any, rng: jax.Array) -> PeerReset:
        step = self.peer.reset(params, rng)
        return PeerReset(as_dicts(step.observation), step)

    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> PeerStep:
        step = self.peer.step(params, inner, action)
        is_last = step.step_type == _LAST
        return PeerStep(
            as_dicts(step.observation),
            step,
            step.reward,
            terminated=is_last & (step.discount == 0),
            truncated=is_last & (step.discount != 0),
        )

    def draw(self, inner: Any) -> Any:
        params = self.concrete_params.replace(render_mode="rgb_array")
        agent = jax.tree.map(np.asarray, inner.state.agent)  # fast to compare with every tile
        return self.peer.render(params, inner.replace(state=inner.state.replace(agent=agent)))


def _space(type_: Any) -> Space:
    if type_.dtype != np.uint8:
        return unbounded(type_)
    if len(type_.shape) == 3 and type_.shape[-1] == 2:  # a tile and a colour for each place
        constants = xminigrid.core.constants
        highest = [constants.NUM_TILES - 1, constants.NUM_COLORS - 1]
        return box(0, np.broadcast_to(highest, type_.shape), type_)
    return box(0, 255, type_)


def wrap(env: Any, params: Any = None, *, max_steps: int = 0) -> XMiniGridEnv:
    """
    An environment of XLand-MiniGrid that you built, which may be in the library's wrappers.

    Parameters
    ----------
    env : xminigrid.environment.Environment
        The environment.
    params : EnvParams or dict, optional
        Its parameters, or changes to `env.default_params()`.
    max_steps : int, default 0
        Time limit; 0 takes that of the parameters.

    Raises
    ------
    TypeError
        If it is not an environment of XLand-MiniGrid, breaks the contract of one, or resets itself.
    """
    return wrap_object(XMiniGridEnv, env, xminigrid.environment.Environment, params, max_steps)


register_suite(suite_of(XMiniGridEnv, xminigrid.registered_environments()))
