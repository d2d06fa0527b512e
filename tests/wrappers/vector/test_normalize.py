"""Running statistics of a batch: NumPy's over the whole history, and Gymnasium's on the same."""

from functools import partial
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from batched_fakes import OnTheHost
from fakes import CoinConfig, CoinEnv, NestedEnv, ScriptEnv, VectorEnv
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import NormalizeObservation as OfObservations
from gymnasium.wrappers.vector import NormalizeReward as OfRewards
from helpers import assert_trees_equal, jax_flag

from envrax import Box, Dict, Discrete, EpisodeDiscount, ExpandDims, VecEnv
from envrax.autoreset import Select
from envrax.testing import NestedEnv as Mixed
from envrax.testing import check_batched_env
from envrax.wrappers.vector import (
    NormalizeObservation,
    NormalizeReward,
    RecordEpisodeStatistics,
    RunningStatistics,
)


def coins(n: int = 4, **options: Any) -> Any:
    return VecEnv(CoinEnv(CoinConfig(end_rate=0.1)), n, autoreset=Select(), **options)


def scanned(env: Any, n_steps: int, state: Any = None, seed: int = 1) -> Any:
    """First observation, last state, and what each step of random actions returned."""

    def body(state: Any, rng: jax.Array) -> Any:
        obs, state, *rest = env.step(state, env.action_space.sample(rng))
        return state, (obs, *rest)

    def run(state: Any) -> Any:
        first, begun = env.reset(jax.random.key(0))
        state = begun if state is None else state
        rngs = jax.random.split(jax.random.key(seed), n_steps)
        return first, *jax.lax.scan(body, state, rngs)

    return jax.jit(run)(state)


def with_the_first_count(history: np.ndarray) -> tuple[Any, Any, Any]:
    """Count, mean and variance of the history and of the 1e-4 that the count begins with."""
    x, n = history.astype(np.float64), len(history)
    count, mean = n + 1e-4, x.sum(0) / (n + 1e-4)
    return count, mean, (((x - mean) ** 2).sum(0) + 1e-4 * (1 + mean**2)) / count


@jax.jit
def updated(first: Any, history: Any) -> Any:
    """The statistics after the history, and its last batch as they normalise it."""
    statistics = jax.lax.scan(lambda s, x: (s.update(x), None), first, history)[0]
    return statistics, statistics.normalize(history[-1], 1e-8)


@pytest.mark.parametrize(("place", "spread"), [(1000.0, 1.0), (0.0, 1e-3), (-3.0, 100.0)])
def test_no_digits_are_lost_far_from_zero(place: float, spread: float) -> None:
    noise = np.random.default_rng(0).standard_normal((10_000, 2, 3))
    history = (place + spread * noise).astype(np.float32)
    first = RunningStatistics.of(1e-4, np.zeros(3), np.ones(3))
    statistics, _ = updated(first, history)
    _, mean, var = with_the_first_count(history.reshape(-1, 3))
    np.testing.assert_allclose(statistics.var, var, rtol=1e-6)
    np.testing.assert_allclose(statistics.mean, mean, atol=6e-8 * abs(place) + 1e-6 * spread)


