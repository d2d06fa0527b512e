# pyright: reportMissingImports=false
"""`to_gymnasium_vec(autoreset_mode=...)`: each mode is that of Gymnasium's `SyncVectorEnv`."""

import pickle
from collections.abc import Callable
from functools import cache
from typing import Any

import chex
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from fakes import LivesEnv
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from trainers import bridge_envs
from trainers.bridge_envs import ENVS, actions_of, same, without

from envrax import EpisodicLife, JitWrapper, VecEnv, shard
from envrax.interop import to_gymnasium, to_gymnasium_vec
from envrax.interop.out.host_loop import StepResult
from envrax.multi_agent import agents_as_slots
from envrax.spaces import Box
from envrax.termination import end_of_step, step_env
from envrax.testing import CountingEnv, MaskedEnv, NimWorld
from envrax.wrappers import RecordEpisodeStatistics, Wrapper
from envrax.wrappers import vector as batched

MODES = list(AutoresetMode)
each_mode = pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
NEXT_STEP, SAME_STEP, DISABLED = MODES
N = 3

INNER: dict[str, Any] = {
    "nested": ENVS["nested"],
    "rooms": ENVS["rooms"],
    "masked": JitWrapper(RecordEpisodeStatistics(MaskedEnv()), pre_warm=False),
    "masks": bridge_envs.MaskedTree(),
    "ends": ENVS["ends"],
    "lives": EpisodicLife(RecordEpisodeStatistics(LivesEnv())),
}


@cache
def programs(name: str) -> tuple[Any, Any, Any]:
    """`reset`, `reset_after` and `step` of one environment, each with its mask."""
    env = INNER[name]

    @jax.jit
    def step(state: Any, action: Any) -> Any:
        obs, state, reward, _, info = step_env(env, state, action)
        _, *ends = end_of_step("test", env, state, info)
        info = {k: v for k, v in info.items() if k not in ("terminated", "truncated")}
        return state, StepResult(obs, env.action_mask(state), reward, *ends, info)

    def begin(reset: Callable[[Any], Any]) -> Any:
        @jax.jit
        def begun(x: Any) -> Any:
            obs, state = reset(x)
            return state, StepResult(obs, env.action_mask(state))

        return begun

    return begin(env.reset), begin(env.reset_after), step


class OneSlot:
    """In place of the loop of `to_gymnasium`: resets with the keys of slot i of a `VecEnv`."""

    def __init__(self, name: str, i: int) -> None:
        self.programs, self.i, self.state = programs(name), i, None

    def reset(self, seed: int | None) -> StepResult:
        reset, reset_after, _ = self.programs
        if seed is None:
            self.state, result = reset_after(self.state)
        else:
            # `SyncVectorEnv` passes `seed + i`.
            _, key = jax.random.split(jax.random.key(seed - self.i))
            self.state, result = reset(jax.random.split(key, N)[self.i])
        return jax.device_get(result)

    def step(self, action: Any) -> StepResult:
        self.state, result = self.programs[2](self.state, action)
        return jax.device_get(result)


def peer(name: str, mode: AutoresetMode) -> Any:
    def make(i: int) -> gymnasium.Env:
        env: Any = to_gymnasium(INNER[name])
        env._loop = OneSlot(name, i)
        return env

    return SyncVectorEnv([lambda i=i: make(i) for i in range(N)], autoreset_mode=mode)


def are_arrays(tree: Any) -> Any:
    """Of each leaf, whether it is an array or a scalar of NumPy."""
    return jax.tree.map(lambda x: isinstance(x, np.ndarray), tree)


def same_infos(infos: dict[str, Any], wanted: dict[str, Any]) -> None:
    """The same names and masks, and the same values where they are valid."""
    assert set(infos) == set(wanted)
    for name, values in wanted.items():
        if name.startswith("_"):
            same(infos[name], values)
        elif isinstance(values, dict):
            same_infos(infos[name], values)
        else:
            assert infos[name].dtype == values.dtype
            for i in np.flatnonzero(wanted[f"_{name}"]):
                same(infos[name][i], values[i])
                assert are_arrays(infos[name][i]) == are_arrays(values[i])


def same_as_arrays(result: Any, wanted: Any) -> None:
    *arrays, infos = result
    *others, wanted_infos = wanted
    jax.tree.map(lambda x, y: same(np.asarray(x), np.asarray(y)), tuple(arrays), tuple(others))
    same_infos(infos, wanted_infos)


def by_hand(envs: list[Any], step: list[Any]) -> np.ndarray | None:
    """The slots to reset after a step in the mode `DISABLED`."""
    ended = step[0][2] | step[0][3]
    disabled = envs[0].autoreset_mode == DISABLED
    return ended if disabled and ended.any() else None


