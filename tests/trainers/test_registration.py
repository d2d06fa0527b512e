# pyright: reportMissingImports=false
"""Ids of envrax in Gymnasium's registry: `gymnasium.make`, `make_vec`, specs, collisions."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from trainers.bridge_envs import same

import envrax
from envrax import libraries
from envrax.interop import gymnasium_registration, to_gymnasium
from envrax.interop.gymnasium_registration import gymnasium_id, register
from envrax.interop.out.gymnasium import GymnasiumEnv
from envrax.interop.out.gymnasium_vec import GymnasiumVectorEnv
from envrax.testing import CountingEnv
from envrax.testing.fakes import FakeConfig


@pytest.fixture(autouse=True)
def clean_gymnasium() -> Iterator[None]:
    """Leave Gymnasium's registry as it was found."""
    before = dict(gymnasium.registry)
    yield
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


def test_make_by_an_id() -> None:
    assert "envrax/classic.CartPole-v0" in register("classic")
    env: Any = gymnasium.make("envrax/classic.CartPole-v0", max_steps=7, pre_warm=False)
    assert isinstance(env.unwrapped, GymnasiumEnv)
    assert env.unwrapped.jax_env.config.max_steps == 7
    by_hand = envrax.interop.to_gymnasium(envrax.make("classic/CartPole-v0", pre_warm=False))
    same(env.reset(seed=3)[0], by_hand.reset(seed=3)[0])
    ends = [env.step(i % 2)[2:4] for i in range(7)]
    assert ends[-1] == (False, True) and not any(map(any, ends[:-1]))
    assert env.spec.id == "envrax/classic.CartPole-v0"


def test_make_again_from_json() -> None:
    register("classic")
    env: Any = gymnasium.make("envrax/classic.Catch-v0", pre_warm=False, render_mode="rgb_array")
    spec = EnvSpec.from_json(env.spec.to_json())
    again = gymnasium.make(spec)
    same(again.reset(seed=1)[0], env.reset(seed=1)[0])
    np.testing.assert_array_equal(again.render(), env.render())
    assert again.unwrapped.render_mode == "rgb_array"


def test_json_of_keywords_that_it_does_not_know(tmp_path: Path) -> None:
    """Numbers of NumPy and JAX, a mode or a path were errors; a config was no config again."""
    register("classic")
    id, config = "envrax/classic.CartPole-v0", type(envrax.make("classic/CartPole-v0").config)
    fields = dict(gravity=np.float32(5), max_steps=jnp.int32(7), cache_dir=tmp_path)
    many = dict(num_envs=np.int64(2), max_episode_steps=np.int64(6))
    for mode in AutoresetMode:
        env: Any = gymnasium.make_vec(id, autoreset_mode=mode, **fields, **many)
        again: Any = gymnasium.make_vec(EnvSpec.from_json(env.spec.to_json()))
        assert again.autoreset_mode == mode and again.num_envs == 2
        assert again.spec.max_episode_steps == 6
        assert again.get_attr("config") == env.get_attr("config")
    one: Any = gymnasium.make(id, **fields)
    again = gymnasium.make(EnvSpec.from_json(one.spec.to_json()))
    assert again.unwrapped.jax_env.config == config(gravity=5.0, max_steps=7)
    cases: dict[str, Any] = {"config": config(), "wrappers": [envrax.ClipReward]}
    for name, value in cases.items():
        one = gymnasium.make("envrax/Make-v0", name="classic/CartPole-v0", **{name: value})
        with pytest.raises(TypeError, match=f"keywords of envrax/Make-v0 that .* got {name}=.*Pas"):
            one.spec.to_json()


