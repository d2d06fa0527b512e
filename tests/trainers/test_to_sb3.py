# pyright: reportMissingImports=false
"""`to_sb3`: the results of a step, the methods of a `VecEnv`, and training."""

from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecMonitor
from trainers import bridge_envs
from trainers.bridge_envs import ENVS, EndsEnv, actions_of, played_batch, same, without

import envrax
from envrax import MultiBinary, VecEnv
from envrax.interop import to_gymnasium, to_gymnasium_vec, to_sb3
from envrax.testing import CountingEnv, ImageEnv, MaskedEnv
from envrax.wrappers.vector import NormalizeReward

BOTH = ["masked", "goal", "room", "ends"]
FINAL = "final_obs", "final_mask", "terminal_observation", "terminal_action_masks"
STATISTICS = "terminated", "truncated", "TimeLimit.truncated", *FINAL


@pytest.mark.parametrize("name", BOTH)
def test_1000_steps_are_those_of_the_vec_env(name: str) -> None:
    inner, n = ENVS[name], 8
    env = to_sb3(VecEnv(inner, n))
    actions = actions_of(env.batched_env.action_space, 125)
    hand = played_batch(inner, n, actions, seed=3)
    assert env.seed(3)[0] == 3
    same(env.reset(), next(hand).obs)
    assert env.reset_infos == [{}] * n
    ends = 0
    for action in actions:
        obs, rewards, dones, infos = env.step(action)
        wanted = next(hand)
        same((obs, rewards), (wanted.obs, wanted.reward))
        same(dones, wanted.terminated | wanted.truncated)
        for i, info in enumerate(infos):
            result = without(wanted.info, *STATISTICS)
            mine = jax.tree.map(np.asarray, without(info, *STATISTICS))
            same(mine, jax.tree.map(lambda x, i=i: x[i], result))
            assert info["TimeLimit.truncated"] is bool(wanted.truncated[i] & ~wanted.terminated[i])
            assert ("terminal_observation" in info) == dones[i]
            if dones[i]:
                ends += 1
                last = jax.tree.map(lambda x, i=i: x[i], wanted.info["final_obs"])
                same(info["terminal_observation"], last)
                if "final_mask" in wanted.info:
                    same(info["terminal_action_masks"], wanted.info["final_mask"][i])
    assert ends > 50


def test_a_list_of_seeds_begins_each_slot_as_one_environment() -> None:
    env = to_sb3(VecEnv(CountingEnv(), 3))
    single = to_gymnasium(CountingEnv())
    first = [single.reset(seed=seed)[0] for seed in (7, 3, 7)]
    for seeds in ([7, 3, 7], np.array([7, 3, 7])):
        assert [*env.seed(seeds)] == [7, 3, 7]
        np.testing.assert_array_equal(env.reset(), first)
        assert not np.array_equal(env.reset(), first)  # a seed is that of one reset


def test_infos_of_sb3_s_own_are_those_of_the_bridge() -> None:
    class Claiming(EndsEnv):
        def step(self, state: Any, action: Any) -> Any:
            *rest, info = super().step(state, action)
            own = {"terminal_observation": rest[2], "TimeLimit.truncated": rest[3]}
            return *rest, {**info, **own}

    env = to_sb3(VecEnv(Claiming(), 4))
    env.reset()
    _, _, _, infos = env.step(np.arange(4))
    assert [info["TimeLimit.truncated"] for info in infos] == [False, False, True, False]
    assert [info["terminal_observation"].shape for info in infos[1:]] == [(2,)] * 3


def test_attributes_and_methods() -> None:
    env: Any = to_sb3(VecEnv(ImageEnv(), 3))
    assert env.get_attr("render_mode") == ["rgb_array"] * 3
    assert not env.has_attr("action_masks")
    assert to_sb3(VecEnv(MaskedEnv(), 2)).has_attr("action_masks")
    assert env.env_is_wrapped(VecMonitor) == [False] * 3
    assert len(env.env_method("__repr__", indices=1)) == 1
    obs = env.reset()
    np.testing.assert_array_equal(np.stack(env.get_images()), obs)
    np.testing.assert_array_equal(np.stack(env.env_method("render", indices=[2, 0])), obs[[2, 0]])
    assert env.render().shape[2] == 3
    assert env.unwrapped is env
    env.close()


