"""JAX in forked processes: its threads are not there, and most of its calls wait for ever."""

import os

try:  # JAX has no public function that tells this without starting a backend
    from jax._src.xla_bridge import backends_are_initialized
except ImportError:  # in a JAX that renamed it, forks are not noticed

    def backends_are_initialized() -> bool:
        return False


_TASKS = "/proc/self/task"  # of Linux: the threads of this process


def _has_lost_threads() -> bool:
    """Whether JAX has started and has no thread: this module is first imported after the fork."""
    return backends_are_initialized() and os.path.isdir(_TASKS) and len(os.listdir(_TASKS)) == 1


jax_hangs = _has_lost_threads()  # whether this process was forked after JAX had started

_had_started = False  # whether JAX had started at the last fork


def fork_error(who: str, what: str) -> RuntimeError:
    """The error to raise where `jax_hangs`."""
    return RuntimeError(
        f"{who}: {what}: expected JAX to start in this process; got a process that was forked "
        'after JAX had started, where it hangs. Start the process with `context="spawn"`, or '
        'by `multiprocessing.get_context("spawn")`.'
    )


def _before_fork() -> None:
    global _had_started
    _had_started = backends_are_initialized()


def _after_fork() -> None:
    global jax_hangs
    jax_hangs = _had_started


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