def test_make_vec_with_and_without_a_mode() -> None:
    register("classic")
    id, fields = "envrax/classic.CartPole-v0", dict(max_steps=5, pre_warm=False)
    env: Any = gymnasium.make_vec(id, num_envs=3, **fields)
    assert isinstance(env, GymnasiumVectorEnv)
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    spec: Any = env.spec
    assert spec.id == id
    peer = gymnasium.make_vec(id, num_envs=3, vectorization_mode="sync", **fields)
    assert isinstance(peer, SyncVectorEnv)
    for which in (env, peer):
        obs, _ = which.reset(seed=0)
        assert obs.shape == (3, 4)
        ends = [which.step(np.array([0, 1, 0]))[3].tolist() for _ in range(5)]
        assert ends == [[False] * 3] * 4 + [[True] * 3]
    other: Any = gymnasium.make_vec(id, num_envs=3, autoreset_mode="NextStep", **fields)
    assert other.autoreset_mode == other.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP


@pytest.mark.usefixtures("clean_registry")
def test_a_longer_limit_of_gymnasium_is_that_of_the_config() -> None:
    """`max_episode_steps` above the environment's limit is played, and the spec states it."""
    envrax.register("Five-v0", CountingEnv, FakeConfig(max_steps=5))
    register()
    id = "envrax/Five-v0"
    cases: list[tuple[dict[str, Any], int]] = [
        ({"max_episode_steps": 9}, 9),
        ({"max_episode_steps": 3}, 3),
        ({"max_episode_steps": 5}, 5),
        ({"max_episode_steps": -1}, 5),
        ({"max_episode_steps": 9, "max_steps": 7}, 7),
        ({"max_episode_steps": 9, "config": FakeConfig(max_steps=4)}, 9),
    ]
    for fields, played in cases:
        one: Any = gymnasium.make(id, **fields)
        one.reset(seed=0)
        ends = [one.step(0)[3] for _ in range(played)]
        assert ends == [False] * (played - 1) + [True], fields
        assert one.spec.max_episode_steps == played, fields
        batch: Any = gymnasium.make_vec(id, num_envs=2, **fields)
        batch.reset(seed=0)
        ends = [batch.step(np.array([0, 0]))[3].tolist() for _ in range(played)]
        assert ends == [[False] * 2] * (played - 1) + [[True] * 2], fields
        assert batch.spec.max_episode_steps == played, fields
    again: Any = gymnasium.make(gymnasium.make(id, max_episode_steps=9).spec)
    again.reset(seed=0)
    assert [again.step(0)[3] for _ in range(9)] == [False] * 8 + [True]


@pytest.mark.usefixtures("clean_registry")
def test_a_limit_that_a_wrapper_fixes_is_what_the_spec_states() -> None:
    envrax.register(
        "Fixed-v0", CountingEnv, FakeConfig(), wrappers=(envrax.TimeLimit(max_steps=2),)
    )
    register()
    for env in (
        gymnasium.make("envrax/Fixed-v0", max_episode_steps=9),
        gymnasium.make_vec("envrax/Fixed-v0", 2, max_episode_steps=9),
    ):
        spec: Any = env.spec
        assert spec.max_episode_steps == 2
    longer: Any = gymnasium.wrappers.TimeLimit(to_gymnasium(CountingEnv()), 9)
    assert longer.spec.max_episode_steps == 5


class EndsOnceEnv(CountingEnv):
    """Terminates in its last step, and gives the reason itself: that is no truncation."""

    def step(self, state: Any, action: Any) -> tuple[Any, ...]:
        obs, state, reward, done, _ = super().step(state, action)
        return obs, state, reward, done, {"terminated": done, "truncated": done & False}


@pytest.mark.usefixtures("clean_registry")
def test_the_limit_in_specs() -> None:
    """It is that of the environment as it was made, and Gymnasium adds no `TimeLimit`."""
    envrax.register("Once-v0", EndsOnceEnv, FakeConfig(max_steps=3))
    register()

    def limit_of(env: Any) -> int | None:
        return env.spec.max_episode_steps

    id = "envrax/Once-v0"
    for fields, limit in ({}, 3), ({"max_steps": 5}, 5):
        env: Any = gymnasium.make(id, **fields)
        assert limit_of(env) == limit
        assert limit_of(gymnasium.make_vec(id, 2, **fields)) == limit
        assert limit_of(to_gymnasium(envrax.make("Once-v0", **fields))) == limit
        env.reset(seed=0)
        ends = [env.step(0)[2:4] for _ in range(limit)]
        assert ends == [(False, False)] * (limit - 1) + [(True, False)]
        assert gymnasium.make(env.spec).spec == env.spec
    assert limit_of(gymnasium.make(id, max_steps=2**31)) is None
    repeats = envrax.RepeatAction(envrax.make("Once-v0"), 2)  # steps of its own, of which 2 are one
    assert limit_of(to_gymnasium(repeats)) is None
    assert limit_of(gymnasium.make(id, max_episode_steps=2)) == 2


