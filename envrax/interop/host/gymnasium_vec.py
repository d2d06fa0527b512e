# pyright: basic, reportMissingImports=false
"""`from_gymnasium_vec`: a vector environment of Gymnasium as a batched environment."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from envrax._checks.masks import require_mask
from envrax._jax.types import output_types
from envrax.interop.gymnasium_spaces import from_space
from envrax.interop.host.arrays import Mask, copy_as, copy_rewards_and_ends, take_rows, with_rows
from envrax.interop.host.base import HostEnv, SimulatorStep, dtypes_of
from envrax.interop.host.gymnasium_modes import (
    HOW,
    WHO,
    autoreset_mode,
    has_known_reset,
    require_fit,
    require_partial_reset,
)
from envrax.interop.host.infos import InfoKeys
from envrax.interop.host.state import HostState
from envrax.interop.peer.library import require
from envrax.spaces.conform import conform

require("gymnasium", "1.2", extra="gymnasium")

from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorEnv  # noqa: E402
from gymnasium.vector.async_vector_env import AsyncState  # noqa: E402

__all__ = ["GymnasiumBatch", "from_gymnasium_vec"]


class GymnasiumBatch(HostEnv):
    """A vector environment of Gymnasium as a `BatchedEnv`; see `from_gymnasium_vec`."""

    def __init__(
        self, vector_env: VectorEnv, final_obs: bool, info_keys: Sequence[str], name: str | None
    ) -> None:
        require_fit(vector_env)
        self.vector_env = vector_env
        self._same_step = autoreset_mode(vector_env) is AutoresetMode.SAME_STEP
        self._is_known = has_known_reset(vector_env)
        if not self._same_step:
            require_partial_reset(vector_env, self._is_known)
        obs_space = vector_env.single_observation_space
        action_space = vector_env.single_action_space
        super().__init__(
            vector_env.num_envs,
            (from_space(obs_space), from_space(action_space)),
            dtypes_of(action_space),
            name or _name(vector_env),
            final_obs,
            InfoKeys(info_keys, vector_env.num_envs, WHO),
            _is_asynchronous(vector_env.unwrapped),
        )
        self._slot_types = output_types(self.single_observation_space.sample)
        self._current.own(vector_env.unwrapped, WHO)

    @property
    def can_render(self) -> bool:
        return self.vector_env.render_mode == "rgb_array"

    def _begin(self, seed: int) -> Any:
        obs, _ = self._call(self.vector_env.reset, seed=seed)
        return copy_as(self._obs_types, obs, WHO)

    def _advance(self, actions: Any, final_obs: bool) -> SimulatorStep:
        obs, rewards, terminated, truncated, infos = self._call(self.vector_env.step, actions)
        # Copied before a reset, which may write to the same arrays.
        ends = copy_rewards_and_ends(self.n_slots, rewards, terminated, truncated, WHO)
        ended = ends.done
        obs = copy_as(self._obs_types, obs, WHO)
        if self._same_step:
            kept_infos = self._infos.read(infos, ended)
            last = self._obs_before_reset(obs, ended, infos) if final_obs else None
            return SimulatorStep(obs, ends, kept_infos, last)
        kept_infos = self._infos.read(infos)
        last = obs
        if ended.any():
            obs = self._reset_where(ended, last)
        elif final_obs:
            obs = copy_as(self._obs_types, last, WHO)
        return SimulatorStep(obs, ends, kept_infos, last)

    def reset_where(
        self,
        mask: Any,
        obs: Any,
        state: HostState,
        rng: jax.Array | None = None,
        *,
        starts: Any = None,
    ) -> tuple[Any, HostState]:
        """
        Begin an episode in the slots of a mask, by Gymnasium's `options={"reset_mask": mask}`.

        Raises
        ------
        ValueError
            If the vector environment cannot reset single slots.
        NotImplementedError
            With `starts`.
        """
        who = f"{type(self).__name__}.reset_where"
        if starts is not None:
            raise NotImplementedError(
                f"{who}: expected no `starts`, since a simulator on the host cannot be set to a "
                "state. Give its own seeds or options."
            )
        obs = conform(self.observation_space, obs, who, "obs", "Pass what reset or step returned.")
        self._refuse_tracers(who, (mask, rng))
        newest = self._current.require_newest(state, who)
        mask = np.asarray(require_mask(who, mask, self.n_slots))
        require_partial_reset(self.vector_env, self._is_known)
        seed = None if rng is None else self._seed(who, rng)
        if mask.any():
            self._current.forget()
            obs = with_rows(obs, mask, take_rows(self._first_obs(mask, seed), mask))
        return obs, self._current.after_step(newest, mask | newest.first)

    def _reset_where(self, ended: Mask, final_obs: Any) -> Any:
        """Reset the slots that ended, and return the observations of all."""
        first_obs = self._first_obs(ended)
        others_stay = jax.tree.map(
            lambda x, y: x[~ended].tobytes() == y[~ended].tobytes(), first_obs, final_obs
        )
        if not (self._is_known or jax.tree.all(others_stay)):
            raise RuntimeError(
                f"{WHO}: expected {self.vector_env} to reset only the slots of "
                '`options["reset_mask"]`; got other observations in the others as well. '
                f"{HOW}"
            )
        return with_rows(final_obs, ended, take_rows(first_obs, ended))

    def _first_obs(self, mask: Mask, seed: int | None = None) -> Any:
        """The first observations in the slots of a mask, after their reset."""
        # With a new mask and dict, since Gymnasium empties the dict.
        options = {"reset_mask": mask.copy()}
        first_obs, _ = self._call(self.vector_env.reset, seed=seed, options=options)
        return copy_as(self._obs_types, first_obs, WHO)

    def _obs_before_reset(self, obs: Any, ended: Mask, infos: Any) -> Any:
        """The observations before the reset, from an environment that has reset its slots."""
        if not ended.any():
            return copy_as(self._obs_types, obs, WHO)
        given = infos.get("final_obs") if isinstance(infos, dict) else None
        by_slot = isinstance(given, np.ndarray) and given.dtype == object
        if given is None or (by_slot and any(x is None for x in given[ended])):
            raise RuntimeError(
                f'{WHO}: expected `infos["final_obs"]` of the slots that ended; got None from '
                f"{self.vector_env}. Leave out `final_obs=True`, or the wrapper that changes the "
                "infos."
            )
        if not by_slot:  # ALE has all slots
            return with_rows(obs, ended, take_rows(copy_as(self._obs_types, given, WHO), ended))
        rows = [copy_as(self._slot_types, x, WHO) for x in given[ended]]
        return with_rows(obs, ended, jax.tree.map(lambda *x: np.stack(x), *rows))

    def _draw(self, slot: int) -> Any:
        frames = self.vector_env.render() if self.can_render else None
        return super()._draw(slot) if frames is None else frames[slot]

    def _close(self) -> None:
        base: Any = self.vector_env.unwrapped
        if isinstance(base, AsyncVectorEnv) and _waits_for_ever(base):
            base._state = AsyncState.DEFAULT  # or `close` would wait for a pending result
            base.close(terminate=True)
        self.vector_env.close()


def from_gymnasium_vec(
    vector_env: VectorEnv,
    *,
    final_obs: bool = False,
    info_keys: Sequence[str] = (),
    name: str | None = None,
) -> GymnasiumBatch:
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
        Add `infos["final_obs"]`, as `VecEnv` does; and `infos["final_mask"]`, if `info_keys` has
        `action_mask`.
    info_keys : sequence of str, optional
        Names of numeric infos to pass on, such as `lives`, in the form `(n_slots, ...)`. Every slot
        must give them at every step.
    name : str, optional
        The name for logs; Gymnasium's id if not given.

    Returns
    -------
    BatchedEnv
        Not traceable. `reset(rng)` passes a seed of 30 bits, made of the key: the same key begins
        the same episodes. Slot i gets that seed plus i, as Gymnasium does it.

    Raises
    ------
    TypeError
        If it is not a `VectorEnv`, or a space has no counterpart.
    ValueError
        If its auto-reset is not declared, it spends a step on a reset (`NEXT_STEP`) and cannot
        reset single slots, or another batch, which is not closed, steps it already.
    """
    return GymnasiumBatch(vector_env, final_obs, info_keys, name)


def _is_asynchronous(env: Any) -> bool:
    return isinstance(env, AsyncVectorEnv) or hasattr(env, "send")  # `send` is ALE's


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
