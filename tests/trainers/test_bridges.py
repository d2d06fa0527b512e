# pyright: reportMissingImports=false
"""Every bridge to a trainer: ownership, seeds, one transfer a call, copies, statistics."""

import copy
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import jax
import numpy as np
import pytest
import torch
from gymnasium.wrappers import vector as gym_vector
from stable_baselines3.common.vec_env import VecMonitor
from trainers.bridge_envs import ENVS, actions_of, edit

from envrax import VecEnv
from envrax.interop import to_dm_env, to_gymnasium, to_gymnasium_vec, to_sb3
from envrax.interop.out import host_loop
from envrax.testing import CountingEnv, MaskedEnv
from envrax.wrappers import RecordEpisodeStatistics


class Bridge(NamedTuple):
    """How a trainer drives it: `step` also resets where the bridge does not."""

    make: Callable[[Any], Any]
    reset: Callable[[Any, int | None], Any]
    step: Callable[[Any, Any], Any]
    n: int = 1  # slots; 1 without an axis of them

    def actions(self, inner: Any, n_steps: int) -> list[Any]:
        space = inner.action_space
        return actions_of(space if self.n == 1 else space.batch(self.n), n_steps)


def step_and_reset(env: Any, action: Any) -> Any:
    result = env.step(action)
    return (result, env.reset()) if result[2] or result[3] else (result,)


def seed_and_reset(env: Any, seed: int | None) -> Any:
    if seed is not None:
        env.seed(seed)
    return env.reset(), env.reset_infos


SINGLE = Bridge(to_gymnasium, lambda env, seed: env.reset(seed=seed), step_and_reset)
BATCH = Bridge(
    lambda inner: to_gymnasium_vec(VecEnv(inner, 4)),
    lambda env, seed: env.reset(seed=seed),
    lambda env, actions: env.step(actions),
    n=4,
)
BRIDGES = {
    "gymnasium": SINGLE,
    "gymnasium_vec": BATCH,
    "sb3": BATCH._replace(make=lambda inner: to_sb3(VecEnv(inner, 4)), reset=seed_and_reset),
    "dm_env": SINGLE._replace(
        make=lambda inner: to_dm_env(inner, seed=0),
        reset=lambda env, _: env.reset(),
        step=lambda env, action: env.step(action),
    ),
}
TENSORS = BATCH._replace(
    make=lambda inner: to_gymnasium_vec(VecEnv(inner, 4), array="torch"),
    step=lambda env, actions: env.step(jax.tree.map(torch.from_numpy, actions)),
)
SEEDED = ["gymnasium", "gymnasium_vec", "sb3"]


@pytest.mark.parametrize("inner", ["goal", "image"])
@pytest.mark.parametrize("bridge", [*BRIDGES.values(), TENSORS], ids=[*BRIDGES, "tensors"])
def test_results_and_actions_belong_to_the_caller(bridge: Bridge, inner: str) -> None:
    env = RecordEpisodeStatistics(ENVS[inner])
    left, right = bridge.make(env), bridge.make(env)
    kept = [bridge.reset(left, 0)]
    copies = [pickle.dumps(kept[0])]
    edit(bridge.reset(right, 0))
    for action in bridge.actions(env, 20):
        mine, hers = copy.deepcopy(action), copy.deepcopy(action)
        result, edited = bridge.step(left, mine), bridge.step(right, hers)
        assert str(result) == str(edited)
        edit((mine, edited))
        kept.append(result)
        copies.append(pickle.dumps(result))
    assert [pickle.dumps(result) for result in kept] == copies


@pytest.mark.parametrize("name", SEEDED)
def test_a_seed_begins_a_chain_of_keys_that_none_continues(name: str) -> None:
    bridge = BRIDGES[name]
    env, other = bridge.make(CountingEnv()), bridge.make(CountingEnv())

    def numbers(env: Any, seed: int | None) -> list[str]:
        return [str(bridge.reset(env, s)[0]) for s in (seed, *[None] * 9)]

    first = numbers(env, 5)
    assert len({*first}) > 7  # every reset draws
    assert numbers(other, 5) == first
    assert numbers(env, None) != first
    assert numbers(env, 5) == first != numbers(env, 6)
    highest = [tuple(numbers(env, seed)) for seed in (2**31 - 1, 2**31, 2**32 - 1, 0)]
    assert len({*highest}) == 4
    fresh = [numbers(bridge.make(CountingEnv()), None) for _ in range(2)]
    assert fresh[0] != fresh[1]


