"""`evaluate`: against episodes played by hand, and where a naive average is biased."""

import gc
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import chex
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from batched_fakes import OnTheHost
from fakes import CoinConfig, CoinEnv
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from helpers import assert_trees_close, assert_trees_equal, slow_but

import envrax
from envrax import Box, Discrete, EnvConfig, EnvState, JaxEnv, RecordEpisodeStatistics, VecEnv
from envrax.interop import from_gymnasium_vec
from envrax.testing import CountingEnv, MaskedEnv
from envrax.wrappers.vector import (
    BatchedWrapper,
    NormalizeObservation,
    NormalizeReward,
    RunningStatistics,
)
from envrax_classic import CartPole as ClassicCartPole

KEY = jax.random.key(0)


@chex.dataclass
class ToldState(EnvState):
    length: jax.Array


class ShortOrLong(JaxEnv[Box, Discrete, ToldState, EnvConfig]):
    """One step that pays 0, or nine steps that pay 1 each, at even odds: 4.5 on average."""

    @property
    def observation_space(self) -> Box:
        return Box(0.0, 9.0, (1,))

    @property
    def action_space(self) -> Discrete:
        return Discrete(2)

    def reset(self, rng: jax.Array) -> tuple[Any, ToldState]:
        rng, key = jax.random.split(rng)
        length = jnp.where(jax.random.bernoulli(key), jnp.int32(9), jnp.int32(1))
        state = ToldState(rng=rng, step=jnp.int32(0), done=jnp.bool_(False), length=length)
        return jnp.zeros(1), state

    def step(self, state: ToldState, action: Any) -> tuple[Any, ...]:
        step = state.step + 1
        state = state.replace(step=step, done=step >= state.length)
        reward = jnp.where(state.length > 1, jnp.float32(1), jnp.float32(0))
        return jnp.ones(1) * step.astype(jnp.float32), state, reward, state.done, {}


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


@pytest.mark.parametrize("max_steps", [None, 5])
@pytest.mark.parametrize("policy", [None, noisy], ids=["uniform", "noisy"])
def test_results_do_not_depend_on_the_number_of_slots(policy: Any, max_steps: Any) -> None:
    """Bit for bit, those of one environment: the episode follows its key, and so do the draws."""
    env = CoinEnv(CoinConfig(end_rate=0.1))
    how: Any = dict(max_steps=max_steps)
    expected = envrax.evaluate(env, policy, jax.random.key(0), 20, **how)
    assert expected.complete.all() == (max_steps is None)
    for n in (1, 8, 64):
        found = envrax.evaluate(VecEnv(env, n), policy, jax.random.key(0), 20, **how)
        assert_trees_equal(found, expected)
    keys = jax.random.split(jax.random.key(0), 20)
    some = envrax.evaluate(VecEnv(env, 3), policy, keys[5:9], **how)
    assert_trees_equal(some, jax.tree.map(lambda x: x[5:9], expected))


def test_each_episode_begins_with_the_policy_state_as_given() -> None:
    env = CoinEnv(CoinConfig(end_rate=0.2))
    scale = jnp.float32(0.5)
    alone = dict(count=jnp.int32(0), scale=scale)
    expected = envrax.evaluate(env, counting, jax.random.key(0), 9, policy_state=alone)
    assert not np.isnan(expected.returns).any()
    of_one = dict(count=jnp.zeros(1, jnp.int32), scale=scale)
    for n in (2, 16):
        batch = VecEnv(env, n)
        run = jax.jit(partial(envrax.evaluate, batch, counting, n_episodes=9))
        found = envrax.evaluate(batch, counting, jax.random.key(0), 9, policy_state=of_one)
        assert_trees_equal(found, expected)
        assert_trees_equal(run(jax.random.key(0), policy_state=of_one), expected)


