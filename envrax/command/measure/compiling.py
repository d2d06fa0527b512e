"""Where the seconds of a first call go: import, trace, lowering, XLA, and the compile cache."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import jax

from envrax.rollouts import evaluate, rollout, start
from envrax.testing.find import find_env
from envrax.vec_env import VecEnv

STEPS = 100
# What is timed in a process of its own; the last two with a batch that `make_vec` has compiled,
# since only then its compile cache counts.
CALLS: dict[str, Callable[[Any], object]] = {
    "make_vec": lambda batch: batch.compile(),
    "rollout": lambda batch: rollout(batch, None, start(batch, jax.random.key(0)), STEPS),
    "evaluate": lambda batch: evaluate(
        batch, None, jax.random.key(0), batch.n_slots, max_steps=STEPS
    ),
}
_STAGES = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "xla",
}
_COUNTS = {
    "/jax/compilation_cache/cache_hits": "hits",
    "/jax/compilation_cache/cache_misses": "misses",
}
_CODE = """
import sys, time
begin = time.perf_counter()
from envrax.command.measure.compiling import print_compilation
print_compilation(begin, *sys.argv[1:])
"""


class Compilation(NamedTuple):
    """
    Seconds of a call in a new process.

    Attributes
    ----------
    call : str
        "make_vec", "rollout" or "evaluate".
    again : bool
        Whether a process before this one made the same call, and left its programs in the cache.
    start : float
        The import of JAX and envrax, and the import and constructor of the environment; counted
        for `make_vec`, with which each of the processes begins.
    trace, lower, xla : float
        Python functions to jaxprs, jaxprs to the text for XLA, and from there to programs, compiled
        or read from the cache.
    rest : float
        All else, such as the steps themselves.
    hits, misses : int
        Programs that were found in JAX's persistent cache, and those that were not.
    device : str
        The kind of device.
    """

    call: str
    again: bool
    start: float
    trace: float
    lower: float
    xla: float
    rest: float
    hits: int
    misses: int
    device: str


class Stages:
    """
    Listens to JAX: seconds of each stage, without those of the stages inside it, and the cache.

    A function that is traced may call another under `jax.jit`, whose trace JAX reports as well.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.found: dict[str, Any] = {
            "trace": 0.0,
            "lower": 0.0,
            "xla": 0.0,
            "hits": 0,
            "misses": 0,
        }
        self._clock = clock
        self._done: list[tuple[float, float]] = []  # begin and seconds of each, but for inner ones

    def on_event(self, event: str, **_: Any) -> None:
        """A listener for `jax.monitoring.register_event_listener`."""
        if event in _COUNTS:
            self.found[_COUNTS[event]] += 1

    def on_duration(self, event: str, duration_secs: float, **_: Any) -> None:
        """A listener for `jax.monitoring.register_event_duration_secs_listener`."""
        if event not in _STAGES:
            return
        begin = self._clock() - duration_secs
        inner = 0.0
        while self._done and self._done[-1][0] >= begin:
            inner += self._done.pop()[1]
        self._done.append((begin, duration_secs))
        self.found[_STAGES[event]] += duration_secs - inner


def compilations(name: str, n: int, wrappers: list[str]) -> Iterator[Compilation]:
    """Each call of `CALLS` in a new process with an empty compile cache, then in another one."""
    for call in CALLS:
        with tempfile.TemporaryDirectory() as cache:
            settings = {**os.environ, "ENVRAX_CACHE_DIR": cache}
            settings.pop("JAX_COMPILATION_CACHE_DIR", None)
            for again in (False, True):
                command = [sys.executable, "-c", _CODE, call, name, f"{n}", *wrappers]
                done = subprocess.run(command, env=settings, capture_output=True, text=True)
                if done.returncode:
                    raise RuntimeError(f"{call} in a new process: {done.stderr.strip()}")
                found = json.loads(done.stdout.splitlines()[-1])
                yield Compilation(call=call, again=again, **found)


def print_compilation(begin: float, call: str, name: str, n: str, *wrappers: str) -> None:
    """Make the call in this process, which began then, and print what it took as JSON."""
    batch = VecEnv(find_env(name, wrappers), int(n))
    started = time.perf_counter() - begin
    if call != "make_vec":
        CALLS["make_vec"](batch)
        started = 0.0
    stages = Stages()
    jax.monitoring.register_event_listener(stages.on_event)
    jax.monitoring.register_event_duration_secs_listener(stages.on_duration)
    begin = time.perf_counter()
    jax.block_until_ready(CALLS[call](batch))
    found = stages.found
    rest = time.perf_counter() - begin - sum(found[stage] for stage in _STAGES.values())
    print(json.dumps({"start": started, "rest": rest, "device": device_kind(), **found}))


def device_kind() -> str:
    """The kind of the device that JAX uses."""
    return cast(list[Any], jax.devices())[0].device_kind