@pytest.mark.parametrize(
    ("place", "step", "dtype"),
    [
        (10**9, 1, np.int32),
        (2**32 - 1000, 1, np.uint32),
        (-(10**10), 1, np.int64),
        (1e10, 0.5, np.float64),
    ],
)
def test_no_digits_are_lost_that_float32_cannot_hold(place: Any, step: Any, dtype: Any) -> None:
    """Beginning with the statistics of a data set, because the first ones have mean 0."""
    with jax_flag("jax_enable_x64", np.dtype(dtype).itemsize == 8):
        random = np.random.default_rng(0)
        history = dtype(place) + (step * random.integers(0, 100, (500, 4, 3))).astype(dtype)
        data = history[:100].reshape(-1, 3).astype(np.float64)
        first = RunningStatistics.of(len(data), data.mean(0), data.var(0))
        statistics, seen = updated(first, history[100:])
        wide = history.astype(np.float64).reshape(-1, 3)
        np.testing.assert_allclose(statistics.var, wide.var(0), rtol=1e-4)
        assert seen.dtype == jnp.float32
        exact = (history[-1].astype(np.float64) - wide.mean(0)) / wide.std(0)
        np.testing.assert_allclose(seen, exact, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_the_kit_finds_nothing() -> None:
    env = NormalizeObservation(RecordEpisodeStatistics(coins()))
    check_batched_env(NormalizeReward(env), num_steps=30)


class Replayed(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Gymnasium's side: hands out what it is given."""

    def __init__(self, mode: AutoresetMode, steps: list[tuple[Any, ...]]) -> None:
        self.metadata = {"autoreset_mode": mode}
        self.steps, self.num_envs = steps, len(steps[0][0])
        size = np.shape(steps[0][0])[1:]
        self.single_observation_space = gymnasium.spaces.Box(-np.inf, np.inf, size)
        self.observation_space = gymnasium.vector.utils.batch_space(
            self.single_observation_space, self.num_envs
        )
        self.single_action_space = self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        self.at = 0
        return self.steps[0][0], {}

    def step(self, actions: Any) -> tuple[Any, ...]:
        self.at += 1
        return *self.steps[self.at], {}


class ShortPoles(OnTheHost):
    """Some episodes terminate, and some are truncated."""

    def __init__(self) -> None:
        super().__init__(3)
        make = [partial(gymnasium.make, "CartPole-v1", max_episode_steps=12)] * 3
        self.env = SyncVectorEnv(make, autoreset_mode=AutoresetMode.SAME_STEP)


def test_numpy_and_gymnasium_say_the_same_of_a_batch_on_the_host() -> None:
    """Their arithmetic is in float64."""
    with ShortPoles() as bare, NormalizeReward(NormalizeObservation(ShortPoles()), 0.9) as env:
        obs, inner = bare.reset(jax.random.key(0))
        seen, state = env.reset(jax.random.key(0))
        steps, ours = [(obs, np.zeros(3), np.zeros(3, bool), np.zeros(3, bool))], [(seen, None)]
        for i in range(60):
            actions = np.array([0, 1, i % 2])
            obs, inner, rewards, _, infos = bare.step(inner, actions)
            steps.append((obs.copy(), rewards, infos["terminated"], infos["truncated"]))
            seen, state, paid, *_ = env.step(state, actions)
            ours.append((seen, paid))
    count, mean, var = with_the_first_count(np.concatenate([obs for obs, *_ in steps]))
    statistics = state.env_state.statistics
    assert float(statistics.count) == np.float32(count)
    np.testing.assert_allclose(statistics.mean, mean, rtol=1e-5)
    np.testing.assert_allclose(statistics.var, var, rtol=1e-5)
    assert any(x[2].any() for x in steps) and any(x[3].any() for x in steps)
    # Gymnasium refuses observations of the mode in which our batches reset.
    theirs = OfObservations(Replayed(AutoresetMode.NEXT_STEP, steps))
    paid = OfRewards(Replayed(AutoresetMode.SAME_STEP, steps), gamma=0.9)
    paid.reset()
    np.testing.assert_allclose(ours[0][0], theirs.reset()[0], rtol=1e-4, atol=1e-6)
    # Before 1.4 it took every reset for one in a step of its own: compare until the first end.
    old = tuple(map(int, gymnasium.__version__.split(".")[:2])) < (1, 4)
    for t, (obs, reward) in enumerate(ours[1:]):
        np.testing.assert_allclose(obs, theirs.step([0])[0], rtol=1e-4, atol=1e-6)
        if not (old and any(x[2].any() for x in steps[: t + 1])):
            np.testing.assert_allclose(reward, paid.step([0])[1], rtol=1e-4)


@pytest.mark.slow
def test_frozen_statistics_stay_and_may_be_traced() -> None:
    trained = scanned(NormalizeObservation(coins()), 100)[1].statistics

    @jax.jit
    def evaluate(statistics: Any) -> Any:
        env = NormalizeObservation(coins(), frozen=True, statistics=statistics)
        _, state = env.reset(jax.random.key(0))
        obs, state, *_ = env.step(state, jnp.zeros((4, 2), jnp.float32))
        return obs, state.statistics

    obs, kept = evaluate(trained)
    assert_trees_equal(kept, trained)
    plain_obs = coins().step(coins().reset(jax.random.key(0))[1], np.zeros((4, 2), np.float32))[0]
    expected = (plain_obs - trained.mean) / np.sqrt(trained.var + 1e-8)
    np.testing.assert_allclose(obs, expected, rtol=1e-5)
    paid = RunningStatistics.of(7.0, np.float32(0), np.float32(2))
    frozen = NormalizeReward(coins(), frozen=True, statistics=paid)
    assert_trees_equal(scanned(frozen, 5)[1].statistics, paid)
    # Not frozen, they go on from there, beyond what float32 counts one by one.
    many = RunningStatistics.of(2.0**24, np.zeros(4), np.ones(4))
    state = scanned(NormalizeObservation(coins(1), statistics=many), 999)[1]
    assert float(state.statistics.count) == 2**24 + 1000


@pytest.mark.slow
def test_nested_observations_are_normalised_leaf_by_leaf() -> None:
    class OnlyNumbers(NestedEnv):
        @property
        def observation_space(self) -> Any:
            inner: Any = super().observation_space
            return type(inner)(image=inner["image"], place=inner["both"][1])

        def _obs(self, state: Any) -> Any:
            obs = super()._obs(state)
            return {"image": obs["image"], "place": obs["both"][1]}

    env = NormalizeObservation(VecEnv(OnlyNumbers(), 3))
    first, state, (obs, *_) = scanned(env, 20)
    assert env.observation_space.contains(jax.tree.map(lambda x: x[-1], obs))
    plain_first, _, (plain, *_) = scanned(VecEnv(OnlyNumbers(), 3), 20)
    for name in ("image", "place"):
        shape = (-1, *plain_first[name].shape[1:])
        history = np.concatenate([plain_first[name][None], plain[name]]).reshape(shape)
        _, mean, var = with_the_first_count(history)
        np.testing.assert_allclose(state.statistics.mean[name], mean, rtol=1e-5)
        np.testing.assert_allclose(state.statistics.var[name], var, rtol=1e-5)


class WithClock(CoinEnv):
    """Observations with an entry that is no Box, beside that of `CoinEnv`."""

    @property
    def observation_space(self) -> Any:
        return Dict(clock=Discrete(99), place=super().observation_space)

    def reset(self, rng: jax.Array) -> Any:
        obs, state = super().reset(rng)
        return {"clock": state.step, "place": obs}, state

    def step(self, state: Any, action: Any) -> Any:
        obs, state, *rest = super().step(state, action)
        return {"clock": state.step, "place": obs}, state, *rest


@pytest.mark.slow
def test_a_key_normalises_that_entry_and_clip_bounds_it() -> None:
    """The entry is that of a batch of this entry alone, and the other is as it was."""
    keyed = NormalizeObservation(
        VecEnv(WithClock(), 3, autoreset=Select(), final_obs=True), key="place", clip=0.5
    )
    alone = NormalizeObservation(VecEnv(CoinEnv(), 3, autoreset=Select(), final_obs=True))
    space = Dict(clock=Discrete(99), place=Box(-0.5, 0.5, (4,)))
    assert keyed.single_observation_space == space
    first, state, (obs, _, dones, infos) = scanned(keyed, 30)
    plain_first, plain_state, (plain, *_, plain_infos) = scanned(alone, 30)
    assert_trees_equal(state.statistics, plain_state.statistics)
    pairs = [(first, plain_first), (obs, plain), (infos["final_obs"], plain_infos["final_obs"])]
    pairs = jax.tree.map(np.asarray, pairs)
    for got, normal in pairs:
        assert (abs(normal) > 0.5).any() and (abs(normal) < 0.5).any()
        np.testing.assert_array_equal(got["place"], np.clip(normal, -0.5, 0.5))
        assert got["clock"].dtype == np.int32
    assert keyed.observation_space.contains(first)
    obs, dones, clock = jax.tree.map(np.asarray, (obs, dones, infos["final_obs"]["clock"]))
    assert dones.any() and not first["clock"].any()
    np.testing.assert_array_equal(clock[1:], obs["clock"][:-1] + 1)
    np.testing.assert_array_equal(obs["clock"], np.where(dones, 0, clock))


def test_a_key_normalises_the_first_observations_of_a_mask_too() -> None:
    batch = VecEnv(WithClock(), 4, autoreset=False)
    env = NormalizeObservation(batch, key="place", clip=0.5)
    mask = np.asarray([True, False, False, True])

    @jax.jit
    def run(rng: jax.Array) -> Any:
        obs, state, *_ = env.step(env.reset(rng)[1], jnp.ones((4, 2), jnp.float32))
        after, state = env.reset_where(jnp.asarray(mask), obs, state)
        return obs, after, state.statistics.count

    obs, after, count = jax.tree.map(np.asarray, run(jax.random.key(0)))
    assert after["clock"].tolist() == [0, 1, 1, 0] and count > 9.9
    assert env.observation_space.contains(after)
    np.testing.assert_array_equal(after["place"][1:3], obs["place"][1:3])
    assert (after["place"][mask] != obs["place"][mask]).any()


# Refusals


def test_refusals() -> None:
    wrong = RunningStatistics.of(1.0, np.zeros(3), np.ones(3))
    for make, error, noun in [
        (lambda: NormalizeObservation(VecEnv(Mixed(), 2)), TypeError, "Box"),
        *(
            (lambda x=x: NormalizeObservation(coins(), epsilon=x), ValueError, "epsilon")
            for x in (0.0, np.nan, 1e-50, np.inf)
        ),
        *(
            (lambda x=x: NormalizeObservation(coins(), clip=x), ValueError, "clip")
            for x in (0.0, -1.0, np.nan, np.inf)
        ),
        (lambda: NormalizeObservation(coins(), key="place"), TypeError, "Dict"),
        (lambda: NormalizeObservation(VecEnv(WithClock(), 2), key="plac"), ValueError, "place"),
        (lambda: NormalizeObservation(VecEnv(WithClock(), 2), key="clock"), TypeError, "Box"),
        (lambda: NormalizeReward(coins(), gamma=1.5), ValueError, "gamma"),
        (lambda: NormalizeObservation(coins(), statistics=wrong), ValueError, "shape"),
        (lambda: RunningStatistics.of(0.0, [1.0], [1.0]), ValueError, "expected"),
        (lambda: RunningStatistics.of(1.0, [1.0], [-1.0]), ValueError, "expected"),
    ]:
        with pytest.raises(error, match=noun):
            make()


@pytest.mark.parametrize("inner", [EpisodeDiscount, ExpandDims])
def test_dones_that_are_no_flags_are_refused(inner: Any) -> None:
    env = NormalizeReward(VecEnv(inner(ScriptEnv()), 2))
    _, state = env.reset(jax.random.key(0))
    with pytest.raises(TypeError, match=r"rewards|done"):
        env.step(state, [0, 1])


def test_rewards_of_any_kind_of_number() -> None:
    class Small(VectorEnv):
        def step(self, state: Any, action: Any) -> Any:
            obs, state, _, done, info = super().step(state, action)
            return obs, state, jnp.bfloat16(1), done, info

    env = NormalizeReward(VecEnv(Small(), 2))
    state = jax.eval_shape(env.reset, jax.random.key(0))[1]
    assert jax.eval_shape(env.step, state, jnp.zeros(2, jnp.int32))[2].dtype == jnp.float32


@pytest.mark.parametrize("wrapper", [NormalizeObservation, NormalizeReward])
def test_frozen_statistics_must_be_given(wrapper: Any) -> None:
    with pytest.raises(ValueError, match="statistics"):
        wrapper(coins(), frozen=True)
