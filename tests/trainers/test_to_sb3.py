# pyright: reportMissingImports=false
"""`to_sb3`: what a step tells, what Stable-Baselines3 asks of a `VecEnv`, and training."""

import copy
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import (
    VecCheckNan,
    VecExtractDictObs,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
    VecTransposeImage,
)
from trainers import outward
from trainers.outward import TOLD, EndsEnv, GoalEnv, actions_of, edit, played_batch, same, without

import envrax
from envrax import VecEnv
from envrax.interop import to_sb3
from envrax.testing import CountingEnv, ImageEnv, MaskedEnv
from envrax.wrappers import RecordEpisodeStatistics

pytestmark = pytest.mark.trainers
BOTH = ["image", "masked", "goal", "room", "random ends"]
STATISTICS = "terminated", "truncated", "final_obs", "TimeLimit.truncated", "terminal_observation"


@pytest.mark.parametrize("name", BOTH)
def test_1000_steps_are_those_of_the_vec_env(name: str) -> None:
    inner, n = TOLD[name], 8
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
            told = without(wanted.info, *STATISTICS)
            mine = jax.tree.map(np.asarray, without(info, *STATISTICS))
            same(mine, jax.tree.map(lambda x, i=i: x[i], told))
            assert info["TimeLimit.truncated"] is bool(wanted.truncated[i] & ~wanted.terminated[i])
            assert ("terminal_observation" in info) == dones[i]
            if dones[i]:
                ends += 1
                last = jax.tree.map(lambda x, i=i: x[i], wanted.info["final_obs"])
                same(info["terminal_observation"], last)
    assert ends > 50


def test_what_ends_an_episode() -> None:
    env = to_sb3(VecEnv(EndsEnv(), 4))
    env.reset()
    _, _, dones, infos = env.step(np.arange(4))
    assert dones.tolist() == [False, True, True, True]
    assert [info["TimeLimit.truncated"] for info in infos] == [False, False, True, False]


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


def test_what_is_handed_out_belongs_to_the_caller() -> None:
    inner = RecordEpisodeStatistics(GoalEnv())
    env, other = (to_sb3(VecEnv(inner, 3)) for _ in range(2))
    env.seed(1)
    other.seed(1)
    kept, copies = [env.reset()], [copy.deepcopy(other.reset())]
    for action in actions_of(env.batched_env.action_space, 12):
        mine = action.copy()
        told, wanted = env.step(mine), other.step(action)
        mine[...] = 5
        kept.append(told)
        copies.append(copy.deepcopy(wanted))
        edit(wanted)
        for info in wanted[3]:  # as VecMonitor and VecNormalize do
            info["mine"] = info.pop("terminal_observation", None)
    assert [str(x) for x in kept] == [str(x) for x in copies]
    masked = to_sb3(VecEnv(MaskedEnv(), 3))
    masked.reset()
    first = masked.action_masks().copy()
    edit(masked.action_masks())
    edit(masked.env_method("action_masks"))
    same(masked.action_masks(), first)


def test_seeds_begin_a_chain_and_none_goes_on_with_it() -> None:
    env, other = (to_sb3(VecEnv(CountingEnv(), 3)) for _ in range(2))

    def numbers(env: Any, seed: int | None) -> list[Any]:
        if seed is not None:
            env.seed(seed)
        return [env.reset()[:, 0].tolist() for _ in range(10)]

    first = numbers(env, 5)
    assert len({str(found) for found in first}) == 10
    assert numbers(other, 5) == first
    assert numbers(env, None) != first
    assert numbers(env, 5) == first != numbers(env, 6)
    env.seed()  # Stable-Baselines3 draws one
    assert env.reset().shape == (3, 2)


def test_compiles_reset_and_step_once_and_copies_from_the_device_once_a_call(
    compile_counter: Callable[..., Any], transfers: list[Any]
) -> None:
    to_sb3(VecEnv(EndsEnv(), 4)).reset()  # the programs of keys
    env = to_sb3(VecEnv(RecordEpisodeStatistics(MaskedEnv()), 4))
    transfers.clear()
    with compile_counter() as compiled:
        for _ in range(3):
            env.reset()
            for i in range(20):
                env.step(((np.arange(4) + i) % 3).astype([np.int64, np.int32][i % 2]))
                env.action_masks()
    assert (compiled.count, len(transfers)) == (2, 63)


