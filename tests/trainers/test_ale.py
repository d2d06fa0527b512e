# pyright: reportMissingImports=false
"""ALE's own vector environment, and fleets of simulators beside compiled environments."""

from typing import Any

import envpool
import jax
import numpy as np
import pytest
from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import AutoresetMode
from helpers import assert_trees_equal
from trainers.host_envs import (
    KEY,
    assert_streams_equal,
    check_returned_arrays_stay,
    draw,
    next_step_stream,
    same_step_stream,
    seed_of,
)

import envrax
from envrax.classic import CartPole
from envrax.interop.host.envpool import from_envpool
from envrax.interop.host.gymnasium_vec import from_gymnasium_vec
from envrax.testing import check_batched_env

pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered")


def breakout(mode: AutoresetMode = AutoresetMode.NEXT_STEP, n: int = 2, frames: int = 140) -> Any:
    return AtariVectorEnv(
        "breakout", n, max_num_frames_per_episode=frames, autoreset_mode=mode, episodic_life=True
    )


def test_episodes_are_those_of_ale() -> None:
    env = from_gymnasium_vec(breakout(), final_obs=True, info_keys=("lives",))
    actions = np.stack(list(draw(env.action_space, 120)))
    ours = same_step_stream(env, actions, "lives")
    theirs = next_step_stream(breakout(), actions, "lives", seed=seed_of(KEY))
    assert_streams_equal(ours, theirs)
    ends = np.array([[step[3:5] for step in slot] for slot in ours])
    assert ends.any(axis=(0, 1)).tolist() == [True, True]


def test_both_modes_agree() -> None:
    # Built in this order, the second leaves its mode in the metadata of the first.
    envs = [from_gymnasium_vec(breakout(mode), final_obs=True) for mode in MODES]
    (obs, a), (theirs, b) = (env.reset(KEY) for env in envs)
    np.testing.assert_array_equal(obs, theirs)
    for actions in draw(envs[0].action_space, 100):
        _, a, *ours = envs[0].step(a, actions)
        _, b, *others = envs[1].step(b, actions)
        assert_trees_equal(ours, others)


MODES = [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP]


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_returned_arrays_do_not_change(mode: AutoresetMode) -> None:
    check_returned_arrays_stay(
        *(from_gymnasium_vec(breakout(mode), final_obs=True) for _ in range(2))
    )


def test_missing_infos_of_a_step_are_an_error() -> None:
    env = from_gymnasium_vec(breakout(AutoresetMode.SAME_STEP, frames=8), info_keys=("lives",))
    _, state = env.reset(KEY)
    with pytest.raises(ValueError, match="SAME_STEP"):
        for actions in draw(env.action_space, 5):
            _, state, *_ = env.step(state, actions)


def test_the_contract_holds() -> None:
    check_batched_env(from_gymnasium_vec(breakout(), final_obs=True), num_steps=20)


MEMBERS: dict[str, Any] = {
    "compiled": lambda: envrax.VecEnv(CartPole(), 4, final_obs=True),
    "envpool": lambda: from_envpool(
        envpool.make("CartPole-v1", env_type="gymnasium", num_envs=3, seed=1), final_obs=True
    ),
    "ale": lambda: from_gymnasium_vec(breakout(frames=100), final_obs=True, name="breakout"),
}


def test_a_fleet_gives_what_its_members_give() -> None:
    fleet = envrax.MultiVecEnv({name: make() for name, make in MEMBERS.items()})
    members = {name: make() for name, make in MEMBERS.items()}
    assert fleet.env_keys == ["compiled", "envpool", "ale"]
    obs, states = fleet.reset(KEY)
    rngs = jax.random.split(KEY, 3)
    begun = {name: env.reset(rng) for (name, env), rng in zip(members.items(), rngs, strict=True)}
    assert_trees_equal(obs, {name: obs for name, (obs, _) in begun.items()})
    theirs = {name: state for name, (_, state) in begun.items()}
    actions = {name: list(draw(env.action_space, 100)) for name, env in members.items()}
    ends = dict.fromkeys(members, 0)
    for t in range(200):
        chosen = {name: listed[t * 7 % 100] for name, listed in actions.items()}
        obs, states, *rest = fleet.step(states, chosen)
        for name, env in members.items():
            seen, theirs[name], *others = env.step(theirs[name], chosen[name])
            mine = [obs[name], *(part[name] for part in rest)]
            np.testing.assert_equal(jax.device_get(mine), jax.device_get([seen, *others]))
            ends[name] += int(others[1].sum())
    assert min(ends.values()) > 1
    fleet.close()
