# pyright: reportMissingImports=false
"""
Pools of simulators: EnvPool and ALE's own vector environment.

Their episodes are those of the pool stepped by hand, also in fleets beside compiled environments.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import envpool
import jax
import numpy as np
import pytest
from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import AutoresetMode
from helpers import assert_trees_equal, with_final_obs
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
from envrax.testing import check_batched_env, match_env

pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered")


NEXT_STEP, SAME_STEP = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP


def pool(name: str = "CartPole-v1", n: int = 3, **options: Any) -> Any:
    return envpool.make(name, env_type="gymnasium", num_envs=n, seed=4, **options)


def breakout(mode: AutoresetMode = NEXT_STEP, n: int = 2, frames: int = 140) -> Any:
    return AtariVectorEnv(
        "breakout", n, max_num_frames_per_episode=frames, autoreset_mode=mode, episodic_life=True
    )


lives = partial(pool, "Breakout-v5", episodic_life=True, use_fire_reset=True)
EPISODES: dict[str, tuple[Any, Callable[[], Any], str]] = {
    "CartPole": (from_envpool, partial(pool, max_episode_steps=14), "elapsed_step"),
    "frames": (from_envpool, partial(pool, "Breakout-v5", max_episode_steps=30), "lives"),
    "lives": (from_envpool, lives, "lives"),
    "ALE": (from_gymnasium_vec, breakout, "lives"),
}


@pytest.mark.parametrize("name", EPISODES)
def test_episodes_are_those_of_the_pool(name: str) -> None:
    build, make, info = EPISODES[name]
    env = build(make(), final_obs=True, info_keys=(info,))
    actions = np.stack(list(draw(env.action_space, 150)))
    ours = same_step_stream(env, actions, info)
    seed = {"seed": seed_of(KEY)} if name == "ALE" else {}
    assert_streams_equal(ours, next_step_stream(make(), actions, info, **seed))
    if name in ("CartPole", "ALE"):  # both kinds of ends are seen
        ends = np.array([[step[3:5] for step in slot] for slot in ours])
        assert ends.any(axis=(0, 1)).tolist() == [True, True]


@pytest.mark.parametrize("make", [pool, breakout, partial(breakout, SAME_STEP)])
def test_returned_arrays_do_not_change(make: Any) -> None:
    build = from_envpool if make is pool else from_gymnasium_vec
    check_returned_arrays_stay(*(build(make(), final_obs=True) for _ in range(2)))


@pytest.mark.parametrize("name", ["Pendulum-v1", "Blackjack-v1", "ALE"])
def test_the_contract_holds(name: str) -> None:
    env: Any = from_gymnasium_vec(breakout()) if name == "ALE" else from_envpool(pool(name))
    check_batched_env(with_final_obs(env), num_steps=20)


def test_a_reset_begins_new_episodes_and_forgets_the_ends_before() -> None:
    env = from_envpool(pool(max_episode_steps=3), final_obs=True, info_keys=("elapsed_step",))
    obs, state = env.reset(KEY)
    for actions in draw(env.action_space, 4):
        _, state, *_ = env.step(state, actions)
    again, state = env.reset(KEY)
    assert not np.array_equal(obs, again)
    for t, actions in enumerate(draw(env.action_space, 4)):
        _, state, *_, infos = env.step(state, actions)
        np.testing.assert_array_equal(infos["elapsed_step"], [t % 3 + 1] * 3)
        np.testing.assert_array_equal(infos["truncated"], [t == 2] * 3)


def test_a_slot_is_drawn() -> None:
    drawing = pool("Breakout-v5", 2, render_mode="rgb_array")
    env = from_envpool(drawing)
    _, state = env.reset(KEY)
    _, state, *_ = env.step(state, [1, 2])
    frame = env.render_slot(state, 1)
    np.testing.assert_array_equal(frame, drawing.render(env_ids=[1])[0])
    assert frame.shape == (210, 160, 3) and frame.dtype == np.uint8


def test_both_modes_agree() -> None:
    # Built in this order, the second leaves its mode in the metadata of the first.
    envs = [from_gymnasium_vec(breakout(mode), final_obs=True) for mode in (SAME_STEP, NEXT_STEP)]
    (obs, a), (theirs, b) = (env.reset(KEY) for env in envs)
    np.testing.assert_array_equal(obs, theirs)
    for actions in draw(envs[0].action_space, 100):
        _, a, *ours = envs[0].step(a, actions)
        _, b, *others = envs[1].step(b, actions)
        assert_trees_equal(ours, others)


def test_missing_infos_of_a_step_are_an_error() -> None:
    env = from_gymnasium_vec(breakout(SAME_STEP, frames=8), info_keys=("lives",))
    _, state = env.reset(KEY)
    with pytest.raises(ValueError, match="SAME_STEP"):
        for actions in draw(env.action_space, 5):
            _, state, *_ = env.step(state, actions)


MEMBERS: dict[str, Any] = {
    "compiled": lambda: envrax.VecEnv(CartPole(), 4, final_obs=True),
    "envpool": lambda: from_envpool(pool(), final_obs=True),
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


class HalfRewardCartPole(CartPole):
    """Its rewards are halved."""

    def advance(self, state: Any, action: Any) -> Any:
        new, reward, terminated = super().advance(state, action)
        return new, 0.5 * reward, terminated


def match(env: Any) -> Any:
    pool = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=1, seed=4)
    return match_env(env, pool, n_resets=300)


def test_the_same_environment_is_not_refuted_and_no_more_and_another_is() -> None:
    found = match(CartPole())
    assert found.ok is None, str(found)
    verdicts = {check.name: check.verdict for check in found.checks}
    assert verdicts["spaces"] == "equal"
    assert verdicts["starts"] == verdicts["episodes"] == "alike"
    assert verdicts["one step"] == verdicts["ends"] == "skipped"
    assert "not refuted; `inject` or `extract` would tell more" in str(found)
    halved = match(HalfRewardCartPole())
    assert halved.ok is False, str(halved)
