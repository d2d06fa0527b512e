# pyright: basic, reportMissingImports=false
"""`to_sb3`: for Stable-Baselines3 and libraries built on it."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from envrax._jax.copies import copy_numpy
from envrax._jax.keys import key_types
from envrax.batched_env import AnyBatch
from envrax.interop.out.attributes import find, layers, refuse_set
from envrax.interop.out.batches import require_batch, require_flat
from envrax.interop.out.host_loop import HostLoop
from envrax.interop.out.infos import is_episode, single_info, slot_info
from envrax.interop.out.masks import flat_mask, is_flat
from envrax.interop.out.rendering import can_render
from envrax.interop.peer.library import require
from envrax.spaces import MultiBinary
from envrax.wrappers.vector import RecordEpisodeStatistics

require("stable_baselines3", "2.9", "common.monitor", "common.vec_env", extra="sb3")

from stable_baselines3.common.monitor import Monitor  # noqa: E402
from stable_baselines3.common.vec_env import VecEnv  # noqa: E402

from envrax.interop.gymnasium_spaces import to_space  # noqa: E402  # needs Gymnasium

_WHO = "to_sb3"


class Sb3VecEnv(VecEnv):
    """A batch of envrax as a vector environment of Stable-Baselines3; made by `to_sb3`."""

    def __init__(self, batched_env: AnyBatch) -> None:
        require_batch(_WHO, batched_env)
        require_flat(_WHO, batched_env.single_observation_space)
        self.batched_env = batched_env
        self._action_space = batched_env.single_action_space  # built on each access
        shown = self._action_space
        if isinstance(shown, MultiBinary):
            shown = MultiBinary(shown.n)  # of int8: SB3 has a policy for it alone
        self._loop = HostLoop(self.batched_env, _WHO)
        self._mask: Any = None
        self._actions: Any = None
        self._seed: Any = None  # of the next reset: one, or one for each slot
        super().__init__(
            batched_env.n_slots, to_space(batched_env.single_observation_space), to_space(shown)
        )

    def reset(self) -> Any:
        result = self._loop.reset(self._seed)
        self._seed = None
        self._reset_options()
        self.reset_infos = [{} for _ in range(self.num_envs)]
        self._mask = result.mask
        return result.obs

    def seed(self, seed: int | Sequence[int] | None = None) -> Sequence[int | None]:
        """Seed the next reset: by one seed, or by a list with one for each slot."""
        given = self._loop.checked_seed(seed, ": seed")
        seeds = given if isinstance(given, list) else super().seed(given)
        self._seed = seeds if isinstance(given, list) else seeds[0]
        return seeds

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = copy_numpy(actions)

    def step_wait(self) -> Any:
        if self._actions is None:
            raise RuntimeError(
                f"{_WHO}: step_wait: expected a call of `step_async` before; got no such "
                "call. Call `step`."
            )
        actions, self._actions = self._actions, None
        result = self._loop.step(actions)
        self._mask = result.mask
        dones = result.terminated | result.truncated
        step_infos = {k: v for k, v in result.info.items() if not is_episode(k, v)}
        only_truncated = (result.truncated & ~result.terminated).tolist()
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": x} for x in only_truncated]
        if step_infos:
            infos = [{**slot_info(step_infos, i), **info} for i, info in enumerate(infos)]
        space = self._action_space
        final_mask = result.final_mask if is_flat(space) else None
        for slot in np.flatnonzero(dones).tolist():
            final_obs = slot_info({"terminal_observation": result.final_obs}, slot)
            info = single_info(slot_info(result.info, slot), ended=True)
            infos[slot] = {**info, **final_obs}
            infos[slot]["TimeLimit.truncated"] = only_truncated[slot]
            if final_mask is not None:
                mask = flat_mask(_WHO, space, final_mask[slot : slot + 1])
                infos[slot]["terminal_action_masks"] = mask[0].copy()
        return result.obs, result.reward.astype(np.float32, copy=False), dones, infos

    def close(self) -> None:
        self.batched_env.close()

    def action_masks(self) -> np.ndarray:
        """The legal actions, bool of shape (n_slots, number of choices), as sb3-contrib expects."""
        if self._mask is None:
            raise RuntimeError(
                f"{_WHO}: action_masks: expected masks of the environment after `reset`; got None. "
                "Call `reset` first, or train without masks."
            )
        # A copy, since the caller may edit it and ask again.
        return flat_mask(_WHO, self._action_space, self._mask).copy()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        if attr_name == "render_mode":
            value = "rgb_array" if can_render(self.batched_env) else None
        elif attr_name == "action_masks":
            if not self._loop.has_masks():
                raise AttributeError(
                    f"{_WHO}: expected an environment with masks of legal actions; got "
                    f"{self.batched_env}. Give it an `action_mask`."
                )
            value = self.action_masks
        elif attr_name in ("observation_space", "action_space"):
            value = getattr(self, attr_name)
        else:
            value = find(_WHO, self.batched_env, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        refuse_set(_WHO, attr_name)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        slots = list(self._get_indices(indices))
        if method_name == "action_masks":
            masks = self.action_masks()
            return [masks[i] for i in slots]
        if method_name == "render":
            return [self._image(i) for i in slots]
        method = find(_WHO, self.batched_env, method_name)
        return [method(*method_args, **method_kwargs) for _ in slots]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        if issubclass(wrapper_class, Monitor):  # SB3 then reads `info["episode"]` at each end
            wrapped = self._has_statistics()
        else:
            wrapped = any(isinstance(layer, wrapper_class) for layer in layers(self.batched_env))
        return [wrapped for _ in self._get_indices(indices)]

    def _has_statistics(self) -> bool:
        env = self.batched_env

        def infos(rng: Any) -> Any:
            return env.step(env.reset(rng)[1], env.action_space.sample(rng))[-1]

        if not env.traceable:
            return any(isinstance(layer, RecordEpisodeStatistics) for layer in layers(env))
        return is_episode("episode", jax.eval_shape(infos, key_types()[0]).get("episode"))

    def get_images(self) -> Sequence[np.ndarray | None]:
        return [self._image(i) for i in range(self.num_envs)]

    def _image(self, slot: int) -> np.ndarray:
        return np.array(self.batched_env.render_slot(self._loop.state, slot))


def to_sb3(batched_env: AnyBatch) -> Sb3VecEnv:
    """
    A batch of environments as a `stable_baselines3.common.vec_env.VecEnv`.

    Where an episode ended, the info of the slot has `terminal_observation`; if there are masks,
    `terminal_action_masks`, that of the same state in the form of `action_masks()`; and the
    statistics of `RecordEpisodeStatistics` as `episode`. With these, `env_is_wrapped(Monitor)` is
    True: `evaluate_policy` then reports their returns, not sums of what a `ClipReward` outside of
    them gives. Inside an `EpisodicLife` the statistics count games, and to `evaluate_policy` a game
    is one episode. `TimeLimit.truncated` is True if the episode was truncated and not terminated.
    `env_method("action_masks")` returns the masks for sb3-contrib's `MaskablePPO`. After `seed(s)`
    the next `reset` sets `rng = jax.random.key(s)`; every reset does `rng, key =
    jax.random.split(rng)` and uses `key` for all slots. With a list of seeds, one a slot, each slot
    begins as in `to_gymnasium_vec`: the list `[s, s + 1, ...]` that `seed(s)` returns, as
    Stable-Baselines3 does, begins other episodes than `seed(s)`.

    `get_attr` and `env_method` take the first layer that has the name, from the outermost wrapper
    to the environment. `set_attr` raises an error, because a compiled environment is fixed.

    Parameters
    ----------
    batched_env : BatchedEnv
        The batch, such as `make_vec(id, n)`.

    Raises
    ------
    TypeError
        If it is not a `BatchedEnv`, or observations are `Tuple`s or nested `Dict`s, which
        Stable-Baselines3 does not take.
    """
    return Sb3VecEnv(batched_env)
