# pyright: reportMissingImports=false
"""`to_gymnasium_vec`: same-step auto-reset as Gymnasium has it, infos, masks, its wrappers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import LivesEnv
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as gym_vector
from trainers import bridge_envs
from trainers.bridge_envs import actions_of, same

from envrax import Box, EpisodicLife, VecEnv
from envrax.interop import to_gymnasium, to_gymnasium_vec
from envrax.interop.out.host_loop import StepResult
from envrax.testing import CountingEnv, ImageEnv, MaskedEnv
from envrax.wrappers import RecordEpisodeStatistics


class Pairs(CountingEnv):
    """Containers of all kinds in its infos; every episode begins alike."""

    def reset(self, rng: Any) -> Any:
        state = super().reset(rng)[1].replace(number=jnp.int32(7))
        return self.observe(state), state

    def step(self, state: Any, action: Any) -> Any:
        obs, state, reward, done, info = super().step(state, action)
        step = state.step
        more = {
            "tuple": (step, jnp.full(3, step)),
            "list": [step.astype(jnp.float32), (step > 2,)],
            "nested": {"tuple": (step, {"number": step})},
        }
        return obs, state, reward, done, {**info, **more}


@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
def test_containers_in_infos_are_those_of_environments_side_by_side(mode: AutoresetMode) -> None:
    """An object array with one tuple a slot, which `DictInfoToList` takes."""
    env = Pairs()
    mine = to_gymnasium_vec(VecEnv(env, 3), autoreset_mode=mode)
    peer = SyncVectorEnv([lambda: to_gymnasium(env)] * 3, autoreset_mode=mode)
    lists = [gym_vector.DictInfoToList(each) for each in (mine, peer)]
    for each in lists:
        each.reset(seed=0)
    for _ in range(12):
        ours, theirs = (each.step(np.array([0, 1, 2]))[-1] for each in lists)
        for one, other in zip(ours, theirs, strict=True):
            assert str(jax.tree.map(_kind, one)) == str(jax.tree.map(_kind, other))
            jax.tree.map(np.testing.assert_array_equal, one, other)
    mine.reset(seed=0)
    infos = mine.step(np.array([0, 1, 2]))[-1]
    assert infos["tuple"].dtype == infos["nested"]["tuple"].dtype == object
    assert [int(first) for first, _ in infos["tuple"]] == [1, 1, 1]
    assert infos["_tuple"].all()


def _kind(x: Any) -> Any:
    return np.asarray(x).dtype, np.shape(x)


MASKED: list[Any] = [
    bridge_envs.MaskedTree(),
    bridge_envs.MaskedRow(),
    bridge_envs.MaskedBits(),
    bridge_envs.MaskedIntegers(),
]


@pytest.mark.parametrize("env", MASKED, ids=str)
def test_masks_are_those_of_environments_side_by_side(env: Any) -> None:
    """Of the next action, and of the last states of episodes; `DictInfoToList` takes them."""
    out, batch = to_gymnasium_vec(VecEnv(env, 3)), VecEnv(env, 3, final_obs=True)
    as_list, single = gym_vector.DictInfoToList(out), to_gymnasium(env)

    def side_by_side(masks: Any) -> tuple[Any, ...]:
        """What `to_gymnasium` gives of each slot."""
        slots = (jax.tree.map(lambda x, i=i: np.asarray(x[i]), masks) for i in range(3))
        infos = (single._with_mask({}, StepResult(None, mask)) for mask in slots)
        return tuple(info["action_mask"] for info in infos)

    def of(infos: Any) -> tuple[Any, ...]:
        return tuple(info["action_mask"] for info in infos)

    infos = as_list.reset(seed=0)[1]
    _, state = batch.reset(jax.random.split(jax.random.key(0))[1])
    for action in actions_of(batch.action_space, 5):
        same(of(infos), side_by_side(batch.action_mask(state)))
        infos = as_list.step(action)[-1]
        _, state, _, dones, wanted = batch.step(state, action)
    assert dones.all()
    same(of(info["final_info"] for info in infos), side_by_side(wanted["final_mask"]))
    peer = SyncVectorEnv([lambda: to_gymnasium(env)] * 3)
    ours, theirs = (each.reset(seed=0)[1] for each in (out, peer))
    assert str(_kinds(ours)) == str(_kinds(theirs))


def _kinds(infos: Any) -> Any:
    """dtypes and shapes of infos, and of what is in an object array."""
    return jax.tree.map(lambda x: _kinds([*x]) if x.dtype == object else _kind(x), infos)


def test_statistics_of_gymnasium_count_every_step() -> None:
    """Gymnasium's own before 1.4 leave out a step after each end; those of envrax never do."""
    theirs: Any = gym_vector.RecordEpisodeStatistics(to_gymnasium_vec(VecEnv(CountingEnv(), 3)))
    ours = to_gymnasium_vec(VecEnv(RecordEpisodeStatistics(CountingEnv()), 3))
    for env in (theirs, ours):
        env.reset(seed=0)
        for step in range(15):
            *_, infos = env.step(np.ones(3, np.int32))
            if step % 5 == 4:
                assert infos["episode"]["l"].tolist() == infos["episode"]["r"].tolist() == [5] * 3


