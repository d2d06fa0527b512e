# pyright: reportMissingImports=false
"""`to_gymnasium_vec`: same-step auto-reset as Gymnasium has it, infos, masks, its wrappers."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as gym_vector
from trainers import outward
from trainers.outward import TOLD, EndsEnv, actions_of, edit, played_batch, same, without

import envrax
from envrax import Box, VecEnv
from envrax.interop import from_gymnasium_vec, to_gymnasium, to_gymnasium_vec
from envrax.testing import CountingEnv, ImageEnv, MaskedEnv, NestedEnv
from envrax.wrappers import RecordEpisodeStatistics

pytestmark = pytest.mark.trainers


def slot(tree: Any, i: int) -> Any:
    return jax.tree.map(lambda x: x[i], tree)


def counted(infos: dict[str, Any], i: int) -> dict[str, Any]:
    """The infos that count for a slot, of their `name`s alone."""
    found: dict[str, Any] = {}
    for name, value in infos.items():
        if not name.startswith("_") and infos[f"_{name}"][i]:
            nested = isinstance(value, dict)
            found[name] = counted(value, i) if nested else slot(value, i)
    return found


@pytest.mark.parametrize(
    "name", ["image", "nested", "masked", "ends", "goal", "rooms", "random ends"]
)
def test_1000_steps_are_those_of_the_vec_env(name: str) -> None:
    inner, n = TOLD[name], 8
    env = to_gymnasium_vec(VecEnv(inner, n))
    actions = actions_of(env.batched_env.action_space, 125)
    hand = played_batch(inner, n, actions, seed=3)
    obs, _ = env.reset(seed=3)
    same(obs, next(hand).obs)
    ends = 0
    for action in actions:
        obs, rewards, terminated, truncated, infos = env.step(action)
        wanted = next(hand)
        same(obs, wanted.obs)
        assert env.observation_space.contains(obs)
        same(rewards, wanted.reward.astype(np.float64))
        same((terminated, truncated), (wanted.terminated, wanted.truncated))
        told = without(wanted.info, "terminated", "truncated", "final_obs")
        ended = terminated | truncated
        assert ("final_obs" in infos) == ended.any() == ("final_info" in infos)
        for i in range(n):
            mine = without(counted(infos, i), "action_mask")
            if ended[i]:
                ends += 1
                same(mine.pop("final_obs"), slot(wanted.info["final_obs"], i))
                assert infos["_final_obs"][i]
                same(mine.pop("final_info"), slot(told, i))
                assert mine == {}
            else:
                same(mine, slot(told, i))
                assert not ended.any() or infos["final_obs"][i] is None
    assert ends > 50


def test_what_ends_an_episode() -> None:
    env = to_gymnasium_vec(VecEnv(EndsEnv(), 4))
    first, _ = env.reset(seed=0)
    obs, _, terminated, truncated, infos = env.step(np.arange(4))
    assert terminated.tolist() == [False, True, False, True]
    assert truncated.tolist() == [False, False, True, True]
    assert infos["_final_obs"].tolist() == [False, True, True, True]
    assert obs[:, 1].tolist() == [1, 0, 0, 0]
    assert [x[1] for x in infos["final_obs"][1:]] == [1, 1, 1]
    assert [x[0] for x in infos["final_obs"][1:]] == first[1:, 0].tolist()


@pytest.mark.parametrize("name", ["nested", "ends"])
def test_infos_are_those_of_environments_side_by_side(name: str) -> None:
    """`SyncVectorEnv` resets with other keys, so this compares the form, and first episodes."""
    inner = RecordEpisodeStatistics(TOLD[name])
    env = to_gymnasium_vec(VecEnv(inner, 3))
    make = [lambda: to_gymnasium(inner)] * 3
    peer = SyncVectorEnv(make, autoreset_mode=AutoresetMode.SAME_STEP)
    assert env.single_observation_space == peer.single_observation_space
    assert env.observation_space == peer.observation_space
    assert env.action_space == peer.action_space
    assert env.metadata["autoreset_mode"] == peer.metadata["autoreset_mode"]
    kinds: dict[bool, list[Any]] = {True: [], False: []}
    each: list[Any] = [(env, True), (peer, False)]
    for which, ours in each:
        which.reset(seed=0)
        which.action_space.seed(0)
        for _ in range(60):
            obs, rewards, terminated, truncated, infos = which.step(which.action_space.sample())
            assert isinstance(rewards, np.ndarray) and rewards.dtype == np.float64
            assert terminated.dtype == truncated.dtype == np.bool_
            for i in range(3):
                ended = bool(terminated[i] or truncated[i])
                told = without(counted(infos, i), "final_obs", "episode")
                kinds[ours].append((ended, str(jax.tree.map(_kind, told))))
    assert set(kinds[True]) == set(kinds[False])
    assert {ended for ended, _ in kinds[True]} == {True, False}


def _kind(x: Any) -> Any:
    return np.asarray(x).dtype, np.shape(x)


def test_what_is_handed_out_belongs_to_the_caller() -> None:
    inner = RecordEpisodeStatistics(outward.GoalEnv())
    env, other = (to_gymnasium_vec(VecEnv(inner, 4)) for _ in range(2))
    kept: list[Any] = [env.reset(seed=0)]
    copies: list[Any] = [copy.deepcopy(other.reset(seed=0))]
    actions = actions_of(env.batched_env.action_space, 20)
    for action in actions:
        mine = action.copy()
        told, wanted = env.step(mine), other.step(action)
        mine[...] = 5
        kept.append(told)
        copies.append(copy.deepcopy(wanted))
        edit(wanted)
        edit([x for x in wanted[4].get("final_obs", ()) if x is not None])
    for told, copied in zip(kept, copies, strict=True):
        assert str(told) == str(copied)


def test_seeds_begin_a_chain_and_none_goes_on_with_it() -> None:
    env, other = (to_gymnasium_vec(VecEnv(CountingEnv(), 3)) for _ in range(2))

    def numbers(env: Any, seed: Any) -> list[Any]:
        return [env.reset(seed=s)[0][:, 0].tolist() for s in (seed, *[None] * 9)]

    first = numbers(env, 5)
    assert len({str(found) for found in first}) == 10
    assert numbers(other, np.int64(5)) == first
    assert [env.reset()[0][:, 0].tolist() for _ in range(10)] != first
    assert numbers(env, 5) == first != numbers(env, 6)


@pytest.mark.parametrize("env", [outward.MaskedRow(), MaskedEnv()], ids=["row", "number"])
def test_masks_are_those_of_the_next_action(env: Any) -> None:
    out, batch = to_gymnasium_vec(VecEnv(env, 4)), VecEnv(env, 4)
    _, infos = out.reset(seed=2)
    for _ in range(30):
        mask = infos["action_mask"]
        assert mask.dtype == np.int8 and infos["_action_mask"].all()
        wanted = batch.action_mask(out._driver.state)
        np.testing.assert_array_equal(mask, wanted)
        actions = np.stack([_draw(out.single_action_space, row) for row in mask])
        taken = np.take_along_axis(mask, actions[..., None], -1)
        assert taken.all()
        *_, infos = out.step(actions)


def _draw(space: Any, mask: Any) -> Any:
    if mask.ndim == 1:
        return space.sample(mask)
    return space.sample(tuple(row[:n] for row, n in zip(mask, space.nvec, strict=True)))


def test_compiles_reset_and_step_once_and_copies_from_the_device_once_a_call(
    compile_counter: Callable[..., Any], transfers: list[Any]
) -> None:
    to_gymnasium(CountingEnv()).reset(seed=0)  # the programs of keys
    env = to_gymnasium_vec(VecEnv(RecordEpisodeStatistics(MaskedEnv()), 4))
    transfers.clear()
    forms: list[Any] = [np.int64, np.int32, np.uint8, lambda x: x.tolist()]
    with compile_counter() as compiled:
        for seed in (0, None, 3):
            env.reset(seed=seed)
            for i in range(20):
                actions = (np.arange(4) + i) % 3
                form = forms[i % 4]
                env.step(actions.astype(form) if isinstance(form, type) else form(actions))
    assert (compiled.count, len(transfers)) == (2, 63)


def test_episode_statistics_of_gymnasium_agree() -> None:
    inner = NestedEnv()
    peer = gym_vector.RecordEpisodeStatistics(to_gymnasium_vec(VecEnv(inner, 4)))
    env = to_gymnasium_vec(VecEnv(RecordEpisodeStatistics(inner), 4))
    peer.reset(seed=1)
    env.reset(seed=1)
    ends = 0
    for action in actions_of(env.batched_env.action_space, 60):
        infos, peer_infos = env.step(action)[4], peer.step(action)[4]
        assert ("episode" in infos) == ("episode" in peer_infos)
        if "episode" in infos:
            who = infos["_episode"]
            ends += who.sum()
            np.testing.assert_array_equal(who, peer_infos["_episode"])
            for name in ("r", "l"):
                for told in (infos["episode"], infos["final_info"]["episode"]):
                    wanted = peer_infos["episode"][name][who]
                    np.testing.assert_allclose(told[name][who], wanted)
    assert ends > 20


def test_wrappers_of_gymnasium_go_around_it() -> None:
    env = gym_vector.DictInfoToList(to_gymnasium_vec(VecEnv(TOLD["nested"], 3)))
    env.reset(seed=0)
    seen = set()
    for action in actions_of(VecEnv(TOLD["nested"], 3).action_space, 40):
        _, _, terminated, truncated, infos = env.step(action)
        for info, ended in zip(infos, terminated | truncated, strict=True):
            seen.add((bool(ended), *sorted(info)))
    assert seen == {(False, "moved"), (True, "final_info", "final_obs")}
    scaled = gym_vector.NormalizeReward(to_gymnasium_vec(VecEnv(CountingEnv(), 3)))
    clipped = gym_vector.ClipReward(scaled, -1.0, 1.0)
    clipped.reset(seed=0)
    assert (clipped.step(np.array([0, 1, 2]))[1] <= 1).all()
    with pytest.raises(ValueError, match="NEXT_STEP"):  # as Gymnasium says of all same-step ones
        gym_vector.FlattenObservation(to_gymnasium_vec(VecEnv(ImageEnv(), 2)))


def test_what_a_vector_env_has_besides() -> None:
    batch = VecEnv(ImageEnv(), 3)
    env: Any = to_gymnasium_vec(batch, render_mode="rgb_array")
    assert env.metadata == {
        "render_modes": ["rgb_array"],
        "render_fps": 30,
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }
    assert str(env) == "GymnasiumVectorEnv(num_envs=3)"
    assert (env.num_envs, env.spec, env.unwrapped) == (3, None, env)
    obs, _ = env.reset(seed=0)
    for action in actions_of(batch.action_space, 7):
        for frame, image in zip(env.render(), obs, strict=True):
            np.testing.assert_array_equal(frame, image)
        obs, *_ = env.step(action)
    env.close()
    env.close()
    assert env.closed
    with pytest.warns(UserWarning, match="draws nothing"):
        assert to_gymnasium_vec(batch).render() is None


def test_close_reaches_the_batch() -> None:
    class Held(VecEnv[Any, Any, Any, Any]):
        closed = 0

        def close(self) -> None:
            Held.closed += 1

    env = to_gymnasium_vec(Held(CountingEnv(), 2, final_obs=True))
    env.close()
    env.close()
    assert Held.closed == 1


@pytest.mark.parametrize("options", [{"final_obs": True}, {"donate": True}, {"jit_compile": False}])
def test_options_of_the_vec_env_are_kept(options: dict[str, bool]) -> None:
    env = to_gymnasium_vec(VecEnv(CountingEnv(), 2, **options))
    plain = to_gymnasium_vec(VecEnv(CountingEnv(), 2))
    same(env.reset(seed=0)[0], plain.reset(seed=0)[0])
    for _ in range(7):
        told, wanted = env.step([1, 2]), plain.step([1, 2])
        same(told[0], wanted[0])
        assert str(told[4]) == str(wanted[4])


def test_a_subclass_keeps_what_it_overrides() -> None:
    class Masked(VecEnv[Any, Any, Any, Any]):
        def action_mask(self, state: Any) -> Any:
            return jnp.ones((2, 3), bool).at[:, 0].set(False)

    env = to_gymnasium_vec(Masked(CountingEnv(), 2, final_obs=True))
    assert env.reset(seed=0)[1]["action_mask"].tolist() == [[0, 1, 1]] * 2
    with pytest.raises(TypeError, match="Build the batch with `final_obs=True`"):
        to_gymnasium_vec(Masked(CountingEnv(), 2)).reset(seed=0)


def test_observations_of_a_64_bit_space_have_64_bits() -> None:
    class Wide(CountingEnv):
        @property
        def observation_space(self) -> Box:
            return Box(-(2**40), 2**40, (2,), np.int64)

    env = to_gymnasium_vec(VecEnv(Wide(), 2))
    obs, _ = env.reset(seed=0)
    told = env.step([1, 2])
    assert obs.dtype == told[0].dtype == env.observation_space.dtype == np.int64
    assert env.observation_space.contains(told[0])


def test_what_cannot_draw_takes_no_render_mode() -> None:
    host = from_gymnasium_vec(gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync"))
    with pytest.raises(TypeError, match="expected an environment that implements render"):
        to_gymnasium_vec(host, render_mode="rgb_array")


def test_tensors_are_actions() -> None:
    env, other = (to_gymnasium_vec(VecEnv(CountingEnv(), 2)) for _ in range(2))
    env.reset(seed=0)
    other.reset(seed=0)
    same(env.step(torch.tensor([1, 2]))[0], other.step([1, 2])[0])


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copy", "pickle"]
)
def test_copies_go_on_alike_and_apart(copied: Callable[[Any], Any]) -> None:
    env = to_gymnasium_vec(VecEnv(CountingEnv(), 3))
    env.reset(seed=0)
    env.step([0, 1, 2])
    twin = copied(env)
    told = [env.step([0, 1, 2])[0].tolist() for _ in range(8)]
    assert [twin.step([0, 1, 2])[0].tolist() for _ in range(8)] == told


def test_a_made_batch() -> None:
    env = to_gymnasium_vec(envrax.make_vec("classic/CartPole-v0", 3, pre_warm=False))
    assert isinstance(env, gymnasium.vector.VectorEnv)
    obs, _ = env.reset(seed=0)
    assert obs.shape == (3, 4) and obs.flags.writeable
