# pyright: basic, reportMissingImports=false
"""`to_rsl_rl`: for rsl_rl, which trains robots in Isaac Lab, mjlab and MuJoCo Playground."""

from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax._jax.copies import copy_numpy
from envrax._jax.keys import is_key
from envrax.batched_env import AnyBatch
from envrax.env import AnyEnv, Info
from envrax.interop.out.batches import require_batch, require_flat
from envrax.interop.out.host_loop import HostLoop, StepResult
from envrax.interop.out.infos import is_episode
from envrax.interop.out.tensors import from_torch, require_tensors, require_torch, to_torch
from envrax.interop.peer.library import require
from envrax.interop.peer.spaces import bounds_of
from envrax.interop.peer.types import NO_LIMIT
from envrax.spaces import Box, Space
from envrax.spaces.base import kind
from envrax.wrappers.time import counted_steps, limit_of, with_counted_steps
from envrax.wrappers.vector import BatchedWrapper
from envrax.wrappers.vector.base import BatchedWrapperState

require("rsl_rl", "5.0", package="rsl-rl-lib", extra="rsl-rl")

# By name, since a type checker takes `import rsl_rl` for this file.
VecEnv: Any = import_module("rsl_rl.env").VecEnv
TensorDict: Any = import_module("tensordict").TensorDict

_WHO = "to_rsl_rl"