def test_wrappers_of_a_batch_that_say_what_begins_anew() -> None:
    statistics = RunningStatistics.of(4.0, np.zeros(4, np.float32), np.full(4, 2.0, np.float32))
    how: Any = dict(frozen=True, statistics=statistics)
    found: list[Any] = []
    for n in (2, 16):
        env = NormalizeObservation(VecEnv(CoinEnv(), n), **how)
        env = NormalizeReward(env, frozen=True, statistics=RunningStatistics.of(1.0, 0.0, 4.0))
        found.append(envrax.evaluate(env, noisy, jax.random.key(0), 9))
    assert_trees_equal(*found)
    plain = envrax.evaluate(CoinEnv(), noisy, jax.random.key(0), 9)
    assert_trees_close(found[0].returns, plain.returns / 2, rtol=1e-5)


def test_the_end_and_the_info_of_the_last_step() -> None:
    env = ClassicCartPole(EnvConfig(max_steps=25))
    batch = RecordEpisodeStatistics(env)
    found = envrax.evaluate(VecEnv(batch, 4), None, jax.random.key(0), 12, max_steps=20)
    assert_trees_equal(found.info["episode"]["l"], np.where(found.complete, found.lengths, 0))
    assert_trees_equal(found.terminated, found.complete)  # no limit before the cut
    short = ClassicCartPole(EnvConfig(max_steps=12))
    found = envrax.evaluate(short, None, jax.random.key(0), 12)
    assert found.complete.all() and 0 < found.terminated.sum() < 12
    assert_trees_equal(found.terminated, found.info["terminated"])
    assert_trees_equal(~found.terminated, found.info["truncated"])


def test_it_prints_as_a_summary() -> None:
    env = CountingEnv(EnvConfig(max_steps=5))
    text = str(envrax.evaluate(env, None, jax.random.key(0), 4, max_steps=3))
    assert "length 3 +- 0" in text and "4 episodes, 4 of them cut" in text


@pytest.mark.parametrize("n_episodes", slow_but(25, values=[2, 3, 25]))
def test_a_batch_without_keys_counts_the_first_that_start(n_episodes: int) -> None:
    env = Own(VecEnv(CoinEnv(), 3))
    found = envrax.evaluate(env, None, jax.random.key(1), n_episodes)
    steps = envrax.rollout(env, None, envrax.start(env, jax.random.key(1)), 150)[1]
    wanted = episodes_in_order(steps)[:n_episodes]
    assert_trees_equal(found.returns, jnp.asarray([x[2] for x in wanted], jnp.float32))
    assert_trees_equal(found.lengths, jnp.asarray([x[3] for x in wanted], jnp.int32))
    assert found.complete.all()


def test_episodes_of_one_environment_run_side_by_side() -> None:
    env = CoinEnv()
    found = envrax.evaluate(env, None, jax.random.key(2), 6)
    for i, rng in enumerate(jax.random.split(jax.random.key(2), 6)):
        steps = envrax.rollout(env, None, envrax.start(env, rng), 60)[1]
        end = int(np.argmax(steps.done)) + 1
        total = np.add.accumulate(np.asarray(steps.reward[:end]))[-1]
        assert (float(found.returns[i]), int(found.lengths[i])) == (float(total), end)


@pytest.mark.parametrize(
    "make", [ShortOrLong, pytest.param(lambda: VecEnv(ShortOrLong(), 16), marks=pytest.mark.slow)]
)
def test_it_is_not_biased_towards_short_episodes(make: Callable[[], Any]) -> None:
    """The mean return is 4.5; the first episodes that end give less."""
    found = envrax.evaluate(make(), None, jax.random.key(0), 2000)
    # Three standard errors of 4.5 / sqrt(2000) each.
    assert abs(float(found.returns.mean()) - 4.5) < 0.31
    vec = VecEnv(ShortOrLong(), 1000)
    steps = envrax.rollout(vec, None, envrax.start(vec, jax.random.key(0)), 8)[1]
    first_to_end = episodes_in_order(steps)[:1000]
    assert sum(total for _, _, total, _ in first_to_end) == 0


