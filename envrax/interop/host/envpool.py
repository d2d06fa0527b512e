# pyright: basic, reportMissingImports=false
"""`from_envpool`: a pool of EnvPool as a batched environment."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from envrax.interop.gymnasium_spaces import from_space
from envrax.interop.host.arrays import copy_as, copy_rewards_and_ends, take_rows, with_rows
from envrax.interop.host.base import HostEnv, SimulatorStep, dtypes_of
from envrax.interop.host.infos import InfoKeys
from envrax.interop.peer.library import require

require("gymnasium", "1.2", extra="gymnasium")

__all__ = ["EnvPoolBatch", "from_envpool"]

WHO = "from_envpool"
_SUFFIX = "GymnasiumEnvPool"


class EnvPoolBatch(HostEnv):
    """A pool of EnvPool as a `BatchedEnv`; see `from_envpool`."""

    def __init__(
        self, pool: Any, final_obs: bool, info_keys: Sequence[str], name: str | None
    ) -> None:
        _require_fit(pool)
        self.pool = pool
        n = pool.config["num_envs"]
        super().__init__(
            n,
            (from_space(pool.observation_space), from_space(pool.action_space)),
            dtypes_of(pool.action_space),
            name or _name(pool),
            final_obs,
            InfoKeys(info_keys, n, WHO),
            is_asynchronous=True,
        )
        self._all = np.arange(n, dtype=np.int32)
        self._current.own(pool, WHO)

    @property
    def can_render(self) -> bool:
        return self.pool.render_mode == "rgb_array"

    def _begin(self, seed: int) -> Any:
        obs, infos = self._call(self.pool.reset)
        self._require_order(infos, self._all)
        return copy_as(self._obs_types, obs, WHO)

    def _advance(self, actions: Any, final_obs: bool) -> SimulatorStep:
        results = self._call(self.pool.step, actions, self._all)
        obs, rewards, terminated, truncated, infos = results
        self._require_order(infos, self._all)
        last = copy_as(self._obs_types, obs, WHO)
        ends = copy_rewards_and_ends(self.n_slots, rewards, terminated, truncated, WHO)
        kept_infos = self._infos.read(infos)
        ended = self._all[ends.done]
        obs = last
        if final_obs and not ended.size:
            obs = copy_as(self._obs_types, last, WHO)
        while ended.size:
            # The step that the pool spends on a reset. Its `reset` is not the same: in Atari with
            # `episodic_life` it begins another game where a life was lost.
            results = self._call(self.pool.step, take_rows(actions, ended), ended)
            first_obs, *columns, infos = results
            self._require_order(infos, ended)
            obs = with_rows(obs, ended, self._copy(first_obs, ended.size))
            ended = ended[copy_rewards_and_ends(ended.size, *columns, WHO).done]
        return SimulatorStep(obs, ends, kept_infos, last)

    def _copy(self, obs: Any, n: int) -> Any:
        """A copy of the observations of `n` slots."""

        def type_of_n(x: Any) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct((n, *x.shape[1:]), x.dtype)

        return copy_as(jax.tree.map(type_of_n, self._obs_types), obs, WHO)

    def _require_order(self, infos: Any, ids: Any) -> None:
        if not np.array_equal(infos["env_id"], ids):
            raise RuntimeError(
                f"{WHO}: expected the pool to answer for the slots {ids.tolist()}, in order; got "
                f"{infos['env_id'].tolist()}. Step the pool only through this batch."
            )

    def _draw(self, slot: int) -> Any:
        if not self.can_render:
            return super()._draw(slot)
        return self.pool.render(env_ids=[slot])[0]

    def _close(self) -> None:
        self.pool.close()


def from_envpool(
    pool: Any, *, final_obs: bool = False, info_keys: Sequence[str] = (), name: str | None = None
) -> EnvPoolBatch:
    """
    A pool of EnvPool as a `BatchedEnv`, with auto-reset in the same step.

    EnvPool spends the step after the end of an episode on a reset. Here the slots that ended are
    reset within the step that ends them; the episodes are the same.

    Parameters
    ----------
    pool : envpool.python.protocol.EnvPool
        Made by `envpool.make(id, env_type="gymnasium", num_envs=n, seed=seed)`: all slots in each
        step, one player a slot. It belongs to the batch from then on.
    final_obs : bool, default False
        Add `infos["final_obs"]`, as `VecEnv` does.
    info_keys : sequence of str, optional
        Names of numeric infos to pass on, such as `lives`, in the form `(n_slots, ...)`.
    name : str, optional
        The name for logs; EnvPool's own if not given.

    Returns
    -------
    BatchedEnv
        Not traceable. EnvPool is seeded when the pool is made, and ignores seeds afterwards:
        `reset(rng)` begins new episodes from its own generators and ignores the key. For the same
        episodes, make the same pool again.

    Raises
    ------
    TypeError
        If it is not a pool for Gymnasium, or a space has no counterpart.
    ValueError
        If it steps a part of the slots at once (`batch_size`), has several players a slot, or
        another batch, which is not closed, steps it already.
    """
    return EnvPoolBatch(pool, final_obs, info_keys, name)


def _require_fit(pool: Any) -> None:
    if not (hasattr(pool, "all_env_ids") and hasattr(pool, "config")):
        raise TypeError(
            f"{WHO}: expected a pool of EnvPool; got {pool!r}. Make one with "
            '`envpool.make(id, env_type="gymnasium", num_envs=n)`.'
        )
    kind = type(pool).__name__
    if not kind.endswith(_SUFFIX):
        raise TypeError(
            f"{WHO}: expected a pool for Gymnasium; got {kind}. Make it with "
            '`env_type="gymnasium"`.'
        )
    config = pool.config
    if config["batch_size"] not in (0, config["num_envs"]):
        raise ValueError(
            f"{WHO}: expected a pool that steps all slots at once; got num_envs="
            f"{config['num_envs']} and batch_size={config['batch_size']}. Leave out `batch_size`."
        )
    if config.get("max_num_players", 1) != 1:
        raise ValueError(
            f"{WHO}: expected one player a slot; got max_num_players={config['max_num_players']}. "
            "Make the pool with one player."
        )


def _name(pool: Any) -> str:
    return str(pool.config.get("task") or type(pool).__name__.removesuffix(_SUFFIX))