class RslRlVecEnv(VecEnv):
    """A batch of envrax as a `VecEnv` of rsl_rl; made by `to_rsl_rl`."""

    def __init__(self, batched_env: AnyBatch, seed: int | None = None) -> None:
        require_batch(_WHO, batched_env)
        require_flat(_WHO, batched_env.single_observation_space)
        space = _require_box(batched_env.single_action_space)
        self.batched_env = batched_env
        self.num_envs = batched_env.n_slots
        self.num_actions = space.size
        self._copied_env = _copied_env(batched_env)
        self.cfg: Any = self._copied_env.config if self._copied_env else {}
        require_tensors(_WHO, batched_env)
        # rsl_rl reads no last observation: see the page.
        self._loop = HostLoop(_MeanInfos(self.batched_env), _WHO, on_device=True)
        self._actions_shape = self.num_envs, *space.shape
        self._obs = self._groups(self._loop.reset(seed))
        self.device = next(iter(self._obs.values())).device
        tensor = require_torch().tensor
        self._bounds = [tensor(x.copy(), device=self.device) for x in bounds_of(space)]

    def get_observations(self) -> Any:  # a TensorDict
        """The present observations, without a reset."""
        return self._obs

    def step(self, actions: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Take one step in every slot; see `to_rsl_rl`."""
        actions = require_torch().as_tensor(actions)
        if actions.shape != (self.num_envs, self.num_actions):
            raise ValueError(
                f"{_WHO}: step: expected actions of shape ({self.num_envs}, {self.num_actions}); "
                f"got {tuple(actions.shape)}."
            )
        actions = actions.reshape(self._actions_shape).clamp(*self._bounds)
        result = self._loop.step(actions)
        self._obs = self._groups(result)
        ends = result.terminated, result.truncated
        rewards, terminated, truncated = to_torch((result.reward, *ends))
        dones = terminated | truncated
        extras = {"time_outs": truncated & ~terminated, "log": _log(result.info, dones)}
        return self._obs, rewards.float(), dones.long(), extras

    def reset(self, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in every slot: the observations, and an empty dict."""
        self._obs = self._groups(self._loop.reset(seed))
        return self._obs, {}

    @property
    def max_episode_length(self) -> int:
        """The time limit, in steps."""
        return limit_of(self._env)

    @property
    def episode_length_buf(self) -> Any:
        """
        Steps of the present episodes: int32[num_envs], a copy. Setting it moves the time limit.

        Raises
        ------
        TypeError
            If the slots are not copies of one environment, or have no time limit.
        """
        steps = counted_steps(self._env, _state_of_slots(self._loop.state))
        return to_torch(steps).clone()

    @episode_length_buf.setter
    def episode_length_buf(self, value: Any) -> None:
        env = self._env
        steps = jnp.asarray(copy_numpy(from_torch(value)), jnp.int32)
        if steps.shape != (self.num_envs,) or self.max_episode_length >= NO_LIMIT:
            raise TypeError(
                f"{_WHO}: expected a time limit, and episode_length_buf of shape "
                f"({self.num_envs},); got a limit of {self.max_episode_length}, and {steps.shape}. "
                "Make the environment with `max_steps`."
            )
        self._loop.change_state(lambda state: _with_steps(env, state, steps))
        counted = counted_steps(env, _state_of_slots(self._loop.state))
        if not np.array_equal(counted, steps):
            raise TypeError(
                f"{_WHO}: expected an environment whose count of steps can be set; got {env}. "
                "Train with `init_at_random_ep_len=False`."
            )

    def close(self) -> None:
        """Close the batch."""
        self.batched_env.close()

    @property
    def _env(self) -> AnyEnv:
        if self._copied_env is None:
            raise TypeError(
                f"{_WHO}: expected slots that are copies of one environment, which has the time "
                f"limit; got {self.batched_env}. Train with `init_at_random_ep_len=False`."
            )
        return self._copied_env

    def _groups(self, result: StepResult) -> Any:
        obs = to_torch(result.obs)
        groups = obs if isinstance(obs, dict) else {"policy": obs}
        return TensorDict(groups, batch_size=[self.num_envs])


class _MeanInfos(BatchedWrapper[Any, Any]):
    """
    Infos as rsl_rl logs them: the mean over the slots of each that is a number.

    Those that the bridge itself reads stay as they are.
    """

    def info(self, infos: Info) -> Info:
        own = {"terminated", "truncated", "final_obs", "final_mask"}
        kept = {k: v for k, v in infos.items() if k in own or is_episode(k, v)}
        others = {k: v for k, v in infos.items() if k not in kept}
        leaves, _ = jax.tree_util.tree_flatten_with_path(others)
        log = {
            jax.tree_util.keystr(path, simple=True, separator="/"): jnp.mean(x, dtype=jnp.float32)
            for path, x in leaves
            if jnp.shape(x) == (self.n_slots,) and not is_key(x)
        }
        return {**kept, "log": log}


def to_rsl_rl(batched_env: AnyBatch, *, seed: int | None = None) -> RslRlVecEnv:
    """
    A batch of environments as a `VecEnv` of rsl_rl, with tensors that share JAX's memory.

    Actions are clipped to the bounds of the action space, and not scaled: with `RescaleAction(env,
    -1.0, 1.0)` a policy of rsl_rl begins at the size of most action spaces.

    Parameters
    ----------
    batched_env : BatchedEnv
        The batch, such as `make_vec(id, n)`.
    seed : int, optional
        The first reset, which is made here, sets `rng = jax.random.key(seed)`; without a seed it
        draws one from the operating system. Every reset does `rng, key = jax.random.split(rng)`.

    Returns
    -------
    rsl_rl.env.VecEnv
        `get_observations()` is a `TensorDict`: the entries of a `Dict` observation are the groups,
        any other observation is the group `"policy"`. `step` returns rewards, float32, and dones,
        int64 as in Isaac Lab. `extras["time_outs"]` is True where an episode was truncated and not
        terminated. `extras["log"]` has the mean over the slots of each info that is a number, and
        the statistics of `RecordEpisodeStatistics` of the episodes that ended. Setting
        `episode_length_buf` sets the count of steps that the time limit ends. `cfg` is the config.

    Raises
    ------
    TypeError
        If it is not a `BatchedEnv`, or is on a mesh; if actions are not in a `Box` of floats, or
        observations are `Tuple`s or nested `Dict`s.
    """
    return RslRlVecEnv(batched_env, seed)


def _log(info: Info, dones: Any) -> dict[str, Any]:
    log = to_torch(info["log"])
    if "episode" not in info or not dones.any():
        return log
    episode = to_torch(info["episode"])
    ended = dones & (episode["l"] > 0)  # inside an `EpisodicLife`, statistics count games
    return log | {f"episode/{name}": x[ended].float() for name, x in episode.items()}


def _copied_env(batch: AnyBatch) -> AnyEnv | None:
    """The environment of every slot; None if there is none, or if agents are the slots."""
    n_slots = batch.n_slots
    while isinstance(batch, BatchedWrapper):
        batch = batch.env
    return getattr(batch, "copied_env", None) if batch.n_slots == n_slots else None


def _state_of_slots(state: Any) -> Any:
    """The state of the `VecEnv` within wrappers of a batch."""
    while isinstance(state, BatchedWrapperState):
        state = state.env_state
    return state


def _with_steps(env: AnyEnv, state: Any, steps: jax.Array) -> Any:
    if isinstance(state, BatchedWrapperState):
        outer: Any = state
        return outer.replace(env_state=_with_steps(env, outer.env_state, steps))
    return with_counted_steps(env, state, steps)


def _require_box(space: Space) -> Box:
    if not isinstance(space, Box) or kind(space.dtype) != "float":
        raise TypeError(
            f"{_WHO}: expected actions in a Box of floats; got {space!r}. The policies of rsl_rl "
            "have no other actions: use `to_sb3`."
        )
    return space