def test_max_steps_cuts() -> None:
    env = CountingEnv(EnvConfig(max_steps=50))
    act: Any = lambda state, obs, rng: (jnp.int32(2), None, None)  # noqa: E731
    found = envrax.evaluate(env, act, jax.random.key(0), 3, max_steps=7)
    assert found.lengths.tolist() == [7] * 3 and found.returns.tolist() == [14.0] * 3
    assert not found.complete.any()
    exact = envrax.evaluate(env, act, jax.random.key(0), 3, max_steps=50)
    assert exact.complete.all() and exact.lengths.tolist() == [50] * 3


@pytest.mark.slow
def test_max_steps_of_a_batch_whose_slots_play_on() -> None:
    env = Own(VecEnv(CountingEnv(EnvConfig(max_steps=1000)), 2))
    with pytest.warns(UserWarning, match="1 of 3 episodes did not begin"):
        found = envrax.evaluate(env, None, jax.random.key(0), 3, max_steps=7)
    assert found.lengths.tolist() == [7, 7, 0] and not found.complete.any()
    assert np.isnan(found.returns).tolist() == [False, False, True]  # and no 0 in a mean
    mixed = Own(VecEnv(ShortOrLong(), 2))
    with pytest.warns(UserWarning, match="of 40 episodes did not begin"):
        cut = envrax.evaluate(mixed, None, jax.random.key(0), 40, max_steps=5)
    assert set(cut.lengths.tolist()) == {0, 1, 5}  # blocked slots kept some from beginning
    assert np.array_equal(cut.complete, cut.lengths == 1)
    long_enough = envrax.evaluate(mixed, None, jax.random.key(0), 40, max_steps=9)
    assert long_enough.complete.all()


@pytest.mark.slow
def test_under_the_callers_jit_with_a_memory() -> None:
    env = VecEnv(CoinEnv(), 3)

    def counts(memory: jax.Array, obs: Any, rng: jax.Array) -> Any:
        return noisy(None, obs, rng)[0], memory + 1, None

    def run(rng: jax.Array) -> Any:
        return envrax.evaluate(env, counts, rng, 4, policy_state=jnp.int32(0))

    assert_trees_equal(jax.jit(run)(jax.random.key(0)), run(jax.random.key(0)))
    assert jax.vmap(run)(jax.random.split(jax.random.key(0), 2)).returns.shape == (2, 4)


@pytest.mark.parametrize(
    "env", [CoinEnv(), pytest.param(VecEnv(CoinEnv(), 3), marks=pytest.mark.slow)]
)
def test_within_the_shard_map_of_the_caller(env: Any) -> None:
    """On one device, whose values are those without it."""
    mesh = jax.make_mesh((1,), ("devices",), axis_types=(jax.sharding.AxisType.Auto,))
    run = jax.vmap(lambda rng: envrax.evaluate(env, None, rng, 4, max_steps=50))
    spec, rngs = jax.sharding.PartitionSpec("devices"), jax.random.split(jax.random.key(0), 2)
    spread = jax.shard_map(run, mesh=mesh, in_specs=spec, out_specs=spec)
    assert_trees_equal(jax.jit(spread)(rngs), jax.jit(run)(rngs))


def test_masks_are_kept_to() -> None:
    """`MaskedEnv` ends an episode at an illegal action."""
    found = envrax.evaluate(MaskedEnv(), None, jax.random.key(0), 5)
    assert (found.lengths == MaskedEnv().config.max_steps).all()


def vec_cartpole(n: int) -> Any:
    make = [lambda: gymnasium.make("CartPole-v1")] * n
    return from_gymnasium_vec(SyncVectorEnv(make, autoreset_mode=AutoresetMode.SAME_STEP))


def test_on_the_host() -> None:
    found = envrax.evaluate(vec_cartpole(3), None, jax.random.key(1), 7)
    env = vec_cartpole(3)
    steps = envrax.rollout(env, None, envrax.start(env, jax.random.key(1)), 150)[1]
    wanted = episodes_in_order(steps)[:7]
    assert found.returns.tolist() == [x[2] for x in wanted]
    assert found.lengths.tolist() == [x[3] for x in wanted]
    assert found.complete.all()


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


