# pyright: reportMissingImports=false
"""`to_gymnasium`: what a step tells, keys, ownership, copies; Gymnasium's own checker."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_of_sb3
from trainers import outward
from trainers.outward import TOLD, EndsEnv, actions_of, edit, played, same, without

import envrax
from envrax.interop import to_gymnasium
from envrax.testing import CountingEnv, ImageEnv, MaskedEnv, NestedEnv
from envrax.wrappers import RecordEpisodeStatistics, RecordVideo

pytestmark = pytest.mark.trainers
CLASSIC = ["CartPole", "MountainCar", "Pendulum", "Acrobot", "Catch", "Ball", "Maze"]
# SB3 takes all that has three axes for an image.
BOARD = pytest.param("ConnectFour", marks=pytest.mark.filterwarnings("ignore:.* is an image"))


def classic(name: str) -> Any:
    return envrax.make(f"classic/{name}-v0", pre_warm=False)


@pytest.mark.parametrize("name", TOLD)
def test_1000_steps_are_those_by_hand(name: str) -> None:
    inner = TOLD[name]
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
        told = jax.tree.map(np.asarray, without(info, "action_mask"))
        same(told, without(wanted.info, "terminated", "truncated"))
        if terminated or truncated:
            ends += 1
            same(env.reset()[0], next(hand).obs)
    assert ends > 50


# What is said of the environments of the suite, and not of the bridge.
@pytest.mark.filterwarnings("ignore:.*(infinity|normalized|minimal resolution)")
@pytest.mark.parametrize("name", [*CLASSIC, BOARD])
def test_the_checkers_of_gymnasium_and_sb3_pass(name: str) -> None:
    check_env(to_gymnasium(classic(name), render_mode="rgb_array"))
    check_env(to_gymnasium(classic(name)))
    check_env_of_sb3(to_gymnasium(classic(name)))


@pytest.mark.parametrize("name", ["image", "nested", "masked", "goal", "room", "rooms"])
def test_the_checker_of_gymnasium_passes_on_all_kinds(name: str) -> None:
    check_env(to_gymnasium(TOLD[name]))


def test_what_ends_an_episode() -> None:
    env = to_gymnasium(EndsEnv())
    for action, ends in enumerate([(False, False), (True, False), (False, True), (True, True)]):
        env.reset(seed=0)
        assert env.step(action)[2:4] == ends


@pytest.mark.parametrize("name", ["goal", "image", "many dtypes"])
def test_what_is_handed_out_belongs_to_the_caller(name: str) -> None:
    inner = TOLD[name]
    env, other = to_gymnasium(inner), to_gymnasium(inner)
    actions = actions_of(inner.action_space, 30)
    kept: list[Any] = [env.reset(seed=0)]
    copies: list[Any] = [copy.deepcopy(other.reset(seed=0))]
    edit(kept[0])
    same_as_edited = copy.deepcopy(kept[0])
    for action in actions:
        mine = copy.deepcopy(action)
        told, wanted = env.step(mine), other.step(action)
        edit(mine)  # a trainer may write its next action into the same array
        same(told[0], wanted[0])
        same(jax.tree.map(np.asarray, told[4]), jax.tree.map(np.asarray, wanted[4]))
        kept.append(told)
        copies.append(copy.deepcopy(told))
        edit(wanted)
        if told[2] or told[3]:
            same(env.reset()[0], other.reset()[0])
    same(kept[0][0], same_as_edited[0])
    for told, copied in zip(kept[1:], copies[1:], strict=True):
        same(told[0], copied[0])
        same(jax.tree.map(np.asarray, told[4]), jax.tree.map(np.asarray, copied[4]))


def test_seeds_begin_a_chain_and_none_goes_on_with_it() -> None:
    env, other = to_gymnasium(NestedEnv()), to_gymnasium(NestedEnv())

    def numbers(env: Any, seed: int | None) -> list[int]:
        return [env.reset(seed=s)[0]["place"][0] for s in (seed, *[None] * 30)]

    first = numbers(env, 5)
    assert len(set(first)) > 10  # every reset draws anew
    assert numbers(other, 5) == first
    goes_on = [env.reset()[0]["place"][0] for _ in range(31)]
    assert goes_on != first
    assert numbers(env, 5) == first
    assert numbers(env, 6) != first
    assert numbers(to_gymnasium(NestedEnv()), None) != numbers(to_gymnasium(NestedEnv()), None)
    highest = [numbers(env, seed) for seed in (2**31 - 1, 2**31, 2**32 - 1, 0)]
    assert len({tuple(found) for found in highest}) == 4


@pytest.mark.parametrize(
    "env",
    [
        outward.MaskedRow(),
        outward.MaskedGrid(),
        outward.MaskedBits(),
        outward.MaskedTree(),
        MaskedEnv(),
    ],
    ids=str,
)
def test_sample_takes_the_mask_and_draws_what_is_legal(env: Any) -> None:
    out = to_gymnasium(env)
    hand = None
    out.action_space.seed(0)
    _, info = out.reset(seed=2)
    drawn: list[Any] = []
    for _ in range(60):
        action = out.action_space.sample(info["action_mask"])
        state = out._driver.state
        assert legal(env.action_space, action, env.action_mask(state)), hand
        drawn.append(action)
        _, _, terminated, truncated, info = out.step(action)
        if terminated or truncated:
            _, info = out.reset()
    assert len({str(action) for action in drawn}) > 2


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


def test_compiles_reset_and_step_once_and_copies_from_the_device_once_a_call(
    compile_counter: Callable[..., Any], transfers: list[Any]
) -> None:
    to_gymnasium(CountingEnv()).reset(seed=0)  # the programs of keys
    env = to_gymnasium(RecordEpisodeStatistics(ImageEnv()))
    transfers.clear()
    forms = [
        int,
        np.int64,
        np.int32,
        np.uint8,
        lambda a: np.asarray(a),
        lambda a: np.array(a, np.int64),
    ]
    calls = 0
    with compile_counter() as compiled, jax.transfer_guard_device_to_host("allow"):
        for seed in (0, None, 3, None):
            env.reset(seed=seed)
            calls += 1
            ended = False
            while not ended:
                action = forms[calls % len(forms)](calls % 3)
                _, _, terminated, ended, _ = env.step(action)
                calls += 1
    assert (compiled.count, len(transfers)) == (2, calls)


def test_lists_are_actions_too(compile_counter: Callable[..., Any]) -> None:
    inner = outward.MaskedRow()
    env = to_gymnasium(inner)
    env.reset(seed=0)
    env.step(np.array([0, 3, 2]))
    with compile_counter() as compiled:
        for action in ([1, 2, 0], (1, 2, 0), np.array([1, 2, 0], np.int32), [np.int64(1), 2, 0]):
            env.step(action)
    assert compiled.count == 0


def test_episode_statistics_are_there_on_the_last_step_alone() -> None:
    env = to_gymnasium(RecordEpisodeStatistics(CountingEnv()))
    _, info = env.reset(seed=0)
    for _ in range(5):
        assert "episode" not in info
        _, _, _, _, info = env.step(2)
    assert (info["episode"]["r"], info["episode"]["l"]) == (10.0, 5)


def test_episode_statistics_of_gymnasium_agree() -> None:
    peer = gymnasium.wrappers.RecordEpisodeStatistics(to_gymnasium(NestedEnv()))
    env = to_gymnasium(RecordEpisodeStatistics(NestedEnv()))
    peer.reset(seed=1)
    env.reset(seed=1)
    for action in actions_of(NestedEnv().action_space, 100):
        *_, terminated, truncated, info = env.step(action)
        *_, peer_info = peer.step(action)
        assert ("episode" in info) == ("episode" in peer_info) == (terminated or truncated)
        if terminated or truncated:
            for name in ("r", "l"):
                assert info["episode"][name] == pytest.approx(peer_info["episode"][name])
            env.reset()
            peer.reset()


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
    env = to_gymnasium(CountingEnv())
    again: Any = gymnasium.make(env.spec, render_mode="rgb_array")
    same(again.reset(seed=4)[0], env.reset(seed=4)[0])
    same(again.step(1)[0], env.step(1)[0])
    assert again.render().shape == (16, 16, 3)
    assert "envrax/CountingEnv" in str(env)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copy", "pickle"]
)
@pytest.mark.parametrize("name", ["nested", "goal", "many dtypes"])
def test_copies_go_on_alike_and_apart(copied: Callable[[Any], Any], name: str) -> None:
    inner = TOLD[name]
    env, actions = to_gymnasium(inner), actions_of(inner.action_space, 12)
    fresh = copied(env)
    env.reset(seed=0)
    env.step(actions[0])
    twin = copied(env)
    told = _play(env, actions)  # the first is not moved by the second
    wanted = _play(twin, actions)
    same(told, wanted)
    same(fresh.reset(seed=0)[0], env.reset(seed=0)[0])


def _play(env: Any, actions: list[Any]) -> tuple[Any, ...]:
    found: list[Any] = []
    for action in actions:
        obs, _, terminated, truncated, _ = env.step(action)
        found.append(obs)
        if terminated or truncated:
            found.append(env.reset()[0])
    return tuple(found)


def test_copies_of_a_made_environment() -> None:
    env = to_gymnasium(classic("CartPole"))
    env.reset(seed=0)
    twin = pickle.loads(pickle.dumps(env))
    same(twin.step(1)[0], env.step(1)[0])


def test_recorded_videos_of_a_stack_on_the_host(tmp_path: Path) -> None:
    inner = RecordVideo(ImageEnv(), output_dir=tmp_path)
    env, plain = to_gymnasium(inner), to_gymnasium(ImageEnv())
    for _ in range(2):
        same(env.reset(seed=1)[0], plain.reset(seed=1)[0])
        for action in (2, 0, 1, 2, 2):
            told, wanted = env.step(action), plain.step(action)
            same(told[0], wanted[0])
            assert told[1:4] == wanted[1:4]
    env.close()
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        "episode_0000.mp4",
        "episode_0001.mp4",
    ]


def test_wrappers_of_gymnasium_go_around_it() -> None:
    env = gymnasium.wrappers.TimeLimit(to_gymnasium(EndsEnv()), 3)
    env = gymnasium.wrappers.FrameStackObservation(env, 2)
    obs, _ = env.reset(seed=0)
    assert obs.shape == (2, 2)
    ends = [env.step(0)[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]
