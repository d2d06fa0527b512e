"""Keys of the implementations rbg and unsafe_rbg, which `vmap` draws from as if they were one."""

from functools import partial
from typing import Any

import jax
import numpy as np
import pytest
from fakes import CoinEnv
from helpers import assert_trees_equal

import envrax
from envrax import MultiEnv, VecEnv
from envrax.autoreset import Compact, Select
from envrax.autoreset import reset as reset_slots
from envrax.testing import CountingEnv

THREEFRY = jax.random.key(7)


BATCH = VecEnv(CountingEnv(), 4)
RUNS: list[Any] = [
    BATCH.reset,
    MultiEnv([env := CountingEnv(), env]).reset,
    lambda rng: MultiEnv([CountingEnv()]).reset_at(0, rng),
    lambda rng: envrax.start(CountingEnv(), rng),
    lambda rng: envrax.evaluate(CountingEnv(), None, rng, 3),
    lambda rng: envrax.evaluate(BATCH, None, rng, 3),
]


@pytest.mark.parametrize(
    ("impl", "run"),
    [
        *(("rbg", run) for run in RUNS[:4]),
        *(pytest.param("rbg", run, marks=pytest.mark.slow) for run in RUNS[4:]),
        ("unsafe_rbg", RUNS[0]),
    ],
)
def test_a_key_counts_as_the_threefry_key_of_its_seed(impl: str, run: Any) -> None:
    assert_trees_equal(run(jax.random.key(7, impl=impl)), run(THREEFRY))


def test_legacy_keys_too() -> None:
    expected = BATCH.reset(THREEFRY)
    with jax.default_prng_impl("rbg"):
        assert_trees_equal(BATCH.reset(jax.random.PRNGKey(7)), expected)


@pytest.mark.parametrize(
    ("impl", "reset"),
    [
        ("rbg", VecEnv(CoinEnv(), 3).reset),
        pytest.param("unsafe_rbg", partial(reset_slots, CoinEnv()), marks=pytest.mark.slow),
    ],
)
def test_under_the_callers_vmap(impl: str, reset: Any) -> None:
    rngs = jax.random.split(jax.random.key(0, impl=impl), (2, 3))
    rngs = rngs if isinstance(reset, partial) else rngs[:, 0]
    obs, _ = jax.jit(jax.vmap(reset))(rngs)
    one = jax.jit(reset)
    for i in range(2):
        np.testing.assert_array_equal(obs[i], one(rngs[i])[0])


@pytest.mark.parametrize(
    ("impl", "autoreset"),
    [("rbg", Compact()), pytest.param("unsafe_rbg", Select(), marks=pytest.mark.slow)],
)
def test_each_episode_begins_in_a_state_of_its_own(impl: str, autoreset: Any) -> None:
    env = VecEnv(CoinEnv(), 64, autoreset=autoreset)
    begin = envrax.start(env, jax.random.key(0, impl=impl))
    _, steps = envrax.rollout(env, None, begin, 20)
    first = np.asarray(steps.obs)[1:][np.asarray(steps.done)[:-1]]
    assert len(first) > 100
    assert len(np.unique(first, axis=0)) == len(first)
