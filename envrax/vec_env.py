"""`VecEnv`: many copies of one environment, compiled, with auto-reset."""

from typing import TYPE_CHECKING, Any, Generic, Literal, cast

import jax
import numpy as np
from jax.core import Tracer

from envrax._checks.counts import require_count, slot_index
from envrax._checks.marks import adds, hands_on
from envrax._jax.cache import Compilation
from envrax._jax.copies import copy_numpy
from envrax._jax.keys import split_key
from envrax._jax.mesh import take_slots
from envrax._jax.types import leaf_type
from envrax.autoreset import AutoReset, choose, rule
from envrax.batched_env import BatchedEnv, StepOptions
from envrax.compiled_batch import CompiledBatch
from envrax.env import ActSpaceT, AnyEnv, ConfigT, EnvState, Info, JaxEnv, ObsSpaceT, StateT
from envrax.spaces import Space
from envrax.wrappers.jit import cache_dir_of
from envrax.wrappers.record_video import implements_render

__all__ = ["BatchedEnv", "VecEnv"]


class VecEnv(CompiledBatch[ObsSpaceT, ActSpaceT], Generic[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    `num_envs` copies of an environment, stepped together, each with its own episodes.

    `reset` and `step` are compiled, and compose with the caller's own `jit`, `vmap`, `scan` and
    `grad`. As with `jax.jit`, attributes of the environment are constants of the compiled code: do
    not edit them after the first call.

    **Auto-reset** happens in the step that ends an episode: that slot returns the reward, done and
    info of the step, and the first observation and state of its next episode, begun by
    `env.reset_after(new_state)`: a reset with `jax.random.split(new_state.rng)[0]`, unless the
    environment overrides it. An episode ends when `new_state.done` is True, or when the returned
    `done` is a bool scalar that is True.

    Parameters
    ----------
    env : JaxEnv
        The environment to copy; it must be traceable.
    num_envs : int
        Number of copies, at least 1.
    jit_compile : bool, default True
        False leaves `reset` and `step` uncompiled, for debugging.
    final_obs : bool, default False
        Add `infos["final_obs"]`: the observation of the step itself, before any reset, in every
        slot, for bootstrapping on truncation; `infos["final_mask"]`, the mask of legal actions in
        the same state, if the environment has masks; and `terminated` and `truncated`, by the rule
        of `JaxEnv.step` if the environment does not give them.
    autoreset : AutoReset or False, optional
        How slots that ended are reset, `envrax.autoreset.Compact()` or `Select()`; the result is
        the same. Chosen by `envrax.autoreset.choose` if not given. False resets nothing: call
        `reset_where`. A slot that is stepped after its end does what its environment then does.
        `rollout`, `evaluate` and the bridges to trainers reset all the same.
    donate : bool, default False
        Let `step` overwrite the old state, which cannot be used afterwards. In a Python loop this
        halves the memory of states. Inside the caller's own `jit` or `scan` it changes nothing.

    Raises
    ------
    ValueError
        If `num_envs` is below 1.
    RuntimeError
        If the stack cannot be traced, as with `RecordVideo`.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> env = VecEnv(CountingEnv(), 3)
    >>> obs, state = env.reset(jax.random.key(0))
    >>> obs, state, rewards, dones, infos = env.step(state, [0, 1, 2])
    >>> obs.shape, rewards.tolist(), dones.tolist()
    ((3, 2), [0.0, 1.0, 2.0], [False, False, False])
    """

    def __init__(
        self,
        env: JaxEnv[ObsSpaceT, ActSpaceT, StateT, ConfigT],
        num_envs: int,
        *,
        jit_compile: bool = True,
        final_obs: bool = False,
        autoreset: AutoReset | Literal[False] | None = None,
        donate: bool = False,
    ) -> None:
        if not isinstance(cast(Any, env), JaxEnv):
            raise TypeError(
                f"VecEnv: expected a JaxEnv; got {env!r}. Pass an environment, or an id to "
                "`make_vec`."
            )
        num_envs = require_count("VecEnv: expected num_envs", num_envs)
        if not env.traceable:
            raise RuntimeError(
                f"VecEnv: expected a traceable environment; got {env!r}, which is incompatible "
                "with JAX transforms. Leave that wrapper out: "
                "`envrax.wrappers.vector.RecordVideo` films slots, and `render_slot` draws one."
            )
        is_strategy = callable(autoreset) and not isinstance(autoreset, type)
        if not (autoreset is None or autoreset is False or is_strategy):
            raise TypeError(
                "VecEnv: expected autoreset to be a strategy, such as `envrax.autoreset.Select()`, "
                f"or False; got {autoreset!r}. Leave it out, and a strategy is chosen."
            )
        self.env = env
        self.num_envs = num_envs
        self._autoreset: AutoReset | Literal[False] | None = cast(Any, autoreset)
        self._options = StepOptions(autoreset=autoreset is not False, final_obs=final_obs)
        self._actions = env.action_space.batch(num_envs)
        how = Compilation(cache_dir_of(env), donate)
        self._use(how if jit_compile else None)

    @property
    def copied_env(self) -> AnyEnv | None:
        """The environment; None in a subclass that overrides one of these methods."""
        calls = self.reset, self.step, self.reset_where, self.action_mask, self.active
        return None if adds(*calls, self.render_slot) else self.env

    @property
    def can_render(self) -> bool:
        """Whether the environment has a `render`."""
        return implements_render(self.env) or adds(self.render_slot)

    def _reset_slots(self, rng: jax.Array) -> Any:
        return rule.reset_slots(self.env, self._slot_keys(rng))

    def _slot_keys(self, rng: jax.Array) -> jax.Array:
        return split_key(rng, self.num_envs)

    def _step_slots(self, state: Any, actions: Any, options: StepOptions) -> Any:
        require_slots(state, self.num_envs)
        strategy = (self._autoreset or None) if options.autoreset else False
        shown: Any = dict(final_obs=options.final_obs, reasons=options.reasons)
        return rule.step(self.env, strategy, state, actions, **shown)

    def _begin_slots(self, mask: Any, state: Any, *how: Any) -> tuple[Any, Any, jax.Array]:
        require_slots(state, self.num_envs, "VecEnv.reset_where", "Pass `mask, obs, state`.")
        return *rule.begin_where(self.env, self._autoreset, mask, state, *how), mask

    def _mask_slots(self, state: Any) -> Any:
        return jax.vmap(self.env.action_mask)(state)

    def _active_slots(self, state: Any) -> dict[str, jax.Array]:
        return jax.vmap(self.env.active)(state)

    @property
    def n_slots(self) -> int:
        return self.num_envs

    @property
    def name(self) -> str:
        return self.env.name

    @property
    def agents(self) -> tuple[str, ...]:
        return self.env.agents

    @property
    def autoreset(self) -> AutoReset | Literal[False]:
        """The strategy for ended slots: as given, or chosen by `envrax.autoreset.choose`."""
        return choose(self.env, self.num_envs) if self._autoreset is None else self._autoreset

    @property
    def unwrapped(self) -> AnyEnv:
        """The innermost environment."""
        return self.env.unwrapped

    @property
    def config(self) -> ConfigT:
        """The configuration of the environment."""
        return self.env.config

    @property
    @hands_on
    def single_observation_space(self) -> ObsSpaceT:
        return self.env.observation_space

    @property
    @hands_on
    def single_action_space(self) -> ActSpaceT:
        return self.env.action_space

    @property
    @hands_on
    def action_space(self) -> Space:
        return self._actions

    if TYPE_CHECKING:

        def reset(self, rng: jax.Array) -> tuple[Any, StateT]: ...
        def step(
            self, state: StateT, actions: Any
        ) -> tuple[Any, StateT, jax.Array, jax.Array, Info]: ...

    def slot_state(self, state: StateT, slot_idx: int | jax.Array = 0) -> StateT:
        who = f"{type(self).__name__}.slot_state"
        if not isinstance(slot_idx, Tracer):
            slot_idx = jax.device_put(np.int32(slot_index(who, slot_idx, self.n_slots)))
        return _take_slots(copy_numpy(state), slot_idx)

    @hands_on
    def render_slot(self, state: StateT, slot_idx: int = 0) -> np.ndarray:
        # A copy, because an environment may draw every state on the same array.
        return np.array(self.env.render(self.slot_state(state, slot_idx)))

    def close(self) -> None:
        self.env.close()

    def __repr__(self) -> str:
        shown = f"VecEnv({self.env!r}, num_envs={self.num_envs}"
        return f"{shown}, autoreset=False)" if self._autoreset is False else f"{shown})"


_take_slots: Any = jax.jit(take_slots)


def require_slots(
    state: Any, num_envs: int, who: str = "VecEnv.step", hint: str = "Pass `state, actions`."
) -> None:
    """Raise an error for anything but a state of `num_envs` slots."""
    expected = f"{who}: expected the state of {num_envs} slots that reset or step returned"
    if not isinstance(state, EnvState):
        got = leaf_type(state) if hasattr(state, "shape") else type(state).__name__
        raise TypeError(f"{expected}; got {got}. {hint}")
    for leaf in jax.tree.leaves(state):
        if np.shape(leaf)[:1] != (num_envs,):
            raise ValueError(
                f"{expected}; got a leaf of shape {np.shape(leaf)}. Pass the state of this batch."
            )
