# pyright: reportMissingImports=false
"""`to_gymnasium`: the results of a step, spaces, masks, rendering; Gymnasium's own checker."""

from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_of_sb3
from trainers import bridge_envs
from trainers.bridge_envs import ENVS, actions_of, played, same, without

import envrax
from envrax.interop import to_gymnasium, to_gymnasium_vec, to_pufferlib, to_sb3
from envrax.testing import CountingEnv, ImageEnv, NestedEnv
from envrax.wrappers import RecordVideo


@pytest.mark.parametrize("name", ["image", "masked", "ends", "rooms", "many dtypes"])
def test_1000_steps_are_those_by_hand(name: str) -> None:
    inner = ENVS[name]
    env, actions = to_gymnasium(inner), actions_of(inner.action_space, 1000)
    hand = played(inner, actions, seed=3)
    obs, info = env.reset(seed=3)
    same(obs, next(hand).obs)
    ends = 0
    for action in actions:
        obs, reward, terminated, truncated, info = env.step(action)
        wanted = next(hand)
        same(obs, wanted.obs)
        assert env.observation_space.contains(obs)
        assert type(reward) is float and reward == wanted.reward
        assert (terminated, truncated) == (wanted.terminated, wanted.truncated)
        assert type(terminated) is type(truncated) is bool
        result = jax.tree.map(np.asarray, without(info, "action_mask"))
        same(result, without(wanted.info, "terminated", "truncated"))
        if terminated or truncated:
            ends += 1
            same(env.reset()[0], next(hand).obs)
    assert ends > 50


# Warnings about the environments, and not about the bridge.
@pytest.mark.filterwarnings("ignore:.*(infinity|normalized|minimal resolution)")
@pytest.mark.parametrize("name", ["CartPole", "Pendulum", "image", "nested", "masked", "rooms"])
def test_the_checkers_of_gymnasium_and_sb3_pass(name: str) -> None:
    if name in ENVS:
        check_env(to_gymnasium(ENVS[name]))
    else:
        inner = envrax.make(f"classic/{name}-v0", pre_warm=False)
        check_env(to_gymnasium(inner, render_mode="rgb_array"))
        check_env_of_sb3(to_gymnasium(inner))


@pytest.mark.parametrize(
    "env", [bridge_envs.MaskedGrid(), bridge_envs.MaskedBits(), bridge_envs.MaskedTree()], ids=str
)
def test_sample_takes_the_mask_and_draws_legal_actions(env: Any) -> None:
    out = to_gymnasium(env)
    out.action_space.seed(0)
    _, info = out.reset(seed=2)
    drawn: list[Any] = []
    for _ in range(60):
        action = out.action_space.sample(info["action_mask"])
        state = out._loop.state
        assert legal(env.action_space, action, env.action_mask(state))
        drawn.append(action)
        _, _, terminated, truncated, info = out.step(action)
        if terminated or truncated:
            _, info = out.reset()
    assert len({str(action) for action in drawn}) > 2


def test_where_gymnasium_has_a_box_the_mask_is_that_of_the_environment() -> None:
    """Gymnasium's `sample` takes none there."""
    env = bridge_envs.MaskedIntegers()
    out = to_gymnasium(env)
    _, info = out.reset(seed=2)
    wanted = env.action_mask(out.state)
    same(info["action_mask"], jax.tree.map(lambda x: np.asarray(x, np.int8), wanted))
    with pytest.raises(gymnasium.error.Error, match="cannot be provided a mask"):
        out.action_space.sample(info["action_mask"])


def legal(space: Any, action: Any, mask: Any) -> bool:
    if isinstance(space, envrax.Dict):
        children = space.spaces.items()
        return all(legal(child, action[k], mask[k]) for k, child in children)
    if isinstance(space, envrax.Tuple):
        return all(legal(*parts) for parts in zip(space.spaces, action, mask, strict=True))
    if mask is None:
        return bool(space.contains(action))
    index = np.asarray(action)[..., None].astype(int)
    return bool(np.take_along_axis(np.asarray(mask), index, -1).all())


def test_pictures_of_an_environment_that_draws_on_one_array() -> None:
    canvas = np.zeros((8, 8, 3), np.uint8)

    class Canvas(CountingEnv):
        def render(self, state: Any) -> np.ndarray:
            canvas[:] = state.step
            return canvas

    def greys(env: Any, draw: Any, action: Any) -> list[int]:
        pictures = []
        env.reset()
        for _ in range(3):
            pictures.append(draw())
            env.step(action)
        return [int(picture[0, 0, 0]) for picture in pictures]

    single = to_gymnasium(Canvas(), render_mode="rgb_array")
    assert greys(single, single.render, 0) == [0, 1, 2]
    batch: Any = to_gymnasium_vec(envrax.VecEnv(Canvas(), 2), render_mode="rgb_array")
    assert greys(batch, lambda: batch.render()[1], np.zeros(2, np.int32)) == [0, 1, 2]
    ours = to_sb3(envrax.VecEnv(Canvas(), 2))
    assert greys(ours, lambda: ours.get_images()[1], np.zeros(2, np.int32)) == [0, 1, 2]
    puffer = to_pufferlib(envrax.VecEnv(Canvas(), 2))
    assert greys(puffer, puffer.render, np.zeros(2, np.int32)) == [0, 1, 2]


def test_render_draws_the_state_and_without_a_mode_warns() -> None:
    env = to_gymnasium(ImageEnv(), render_mode="rgb_array")
    assert env.metadata["render_modes"] == ["rgb_array"]
    obs, _ = env.reset(seed=0)
    for action in (2, 2, 0):
        np.testing.assert_array_equal(env.render(), obs)
        obs, *_ = env.step(action)
    silent = to_gymnasium(ImageEnv())
    silent.reset(seed=0)
    with pytest.warns(UserWarning, match="draws nothing"):
        assert silent.render() is None
    assert to_gymnasium(NestedEnv()).metadata["render_modes"] == []


def test_gymnasium_makes_another_one_from_its_spec() -> None:
    env: Any = to_gymnasium(CountingEnv())
    again: Any = gymnasium.make(env.spec, render_mode="rgb_array")
    same(again.reset(seed=4)[0], env.reset(seed=4)[0])
    same(again.step(1)[0], env.step(1)[0])
    assert again.render().shape == (16, 16, 3)
    assert "envrax/CountingEnv" in str(env)
    result = EnvSpec.from_json(env.spec.to_json())  # without the parts that JSON cannot hold
    assert (result.id, result.entry_point) == (env.spec.id, None)


def test_recorded_videos_of_a_stack_on_the_host(tmp_path: Path) -> None:
    inner = RecordVideo(ImageEnv(), output_dir=tmp_path)
    env, plain = to_gymnasium(inner), to_gymnasium(ImageEnv())
    for _ in range(2):
        same(env.reset(seed=1)[0], plain.reset(seed=1)[0])
        for action in (2, 0, 1, 2, 2):
            result, wanted = env.step(action), plain.step(action)
            same(result[0], wanted[0])
            assert result[1:4] == wanted[1:4]
    env.close()
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        "episode_0000.mp4",
        "episode_0001.mp4",
    ]
