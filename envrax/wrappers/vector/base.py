"""`BatchedWrapper`: the base class of wrappers of a batch."""

import copy
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast, overload

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import NamedSharding, PartitionSpec

from envrax._checks.marks import adds, hands_on
from envrax._jax.cache import DEFAULT_CACHE_DIR, CacheDir
from envrax._jax.compiled import Compiled
from envrax._jax.copies import copy_numpy
from envrax._jax.mesh import reshard, to_sharding, varying_like
from envrax._jax.returned import require_tuple
from envrax._jax.types import output_types
from envrax.batched_env import (
    AnyBatch,
    BatchedEnv,
    StepOptions,
    goes_straight,
    is_straight,
    step_with,
)
from envrax.compiled_batch import CompiledBatch, compilation_of, layout_of
from envrax.env import ActSpaceT, AnyEnv, ObsSpaceT
from envrax.spaces import Space
from envrax.wrappers.deferred import WrapperMeta
from envrax.wrappers.hooks import Hooks, StateHooks
from envrax.wrappers.vector.statistics import RunningStatistics


@chex.dataclass
class BatchedWrapperState:
    """State of a wrapper of a batch. `env_state` is that of the batch. Subclasses add fields."""

    env_state: Any


class ForwardingBatch(BatchedEnv[ObsSpaceT, ActSpaceT]):
    """Base class of batches that wrap another batch, `env`, with the same slots."""

    env: BatchedEnv[ObsSpaceT, ActSpaceT]

    @property
    def n_slots(self) -> int:
        return self.env.n_slots

    @property
    def name(self) -> str:
        return self.env.name

    @property
    @hands_on
    def single_observation_space(self) -> ObsSpaceT:
        return self.env.single_observation_space

    @property
    @hands_on
    def single_action_space(self) -> ActSpaceT:
        return self.env.single_action_space

    @property
    def agents(self) -> tuple[str, ...]:
        return self.env.agents

    @property
    def _has_last(self) -> bool:
        return self.env._has_last

    @property
    def unwrapped(self) -> AnyEnv | None:
        """The base environment of every slot; None if the slots are not of a `JaxEnv`."""
        return getattr(self.env, "unwrapped", None)

    @property
    def can_render(self) -> bool:
        """Whether the wrapped batch can render its slots, as far as is known."""
        return bool(getattr(self.env, "can_render", adds(self.env.render_slot)))

    def close(self) -> None:
        self.env.close()


