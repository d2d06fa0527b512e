"""`HostLoop`: an environment stepped from Python, with one device transfer per step."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.counts import require_count
from envrax._checks.masks import require_mask
from envrax._jax import forks
from envrax._jax.compiled import Compiled
from envrax._jax.copies import copy_numpy
from envrax._jax.keys import key_types
from envrax._jax.returned import require_tuple, returned_arrays, strip_weak_type
from envrax._jax.types import output_types
from envrax.agent_values import require_one_agent
from envrax.autoreset.slot import checked_reset, next_episode, require_rewards, require_same_types
from envrax.batched_env import (
    AnyBatch,
    BatchedEnv,
    StepOptions,
    is_straight,
    require_final_obs,
    shows_last,
    step_with,
)
from envrax.compiled_batch import compilation_of
from envrax.env import AnyEnv, EnvState, JaxEnv
from envrax.interop.out.packing import SMALL_BYTES, keys_as_bits, pack, unpack, unpack_on_device
from envrax.interop.out.rewards import require_reward_shape
from envrax.interop.out.tensors import from_torch
from envrax.interop.peer.common_types import types_of
from envrax.interop.peer.containers import as_in_space, mappings_as_dicts
from envrax.interop.peer.spaces import outer_dtype, outside
from envrax.spaces import MultiBinary, Space
from envrax.spaces.base import canonical, is_list, kind
from envrax.spaces.composite import map_leaves
from envrax.spaces.conform import conform
from envrax.termination import end_of_step, episode_end, step_env
from envrax.wrappers.jit import compilation

_OWN_FIELDS = "terminated", "truncated", "final_obs", "final_mask"  # of a `StepResult`


class StepResult(NamedTuple):
    """The results of a step as arrays; those of a reset are only `obs` and `mask`."""

    obs: Any
    mask: Any
    reward: Any = None
    terminated: Any = None
    truncated: Any = None
    info: Any = None
    final_obs: Any = None
    final_mask: Any = None


class HostLoop:
    """
    An environment, or a batch, that a trainer steps from Python. It holds the state and the key.

    `reset` and `step` are one compiled call each; the first `reset` compiles both. Their results
    are copied from the device in one `jax.device_get`, and belong to the caller. The state stays on
    the device, packed, since every array that `jit` takes or returns costs time.

    Parameters
    ----------
    env : JaxEnv or BatchedEnv
        The environment; it may run on the host.
    who : str
        The function that the user called, for error messages.
    on_device : bool, default False
        Return JAX arrays, without a transfer.
    worlds : bool, default False
        Accept a world of several agents.
    same_step : bool, default True
        Whether a batch resets a slot in the step that ends its episode. If not, it is stepped
        without auto-reset, and results have no `final_obs`.
    """

    def __init__(
        self,
        env: AnyEnv | AnyBatch,
        who: str,
        *,
        on_device: bool = False,
        worlds: bool = False,
        same_step: bool = True,
    ) -> None:
        if not worlds:
            require_one_agent(who, env)
        self.env = env
        self.name = env.name  # for the logger
        self._who = who
        self._action_space = env.action_space  # many environments build it on each access
        are_bits = map_leaves(lambda space: isinstance(space, MultiBinary), self._action_space)
        self._has_bits = any(jax.tree.leaves(are_bits))
        self._batched = isinstance(env, BatchedEnv)
        if isinstance(env, BatchedEnv) and not shows_last(env):
            raise TypeError(
                f"{who}: expected a batch that shows the last observation of an episode; got "
                f"{env!r}, whose simulator shows only the first of the next. Train with `rollout`."
            )
        self._on_device = on_device
        self._same_step = same_step
        self._options = StepOptions(autoreset=same_step, final_obs=True)
        self._obs_space = env.observation_space
        inside = jax.tree.map(canonical, self._obs_space.dtype)
        self._is_wider = outer_dtype(self._obs_space) != inside
        self._types: Any = None
        self._key: Any = None
        self._state: Any = None
        self._has_state = False
        self._make_programs()

    @property
    def state(self) -> Any:
        """The state of the environment, unpacked."""
        return self._unpacked(self._require_state("render"))

    def change_state(self, change: Callable[[Any], Any]) -> None:
        """Put `change(state)`, of the same types, in place of the state."""

        def changed(state: Any) -> Any:
            return self._packed(change(self._unpacked(state)))

        run: Any = changed if is_straight(self.env) else jax.jit(changed)
        self._state = run(self._require_state("a change of its state"))

    def reset(self, seed: Any = None) -> StepResult:
        """
        Begin an episode, or one in every slot.

        Every reset does `rng, key = jax.random.split(rng)` and uses `key`. A seed first sets
        `rng = jax.random.key(seed)`; one of more than 32 bits is folded. If the first reset gets no
        seed, it draws one from the operating system.

        With a list, slot i begins as one environment does by its seed, and None draws one.
        """
        given = self.checked_seed(seed)
        if isinstance(given, list):
            seeds = [_of_32_bits(x) for x in given]
            self.reset(_of_32_bits(seeds))
            return self.reset_where(None, seeds)
        if forks.jax_hangs:
            raise forks.fork_error(self._who, "reset")
        self._before_call()
        if given is not None or self._key is None:
            self._key = _key_of(given)
        if not self._has_state:
            self._compile_ahead()
        with transfers():
            self._key, self._state, result = self._reset(self._key)
        self._has_state = True
        return self._to_caller(result)

    def reset_where(self, mask: Any, seed: Any = None) -> StepResult:
        """
        Begin an episode in the slots of a mask, in a batch whose state holds its last `obs`.

        A seed, or a list of them, is that of a `reset`. Without it, a slot begins the episode that
        follows its own.
        """
        state = self._require_state("reset of single slots")
        if mask is not None:
            n_slots = cast(Any, self.env).n_slots
            mask = require_mask(f"{self._who}: reset", from_torch(mask), n_slots)
        given = self.checked_seed(seed)
        key = None
        if isinstance(given, list):
            key = np.stack([_key_of(x) for x in given])
        elif given is not None:
            key = _key_of(given)
        with transfers():
            next_key, self._state, result = self._begin(key, mask, state)
        self._key = self._key if next_key is None else next_key
        return self._to_caller(result)

    def step(self, action: Any) -> StepResult:
        """Take one step with an action of arrays (NumPy, JAX, Torch), Python numbers or lists."""
        state = self._require_state("step")
        name = "actions" if self._batched else "action"
        action = from_torch(action)
        if self._has_bits:
            action = _with_bits(self._action_space, action)
        action = conform(self._action_space, action, f"{self._who}: step", name)
        if self._on_device:
            # This step runs asynchronously, and may still read the caller's NumPy arrays.
            action = jax.tree.map(lambda x: x if isinstance(x, jax.Array) else np.array(x), action)
        with transfers():
            self._state, result = self._step(state, action)
        return self._to_caller(result)

    def begin_next(self) -> StepResult:
        """Begin the episode after one that ended, in one environment, as auto-reset does."""
        with transfers():
            _, self._state, result = self._begin(None, None, self._require_state("step"))
        return self._to_caller(result)

    def has_masks(self) -> bool:
        """Whether the environment has masks of legal actions."""
        if not self.env.traceable:
            return type(self.env).action_mask is not BatchedEnv.action_mask

        def first_mask(rng: Any) -> Any:
            return self.env.action_mask(self.env.reset(rng)[1])

        return bool(jax.tree.leaves(jax.eval_shape(first_mask, key_types()[0])))

    def checked_seed(self, seed: Any, method: str = ": reset") -> int | list[int | None] | None:
        """A seed as an int; a list of them, if the slots are copies; None, also in the list."""
        who = f"{self._who}{method}"
        n_slots = self.env.n_slots if isinstance(self.env, BatchedEnv) else 0
        if not n_slots or not (is_list(seed) or np.ndim(seed)):
            return _require_seed(who, seed)
        if isinstance(seed, jax.Array) and seed.dtype == np.uint32:
            raise TypeError(
                f"{who}: expected one seed, or a list of {n_slots} ints; got a JAX array of "
                "uint32, which may be a key. Pass an int, or `seed.tolist()`."
            )
        if len(seed) != n_slots:
            raise ValueError(
                f"{who}: expected one seed, or one for each of {n_slots} slots; got {len(seed)}."
            )
        if getattr(self.env, "copied_env", None) is None:
            raise TypeError(
                f"{who}: expected one seed, since the slots of {self.env} do not begin apart from "
                "each other; got a list."
            )
        return [_require_seed(who, x) for x in seed]

    def _before_call(self) -> None:
        for write in getattr(self.env, "_write_first", ()):
            write()

    def _require_state(self, what: str) -> Any:
        self._before_call()
        if forks.jax_hangs:
            raise forks.fork_error(self._who, what)
        if not self._has_state:
            raise RuntimeError(
                f"{self._who}: expected a call of `reset` before `{what}`; got no such call. Call "
                "`reset` first."
            )
        return self._state

    def _to_caller(self, output: Any) -> StepResult:
        """The result that the caller gets, from the output of a compiled call."""
        if self._on_device:
            return output
        result = unpack(output)
        if not self._is_wider:
            return result
        obs = outside(self._obs_space, result.obs)
        final_obs = result.final_obs
        if final_obs is not None:
            final_obs = outside(self._obs_space, final_obs)
        return result._replace(obs=obs, final_obs=final_obs)

    def _to_output(self, result: StepResult) -> Any:
        """The output of a compiled call, in plain dicts and tuples."""
        final_obs = result.final_obs
        result = StepResult(*map(mappings_as_dicts, result))._replace(
            obs=as_in_space(self._obs_space, result.obs),
            final_obs=None if final_obs is None else as_in_space(self._obs_space, final_obs),
        )
        # Copies: `jit` returns an unchanged input as the same array.
        return _copy(result) if self._on_device else pack(result)

    def _reset_packed(self, key: Any) -> Any:
        rng, key = jax.random.split(jax.random.wrap_key_data(key))
        begin = partial(checked_reset, self.env) if isinstance(self.env, JaxEnv) else self.env.reset
        return jax.random.key_data(rng), *self._begun(begin(key))

    def _begin_packed(self, key: Any, mask: Any, state: Any) -> Any:
        env = cast(Any, self.env)
        state = self._unpacked(state)
        if isinstance(env, JaxEnv):
            return None, *self._begun(next_episode(env, state))
        if key is None:
            return None, *self._begun(env.reset_where(mask, state.obs, state))
        wrap: Any = jax.random.wrap_key_data
        key = wrap(key)
        if key.ndim:  # one for each slot
            keys = jax.vmap(jax.random.split)(key)[:, 1]
            every = jnp.ones(env.n_slots, jnp.bool_) if mask is None else mask
            first, state, _ = env._begin_slots(every, state, keys)
            return None, *self._begun((first if mask is None else state.obs, state))
        rng, key = jax.random.split(key)
        begun = env.reset_where(mask, state.obs, state, key)
        return jax.random.key_data(rng), *self._begun(begun)

    def _begun(self, returned: Any) -> Any:
        obs, state = self._checked("reset", returned)
        return self._packed(state), self._to_output(StepResult(obs, self.env.action_mask(state)))

    def _step_packed(self, state: Any, action: Any) -> Any:
        state = self._unpacked(state)
        final: Any = {}
        if isinstance(self.env, JaxEnv):
            shape = ()
            stepped = self._checked("step", step_env(self.env, state, action))
            obs, state, reward, _, info = stepped
            require_rewards(self.env, reward)
            end = end_of_step(self._who, self.env, state, info)
        else:
            shape = (self.env.n_slots,)
            stepped = self._checked("step", step_with(self.env, state, action, self._options))
            obs, state, reward, done, info = stepped
            require_final_obs(self._who, info)
            end = episode_end(self._who, shape, done, info)
            final = info if self._same_step else {}
        require_reward_shape(self._who, reward, shape)
        result = StepResult(
            obs=obs,
            mask=self.env.action_mask(state),
            reward=jax.tree.map(jnp.asarray, reward),
            terminated=end.terminated,
            truncated=end.truncated,
            info={k: x for k, x in info.items() if k not in _OWN_FIELDS},
            final_obs=final.get("final_obs"),
            final_mask=final.get("final_mask"),
        )
        return self._packed(state), self._to_output(result)

    def _checked(self, method: str, returned: Any) -> Any:
        """The results of the environment, after a check that reset and step have equal types."""
        if isinstance(self.env, JaxEnv):
            returned = returned_arrays(type(self.env).__name__, method, returned, EnvState)
        else:
            returned = require_tuple(self._who, method, returned)
        if not is_straight(self.env):  # the state of a simulator is not checked
            returned = strip_weak_type(tuple(returned))
            types = types_of({"obs": returned[0], "state": returned[1]})
            self._types = self._types or types
            require_same_types(cast(Any, self.env), self._types, types, method)
        return returned

    def _packed(self, state: Any) -> Any:
        """The state, packed; that of an environment on the host stays as it is."""
        return state if is_straight(self.env) else pack(state, SMALL_BYTES)

    def _unpacked(self, state: Any) -> Any:
        unpacked: Any = unpack_on_device
        return state if is_straight(self.env) else unpacked(state)

    def _make_programs(self) -> None:
        self._reset: Any = self._reset_packed
        self._step: Any = self._step_packed
        self._begin: Any = self._begin_packed
        if not is_straight(self.env):
            self._reset = Compiled(self._reset)
            self._step = Compiled(self._step)
            self._begin = Compiled(self._begin)

    def _compile_ahead(self) -> None:
        """Compile `reset` and `step`, with the compile cache of the environment."""
        env: Any = self.env
        settings = compilation(env) if isinstance(env, JaxEnv) else compilation_of(env)
        if not is_straight(env) and settings is not None:
            cache_dir = settings.cache_dir
            _, state, _ = self._reset.compile(cache_dir, self._key)
            self._step.compile(cache_dir, state, output_types(self._action_space.sample))

    def __getstate__(self) -> dict[str, Any]:
        # A copy compiles its own programs.
        left_out = "_reset", "_step", "_begin", "_types"
        return {k: v for k, v in vars(self).items() if k not in left_out}

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        vars(self).update(attributes, _types=None)
        self._make_programs()


def _with_bits(space: Space, action: Any) -> Any:
    """Zeros and ones in the dtype of a `MultiBinary`; Stable-Baselines3 gives them as float32."""

    def bits(space: Space, x: Any) -> Any:
        if not isinstance(space, MultiBinary) or isinstance(x, jax.Array):
            return x
        given = np.asarray(x)
        is_bits = kind(given.dtype) != "other" and ((given == 0) | (given == 1)).all()
        return given.astype(space.dtype) if is_bits else x

    try:
        return map_leaves(bits, space, action)
    except (TypeError, ValueError):  # `conform` says what is wrong
        return action


def _require_seed(who: str, seed: Any) -> int | None:
    try:
        return None if seed is None else require_count(f"{who}: expected seed", seed, 0)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error} Pass an int from 0 on, or None for one by chance.") from None


def _of_32_bits(seed: Any) -> int:
    """A seed of up to 32 bits; of a larger one, a list or None, by NumPy's `SeedSequence`."""
    if isinstance(seed, int) and seed < 2**32:
        return seed
    return int(np.random.SeedSequence(seed).generate_state(1)[0])


def _key_of(seed: int | None) -> Any:
    number = _of_32_bits(seed)
    with transfers():
        return jax.random.key_data(jax.random.key(number))


def transfers() -> Any:
    """Allow transfers to the device: a bridge is there for actions and seeds from the host."""
    return jax.transfer_guard_host_to_device("allow")


def _copy(result: StepResult) -> StepResult:
    return jax.tree.map(lambda x: jnp.array(keys_as_bits(x), copy=True), copy_numpy(result))
