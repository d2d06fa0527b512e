# pyright: basic, reportMissingImports=false
"""`to_gymnasium` and `to_gymnasium_vec`: for trainers that take environments of Gymnasium."""

import dataclasses
import re
from functools import partial
from typing import Any, Literal

import jax
import numpy as np

from envrax.batched_env import BatchedEnv
from envrax.compiled_batch import with_final_obs
from envrax.env import AnyEnv, JaxEnv
from envrax.interop.gymnasium_spaces import to_space
from envrax.interop.library import require
from envrax.interop.out.host_loop import AnyBatch, HostLoop, StepResult
from envrax.interop.out.infos import single_info, vector_infos
from envrax.interop.out.masks import gymnasium_mask
from envrax.interop.out.rendering import can_render, require_render_mode
from envrax.interop.out.tensors import require_torch, to_torch
from envrax.spaces import Dict, Discrete, Space, Tuple

require("gymnasium", "1.3", extra="gymnasium")

import gymnasium  # noqa: E402
from gymnasium.envs.registration import EnvSpec  # noqa: E402
from gymnasium.vector import AutoresetMode, VectorEnv  # noqa: E402
from gymnasium.vector.utils import batch_space  # noqa: E402

__all__ = ["GymnasiumEnv", "GymnasiumVectorEnv", "to_gymnasium", "to_gymnasium_vec"]

FPS = 30


class _Spec(EnvSpec):
    """The spec of an object, which JSON cannot hold: its JSON has no entry point."""

    def to_json(self) -> str:
        return EnvSpec.to_json(dataclasses.replace(self, entry_point=None))


class GymnasiumEnv(gymnasium.Env[Any, Any]):
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
        self.metadata = _metadata(env)
        self.observation_space = to_space(env.observation_space)
        self.action_space = to_space(env.action_space)
        name = re.sub(r"[^\w:.-]", "-", env.name)
        make: Any = partial(to_gymnasium, env)
        self.spec = _Spec(f"envrax/{name}", entry_point=make)
        self.jax_env = env
        self._spaces = env.observation_space, env.action_space
        self._loop = HostLoop(env, who)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        _require_no_options("to_gymnasium", options)
        super().reset(seed=seed)
        result = self._loop.reset(seed)
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
        return np.array(self.jax_env.render(self._loop.state))

    def close(self) -> None:
        self.jax_env.close()

    def _observation(self, result: StepResult) -> Any:
        return with_ints(self._spaces[0], result.obs)

    def _with_mask(self, info: dict[str, Any], result: StepResult) -> dict[str, Any]:
        if result.mask is None:
            return info
        return {**info, "action_mask": gymnasium_mask(self._spaces[1], result.mask)}


