"""`JitWrapper`: compile an environment."""

from functools import partial
from typing import Any

import jax
from jax.core import Tracer

from envrax._compile import DEFAULT_CACHE_DIR, CacheDir, Compilation, Compiled, warm_up
from envrax._keys import require_key
from envrax._returned import require_tuple
from envrax.env import ActSpaceT, ConfigT, Info, JaxEnv, ObsSpaceT, StateT, require_done
from envrax.spaces.conform import conform
from envrax.wrappers.base import Wrapper


class JitWrapper(Wrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    Compile `reset` and `step` of the wrapped environment, as it is on their first call.

    Environments that are equal by value share their programs, which run on a private copy: editing
    a config afterwards changes nothing, and attributes that a method sets are lost. One with side
    effects, such as a callback to the host, is not copied and shares nothing.

    Inside the caller's own `jit`, `vmap` or `scan` it is transparent.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap; it must be traceable.
    cache_dir : path-like or None
        Persistent compile cache of the warm-up; see `BatchedEnv.compile`.
    pre_warm : bool, default True
        Compile now, and not on the first call or by `compile()`.

    Raises
    ------
    RuntimeError
        If the stack cannot be traced, as with `RecordVideo`.
    """

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
                "with JAX transforms. Put JitWrapper beneath it."
            )
        self.cache_dir = cache_dir
        self._action_space = env.action_space  # as a property it may be built on every access
        self._reset, self._step = Compiled(env.reset), Compiled(partial(_step, env))
        if pre_warm:
            self.compile()

    @property
    def compilation(self) -> Compilation:
        return Compilation(self.cache_dir)

    def reset(self, rng: jax.Array) -> tuple[Any, StateT]:
        require_key(rng, "JitWrapper.reset", "Pass one key, or use VecEnv for many episodes.")
        return self.env.reset(rng) if _traced(rng) else self._reset(rng)

    def step(self, state: StateT, action: Any) -> tuple[Any, StateT, jax.Array, jax.Array, Info]:
        action = conform(self._action_space, action, "JitWrapper.step")
        if _traced((state, action)):
            return _step(self.env, state, action)
        return self._step(state, action)

    def compile(self) -> None:
        """Compile now; afterwards the first real `reset` and `step` compile nothing."""
        super().compile()
        warm_up(self.reset, self.step, self.action_space.sample, self.cache_dir)


def _step(env: JaxEnv[Any, Any, Any, Any], state: Any, action: Any) -> Any:
    stepped = require_tuple(type(env).__name__, "step", env.step(state, action))
    obs, state, reward, done, info = stepped
    require_done(env, state, done)  # from above, the env would look like a wrapper
    return obs, state, reward, done, info


def _traced(tree: Any) -> bool:
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))