@pytest.mark.parametrize(
    ("env", "n_episodes", "max_steps", "error", "noun"),
    [
        (CountingEnv(), 0, None, ValueError, "n_episodes"),
        (CountingEnv(), 1, 0, ValueError, "max_steps"),
        (CountingEnv(), None, None, TypeError, "n_episodes"),
        (VecEnv(envrax.EpisodeDiscount(CountingEnv()), 2), 1, None, TypeError, "`done`"),
        (OnTheHost(2), 1, None, TypeError, "final_obs"),
    ],
)
def test_refusals(env: Any, n_episodes: int, max_steps: Any, error: Any, noun: str) -> None:
    with pytest.raises(error, match=noun):
        envrax.evaluate(env, None, jax.random.key(0), n_episodes, max_steps=max_steps)


def test_a_policy_for_a_fixed_number_of_slots_plays_as_rollout() -> None:
    """By name, or where its actions have a row for each slot whatever it gets."""
    env = CoinEnv(CoinConfig(end_rate=0.2))
    batch = VecEnv(env, 3, final_obs=True)

    def everyone(memory: jax.Array, obs: jax.Array, rng: jax.Array, first: jax.Array) -> Any:
        memory = jnp.where(first.reshape(3, 1), 0, memory) + 1
        return jnp.tanh(memory * obs[:, :2]), memory, None

    def rows(memory: jax.Array, obs: jax.Array, rng: jax.Array) -> Any:
        return jax.random.uniform(rng, (3, 2), jnp.float32), memory, None

    memory = jnp.full((3, 2), 7, jnp.float32)
    for policy, how in ((everyone, dict(as_rollout=True)), (rows, {})):
        found = envrax.evaluate(batch, policy, KEY, 12, policy_state=memory, **how)
        at = envrax.start(batch, KEY, memory)
        wanted = episodes_in_order(envrax.rollout(batch, policy, at, 150)[1])[:12]
        assert found.lengths.tolist() == [x[3] for x in wanted]
    with pytest.raises(TypeError, match="reshape") as error:
        envrax.evaluate(batch, everyone, KEY, 12, policy_state=memory)
    assert any("pass `as_rollout=True`" in note for note in error.value.__notes__)
    keys = jax.random.split(KEY, 4)
    with pytest.raises(ValueError, match="one PRNG key"):
        envrax.evaluate(batch, rows, keys, policy_state=memory)


