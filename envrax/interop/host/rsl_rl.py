# pyright: basic, reportMissingImports=false
"""`from_rsl_rl`: simulators of Torch tensors, by rsl_rl's protocol, as a batched environment."""

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax._jax.types import output_types
from envrax.interop.host.batch import HostBatch
from envrax.interop.host.simulator import VectorSimulator
from envrax.interop.out.tensors import require_torch
from envrax.interop.peer.spaces import nested, unbounded
from envrax.spaces import Space
from envrax.spaces.base import canonical

__all__ = ["RslRlSimulator", "from_rsl_rl"]

WHO = "from_rsl_rl"
_FORMS = "(observations, rewards, dones, extras), or with privileged observations in second place"


class RslRlSimulator(VectorSimulator):
    """A `VecEnv` of rsl_rl; see `from_rsl_rl`."""

    who = WHO
    base_seed = True

    def __init__(
        self,
        vec_env: Any,
        observation_space: Space | None,
        action_space: Space | None,
        reset_slots: Callable[[Any], Any] | None,
    ) -> None:
        protocol = "num_envs", "num_actions", "reset", "step"
        missing = [name for name in protocol if not hasattr(vec_env, name)]
        if missing:
            raise TypeError(
                f"{WHO}: expected a VecEnv by rsl_rl's protocol; got {vec_env!r} without "
                f"{', '.join(missing)}. Pass the library's own wrapper for rsl_rl."
            )
        self._torch: Any = require_torch()
        self.vec_env = vec_env
        self.n = int(vec_env.num_envs)
        base: Any = getattr(vec_env, "unwrapped", vec_env)
        self._base = base
        self._has_privileged = False
        self.name = type(base).__name__
        cfg: Any = getattr(base, "cfg", None)
        self._reset_slots = reset_slots
        # A simulator that leaves the reset to its caller shows the last observation of an episode.
        self.resets_itself = reset_slots is None and (
            getattr(cfg, "auto_reset", True) or not _begins_some(base)
        )
        self.has_last = bool(getattr(cfg, "compute_final_obs", False))
        first = self._present() if hasattr(vec_env, "get_observations") else self._begun()
        self.device = jax.tree.leaves(first)[0].device
        self.on_device = self.device.type != "cpu"
        seen = jax.tree.map(self._type_of, first)
        actions = jax.ShapeDtypeStruct((int(vec_env.num_actions),), np.float32)
        self.observation_space = observation_space or _own_space(base, "observation", seen)
        self.action_space = action_space or _own_space(base, "action", actions)
        if output_types(self.action_space.sample) != actions:
            raise TypeError(
                f"{WHO}: expected `action_space` of shape {actions.shape}, float32, as "
                f"`num_actions` says; got {self.action_space}."
            )

    @property
    def owned(self) -> Any:
        return self._base

    def _type_of(self, x: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(x.shape[1:], canonical(self.array(x).dtype))

    def array(self, x: Any, straight: bool = False) -> Any:
        if not isinstance(x, self._torch.Tensor):
            return np.asarray(x)
        x = x.detach()
        if straight and self.on_device:
            # A copy: simulators write their buffers again, and DLPack would share them.
            return jnp.from_dlpack(x.clone(memory_format=self._torch.contiguous_format))
        x = x.float() if x.dtype == self._torch.bfloat16 else x  # which NumPy lacks
        return x.cpu().numpy()

    def begin(self, seeds: Any) -> Any:
        seed = getattr(self.vec_env, "seed", getattr(self._base, "seed", None))
        takes_seed = "seed" in inspect.signature(self.vec_env.reset).parameters
        if callable(seed):
            seed(int(seeds))
        obs = self._begun() if callable(seed) or not takes_seed else self._begun(seed=int(seeds))
        if self._reset_slots is None:
            return obs
        return self.begin_where(np.ones(self.n, bool), None)  # the `reset` of some resets nothing

    def _begun(self, **seed: int) -> Any:
        with self._torch.no_grad():
            return self._shown(self.vec_env.reset(**seed))

    def _shown(self, returned: Any) -> Any:
        if hasattr(self.vec_env, "get_observations"):
            return self._present()  # what some resets return is from before the reset
        if returned is None:
            raise TypeError(
                f"{WHO}: expected a reset that returns the observations of all slots; got None. "
                "Let it return them, or give the simulator a method `get_observations`."
            )
        return _groups(_first_of(returned))

    def _present(self) -> Any:
        privileged = getattr(self.vec_env, "get_privileged_observations", lambda: None)()
        self._has_privileged = privileged is not None
        return _groups(_first_of(self.vec_env.get_observations()), privileged)

    def require_begin_where(self) -> None:
        if self.resets_itself:
            super().require_begin_where()

    def begin_where(self, mask: Any, seeds: Any) -> Any:
        ids = self._torch.as_tensor(np.flatnonzero(mask), device=self.device)
        reset: Any = self._reset_slots or (lambda ids: self._base.reset(env_ids=ids))
        with self._torch.no_grad():
            return self._shown(reset(ids))

    def step(self, actions: Any, last: bool) -> Any:
        torch = self._torch
        if isinstance(actions, jax.Array):
            given = torch.from_dlpack(jax.block_until_ready(actions)).clone()
        else:
            given = torch.as_tensor(actions, device=self.device)
        with torch.no_grad():
            obs, *privileged, rewards, dones, extras = _tuple_of(self.vec_env.step(given))
        if getattr(rewards, "dtype", None) == torch.bool:
            raise TypeError(
                f"{WHO}: expected step to return {_FORMS}; got rewards that are bools, as the "
                "five values of Gymnasium have them. Pass the library's own wrapper for rsl_rl."
            )
        extras = extras or {}
        obs = _groups(obs, *(privileged if self._has_privileged else ()))
        ended = self.array(dones).astype(bool)
        truncated = self.array(extras.get("time_outs", False)).astype(bool) & ended
        terminated = ended & ~truncated
        if "time_outs" in extras and hasattr(self._base, "reset_terminated"):
            # Both ends at once, of which `time_outs` tells one.
            terminated = self.array(self._base.reset_terminated).astype(bool) & ended
            truncated = ended & (truncated | ~terminated)
        self._require_declared_reset(ended)
        last_obs = None
        if last and self.has_last and ended.any():
            final = _groups(extras["final_obs"])
            rows = torch.as_tensor(ended, device=self.device)
            last_obs = jax.tree.map(lambda x, y: _with_rows(x, y, rows), obs, final)
        return obs, rewards, terminated, truncated, {}, obs if last_obs is None else last_obs

    def _require_declared_reset(self, ended: Any) -> None:
        """Refuse a simulator whose counters say that it resets in another step than declared."""
        for name in ("episode_length_buf", "progress_buf"):
            steps = vars(self._base).get(name)
            if steps is None or not ended.any():
                continue
            goes_on = self.array(steps)[ended] > 0
            if self.resets_itself and goes_on.any():
                raise RuntimeError(
                    f"{WHO}: expected a simulator that resets a slot in the step that ends its "
                    f"episode; got {self.name}, whose `{name}` goes on. The step after it would be "
                    "no transition. Let its `step` reset, or give `reset_slots`, which resets the "
                    "slots of some indices, as for IsaacGymEnvs."
                )
            if self._reset_slots and not goes_on.all():
                raise RuntimeError(
                    f"{WHO}: expected a simulator that leaves the slots that ended to "
                    f"`reset_slots`; got {self.name}, whose `{name}` is 0 again. Leave out "
                    "`reset_slots`."
                )

    def close(self) -> None:
        getattr(self.vec_env, "close", lambda: None)()


def from_rsl_rl(
    vec_env: Any,
    *,
    observation_space: Space | None = None,
    action_space: Space | None = None,
    reset_slots: Callable[[Any], Any] | None = None,
    final_obs: bool = False,
    name: str | None = None,
) -> HostBatch:
    """
    Simulators of Torch tensors that speak rsl_rl's protocol as a `BatchedEnv`.

    They are those of mjlab, Isaac Lab, Genesis and legged_gym, and `to_rsl_rl`. Tensors are copied
    to the dtypes of the spaces. On a CPU the batch gives NumPy arrays. On another device it takes
    and gives JAX arrays there, but inside of `jax.jit`, where they cross the host.

    Parameters
    ----------
    vec_env : rsl_rl.env.VecEnv
        Any object with `num_envs`, `num_actions`, `reset()` and `step(actions) -> (observations,
        rewards, dones, extras)`, and `get_observations` if `reset` returns none. Observations are
        one tensor, a dict or a TensorDict, whose groups become a `Dict`. With
        `get_privileged_observations`, and those in second place of five values, they are the group
        `"critic"` beside `"policy"`. It belongs to the batch from then on.
    observation_space, action_space : Space, optional
        The spaces of one slot. By default its own of Gymnasium, `single_observation_space` and
        `single_action_space`, where they have the shapes seen; else unbounded.
    reset_slots : callable, optional
        `reset_slots(indices)` for a simulator that resets in the *next* step, as IsaacGymEnvs' does
        (Gymnasium's `NEXT_STEP`). It begins an episode in the slots of a tensor of indices, and
        returns the observations of all slots, if there is no `get_observations`. The batch calls it
        in the step that ends an episode and after `reset`, so that nothing is left for the next
        step to reset: each step is a transition, and shows its last observation.
    final_obs : bool, default False
        Add `infos["final_obs"]`, as `VecEnv` does.
    name : str, optional
        The name for logs; the class of the simulator if not given.

    Returns
    -------
    HostBatch
        An end is a truncation where `extras["time_outs"]` says so, and a termination where not, or
        where `reset_terminated` of the simulator says so. `reset(rng)` calls its `seed`, or its
        `reset(seed=...)`; without both it ignores the key. `seed` of mjlab seeds Torch, NumPy and
        Python for the whole process, and leaves what was drawn when it was built. One that resets
        its slots shows no last observation, but with `compute_final_obs` of Isaac Lab: without it
        `final_obs` is refused, and `next_obs` of `rollout` is None. mjlab with `auto_reset=False`
        has it.

    Raises
    ------
    TypeError
        If it lacks a part of the protocol, or returns something else from a step.
    RuntimeError
        If its counters show that it resets a slot only in the step after the end of an episode, and
        there is no `reset_slots`: without it the slots cannot be begun one by one.
    """
    simulator = RslRlSimulator(vec_env, observation_space, action_space, reset_slots)
    return HostBatch(simulator, final_obs=final_obs, name=name)


def _begins_some(base: Any) -> bool:
    reset = getattr(base, "reset", None)
    return reset is not None and "env_ids" in inspect.signature(reset).parameters


def _tuple_of(returned: Any) -> tuple[Any, ...]:
    if not isinstance(returned, tuple) or len(returned) not in (4, 5):
        got = f"{len(returned)} values" if isinstance(returned, tuple) else type(returned).__name__
        raise TypeError(f"{WHO}: expected step to return {_FORMS}; got {got}.")
    return returned


def _first_of(returned: Any) -> Any:
    """The observations of a reset, which may come with extras."""
    return returned[0] if isinstance(returned, tuple) else returned


def _groups(obs: Any, privileged: Any = None) -> Any:
    """Observations as one tensor, or as a dict of groups."""
    if isinstance(obs, Mapping) or hasattr(obs, "batch_size"):  # a TensorDict is no Mapping
        return {key: _groups(obs[key]) for key in sorted(obs.keys()) if obs[key] is not None}
    return obs if privileged is None else {"critic": privileged, "policy": obs}


def _with_rows(x: Any, rows_of: Any, rows: Any) -> Any:
    x = x.clone()
    x[rows] = rows_of[rows]
    return x


def _own_space(base: Any, kind: str, types: Any) -> Space:
    """The simulator's own space of Gymnasium, if it has these types; else an unbounded one."""
    found = getattr(base, f"single_{kind}_space", None)
    if type(found).__module__.startswith("gymnasium"):
        from_space = import_module("envrax.interop.gymnasium_spaces").from_space
        space = from_space(found)
        if output_types(space.sample) == types:
            return space
    return nested(unbounded, types)