@each_mode
@pytest.mark.parametrize("name", INNER)
def test_every_array_is_that_of_sync_vector_env(name: str, mode: AutoresetMode) -> None:
    env = to_gymnasium_vec(VecEnv(INNER[name], N), autoreset_mode=mode)
    envs = [env, peer(name, mode)]
    assert env.autoreset_mode == env.metadata["autoreset_mode"] == envs[1].autoreset_mode
    for space in ("observation_space", "action_space", "single_observation_space"):
        assert getattr(env, space) == getattr(envs[1], space)
    same_as_arrays(*(which.reset(seed=3) for which in envs))
    resets = 0
    for action in actions_of(VecEnv(INNER[name], N).action_space, 120):
        results: list[Any] = [which.step(action) for which in envs]
        if mode == SAME_STEP:  # where the statistics are beside `final_info` too
            results[0] = (*results[0][:4], without(results[0][4], "episode", "_episode"))
        same_as_arrays(*results)
        assert env.observation_space.contains(results[0][0])
        ended = by_hand(envs, results)
        if ended is not None:
            resets += 1
            seed = 5 if resets == 7 else None
            begun = (which.reset(seed=seed, options={"reset_mask": ended}) for which in envs)
            same_as_arrays(*begun)
    assert resets > 10 or mode != DISABLED


@each_mode
@pytest.mark.parametrize("array", ["jax", "torch"])
def test_arrays_of_jax_and_torch_are_those_of_numpy(array: Any, mode: AutoresetMode) -> None:
    make: Any
    make, kind = {"jax": (jnp.asarray, jax.Array), "torch": (torch.tensor, torch.Tensor)}[array]
    batch = VecEnv(INNER["masked"], N)
    plain, env = (to_gymnasium_vec(batch, autoreset_mode=mode, array=x) for x in ("numpy", array))
    plain.reset(seed=3)
    env.reset(seed=3)
    begins = np.zeros(N, bool)
    for action in actions_of(batch.action_space, 100):
        wanted: list[Any] = list(plain.step(action))
        result: list[Any] = list(env.step(make(action)))
        assert all(isinstance(x, kind) for x in jax.tree.leaves(result))
        obs, rewards, terminated, truncated, infos = jax.tree.map(np.asarray, result)
        same((obs, terminated, truncated), (wanted[0], *wanted[2:4]))
        same(rewards, wanted[1].astype(np.float32))
        same(infos["action_mask"].astype(np.int8), wanted[4]["action_mask"])
        ended = terminated | truncated
        assert ("final_obs" in infos) == (mode == SAME_STEP)
        if mode == NEXT_STEP:
            assert not rewards[begins].any() and not ended[begins].any()
            begins = ended
        if ended.any():
            lengths = infos["episode"]["l"]
            same(lengths[ended], wanted[4]["episode"]["l"][ended])
            assert not lengths[~ended].any()
            if mode == DISABLED:
                options = {"reset_mask": ended}
                begun = plain.reset(options=options)
                obs, infos = env.reset(options={"reset_mask": make(ended)})
                same(np.asarray(obs), begun[0])
                assert isinstance(obs, kind)


def test_wrappers_around_the_batch_count_whole_episodes() -> None:
    envs: list[Any] = [
        to_gymnasium_vec(batched.NormalizeReward(batch), autoreset_mode=DISABLED)
        for batch in (
            VecEnv(RecordEpisodeStatistics(ENVS["ends"]), N),
            batched.RecordEpisodeStatistics(VecEnv(ENVS["ends"], N)),
        )
    ]
    same_as_arrays(*(env.reset(seed=0) for env in envs))
    episodes = 0
    for action in actions_of(envs[0].batched_env.action_space, 60):
        results: list[Any] = [env.step(action) for env in envs]
        same_as_arrays(*results)
        episodes += "episode" in results[0][4]
        ended = by_hand(envs, results)
        if ended is not None:
            same_as_arrays(*(env.reset(options={"reset_mask": ended}) for env in envs))
    assert episodes > 10


@chex.dataclass
class CountEndsState(batched.BatchedWrapperState):
    ends: jax.Array


class CountEnds(batched.BatchedWrapper[Any, Any]):
    """Counts the ends that its infos tell."""

    state_class = CountEndsState

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        return obs, {"ends": jnp.zeros(self.n_slots, jnp.int32)}

    def on_step(self, obs: Any, state: Any, rewards: Any, dones: Any, infos: Any, /) -> Any:
        ends = state.ends + (infos["terminated"] | infos["truncated"]).astype(jnp.int32)
        return obs, state.replace(ends=ends), rewards, dones, {**infos, "ends": ends}


