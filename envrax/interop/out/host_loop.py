"""`HostLoop`: an environment stepped from Python, with one device transfer per step."""

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.counts import require_count
from envrax._checks.tuples import require_tuple
from envrax._jax.compiled import Compiled
from envrax._jax.keys import key_types
from envrax._jax.types import output_types, strip_weak_type
from envrax.agent_values import require_one_agent
from envrax.autoreset.checks import checked, require_same_types
from envrax.batched_env import BatchedEnv
from envrax.compiled_batch import compilation_of, require_final_obs
from envrax.env import AnyEnv, JaxEnv
from envrax.interop.forms import types_of
from envrax.interop.out.packing import SMALL, pack, unpack, unpack_on_device, without_keys
from envrax.interop.out.tensors import from_torch
from envrax.spaces.base import canonical
from envrax.spaces.conform import conform
from envrax.termination import episode_end, episode_ended
from envrax.wrappers.jit import compilation

AnyBatch = BatchedEnv[Any, Any]


class StepResult(NamedTuple):
    """The results of a step as arrays; of a reset, `obs` and `mask` alone."""

    obs: Any
    mask: Any
    reward: Any = None
    terminated: Any = None
    truncated: Any = None
    info: Any = None
    final_obs: Any = None


class HostLoop:
    """
    Holds the state and the key of an environment, or a batch of them, for a trainer in Python.

    `reset` and `step` are one compiled call each; the first `reset` compiles both. Their results
    are copied from the device in one `jax.device_get`, and belong to the caller. The state stays on
    the device, packed, since every array that `jit` takes or returns costs time.

    Parameters
    ----------
    env : JaxEnv or BatchedEnv
        The environment. Host-side ones work too.
    who : str
        The function that the user called, for error messages.
    on_device : bool, default False
        Return JAX arrays, without a transfer.
    worlds : bool, default False
        Take a world of several agents.
    """

    def __init__(
        self, env: AnyEnv | AnyBatch, who: str, *, on_device: bool = False, worlds: bool = False
    ) -> None:
        if not worlds:
            require_one_agent(who, env)
        self.env, self._who = env, who
        self._action_space = env.action_space  # many environments build it on each access
        self._batched = isinstance(env, BatchedEnv)
        self._on_device = on_device
        dtypes = env.observation_space.dtype
        self._dtypes = dtypes if jax.tree.map(canonical, dtypes) != dtypes else None
        self._types: Any = None
        self._key: Any = None
        self._state: Any = None
        self._has_state = False
        self._make_programs()

    @property
    def state(self) -> Any:
        """The state of the environment, unpacked."""
        return self._unpacked(self._require_state("render"))

    def reset(self, seed: int | None = None) -> StepResult:
        """
        Begin an episode, or one in every slot.

        Every reset does `rng, key = jax.random.split(rng)` and uses `key`. A seed sets
        `rng = jax.random.key(seed)` before; the first reset without one draws it from the operating
        system.
        """
        if seed is not None or self._key is None:
            self._key = jax.random.key_data(jax.random.key(self._seed(seed)))
        if not self._has_state:
            self._compile_ahead()
        self._key, self._state, told = self._reset(self._key)
        self._has_state = True
        return self._handed_out(told)

    def step(self, action: Any) -> StepResult:
        """Take one step with an action of arrays (NumPy, JAX, Torch), Python numbers or lists."""
        state = self._require_state("step")
        name = "actions" if self._batched else "action"
        action = conform(self._action_space, from_torch(action), f"{self._who}: step", name)
        if self._on_device:
            # This step runs asynchronously, and may still read the caller's NumPy arrays.
            action = jax.tree.map(lambda x: x if isinstance(x, jax.Array) else np.array(x), action)
        self._state, told = self._step(state, action)
        return self._handed_out(told)

    def has_masks(self) -> bool:
        """Whether the environment has masks of legal actions."""
        if not self.env.traceable:
            return type(self.env).action_mask is not BatchedEnv.action_mask

        def first_mask(rng: Any) -> Any:
            return self.env.action_mask(self.env.reset(rng)[1])

        return bool(jax.tree.leaves(jax.eval_shape(first_mask, key_types()[0])))

    def _seed(self, seed: int | None) -> int:
        if seed is None:
            return int(np.random.SeedSequence().generate_state(1)[0])
        number = require_count(f"{self._who}: reset: expected seed", seed, 0)
        if number >= 2**32:
            raise ValueError(
                f"{self._who}: reset: expected a seed from 0 to 2**32 - 1; got {seed}. Pass "
                "one of these, such as `seed % 2**32`."
            )
        return number

    def _require_state(self, what: str) -> Any:
        if not self._has_state:
            raise RuntimeError(
                f"{self._who}: expected `reset` before `{what}`; got none. Call `reset` first."
            )
        return self._state

    def _handed_out(self, told: Any) -> StepResult:
        if self._on_device:
            return told
        told = unpack(told)
        if self._dtypes is None:
            return told
        # JAX has no 64-bit dtypes unless they are enabled; the trainer's space may have.
        last = None if told.final_obs is None else _cast(self._dtypes, told.final_obs)
        return told._replace(obs=_cast(self._dtypes, told.obs), final_obs=last)

    def _to_hand_out(self, told: StepResult) -> Any:
        # Copies: `jit` returns an unchanged input as the same array.
        return _copied(told) if self._on_device else pack(told)

    def _reset_packed(self, key: Any) -> Any:
        rng, key = jax.random.split(jax.random.wrap_key_data(key))
        obs, state = self._checked("reset", self.env.reset(key))
        told = self._to_hand_out(StepResult(obs, self.env.action_mask(state)))
        return jax.random.key_data(rng), self._packed(state), told

    def _step_packed(self, state: Any, action: Any) -> Any:
        returned = self.env.step(self._unpacked(state), action)
        obs, state, reward, done, info = self._checked("step", returned)
        if isinstance(self.env, JaxEnv):
            done = episode_ended(self.env, state, done)
        else:
            require_final_obs(self._who, info)
        shape = (self.env.n_slots,) if isinstance(self.env, BatchedEnv) else ()
        terminated, truncated = episode_end(self._who, shape, done, info)
        for x in jax.tree.leaves(reward):
            if jnp.shape(x) != shape:
                raise ValueError(
                    f"{self._who}: expected rewards of shape {shape}; got {jnp.shape(x)}. Leave "
                    "out the wrapper that changes it, such as `ExpandDims`."
                )
        hidden = ["terminated", "truncated"] + ["final_obs"] * self._batched
        told = StepResult(
            obs,
            self.env.action_mask(state),
            jax.tree.map(jnp.asarray, reward),
            terminated,
            truncated,
            {name: x for name, x in info.items() if name not in hidden},
            info.get("final_obs") if self._batched else None,
        )
        return self._packed(state), self._to_hand_out(told)

    def _checked(self, method: str, returned: Any) -> Any:
        """The results of the environment, checked against the types that reset and step share."""
        if isinstance(self.env, JaxEnv):
            returned = checked(self.env, method, returned)
        else:
            returned = require_tuple(self._who, method, returned)
        if self.env.traceable:  # host-side environments keep their own states
            returned = strip_weak_type(tuple(returned))
            types = types_of({"obs": returned[0], "state": returned[1]})
            self._types = self._types or types
            require_same_types(cast(Any, self.env), self._types, types)
        return returned

    def _packed(self, state: Any) -> Any:
        """The state as the driver keeps it; that of a host-side environment is unchanged."""
        return pack(state, SMALL) if self.env.traceable else state

    def _unpacked(self, state: Any) -> Any:
        unpacked: Any = unpack_on_device
        return unpacked(state) if self.env.traceable else state

    def _make_programs(self) -> None:
        self._reset: Any = self._reset_packed
        self._step: Any = self._step_packed
        if self.env.traceable:
            self._reset = Compiled(self._reset)
            self._step = Compiled(self._step)

    def _compile_ahead(self) -> None:
        """Compile `reset` and `step`, with the compile cache of the environment."""
        env: Any = self.env
        how = compilation(env) if isinstance(env, JaxEnv) else compilation_of(env)
        if env.traceable and how is not None:
            cache_dir = how.cache_dir
            _, state, _ = self._reset.compile(cache_dir, self._key)
            self._step.compile(cache_dir, state, output_types(self._action_space.sample))

    def __getstate__(self) -> dict[str, Any]:
        # Programs belong to the copy that compiled them.
        return {k: v for k, v in vars(self).items() if k not in ("_reset", "_step", "_types")}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        vars(self).update(kept, _types=None)
        self._make_programs()


def _cast(dtypes: Any, tree: Any) -> Any:
    return jax.tree.map(lambda dtype, x: x.astype(dtype, copy=False), dtypes, tree)


def _copied(told: StepResult) -> StepResult:
    return jax.tree.map(lambda x: jnp.array(without_keys(x), copy=True), told)
