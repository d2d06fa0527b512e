# pyright: basic, reportMissingImports=false
"""kinetix by name: equal to kinetix stepped by hand; its action and observation types, refusals."""

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
    equal,
    follow,
    make,
)

import envrax
from envrax.interop import as_dicts
from envrax.spaces import MultiDiscrete

ID = "kinetix/s/h4_thrust_aim"


@pytest.fixture(scope="module")
def adapter() -> Any:
    return importlib.import_module("envrax.interop.kinetix")


def test_200_steps_are_those_of_kinetix(adapter: Any) -> None:
    options = {"action_type": "multi_discrete"}
    env = make("kinetix/s/h4_thrust_aim", max_steps=10, options=options)
    peer = env.unwrapped.peer
    level, _, params = called(adapter.load_from_json_file, "s/h4_thrust_aim")
    endless = params.replace(max_timesteps=2**31 - 1)

    def begin(key: Any) -> Any:
        return peer.reset_env(key, params, level)

    def advance(key: Any, inner: Any, action: Any) -> Any:
        *stepped, over, _ = peer.step_env(key, inner, action, endless)
        return *stepped, {"terminated": over}

    def diverge(inner: Any) -> Any:
        """Random actions seldom reach a goal; kinetix also ends where the physics diverges."""
        return inner.replace(gravity=inner.gravity * np.nan)

    assert follow(env, begin, advance, edit=diverge) == {"truncated", "terminated"}


def test_entities_and_pixels_are_dicts(adapter: Any) -> None:
    for kind in ("symbolic_entity", "pixels"):
        options = {"observation_type": kind, "action_type": adapter.ActionType.MULTI_DISCRETE}
        env = make("kinetix/s/h4_thrust_aim", options=options)
        obs, _ = jax.jit(env.reset)(jax.random.key(0))
        assert obs in env.observation_space
        assert env.action_space == MultiDiscrete([3, 3, 3, 3, 2, 2])
    assert sorted(obs) == ["global_info", "image"]
    assert env.observation_space.spaces["image"].high == 1.0


def test_the_limit_is_in_the_params(adapter: Any) -> None:
    env = make("kinetix/s/h4_thrust_aim", params={"max_timesteps": 7, "dense_reward_scale": 0.0})
    assert env.config.max_steps == 7
    env = make("kinetix/s/h4_thrust_aim", params={"max_timesteps": 7}, max_steps=9).unwrapped
    assert env.config.max_steps == env.params.max_timesteps == 9


def test_observations_follow_the_params(adapter: Any) -> None:
    """They are those of an environment that kinetix builds with these params."""
    kind, changes = "symbolic_flat", {"num_shape_roles": 8}
    name, options = "kinetix/s/h4_thrust_aim", {"observation_type": kind}
    level, static, params = called(adapter.load_from_json_file, "s/h4_thrust_aim")
    params = params.replace(**changes)
    kinds = adapter.ActionType.DISCRETE, adapter.ObservationType.from_string(kind)
    peer = called(adapter.make_kinetix_env, *kinds, lambda rng: level, params, static)
    by_name = make(name, options=options)
    by_name.step(by_name.reset(jax.random.key(0))[1], 0)  # kinetix keeps what it has traced
    hand, inner = by_hand(peer.reset_env)(jax.random.key(0), params, level)
    hand_after = by_hand(peer.step_env)(jax.random.key(0), inner, 0, params)[0]
    for env in (envrax.with_config(by_name, params=changes), adapter.wrap(peer)):
        obs, state = env.reset(jax.random.key(0))
        after, *_ = env.step(state, 0)
        assert obs in env.observation_space
        equal((obs, after), (as_dicts(hand), as_dicts(hand_after)))
    with pytest.raises(TypeError, match="params"):
        jax.jit(lambda x: make(name, options=options, params={next(iter(changes)): x}))(8)


def test_the_time_of_blind_observations_reaches_the_limit(adapter: Any) -> None:
    types = importlib.import_module("kinetix.environment.spaces")
    home = importlib.import_module("kinetix.environment")
    level, static, params = called(adapter.load_from_json_file, "s/h4_thrust_aim")
    kinds = types.DiscreteActions(params, static), types.BlindObservations(params, static)
    peer = called(home.KinetixEnv, *kinds, static, lambda rng: level)
    env = adapter.wrap(peer, max_steps=300)
    _, state = env.reset(jax.random.key(0))
    state = state.replace(inner=state.inner.replace(timestep=state.inner.timestep + 299))
    obs, _, _, _, info = env.step(state, 0)
    assert obs.shape == env.observation_space.shape == (301,)
    assert obs.argmax() == 300 and info["truncated"]


def test_params_may_be_traced(adapter: Any) -> None:
    def truncated(limit: Any) -> Any:
        env = make("kinetix/s/h4_thrust_aim", params={"max_timesteps": limit})
        _, state = env.reset(jax.random.key(0))
        return env.step(state, 0)[-1]["truncated"]

    assert jax.jit(jax.vmap(truncated))(np.array([1, 2])).tolist() == [True, False]


def test_it_is_as_every_library() -> None:
    """Its ids, what `check_env` says, and an image."""
    check_ids_and_wrong_input("kinetix", "s/h4_thrust_aim", "s/h4_thrust_aims")
    check_waivers(env := make(ID))
    image = env.render(jax.jit(env.reset)(jax.random.key(0))[1])
    assert image.dtype == np.uint8 and image.shape == (125, 125, 3)
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 2


def test_wrong_params_and_x64_are_named() -> None:
    """It fails under x64 without envrax as well."""
    with pytest.raises(TypeError, match="dense_reward_scale"):
        make(ID, params={"dense_reward_scale": "heavy"})
    with pytest.raises(TypeError, match="dense_reward_scale"):
        envrax.with_config(make(ID), params={"dense_reward_scale": "heavy"})
    with jax.enable_x64(True), pytest.raises((TypeError, ValueError), match="`jax_enable_x64`"):
        make(ID).reset(jax.random.key(0))


def test_errors(adapter: Any) -> None:
    kinds = adapter.ActionType.DISCRETE, adapter.ObservationType.SYMBOLIC_FLAT
    bare = called(adapter.make_kinetix_env, *kinds, None)
    with pytest.raises(TypeError, match="reset_function"):
        adapter.wrap(bare)
    with pytest.raises(ValueError, match="env_params"):
        make("kinetix/s/h4_thrust_aim", options={"env_params": None})
