# pyright: reportMissingImports=false
"""`to_stoa`: under the wrappers of Stoa, bitwise the trajectories of `VecEnv`."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CoinEnv, NestedEnv
from helpers import assert_trees_equal
from stoa.core_wrappers.auto_reset import AutoResetWrapper
from stoa.core_wrappers.episode_metrics import RecordEpisodeMetrics
from stoa.core_wrappers.vmap import VmapWrapper
from stoa.core_wrappers.wrapper import AddRNGKey
from stoa.utility_wrappers.frame_stacking import FrameStackingWrapper
from stoa.utility_wrappers.step_limit import EpisodeStepLimitWrapper

import envrax
from envrax import Box, Discrete, EnvConfig, EnvState, EpisodicEnv, ExpandDims, TimeLimit, VecEnv
from envrax.classic import CartPole
from envrax.interop import to_stoa
from envrax.interop.stoa import wrap
from envrax.testing import CountingEnv, MaskedEnv

N = 4


@pytest.mark.parametrize(
    ("env_class", "key"),
    [(CoinEnv, jax.random.key), (CartPole, jax.random.PRNGKey), (NestedEnv, jax.random.key)],
)
def test_it_is_a_vec_env(env_class: Any, key: Any) -> None:
    env = TimeLimit(env_class(), 9)
    bridge, batch = to_stoa(env), VecEnv(env, N, final_obs=True)
    state, first = jax.jit(jax.vmap(bridge.reset))(jax.random.split(key(3), N))
    obs, there = batch.reset(key(3))
    assert_trees_equal((first.observation, state), (obs, there))
    assert first.first().all() and not first.last().any()
    step = jax.jit(jax.vmap(bridge.step))
    for i in range(30):
        actions = batch.action_space.sample(jax.random.key(i))
        state, result = step(state, actions)
        obs, there, reward, done, info = batch.step(there, actions)
        assert_trees_equal((result.observation, state, result.reward), (obs, there, reward))
        assert_trees_equal(result.extras["next_obs"], info["final_obs"])
        assert_trees_equal(result.last(), done)
        assert_trees_equal(result.terminated(), info["terminated"])
        assert_trees_equal(result.discount, 1 - info["terminated"].astype(jnp.float32))
        assert jax.tree.structure(result.extras) == jax.tree.structure(first.extras)


def test_a_limit_of_time_is_not_a_termination() -> None:
    """Reward 1, a limit of 8, gamma 0.9: worth 10."""
    bridge = to_stoa(TimeLimit(CountingEnv(envrax.EnvConfig(max_steps=10**6)), 8))
    state, _ = bridge.reset(jax.random.key(0))

    def one(state: Any, _: Any) -> Any:
        state, result = bridge.step(state, jnp.int32(1))
        return state, (result.discount, result.truncated())

    discount, truncated = jax.lax.scan(one, state, length=80)[1]
    assert truncated.sum() == 10
    value = np.float32(0)
    for _ in range(100):
        value = np.mean(1 + np.float32(0.9) * value * np.asarray(discount))
    np.testing.assert_allclose(value, 10, rtol=1e-3)


def test_under_the_wrappers_of_stoa() -> None:
    env = VmapWrapper(RecordEpisodeMetrics(to_stoa(CountingEnv())), num_envs=3)
    state, result = env.reset(jax.random.key(0))
    for _ in range(7):
        state, result = env.step(state, jnp.ones(3, jnp.int32))
    metrics = result.extras["episode_metrics"]
    assert metrics["episode_return"].tolist() == [5, 5, 5]
    assert metrics["episode_length"].tolist() == [5, 5, 5]


class Numbered(EpisodicEnv[Box, Discrete, Any, EnvConfig]):
    """It shows 100 times a drawn number, plus the count of steps."""

    @property
    def observation_space(self) -> Box:
        return Box(0, 10_000, (1,), jnp.int32)

    @property
    def action_space(self) -> Discrete:
        return Discrete(2)

    def begin(self, key: Any, **episode: Any) -> Any:
        return NumberedState(number=jax.random.randint(key, (1,), 1, 90), **episode)

    def advance(self, state: Any, action: Any) -> Any:
        return state, 1.0, False

    def observe(self, state: Any) -> Any:
        return 100 * state.number + state.step


@chex.dataclass
class NumberedState(EnvState):
    number: Any


def test_without_auto_reset_all_wrappers_of_stoa_see_each_episode() -> None:
    """The frames of one episode, and its limit, were those of the next, around auto-reset."""
    alone = to_stoa(Numbered(EnvConfig(max_steps=4)), autoreset=False)
    inside = EpisodeStepLimitWrapper(FrameStackingWrapper(alone, 3), 3)
    env = AutoResetWrapper(AddRNGKey(inside), next_obs_in_extras=True)
    state, result = env.reset(jax.random.key(0))
    step = jax.jit(env.step)
    for t in range(1, 12):
        state, result = step(state, jnp.int32(1))
        assert bool(result.truncated()) == (t % 3 == 0) and not result.terminated()
        frames = result.observation
        numbers = frames[frames > 0] // 100
        assert (frames > 0).sum() == min(t % 3 + 1, 3) and len(set(numbers.tolist())) == 1
        assert result.extras["next_obs"][-1] % 100 == (t - 1) % 3 + 1


def test_masks_need_auto_reset() -> None:
    with pytest.raises(TypeError, match=r"to_stoa: expected `autoreset=True` .* with masks"):
        to_stoa(MaskedEnv(), autoreset=False).reset(jax.random.key(0))


def test_params_masks_and_spaces() -> None:
    bridge = to_stoa(CartPole())
    state, _ = bridge.reset(jax.random.key(0))
    heavy, light = (
        bridge.step(state, jnp.int32(1), {"gravity": jnp.float32(g)})[1].observation
        for g in (50, 1)
    )
    assert not np.array_equal(heavy, light)
    masked = to_stoa(MaskedEnv())
    state, first = masked.reset(jax.random.key(0))
    np.testing.assert_array_equal(first.extras["action_mask"], MaskedEnv().action_mask(state))
    assert_trees_equal(first.extras["final_mask"], first.extras["action_mask"])
    for action in (1, 0, 1, 2, 1):  # an episode ends
        state, result = masked.step(state, jnp.int32(action))
        assert result.extras["final_mask"].tolist() == [i != action for i in range(3)]
    spaces = bridge.environment_space()
    assert spaces.actions.num_values == 2 and spaces.observations.shape == (4,)
    assert set(to_stoa(NestedEnv()).action_space().sample(jax.random.key(0))) == {"move", "turn"}


def test_spaces_are_those_of_the_params() -> None:
    class Wide(CountingEnv):
        @property
        def observation_space(self) -> Box:
            return Box(0, 1000, (2 * self.config.max_steps,), jnp.int32)

        @property
        def action_space(self) -> Discrete:
            return Discrete(self.config.max_steps)

        def observe(self, state: Any) -> Any:
            return jnp.tile(super().observe(state), self.config.max_steps)

        def render(self, state: Any) -> Any:
            return np.zeros((self.config.max_steps, 2, 3), np.uint8)

    bridge, params = to_stoa(TimeLimit(Wide())), {"max_steps": 3}
    state, first = bridge.reset(jax.random.key(0), params)
    assert bridge.observation_space(params).shape == first.observation.shape == (6,)
    assert bridge.action_space(params).num_values == 3 and bridge.action_space().num_values == 5
    assert "elapsed" in str(bridge.state_space(params))
    assert bridge.render(state, params).shape == (3, 2, 3)


def test_a_reward_is_one_number_float32_as_in_a_reset() -> None:
    class Ints(CountingEnv):
        def advance(self, state: Any, action: Any) -> Any:
            return state, jnp.asarray(action), False

    bridge = to_stoa(Ints())
    state, first = bridge.reset(jax.random.key(0))
    _, result = bridge.step(state, jnp.int32(2))
    assert (result.reward, result.reward.dtype) == (2, first.reward.dtype)
    column = to_stoa(ExpandDims(CountingEnv()))
    with pytest.raises(ValueError, match="ExpandDims"):
        column.step(column.reset(jax.random.key(0))[0], jnp.int32(0))
    with pytest.raises(TypeError, match="JaxEnv"):
        to_stoa(VecEnv(CartPole(), 2))  # type: ignore[arg-type]


def test_the_way_back() -> None:
    env = CartPole()
    assert wrap(to_stoa(env)) is env
    changed = wrap(to_stoa(env), {"gravity": 3.0}, max_steps=7)
    assert (changed.config.gravity, changed.config.max_steps) == (3.0, 7)
