# pyright: basic, reportMissingImports=false, reportPossiblyUnboundVariable=false
"""Objects of Stoa: equal to Stoa stepped by hand; masks, parameters, drawing, errors."""

import importlib
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from interop.by_hand import follow

import envrax
from envrax.interop import as_dicts
from envrax.testing import report_env
from envrax.wrappers import RecordVideo

PLACES = 6


@chex.dataclass
class Place:
    place: Any
    rng_key: Any


@pytest.fixture(scope="module")
def walk(adapter: Any) -> Any:
    """A class of Stoa: a walk that a wind disturbs; the goal ends it."""
    stoa = adapter.stoa

    class Walk(stoa.Environment):
        def _seen(self, kind: Any, state: Any, env_params: Any, reward: Any) -> Any:
            legal = jnp.array([True, True, False]).at[2].set(state.place > 0)
            observation = {"place": state.place, "wind": self._wind(env_params)}
            return state, stoa.TimeStep(
                step_type=kind,
                reward=reward,
                discount=1.0 * (kind != stoa.StepType.TERMINATED),
                observation=observation,
                extras={"action_mask": legal},
            )

        def _wind(self, env_params: Any) -> Any:
            return jnp.float32(0.05) if env_params is None else env_params["wind"]

        def reset(self, rng_key: Any, env_params: Any = None) -> Any:
            rng_key, key = jax.random.split(rng_key)
            state = Place(place=jax.random.randint(key, (), 0, 3), rng_key=rng_key)
            return self._seen(stoa.StepType.FIRST, state, env_params, 0)

        def step(self, state: Any, action: Any, env_params: Any = None) -> Any:
            rng_key, key = jax.random.split(state.rng_key)
            blown = jax.random.uniform(key) < self._wind(env_params)
            place = state.place + jnp.array([0, 1, -1])[action] - blown
            place = jnp.clip(place, 0, PLACES - 1).astype(jnp.int32)
            arrived = place == PLACES - 1
            kind = jax.lax.select(arrived, stoa.StepType.TERMINATED, stoa.StepType.MID)
            return self._seen(kind, Place(place=place, rng_key=rng_key), env_params, arrived)

        def observation_space(self, env_params: Any = None) -> Any:
            wind = stoa.BoundedArraySpace((), jnp.float32, 0.0, 1.0)
            return stoa.DictSpace({"place": stoa.DiscreteSpace(PLACES), "wind": wind})

        def action_space(self, env_params: Any = None) -> Any:
            return stoa.DiscreteSpace(3)

        def state_space(self, env_params: Any = None) -> Any:
            return self.observation_space(env_params)

        def render(self, state: Any, env_params: Any = None) -> Any:
            image = np.zeros((2, PLACES, 3), np.uint8)
            image[:, int(state.place)] = 255
            return image

    return Walk


def _objects(adapter: Any, walk: Any, name: str) -> Any:
    stoa = adapter.stoa
    if name == "Walk":
        return stoa.EpisodeStepLimitWrapper(walk(), 15)
    snake = importlib.import_module("jumanji").make("Snake-v1")
    adapted = importlib.import_module("stoa.env_adapters.jumanji").JumanjiToStoa(snake)
    return stoa.EpisodeStepLimitWrapper(adapted, 12)


@pytest.mark.parametrize("name", ["Walk", "Snake"])
def test_200_steps_are_those_of_stoa(adapter: Any, walk: Any, name: str) -> None:
    peer = _objects(adapter, walk, name)
    env: Any = adapter.wrap(peer)

    def begin(key: Any) -> Any:
        inner, seen = peer.reset(key)
        return as_dicts(seen.observation), inner

    def advance(key: Any, inner: Any, action: Any) -> Any:
        inner, seen = peer.step(inner, action)
        info = {"terminated": seen.terminated(), "truncated": seen.truncated()}
        info |= {"discount": seen.discount, "done": seen.last()}
        return as_dicts(seen.observation), inner, seen.reward, info

    assert follow(env, begin, advance) == {"terminated", "truncated"}


def test_it_keeps_the_contract(adapter: Any, walk: Any) -> None:
    report = report_env(adapter.wrap(_objects(adapter, walk, "Walk")), num_steps=60)
    assert not report.findings, report


def test_names_spaces_and_limits(adapter: Any, walk: Any) -> None:
    env = adapter.wrap(walk())
    assert (env.name, env.class_name, env.config.max_steps) == ("Walk", "Walk", 2**31 - 1)
    assert env.observation_space["place"] == envrax.Discrete(PLACES)
    assert adapter.wrap(walk(), max_steps=4).config.max_steps == 4


def test_params_may_be_traced(adapter: Any, walk: Any) -> None:
    def observed(wind: Any) -> Any:
        env = adapter.wrap(walk(), {"wind": wind})
        _, state = env.reset(jax.random.key(0))
        return env.step(state, 1)[0]["place"], env.reset(jax.random.key(0))[0]["wind"]

    places, winds = jax.jit(jax.vmap(observed))(jnp.array([0.0, 1.0], jnp.float32))
    assert places[0] == places[1] + 1 and winds.tolist() == [0.0, 1.0]


def test_it_draws_if_its_class_does(adapter: Any, walk: Any, tmp_path: Any) -> None:
    env = adapter.wrap(_objects(adapter, walk, "Walk"))
    _, state = env.reset(jax.random.key(0))
    frame = env.render(state)
    assert frame.shape == (2, PLACES, 3) and frame.dtype == np.uint8 and frame.max() == 255
    with pytest.raises(TypeError, match="render"):  # Stoa's adapters draw otherwise
        RecordVideo(adapter.wrap(_objects(adapter, walk, "Snake")), output_dir=tmp_path)


def test_bad_input(adapter: Any, walk: Any) -> None:
    stoa = adapter.stoa
    with pytest.raises(TypeError, match="stoa"):
        adapter.wrap(object())
    with pytest.raises(TypeError, match="AutoResetWrap"):
        adapter.wrap(stoa.EpisodeStepLimitWrapper(stoa.AutoResetWrapper(walk()), 3))
