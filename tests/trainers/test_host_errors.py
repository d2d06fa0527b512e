# pyright: reportMissingImports=false
"""Errors of simulators on the host: their type and one noun."""

from collections.abc import Callable
from functools import partial
from typing import Any

import envpool
import gymnasium
import jax
import numpy as np
import pytest
from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers import vector as gym_vector
from trainers.host_envs import KEY, MAKE

from envrax.interop.host.envpool import from_envpool
from envrax.interop.host.gymnasium_vec import from_gymnasium_vec

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*precision lowered"),
    pytest.mark.filterwarnings("ignore:.*autoreset_mode"),
]


def sync(mode: AutoresetMode = AutoresetMode.NEXT_STEP, name: str = "CartPole") -> SyncVectorEnv:
    return SyncVectorEnv([MAKE[name]] * 2, autoreset_mode=mode)


def pool(**options: Any) -> Any:
    return envpool.make("CartPole-v1", **{"env_type": "gymnasium", "num_envs": 3, **options})


class Careless(SyncVectorEnv):
    """A vector environment that resets all slots, whatever the mask says."""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return super().reset(seed=seed)


class Undeclared(VectorEnv):
    """A vector environment that says nothing about its auto-reset."""

    num_envs = 2

    def __init__(self) -> None:
        env = MAKE["CartPole"]()
        self.single_observation_space = env.observation_space
        self.single_action_space = env.action_space
        self.observation_space = batch_space(env.observation_space, 2)
        self.action_space = batch_space(env.action_space, 2)


def undeclared_beside_ale() -> Any:
    # ALE writes its mode to the metadata that all vector environments share.
    AtariVectorEnv("breakout", 1, autoreset_mode=AutoresetMode.SAME_STEP)
    return from_gymnasium_vec(Undeclared())


def apart() -> Any:
    return AsyncVectorEnv([MAKE["CartPole"]] * 2, shared_memory=False, context="forkserver")


def bounded(bound: float) -> gymnasium.Env:
    space = gymnasium.spaces.Box(-bound, bound, (4,))
    return gymnasium.wrappers.TransformObservation(MAKE["CartPole"](), lambda x: x, space)


def unlike() -> Any:
    return SyncVectorEnv([partial(bounded, b) for b in (5, 9)], observation_mode="different")


