# pyright: reportMissingImports=false
"""Attributes and methods by name, through all layers of a batch, for SB3 and Gymnasium."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from stable_baselines3 import DQN, HerReplayBuffer

from envrax import Box, ClipReward, Dict, JitWrapper, VecEnv
from envrax.interop import to_gymnasium_vec, to_sb3
from envrax.testing import CountingEnv, ImageEnv
from envrax.wrappers import Wrapper
from envrax.wrappers.vector import BatchedWrapper, NormalizeReward


class Reach(CountingEnv):
    """Walk from 0; the goal is drawn."""

    space = Box(0, 99, (1,))

    @property
    def observation_space(self) -> Any:
        return Dict(observation=self.space, achieved_goal=self.space, desired_goal=self.space)

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, _: Any) -> Any:
        return -(np.abs(achieved_goal - desired_goal) > 0.5).astype(np.float32)[..., 0]

    def observe(self, state: Any) -> Any:
        place, goal = (x.astype(jnp.float32)[None] for x in (state.step, state.number % 5))
        return {"observation": place, "achieved_goal": place, "desired_goal": goal}

    def step(self, state: Any, action: Any) -> tuple[Any, ...]:
        obs, state, _, done, info = super().step(state, action)
        reached = jnp.abs(obs["achieved_goal"] - obs["desired_goal"])[0] <= 0.5
        return obs, state, reached.astype(jnp.float32) - 1, done, info


class Level(Wrapper[Any, Any, Any, Any]):
    level = "single"
    only_here = 3

    def levels_up(self, by: int) -> int:
        return self.only_here + by


class BatchLevel(BatchedWrapper[Any, Any]):
    level = "batch"


def stack() -> Any:
    return BatchLevel(NormalizeReward(VecEnv(ClipReward(Level(ImageEnv())), 3)))


@pytest.mark.parametrize("mode", ["SameStep", "NextStep", "Disabled"])
def test_gymnasium_takes_the_first_layer_that_has_the_name(mode: str) -> None:
    env: Any = to_gymnasium_vec(stack(), autoreset_mode=mode, render_mode="rgb_array")
    assert env.get_attr("level") == ("batch",) * 3
    assert env.get_attr("gamma") == (0.99,) * 3
    assert env.get_attr("only_here") == (3,) * 3
    assert env.call("levels_up", by=2) == (5,) * 3
    assert env.get_attr("action_space") == (env.single_action_space,) * 3
    obs, _ = env.reset(seed=0)
    np.testing.assert_array_equal(np.stack(env.call("render")), obs)
    with pytest.raises(AttributeError, match=r"'no_such', which none of .*ImageEnv has"):
        env.call("no_such")
    with pytest.raises(NotImplementedError, match="set_attr"):
        env.set_attr("only_here", 4)


def test_render_of_a_batch_that_draws_nothing_is_none_as_with_gymnasium() -> None:
    env = to_gymnasium_vec(VecEnv(CountingEnv(), 2))
    with pytest.warns(UserWarning, match="draws nothing"):
        assert env.call("render") == (None, None)


def test_sb3_takes_the_first_layer_that_has_the_name() -> None:
    env: Any = to_sb3(stack())
    assert env.get_attr("level", indices=[0, 2]) == ["batch"] * 2
    assert env.get_attr("gamma") == [0.99] * 3
    assert env.env_method("levels_up", 2, indices=1) == [5]
    assert env.get_attr("observation_space") == [env.observation_space] * 3
    assert env.has_attr("only_here") and not env.has_attr("no_such")
    with pytest.raises(AttributeError, match="no_such"):
        env.env_method("no_such")
    with pytest.raises(NotImplementedError, match="set_attr"):
        env.set_attr("only_here", 4)


def test_hindsight_replay_asks_the_environment_for_rewards() -> None:
    """As `make_vec` builds it: the environment is inside a `JitWrapper`."""
    env = to_sb3(VecEnv(ClipReward(JitWrapper(Reach(), pre_warm=False)), 2))
    model = DQN(
        "MultiInputPolicy",
        env,
        replay_buffer_class=HerReplayBuffer,
        learning_starts=30,
        batch_size=16,
        device="cpu",
        seed=0,
    )
    model.learn(80)
    buffer: Any = model.replay_buffer
    sample = buffer.sample(64)
    goal, reached = (
        sample.next_observations[name].numpy() for name in ("desired_goal", "achieved_goal")
    )
    rewards = -(np.abs(goal - reached) > 0.5).astype(np.float32)
    np.testing.assert_array_equal(sample.rewards.numpy(), rewards)
    assert (rewards == 0).any() and (rewards == -1).any()
