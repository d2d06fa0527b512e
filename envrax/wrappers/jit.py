"""`JitWrapper`: compile an environment."""

from functools import cached_property
from typing import Any

import jax
from jax.core import Tracer

from envrax._jax.cache import DEFAULT_CACHE_DIR, CacheDir, Compilation
from envrax._jax.compiled import Compiled, compile_pair
from envrax._jax.copies import StateCopies, copy_numpy
from envrax._jax.keys import refuses_seed, require_key
from envrax._jax.returned import returned_arrays
from envrax._jax.types import is_traced
from envrax.autoreset.slot import next_episode
from envrax.env import ActSpaceT, AnyEnv, ConfigT, EnvState, Info, JaxEnv, ObsSpaceT, StateT
from envrax.spaces.conform import conform, conformed_types
from envrax.termination import step_env
from envrax.wrappers.base import Wrapper, layers


class JitWrapper(Wrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    Compile `reset` and `step` of the wrapped environment.

    As with `jax.jit`, the config and attributes of the environment are constants of the compiled
    code: do not change them after the first call. Inside the caller's own `jit`, `vmap` or `scan`
    the wrapper only calls the wrapped environment.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap; it must be traceable.
    cache_dir : path-like or None
        Persistent compile cache; see `BatchedEnv.compile`.
    pre_warm : bool, default True
        Compile now. False: compile on the first call, or when `compile()` is called.

    Raises
    ------
    RuntimeError
        If the environment or one of its wrappers cannot be traced, such as `RecordVideo`.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        raise TypeError(
            f"{cls.__name__}: expected a wrapper inside or outside of JitWrapper; got a subclass "
            "of it, whose hooks would not be called. Subclass `Wrapper`."
        )

    def __init__(
        self,
        env: JaxEnv[ObsSpaceT, ActSpaceT, StateT, ConfigT],
        cache_dir: CacheDir = DEFAULT_CACHE_DIR,
        *,
        pre_warm: bool = True,
    ) -> None:
        super().__init__(env)
        if not env.traceable:
            raise RuntimeError(
                f"JitWrapper: expected a traceable environment; got {env!r}, which is incompatible "
                "with JAX transforms. Put JitWrapper inside it."
            )
        self.cache_dir = cache_dir
        self.compiled_with: Compilation | None = None  # the options of `compile`; None before
        self._action_space = env.action_space  # it may be built on every access
        if pre_warm:
            self.compile()

    @cached_property
    def _copies(self) -> StateCopies:
        return StateCopies()

    @cached_property
    def _reset(self) -> Compiled:
        return Compiled(self._checked_reset)

    @cached_property
    def _reset_after(self) -> Compiled:
        return Compiled(self._checked_reset_after)

    @cached_property
    def _step(self) -> Compiled:
        return Compiled(self._checked_step)

    @cached_property
    def _mask(self) -> Compiled:
        return Compiled(self.env.action_mask)

    @cached_property
    def _observe(self) -> Compiled:
        return Compiled(self._observe_inner)

    @property
    def traceable(self) -> bool:
        return True

    @property
    def action_space(self) -> ActSpaceT:
        return self._action_space

    @refuses_seed
    def reset(self, rng: jax.Array) -> tuple[Any, StateT]:
        if isinstance(rng, Tracer):
            return self.env.reset(rng)
        require_key(rng, "JitWrapper.reset", "Pass one key, or use VecEnv for many episodes.")
        return self._reset(copy_numpy(rng))

    def reset_after(self, state: StateT) -> tuple[Any, StateT]:
        if is_traced(state):
            return self.env.reset_after(state)
        return self._reset_after(copy_numpy(state))

    def step(self, state: StateT, action: Any) -> tuple[Any, StateT, jax.Array, jax.Array, Info]:
        action = conform(self._action_space, action, "JitWrapper.step")
        if is_traced((state, action)):
            return step_env(self.env, state, action)
        return self._step(self._copies(state), action)

    def action_mask(self, state: StateT) -> Any:
        return self._mask(copy_numpy(state))

    def observe(self, state: StateT) -> Any:
        return self._observe(copy_numpy(state))

    def _with_config(self, fields: dict[str, Any]) -> Any:
        # The result has no JitWrapper, because the values may be traced or change often.
        return self.env._with_config(fields)

    def _carries_over(self) -> bool:
        return self.env._carries_over()

    def _with_starts(self, give: Any) -> Any:
        return self.env._with_starts(give)  # its programs call the environment as it was

    def compile(self) -> None:
        """Compile `reset` and `step` now, without running them. Later calls then only run."""
        super().compile()
        self.compiled_with = Compilation(self.cache_dir)
        compile_pair(self._reset, self._step, self._step_types, self.cache_dir)

    def _step_types(self, returned: Any) -> tuple[Any, Any]:
        return returned[1], conformed_types(self._action_space)

    def _checked_reset(self, rng: jax.Array) -> Any:
        who = type(self.env).__name__
        return returned_arrays(who, "reset", self.env.reset(rng), EnvState)

    def _checked_reset_after(self, state: StateT) -> Any:
        return next_episode(self.env, state)

    def _checked_step(self, state: StateT, action: Any) -> Any:
        stepped = step_env(self.env, state, action)
        return returned_arrays(type(self.env).__name__, "step", stepped)


def compilation(env: AnyEnv) -> Compilation | None:
    """The compile options of the outermost `JitWrapper` of a stack; None if there is none."""
    for layer in layers(env):
        if isinstance(layer, JitWrapper):
            return Compilation(layer.cache_dir)
    return None


def cache_dir_of(env: AnyEnv) -> CacheDir:
    """The compile cache of the outermost `JitWrapper` of a stack, or else the default."""
    return (compilation(env) or Compilation()).cache_dir
