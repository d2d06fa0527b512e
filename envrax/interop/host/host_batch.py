"""`from_host`: simulators in Python or C++ as a batch that JAX can trace."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from envrax._checks.counts import require_count, slot_index
from envrax._jax.cache import Compilation
from envrax._jax.keys import of_kind, split_key, to_threefry
from envrax._jax.mesh import where_slots
from envrax._jax.types import is_traced, output_types
from envrax.batched_env import StepOptions
from envrax.compiled_batch import CompiledBatch
from envrax.env import EnvState, hands_on
from envrax.interop.host.simulators import NEWEST, RESET, WHO, Begun, Simulators, Stepped
from envrax.spaces import Dict, Space
from envrax.spaces.masks import with_full_masks

__all__ = ["HostBatch", "from_host", "seed_of"]


@chex.dataclass
class HostBatchState(EnvState):
    """
    State of a batch of simulators: `rng`, `step` and `done` have a row for each slot.

    Attributes
    ----------
    call : jax.Array
        int32 scalar, the number of the call that returned this state.
    mask : pytree of jax.Array
        The masks of legal actions; None if the simulators have none.
    """

    call: jax.Array
    mask: Any = None


def seed_of(rng: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The key that an episode which begins with `rng` keeps, and the seed of its simulator."""
    rng, key = jax.random.split(rng)
    return rng, jax.random.randint(key, (), 0, 2**31 - 1)


