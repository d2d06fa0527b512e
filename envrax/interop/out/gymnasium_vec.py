# pyright: basic, reportMissingImports=false
"""`to_gymnasium_vec`: for trainers that take vector environments of Gymnasium."""

from typing import Any, Literal

import jax
import numpy as np

from envrax.batched_env import AnyBatch
from envrax.interop.gymnasium_spaces import to_space
from envrax.interop.out.attributes import find, refuse_set
from envrax.interop.out.autoreset_modes import disabled, next_step
from envrax.interop.out.batches import require_batch
from envrax.interop.out.host_loop import HostLoop, StepResult
from envrax.interop.out.infos import slot_infos, vector_infos, with_slot_masks
from envrax.interop.out.masks import gymnasium_mask
from envrax.interop.out.rendering import require_render_mode
from envrax.interop.out.tensors import from_torch, require_tensors, to_torch
from envrax.interop.peer.library import require
from envrax.spaces import Discrete, MultiDiscrete, Space
from envrax.spaces.composite import map_leaves

require("gymnasium", "1.2", extra="gymnasium")

import gymnasium  # noqa: E402
from gymnasium.vector import AutoresetMode, VectorEnv  # noqa: E402
from gymnasium.vector.utils import batch_space  # noqa: E402

from envrax.interop.out.gymnasium import metadata_of, with_scalars  # noqa: E402  # needs Gymnasium
from envrax.interop.out.gymnasium_spec import HasSpec  # noqa: E402

_WHO = "to_gymnasium_vec"


