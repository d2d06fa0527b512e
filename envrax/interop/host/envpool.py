# pyright: basic, reportMissingImports=false
"""`from_envpool`: a pool of EnvPool as a batched environment."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from envrax.interop.gymnasium_spaces import from_space
from envrax.interop.host.arrays import as_declared, take_rows, with_rows
from envrax.interop.host.batch import HostBatch
from envrax.interop.host.simulator import Types, VectorSimulator, require_info_names
from envrax.interop.peer.library import require
from envrax.spaces.base import canonical

require("gymnasium", "1.2", extra="gymnasium")

WHO = "from_envpool"
_SUFFIX = "GymnasiumEnvPool"


class EnvPoolSimulator(VectorSimulator):
    """A pool of EnvPool; see `from_envpool`."""

    who = WHO
    base_seed = True  # which it ignores
    resets_itself = True
    is_asynchronous = True

    def __init__(self, pool: Any, info_keys: Sequence[str]) -> None:
        _require_fit(pool)
        require_info_names(WHO, "info_keys", info_keys)
        self.pool = pool
        self.n = pool.config["num_envs"]
        self.name = str(pool.config.get("task") or type(pool).__name__.removesuffix(_SUFFIX))
        self.observation_space = from_space(pool.observation_space)
        self.action_space = from_space(pool.action_space)
        self.can_render = pool.render_mode == "rgb_array"
        self.info_types: Types = {name: self._type_of(name) for name in info_keys}
        self._all = np.arange(self.n, dtype=np.int32)

    @property
    def owned(self) -> Any:
        return self.pool

    def _type_of(self, name: str) -> jax.ShapeDtypeStruct:
        declared = self.pool.spec.state_array_spec
        known = {k.removeprefix("info:"): x for k, x in declared.items() if k.startswith("info:")}
        known["elapsed_step"] = declared["elapsed_step"]
        if name not in known:
            raise ValueError(
                f"{WHO}: expected an info that the pool gives; got {name!r}. It gives: "
                f"{', '.join(sorted(known))}."
            )
        shape = [size for size in known[name].shape if size != -1]  # -1 is the one player
        return jax.ShapeDtypeStruct((self.n, *shape), canonical(np.dtype(known[name].dtype)))

    def begin(self, seeds: Any) -> Any:
        obs, infos = self.pool.reset()
        self._require_order(infos, self._all)
        return obs

    def step(self, actions: Any, last: bool) -> Any:
        actions = as_declared(self.action_space, actions)
        obs, rewards, terminated, truncated, infos = self.pool.step(actions, self._all)
        self._require_order(infos, self._all)
        info = {name: infos[name] for name in self.info_types}
        last_obs = obs
        ended = self._all[terminated | truncated]
        if ended.size:
            last_obs = jax.tree.map(np.array, obs)
        while ended.size:
            # The step that the pool spends on a reset. Its `reset` is not the same: in Atari with
            # `episodic_life` it begins another game where a life was lost.
            first_obs, _, *ends, infos = self.pool.step(take_rows(actions, ended), ended)
            self._require_order(infos, ended)
            obs = with_rows(obs, ended, first_obs)
            ended = ended[ends[0] | ends[1]]
        return obs, rewards, terminated, truncated, info, last_obs

    def _require_order(self, infos: Any, ids: Any) -> None:
        if not np.array_equal(infos["env_id"], ids):
            raise RuntimeError(
                f"{WHO}: expected the pool to answer for the slots {ids.tolist()}, in order; got "
                f"{infos['env_id'].tolist()}. Step the pool only through this batch."
            )

    def draw(self, slot: int) -> Any:
        return self.pool.render(env_ids=[slot])[0]

    def close(self) -> None:
        self.pool.close()


def from_envpool(
    pool: Any, *, final_obs: bool = False, info_keys: Sequence[str] = (), name: str | None = None
) -> HostBatch:
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
    HostBatch
        EnvPool is seeded when the pool is made, and ignores seeds afterwards: `reset(rng)` begins
        new episodes from its own generators and ignores the key. For the same episodes, make the
        same pool again. It is `simulator.pool`.

    Raises
    ------
    TypeError
        If it is not a pool for Gymnasium, or a space has no counterpart.
    ValueError
        If it steps a part of the slots at once (`batch_size`), has several players a slot, gives
        no info of a name, or another batch, which is not closed, steps it already.
    """
    return HostBatch(EnvPoolSimulator(pool, info_keys), final_obs=final_obs, name=name)


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