class GymnasiumVectorEnv(VectorEnv[Any, Any, Any]):
    """A batch of envrax as a vector environment of Gymnasium; made by `to_gymnasium_vec`."""

    def __init__(
        self, batched_env: AnyBatch, *, array: str = "numpy", render_mode: str | None = None
    ) -> None:
        who = "to_gymnasium_vec"
        if not isinstance(batched_env, BatchedEnv):
            raise TypeError(
                f"{who}: expected a batched environment, such as a VecEnv; got {batched_env!r}. "
                "Pass `VecEnv(env, n)`, or one environment to `to_gymnasium`."
            )
        if array not in ("numpy", "jax", "torch"):
            raise ValueError(
                f'{who}: expected array to be "numpy", "jax" or "torch"; got {array!r}.'
            )
        if array == "torch":
            require_torch()
        require_render_mode(who, batched_env, render_mode)
        self.batched_env = with_final_obs(batched_env)
        self.num_envs = batched_env.n_slots
        self.render_mode = render_mode
        self.metadata = {**_metadata(batched_env), "autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = to_space(batched_env.single_observation_space)
        self.single_action_space = to_space(batched_env.single_action_space)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._loop = HostLoop(self.batched_env, who, on_device=array != "numpy")
        self._array = array

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        _require_no_options("to_gymnasium_vec", options)
        result = self._loop.reset(seed)
        super().reset(seed=None if seed is None else int(seed))
        if self._array != "numpy":
            return self._as_array_kind((result.obs, _masks({}, result.mask)))
        return result.obs, self._with_masks({}, result)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        result = self._loop.step(actions)
        if self._array != "numpy":
            infos = _masks({**result.info, "final_obs": result.final_obs}, result.mask)
            return self._as_array_kind(
                (result.obs, result.reward, result.terminated, result.truncated, infos)
            )
        done = result.terminated | result.truncated
        infos = vector_infos(result.info, done, result.final_obs)
        infos = self._with_masks(infos, result)
        reward = result.reward.astype(np.float64)
        return result.obs, reward, result.terminated, result.truncated, infos

    def render(self) -> tuple[Any, ...] | None:
        if self.render_mode is None:
            gymnasium.logger.warn('`render` draws nothing without `render_mode="rgb_array"`.')
            return None
        state = self._loop.state
        return tuple(np.array(self.batched_env.render_slot(state, i)) for i in range(self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:
        self.batched_env.close()

    def _as_array_kind(self, tree: Any) -> Any:
        return to_torch(tree) if self._array == "torch" else tree

    def _with_masks(self, infos: dict[str, Any], result: StepResult) -> dict[str, Any]:
        if result.mask is None:
            return infos
        mask = jax.tree.map(lambda x: x.astype(np.int8), result.mask)
        return {**infos, "action_mask": mask, "_action_mask": np.ones(self.num_envs, bool)}


def to_gymnasium(env: AnyEnv, *, render_mode: str | None = None) -> GymnasiumEnv:
    """
    An environment as a `gymnasium.Env`.

    `reset` and `step` are one compiled call and one transfer from the device each. Their results
    belong to the caller, who may edit them. `reset(seed=s)` sets `rng = jax.random.key(s)`; every
    reset does `rng, key = jax.random.split(rng)` and uses `key`.

    Parameters
    ----------
    env : JaxEnv
        The environment.
    render_mode : str, optional
        With `"rgb_array"`, `render` returns an image of the current state.

    Returns
    -------
    gymnasium.Env
        Observations are NumPy arrays of the space's dtype, and an int for a `Discrete`; `reward` is
        a float. `terminated` and `truncated` are the bools of the info; an end without these is
        truncated at `config.max_steps`, and terminated before. `info["action_mask"]` is a mask for
        `action_space.sample`, if the environment has masks; `info["episode"]` is present on the
        last step only.

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


def to_gymnasium_vec(
    batched_env: AnyBatch,
    *,
    array: Literal["numpy", "jax", "torch"] = "numpy",
    render_mode: str | None = None,
) -> GymnasiumVectorEnv:
    """
    A batch of environments as a `gymnasium.vector.VectorEnv`, with same-step auto-reset.

    Parameters
    ----------
    batched_env : BatchedEnv
        The batch, such as `make_vec(id, n)`.
    array : {"numpy", "jax", "torch"}, default "numpy"
        The kind of the results. NumPy arrays belong to the caller. JAX arrays and Torch tensors
        stay on the device; a tensor shares the memory of its JAX array, without a copy.
    render_mode : str, optional
        With `"rgb_array"`, `render` returns a tuple with an image of each slot.

    Returns
    -------
    gymnasium.vector.VectorEnv
        In the step that ends an episode, a slot returns the reward and the end of that step with
        the first observation of the next episode: `AutoresetMode.SAME_STEP`. As in Gymnasium, the
        last observation and the info of the step are in `infos["final_obs"]` (an object array; None
        where no episode ended) and `infos["final_info"]`. With JAX or Torch arrays,
        `infos["final_obs"]` is the observation of the step itself in every slot.
        `infos["action_mask"]` has one row per slot.

    Raises
    ------
    TypeError
        If it is not a `BatchedEnv`, Gymnasium has no such space, or it does not render its slots.
    ValueError
        If `array` or `render_mode` is unknown.
    """
    return GymnasiumVectorEnv(batched_env, array=array, render_mode=render_mode)


def with_ints(space: Space, x: Any) -> Any:
    """An element of a space with an int for each `Discrete`, which can be a key of a dict."""
    if isinstance(space, Discrete):
        return x.item()
    if isinstance(space, Dict):
        return {name: with_ints(child, x[name]) for name, child in space.spaces.items()}
    if isinstance(space, Tuple):
        pairs = zip(space.spaces, x, strict=True)
        return tuple(with_ints(child, item) for child, item in pairs)
    return x


def _metadata(env: Any) -> dict[str, Any]:
    return {"render_modes": ["rgb_array"] if can_render(env) else [], "render_fps": FPS}


def _require_no_options(who: str, options: dict[str, Any] | None) -> None:
    if options:
        raise ValueError(
            f"{who}: reset: expected no options; got {sorted(options)}. Set fields of the config "
            "when you make the environment; single slots cannot be reset."
        )


def _masks(infos: dict[str, Any], mask: Any) -> dict[str, Any]:
    return infos if mask is None else {**infos, "action_mask": mask}
