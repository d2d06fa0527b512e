# pyright: basic, reportMissingImports=false
"""`from_gymnasium_vec`: a vector environment of Gymnasium as a batched environment."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import jax
import numpy as np

from envrax._jax.types import output_types
from envrax.interop.gymnasium_spaces import from_space
from envrax.interop.host.arrays import Mask, as_declared, copy_as, take_rows, with_rows
from envrax.interop.host.batch import HostBatch
from envrax.interop.host.gymnasium_modes import (
    HOW,
    WHO,
    autoreset_mode,
    has_known_reset,
    require_fit,
    require_partial_reset,
)
from envrax.interop.host.masks import MaskReader, of_gymnasium
from envrax.interop.host.simulator import Types, VectorSimulator, require_info_names, types_of
from envrax.interop.peer.library import require
from envrax.spaces import Dict, Space
from envrax.spaces.base import canonical, describe, is_mapping, kind

require("gymnasium", "1.2", extra="gymnasium")

from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorEnv  # noqa: E402
from gymnasium.vector.async_vector_env import AsyncState  # noqa: E402

_MASK = "action_mask"
InfoKeys = Sequence[str] | Mapping[str, Space]
Column = tuple[Any, Mask]  # the values of all slots, and the slots that gave one


class GymnasiumSimulator(VectorSimulator):
    """A vector environment of Gymnasium; see `from_gymnasium_vec`."""

    who = WHO
    base_seed = True

    def __init__(self, vector_env: VectorEnv, info_keys: InfoKeys) -> None:
        require_fit(vector_env)
        require_info_names(WHO, "info_keys", info_keys)
        self.vector_env = vector_env
        self.n = vector_env.num_envs
        self.name = _name(vector_env)
        self.observation_space = from_space(vector_env.single_observation_space)
        self.action_space = from_space(vector_env.single_action_space)
        self.resets_itself = autoreset_mode(vector_env) is AutoresetMode.SAME_STEP
        # `send` is ALE's.
        base = vector_env.unwrapped
        self.is_asynchronous = isinstance(base, AsyncVectorEnv) or hasattr(base, "send")
        self.can_render = vector_env.render_mode == "rgb_array"
        self._slot_types = output_types(self.observation_space.sample)
        self._reader = MaskReader(WHO, self.action_space, of_gymnasium)
        self.has_mask = _MASK in info_keys and self._reader.has_masks
        self._masks: Any = None
        self._last_masks: Any = None
        self._info_keys = _without_mask(info_keys) if self.has_mask else info_keys
        self._first_infos: Any = None
        self._is_known = has_known_reset(vector_env)
        self._seen: Any = None  # copies of the last observations, if its reset is not known
        if not self.resets_itself:
            require_partial_reset(vector_env, self._is_known)

    @property
    def owned(self) -> Any:
        return self.vector_env.unwrapped

    @cached_property
    def info_types(self) -> Types:
        if isinstance(self._info_keys, Mapping):
            return types_of(dict(self._info_keys), self.n)
        if self._info_keys and self._first_infos is None:
            self._reset_all()
        return {name: self._type_at_reset(name) for name in self._info_keys}

    def _type_at_reset(self, name: str) -> jax.ShapeDtypeStruct:
        column = _column(self._first_infos, name, self.n)
        if column is None and name in self._first_infos:
            raise ValueError(
                f"{WHO}: expected infos of numbers, or arrays of one shape; got another {name!r} "
                "from a reset, such as a dict or a text. Leave it out."
            )
        if column is None:
            raise ValueError(
                f"{WHO}: expected an info {name!r} that a reset gives for every slot as well; got "
                f"{_known(self._first_infos)}. Say what a step gives: "
                f'`info_keys={{"{name}": Box(-jnp.inf, jnp.inf, ())}}`.'
            )
        return jax.ShapeDtypeStruct(column[0].shape, canonical(column[0].dtype))

    def begin(self, seeds: Any) -> Any:
        return self._kept(self._reset_all(int(seeds)))

    def _reset_all(self, seed: int | None = None) -> Any:
        obs, self._first_infos = self.vector_env.reset(seed=seed)
        if (self._info_keys or self.has_mask) and not is_mapping(self._first_infos):
            raise TypeError(
                f"{WHO}: expected infos in a dict, for `info_keys`; got "
                f"{describe(self._first_infos)}. Leave out the wrapper `DictInfoToList`."
            )
        if self.has_mask:
            self._masks = self._masks_of(self._first_infos, np.arange(self.n))
        return obs

    def require_begin_where(self) -> None:
        require_partial_reset(self.vector_env, self._is_known)

    def begin_where(self, mask: Mask, seeds: Any) -> Any:
        # With a new mask and dict, since Gymnasium empties the dict.
        options = {"reset_mask": mask.copy()}
        seed = None if seeds is None else int(seeds)
        obs, infos = self.vector_env.reset(seed=seed, options=options)
        if self.has_mask:
            self._masks = with_rows(self._masks, mask, self._masks_of(infos, np.flatnonzero(mask)))
        before = self._seen
        obs = self._kept(obs)
        others_stay = jax.tree.map(
            lambda x, y: x[~mask].tobytes() == y[~mask].tobytes(), before, self._seen
        )
        if not jax.tree.all(others_stay):
            raise RuntimeError(
                f"{WHO}: expected {self.vector_env} to reset only the slots of "
                '`options["reset_mask"]`; got other observations in the others as well. '
                f"{HOW}"
            )
        return obs

    def step(self, actions: Any, last: bool) -> Any:
        actions = as_declared(self.action_space, actions)
        obs, rewards, terminated, truncated, infos = self.vector_env.step(actions)
        ended = None
        last_obs = self._kept(obs)
        if self.resets_itself:
            ended = np.asarray(terminated, bool) | np.asarray(truncated, bool)
            if last and ended.any():
                last_obs = self._obs_before_reset(obs, ended, infos)
        if self.has_mask:
            self._masks = self._last_masks = self._masks_of(infos, np.arange(self.n))
            if ended is not None and ended.any():
                last_masks = self._masks_of(infos.get("final_info"), np.flatnonzero(ended))
                self._last_masks = with_rows(self._masks, ended, last_masks)
        info = {name: self._info(infos, name, ended) for name in self._info_keys}
        return obs, rewards, terminated, truncated, info, last_obs

    def masks(self) -> Any:
        return self._masks

    def last_masks(self) -> Any:
        return self._last_masks

    def _masks_of(self, infos: Any, slots: np.ndarray) -> Any:
        """The masks of some slots, stacked, in infos of Gymnasium."""
        known = infos if is_mapping(infos) else {}
        given = known.get(f"_{_MASK}", np.full(self.n, _MASK in known))
        if not given[slots].all():
            raise ValueError(
                f"{WHO}: expected the simulator to give {_MASK!r} in the infos of every slot, at "
                f"every reset and step; got it from slots {np.flatnonzero(given).tolist()}. Its "
                f"infos are: {_known(known)}. Where an episode ended, in SAME_STEP mode, it must "
                'be in `infos["final_info"]` too.'
            )
        masks = [_of_slot(self.action_space, known[_MASK], i) for i in slots]
        return self._reader.stacked(masks, f"info {_MASK!r}")

    def _kept(self, obs: Any) -> Any:
        if not self._is_known:
            self._seen = copy_as(self.obs_types, obs, WHO)
        return obs

    def _obs_before_reset(self, obs: Any, ended: Mask, infos: Any) -> Any:
        """The observations before the reset, from an environment that has reset its slots."""
        given = infos.get("final_obs") if isinstance(infos, dict) else None
        by_slot = isinstance(given, np.ndarray) and given.dtype == object
        if given is None or (by_slot and any(x is None for x in given[ended])):
            raise RuntimeError(
                f'{WHO}: expected `infos["final_obs"]` of the slots that ended; got None from '
                f"{self.vector_env}. Leave out `final_obs=True`, or the wrapper that changes the "
                "infos."
            )
        obs = copy_as(self.obs_types, obs, WHO)
        if not by_slot:  # ALE has all slots
            return with_rows(obs, ended, take_rows(copy_as(self.obs_types, given, WHO), ended))
        rows = [copy_as(self._slot_types, x, WHO) for x in given[ended]]
        return with_rows(obs, ended, jax.tree.map(lambda *x: np.stack(x), *rows))

    def _info(self, infos: Any, name: str, ended: Mask | None) -> Any:
        """An info of the step; of slots that were reset in it, that of the step that ended."""
        column = _column(infos, name, self.n)
        if ended is not None and ended.any():
            column = _merge(column, _column(infos.get("final_info", {}), name, self.n), ended)
        if column is None or not column[1].all():
            slots = "no slot" if column is None else f"slots {np.flatnonzero(column[1]).tolist()}"
            raise ValueError(
                f"{WHO}: expected the simulator to give a number or an array {name!r} in the "
                f"infos of every slot at every step; got it from {slots}. Its infos are: "
                f"{_known(infos)}. Where an episode ended, in SAME_STEP mode, it must be in "
                '`infos["final_info"]`.'
            )
        return column[0]

    def draw(self, slot: int) -> Any:
        frames: Any = self.vector_env.render()
        return frames[slot]

    def close(self) -> None:
        base: Any = self.vector_env.unwrapped
        if isinstance(base, AsyncVectorEnv) and _waits_for_ever(base):
            base._state = AsyncState.DEFAULT  # or `close` would wait for a pending result
            base.close(terminate=True)
        self.vector_env.close()


def from_gymnasium_vec(
    vector_env: VectorEnv,
    *,
    final_obs: bool = False,
    info_keys: InfoKeys = (),
    name: str | None = None,
) -> HostBatch:
    """
    A vector environment of Gymnasium as a `BatchedEnv`, with auto-reset in the same step.

    Its own auto-reset is used in `SAME_STEP` mode. In the other modes the slots that ended are
    reset within the step, with Gymnasium's `options={"reset_mask": mask}`. That works with
    `SyncVectorEnv`, `AsyncVectorEnv` and ALE's `AtariVectorEnv`, and with any vector environment in
    `DISABLED` mode.

    Parameters
    ----------
    vector_env : gymnasium.vector.VectorEnv
        The vector environment. It belongs to the batch from then on, which closes it.
    final_obs : bool, default False
        Add `infos["final_obs"]`, as `VecEnv` does; and `infos["final_mask"]`, if there are masks.
        In `SAME_STEP` mode both are Gymnasium's own, which are wrong where environments return one
        array, or a mask of the same arrays, again and again: use another mode.
    info_keys : sequence of str, or mapping of str to Space, optional
        Names of numeric infos to pass on, such as `lives`, in the form `(n_slots, ...)`. Every slot
        must give them at every step. An info that a reset does not give needs a space, which says
        what it looks like: `{"x_velocity": Box(-jnp.inf, jnp.inf, ())}`. With `action_mask`, in the
        form that `sample` of Gymnasium's action space takes, the batch has masks: that info is then
        `action_mask(state)`.
    name : str, optional
        The name for logs; Gymnasium's id if not given.

    Returns
    -------
    HostBatch
        `reset(rng)` passes a seed of 30 bits, made of the key: the same key begins the same
        episodes. Slot i gets that seed plus i, as Gymnasium does it. The vector environment is
        `simulator.vector_env`.

    Raises
    ------
    TypeError
        If it is not a `VectorEnv`, or a space has no counterpart.
    ValueError
        If its auto-reset is not declared, it spends a step on a reset (`NEXT_STEP`) and cannot
        reset single slots, or another batch, which is not closed, steps it already. At the first
        step, if a reset gives no info of that name.
    """
    return HostBatch(GymnasiumSimulator(vector_env, info_keys), final_obs=final_obs, name=name)


def _without_mask(info_keys: InfoKeys) -> InfoKeys:
    if isinstance(info_keys, Mapping):
        return {name: space for name, space in info_keys.items() if name != _MASK}
    return [name for name in info_keys if name != _MASK]


def _of_slot(space: Space, values: Any, slot: int) -> Any:
    """The value of one slot in an info, of which Gymnasium has a dict of columns for a dict."""
    if isinstance(space, Dict) and is_mapping(values):
        parts = {k: child for k, child in space.items() if k in values}
        return {k: _of_slot(child, values[k], slot) for k, child in parts.items()}
    return values[slot]


def _merge(column: Column | None, final: Column | None, ended: Mask) -> Column | None:
    """The values of `final` in the slots that ended, those of `column` in the others."""
    if final is None:
        return None
    final_values, final_given = final
    values, given = column or (np.zeros_like(final_values), np.zeros(len(ended), bool))
    where = ended.reshape(-1, *[1] * (values.ndim - 1))
    return np.where(where, final_values, values), np.where(ended, final_given, given)


def _column(infos: Any, name: str, n: int) -> Column | None:
    """The values of an info; None if it is not a numeric array."""
    if not is_mapping(infos) or infos.get(name) is None or is_mapping(infos[name]):
        return None
    values = np.asarray(infos[name])
    if values.shape[:1] != (n,) or kind(values.dtype) == "other":
        return None
    given = infos.get(f"_{name}")
    return values, np.ones(n, bool) if given is None else np.asarray(given, bool)


def _known(infos: Any) -> str:
    return ", ".join(sorted(k for k in infos if not k.startswith("_"))) or "none"


def _waits_for_ever(env: Any) -> bool:
    """Whether results are pending, some of which may be read, or a worker ended without a word."""
    workers = zip(env.processes, env.parent_pipes, strict=True)
    ended = any(pipe is not None and not process.is_alive() for process, pipe in workers)
    return ended or env._state is not AsyncState.DEFAULT


def _name(env: VectorEnv) -> str:
    base: Any = env.unwrapped
    parts = getattr(base, "envs", None)
    spec = env.spec or (parts[0].spec if parts else None)
    return spec.id if spec else type(base).__name__
