"""
One step with what one extra installs, in an environment without the others: an import that the
extra lacks fails here.

    python .ci/extra_alone.py             the names of the extras
    python .ci/extra_alone.py factoriax   a step with this one
"""

import importlib
import os
import sys
import tempfile
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

import envrax
from envrax import interop
from envrax.libraries import library_ids
from envrax.testing import ChaseWorld, CountingEnv, ImageEnv


def of_library(id: str) -> Callable[[], Any]:
    """A step of an environment of another library."""

    def step() -> Any:
        env = envrax.make(id, pre_warm=False)
        _, state = env.reset(jax.random.key(0))
        return env.step(state, env.action_space.sample(jax.random.key(1)))

    return step


def of_batch(batched_env: Any) -> Any:
    _, state = batched_env.reset(jax.random.key(0))
    return batched_env.step(state, batched_env.action_space.sample(jax.random.key(1)))


def atari() -> Any:
    gymnasium = importlib.import_module("gymnasium")
    gymnasium.register_envs(importlib.import_module("ale_py"))
    return of_batch(interop.from_gymnasium_vec(gymnasium.make_vec("ALE/Pong-v5", 1)))


def envpool() -> Any:
    pool = importlib.import_module("envpool").make("CartPole-v1", env_type="gymnasium", num_envs=2)
    return of_batch(interop.from_envpool(pool))


def gymnasium() -> Any:
    env = interop.to_gymnasium(CountingEnv())
    env.reset(seed=0)
    return env.step(0)


def dm_env() -> Any:
    env = interop.to_dm_env(CountingEnv())
    env.reset()
    return env.step(0)


def minari() -> Any:
    env = CountingEnv()
    start = envrax.start(env, jax.random.key(0))
    os.environ["MINARI_DATASETS_PATH"] = tempfile.mkdtemp()
    return interop.to_minari("tests/data-v0", envrax.rollout(env, None, start, 9)[1], env)


def pettingzoo() -> Any:
    env = interop.to_pettingzoo(ChaseWorld())
    env.reset(seed=0)
    return env.step({agent: env.action_space(agent).sample() for agent in env.agents})


def play() -> Any:
    os.environ["SDL_VIDEODRIVER"] = "dummy"
    module = importlib.import_module("envrax.interop.out.play")
    return module.Screen(ImageEnv()).reset()


def pufferlib() -> Any:
    env = interop.to_pufferlib(envrax.VecEnv(CountingEnv(), 2))
    env.reset(0)
    return env.step(np.zeros(2, np.int32))


def rsl_rl() -> Any:
    torch = importlib.import_module("torch")
    env = interop.to_rsl_rl(envrax.make_vec("classic/Pendulum-v0", 2, pre_warm=False))
    env.reset()
    return env.step(torch.zeros(2, env.num_actions))


def sb3() -> Any:
    env = interop.to_sb3(envrax.VecEnv(CountingEnv(), 2))
    env.reset()
    return env.step(np.zeros(2, np.int32))


def torch() -> Any:
    tensors = importlib.import_module("envrax.interop.out.tensors")
    return tensors.to_torch(CountingEnv().reset(jax.random.key(0))[0])


def stoa() -> Any:
    env = interop.to_stoa(CountingEnv())
    state, _ = env.reset(jax.random.key(0))
    return env.step(state, jax.numpy.int32(0))


def video() -> Any:
    env = envrax.RecordVideo(ImageEnv(), tempfile.mkdtemp())
    with env:
        _, state = env.reset(jax.random.key(0))
        return env.step(state, 0)


# Of a library its first id.
FIRST = {id.partition("/")[0].replace("_", "-"): id for id in reversed(library_ids())}
STEPS: dict[str, Callable[[], Any]] = {
    **{extra: of_library(id) for extra, id in FIRST.items()},
    "atari": atari,
    "dm-env": dm_env,
    "envpool": envpool,
    "gymnasium": gymnasium,
    "gymnasium-jax": of_library("gymnasium/phys2d/CartPole-v1"),
    "jaxtari": lambda: envrax.load_suite("jaxtari"),  # a game needs its sprites
    "minari": minari,
    "pettingzoo": pettingzoo,
    "play": play,
    "pufferlib": pufferlib,
    "rsl-rl": rsl_rl,
    "sb3": sb3,
    "stoa": stoa,
    "torch": torch,
    "video": video,
}
# Extras that install several others, or what no user needs.
GROUPS = {"bench", "docs", "examples", "interop", "jax-trainers", "test", "trainers"}
_PROJECT = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text("utf-8"))
EXTRAS = sorted({*_PROJECT["project"]["optional-dependencies"]} - GROUPS)


def step_with(extra: str) -> None:
    """The step of an extra; of a bridge without one here, its import."""
    module = f"envrax.interop.out.{extra.replace('-', '_')}"
    STEPS.get(extra, partial(importlib.import_module, module))()


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(*EXTRAS, sep="\n")
    else:
        step_with(sys.argv[1])
        print(f"{sys.argv[1]}: a step")