def test_statistics_inside_an_episodic_life_are_there_where_a_game_ends() -> None:
    """In `LivesEnv` a life ends with the steps 2 and 4, and the game with step 5."""
    inner = EpisodicLife(RecordEpisodeStatistics(LivesEnv()))
    env = to_gymnasium_vec(VecEnv(inner, 2))
    env.reset(seed=0)
    infos: Any = {}
    for step in range(1, 6):
        *_, terminated, truncated, infos = env.step(np.ones(2, np.int32))
        assert (terminated == (step in (2, 4))).all() and (truncated == (step == 5)).all()
        if terminated.any() or truncated.any():
            assert ("episode" in infos) == ("episode" in infos["final_info"]) == (step == 5)
    assert infos["_episode"].tolist() == infos["final_info"]["_episode"].tolist() == [True] * 2
    assert infos["episode"]["l"].tolist() == [5, 5]
    single = to_gymnasium(inner)  # whose `reset` begins a new game
    single.reset(seed=0)
    ends = [single.step(1) for _ in range(2)]
    assert ends[1][2] and "episode" not in ends[1][4]


def test_metadata_and_render() -> None:
    batch = VecEnv(ImageEnv(), 3)
    env: Any = to_gymnasium_vec(batch, render_mode="rgb_array")
    assert env.metadata == {
        "render_modes": ["rgb_array"],
        "render_fps": 30,
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }
    obs, _ = env.reset(seed=0)
    for action in actions_of(batch.action_space, 7):
        for frame, image in zip(env.render(), obs, strict=True):
            np.testing.assert_array_equal(frame, image)
        obs, *_ = env.step(action)
    with pytest.warns(UserWarning, match="draws nothing"):
        assert to_gymnasium_vec(batch).render() is None


@pytest.mark.parametrize("options", [{"donate": True}, {"jit_compile": False}])
def test_options_of_the_vec_env_are_kept(options: dict[str, bool]) -> None:
    env = to_gymnasium_vec(VecEnv(CountingEnv(), 2, **options))
    plain = to_gymnasium_vec(VecEnv(CountingEnv(), 2))
    same(env.reset(seed=0)[0], plain.reset(seed=0)[0])
    for _ in range(7):
        result, wanted = env.step([1, 2]), plain.step([1, 2])
        same(result[0], wanted[0])
        assert str(result[4]) == str(wanted[4])


def test_a_subclass_keeps_what_it_overrides() -> None:
    class Masked(VecEnv[Any, Any, Any, Any]):
        def action_mask(self, state: Any) -> Any:
            return jnp.ones((2, 3), bool).at[:, 0].set(False)

    for options in ({}, {"final_obs": True}):
        env = to_gymnasium_vec(Masked(CountingEnv(), 2, **options))
        assert env.reset(seed=0)[1]["action_mask"].tolist() == [[0, 1, 1]] * 2


def test_observations_of_a_64_bit_space_have_64_bits() -> None:
    class Wide(CountingEnv):
        @property
        def observation_space(self) -> Box:
            return Box(-(2**40), 2**40, (2,), np.int64)

    env = to_gymnasium_vec(VecEnv(Wide(), 2))
    obs, _ = env.reset(seed=0)
    result = env.step([1, 2])
    assert obs.dtype == result[0].dtype == env.observation_space.dtype == np.int64
    assert env.observation_space.contains(result[0])


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_nothing_is_transferred_without_asking(mode: AutoresetMode) -> None:
    """Actions, seeds and masks come from the host on purpose."""
    with jax.transfer_guard("disallow"):
        env = to_gymnasium_vec(VecEnv(MaskedEnv(), 3), autoreset_mode=mode)
        env.reset(seed=0)
        env.reset()
        for _ in range(8):
            *_, terminated, truncated, _ = env.step(np.array([0, 1, 2]))
            ended = terminated | truncated
            if mode == AutoresetMode.DISABLED and ended.any():
                env.reset(options={"reset_mask": ended})
        single = to_gymnasium(MaskedEnv(), render_mode="rgb_array")
        single.reset(seed=0)
        single.step(1)
        single.render()