@pytest.mark.parametrize("name", SEEDED)
def test_it_compiles_reset_and_step_once_and_copies_from_the_device_once_a_call(
    name: str, compile_counter: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    bridge, transfers, unpack = BRIDGES[name], list[Any](), host_loop.unpack
    bridge.reset(bridge.make(CountingEnv()), 0)  # the programs of keys
    env = bridge.make(RecordEpisodeStatistics(MaskedEnv()))
    monkeypatch.setattr(host_loop, "unpack", lambda x: (transfers.append(x), unpack(x))[1])
    calls = 0
    with compile_counter() as compiled:
        for seed in (0, None, 3):
            bridge.reset(env, seed)
            calls += 1
            for i in range(20):
                actions = (np.arange(4) + i) % 3 if bridge.n > 1 else np.asarray(i % 3)
                actions = actions.astype([np.int64, np.int32, np.uint8][i % 3])
                result = bridge.step(env, actions if i % 5 else actions.tolist())
                calls += 1 if bridge.n > 1 else len(result)
    assert (compiled.count, len(transfers)) == (2, calls)


def episodes(result: Any) -> list[Any]:
    """Slot, length and return of the episodes that ended in a step, in each bridge's own form."""
    if len(result) < 4:
        return episodes_of(0, result[0][4])
    infos = result[-1]
    if isinstance(infos, dict):
        ended = np.flatnonzero(infos.get("_episode", ()))
        return [(i, *(infos["episode"][k][i].item() for k in "lr")) for i in ended]
    return [found for i, info in enumerate(infos) for found in episodes_of(i, info)]


def episodes_of(slot: int, info: Any) -> list[Any]:
    return [(slot, *(float(info["episode"][k]) for k in "lr"))] if "episode" in info else []


MONITORS = {
    "gymnasium": gymnasium.wrappers.RecordEpisodeStatistics,
    "gymnasium_vec": gym_vector.RecordEpisodeStatistics,
    "sb3": VecMonitor,
}


@pytest.mark.parametrize("name", SEEDED)
def test_our_episode_statistics_are_those_of_the_trainer_s_own_wrapper(name: str) -> None:
    bridge, inner = BRIDGES[name], ENVS["random ends"]
    env, peer = bridge.make(RecordEpisodeStatistics(inner)), MONITORS[name](bridge.make(inner))
    bridge.reset(env, 1)
    seed_and_reset(peer, 1) if name == "sb3" else peer.reset(seed=1)
    ends = 0
    for action in bridge.actions(inner, 60):
        ours, theirs = episodes(bridge.step(env, action)), episodes(bridge.step(peer, action))
        assert [found[:2] for found in ours] == [found[:2] for found in theirs]
        assert [found[2] for found in ours] == pytest.approx([x[2] for x in theirs], abs=1e-5)
        ends += len(ours)
    assert ends > 10


@pytest.mark.parametrize("name", ["gymnasium", "gymnasium_vec", "dm_env"])
def test_copies_continue_equally_and_independently(name: str) -> None:
    bridge, inner = BRIDGES[name], ENVS["goal"]
    env, actions = bridge.make(inner), bridge.actions(inner, 12)
    fresh = copy.deepcopy(env)
    bridge.reset(env, 0)
    bridge.step(env, actions[0])
    twins = copy.deepcopy(env), pickle.loads(pickle.dumps(env))
    result = [str([bridge.step(x, action) for action in actions]) for x in (env, *twins)]
    assert result[0] == result[1] == result[2]
    fresh_one, again = bridge.reset(fresh, 0), bridge.reset(bridge.make(inner), 0)
    assert str(fresh_one) == str(again)


@pytest.mark.parametrize("name", BRIDGES)
def test_close_reaches_the_environment_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Any] = []
    for cls in (CountingEnv, VecEnv):
        monkeypatch.setattr(cls, "close", lambda self: closed.append(self))
    env = BRIDGES[name].make(CountingEnv())
    env.close()
    env.close()
    assert closed
