"""`evaluate`: against episodes played by hand, and where a naive average is biased."""

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from batched_fakes import OnTheHost
from fakes import CoinConfig, CoinEnv
from helpers import assert_trees_close, assert_trees_equal, slow_but, small_vec
from rollouts.test_rollout import vec_cartpole

import envrax
from envrax import EnvConfig, RecordEpisodeStatistics, VecEnv
from envrax.classic import CartPole as ClassicCartPole
from envrax.testing import CountingEnv, MaskedEnv
from envrax.wrappers.vector import (
    BatchedWrapper,
    NormalizeObservation,
    NormalizeReward,
    RunningStatistics,
)

KEY = jax.random.key(0)


def episodes_in_order(steps: envrax.Transition) -> list[tuple[int, int, float, int]]:
    """Start, slot, return and length of the episodes that ended within a rollout, by start."""
    found: list[tuple[int, int, float, int]] = []
    rewards, dones = np.asarray(steps.reward), np.asarray(steps.done)
    for slot in range(dones.shape[1]):
        begin = 0
        for end in np.flatnonzero(dones[:, slot]):
            total = np.add.accumulate(rewards[begin : end + 1, slot])[-1]  # one after the other
            found.append((begin, slot, float(total), int(end) + 1 - begin))
            begin = int(end) + 1
    return sorted(found)


class Own(BatchedWrapper[Any, Any]):
    """A wrapper that does not say what begins anew in some slots: its slots take no keys."""

    def on_step(self, *stepped: Any) -> Any:
        return stepped


class Sevens(BatchedWrapper[Any, Any]):
    """Overrides the public method: its slots take no keys either."""

    def step(self, state: Any, actions: Any) -> Any:
        obs, *rest = super().step(state, actions)
        return obs * 0 + 7, *rest


@cache
def overridden() -> Any:
    return Sevens(small_vec(CoinEnv(), 3, final_obs=True))


def noisy(policy_state: Any, obs: jax.Array, rng: jax.Array) -> Any:
    """Actions by draws of any number of slots, and nothing that XLA rounds by batch size."""
    return jax.random.uniform(rng, (*obs.shape[:-1], 2), jnp.float32), policy_state, None


def counting(policy_state: Any, obs: jax.Array, rng: jax.Array, first: Any, mask: Any) -> Any:
    """A memory that must begin anew in each episode, and parameters that stay."""
    count = policy_state["count"] + 1
    right = jnp.where(first, count == 1, count > 1)
    action, _, _ = noisy(None, obs, rng)
    action = action * jnp.where(right, policy_state["scale"], jnp.float32(jnp.nan))[..., None]
    return action, {**policy_state, "count": count}, None


COIN = CoinEnv(CoinConfig(end_rate=0.1))


@cache
def twenty() -> Any:
    return envrax.evaluate(COIN, None, KEY, 20)


def test_results_do_not_depend_on_the_number_of_slots() -> None:
    """Bit for bit, those of one environment: the episode follows its key."""
    assert_trees_equal(envrax.evaluate(small_vec(COIN, 64), None, KEY, 20), twenty())


@pytest.mark.slow
def test_nor_do_draws_memories_and_cuts() -> None:
    """Each episode begins with the policy state as given, also with a key for each episode."""
    alone = dict(count=jnp.int32(0), scale=jnp.float32(0.5))
    expected = envrax.evaluate(COIN, counting, KEY, 9, policy_state=alone, max_steps=8)
    assert not np.isnan(expected.returns).any()
    of_one = alone | dict(count=jnp.zeros(1, jnp.int32))
    run = jax.jit(partial(envrax.evaluate, small_vec(COIN, 2), counting, max_steps=8))
    some = run(jax.random.split(KEY, 9)[2:8], policy_state=of_one)
    assert_trees_equal(some, jax.tree.map(lambda x: np.asarray(x)[2:8], expected))
    assert 0 < some.complete.sum() < 6


@pytest.mark.slow
def test_wrappers_of_a_batch_that_say_what_begins_anew() -> None:
    statistics = RunningStatistics.of(4.0, np.zeros(4, np.float32), np.full(4, 2.0, np.float32))
    env = NormalizeObservation(small_vec(COIN, 2), frozen=True, statistics=statistics)
    env = NormalizeReward(env, frozen=True, statistics=RunningStatistics.of(1.0, 0.0, 4.0))
    found, plain = (envrax.evaluate(x, noisy, KEY, 9) for x in (env, COIN))
    assert_trees_equal(found.lengths, plain.lengths)
    assert_trees_close(found.returns, plain.returns / 2, rtol=1e-5)


