"""Params of `to_gymnax`: those that are accepted are in force, the others are refused."""

import pickle
from typing import Any

import chex
import jax
import jax.numpy as jnp
import pytest

from envrax import (
    Box,
    Discrete,
    DomainRandomization,
    EnvConfig,
    EnvState,
    JaxEnv,
    RecordEpisodeStatistics,
    TimeLimit,
)
from envrax.classic import CartPole
from envrax.interop import to_gymnax
from envrax.testing import CountingEnv

KEY = jax.random.key(0)


@chex.dataclass
class RowConfig(EnvConfig):
    """A field in shapes, and one with the name that gymnax has for `max_steps`."""

    size: int = 3
    max_steps_in_episode: int = 4


class Row(JaxEnv[Box, Discrete, EnvState, RowConfig]):
    """`size` numbers and actions; rewards tell the field that ends no episode."""

    @property
    def observation_space(self) -> Box:
        return Box(0, 1, (self.config.size,))

    @property
    def action_space(self) -> Discrete:
        return Discrete(self.config.size)

    def reset(self, rng: Any) -> Any:
        return jnp.zeros(self.config.size), EnvState(
            rng=rng, step=jnp.int32(0), done=jnp.bool_(False)
        )

    def step(self, state: Any, action: Any) -> Any:
        step = state.step + 1
        done = step >= self.config.max_steps
        state = state.replace(step=step, done=done)
        reward = jnp.asarray(self.config.max_steps_in_episode, jnp.float32)
        return jnp.zeros(self.config.size), state, reward, done, {}


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_that_is_no_count_of_steps_is_refused(limit: int) -> None:
    params: Any = to_gymnax(CountingEnv()).default_params
    with pytest.raises(ValueError, match=f"expected max_steps_in_episode .*; got {limit}"):
        params.replace(max_steps_in_episode=limit)
    params = to_gymnax(Row()).default_params
    params.replace(max_steps_in_episode=0)
    with pytest.raises(ValueError, match=f"expected max_steps .*; got {limit}"):
        params.replace(max_steps=limit)
    assert params.replace(max_steps=2**40).max_steps == 2**31 - 1


def length(bridge: Any, params: Any) -> int:
    """The number of steps of the first episode."""
    _, state = bridge.reset(KEY, params)
    for i in range(20):
        _, state, _, done, _ = bridge.step(KEY, state, jnp.int32(0), params)
        if done:
            return i + 1
    return 0


def test_the_limit_that_is_read_is_in_force_or_is_refused() -> None:
    own = to_gymnax(TimeLimit(CountingEnv()))
    assert own.default_params.max_steps_in_episode == 5
    assert jax.tree.leaves(own.default_params) == []  # the wrapper reads a Python number
    assert length(own, own.default_params.replace(max_steps_in_episode=3)) == 3
    fixed = to_gymnax(TimeLimit(CountingEnv(), 4))
    assert fixed.default_params.max_steps_in_episode == 4 == length(fixed, fixed.default_params)
    assert fixed.default_params.replace(max_steps_in_episode=4).max_steps_in_episode == 4
    with pytest.raises(TypeError, match="TimeLimit"):
        fixed.default_params.replace(max_steps_in_episode=3)


def test_spaces_are_those_of_the_params() -> None:
    bridge = to_gymnax(Row())
    params = bridge.default_params.replace(size=5)
    obs, state = bridge.reset(KEY, params)
    assert bridge.observation_space(params).shape == obs.shape == (5,)
    assert bridge.action_space(params).n == 5
    assert bridge.observation_space().shape == (3,) and bridge.action_space(None).n == 3
    assert bridge.step(KEY, state, jnp.int32(4), params)[0].shape == (5,)
    traced = jax.jit(lambda p: bridge.observation_space(p).sample(KEY))(params.replace(max_steps=9))
    assert traced.shape == (5,)


def test_a_field_of_the_user_s_own_has_its_name() -> None:
    bridge = to_gymnax(Row())
    params = bridge.default_params
    assert (params.max_steps, params.max_steps_in_episode) == (1000, 4)
    changed = params.replace(max_steps=2, max_steps_in_episode=7)
    assert length(bridge, changed) == 2
    _, state = bridge.reset(KEY, changed)
    assert bridge.step(KEY, state, jnp.int32(0), changed)[2] == 7


def test_params_of_another_environment_are_refused() -> None:
    bridge = to_gymnax(CartPole())
    reset = jax.jit(bridge.reset)
    for env in (Row(), TimeLimit(CartPole()), DomainRandomization(CartPole(), drawn_mass)):
        with pytest.raises(TypeError, match="default_params"):
            reset(KEY, to_gymnax(env).default_params)
    with pytest.raises(TypeError, match="CountingEnv"):
        bridge.action_space(to_gymnax(CountingEnv()).default_params)
    statistics = to_gymnax(RecordEpisodeStatistics(CartPole())).default_params
    reset(KEY, statistics.replace(gravity=1.0))


def drawn_mass(rng: Any) -> Any:
    return {"pole_mass": jax.random.uniform(rng)}


def test_it_can_be_pickled() -> None:
    env = TimeLimit(CountingEnv())
    bridge = pickle.loads(pickle.dumps(to_gymnax(env, version=1)))
    params = pickle.loads(pickle.dumps(bridge.default_params.replace(max_steps_in_episode=3)))
    _, state = bridge.reset(KEY, params)
    ends: list[Any] = []
    for _ in range(3):
        _, state, _, *end, _ = bridge.step(KEY, state, jnp.int32(0), params)
        ends.append([bool(x) for x in end])
    assert ends == [[False, False], [False, False], [False, True]]
