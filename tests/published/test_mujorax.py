# pyright: basic, reportMissingImports=false
"""mujorax 0.1.6, a suite of MuJoCo Playground that others published, runs unmodified."""

import importlib
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envrax

IDS = ["mjx/cartpole_balance-v0", "mjx/pendulum_swingup-v0"]


@pytest.fixture(scope="module", autouse=True)
def mujorax() -> Iterator[Any]:
    """The suite, with the promotion of dtypes that its users have."""
    with jax.numpy_dtype_promotion("standard"):
        yield importlib.import_module("mujorax")


def test_its_ids_are_registered(mujorax: Any) -> None:
    suite = mujorax.DmControlSuite()
    ids = list(suite)
    assert len(ids) == len(suite) == suite.n_envs == 25
    assert {*IDS} < {*ids} <= {*envrax.registered_names()}
    assert {envrax.get_spec(id).suite for id in ids} == {"DM Control Suite"}
    assert envrax.EnvSet(suite).env_categories() == {"DM Control Suite": 25}
    envrax.EnvSet(suite).verify_packages()
    assert suite.is_available() and "cartpole_balance" in suite


def test_one_environment(mujorax: Any) -> None:
    env = envrax.make(IDS[0], max_steps=2, pre_warm=False)
    obs, state = env.reset(jax.random.PRNGKey(0))
    ends = []
    for _ in range(2):
        action = env.action_space.sample(jax.random.PRNGKey(1))
        obs, state, reward, done, info = env.step(state, action)
        ends.append(bool(done))
        assert obs in env.observation_space and reward.dtype == jnp.float32
    assert ends == [False, True] and int(info["current_step"]) == 2
    assert isinstance(env.unwrapped, mujorax.CartpoleBalanceEnv)


def test_a_fleet_of_copies() -> None:
    fleet = envrax.make_multi_vec([IDS[1]], n_envs=3, max_steps=2)
    assert (fleet.n_envs, fleet.total_slots) == (1, 3)
    assert fleet.env_keys == ["PendulumSwingupEnv"]
    [first], states = fleet.reset(jax.random.key(0))
    for _ in range(2):
        [obs], states, rewards, [dones], infos = fleet.step(states, [jnp.zeros((3, 1))])
    assert obs.shape == (3, *fleet.vec_envs[0].single_observation_space.shape)
    assert dones.all() and not np.array_equal(obs, first)
    assert fleet.slot_state(states, 0, 1).step == 0  # auto-reset began the next episode
