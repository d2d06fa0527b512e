"""`VecEnv`: many copies of one environment, compiled, with auto-reset."""

import operator
from functools import partial
from typing import Any, Generic, cast

import jax
import numpy as np
from jax.core import Tracer

from envrax import autoreset as _autoreset
from envrax._compile import DEFAULT_CACHE_DIR, CacheDir, Compilation, Compiled, warm_up
from envrax._count import require_count
from envrax._keys import require_key
from envrax.autoreset import AutoReset
from envrax.batched_env import BatchedEnv
from envrax.env import ActSpaceT, ConfigT, EnvState, Info, JaxEnv, ObsSpaceT, StateT
from envrax.spaces import Space
from envrax.spaces.conform import conform

__all__ = ["BatchedEnv", "VecEnv"]


class VecEnv(BatchedEnv[ObsSpaceT, ActSpaceT], Generic[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    `num_envs` copies of an environment, stepped together, each with its own episodes.

    `reset` and `step` are compiled on their first call, of the environment as it is then, and
    compose with the caller's own `jit`, `vmap`, `scan` and `grad`. Environments that are equal by
    value share their programs.

    **Auto-reset** happens in the step that ends an episode: that slot returns the reward, done and
    info of the step, and the first observation and state of its next episode, begun with
    `jax.random.split(new_state.rng)[0]`. An episode ends when `new_state.done` is set or the
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
        How slots that ended are replaced, `envrax.autoreset.Compact()` or `Select()`; the result is
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
        self.env = env
        self.num_envs = num_envs
        self._reset: Any = partial(_autoreset.reset, env, num_envs)
        self._step: Any = partial(_step, env, num_envs, autoreset, final_obs)
        if jit_compile:
            self._reset = Compiled(self._reset)
            self._step = Compiled(self._step, donate=(0,) if donate else ())
        self._donate = donate and jit_compile
        self._jit_compile, self._final_obs, self._autoreset = jit_compile, final_obs, autoreset
        self._action_space = env.action_space.batch(num_envs)

    @property
    def n_slots(self) -> int:
        return self.num_envs

    @property
    def name(self) -> str:
        return self.env.name

    @property
    def autoreset(self) -> AutoReset:
        """How slots that ended are replaced: as given, else as `envrax.autoreset.choose` says."""
        return self._autoreset or _autoreset.choose(self.env, self.num_envs)

    @property
    def compilation(self) -> Compilation | None:
        return (self.env.compilation or Compilation()) if self._jit_compile else None

    @property
    def unwrapped(self) -> JaxEnv[Any, Any, Any, Any]:
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
            If actions are of another shape or structure.
        RuntimeError
            If `state` was donated to an earlier step.
        """
        if self._donate:
            _require_held(state, "step")
        return self._step(state, conform(self._action_space, actions, "VecEnv.step"))

    def step_stacked(self, states: Any, actions: Any) -> tuple[Any, ...]:
        """As one wide batch, in which only the slots that ended are reset."""
        if type(self).step is not VecEnv.step:
            return super().step_stacked(states, actions)
        many, n = states.done.shape
        wide = VecEnv(
            self.env,
            many * n,
            jit_compile=False,
            final_obs=self._final_obs,
            autoreset=self._autoreset,
        )
        merged = jax.tree.map(lambda x: x.reshape(many * n, *x.shape[2:]), (states, actions))
        return jax.tree.map(lambda x: x.reshape(many, n, *x.shape[1:]), wide.step(*merged))

    def slot_state(self, state: StateT, slot_idx: int | jax.Array = 0) -> StateT:
        if self._donate:
            _require_held(state, "slot_state")
        if isinstance(slot_idx, Tracer):
            return _take(state, slot_idx)
        index = operator.index(cast(Any, slot_idx))
        if not -self.num_envs <= index < self.num_envs:
            raise IndexError(
                f"VecEnv.slot_state: expected an index from {-self.num_envs} to "
                f"{self.num_envs - 1}; got {index}."
            )
        return _take(state, np.int32(index % self.num_envs))

    def render_slot(self, state: StateT, slot_idx: int = 0) -> np.ndarray:
        return self.env.render(self.slot_state(state, slot_idx))

    def render(self, state: StateT, *, index: int = 0) -> np.ndarray:
        """Draw one slot: `render_slot` under the name that a single environment has."""
        return self.render_slot(state, index)

    def compile(self, cache_dir: CacheDir = DEFAULT_CACHE_DIR) -> None:
        if self._jit_compile:
            warm_up(self.reset, self.step, self._action_space.sample, cache_dir)

    def close(self) -> None:
        self.env.close()

    def __repr__(self) -> str:
        return f"VecEnv({self.env!r}, num_envs={self.num_envs})"


def _step(
    env: JaxEnv[Any, Any, Any, Any],
    num_envs: int,
    autoreset: AutoReset | None,
    final_obs: bool,
    state: Any,
    actions: Any,
) -> Any:
    _require_state(state, num_envs)
    *out, infos, last = _autoreset.step(env, autoreset, state, actions)
    return *out, {**infos, "final_obs": last} if final_obs else infos


def _require_state(state: Any, num_envs: int) -> None:
    expected = f"VecEnv.step: expected the state of {num_envs} slots that reset or step returned"
    if not isinstance(state, EnvState):
        raise TypeError(f"{expected}; got {type(state).__name__}. Pass `state, actions`.")
    for leaf in jax.tree.leaves(state):
        if np.shape(leaf)[:1] != (num_envs,):
            raise ValueError(
                f"{expected}; got a leaf of shape {np.shape(leaf)}. Pass the state of this VecEnv."
            )


def _require_held(state: Any, method: str) -> None:
    leaves = [x for x in jax.tree.leaves(state) if isinstance(x, jax.Array)]
    if any(x.is_deleted() for x in leaves if not isinstance(x, Tracer)):
        raise RuntimeError(
            f"VecEnv.{method}: expected the newest state; got one that was donated to an earlier "
            "step (`donate=True`). Go on from the state which that step returned, or do not donate."
        )


def _slot(state: Any, index: jax.Array) -> Any:
    return jax.tree.map(lambda x: x[index], state)


_take: Any = jax.jit(_slot)
