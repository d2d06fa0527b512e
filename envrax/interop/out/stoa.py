# pyright: basic, reportMissingImports=false
"""`to_stoa`: an environment with the interface of Stoa."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax._jax.keys import is_key
from envrax._jax.types import named_leaves
from envrax.env import AnyEnv
from envrax.interop.out import auto_reset
from envrax.interop.out.auto_reset import AutoResetStep, Bridge, require_single, with_mask
from envrax.interop.peer.library import require
from envrax.interop.peer.spaces import bounds_of
from envrax.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

stoa = require("stoa", "0.1", package="stoa-env")
spaces = stoa.spaces
StepType = stoa.StepType
TimeStep = stoa.TimeStep


class ToStoa(Bridge, stoa.Environment):
    """The result of `to_stoa`."""

    def __init__(self, env: AnyEnv, autoreset: bool) -> None:
        self.env = env
        self._autoreset = autoreset

    def reset(self, rng_key: jax.Array, env_params: Any = None) -> tuple[Any, Any]:
        """Begin an episode: the state, and a first `TimeStep`."""
        env = self._with(env_params)
        obs, state = auto_reset.reset(env, rng_key)
        if not self._autoreset and env.action_mask(state) is not None:
            raise TypeError(
                "to_stoa: expected `autoreset=True` for an environment with masks, since Stoa's "
                f"`AutoResetWrapper` hands on no mask of a first state; got {env!r}. Leave it out."
            )
        zeros = jax.tree.map(jnp.zeros_like, self._info_types(env, state))
        masks = with_mask(env, state, with_mask(env, state, zeros, "final_mask"))
        extras = {**masks, "next_obs": obs}
        reward = jnp.float32(0)
        discount = jnp.float32(1)
        return state, TimeStep(StepType.FIRST, reward, discount, obs, extras)

    def step(self, state: Any, action: Any, env_params: Any = None) -> tuple[Any, Any]:
        """Take one step; where the episode ends, begin the next one, with auto-reset."""
        out = self._step(self._with(env_params), state, action)
        end_type = jnp.where(out.terminated, StepType.TERMINATED, StepType.TRUNCATED)
        step_type = jnp.where(out.done, end_type, StepType.MID)
        discount = 1 - out.terminated.astype(jnp.float32)
        extras = {**out.info, "next_obs": out.final_obs}
        reward = out.reward.astype(jnp.float32)
        return out.state, TimeStep(step_type, reward, discount, out.obs, extras)

    def observation_space(self, env_params: Any = None) -> Any:
        """The observation space as a space of Stoa."""
        return _space(self._with(env_params).observation_space)

    def action_space(self, env_params: Any = None) -> Any:
        """The action space as a space of Stoa."""
        return _space(self._with(env_params).action_space)

    def state_space(self, env_params: Any = None) -> Any:
        """The shapes and dtypes of the state, by the names of its leaves; keys as their bits."""
        env = self._with(env_params)

        def leaves(rng: jax.Array) -> dict[str, jax.Array]:
            named = named_leaves(auto_reset.reset(env, rng)[1])
            return {k: jax.random.key_data(x) if is_key(x) else x for k, x in named.items()}

        types = jax.eval_shape(leaves, jax.random.key(0))
        return spaces.DictSpace({k: spaces.ArraySpace(x.shape, x.dtype) for k, x in types.items()})

    def render(self, state: Any, env_params: Any = None) -> np.ndarray:
        """A uint8 RGB image of shape (H, W, 3)."""
        return np.array(self._with(env_params).render(state))

    def close(self) -> None:
        """Free resources on the host."""
        self.env.close()

    def _step(self, env: AnyEnv, state: Any, action: Any) -> AutoResetStep:
        who = "to_stoa(env).step"
        return auto_reset.step(who, env, state, action, autoreset=self._autoreset)

    def _info_types(self, env: AnyEnv, state: Any) -> Any:
        def info(state: Any, rng: jax.Array) -> Any:
            action = env.action_space.sample(rng)
            return self._step(env, state, action).info

        return jax.eval_shape(info, state, jax.random.key(0))


def to_stoa(env: AnyEnv, *, autoreset: bool = True) -> ToStoa:
    """
    An environment with the interface of Stoa, for Stoix and other code written for Stoa.

    A step that ends an episode begins the next one, as in `VecEnv`: leave out Stoa's own wrappers
    for auto-reset, and those that keep something for an episode, such as `FrameStackingWrapper`,
    which would not see the reset. As there, `extras["next_obs"]` is the observation of the step
    itself. `extras` also has the infos, which are zeros in a reset; and if there are masks,
    `action_mask`, for the next step, and `final_mask`, of the state of `next_obs`.

    Parameters
    ----------
    env : JaxEnv
        The environment, as `make` returns it.
    autoreset : bool, default True
        False for `AutoResetWrapper(AddRNGKey(...))` of Stoa, in which all of Stoa's wrappers work.

    Returns
    -------
    stoa.Environment
        `env_params` is a dict of changes to fields of the config, which may be traced, or None.

    Raises
    ------
    TypeError
        If `env` is not one environment that JAX can trace; at a reset, if it has masks and no
        auto-reset.
    """
    require_single("to_stoa", env)
    return ToStoa(env, autoreset)


def _space(space: Space) -> Any:
    match space:
        case Discrete():
            return spaces.DiscreteSpace(space.n, space.dtype)
        case MultiDiscrete():
            return spaces.MultiDiscreteSpace(np.asarray(space.nvec), space.dtype)
        case Dict():
            return spaces.DictSpace({name: _space(x) for name, x in space.spaces.items()})
        case Tuple():
            return spaces.TupleSpace([_space(x) for x in space.spaces])
        case Box() | MultiBinary():
            low, high = bounds_of(space) if isinstance(space, Box) else (0, 1)
            return spaces.BoundedArraySpace(space.shape, space.dtype, low, high)
        case _:
            return spaces.ArraySpace(space.shape, space.dtype)