def test_the_end_and_the_info_of_the_last_step() -> None:
    env = small_vec(RecordEpisodeStatistics(ClassicCartPole(EnvConfig(max_steps=12))), 4)
    cut = envrax.evaluate(env, None, KEY, 12, max_steps=11)
    assert_trees_equal(cut.info["episode"]["l"], np.where(cut.complete, cut.lengths, 0))
    assert 0 < cut.complete.sum() < 12
    assert_trees_equal(cut.terminated, cut.complete)  # no limit before the cut
    found = envrax.evaluate(env, None, KEY, 12)
    assert found.complete.all() and 0 < found.terminated.sum() < 12
    assert_trees_equal(found.terminated, found.info["terminated"])
    assert_trees_equal(~found.terminated, found.info["truncated"])


def test_it_prints_as_a_summary_and_a_fleet_member_by_member() -> None:
    lengths, no = np.full(4, 3, np.int32), np.zeros(4, bool)
    found = envrax.Evaluation(np.float32(lengths), lengths, no, no, {})
    assert "length 3 +- 0" in str(found) and "4 episodes, 4 of them cut" in str(found)
    for fields in ([[x, x] for x in found], [{"0": x, "1": x} for x in found]):
        text = str(envrax.Evaluation(*fields))
        assert text.count("4 episodes, 4 of them cut") == 2 and text.startswith("0:\n")


def test_it_prints_a_row_for_each_index_of_leading_axes() -> None:
    def found(max_steps: Any) -> envrax.Evaluation:
        env = envrax.with_config(CountingEnv(), max_steps=max_steps)
        return envrax.evaluate(env, lambda *_: (1, None, None), KEY, 4, max_steps=3)

    limits = jnp.asarray([[2, 3, 4], [1, 5, 6]])
    header, *rows = str(jax.vmap(jax.vmap(found))(limits)).splitlines()
    assert header.split() == ["return", "length", "episodes", "cut"] and len(rows) == 6
    rows = [" ".join(row.split()) for row in rows]
    assert rows[0] == "0, 0 2 +- 0 2 +- 0 4 0" and rows[-1] == "1, 2 3 +- 0 3 +- 0 4 4"


def running() -> Any:
    return NormalizeReward(NormalizeObservation(small_vec(CoinEnv(), 3)))


@pytest.mark.parametrize("make", slow_but(overridden, values=[overridden, vec_cartpole, running]))
def test_a_batch_without_keys_counts_the_first_that_start(make: Any) -> None:
    """Those of a rollout, in which short episodes are not preferred."""
    found = envrax.evaluate(make(), None, KEY, 10)
    env = make()
    steps = jax.device_get(envrax.rollout(env, None, envrax.start(env, KEY), 150)[1])
    wanted = episodes_in_order(steps)[:10]
    np.testing.assert_allclose(found.returns, [x[2] for x in wanted], rtol=1e-6)
    assert found.lengths.tolist() == [x[3] for x in wanted]
    assert found.complete.all()
    assert make is not overridden or (steps.obs[1:] == 7).all()


@pytest.mark.slow
def test_a_cut_of_a_batch_whose_slots_play_on() -> None:
    """After `max_steps` for each round of episodes no more begin: a warning and a NaN, no 0."""
    env, n_episodes, max_steps = Own(small_vec(COIN, 2)), 40, 5
    missing = "of 40 episodes did not begin"
    with jax.debug_nans(True), pytest.warns(UserWarning, match=missing):
        found = envrax.evaluate(env, None, KEY, n_episodes, max_steps=max_steps)
    steps = envrax.rollout(env, None, envrax.start(env, KEY), 500)[1]
    last = max_steps * n_episodes // 2
    played = [x if x[0] < last else (0, 0, 0.0, 0) for x in episodes_in_order(steps)[:n_episodes]]
    assert found.lengths.tolist() == [min(length, max_steps) for *_, length in played]
    assert found.complete.tolist() == [0 < length <= max_steps for *_, length in played]
    assert_trees_equal(np.isnan(found.returns), np.asarray(found.lengths) == 0)
    assert {0, max_steps} < {*found.lengths.tolist()}