def careless_step() -> Any:
    make = [partial(gymnasium.make, "MountainCar-v0", max_episode_steps=n) for n in (3, 9)]
    env = from_gymnasium_vec(Careless(make, autoreset_mode=AutoresetMode.DISABLED))
    _, state = env.reset(KEY)
    for _ in range(3):
        _, state, *_ = env.step(state, [1, 1])


ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a single environment": (lambda: from_gymnasium_vec(MAKE["dict"]()), TypeError, "VectorEnv"),
    "a pool": (lambda: from_gymnasium_vec(pool()), TypeError, "from_envpool"),
    "no partial reset": (
        lambda: from_gymnasium_vec(gymnasium.make_vec("CartPole-v1", 2)),
        ValueError,
        "NEXT_STEP",
    ),
    "a reset of its own": (
        lambda: from_gymnasium_vec(Careless([MAKE["CartPole"]] * 2)),
        ValueError,
        "NEXT_STEP",
    ),
    "a mask that is ignored": (careless_step, RuntimeError, "reset_mask"),
    "no shared memory": (lambda: from_gymnasium_vec(apart()), ValueError, "shared memory"),
    "no mode": (undeclared_beside_ale, ValueError, "autoreset_mode"),
    "statistics": (
        lambda: from_gymnasium_vec(gym_vector.RecordEpisodeStatistics(sync())),
        ValueError,
        "RecordEpisodeStatistics",
    ),
    "running rewards": (
        lambda: from_gymnasium_vec(gym_vector.NormalizeReward(sync(AutoresetMode.DISABLED))),
        ValueError,
        "NormalizeReward",
    ),
    "running observations": (
        lambda: from_gymnasium_vec(gym_vector.NormalizeObservation(sync())),
        ValueError,
        "NormalizeObservation",
    ),
    "slots that differ": (lambda: from_gymnasium_vec(unlike()), ValueError, "observation_space"),
    "a part of ALE's slots": (
        lambda: from_gymnasium_vec(AtariVectorEnv("breakout", 3, batch_size=2)),
        ValueError,
        "batch_size",
    ),
    "one info": (lambda: from_gymnasium_vec(sync(), info_keys="prob"), TypeError, "info_keys"),
    "no pool": (lambda: from_envpool(sync()), TypeError, "pool"),
    "a pool for dm_env": (lambda: from_envpool(pool(env_type="dm")), TypeError, "Gymnasium"),
    "a part of the slots": (lambda: from_envpool(pool(batch_size=2)), ValueError, "batch_size"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_at_construction_and_step(name: str) -> None:
    call, error, noun = ERRORS[name]
    with pytest.raises(error, match=noun):
        call()


HOSTS: dict[str, Callable[..., Any]] = {
    "gymnasium": lambda **options: from_gymnasium_vec(sync(), **options),
    "envpool": lambda **options: from_envpool(pool(num_envs=2), **options),
}


@pytest.mark.parametrize("name", HOSTS)
def test_missing_infos_are_an_error(name: str) -> None:
    env = HOSTS[name](info_keys=("lives",))
    _, state = env.reset(KEY)
    with pytest.raises(ValueError, match="lives"):
        env.step(state, [0, 1])
    with pytest.raises(RuntimeError, match="reset"):
        env.step(state, [0, 1])  # after an error, no state is valid


@pytest.mark.parametrize("name", HOSTS)
def test_only_the_newest_state_can_be_stepped_and_drawn(name: str) -> None:
    env, other = HOSTS[name](), HOSTS[name]()
    _, first = env.reset(KEY)
    _, foreign = other.reset(KEY)
    _, state, *_ = env.step(first, [0, 1])
    for stale in (first, foreign):
        with pytest.raises(RuntimeError, match="state"):
            env.step(stale, [0, 1])
        with pytest.raises(RuntimeError, match="state"):
            env.render_slot(stale)
    env.step(state, [0, 1])  # the simulator was not stepped by these calls


@pytest.mark.parametrize("name", HOSTS)
def test_jax_transforms_are_an_error(name: str) -> None:
    env = HOSTS[name]()
    _, state = env.reset(KEY)
    rows = np.zeros((3, 2), np.int32)
    transformed: list[Callable[[], Any]] = [
        lambda: jax.jit(env.reset)(KEY),
        lambda: jax.jit(lambda: env.reset(KEY))(),
        lambda: jax.jit(env.step)(state, rows[0]),
        lambda: jax.jit(lambda: env.step(state, rows[0]))(),
        lambda: jax.vmap(lambda row: env.step(state, row))(rows),
        lambda: jax.lax.scan(lambda s, row: (env.step(s, row)[1], 0), state, rows),
    ]
    for call in transformed:
        with pytest.raises(RuntimeError, match="JAX transforms"):
            call()
    env.step(state, [0, 1])  # the simulator was not stepped by these calls


@pytest.mark.parametrize("name", HOSTS)
def test_wrong_actions_and_calls_after_close(name: str) -> None:
    with HOSTS[name]() as env:
        _, state = env.reset(KEY)
        with pytest.raises(ValueError, match="shape"):
            env.step(state, [0, 1, 0])
        with pytest.raises(TypeError, match="float"):
            env.step(state, [0.5, 1.0])
        with pytest.raises(ValueError, match="slot 0"):
            env.step(state, [-1, 1])
        with pytest.raises(NotImplementedError, match="state"):
            env.slot_state(state)
        with pytest.raises(NotImplementedError, match="slots"):
            env.render_slot(state)
    with pytest.raises(RuntimeError, match="simulator"):
        env.step(state, [0, 1])
    with pytest.raises(RuntimeError, match="simulator"):
        env.reset(KEY)