def test_an_error_of_a_policy_is_seen() -> None:
    def divides(state: Any, obs: jax.Array, rng: jax.Array) -> Any:
        return jnp.zeros((*obs.shape[:-1], 2)) / (1 // (obs.shape[0] - 1)), state, None

    with pytest.raises(ZeroDivisionError):
        envrax.evaluate(VecEnv(CoinEnv(), 3), divides, KEY, 2)


def test_what_mixes_the_slots_or_is_overridden_does_not_play_by_keys() -> None:
    class Sevens(BatchedWrapper[Any, Any]):
        def step(self, state: Any, actions: Any) -> Any:
            obs, *rest = super().step(state, actions)
            return obs * 0 + 7, *rest

    batch = VecEnv(CoinEnv(), 2, final_obs=True)
    for env in (Sevens(batch), NormalizeObservation(batch), NormalizeReward(batch)):
        assert env.copied_env is None
        found = envrax.evaluate(env, noisy, KEY, 5)
        steps = envrax.rollout(env, noisy, envrax.start(env, KEY), 150)[1]
        wanted = [x[3] for x in episodes_in_order(steps)[:5]]
        assert found.lengths.tolist() == wanted
        assert not isinstance(env, Sevens) or (steps.obs[1:] == 7).all()
    with pytest.raises(TypeError, match="final_obs=True"):
        own = Sevens(VecEnv(CoinEnv(), 2))
        envrax.rollout(own, noisy, envrax.start(own, KEY), 3)


def test_a_step_of_ones_own_is_refused_where_it_resets_nothing() -> None:
    """A rollout over such a batch would go on behind the ends of its episodes."""

    class Own(VecEnv[Any, Any, Any, Any]):
        def step(self, state: Any, actions: Any) -> Any:
            return super().step(state, actions)

    env = Own(CountingEnv(), 2, autoreset=False, final_obs=True)
    at = envrax.start(env, KEY)
    with pytest.raises(TypeError, match="with auto-reset; got one that overrides `step`"):
        envrax.rollout(env, None, at, 3)
    plain = VecEnv(CountingEnv(), 2, autoreset=False)
    steps = envrax.rollout(plain, None, envrax.start(plain, KEY), 12)[1]
    assert steps.done.sum() == 4


def test_no_key_is_used_twice_and_no_batch_is_kept() -> None:
    with jax.debug_key_reuse(True):
        envrax.evaluate(VecEnv(CoinEnv(), 4), noisy, jax.random.key(0), 6)
    batch = VecEnv(CoinEnv(), 2, autoreset=False, final_obs=True)
    envrax.evaluate(batch, None, jax.random.key(0), 2)
    kept = weakref.ref(batch)
    del batch
    jax.clear_caches()
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("make", [CoinEnv, lambda: VecEnv(CoinEnv(), 4)])
def test_nothing_is_transferred_without_asking(make: Any) -> None:
    one = jax.random.key(0)
    each = jax.random.split(one, 3)
    env = make()
    with jax.transfer_guard("disallow"):
        for given in (one, each):
            envrax.evaluate(env, None, given, 3)


def test_a_fleet_prints_member_by_member() -> None:
    batch = VecEnv(CountingEnv(), 2)
    for fleet in (envrax.MultiVecEnv([batch, batch]), envrax.MultiVecEnv({"0": batch, "1": batch})):
        text = str(envrax.evaluate(fleet, None, jax.random.key(0), 3))
        assert text.count("3 episodes, 0 of them cut") == 2 and text.startswith("0:\n")


def test_one_environment_under_vmap_from_its_start() -> None:
    env = ClassicCartPole()
    rngs = jax.random.split(jax.random.key(0), 3)
    obs = jax.vmap(lambda rng: envrax.start(env, rng).obs)(rngs)
    assert_trees_equal(obs[1], envrax.start(env, rngs[1]).obs)


def test_refusals_of_keys() -> None:
    keys = jax.random.split(jax.random.key(0), 4)
    batch = VecEnv(CoinEnv(), 3)
    with pytest.raises(ValueError, match="number of keys to be at least 1; got 0"):
        envrax.evaluate(batch, None, keys[:0])
    with pytest.raises(ValueError, match="a key for each of 5 episodes; got 4"):
        envrax.evaluate(batch, None, keys, 5)
    with pytest.raises(ValueError, match="one PRNG key"):
        envrax.evaluate(Own(batch), None, keys)
    with pytest.raises(ValueError, match="one PRNG key"):
        envrax.evaluate(envrax.MultiVecEnv([batch]), None, keys)


def test_what_did_not_begin_is_a_warning_and_a_nan_and_no_error() -> None:
    with jax.debug_nans(True), pytest.warns(UserWarning, match="3 of 9 episodes did not begin"):
        env = Own(VecEnv(CountingEnv(), 2))
        found = envrax.evaluate(env, None, jax.random.key(0), 9, max_steps=3)
    assert np.isnan(found.returns[-1]) and not np.isnan(found.returns[0])


def test_a_step_that_changes_a_dtype_is_named() -> None:
    class Changes(CountingEnv):
        def step(self, state: Any, action: Any) -> Any:
            obs, state, *rest = super().step(state, action)
            return obs, state.replace(number=state.number.astype(jnp.float32)), *rest

    with pytest.raises(TypeError, match=r"reset and step to agree on `state\.number`"):
        envrax.evaluate(Changes(), None, jax.random.key(0), 2)
