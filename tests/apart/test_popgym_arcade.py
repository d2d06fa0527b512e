# pyright: basic, reportMissingImports=false
"""POPGym Arcade by name: equal to it stepped by hand; its limits, options, objects of users."""

import copy
import importlib
from typing import Any

import jax
import numpy as np
import pytest
from interop.by_hand import (
    by_hand,
    called,
    check_ids_and_wrong_input,
    check_waivers,
    follow,
    make,
    observes,
    of_gymnax,
)

from envrax.error import MissingPackageError

# Ids, with a limit, and how episodes then end.
COMPARED = {
    "BreakoutEasy": (30, {"terminated", "truncated"}),
    "CartPoleEasy": (12, {"terminated", "truncated"}),
    "MineSweeperEasy": (12, {"terminated", "truncated"}),
}


@pytest.fixture(scope="module")
def adapter() -> Any:
    return importlib.import_module("envrax.interop.popgym_arcade")


@pytest.mark.parametrize("id", COMPARED)
def test_200_steps_are_those_of_popgym_arcade(adapter: Any, id: str) -> None:
    limit, expected = COMPARED[id]
    env = make(f"popgym_arcade/{id}", max_steps=limit)
    peer, params = called(adapter.popgym_arcade.make, id)
    name = "max_episode_length" if id.startswith("Mine") else "max_steps_in_episode"
    assert getattr(peer, name) != limit  # the limit is in force in the library's object too
    peer = copy.copy(peer)
    setattr(peer, name, limit)
    if id.startswith("Breakout"):
        params = params.replace(max_steps_in_episode=limit)

    def ends(inner: Any, over: Any) -> Any:
        time = inner.timestep if id.startswith("Mine") else inner.time
        return {"terminated": over & (time < limit)}

    def fall(inner: Any) -> Any:
        return inner.replace(theta=inner.theta + 1) if id.startswith("CartPole") else inner

    assert follow(env, *of_gymnax(peer, params, ends), edit=fall) == expected


def test_ids_and_wrong_input() -> None:
    check_ids_and_wrong_input("popgym_arcade", "BreakoutEasy", "BreakoutEasi")


# CountRecall and AutoEncode compile for most of a minute: `python -m benchmarks table` checks them.
@pytest.mark.parametrize("id", ["BreakoutHard", "NavigatorEasy", "NoisyCartPoleEasy"])
def test_only_the_waived_rules_are_broken(id: str) -> None:
    check_waivers(make(f"popgym_arcade/{id}"))


def test_it_refuses_another_gymnax(adapter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = importlib.import_module("gymnax.environments.environment")
    monkeypatch.setattr(environment.Environment, "is_terminated", None, raising=False)
    with pytest.raises(MissingPackageError, match="stable-gymnax"):
        importlib.reload(adapter)


@pytest.mark.parametrize("id", ["BreakoutEasy", "CartPoleEasy", "SkittlesEasy"])
def test_images_without_noise_are_a_function_of_the_state(adapter: Any, id: str) -> None:
    assert observes(make(f"popgym_arcade/{id}")) == (id != "CartPoleEasy")


def test_limits(adapter: Any) -> None:
    assert make("popgym_arcade/CartPoleMedium").config.max_steps == 400
    assert make("popgym_arcade/TetrisEasy").config.max_steps == 3000
    assert make("popgym_arcade/MineSweeperEasy").config.max_steps == 32
    for name in ("BreakoutEasy", "CartPoleEasy"):
        env = make(f"popgym_arcade/{name}", params={"max_steps_in_episode": 9})
        assert env.config.max_steps == 9
        env = make(f"popgym_arcade/{name}", max_steps=2)
        _, state = env.reset(jax.random.key(0))
        _, state, *_ = env.step(state, 0)
        *_, info = env.step(state, 0)
        assert info["truncated"] and not info["terminated"]

    @jax.jit
    @jax.vmap
    def first_reward(limit: Any) -> Any:
        env = make("popgym_arcade/CartPoleEasy", params={"max_steps_in_episode": limit})
        return env.step(env.reset(jax.random.key(0))[1], 0)[2]

    assert first_reward(np.array([4, 8])).tolist() == [0.25, 0.125]


def test_options_wrap_and_render(adapter: Any) -> None:
    env = make("popgym_arcade/NoisyCartPoleEasy", options={"obs_size": 256})
    assert env.observation_space.shape == (256, 256, 3)
    peer, params = called(adapter.popgym_arcade.make, "NavigatorEasy")
    env = adapter.wrap(peer, params, max_steps=5)
    obs, state = env.reset(jax.random.key(0))
    np.testing.assert_array_equal(image := env.render(state), obs)
    assert image.dtype == np.uint8 and len(np.unique(image.reshape(-1, 3), axis=0)) > 2
    assert env.config.max_steps == 5


def test_the_card_on_show_does_not_count() -> None:
    module = importlib.import_module("popgym_arcade.environments.countrecall")
    env = called(module.CountRecall)
    state = called(env.reset_env, jax.random.key(0), env.default_params)[1]
    show = int(state.value_cards[0])
    state = state.replace(query_cards=state.query_cards.at[0].set(show))
    step = by_hand(lambda state: env.step_env(jax.random.key(0), state, 4, env.default_params)[2])
    assert step(state.replace(default_action=0)) > 0  # POPGym wants a 1
    assert step(state.replace(default_action=1)) == 0