class BatchedWrapper(
    StateHooks,
    Hooks,
    ForwardingBatch[ObsSpaceT, ActSpaceT],
    CompiledBatch[ObsSpaceT, ActSpaceT],
    metaclass=WrapperMeta,
):
    """
    Base class of wrappers of a batch: a `BatchedEnv` that wraps another one.

    A subclass overrides one or more hooks, and the single space that changes with them. Hooks get
    the arrays of all slots. The hook `observation` is also applied to `infos["final_obs"]`.

    A subclass with a state, such as statistics over all slots, sets `state_class` to a subclass of
    `BatchedWrapperState` with further fields, and defines `on_reset`, `on_step`, and for
    `reset_where` also `on_reset_where`.

    `reset` and `step` are compiled together with those of the wrapped batch, on first use. If the
    batch runs on the host, only the wrapper's own part is compiled. A subclass called with keywords
    only, without a batch, returns a factory, as with `Wrapper`.

    Parameters
    ----------
    env : BatchedEnv
        The batch to wrap.

    Raises
    ------
    TypeError
        If `env` is not a `BatchedEnv`, or a keyword is unknown.
    """

    _wraps = BatchedEnv
    state_class: ClassVar[type[Any]] = BatchedWrapperState

    if TYPE_CHECKING:

        @overload
        def __new__(cls, env: AnyBatch, *args: Any, **kwargs: Any) -> Self: ...
        @overload
        def __new__(cls, **kwargs: Any) -> Callable[[BatchedEnv[ObsSpaceT, ActSpaceT]], Self]: ...
        def __new__(cls, *args: Any, **kwargs: Any) -> Any: ...

    def __init__(self, env: BatchedEnv[ObsSpaceT, ActSpaceT]) -> None:
        self._wrap(env)

    def _wrap(self, env: AnyBatch) -> None:
        self.env = env
        self._options = env._options
        if not is_straight(env):
            self._use(compilation_of(env), layout_of(env))
            return
        self._compiled_action = Compiled(self.action)
        self._compiled_after_reset = Compiled(self._after_reset)
        self._compiled_after_step = Compiled(self._after_step)
        self._use(None)

    @hands_on
    def on_reset_where(self, mask: jax.Array, obs: Any, state: Any, /) -> tuple[Any, Any]:
        """
        Change what `reset_where` returns, and the wrapper's own state fields.

        Parameters
        ----------
        mask : jax.Array
            bool[n_slots], True where an episode begins.
        obs : pytree of jax.Array
            After the hook `observation`: first observations in these slots, any in the others.
        state : BatchedWrapperState
            State after the partial reset. The wrapper's own fields still have their values from
            before it.

        Returns
        -------
        obs : pytree of jax.Array
            First observations for the caller, who gets those of the slots of the mask.
        state : BatchedWrapperState
            The state with the wrapper's own fields updated.

        Raises
        ------
        NotImplementedError
            If the class overrides `on_reset` or `on_step`, but not this method.
        """
        if adds(self.on_reset, self.on_step):
            who = type(self).__name__
            raise NotImplementedError(
                f"{who}.reset_where: expected a wrapper that says what a reset of some slots "
                "changes; got one with `on_reset` or `on_step` only. Override `on_reset_where`."
            )
        return obs, state

    def _reset_slots(self, rng: jax.Array) -> Any:
        straight = goes_straight(self, rng)
        return self._reset_on_host(rng) if straight else self._reset_all(rng)

    def _step_slots(self, state: Any, actions: Any, options: StepOptions) -> Any:
        step = self._step_on_host if options.straight else self._step_all
        return step(state, actions, options)

    def _slot_keys(self, rng: jax.Array) -> Any:
        # A batch of the user splits the key itself.
        return self.env._slot_keys(rng) if isinstance(self.env, CompiledBatch) else rng

    def _begin_slots(self, mask: Any, state: Any, *how: Any) -> tuple[Any, Any, jax.Array]:
        first, inner, began = self._begin_inside(mask, state.env_state, *how)
        given = self.on_reset_where(began, self.observation(first), state.replace(env_state=inner))
        first, state = require_tuple(type(self).__name__, "on_reset_where", given)
        return first, self._place_state(state, ""), began

    def _begin_inside(self, mask: Any, state: Any, rngs: Any, starts: Any = None) -> Any:
        if not adds(self.env.reset_where):
            return self.env._begin_slots(mask, state, rngs, starts)
        types = output_types(self.env.observation_space.sample)
        nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), types)
        given: Any = {} if starts is None else {"starts": starts}
        return *self.env.reset_where(mask, nothing, state, rngs, **given), mask

    @property
    def _write_first(self) -> Any:
        return self.env._write_first

    @property
    def observation_space(self) -> Space:
        changed = adds(type(self).single_observation_space)
        return super().observation_space if changed else self.env.observation_space

    @property
    def action_space(self) -> Space:
        changed = adds(type(self).single_action_space)
        return super().action_space if changed else self.env.action_space

    @property
    def traceable(self) -> bool:
        return self.env.traceable

    @property
    def _straight(self) -> bool:
        return is_straight(self.env)

    def around(self, env: AnyBatch) -> Self:
        """A copy of this wrapper around another batch with the same spaces."""
        other = copy.copy(self)
        other._wrap(env)
        return other

    @property
    def copied_env(self) -> AnyEnv | None:
        if adds(self.reset, self.step, self.reset_where):
            return None
        if adds(self.on_reset, self.on_step) and not adds(self.on_reset_where):
            return None
        return self.env.copied_env if isinstance(self.env, CompiledBatch) else None

    def _step_with(self, state: Any, actions: Any, options: StepOptions) -> Any:
        self._require_own(state, "step")
        straight = options.straight or goes_straight(self, (state, actions))
        return super()._step_with(state, actions, options._replace(straight=straight))

    @hands_on
    def reset_where(
        self, mask: Any, obs: Any, state: Any, rng: jax.Array | None = None, *, starts: Any = None
    ) -> tuple[Any, Any]:
        self._require_own(state, "reset_where")
        return super().reset_where(mask, obs, state, rng, starts=starts)

    def _require_own(self, state: Any, method: str) -> None:
        if not isinstance(state, self.state_class):
            raise TypeError(
                f"{type(self).__name__}.{method}: expected a {self.state_class.__name__} that "
                f"reset or step returned; got {type(state).__name__}. Pass that one."
            )

    def _reset_all(self, rng: jax.Array) -> tuple[Any, Any]:
        obs, inner = require_tuple(type(self.env).__name__, "reset", self.env.reset(rng))
        obs, fields = varying_like(rng, self._after_reset(obs))
        return obs, self._place_state(self.state_class(env_state=inner, **fields), "")

    def _step_all(self, state: Any, actions: Any, options: StepOptions) -> Any:
        stepped = step_with(self.env, state.env_state, self.action(actions), options)
        obs, inner, *rest = stepped
        obs, state, *rest = self._after_step(state.replace(env_state=inner), obs, *rest)
        return obs, self._place_state(state, ""), *rest

    def _place_state(self, state: Any, who: str) -> Any:
        """The state on the mesh. Fields with one row per slot are sharded, others replicated."""
        sharded = self.layout
        if sharded is None:
            return state
        replicated = NamedSharding(sharded.mesh, PartitionSpec())
        n_slots = self.env.n_slots

        def place(x: Any, sharding: NamedSharding) -> Any:
            x = to_sharding(jnp.asarray(x), sharding, who)
            return reshard(x, sharding) if isinstance(x, Tracer) else x

        def place_field(x: Any) -> Any:
            has_rows = not isinstance(x, RunningStatistics) and np.shape(x)[:1] == (n_slots,)
            sharding = sharded if has_rows else replicated
            return jax.tree.map(partial(place, sharding=sharding), x)

        own_fields = jax.tree.map(
            place_field,
            state.replace(env_state=None),
            is_leaf=lambda x: isinstance(x, RunningStatistics),
        )
        if isinstance(self.env, BatchedWrapper):
            inner = self.env._place_state(state.env_state, who)
        else:
            inner = jax.tree.map(partial(place, sharding=sharded), state.env_state)
        return own_fields.replace(env_state=inner)

    def _reset_on_host(self, rng: jax.Array) -> tuple[Any, Any]:
        obs, inner = require_tuple(type(self.env).__name__, "reset", self.env.reset(rng))
        obs, fields = self._compiled_after_reset(copy_numpy(obs))
        return obs, self.state_class(env_state=inner, **fields)

    def _step_on_host(self, state: Any, actions: Any, options: StepOptions) -> Any:
        actions = self._compiled_action(actions) if adds(self.action) else actions
        obs, inner, *rest = step_with(self.env, state.env_state, actions, options)
        obs, *rest = copy_numpy((obs, *rest))
        obs, state, *rest = self._compiled_after_step(state.replace(env_state=None), obs, *rest)
        return obs, state.replace(env_state=inner), *rest

    def _after_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        returned = self.on_reset(self.observation(obs))
        return cast(Any, require_tuple(type(self).__name__, "on_reset", returned))

    def _after_step(self, state: Any, obs: Any, rewards: Any, dones: Any, infos: Any) -> Any:
        if "final_obs" in infos:
            infos = {**infos, "final_obs": self.observation(infos["final_obs"])}
        if adds(self.action) and not adds(self.action_mask):
            infos = {name: x for name, x in infos.items() if name != "final_mask"}
        obs = self.observation(obs)
        rewards = self.reward(rewards)
        infos = self.info(infos)
        returned = self.on_step(obs, state, rewards, dones, infos)
        return require_tuple(type(self).__name__, "on_step", returned)

    def _inner(self, state: Any) -> Any:
        return state.env_state

    def active(self, state: Any) -> dict[str, jax.Array]:
        return self.env.active(state.env_state)

    def slot_state(self, state: Any, slot_idx: int | jax.Array = 0) -> Any:
        return self.env.slot_state(state.env_state, slot_idx)

    def render_slot(self, state: Any, slot_idx: int = 0) -> np.ndarray:
        return self.env.render_slot(state.env_state, slot_idx)

    def compile(self, cache_dir: CacheDir = DEFAULT_CACHE_DIR) -> None:
        if self.compilation is None:
            self.env.compile(cache_dir)
        super().compile(cache_dir)
