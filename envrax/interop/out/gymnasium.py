# pyright: basic, reportMissingImports=false
"""`to_gymnasium`: for trainers that take environments of Gymnasium."""

import dataclasses
import re
from functools import partial
from typing import Any

import numpy as np

from envrax.env import AnyEnv, JaxEnv
from envrax.interop.gymnasium_spaces import to_space
from envrax.interop.out.host_loop import HostLoop, StepResult
from envrax.interop.out.infos import single_info
from envrax.interop.out.masks import gymnasium_mask
from envrax.interop.out.rendering import can_render, require_render_mode
from envrax.interop.peer.library import require
from envrax.spaces import Discrete, Space
from envrax.spaces.composite import map_leaves

require("gymnasium", "1.2", extra="gymnasium")

import gymnasium  # noqa: E402
from gymnasium.envs.registration import EnvSpec  # noqa: E402

from envrax.interop.out.gymnasium_spec import HasSpec, PlayedSpec  # noqa: E402  # needs Gymnasium

FPS = 30


class _Spec(PlayedSpec):
    """The spec of an object, which JSON cannot hold: its JSON has no entry point."""

    def to_json(self) -> str:
        return EnvSpec.to_json(dataclasses.replace(self, entry_point=None))


class GymnasiumEnv(HasSpec, gymnasium.Env[Any, Any]):
    """An environment of envrax as one of Gymnasium; made by `to_gymnasium`."""

    def __init__(self, env: AnyEnv, render_mode: str | None = None) -> None:
        who = "to_gymnasium"
        if not isinstance(env, JaxEnv):
            raise TypeError(
                f"{who}: expected a JaxEnv; got {env!r}. Pass a single environment, or a batch to "
                "`to_gymnasium_vec`."
            )
        require_render_mode(who, env, render_mode)
        self.render_mode = render_mode
        self.metadata = metadata_of(env)
        self.observation_space = to_space(env.observation_space)
        self.action_space = to_space(env.action_space)
        name = re.sub(r"[^\w:.-]", "-", env.name)
        make: Any = partial(to_gymnasium, env)
        self.jax_env = env
        self.spec = _Spec(f"envrax/{name}", entry_point=make)
        self._spaces = env.observation_space, env.action_space
        self._loop = HostLoop(env, who)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        result = self._loop.reset(seed)
        super().reset(seed=None if seed is None else int(seed))
        return self._observation(result), self._with_mask({}, result)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        result = self._loop.step(action)
        terminated = bool(result.terminated)
        truncated = bool(result.truncated)
        info = single_info(result.info, ended=terminated or truncated)
        info = self._with_mask(info, result)
        return self._observation(result), float(result.reward), terminated, truncated, info

    def render(self) -> Any:
        if self.render_mode is None:
            gymnasium.logger.warn('`render` draws nothing without `render_mode="rgb_array"`.')
            return None
        return np.array(self.jax_env.render(self.state))

    @property
    def state(self) -> Any:
        """The state of `jax_env`."""
        return self._loop.state

    def close(self) -> None:
        self.jax_env.close()

    def _observation(self, result: StepResult) -> Any:
        return with_scalars(self._spaces[0], result.obs)

    def _with_mask(self, info: dict[str, Any], result: StepResult) -> dict[str, Any]:
        if result.mask is None:
            return info
        return {**info, "action_mask": gymnasium_mask(self._spaces[1], result.mask)}


def to_gymnasium(env: AnyEnv, *, render_mode: str | None = None) -> GymnasiumEnv:
    """
    An environment as a `gymnasium.Env`.

    `reset` and `step` are one compiled call and one transfer from the device each. Their results
    belong to the caller, who may edit them. `reset(seed=s)` sets `rng = jax.random.key(s)`; every
    reset does `rng, key = jax.random.split(rng)` and uses `key`. A seed from 2**32 on is folded by
    NumPy's `SeedSequence`. Options of a reset are ignored.

    Parameters
    ----------
    env : JaxEnv
        The environment.
    render_mode : str, optional
        With `"rgb_array"`, `render` returns an image of the current state.

    Returns
    -------
    gymnasium.Env
        Observations are NumPy arrays of the space's dtype, an int64 for a `Discrete`; `reward` is
        a float. `terminated` and `truncated` are the bools of the info; an end without these is
        truncated at `config.max_steps`, and terminated before. `info["action_mask"]` is a mask for
        `action_space.sample`, if the environment has masks. Gymnasium's `Box` takes no mask: the
        mask of a `Box`, also in a `Dict` or a `Tuple`, is for the policy, in the shape that
        `env.action_mask` gives. `info["episode"]` is present on the last step only.

    Raises
    ------
    TypeError
        If it is not a `JaxEnv`, Gymnasium has no such space, or `render` is not implemented.
    ValueError
        If `render_mode` is unknown.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> env = to_gymnasium(CountingEnv())
    >>> obs, info = env.reset(seed=0)
    >>> obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
    >>> obs.shape, terminated, truncated
    ((2,), False, False)
    """
    return GymnasiumEnv(env, render_mode)


def with_scalars(space: Space, x: Any) -> Any:
    """An element of a space with an int64 for each `Discrete`, which can be a key of a dict."""

    def of_leaf(leaf: Space, x: Any) -> Any:
        return x[()] if isinstance(leaf, Discrete) else x

    return map_leaves(of_leaf, space, x)


def metadata_of(env: Any) -> dict[str, Any]:
    """The metadata of an environment or a batch, as Gymnasium has them."""
    return {"render_modes": ["rgb_array"] if can_render(env) else [], "render_fps": FPS}
