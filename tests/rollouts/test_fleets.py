"""`start`, `rollout` and `evaluate` of a fleet: the results of its members, in its container."""

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from batched_fakes import OnTheHost
from fakes import CoinEnv, VectorEnv
from helpers import assert_trees_equal, small_vec

import envrax
from envrax import MultiEnv, MultiVecEnv, VecEnv
from envrax.testing import CountingEnv, MaskedEnv

KEY = jax.random.key(0)


def drawn(memory: Any, obs: Any, rng: jax.Array, mask: Any, *, env: Any) -> Any:
    return env.action_space.sample(rng, mask), memory + 1, mask


@cache
def in_dict() -> MultiVecEnv:
    # Not in the order of the keys, as which JAX returns dicts from a compiled function.
    return MultiVecEnv({"z": small_vec(CoinEnv(), 3), "a": small_vec(MaskedEnv(), 2)})


@pytest.mark.parametrize(
    "fleet", [in_dict(), pytest.param(MultiEnv([CoinEnv(), VectorEnv()]), marks=pytest.mark.slow)]
)
def test_members_play_as_alone(fleet: Any) -> None:
    names = [*fleet.envs] if isinstance(fleet.envs, dict) else [*range(len(fleet))]
    policies, memory = fleet.envs.copy(), fleet.envs.copy()
    for name in names:
        policies[name], memory[name] = partial(drawn, env=fleet.envs[name]), jnp.int32(0)
    at = envrax.start(fleet, KEY, memory)
    end, steps = envrax.rollout(fleet, policies, at, 30)
    how: Any = dict(max_steps=20, as_rollout=True)  # a policy for all slots
    found = envrax.evaluate(fleet, policies, KEY, 4, policy_state=memory, **how)
    for name, rng in zip(names, jax.random.split(KEY, len(fleet)), strict=True):
        env, act = fleet.envs[name], policies[name]
        alone = envrax.rollout(env, act, envrax.start(env, rng, jnp.int32(0)), 30)
        ours = [type(x)(*(field[name] for field in x)) for x in (end, steps)]
        assert_trees_equal((*ours,), alone)
        episodes = envrax.evaluate(env, act, rng, 4, policy_state=jnp.int32(0), **how)
        assert_trees_equal(type(found)(*(field[name] for field in found)), episodes)
    assert {*map(type, (*end, *steps, *found))} == {type(fleet.envs)}
    if isinstance(steps.reward, dict):
        assert [*steps.reward] == [*found.returns] == names


def test_one_policy_for_all_under_jit() -> None:
    fleet = MultiVecEnv({"z": small_vec(CountingEnv(), 3), "a": small_vec(MaskedEnv(), 2)})

    def still(state: Any, obs: jax.Array, rng: jax.Array) -> Any:
        return jnp.full(len(obs), len(obs), jnp.int32) - 1, state, None

    run = jax.jit(lambda at: envrax.rollout(fleet, still, at, 5)[1].action)
    action = jax.device_get(run(envrax.start(fleet, KEY)))
    assert action["z"].shape == (5, 3) and (action["z"] == 2).all()
    assert action["a"].shape == (5, 2) and (action["a"] == 1).all()


def play_in_dict(policy: Any, obs: Any = None) -> Any:
    at = envrax.start(in_dict(), KEY)
    at = at if obs is None else at._replace(obs=obs)
    return envrax.rollout(in_dict(), policy, at, 5)


def start_in_list(policy_state: Any) -> Any:
    return envrax.start(MultiVecEnv([small_vec(CountingEnv(), 2)] * 2), KEY, policy_state)


@pytest.mark.parametrize(
    ("call", "error", "noun"),
    [
        (lambda: start_in_list((1, 2)), TypeError, "policy_state"),
        (lambda: play_in_dict({"z": max}), ValueError, "policy without 'a'"),
        (lambda: play_in_dict(None, jnp.zeros(2)), TypeError, "obs"),
    ],
)
def test_what_is_refused(call: Any, error: Any, noun: str) -> None:
    with pytest.raises(error, match=noun):
        call()


def test_an_error_names_its_member() -> None:
    mixed = MultiVecEnv([OnTheHost(2), VecEnv(CountingEnv(), 2)])
    with pytest.raises(TypeError, match="final_obs") as error:
        envrax.rollout(mixed, None, envrax.start(mixed, KEY), 5)
    assert error.value.__notes__ == ["This was in MultiVecEnv member 0."]