def test_episodes_of_one_environment_run_side_by_side() -> None:
    found = twenty()
    assert found.complete.all()
    for i, rng in enumerate(jax.random.split(KEY, 20)[:6]):
        steps = jax.device_get(envrax.rollout(COIN, None, envrax.start(COIN, rng), 60)[1])
        end = int(np.argmax(steps.done)) + 1
        total = np.add.accumulate(steps.reward[:end])[-1]
        assert (float(found.returns[i]), int(found.lengths[i])) == (float(total), end)


def test_max_steps_cuts() -> None:
    env = CountingEnv(EnvConfig(max_steps=50))
    act: Any = lambda state, obs, rng: (jnp.int32(2), None, None)  # noqa: E731
    found = envrax.evaluate(env, act, KEY, 3, max_steps=7)
    assert found.lengths.tolist() == [7] * 3 and found.returns.tolist() == [14.0] * 3
    assert not found.complete.any()
    exact = envrax.evaluate(env, act, KEY, 3, max_steps=50)
    assert exact.complete.all() and exact.lengths.tolist() == [50] * 3


@pytest.mark.parametrize(
    "env", [CoinEnv(), pytest.param(small_vec(CoinEnv(), 3), marks=pytest.mark.slow)]
)
@pytest.mark.slow
def test_within_the_shard_map_of_the_caller(env: Any) -> None:
    """On one device, whose values are those without it."""
    mesh = jax.make_mesh((1,), ("devices",), axis_types=(jax.sharding.AxisType.Auto,))
    run = jax.vmap(lambda rng: envrax.evaluate(env, None, rng, 4, max_steps=50))
    spec, rngs = jax.sharding.PartitionSpec("devices"), jax.random.split(KEY, 2)
    spread = jax.shard_map(run, mesh=mesh, in_specs=spec, out_specs=spec)
    assert_trees_equal(jax.jit(spread)(rngs), jax.jit(run)(rngs))


class OneByOne(CoinEnv):
    """An environment that works on the host."""

    traceable = False  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]


@pytest.mark.slow
def test_one_environment_on_the_host() -> None:
    ours = envrax.evaluate(OneByOne(), None, jax.random.key(3), 4, max_steps=6)
    assert_trees_equal(ours, envrax.evaluate(CoinEnv(), None, jax.random.key(3), 4, max_steps=6))
    env, other = OneByOne(), CoinEnv()
    steps = [envrax.rollout(x, None, envrax.start(x, jax.random.key(3)), 12) for x in (env, other)]
    assert_trees_equal(*steps)


KEYS = jax.random.split(KEY, 4)
ONE, BATCH = CountingEnv(), small_vec(CoinEnv(), 3)
DISCOUNT = VecEnv(envrax.EpisodeDiscount(ONE), 2)


@pytest.mark.parametrize(
    ("env", "rng", "n_episodes", "max_steps", "error", "noun"),
    [
        (ONE, KEY, 0, None, ValueError, "n_episodes"),
        (ONE, KEY, 1, 0, ValueError, "max_steps"),
        (ONE, KEY, None, None, TypeError, "n_episodes"),
        (DISCOUNT, KEY, 1, None, TypeError, "`done`"),
        (OnTheHost(2), KEY, 1, None, TypeError, "final_obs"),
        (BATCH, KEYS[:0], None, None, ValueError, "number of keys to be at least 1; got 0"),
        (BATCH, KEYS, 5, None, ValueError, "a key for each of 5 episodes; got 4"),
        (Own(BATCH), KEYS, None, None, ValueError, "one PRNG key"),
        (envrax.MultiVecEnv([BATCH]), KEYS, None, None, ValueError, "one PRNG key"),
    ],
)
def test_refusals(
    env: Any, rng: Any, n_episodes: Any, max_steps: Any, error: Any, noun: str
) -> None:
    with pytest.raises(error, match=noun):
        envrax.evaluate(env, None, rng, n_episodes, max_steps=max_steps)