def test_episode_statistics_are_those_of_vec_monitor() -> None:
    inner = TOLD["random ends"]
    env, peer = (
        to_sb3(VecEnv(RecordEpisodeStatistics(inner), 3)),
        VecMonitor(to_sb3(VecEnv(inner, 3))),
    )
    for which in (env, peer):
        which.seed(1)
        which.reset()
    ends = 0
    for action in actions_of(VecEnv(inner, 3).action_space, 60):
        told, wanted = env.step(action)[3], peer.step(action)[3]
        for mine, its in zip(told, wanted, strict=True):
            assert ("episode" in mine) == ("episode" in its)
            if "episode" in mine:
                ends += 1
                assert mine["episode"]["l"] == its["episode"]["l"]
                assert mine["episode"]["r"] == pytest.approx(its["episode"]["r"], abs=1e-5)
    assert ends > 10


def test_attributes_and_methods() -> None:
    env: Any = to_sb3(VecEnv(ImageEnv(), 3))
    assert env.get_attr("name") == ["ImageEnv"] * 3
    assert env.get_attr("config", indices=[0, 2])[1].max_steps == 5
    assert env.get_attr("render_mode") == ["rgb_array"] * 3
    assert env.has_attr("config") and not env.has_attr("no_such")
    assert not env.has_attr("action_masks")
    assert to_sb3(VecEnv(MaskedEnv(), 2)).has_attr("action_masks")
    with pytest.raises(NotImplementedError, match="compiled environment is fixed"):
        env.set_attr("config", 1)
    assert env.env_is_wrapped(VecMonitor) == [False] * 3
    assert len(env.env_method("__repr__", indices=1)) == 1
    obs = env.reset()
    np.testing.assert_array_equal(np.stack(env.get_images()), obs)
    np.testing.assert_array_equal(np.stack(env.env_method("render", indices=[2, 0])), obs[[2, 0]])
    assert env.render().shape[2] == 3
    assert env.unwrapped is env
    env.close()


@pytest.mark.filterwarnings("ignore:You are trying to render:UserWarning")
def test_render_without_a_picture() -> None:
    env = to_sb3(VecEnv(GoalEnv(), 2))
    assert env.get_attr("render_mode") == [None, None]


def test_wrappers_of_sb3_go_around_it() -> None:
    env: Any = VecFrameStack(VecTransposeImage(to_sb3(VecEnv(ImageEnv(), 2))), 3)
    assert env.reset().shape == (2, 9, 12, 10)
    for _ in range(6):
        _, _, dones, infos = env.step(np.array([0, 2]))
        for done, info in zip(dones, infos, strict=True):
            assert not done or info["terminal_observation"].shape == (9, 12, 10)
    env = VecNormalize(
        VecMonitor(VecCheckNan(to_sb3(VecEnv(TOLD["floats"], 2)), raise_exception=True))
    )
    env.reset()
    ends = 0
    for _ in range(40):
        obs, _, _, infos = env.step(np.array([0, 2]))
        assert np.abs(obs).max() <= 10
        ends += sum("episode" in info for info in infos)
    assert ends == 16
    assert VecExtractDictObs(to_sb3(VecEnv(GoalEnv(), 2)), "goal").reset().shape == (2, 64)


def made(name: str) -> Any:
    return envrax.make_vec(f"classic/{name}-v0", 4, pre_warm=False, max_steps=20)


QUICK: dict[str, Any] = dict(n_steps=32, batch_size=32, n_epochs=1, device="cpu", seed=0)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Torch and XLA would each take all cores, and wait for one another."""
    torch.set_num_threads(1)


POLICIES: dict[str, tuple[Callable[[], Any], str]] = {
    "CartPole": (lambda: made("CartPole"), "MlpPolicy"),
    "Pendulum": (lambda: made("Pendulum"), "MlpPolicy"),
    "dict": (lambda: VecEnv(GoalEnv(), 4), "MultiInputPolicy"),
    "number": (lambda: VecEnv(TOLD["room"], 4), "MlpPolicy"),
}


@pytest.mark.parametrize("name", POLICIES)
def test_ppo_learns_for_200_steps(name: str) -> None:
    make, policy = POLICIES[name]
    env = VecMonitor(to_sb3(make()))
    model = PPO(policy, env, **QUICK).learn(200)
    assert model.num_timesteps >= 200
    found: Any = evaluate_policy(model, env, 3, return_episode_rewards=True)
    returns, lengths = found
    assert len(returns) == 3 and np.isfinite(returns).all() and min(lengths) > 0


@pytest.mark.parametrize(
    "inner", [MaskedEnv(), outward.MaskedRow(), outward.MaskedBits()], ids=["n", "row", "bits"]
)
def test_maskable_ppo_never_takes_an_illegal_action(
    inner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = to_sb3(VecEnv(inner, 4))
    step_async, steps = env.step_async, [0]
    batch, space = VecEnv(inner, 4), env.action_space

    def checked(actions: Any) -> None:
        mask = np.asarray(batch.action_mask(env._driver.state))
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
    with pytest.raises(RuntimeError, match="expected `step_async` before it"):
        env.step_wait()
