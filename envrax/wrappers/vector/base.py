"""`BatchedWrapper`: the base class of wrappers around a batch."""

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

from envrax._checks.tuples import require_tuple
from envrax._jax.cache import DEFAULT_CACHE_DIR, CacheDir
from envrax._jax.compiled import Compiled
from envrax._jax.mesh import reshard, to_sharding, varying_like
from envrax.batched_env import BatchedEnv
from envrax.compiled_batch import CompiledBatch, compilation_of, layout_of, with_final_obs
from envrax.env import ActSpaceT, Info, ObsSpaceT
from envrax.spaces import Space
from envrax.wrappers.base import refuse_mask
from envrax.wrappers.deferred import WrapperMeta, call_repr, keywords
from envrax.wrappers.vector.forwarding import ForwardingBatch
from envrax.wrappers.vector.statistics import RunningStatistics

AnyBatchedEnv = BatchedEnv[Any, Any]


@chex.dataclass
class BatchedWrapperState:
    """State of a wrapper around a batch: that of the batch. Subclasses add fields."""

    env_state: Any


class BatchedWrapper(
    ForwardingBatch[ObsSpaceT, ActSpaceT],
    CompiledBatch[ObsSpaceT, ActSpaceT],
    metaclass=WrapperMeta,
):
    """
    A wrapper around a batch: a `BatchedEnv` around another one.

    A subclass overrides a hook, and the single space that changes with it. Hooks get the arrays of
    all slots. The hook `observation` is also applied to `infos["final_obs"]`.

    A subclass with a state, such as statistics over all slots, sets `state_class` to a subclass of
    `BatchedWrapperState` with further fields, and defines `on_reset` and `on_step`.

    `reset` and `step` are compiled together with those of the wrapped batch, on first use. Around a
    batch on the host, only the wrapper's own part is compiled. Called with keywords and no batch, a
    subclass returns a factory, as `Wrapper` does.

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
        def __new__(cls, env: AnyBatchedEnv, *args: Any, **kwargs: Any) -> Self: ...
        @overload
        def __new__(cls, **kwargs: Any) -> Callable[[BatchedEnv[ObsSpaceT, ActSpaceT]], Self]: ...
        def __new__(cls, *args: Any, **kwargs: Any) -> Any: ...

    def __init__(self, env: BatchedEnv[ObsSpaceT, ActSpaceT]) -> None:
        self._wrap(env)

    def _wrap(self, env: AnyBatchedEnv) -> None:
        self.env = env
        if env.traceable:
            self._use(compilation_of(env), layout_of(env))
            return
        self._act = Compiled(self.action)
        self._begun = Compiled(self._after_reset)
        self._stepped = Compiled(self._after_step)
        self._use(None)

    def _reset_slots(self, rng: jax.Array) -> Any:
        return self._reset_all(rng) if self.env.traceable else self._reset_on_host(rng)

    def _step_slots(self, state: Any, actions: Any) -> Any:
        step = self._step_all if self.env.traceable else self._step_on_host
        return step(state, actions)

    @property
    def observation_space(self) -> Space:
        changed = self._overrides("single_observation_space")
        return super().observation_space if changed else self.env.observation_space

    @property
    def action_space(self) -> Space:
        changed = self._overrides("single_action_space")
        return super().action_space if changed else self.env.action_space

    @property
    def traceable(self) -> bool:
        return self.env.traceable

    def with_final_obs(self) -> Self:
        """The same wrapper around a batch with `final_obs`."""
        inner = with_final_obs(self.env)
        return self if inner is self.env else self.around(inner)

    def around(self, env: AnyBatchedEnv) -> Self:
        """The same wrapper around another batch of the same spaces."""
        other = copy.copy(self)
        other._wrap(env)
        return other

    def action(self, actions: Any) -> Any:
        """The actions that the wrapped batch gets."""
        return actions

    def observation(self, obs: Any) -> Any:
        """The observations that the caller gets, at reset, after a step and as `final_obs`."""
        return obs

    def reward(self, rewards: jax.Array) -> jax.Array:
        """The rewards that the caller gets."""
        return rewards

    def info(self, infos: Info) -> Info:
        """The infos that the caller gets. Return a new dict: the given one must not be changed."""
        return infos

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        """
        The first values of the wrapper's own state fields.

        Parameters
        ----------
        obs : pytree of jax.Array
            First observations, after the hook `observation`.

        Returns
        -------
        obs : pytree of jax.Array
            First observations for the caller.
        fields : dict
            Values of the wrapper's own state fields.
        """
        return obs, {}

    def on_step(
        self, obs: Any, state: Any, rewards: jax.Array, dones: jax.Array, infos: Info, /
    ) -> tuple[Any, Any, jax.Array, jax.Array, Info]:
        """
        Change the results of a step, and update the wrapper's own state fields.

        Parameters
        ----------
        obs, rewards, dones, infos
            Of the wrapped batch, after the hooks. Treat `infos["final_obs"]`, if present, as `obs`.
        state : BatchedWrapperState
            State after the step, with the wrapper's own fields from before it. Around a batch on
            the host its `env_state` is None here.

        Returns
        -------
        tuple
            The same five for the caller, with the wrapper's own fields updated.
        """
        return obs, state, rewards, dones, infos

    def step(self, state: Any, actions: Any) -> tuple[Any, Any, jax.Array, jax.Array, Info]:
        if not isinstance(state, self.state_class):
            raise TypeError(
                f"{type(self).__name__}.step: expected a {self.state_class.__name__} that reset or "
                f"step returned; got {type(state).__name__}. Pass `state, actions`."
            )
        return super().step(state, actions)

    def _reset_all(self, rng: jax.Array) -> tuple[Any, Any]:
        obs, inner = require_tuple(type(self.env).__name__, "reset", self.env.reset(rng))
        obs, fields = varying_like(rng, self._after_reset(obs))
        return obs, self._place_state(self.state_class(env_state=inner, **fields), "")

    def _step_all(self, state: Any, actions: Any) -> Any:
        stepped = self.env.step(state.env_state, self.action(actions))
        obs, inner, *rest = require_tuple(type(self.env).__name__, "step", stepped)
        obs, state, *rest = self._after_step(state.replace(env_state=inner), obs, *rest)
        return obs, self._place_state(state, ""), *rest

    def _place_state(self, state: Any, who: str) -> Any:
        """The state, with fields that have a row for each slot sharded, and others replicated."""
        if (slots := self.layout) is None:
            return state
        whole = NamedSharding(slots.mesh, PartitionSpec())

        def lay_out(x: Any, layout: NamedSharding) -> Any:
            x = to_sharding(jnp.asarray(x), layout, who)
            return reshard(x, layout) if isinstance(x, Tracer) else x

        def own(x: Any) -> Any:
            is_of_slots = not isinstance(x, RunningStatistics) and np.shape(x)[:1] == (n_slots,)
            return jax.tree.map(partial(lay_out, layout=slots if is_of_slots else whole), x)

        n_slots, inner = self.env.n_slots, state.env_state
        fields = jax.tree.map(
            own, state.replace(env_state=None), is_leaf=lambda x: isinstance(x, RunningStatistics)
        )
        if isinstance(self.env, BatchedWrapper):
            return fields.replace(env_state=self.env._place_state(inner, who))
        return fields.replace(env_state=jax.tree.map(partial(lay_out, layout=slots), inner))

    def _reset_on_host(self, rng: jax.Array) -> tuple[Any, Any]:
        obs, inner = require_tuple(type(self.env).__name__, "reset", self.env.reset(rng))
        obs, fields = self._begun(_copied(obs))
        return obs, self.state_class(env_state=inner, **fields)

    def _step_on_host(self, state: Any, actions: Any) -> Any:
        actions = self._act(actions) if self._overrides("action") else actions
        stepped = self.env.step(state.env_state, actions)
        obs, inner, *rest = require_tuple(type(self.env).__name__, "step", stepped)
        obs, state, *rest = self._stepped(state.replace(env_state=None), *_copied((obs, *rest)))
        return obs, state.replace(env_state=inner), *rest

    def _after_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        begun = self.on_reset(self.observation(obs))
        return cast(Any, require_tuple(type(self).__name__, "on_reset", begun))

    def _after_step(self, state: Any, obs: Any, rewards: Any, dones: Any, infos: Any) -> Any:
        if "final_obs" in infos:
            infos = {**infos, "final_obs": self.observation(infos["final_obs"])}
        seen = self.observation(obs)
        rewards = self.reward(rewards)
        infos = self.info(infos)
        stepped = self.on_step(seen, state, rewards, dones, infos)
        return require_tuple(type(self).__name__, "on_step", stepped)

    def action_mask(self, state: Any) -> Any:
        """
        The masks of legal actions, by default those of the wrapped batch.

        Raises
        ------
        NotImplementedError
            If `action` is overridden, this method is not, and the wrapped batch has a mask.
        """
        mask = self.env.action_mask(state.env_state)
        if self._overrides("action"):
            refuse_mask(self, mask, "before `action`", "Override `action_mask`")
        return mask

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

    def _overrides(self, member: str) -> bool:
        return getattr(type(self), member) is not getattr(BatchedWrapper, member)

    def __repr__(self) -> str:
        given = {k: vars(self)[k] for k in keywords(type(self)) if k in vars(self)}
        return call_repr(type(self).__name__, given, repr(self.env))


def _copied(tree: Any) -> Any:
    """Copies of arrays that a simulator may overwrite before JAX has read them."""
    return jax.tree.map(lambda x: x if isinstance(x, jax.Array) else np.array(x), tree)
