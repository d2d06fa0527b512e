"""`VecEnv`: many copies of one environment, compiled, with auto-reset."""

import operator
from dataclasses import replace
from functools import partial
from typing import Any, Generic, cast

import jax
import numpy as np
from jax.core import Tracer

from envrax._checks import require_count
from envrax._jax.cache import DEFAULT_CACHE_DIR, CacheDir, Compilation
from envrax._jax.keys import require_key
from envrax._jax.mesh import take_slot
from envrax._jax.programs import Compiled, CompiledEnv, next_step, require_not_donated
from envrax.autoreset import AutoReset, batch
from envrax.autoreset.choice import Choice
from envrax.autoreset.slot import require_slots
from envrax.batched_env import BatchedEnv, Part
from envrax.env import ActSpaceT, AnyEnv, ConfigT, Info, JaxEnv, ObsSpaceT, StateT
from envrax.spaces import Space
from envrax.spaces.conform import conform
from envrax.wrappers.jit import compilation

__all__ = ["BatchedEnv", "VecEnv"]


class VecEnv(BatchedEnv[ObsSpaceT, ActSpaceT], Generic[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    `num_envs` copies of an environment, stepped together, each with its own episodes.

    `reset` and `step` are compiled, and compose with the caller's own `jit`, `vmap`, `scan` and
    `grad`. What is compiled is the environment as it is when `reset` or `step` is first called, as
    with `jax.jit`. Do not edit its config or attributes afterwards: an edit counts only where JAX
    traces again, as for another kind of key.

    **Auto-reset** happens in the step that ends an episode: that slot returns the reward, done and
    info of the step, and the first observation and state of its next episode, begun by
    `env.reset_after(new_state)`: a reset with `jax.random.split(new_state.rng)[0]`, unless the
    environment overrides it. An episode ends when `new_state.done` is set or the
    returned `done` is a true bool scalar.

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
        slot. Bootstrapping on truncation needs it.
    autoreset : AutoReset, optional
        How slots that ended are reset, `envrax.autoreset.Compact()` or `Select()`; the result is
        the same. Chosen by `envrax.autoreset.choose` if not given.
    donate : bool, default False
        Let `step` write the new state over the old one, which cannot be used again then: half the
        memory in a Python loop. Inside the caller's own `jit` or `scan` it changes nothing.

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
        autoreset: AutoReset | None = None,
        donate: bool = False,
    ) -> None:
        if not isinstance(cast(Any, env), JaxEnv):
            raise TypeError(f"VecEnv: expected a JaxEnv; got {env!r}. Pass an environment.")
        num_envs = require_count("VecEnv: expected num_envs", num_envs)
        if isinstance(autoreset, type) or not (autoreset is None or callable(autoreset)):
            raise TypeError(
                f"VecEnv: expected autoreset to be a value such as `Compact()` or `Select()` of "
                f"`envrax.autoreset`; got {autoreset!r}."
            )
        if not env.traceable:
            raise RuntimeError(
                f"VecEnv: expected a traceable environment; got {env!r}, which is incompatible "
                "with JAX transforms. Leave that wrapper out and draw single slots with "
                "`render_slot`."
            )
        for which in ("observation_space", "action_space"):
            if not isinstance(space := getattr(env, which), Space):
                raise TypeError(
                    f"VecEnv: expected {env.name}.{which} to be a Space; got {space!r}. Write it "
                    "as a property that returns one."
                )
        self.env, self.num_envs = env, num_envs
        self._action_space = env.action_space.batch(num_envs)
        self._donate, self._choice = donate and jit_compile, Choice(env, num_envs, autoreset)
        self._options: dict[str, Any] = dict(final_obs=final_obs, autoreset=autoreset)
        self._reset: Any = partial(batch.reset, env, num_envs)
        self._step: Any = partial(_checked_step, self._choice, final_obs)
        self._mask: Any = partial(_masks, env)
        self._compiled: CompiledEnv | None = None
        if jit_compile:
            arguments = partial(next_step, self._action_space.sample)
            self._compiled = CompiledEnv(self._reset, self._step, arguments, self._donate)
            self._reset, self._step = self._compiled.reset, self._compiled.step
            self._mask = Compiled(self._mask)

    @property
    def n_slots(self) -> int:
        return self.num_envs

    @property
    def name(self) -> str:
        return self.env.name

    @property
    def autoreset(self) -> AutoReset:
        """How slots that ended are reset, as `step` does it: as given, else as `choose` says."""
        return self._choice.strategy()

    @property
    def compilation(self) -> Compilation | None:
        if self._compiled is None:
            return None
        return replace(compilation(self.env) or Compilation(), donate=self._donate)

    @property
    def unwrapped(self) -> AnyEnv:
        return self.env.unwrapped

    @property
    def config(self) -> ConfigT:
        """The configuration of the environment."""
        return self.env.config

    @property
    def single_observation_space(self) -> ObsSpaceT:
        return self.env.observation_space

    @property
    def single_action_space(self) -> ActSpaceT:
        return self.env.action_space

    @property
    def action_space(self) -> Space:
        return self._action_space

    def reset(self, rng: jax.Array) -> tuple[Any, StateT]:
        """
        Begin an episode in every slot.

        Parameters
        ----------
        rng : jax.Array
            One PRNG key, typed or legacy. Slot i gets `jax.random.split(rng, num_envs)[i]`.

        Raises
        ------
        TypeError
            If `rng` is no PRNG key.
        ValueError
            If `rng` is a batch of keys, or a key of the wrong shape.
        """
        require_key(rng, "VecEnv.reset", "pass one key; VecEnv splits it.")
        return self._reset(rng)

    def step(self, state: StateT, actions: Any) -> tuple[Any, StateT, jax.Array, jax.Array, Info]:
        """
        Take one step in every slot, with auto-reset.

        Actions of the right kind (bool, integer, float) are brought to the space's dtype.

        Raises
        ------
        TypeError
            If actions are of another kind, or reset and step of the environment disagree.
        ValueError
            If actions are of another shape or structure, or if `final_obs=True` and the environment
            has an info of that name.
        RuntimeError
            If `state` was donated to an earlier step.
        """
        if self._donate:
            require_not_donated(state, "VecEnv.step")
        return self._step(state, conform(self._action_space, actions, "VecEnv.step"))

    def action_mask(self, state: StateT) -> Any:
        if self._donate:
            require_not_donated(state, "VecEnv.action_mask")
        return self._mask(state)

    @property
    def copies(self) -> tuple[AnyEnv, partial[BatchedEnv[Any, Any]]] | None:
        if (type(self).reset, type(self).step) != (VecEnv.reset, VecEnv.step):
            return None
        return self.env, partial(VecEnv, jit_compile=False, **self._options)

    def part(self, n_parts: int) -> Part | None:
        # A subclass may have more to keep.
        if type(self) is not VecEnv or self.num_envs % n_parts:
            return None
        slots = VecEnv(self.env, self.num_envs // n_parts, jit_compile=False, **self._options)
        return Part(slots, partial(batch.reset_part, self.env, self.num_envs, n_parts))

    def with_final_obs(self) -> "BatchedEnv[Any, Any]":
        if self._options["final_obs"] or type(self) is not VecEnv:  # a subclass has more to keep
            return self
        compiled = self._compiled is not None
        options = dict(self._options, final_obs=True, jit_compile=compiled, donate=self._donate)
        return VecEnv(self.env, self.num_envs, **options)

    def slot_state(self, state: StateT, slot_idx: int | jax.Array = 0) -> StateT:
        if self._donate:
            require_not_donated(state, "VecEnv.slot_state")
        if isinstance(slot_idx, Tracer):
            return _take_slot(state, slot_idx)
        index = operator.index(cast(Any, slot_idx))
        if not -self.num_envs <= index < self.num_envs:
            raise IndexError(
                f"VecEnv.slot_state: expected an index from {-self.num_envs} to "
                f"{self.num_envs - 1}; got {index}."
            )
        return _take_slot(state, np.int32(index % self.num_envs))

    def render_slot(self, state: StateT, slot_idx: int = 0) -> np.ndarray:
        return self.env.render(self.slot_state(state, slot_idx))

    def render(self, state: StateT, *, index: int = 0) -> np.ndarray:
        """Draw one slot, as `render_slot`."""
        return self.render_slot(state, index)

    def compile(self, cache_dir: CacheDir = DEFAULT_CACHE_DIR) -> None:
        if self._compiled is not None:
            self._compiled.compile(cache_dir)

    def close(self) -> None:
        self.env.close()

    def __repr__(self) -> str:
        return f"VecEnv({self.env!r}, num_envs={self.num_envs})"


def _masks(env: AnyEnv, state: Any) -> Any:
    return jax.vmap(env.action_mask)(state)


def _checked_step(choice: Choice, final_obs: bool, state: Any, actions: Any) -> Any:
    require_slots(state, choice.num_envs)
    *out, infos, last = batch.step_by(choice, state, actions)
    if final_obs and "final_obs" in infos:
        raise ValueError(
            'VecEnv.step: expected an info without the key "final_obs", which `final_obs=True` '
            f"adds; got one from {choice.env.name}. Rename it there, or leave out `final_obs=True`."
        )
    return *out, {**infos, "final_obs": last} if final_obs else infos


_take_slot: Any = jax.jit(take_slot)