def test_wrappers_around_the_batch_do_not_see_the_action_that_is_ignored() -> None:
    """Nor a step that is none: `Undefined` returns NaN after the end."""
    batch = CountEnds(batched.NormalizeObservation(VecEnv(Undefined(CountingEnv()), 2)))
    runs: list[list[Any]] = []
    for ignored in (0, 1):
        env = to_gymnasium_vec(batch, autoreset_mode="NextStep")
        env.reset(seed=0)
        ended = np.zeros(2, bool)
        results: list[Any] = []
        for i in range(16):
            step = env.step(np.where(ended, ignored, i % 2))
            ended = step[2] | step[3]
            results += [*step[:4], step[4].get("ends", np.zeros(2))]  # none where slots begin
        assert step[4]["ends"].tolist() == [2, 2]
        assert np.isfinite(np.stack(results[::5])).all()
        runs.append(results)
    jax.tree.map(same, *runs)


@each_mode
def test_one_program_steps_and_a_pickle_goes_on(
    mode: AutoresetMode, compile_counter: Callable[..., Any]
) -> None:
    batch = VecEnv(bridge_envs.EndsEnv(), N)
    to_gymnasium_vec(batch, autoreset_mode=mode).reset(seed=0)  # the programs of keys
    env: Any = to_gymnasium_vec(batch, autoreset_mode=mode)
    actions = actions_of(batch.action_space, 30)
    with compile_counter() as compiled:
        env.reset(seed=0)
        for action in actions:
            *_, terminated, truncated, _ = env.step(action)
            ended = terminated | truncated
            if mode == DISABLED and ended.any():
                env.reset(options={"reset_mask": ended})
    assert compiled.count == (3 if mode == DISABLED else 2)
    again = pickle.loads(pickle.dumps(env))
    for action in actions[:1]:
        same_as_arrays(env.step(action), again.step(action))


BATCH = VecEnv(CountingEnv(), 2)


def many(mode: Any, batch: Any = BATCH, **kwargs: Any) -> Any:
    env = to_gymnasium_vec(batch, autoreset_mode=mode, **kwargs)
    env.reset(seed=0)
    return env


def test_a_slot_that_ended_must_be_reset_in_the_mode_disabled() -> None:
    env = many("Disabled")
    for _ in range(4):
        env.step([1, 1])
    assert env.step([1, 1])[3].all()
    env.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(RuntimeError, match=r"slots whose episode ended; got no reset of \[1\]"):
        env.step([1, 1])
    obs, _ = env.reset(options={"reset_mask": np.array([False, True])})
    assert obs[:, 1].tolist() == [0, 0]
    env.step([1, 1])


class Undefined(Wrapper[Any, Any, Any, Any]):
    """A step after the end has no observation."""

    def reset(self, rng: jax.Array) -> Any:
        obs, state = super().reset(rng)
        return obs.astype(jnp.float32), state

    def step(self, state: Any, action: Any) -> Any:
        obs, new_state, *rest = super().step(state, action)
        obs = obs.astype(jnp.float32)
        return jnp.where(state.done, jnp.full_like(obs, jnp.nan), obs), new_state, *rest

    @property
    def observation_space(self) -> Any:
        return Box(-jnp.inf, jnp.inf, (2,))


class OwnBatch(VecEnv[Any, Any, Any, Any]):
    def step(self, state: Any, actions: Any) -> Any:
        return super().step(state, actions)


OWN = OwnBatch(CountingEnv(), 2)
COUNTED = batched.RecordEpisodeStatistics(BATCH)
AGENTS = agents_as_slots(VecEnv(NimWorld(), 2))
SPREAD = shard(BATCH, jax.make_mesh((1,), ("x",)))


def masked(mode: str, n: int) -> Any:
    return many(mode).reset(options={"reset_mask": np.ones(n, bool)})


ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no such mode": (lambda: many("same_step"), ValueError, "SameStep"),
    "a batch of the user": (lambda: many("NextStep", OWN), TypeError, "SAME_STEP"),
    "statistics": (lambda: many("NextStep", COUNTED), TypeError, "around the environment"),
    "agents as slots": (lambda: many("Disabled", AGENTS), TypeError, "SAME_STEP"),
    "tensors of a mesh": (lambda: many("SameStep", SPREAD, array="torch"), TypeError, "on a mesh"),
    "another mode": (lambda: masked("NextStep", 2), ValueError, "NEXT_STEP"),
    "the shape": (lambda: masked("Disabled", 3), ValueError, r"shape \(2,\)"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_wrong_input_is_an_error(case: str) -> None:
    call, error, words = ERRORS[case]
    with pytest.raises(error, match=words):
        call()
