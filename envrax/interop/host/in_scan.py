"""`in_scan`: a simulator on the host inside `jax.jit` and `jax.lax.scan`."""

from collections.abc import Callable
from typing import Any, NoReturn

import jax
import numpy as np
from jax.experimental import io_callback

from envrax._jax.keys import require_key
from envrax.batched_env import BatchedEnv
from envrax.env import Info
from envrax.interop.host.arrays import zipped
from envrax.interop.host.base import HostEnv, draw_seed
from envrax.interop.host.clock import HostState
from envrax.spaces import Space
from envrax.spaces.base import canonical, is_list, kind
from envrax.spaces.conform import conform
from envrax.wrappers.vector.around import AroundBatch

__all__ = ["InScan", "in_scan"]

_STEP = "in_scan(env).step"
_ONE_WORLD = (
    "there is one simulator, on the host, and it goes one way. Build it with more slots instead."
)
_AGAIN = "the rule runs a step again from an earlier state; a simulator on the host cannot go back"
_UNSEEDED = "the simulator is seeded when it is built; a key begins other episodes each time"
_WAIVERS = {
    "inputs_are_left_alone": _AGAIN,
    "same_key_same_episode": _AGAIN,
    "traces_under_jit": _AGAIN,
    "jit_agrees": _AGAIN,
    "vmap_agrees": _ONE_WORLD,
    "scan_agrees": _AGAIN,
}


class InScan(AroundBatch[Space, Space]):
    """A simulator on the host that compiled programs call; see `in_scan`."""

    def __init__(self, env: HostEnv) -> None:
        self.env: HostEnv = env  # pyright: ignore[reportIncompatibleVariableOverride]
        self._reset_types, self._step_types = env.result_types()
        self._begin, self._advance = _on_arrays(env.begin), _on_arrays(env.advance)

    @property
    def waivers(self) -> dict[str, str]:
        """Rules of `check_batched_env` that it cannot keep."""
        return _WAIVERS if self.env.is_seeded else {**_WAIVERS, "both_kinds_of_keys": _UNSEEDED}

    @property
    def action_space(self) -> Space:
        return self.env.action_space

    def with_final_obs(self) -> "InScan":
        return InScan(self.env.with_final_obs())

    def reset(self, rng: jax.Array) -> tuple[Any, HostState]:
        require_key(rng, "in_scan(env).reset", "Pass one key; the simulator makes seeds of it.")
        return io_callback(self._begin, self._reset_types, draw_seed(rng), ordered=True)

    def step(self, state: HostState, actions: Any) -> tuple[Any, HostState, Any, Any, Info]:
        form = conform(self.action_space, actions, _STEP)
        actions = zipped(_uncast, form, actions, form)
        return io_callback(self._advance, self._step_types, state, actions, ordered=True)

    def slot_state(self, state: Any, slot_idx: int | jax.Array = 0) -> NoReturn:
        return self.env.slot_state(state, slot_idx)

    def render_slot(self, state: HostState, slot_idx: int = 0) -> np.ndarray:
        jax.effects_barrier()
        return self.env.render_slot(state, slot_idx)

    def __repr__(self) -> str:
        return f"in_scan({self.env!r})"


def in_scan(batched_env: BatchedEnv[Any, Any]) -> InScan:
    """
    A simulator on the host as a batched environment that may be traced.

    Every `reset` and `step` of the compiled program calls the simulator, in program order, with the
    same results to the bit as a Python loop over `batched_env`. Tracing and compiling do not call
    it. The program waits while the simulator runs.

    There is one simulator. `vmap` raises an error if a mapped value reaches `reset` or `step`, and
    so do gradients if float actions depend on what is differentiated: write
    `stop_gradient(actions)` there. The simulator refuses a state that is not the newest, and
    integer actions outside of the space; from a compiled program the error is a
    `jax.errors.JaxRuntimeError` with the same message.

    Parameters
    ----------
    batched_env : BatchedEnv
        From `from_gymnasium_vec` or `from_envpool`. It may still be stepped from Python as well.

    Returns
    -------
    BatchedEnv
        Traceable; the spaces, results and state are those of `batched_env`.

    Raises
    ------
    TypeError
        If it is another batched environment.
    RuntimeError
        If the shapes of its `info_keys` are not known yet.
    """
    if not isinstance(batched_env, HostEnv):
        raise TypeError(
            "in_scan: expected what `from_gymnasium_vec` or `from_envpool` returns; got "
            f"{batched_env!r}. Put wrappers around `in_scan(env)`, not within; what is traceable "
            "needs no `in_scan`."
        )
    return InScan(batched_env)


def _uncast(_: Any, given: Any, cast: Any) -> Any:
    """The given integers: a cast within the program would wrap them around."""
    wraps = isinstance(cast, jax.Array) and kind(cast.dtype) == "integer"
    return _as_given(given) if wraps else cast


def _as_given(x: Any) -> Any:
    if is_list(x):
        return tuple(map(_as_given, x))
    if isinstance(x, jax.Array):
        return x
    number = np.asarray(x)
    kept = number.astype(canonical(number.dtype))  # as JAX passes it to the program
    if np.any(kept != number):
        raise ValueError(
            f"{_STEP}: expected actions that {kept.dtype} holds; got {x}. Pass actions built like "
            "`action_space.sample(rng)`."
        )
    return kept


def _on_arrays(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method with NumPy arrays, since code that JAX calls must not wait for JAX."""

    def call(*args: Any) -> Any:
        return method(*jax.tree.map(np.asarray, args))

    return call
