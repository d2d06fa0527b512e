# pyright: reportMissingImports=false
"""Simulators on the host after a dead worker, an interrupt, `close`, or without their batch."""

import gc
import threading
from functools import partial
from typing import Any

import envpool
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from trainers.host_envs import KEY, MAKE

from envrax.interop.host.envpool import from_envpool
from envrax.interop.host.gymnasium_vec import from_gymnasium_vec

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*precision lowered"),
    pytest.mark.filterwarnings("ignore:.*pending call"),
]
ACTIONS = np.zeros(2, np.int64)
MAKERS = [MAKE["CartPole"]] * 2
parallel = partial(AsyncVectorEnv, MAKERS, context="forkserver")


def close_returns(env: Any) -> None:
    thread = threading.Thread(target=env.close, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert not any(process.is_alive() for process in env.simulator.vector_env.unwrapped.processes)


@pytest.mark.parametrize("dead", [0, 1])
@pytest.mark.parametrize("steps", [True, False])
def test_a_dead_worker(dead: int, steps: bool) -> None:
    env = from_gymnasium_vec(parallel(autoreset_mode=AutoresetMode.SAME_STEP))
    _, state = env.reset(KEY)
    process = env.simulator.vector_env.unwrapped.processes[dead]
    process.kill()
    process.join()
    if steps:
        with pytest.raises(RuntimeError, match="worker"):
            env.step(state, ACTIONS)
        with pytest.raises(RuntimeError, match=r"[Bb]uild another"):
            env.reset(KEY)
    close_returns(env)


def interrupt(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


def test_an_interrupt_between_the_two_halves_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows which results were read already: the next call would read old ones."""
    env = from_gymnasium_vec(parallel())
    _, state = env.reset(KEY)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(env.simulator.vector_env, "step_wait", interrupt)
        env.step(state, ACTIONS)
    for call in (lambda: env.step(state, ACTIONS), lambda: env.reset(KEY)):
        with pytest.raises(RuntimeError, match=r"[Bb]uild another"):
            call()
    close_returns(env)


def test_an_interrupt_of_a_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    pool: Any = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=2)
    env = from_envpool(pool)
    _, state = env.reset(KEY)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(type(pool), "recv", interrupt)
        env.step(state, ACTIONS)
    with pytest.raises(RuntimeError, match=r"[Bb]uild another"):
        env.reset(KEY)


def test_an_interrupt_of_a_simulator_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    env = from_gymnasium_vec(SyncVectorEnv(MAKERS))
    _, state = env.reset(KEY)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(env.simulator.vector_env, "step", interrupt)
        env.step(state, ACTIONS)
    with pytest.raises(RuntimeError, match="call `reset`"):
        env.step(state, ACTIONS)
    env.step(env.reset(KEY)[1], ACTIONS)


@pytest.mark.parametrize("end", ["collected", "closed"])
def test_a_simulator_is_free_without_its_batch(end: str) -> None:
    simulators: list[tuple[Any, Any]] = [
        (SyncVectorEnv(MAKERS), from_gymnasium_vec),
        (envpool.make("CartPole-v1", env_type="gymnasium", num_envs=2), from_envpool),
    ]
    for simulator, function in simulators:
        env: Any = function(simulator)
        env.reset(KEY)
        with pytest.raises(ValueError, match="already"):
            function(simulator)
        if end == "closed":
            env.close()
        else:
            del env
            gc.collect()
        other = function(simulator)
        with pytest.raises(ValueError, match="already"):
            function(simulator)
        if end == "collected":
            other.step(other.reset(KEY)[1], ACTIONS)
