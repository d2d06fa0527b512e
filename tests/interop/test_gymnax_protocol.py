# pyright: basic, reportMissingImports=false
"""`envrax.interop.gymnax.wrap` of objects that others wrote with gymnax's protocol."""

import importlib
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from interop.by_hand import follow, of_gymnax

import envrax
from envrax.testing import check_env


@pytest.fixture(scope="module")
def adapter() -> Any:
    return importlib.import_module("envrax.interop.gymnax")


class Params(NamedTuple):
    length: float = 3.0
    max_steps_in_episode: int = 7


class Place(NamedTuple):
    place: Any
    time: Any


class Walk:
    """A random walk to one of the ends of a line, in six values."""

    default_params = Params()

    def reset_env(self, key: Any, params: Any) -> Any:
        state = Place(jax.random.uniform(key, (), jnp.float32, -1, 1), 0)
        return self.observe(state), state

    def moved(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        noise = jax.random.uniform(key, (), jnp.float32, -0.5, 0.5)
        state = Place(state.place + 2 * action - 1 + noise, state.time + 1)
        return state, abs(state.place) >= params.length, state.time >= self.limit(params)

    def limit(self, params: Any) -> Any:
        return params.max_steps_in_episode

    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        state, terminated, truncated = self.moved(key, state, action, params)
        return self.observe(state), state, state.place, terminated, truncated, {"far": state.place}

    def observe(self, state: Any) -> Any:
        return state.place[None]

    def observation_space(self, params: Any) -> Any:
        return gymnasium.spaces.Box(-np.inf, np.inf, (1,))

    def action_space(self, params: Any) -> Any:
        return gymnasium.spaces.Discrete(2)


class Older(Walk):
    """In five values: `done` counts the time limit, which gymnax did before 1.0."""

    observation_space: Any = envrax.Box(-np.inf, np.inf, (1,))
    action_space: Any = envrax.Discrete(2)

    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        state, terminated, truncated = self.moved(key, state, action, params)
        return self.observe(state), state, state.place, terminated | truncated, {}


class CraftaxLike(Older):
    """The params are a dict, and the limit has the name that it has in Craftax."""

    default_params = {"length": 3.0, "max_timesteps": 7}  # noqa: RUF012

    def moved(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        return super().moved(key, state, action, Params(*params.values()))


class Newer(Older):
    """In five values and `is_truncated`, as in gymnax 1.0: it may report both reasons at once."""

    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        state, terminated, _ = self.moved(key, state, action, params)
        return self.observe(state), state, state.place, terminated, {}

    def is_truncated(self, state: Any, params: Any) -> Any:
        return state.time >= self.limit(params)


def inherits(base: Any) -> Any:
    """Code written before gymnax 1.0 whose base class has `is_truncated` since then."""

    class Inherits(Older, base):
        pass

    return Inherits


@pytest.mark.parametrize("kind", [Walk, Older, CraftaxLike, Newer, inherits])
def test_steps_are_those_of_the_object(adapter: Any, kind: Any) -> None:
    peer = kind(adapter.Environment)() if kind is inherits else kind()
    env = adapter.wrap(peer)
    params = env.unwrapped.params
    assert env.config.max_steps == 7 and env.name == type(peer).__name__

    def ends(inner: Any, _: Any) -> Any:
        terminated, at_limit = abs(inner.place) >= 3.0, inner.time >= 7
        truncated = at_limit if kind in (Walk, Newer) else at_limit & ~terminated
        return {"terminated": terminated, "truncated": truncated}

    assert follow(env, *of_gymnax(peer, params, ends)) == {"truncated", "terminated"}
    check_env(env, num_steps=20)


def test_both_reasons_at_once(adapter: Any) -> None:
    """An end that the limit did not make is a termination, also at the limit."""
    for kind in (Walk, Newer, Older):
        env = adapter.wrap(kind(), {"length": 0.0}, max_steps=1)
        assert env.unwrapped.params.max_steps_in_episode == 1
        info = env.step(env.reset(jax.random.key(0))[1], 0)[-1]
        assert (bool(info["terminated"]), bool(info["truncated"])) == (True, True)


def test_who_calls_it_has_said_the_order(adapter: Any) -> None:
    """Observation and state are arrays of one shape: by its functions either may be either."""

    class Flat(Walk):
        observation_space = property()  # type: ignore[assignment]

        def reset_env(self, key: Any, params: Any) -> Any:
            return jnp.zeros(2), jnp.ones(2)

        def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
            state = state + 1
            return -state, state, 1.0, state[0] > params.length, {}

        def is_truncated(self, state: Any, params: Any) -> Any:
            return state[1] >= 9

    with pytest.raises(TypeError, match="two candidates for the state"):
        envrax.wrap(Flat())
    env = adapter.wrap(Flat())
    obs, state = env.reset(jax.random.key(0))
    for n in (2, 3, 4):
        assert (np.asarray(obs) <= 0).all()
        obs, state, _, done, _ = env.step(state, 0)
        assert (np.asarray(state.inner) == n).all() and bool(done) == (n == 4)


def test_without_default_params(adapter: Any) -> None:
    class Bare(Walk):
        default_params = property()  # type: ignore[assignment]

        def limit(self, params: Any) -> Any:
            return 9 if params is None else params.max_steps_in_episode

    assert adapter.wrap(Bare(), Params(max_steps_in_episode=4)).config.max_steps == 4
    with pytest.raises(TypeError, match="the argument `params` of `reset_env` has no value"):
        adapter.wrap(Bare())


def test_what_may_reset_itself_is_refused(adapter: Any) -> None:
    class StepOnly(Walk):
        reset_env = step_env = None  # type: ignore[assignment]
        reset = Walk.reset_env
        step = Walk.step_env

    env: Any = envrax.wrap(StepOnly(), reset="reset", step="step")
    assert "step(key, state" in env.unwrapped.reading.facts["step"]

    class OverBase(adapter.Environment):
        """As alenax has it: an auto-resetting simulator under gymnax's base class."""

        default_params = Params()
        observation_space: Any = envrax.Box(-np.inf, np.inf, (1,))
        action_space: Any = envrax.Discrete(2)
        reset = Walk.reset_env
        observe = Walk.observe

        def step(self, key: Any, state: Any, action: Any, params: Any) -> Any:
            stepped = Walk.step_env(Walk(), key, state, action, params)
            obs, state = jax.lax.cond(
                stepped[3], lambda: self.reset(key, params), lambda: stepped[:2]
            )
            return obs, state, *stepped[2:]

    wrappers = importlib.import_module("gymnax.wrappers.purerl")
    with pytest.raises(TypeError, match="cannot be traced as understood: NotImplementedError"):
        adapter.wrap(OverBase())
    cart_pole = importlib.import_module("gymnax").make("CartPole-v1")[0]
    for peer in (OverBase(), wrappers.LogWrapper(cart_pole)):
        with pytest.raises(TypeError, match="`step` may reset itself"):
            envrax.wrap(peer, reset="reset", step="step")
    with pytest.raises(TypeError, match="expected an environment of gymnax"):
        adapter.wrap(object())