class Constant:
    """A policy as `evaluate_policy` takes it: the action 2 in every slot."""

    def predict(self, obs: Any, state: Any = None, **_: Any) -> Any:
        return np.full(len(obs), 2), state


@pytest.mark.parametrize("outer", [lambda batch: batch, NormalizeReward])
def test_evaluate_policy_reports_the_returns_of_the_statistics(outer: Any) -> None:
    """Not the clipped rewards, and without a warning about a missing `Monitor`."""
    inner = envrax.ClipReward(envrax.RecordEpisodeStatistics(CountingEnv()))
    env = to_sb3(outer(VecEnv(inner, 2)))
    found: Any = evaluate_policy(Constant(), env, 3, return_episode_rewards=True)  # type: ignore
    assert found == ([10, 10, 10], [5, 5, 5])
    assert env.env_is_wrapped(Monitor, indices=1) == [True]
    assert env.env_is_wrapped(envrax.ClipReward) == [True, True]
    assert env.env_is_wrapped(envrax.TimeLimit) == [False, False]
    for plain in (VecEnv(CountingEnv(), 2), VecEnv(TellsEpisode(), 2)):
        assert to_sb3(plain).env_is_wrapped(Monitor) == [False, False]


class Game(CountingEnv):
    """Five steps of the reward 2; a life is lost in the second and in the fourth."""

    def step(self, state: Any, action: Any) -> Any:
        *rest, info = super().step(state, action)
        return *rest, {**info, "lives": 3 - rest[1].step // 2}


def test_a_game_is_one_episode_to_evaluate_policy_though_each_life_ends_one() -> None:
    inner = envrax.EpisodicLife(envrax.RecordEpisodeStatistics(Game()))
    env = to_sb3(VecEnv(envrax.ClipReward(inner), 2))
    found: Any = evaluate_policy(Constant(), env, 3, return_episode_rewards=True)  # type: ignore
    assert found == ([10, 10, 10], [5, 5, 5])
    env.reset()
    ends = [env.step(np.full(2, 2)) for _ in range(5)]
    assert [dones[0] for _, _, dones, _ in ends] == [False, True, False, True, True]
    assert ["episode" in infos[0] for *_, infos in ends] == [False] * 4 + [True]


class TellsEpisode(CountingEnv):
    """An info of the user's own, under the name of the statistics."""

    def step(self, state: Any, action: Any) -> Any:
        *rest, info = super().step(state, action)
        return *rest, {**info, "episode": rest[1].step}


QUICK: dict[str, Any] = dict(n_steps=32, batch_size=32, n_epochs=1, device="cpu", seed=0)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Torch and XLA would each take all cores, and wait for one another."""
    torch.set_num_threads(1)


class Buttons(CountingEnv):
    """Policies of SB3 give its actions as float32."""

    action_space: Any = MultiBinary(3)

    def advance(self, state: Any, action: Any) -> Any:
        return super().advance(state, action.sum())


class Switches(Buttons):
    action_space: Any = MultiBinary(3, bool)


class Levers(Buttons):
    action_space: Any = MultiBinary((3, 1), np.int32)


@pytest.mark.parametrize("env_class", [Buttons, Switches, Levers])
def test_bits_of_each_dtype_are_actions_of_a_policy_and_samples(env_class: Any) -> None:
    env = to_sb3(VecEnv(env_class(), 2))
    assert isinstance(env.action_space, gymnasium.spaces.MultiBinary)
    env.reset()
    actions = np.stack([env.action_space.sample() for _ in range(2)])
    for given in (actions, actions.astype(np.float32), actions.astype(bool)):
        assert env.step(given)[1].tolist() == actions.reshape(2, -1).sum(1).tolist()
    with pytest.raises(TypeError, match=r"got .* float32"):
        env.step(actions * np.float32(0.5) + np.float32(0.1))


@pytest.mark.parametrize("env_class", [Buttons, Switches])
def test_ppo_learns_for_200_steps_with_binary_actions(env_class: Any) -> None:
    env = VecMonitor(to_sb3(VecEnv(env_class(), 4)))
    model = PPO("MlpPolicy", env, **QUICK).learn(200)
    assert model.num_timesteps >= 200
    found: Any = evaluate_policy(model, env, 3, return_episode_rewards=True)
    returns, lengths = found
    assert len(returns) == 3 and np.isfinite(returns).all() and lengths == [5] * 3


def test_models_with_binary_actions_play_in_gymnasium_too() -> None:
    """Gymnasium's `MultiBinary` contains the float32 of their policies."""
    env, batch = to_gymnasium(Buttons()), to_gymnasium_vec(VecEnv(Buttons(), 2))
    model = PPO("MlpPolicy", env, **QUICK).learn(100)
    action, _ = model.predict(env.reset(seed=0)[0])
    assert action.dtype == np.float32 and action in env.action_space
    assert env.step(action)[1] == action.sum()
    actions, _ = model.predict(batch.reset(seed=0)[0])
    assert batch.step(actions)[1].tolist() == actions.reshape(2, -1).sum(1).tolist()
    evaluate_policy(model, Monitor(env), 2)
    for wrong in (0.5, 2, np.nan, 1e30):
        with pytest.raises(TypeError, match=r"expected action of shape .*; got .* float"):
            env.step(np.full_like(action, wrong))
    with pytest.raises(ValueError, match="got an int that int8 cannot hold"):
        env.step([2**70, 0, 1])


def test_masks_of_last_states_are_those_of_action_masks() -> None:
    """Without auto-reset by the batch `action_masks` would give them."""
    inner = bridge_envs.MaskedRow()
    env, batch = to_sb3(VecEnv(inner, 2)), VecEnv(inner, 2, final_obs=True)
    env.seed(0)
    env.reset()
    _, state = batch.reset(jax.random.split(jax.random.key(0))[1])
    for action in actions_of(batch.action_space, 5):
        _, state, *_, wanted = batch.step(state, action)
        infos = env.step(action)[-1]
    env._mask = np.asarray(wanted["final_mask"])
    same(np.stack([info["terminal_action_masks"] for info in infos]), env.action_masks())
    tree = to_sb3(VecEnv(bridge_envs.MaskedTree(), 2))
    tree.reset()
    for action in actions_of(tree.batched_env.action_space, 5):
        infos = tree.step(action)[-1]
    assert {"terminal_observation"} <= set(infos[0]) and "terminal_action_masks" not in infos[0]


def test_maskable_ppo_never_takes_an_illegal_action(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = bridge_envs.MaskedRow()
    env = to_sb3(VecEnv(inner, 4))
    step_async, steps = env.step_async, [0]
    batch, space = VecEnv(inner, 4), env.action_space

    def checked(actions: Any) -> None:
        mask = np.asarray(batch.action_mask(env._loop.state))
        taken = np.take_along_axis(mask, np.asarray(actions)[..., None].astype(int), -1)
        assert taken.all(), (space, actions, mask)
        steps[0] += 1
        step_async(actions)

    monkeypatch.setattr(env, "step_async", checked)
    MaskablePPO("MlpPolicy", env, **QUICK).learn(200)
    assert steps[0] >= 50


def test_a_step_needs_actions() -> None:
    env = to_sb3(VecEnv(CountingEnv(), 2))
    env.reset()
    env.step(np.array([0, 1]))
    with pytest.raises(RuntimeError, match="step_async"):
        env.step_wait()


def test_actions_are_those_of_the_call_of_step_async() -> None:
    """They were those of `step_wait`, where the caller had written to the array in between."""
    by_hand, env = (to_sb3(envrax.make_vec("classic/CartPole-v0", 3)) for _ in range(2))
    for one in (by_hand, env):
        one.seed(0)
        one.reset()
    actions = np.ones(3, np.int64)
    expected = by_hand.step(actions.copy())[0]
    env.step_async(actions)
    actions[:] = 0
    np.testing.assert_array_equal(env.step_wait()[0], expected)