@pytest.mark.slow
def test_a_policy_for_a_fixed_number_of_slots_plays_as_rollout() -> None:
    """If it is asked to, or if its actions have a row for each slot whatever it observes."""
    batch = small_vec(COIN, 3, final_obs=True)

    def everyone(memory: jax.Array, obs: jax.Array, rng: jax.Array, first: jax.Array) -> Any:
        memory = jnp.where(first.reshape(3, 1), 0, memory) + 1
        return jnp.tanh(memory * obs[:, :2]), memory, None

    def rows(memory: jax.Array, obs: jax.Array, rng: jax.Array) -> Any:
        return jax.random.uniform(rng, (3, 2), jnp.float32), memory, None

    memory = jnp.full((3, 2), 7, jnp.float32)
    how: Any = dict(policy_state=memory, as_rollout=True)
    found = envrax.evaluate(batch, everyone, KEY, 12, **how)
    at = envrax.start(batch, KEY, memory)
    wanted = episodes_in_order(envrax.rollout(batch, everyone, at, 150)[1])[:12]
    assert found.lengths.tolist() == [x[3] for x in wanted]
    found = envrax.evaluate(batch, rows, KEY, 12, policy_state=memory)
    assert_trees_equal(found, envrax.evaluate(batch, rows, KEY, 12, **how))
    with pytest.raises(TypeError, match="reshape") as error:
        envrax.evaluate(batch, everyone, KEY, 12, policy_state=memory)
    assert any("pass `as_rollout=True`" in note for note in error.value.__notes__)
    keys = jax.random.split(KEY, 4)
    with pytest.raises(ValueError, match="one PRNG key"):
        envrax.evaluate(batch, rows, keys, policy_state=memory)


def test_a_policy_of_one_environment_is_not_taken_for_one_of_all_slots() -> None:
    """What it takes for a feature is an observation, here with as many features as slots."""

    def of_one(state: Any, obs: jax.Array, rng: jax.Array) -> Any:
        return (obs[2] > 0).astype(jnp.int32), state, None

    with pytest.raises(ValueError, match=r"shape \(1,\), int32; got \(4,\)"):
        envrax.evaluate(VecEnv(ClassicCartPole(), 4), of_one, KEY, 2)


def test_an_error_of_a_policy_is_seen() -> None:
    def divides(state: Any, obs: jax.Array, rng: jax.Array) -> Any:
        return jnp.zeros((*obs.shape[:-1], 2)) / (1 // (obs.shape[0] - 1)), state, None

    with pytest.raises(ZeroDivisionError):
        envrax.evaluate(VecEnv(CoinEnv(), 3), divides, KEY, 2)
    with pytest.raises(IndexError) as error:  # a policy of batches
        envrax.evaluate(CoinEnv(), lambda state, obs, rng: (obs[:, 0], state, None), KEY, 2)
    assert any("called with observations of shape (4,)" in note for note in error.value.__notes__)


def test_a_step_of_ones_own_is_refused_where_it_resets_nothing() -> None:
    """A rollout over such a batch would go on behind the ends of its episodes."""

    class Own(VecEnv[Any, Any, Any, Any]):
        def step(self, state: Any, actions: Any) -> Any:
            return super().step(state, actions)

    env = Own(CountingEnv(), 2, autoreset=False, final_obs=True)
    with pytest.raises(TypeError, match="with auto-reset; got one that overrides `step`"):
        jax.eval_shape(lambda: envrax.rollout(env, None, envrax.start(env, KEY), 3))
    sevens = Sevens(VecEnv(CoinEnv(), 2))
    with pytest.raises(TypeError, match="final_obs=True"):
        jax.eval_shape(lambda: envrax.rollout(sevens, noisy, envrax.start(sevens, KEY), 3))


def test_nothing_is_transferred_without_asking_and_no_key_is_used_twice() -> None:
    with jax.transfer_guard("disallow"), jax.debug_key_reuse(True):
        one, more = jax.random.split(KEY)
        envrax.evaluate(ONE, None, one, 3)
        envrax.evaluate(BATCH, noisy, jax.random.split(more, 4))


def test_a_step_that_changes_a_dtype_is_named() -> None:
    class Changes(CountingEnv):
        def step(self, state: Any, action: Any) -> Any:
            obs, state, *rest = super().step(state, action)
            return obs, state.replace(number=state.number.astype(jnp.float32)), *rest

    with pytest.raises(TypeError, match=r"reset and step to agree on `state\.number`"):
        envrax.evaluate(Changes(), None, KEY, 2)


@pytest.mark.slow
def test_masks_are_kept_to() -> None:
    """`MaskedEnv` ends an episode at an illegal action."""
    found = envrax.evaluate(MaskedEnv(), None, KEY, 5)
    assert (found.lengths == MaskedEnv().config.max_steps).all()