def test_an_unknown_keyword_gets_the_words_of_python() -> None:
    """TorchRL's `GymEnv` passes `frameskip`, and leaves it out when it reads them."""
    register("classic")
    words = "got an unexpected keyword argument 'frameskip'"
    with pytest.raises(TypeError, match=words):
        gymnasium.make("envrax/classic.CartPole-v0", frameskip=2)
    with pytest.raises(TypeError, match=words):
        gymnasium.make_vec("envrax/classic.CartPole-v0", 2, frameskip=2)


def test_ids_of_installed_libraries_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are registered without an import; those of other libraries are not."""
    gymnasium.registry.clear()
    monkeypatch.setattr(libraries, "is_installed", lambda package: package == "mujoco_playground")
    importlib.reload(gymnasium_registration)
    known = [id for id in gymnasium.registry if id != "envrax/Make-v0"]
    assert known[0].startswith("envrax/classic.") and "envrax/playground.CartpoleBalance" in known
    assert {id.partition(".")[0] for id in known} == {"envrax/classic", "envrax/playground"}
    assert "mujoco_playground" not in sys.modules


@pytest.mark.usefixtures("clean_registry")
def test_register_again_and_all() -> None:
    first = register("classic")
    assert register("classic") == first and len(first) == 8
    envrax.register("Own-v3", CountingEnv, FakeConfig())
    assert "envrax/Own-v3" in register()
    assert gymnasium.make("envrax/Own-v3", pre_warm=False).reset(seed=0)[0].shape == (2,)
    with pytest.raises(ValueError, match="no_such"):
        register("no_such")


@pytest.mark.usefixtures("clean_registry")
def test_ids_that_are_taken_are_refused() -> None:
    assert gymnasium_id("a/b c-v0") == gymnasium_id("a/b.c-v0") == "envrax/a.b.c-v0"
    envrax.register("a/b.c-v0", CountingEnv, FakeConfig())
    register()
    envrax.register("a.b/c-v0", CountingEnv, FakeConfig())
    with pytest.raises(ValueError, match="id"):
        register()
    gymnasium.register("envrax/Mine-v0", lambda: None)
    envrax.register("Mine-v0", CountingEnv, FakeConfig())
    envrax.unregister("a.b/c-v0")
    with pytest.raises(ValueError, match="id"):
        register()


@pytest.mark.usefixtures("clean_registry")
def test_an_id_that_gymnasium_refuses() -> None:
    envrax.register("x/Foo", CountingEnv, FakeConfig())
    register()
    envrax.register("x/Foo-v0", CountingEnv, FakeConfig())
    with pytest.raises(ValueError, match="id"):
        register()
    importlib.reload(gymnasium_registration)  # as an import in a program that has such ids
    env = gymnasium.make("envrax/Make-v0", name="x/Foo-v0", pre_warm=False)
    assert env.reset(seed=0)[0].shape == (2,)


def test_a_new_process(run_python: Callable[..., str]) -> None:
    """Gymnasium imports the module of an id that is written `module:id`."""
    out = run_python(
        """
        import gymnasium
        module = "envrax.interop.gymnasium_registration"
        env = gymnasium.make_vec(f"{module}:envrax/Make-v0", 2, name="classic/Catch-v0")
        print(env.reset(seed=0)[0].dtype)
        print(gymnasium.make(f"{module}:envrax/classic.CartPole-v0").spec.max_episode_steps)
        """
    )
    assert out.split() == ["uint8", "500"]
