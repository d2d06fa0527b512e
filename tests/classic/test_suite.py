"""The suite `classic`: the contract of envrax for all eight, and what the suite itself promises."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from classic_envs import Env, compiled, rollout
from helpers import assert_trees_close, slow_but

import envrax
from envrax import EnvState, classic

ENVS: list[type[Env]] = [
    classic.CartPole,
    classic.MountainCar,
    classic.Pendulum,
    classic.Acrobot,
    classic.Catch,
    classic.BallEnv,
    classic.Maze,
    classic.ConnectFour,
]
every_env = pytest.mark.parametrize("cls", ENVS, ids=lambda cls: cls.__name__)
# The others pass `check_env` in `testing/test_check.py`.
two_envs = pytest.mark.parametrize("cls", [classic.CartPole, classic.Pendulum])
two_by_default = pytest.mark.parametrize(
    "cls", slow_but(classic.CartPole, classic.Pendulum, values=ENVS), ids=lambda cls: cls.__name__
)


@contextmanager
def strictest(x64: bool) -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(jax.enable_x64(x64))
        stack.enter_context(jax.numpy_dtype_promotion("strict"))
        stack.enter_context(jax.numpy_rank_promotion("raise"))
        yield


@two_envs
def test_a_random_episode_keeps_the_contract(cls: type[Env]) -> None:
    env, reset, step = compiled(cls)
    rng = np.random.default_rng(0)
    actions = env.action_space.batch(env.config.max_steps).sample(jax.random.key(1))
    obs, state = reset(jax.random.key(0))
    assert env.observation_space.contains(obs)
    assert (int(state.step), bool(state.done)) == (0, False)
    key = jax.random.key_data(state.rng)
    done = False
    for count, action in enumerate(np.asarray(actions), start=1):
        obs, state, reward, done, info = step(state, action)
        assert env.observation_space.contains(obs)
        assert (reward.shape, reward.dtype) == ((), jnp.float32)
        assert set(info) == {"terminated", "truncated"}
        assert all(flag.shape == () and flag.dtype == jnp.bool_ for flag in info.values())
        assert bool(done) == bool(state.done) == bool(info["terminated"] | info["truncated"])
        assert bool(info["truncated"]) == (count >= env.config.max_steps)
        assert (int(state.step), state.step.dtype) == (count, jnp.int32)
        # Deterministic dynamics: no key is split, which is most of the cost of a cheap step.
        np.testing.assert_array_equal(jax.random.key_data(state.rng), key)
        if done:
            break
    assert done
    for action in rng.integers(-9, 9, 6) if hasattr(env.action_space, "n") else ():
        obs, state, *_ = step(state, jnp.int32(action))
        assert np.all(np.isfinite(obs))


@two_by_default
@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("new_key", [jax.random.key, jax.random.PRNGKey])
def test_reset_and_step_agree_in_type(cls: type[Env], x64: bool, new_key: Any) -> None:
    def types(tree: Any) -> Any:
        return jax.tree.map(lambda x: (x.shape, x.dtype, x.weak_type), tree)

    env = cls()
    with strictest(x64):
        obs, state = jax.eval_shape(env.reset, new_key(0))
        action = jax.eval_shape(env.action_space.sample, new_key(0))
        later, new_state, reward, done, _ = jax.eval_shape(env.step, state, action)
    assert types(later) == types(obs)
    assert types(new_state) == types(state)
    assert isinstance(state, EnvState)
    assert types((state.step, state.done)) == (((), jnp.int32, False), ((), jnp.bool_, False))
    assert types((reward, done)) == (((), jnp.float32, False), ((), jnp.bool_, False))
    assert (obs.shape, obs.dtype) == (env.observation_space.shape, env.observation_space.dtype)
    inexact = [x.dtype for x in jax.tree.leaves((obs, state)) if jnp.issubdtype(x.dtype, float)]
    assert set(inexact) <= {np.dtype(np.float32)}


@pytest.mark.slow
@pytest.mark.parametrize("cls", [classic.Acrobot, classic.Maze, classic.ConnectFour])
def test_runs_in_64_bit_mode_are_equal(cls: type[Env]) -> None:
    env = cls()
    actions = env.action_space.batch(4).sample(jax.random.key(2))
    run = jax.jit(lambda key: rollout(env, key, actions))
    with strictest(x64=False):
        expected = run(jax.random.key(3))
    with strictest(x64=True):
        assert_trees_close(run(jax.random.key(3)), expected, rtol=1e-5, atol=1e-6)


@two_envs
def test_resets_differ_and_keep_a_fresh_key(cls: type[Env]) -> None:
    _, reset, _ = compiled(cls)
    rng = jax.random.key(5)
    starts, keys = set(), {jax.random.key_data(rng).tobytes()}
    for _ in range(8):
        obs, state = reset(rng)
        starts.add(np.asarray(obs).tobytes())
        rng = state.rng
        keys.add(jax.random.key_data(rng).tobytes())
    assert len(keys) == 9
    assert len(starts) == 8


def test_an_episode_can_be_terminated_and_truncated_at_once() -> None:
    env = classic.Catch(classic.CatchConfig(rows=4, max_steps=3))
    actions = jnp.ones((3,), jnp.int32)
    _, (_, (_, _, _, _, info)) = rollout(env, jax.random.key(0), actions)
    assert info["terminated"].tolist() == info["truncated"].tolist() == [False, False, True]


@two_by_default
def test_render_draws_the_state(cls: type[Env]) -> None:
    env, reset, step = compiled(cls)
    _, state = reset(jax.random.key(0))
    frame = env.render(state)
    height, width, channels = frame.shape
    assert (frame.dtype, channels, height % 2, width % 2) == (np.uint8, 3, 0, 0)
    assert 200 <= width <= 420 and 200 <= height <= 420
    assert len(np.unique(frame.reshape(-1, 3), axis=0)) >= 4
    np.testing.assert_array_equal(env.render(jax.device_get(state)), frame)
    frames = {frame.tobytes()}
    for action in env.action_space.batch(8).sample(jax.random.key(3)):
        state = step(state, action)[1]
        frames.add(env.render(state).tobytes())
    assert len(frames) > 1


def test_importing_the_suite_registers_it_and_starts_no_backend(run_python: Any) -> None:
    script = (
        "import envrax; assert envrax.registered_names() == []; import envrax.classic as c; "
        "assert envrax.registered_names() == sorted(c.ClassicSuite()); "
        "assert envrax.get_spec('classic/Ball-v0').suite == 'classic'; "
        "print(*c.ClassicSuite())"
    )
    # There is no such platform: the first array would raise.
    printed = run_python(script, JAX_PLATFORMS="no_such_platform", PYTHONWARNINGS="error")
    names = [
        "CartPole",
        "MountainCar",
        "Pendulum",
        "Acrobot",
        "Catch",
        "Ball",
        "Maze",
        "ConnectFour",
    ]
    assert printed.split() == [f"classic/{name}-v0" for name in names]


def test_the_suite_is_imported_when_its_ids_are_asked_for(run_python: Any) -> None:
    script = """
        import sys
        import envrax
        from envrax.testing import CountingEnv

        assert "classic" in envrax.available_suites()
        envrax.register("other/Counting-v0", CountingEnv, CountingEnv().config)
        envrax.make("other/Counting-v0", jit_compile=False)
        before = "envrax.classic" in sys.modules
        envrax.make("classic/Ball-v0", jit_compile=False)
        print(before, "envrax.classic" in sys.modules)
    """
    assert run_python(script) == "False True\n"


@every_env
def test_every_registered_name_makes_its_class(cls: type[Env]) -> None:
    name = f"classic/{cls.__name__.removesuffix('Env')}-v0"
    env = envrax.make(name, jit_compile=False)
    assert type(env.unwrapped) is cls
    assert type(env.config) is envrax.get_spec(name).default_config.__class__
    assert env.config.max_steps == cls().config.max_steps