class HostBatch(CompiledBatch[Any, Any]):
    """Simulators on the host as a `BatchedEnv` that JAX can trace; see `from_host`."""

    def __init__(
        self,
        make: Callable[[], Any],
        n_envs: int,
        observation_space: Space,
        action_space: Space,
        infos: Mapping[str, Space],
        options: StepOptions,
        name: str | None,
        threads: int,
    ) -> None:
        self._n = n_envs
        self._single_observation_space = observation_space
        self._single_action_space = action_space
        self._action_space = action_space.batch(n_envs)
        self._options = options
        simulators = self._simulators = Simulators(make, n_envs, threads, action_space)
        self._name = name or type(simulators.all[0]).__name__
        obs = output_types(observation_space.batch(n_envs).sample)
        info: Any = output_types(Dict(dict(infos)).batch(n_envs).sample) if infos else {}
        mask = None
        if simulators.has_mask:
            one: Any = jax.eval_shape(lambda: with_full_masks(action_space, None))
            mask = jax.tree.map(lambda x: jax.ShapeDtypeStruct((n_envs, *x.shape), bool), one)
        flags = jax.ShapeDtypeStruct((n_envs,), bool)
        rewards = jax.ShapeDtypeStruct((n_envs,), np.float32)
        begun = Begun(obs, mask, jax.ShapeDtypeStruct((), np.int32))
        simulators.types = Stepped(begun, rewards, flags, flags, obs, mask, info)
        self._use(Compilation())

    def _reset_slots(self, rng: jax.Array) -> Any:
        rngs, seeds = jax.vmap(seed_of)(self._slot_keys(rng))
        begun = self._begin_on_host(jnp.int32(RESET), jnp.ones(self._n, bool), seeds)
        zeros = jnp.zeros(self._n, jnp.int32)
        state = HostBatchState(
            rng=rngs, step=zeros, done=zeros > 0, call=begun.call, mask=begun.mask
        )
        return begun.obs, state

    def _slot_keys(self, rng: jax.Array) -> jax.Array:
        return split_key(rng, self._n)

    def _step_slots(self, state: Any, actions: Any, options: StepOptions) -> Any:
        next_rngs, seeds = self._next_episodes(state)
        types = self._simulators.types
        step = partial(self._simulators.step, options.autoreset)
        out = cast(Stepped, _call(step, types, state.call, actions, seeds))
        done = out.terminated | out.truncated
        begins = done & options.autoreset
        new = self._with_episodes(state.replace(step=state.step + 1), begins, next_rngs)
        new = new.replace(done=done & ~begins, call=out.begun.call, mask=out.begun.mask)
        infos = {**out.info, "terminated": out.terminated, "truncated": out.truncated}
        if options.final_obs:
            infos["final_obs"] = out.final_obs
            if out.final_mask is not None:
                infos["final_mask"] = out.final_mask
        return out.begun.obs, new, out.reward, done, infos

    def _begin_slots(
        self, mask: Any, state: Any, rngs: Any, starts: Any = None, /
    ) -> tuple[Any, Any, jax.Array]:
        if starts is not None:
            raise NotImplementedError(
                f"{WHO}: expected `reset_where` without `starts`, since a simulator on the host "
                "begins by a seed. Give a key."
            )
        if rngs is None:
            next_rngs, seeds = self._next_episodes(state)
        else:
            next_rngs, seeds = jax.vmap(seed_of)(of_kind(to_threefry(rngs), state.rng))
        begun = self._begin_on_host(state.call, mask, seeds)
        new = self._with_episodes(state, mask, next_rngs)
        new = new.replace(done=state.done & ~mask, call=begun.call, mask=begun.mask)
        return begun.obs, new, mask

    def _begin_on_host(self, *given: Any) -> Begun:
        return cast(Begun, _call(self._simulators.begin, self._simulators.types.begun, *given))

    def _next_episodes(self, state: Any) -> tuple[jax.Array, jax.Array]:
        """The keys and the seeds of the episodes that follow, as after an auto-reset."""
        return jax.vmap(lambda rng: seed_of(to_threefry(jax.random.split(rng)[0])))(state.rng)

    def _with_episodes(self, state: Any, begins: Any, rngs: Any) -> Any:
        """The state with step 0 and new keys in the slots that begin an episode."""
        new = rngs, jnp.zeros_like(state.step)
        rng, step = where_slots(begins, new, (state.rng, state.step))
        return state.replace(rng=rng, step=step)

    def _require_state(self, state: Any, method: str) -> None:
        if not isinstance(state, HostBatchState):
            raise TypeError(
                f"{WHO}.{method}: expected the state that reset or step returned; got "
                f"{type(state).__name__}. Pass that one."
            )

    def _mask_slots(self, state: Any) -> Any:
        return state.mask

    def reset(self, rng: jax.Array) -> tuple[Any, Any]:
        return self._raising(super().reset, rng)

    def _step_with(self, state: Any, actions: Any, options: StepOptions) -> Any:
        self._require_state(state, "step")
        return self._raising(super()._step_with, state, actions, options)

    @hands_on
    def reset_where(
        self, mask: Any, obs: Any, state: Any, rng: jax.Array | None = None, *, starts: Any = None
    ) -> tuple[Any, Any]:
        self._require_state(state, "reset_where")
        begin = partial(super().reset_where, starts=starts)
        return self._raising(begin, mask, obs, state, rng)

    def _raising(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a program, and raise an error of a simulator as itself."""
        if is_traced(args):
            return function(*args)
        try:
            return cast(Any, jax.block_until_ready(function(*args)))
        except jax.errors.JaxRuntimeError:
            if self._simulators.error is not None:
                raise self._simulators.error from None
            raise

    @property
    def n_slots(self) -> int:
        return self._n

    @property
    def name(self) -> str:
        return self._name

    @property
    def single_observation_space(self) -> Space:
        return self._single_observation_space

    @property
    def single_action_space(self) -> Space:
        return self._single_action_space

    @property
    def action_space(self) -> Space:
        return self._action_space

    @property
    def simulators(self) -> list[Any]:
        """The simulators, one for each slot."""
        return self._simulators.all

    def render_slot(self, state: Any, slot_idx: int = 0) -> np.ndarray:
        """`render()` of a simulator, as it is now."""
        self._require_state(state, "render_slot")
        if int(state.call) != self._simulators.n_calls:
            raise RuntimeError(NEWEST)
        slot = slot_index(f"{WHO}.render_slot", slot_idx, self._n)
        if not self.can_render:
            raise NotImplementedError(
                f"{WHO}.render_slot: expected simulators with a method `render()`; got {self!r}. "
                "Write one that returns an image."
            )
        return np.array(self.simulators[slot].render())

    @property
    def can_render(self) -> bool:
        """Whether the simulators have `render`."""
        return hasattr(self.simulators[0], "render")

    def close(self) -> None:
        self._simulators.close()

    def __repr__(self) -> str:
        return f"HostBatch({self._name}, n_envs={self._n})"


def _call(function: Callable[..., Any], types: Any, *args: Any) -> Any:
    """Call the host in order, from a compiled program."""

    @jax.custom_batching.custom_vmap
    def call(*args: Any) -> Any:
        return io_callback(function, types, *args, ordered=True)

    @call.def_vmap
    def refuse_vmap(*_: Any) -> Any:
        raise TypeError(
            f"{WHO}: expected a call without `vmap`, since each simulator has one state; got a "
            "mapped one. Build a batch with more slots."
        )

    differentiable: Any = jax.custom_jvp(call)

    @differentiable.defjvp
    def refuse_grad(*_: Any) -> Any:
        raise TypeError(
            f"{WHO}: expected a call without `grad`, since a simulator on the host has no "
            "derivative. Use `jax.lax.stop_gradient` on its actions."
        )

    return differentiable(*args)


def from_host(
    make: Callable[[], Any],
    n_envs: int,
    observation_space: Space,
    action_space: Space,
    *,
    infos: Mapping[str, Space] | None = None,
    autoreset: bool = True,
    final_obs: bool = False,
    name: str | None = None,
    threads: int = 0,
) -> HostBatch:
    """
    Simulators in Python, NumPy or C++ as a batch that JAX can trace.

    Each step of the batch is one ordered call of the host from within the compiled program, so that
    `rollout`, `evaluate`, wrappers around batches, and your own `jit` and `scan` take it.

    Parameters
    ----------
    make : callable
        `make()` builds one simulator, with `reset(seed: int) -> obs` and `step(action) -> obs,
        reward, terminated, truncated[, info]`. It may have `action_mask()`, the legal actions now;
        `render()`, an image; and `close()`.
    n_envs : int
        Number of simulators, one for each slot.
    observation_space, action_space : Space
        The spaces of one simulator. It gets actions as NumPy arrays, or a container of those.
    infos : mapping of str to Space, optional
        Which entries of each step's info to pass on, and what they look like.
    autoreset : bool, default True
        Whether a step that ends an episode begins the next one, as in a `VecEnv`.
    final_obs : bool, default False
        Whether to add `infos["final_obs"]`, and `infos["final_mask"]` if there are masks.
    name : str, optional
        The name for logs; by default that of the simulator's class.
    threads : int, default 0
        Call the simulators from so many threads, for those that let go of the interpreter's lock.

    Returns
    -------
    HostBatch
        `state.rng` of a slot decides its episodes: with a key `rng` of `reset`, slot i begins with
        `rng_i, seed = seed_of(jax.random.split(rng, n_envs)[i])`, and after an end with
        `seed_of(jax.random.split(rng_i)[0])`. `infos` has `terminated` and `truncated`.

    Raises
    ------
    TypeError
        If a result of `step` is no such tuple; under `vmap` and `grad`.
    ValueError
        If `n_envs` is below 1, arrays of a simulator do not fit the spaces, or `infos` has
        `terminated`, `truncated`, `final_obs` or `final_mask`.
    RuntimeError
        If an older state than the newest is stepped, since a simulator cannot go back.

    Notes
    -----
    An error of a simulator is raised as itself by `reset`, `step` and `reset_where`. From a larger
    program, such as a `rollout`, it is JAX's `JaxRuntimeError`, whose text ends with it. Reset the
    batch afterwards.

    Examples
    --------
    >>> import envrax
    >>> class Count:
    ...     def reset(self, seed):
    ...         self.n = seed % 3
    ...         return np.float32([self.n])
    ...
    ...     def step(self, action):
    ...         self.n += int(action)
    ...         return np.float32([self.n]), 1.0, self.n > 3, False
    >>> env = from_host(Count, 4, envrax.Box(0, 9, (1,)), envrax.Discrete(2))
    >>> end, steps = envrax.rollout(env, None, envrax.start(env, jax.random.key(0)), 100)
    >>> steps.obs.shape, bool(steps.done.any())
    ((100, 4, 1), True)
    """
    n_envs = require_count(f"{WHO}: expected n_envs", n_envs)
    threads = require_count(f"{WHO}: expected threads", threads) if threads else 0
    if not callable(make):
        raise TypeError(f"{WHO}: expected a function that builds a simulator; got {make!r}.")
    reserved = {"terminated", "truncated", "final_obs", "final_mask"} & {*(infos or {})}
    if reserved:
        raise ValueError(
            f"{WHO}: expected infos without names that it gives itself; got {sorted(reserved)}. "
            "Leave them out."
        )
    options = StepOptions(autoreset=autoreset, final_obs=final_obs)
    spaces = observation_space, action_space
    return HostBatch(make, n_envs, *spaces, infos or {}, options, name, threads)
