# pyright: reportMissingImports=false
"""`from_envpool`: the episodes are those of the pool, stepped by hand."""

from typing import Any

import envpool
import numpy as np
import pytest
from trainers.host_envs import (
    KEY,
    assert_streams_equal,
    check_returned_arrays_stay,
    draw,
    next_step_stream,
    same_step_stream,
)

from envrax.interop.host.envpool import from_envpool
from envrax.testing import check_batched_env

pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered")


def pool(name: str = "CartPole-v1", n: int = 3, **options: Any) -> Any:
    return envpool.make(name, env_type="gymnasium", num_envs=n, seed=4, **options)


@pytest.mark.parametrize(
    ("name", "options", "info"),
    [
        ("CartPole-v1", {"max_episode_steps": 14}, "elapsed_step"),
        ("Breakout-v5", {"max_episode_steps": 30}, "lives"),
        ("Breakout-v5", {"episodic_life": True, "use_fire_reset": True}, "lives"),
    ],
)
def test_episodes_are_those_of_the_pool(name: str, options: Any, info: str) -> None:
    env = from_envpool(pool(name, **options), final_obs=True, info_keys=(info,))
    actions = np.stack(list(draw(env.action_space, 150)))
    ours = same_step_stream(env, actions, info)
    assert_streams_equal(ours, next_step_stream(pool(name, **options), actions, info))
    if name == "CartPole-v1":  # both kinds of ends are seen
        ends = np.array([[step[3:5] for step in slot] for slot in ours])
        assert ends.any(axis=(0, 1)).tolist() == [True, True]


def test_returned_arrays_do_not_change() -> None:
    check_returned_arrays_stay(*(from_envpool(pool(), final_obs=True) for _ in range(2)))


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


@pytest.mark.parametrize("name", ["Pendulum-v1", "Blackjack-v1"])
def test_the_contract_holds(name: str) -> None:
    check_batched_env(from_envpool(pool(name), final_obs=True), num_steps=20)