class GymnasiumVectorEnv(HasSpec, VectorEnv[Any, Any, Any]):
    """A batch of envrax as a vector environment of Gymnasium; made by `to_gymnasium_vec`."""

    closed = True  # until it is made: Gymnasium 1.2 closes what is deleted

    def __init__(
        self,
        batched_env: AnyBatch,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        array: str = "numpy",
        render_mode: str | None = None,
    ) -> None:
        require_batch(_WHO, batched_env)
        if array not in ("numpy", "jax", "torch"):
            raise ValueError(
                f'{_WHO}: expected array to be "numpy", "jax" or "torch"; got {array!r}.'
            )
        if array == "torch":
            require_tensors(_WHO, batched_env)
        require_render_mode(_WHO, batched_env, render_mode)
        self.autoreset_mode = _mode(autoreset_mode)
        self.batched_env = _with_mode(self.autoreset_mode, batched_env)
        self.num_envs = batched_env.n_slots
        self.render_mode = render_mode
        self.metadata = {**metadata_of(batched_env), "autoreset_mode": self.autoreset_mode}
        self._spaces = batched_env.single_observation_space, batched_env.single_action_space
        self.single_observation_space, self.single_action_space = map(to_space, self._spaces)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._loop = HostLoop(
            self.batched_env,
            _WHO,
            on_device=array != "numpy",
            same_step=self.autoreset_mode == AutoresetMode.SAME_STEP,
        )
        self._array = array
        self._ended = np.zeros(self.num_envs, bool)  # in the last step; only for NumPy arrays
        self.closed = False

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        mask = self._reset_mask(options)
        result = self._loop.reset(seed) if mask is None else self._loop.reset_where(mask, seed)
        given: Any = seed
        super().reset(seed=None if given is None or np.ndim(given) else int(given))
        if self._array != "numpy":
            return self._observed(result.obs), self._as_array_kind(_masks({}, result.mask))
        begun = np.full(self.num_envs, True) if mask is None else np.array(mask)
        self._ended = self._ended & ~begun
        return result.obs, self._with_masks({}, result, begun)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        if self.autoreset_mode == AutoresetMode.DISABLED and self._ended.any():
            raise RuntimeError(
                f"{_WHO}: step: expected a reset of the slots whose episode ended; got no reset "
                f'of {np.flatnonzero(self._ended).tolist()}. Call `reset(options={{"reset_mask": '
                "terminated | truncated})`."
            )
        result = self._loop.step(actions)
        if self._array != "numpy":
            infos = _masks(_masks(result.info, result.mask), result.final_mask, "final_mask")
            *rest, infos = self._as_array_kind(
                (result.reward, result.terminated, result.truncated, infos)
            )
            if result.final_obs is not None:
                infos["final_obs"] = self._observed(result.final_obs)
            return self._observed(result.obs), *rest, infos
        infos = self._with_masks(self._infos(result), result, np.full(self.num_envs, True))
        reward = result.reward.astype(np.float64)
        return result.obs, reward, result.terminated, result.truncated, infos

    def render(self) -> tuple[Any, ...] | None:
        if self.render_mode is None:
            gymnasium.logger.warn('`render` draws nothing without `render_mode="rgb_array"`.')
            return None
        state = self._loop.state
        return tuple(np.array(self.batched_env.render_slot(state, i)) for i in range(self.num_envs))

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """
        Call the method `name` of each slot, or get its attribute, as `SyncVectorEnv` does.

        The first layer that has the name gives it: wrappers, the outermost first, then the
        environment. `render` and the attributes of a `gymnasium.Env` are those of this object.
        """
        if name == "render":
            return self.render() or (None,) * self.num_envs
        own: dict[str, Any] = {
            "observation_space": self.single_observation_space,
            "action_space": self.single_action_space,
            "render_mode": self.render_mode,
            "metadata": self.metadata,
            "spec": self.spec,
        }
        found = own[name] if name in own else find(_WHO, self.batched_env, name)
        slots = range(self.num_envs)
        return tuple(found(*args, **kwargs) if callable(found) else found for _ in slots)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """The attribute of each slot; a method is called, as by `SyncVectorEnv`."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """
        Raise an error: a compiled environment is fixed.

        Raises
        ------
        NotImplementedError
            Always.
        """
        refuse_set(_WHO, name)

    def close_extras(self, **kwargs: Any) -> None:
        self.batched_env.close()

    def _reset_mask(self, options: dict[str, Any] | None) -> Any:
        """The `reset_mask` of options; None for all slots."""
        if not options or "reset_mask" not in options:
            return None
        if self.autoreset_mode != AutoresetMode.DISABLED:
            raise ValueError(
                f"{_WHO}: reset: expected `reset_mask` only if `autoreset_mode` is DISABLED; got "
                f"{self.autoreset_mode.name}."
            )
        return from_torch(options["reset_mask"])

    def _infos(self, result: StepResult) -> dict[str, Any]:
        """Infos of the step as Gymnasium has them in this mode."""
        begun = self._ended
        self._ended = result.terminated | result.truncated
        if self.autoreset_mode == AutoresetMode.SAME_STEP:
            last = result.final_mask
            last = None if last is None else gymnasium_mask(self._spaces[1], last)
            final_obs = [self._slot_obs(result.final_obs, i) for i in np.flatnonzero(self._ended)]
            return vector_infos(result.info, self._ended, final_obs, last)
        return slot_infos(result.info, ~begun, self._ended)

    def _slot_obs(self, obs: Any, slot: Any) -> Any:
        rows = jax.tree.map(lambda x: x[slot, ...].copy(), obs)  # an array also without axes
        return with_scalars(self._spaces[0], rows)

    def _as_array_kind(self, tree: Any) -> Any:
        return to_torch(tree) if self._array == "torch" else tree

    def _observed(self, obs: Any) -> Any:
        """Observations on the device; as tensors, their choices are int64, as Torch takes them."""
        obs = self._as_array_kind(obs)
        return map_leaves(_with_long, self._spaces[0], obs) if self._array == "torch" else obs

    def _with_masks(
        self, infos: dict[str, Any], result: StepResult, valid: np.ndarray[Any, Any]
    ) -> dict[str, Any]:
        if result.mask is None:
            return infos
        mask = gymnasium_mask(self._spaces[1], result.mask)
        return {**infos, **with_slot_masks({"action_mask": mask}, valid)}


def to_gymnasium_vec(
    batched_env: AnyBatch,
    *,
    autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
    array: Literal["numpy", "jax", "torch"] = "numpy",
    render_mode: str | None = None,
) -> GymnasiumVectorEnv:
    """
    A batch of environments as a `gymnasium.vector.VectorEnv`.

    `autoreset_mode` says when a slot whose episode ended begins the next one. The episodes are the
    same in each mode.

    - `SAME_STEP`: in that step. It returns the reward and the end of the step with the first
      observation of the next episode. The last observation and the info of the step are in
      `infos["final_obs"]` (an object array; None where no episode ended) and
      `infos["final_info"]`, there with the mask of the last state as `action_mask`.
    - `NEXT_STEP`: in the next step, which ignores the action of the slot and returns the first
      observation, a reward of 0, `terminated` and `truncated` False, and no infos.
    - `DISABLED`: in `reset(options={"reset_mask": mask})`, with a bool for each slot. The others
      stay as they are. With a seed, slot i begins as in `reset(seed=seed)`.

    Seeds are those of `to_gymnasium`, for all slots at once. With a list of them, one a slot, each
    slot begins as the single environment does by its seed, in any batch of copies of one
    environment. Other options of a reset are ignored.

    Parameters
    ----------
    batched_env : BatchedEnv
        The batch, such as `make_vec(id, n)`.
    autoreset_mode : gymnasium.vector.AutoresetMode or str, default SAME_STEP
        The mode, or its value: `"SameStep"`, `"NextStep"`, `"Disabled"`. A batch that is not a
        `VecEnv`, or wrappers around one, has `SAME_STEP` only; so have agents as slots, of which
        several begin together.
    array : {"numpy", "jax", "torch"}, default "numpy"
        The kind of the results. NumPy arrays belong to the caller. JAX arrays and Torch tensors
        stay on the device; a tensor shares the memory of its JAX array, without a copy.
        Observations in a `Discrete` or `MultiDiscrete` are int64; as JAX arrays they have JAX's
        dtype, int32 by default.
    render_mode : str, optional
        With `"rgb_array"`, `render` returns a tuple with an image of each slot.

    Returns
    -------
    gymnasium.vector.VectorEnv
        `infos["action_mask"]` has the masks that `to_gymnasium` gives, as `SyncVectorEnv` puts them
        together: an array with one row per slot, or for a `MultiDiscrete` or a `Tuple` an object
        array of tuples. With JAX or Torch arrays it is `batched_env.action_mask`, and infos have no
        masks `_name`: they are valid in every slot, but zero where `NEXT_STEP` resets, and
        `infos["final_obs"]` is the observation of the step itself, and `infos["final_mask"]` the
        mask of that state. `call` and `get_attr` take the first layer that has the name, from the
        outermost wrapper to the environment. `set_attr` raises an error, because a compiled
        environment is fixed.

    Raises
    ------
    TypeError
        If it is not a `BatchedEnv`, cannot have that mode, is on a mesh and `array` is "torch",
        Gymnasium has no such space, or it does not render its slots.
    ValueError
        If `autoreset_mode`, `array` or `render_mode` is unknown.
    RuntimeError
        By `step` with `DISABLED` and NumPy arrays, if a slot that ended was not reset.
    """
    return GymnasiumVectorEnv(
        batched_env, autoreset_mode=autoreset_mode, array=array, render_mode=render_mode
    )


def _mode(given: AutoresetMode | str) -> AutoresetMode:
    try:
        return AutoresetMode(given)
    except ValueError:
        raise ValueError(
            f"{_WHO}: expected autoreset_mode to be an AutoresetMode or one of "
            f"{[mode.value for mode in AutoresetMode]}; got {given!r}."
        ) from None


def _with_mode(mode: AutoresetMode, batch: AnyBatch) -> AnyBatch:
    if mode == AutoresetMode.SAME_STEP:
        return batch
    return next_step(_WHO, batch) if mode == AutoresetMode.NEXT_STEP else disabled(_WHO, batch)


def _with_long(space: Space, x: Any) -> Any:
    return x.long() if isinstance(space, Discrete | MultiDiscrete) else x


def _masks(infos: dict[str, Any], mask: Any, name: str = "action_mask") -> dict[str, Any]:
    return infos if mask is None else {**infos, name: mask}
