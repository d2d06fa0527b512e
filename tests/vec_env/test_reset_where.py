"""Auto-reset off, and episodes that begin in the slots of a mask."""

from collections import OrderedDict
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from batched_fakes import OnTheHost
from fakes import CoinConfig, CoinEnv, PixelEnv
from helpers import assert_trees_close, assert_trees_equal, plain, slow_but, small_vec
from reset_after_envs import CountEpisodes

import envrax
from envrax import (
    Box,
    Dict,
    Discrete,
    FrameStackObservation,
    Tuple,
    VecEnv,
    evaluate,
    rollout,
    start,
)
from envrax.autoreset import Select
from envrax.multi_agent import agents_as_slots
from envrax.testing import CountingEnv, NimWorld, report_batched_env
from envrax.wrappers.vector import (
    BatchedWrapper,
    NormalizeObservation,
    NormalizeReward,
    RecordEpisodeStatistics,
)

KEY = jax.random.key(0)
N = 8
STEPS = 40


def coin(reset_kind: str = "plain") -> CoinEnv:
    return CoinEnv(CoinConfig(end_rate=0.4, reset_kind=reset_kind))


ENVS: dict[str, Any] = {
    "stack": lambda: envrax.RecordEpisodeStatistics(FrameStackObservation(PixelEnv(), n_stack=2)),
    "reset_after": lambda: CountEpisodes(coin("loop")),
}


@cache
def off() -> Any:
    return VecEnv(coin(), N, autoreset=False, final_obs=True)


def play(env: Any, resets: bool, n_steps: int = STEPS) -> Any:
    """The steps of a run with random actions; `resets` where the batch does not do it."""

    def one(carry: Any, key: jax.Array) -> Any:
        obs, state, rewards, dones, infos = env.step(carry[1], env.action_space.sample(key))
        if resets:
            obs, state = env.reset_where(dones, obs, state)
        return (obs, state), (obs, rewards, dones, infos)

    end, steps = jax.lax.scan(one, env.reset(KEY), jax.random.split(KEY, n_steps))
    return end, steps


@pytest.mark.parametrize("name", slow_but("reset_after", values=ENVS))
def test_resets_of_what_ended_equal_auto_reset(name: str) -> None:
    """Bit for bit, in every result and at the end of the run."""
    # The strategy of the other one is chosen.
    expected = play(VecEnv(ENVS[name](), N, autoreset=Select()), False)
    assert_trees_equal(play(VecEnv(ENVS[name](), N, autoreset=False), True), expected)
    assert expected[1][2].sum() > N


@pytest.mark.slow
def test_worlds_agents_and_rewards_by_their_statistics() -> None:
    def make(**options: Any) -> Any:
        env = NormalizeReward(VecEnv(NimWorld(), 4, **options))
        return agents_as_slots(env, env.agents[:1])

    assert_trees_equal(play(make(autoreset=False), True), play(make(), False))


@pytest.mark.slow
def test_statistics_of_rewards_begin_anew_in_the_slots_of_the_mask_only() -> None:
    """The discounted return of a slot that was cut is 0, and those of the others go on."""
    env = NormalizeReward(off())
    obs, state, *_ = env.step(env.reset(KEY)[1], jnp.ones((N, 2), jnp.float32))
    mask = np.arange(N) < 3
    _, cut = env.reset_where(mask, obs, state)
    before = np.asarray(state.returns)
    assert_trees_equal(cut.returns, np.where(mask, np.float32(0), before))
    assert before[~mask].any()
    assert_trees_equal(cut.statistics, state.statistics)


def test_statistics_of_observations_count_the_first_ones_of_the_mask() -> None:
    inner = off()
    env = NormalizeObservation(inner)
    obs, state = env.reset(KEY)
    seen, _ = inner.reset(KEY)
    mask = np.arange(N) % 3 == 0
    after, state = env.reset_where(mask, obs, state, jax.random.key(1))
    first, _ = inner.reset(jax.random.key(1))
    obs, after, first = map(np.asarray, (obs, after, first))
    samples = np.concatenate([np.asarray(seen), first[mask]])
    assert_trees_close(state.statistics.mean, samples.mean(0), rtol=1e-3)
    assert_trees_close(state.statistics.var, samples.var(0), rtol=1e-3)
    assert float(state.statistics.count) == pytest.approx(N + mask.sum(), abs=1e-3)
    assert_trees_equal(after[~mask], obs[~mask])
    scale = np.sqrt(np.asarray(state.statistics.var) + env.epsilon)
    normalized = (first - np.asarray(state.statistics.mean)) / scale
    assert_trees_close(after[mask], normalized[mask], rtol=1e-5)
    _, same = env.reset_where(np.zeros(N, bool), after, state, jax.random.key(1))
    assert_trees_equal(same.statistics, state.statistics)


def _rows(tree: Any, mask: Any) -> Any:
    return jax.tree.map(lambda x: x[mask], tree)


def test_masks_equal_a_loop_by_hand() -> None:
    """Any mask, not only that of ends: slot by slot, by `reset_after` or the keys of a reset."""
    env = CountEpisodes(coin())
    batch = VecEnv(env, 4, autoreset=False)
    reset = jax.jit(lambda rng, k: env.reset(jax.random.split(rng, 4)[k]))
    reset_after = jax.jit(lambda state, k: env.reset_after(_rows(state, k)))
    obs, state = batch.reset(KEY)
    draw = np.random.default_rng(0)
    for rng in (None, jax.random.key(5), None, jax.random.key(6)):
        actions = draw.uniform(-1, 1, (4, 2)).astype(np.float32)
        obs, state, *_ = batch.step(state, actions)
        mask = draw.random(4) < 0.5
        wanted = jax.tree.map(lambda x: np.array(plain(x)), (obs, state))
        for k in np.flatnonzero(mask):
            begun = reset_after(state, k) if rng is None else reset(rng, k)
            for rows, row in zip(*map(jax.tree.leaves, (wanted, begun)), strict=True):
                rows[k] = plain(row)
        obs, state = batch.reset_where(mask, obs, state, rng)
        assert_trees_equal(jax.tree.map(plain, (obs, state)), wanted)


@pytest.mark.slow
def test_under_vmap_and_grad() -> None:
    env = off()
    obs, states = jax.jit(jax.vmap(env.reset))(jax.random.split(KEY, 2))
    masks = np.arange(2 * N).reshape(2, N) % 3 == 0
    together = jax.jit(jax.vmap(env.reset_where))(masks, obs, states)
    for i in range(2):
        expected = env.reset_where(masks[i], *_rows((obs, states), i))
        assert_trees_equal(_rows(together, i), expected)
    seen = lambda obs: env.reset_where(masks[0], obs, _rows(states, 0))[0].sum()  # noqa: E731
    slope = jax.jit(jax.grad(seen))(obs[0])
    assert_trees_equal(slope, np.where(masks[0][:, None], np.float32(0), np.ones_like(slope)))


def test_off_an_ended_slot_does_what_its_environment_does() -> None:
    """`final_obs` is `obs`, and the state is the last one of the episode."""
    env = off()
    _, state = env.reset(KEY)
    step = jax.jit(jax.vmap(coin().step))
    for i in range(20):
        actions = env.action_space.sample(jax.random.key(i))
        expected = step(state, actions)
        obs, state, rewards, dones, infos = env.step(state, actions)
        assert_trees_equal((obs, state, rewards, dones), expected[:4])
        assert_trees_equal(infos["final_obs"], obs)


@pytest.mark.slow
def test_rollouts_and_evaluations_have_auto_reset_again() -> None:
    on = small_vec(coin(), N)
    found, expected = (rollout(env, None, start(env, KEY), STEPS) for env in (off(), on))
    assert_trees_equal(found[0], expected[0])
    assert_trees_equal(found[1]._replace(info={}), expected[1]._replace(info={}))
    assert evaluate(off(), None, KEY, 20).complete.all()


@pytest.mark.slow
def test_the_kit_takes_a_batch_without_auto_reset() -> None:
    report = report_batched_env(VecEnv(coin(), 4, autoreset=False))
    report.raise_if_any()
    assert "auto-reset is off" in str(report)


class Own(BatchedWrapper[Any, Any]):
    """Changes the first observations, and says nothing of those of a mask."""

    def on_reset(self, obs: Any) -> Any:
        return obs * 2, {}


def test_refusals() -> None:
    env = off()
    obs, state = env.reset(KEY)
    mask = np.zeros(N, bool)
    for error, message, call in [
        (TypeError, "mask that is bool", lambda: env.reset_where(np.zeros(N), obs, state)),
        (ValueError, r"shape \(8,\)", lambda: env.reset_where(mask[:2], obs, state)),
        (ValueError, r"obs of shape \(8, 4\)", lambda: env.reset_where(mask, obs[:2], state)),
        (TypeError, "of 8 slots", lambda: env.reset_where(mask, obs, obs)),
        (TypeError, "key", lambda: env.reset_where(mask, obs, state, 3)),
        (TypeError, "mask, obs, state", lambda: env.reset_where(mask, obs, obs)),
    ]:
        with pytest.raises(error, match=message):
            call()
    host = OnTheHost(2)
    with pytest.raises(NotImplementedError, match="expected a batch that begins"):
        host.reset_where(np.zeros(host.n_slots, bool), None, None)
    own = Own(off())
    obs, state = own.reset(KEY)
    with pytest.raises(NotImplementedError, match="Override `on_reset_where`"):
        own.reset_where(mask, obs, state)
    with pytest.raises(TypeError, match="BatchedWrapperState"):
        own.reset_where(mask, obs, state.env_state)


@pytest.mark.slow
def test_wrappers_around_agents_as_slots_know_which_slots_begin() -> None:
    """A mask of one agent begins its world: for the wrapper too."""
    slots = agents_as_slots(VecEnv(NimWorld(), 2, autoreset=False))
    wrapped = RecordEpisodeStatistics(slots)
    found: list[Any] = []
    for env in (slots, wrapped):
        obs, state = env.reset(KEY)
        for _ in range(2):
            obs, state, *_ = env.step(state, np.zeros(4, np.int32))
        found.append(env.reset_where(np.arange(4) == 0, obs, state, jax.random.key(5)))
    assert_trees_equal(found[1][0], found[0][0])
    assert found[1][1].episode_length.tolist() == [0, 0, 2, 2]


class Sevens(BatchedWrapper[Any, Any]):
    """First observations of its own, by the public method."""

    def reset_where(
        self, mask: Any, obs: Any, state: Any, rng: Any = None, *, starts: Any = None
    ) -> Any:
        obs, state = super().reset_where(mask, obs, state, rng, starts=starts)
        return jnp.where(jnp.asarray(mask)[:, None], jnp.float32(7), obs), state


def test_a_reset_where_of_the_user_counts_within_another_wrapper() -> None:
    mask = np.arange(N) < 2
    env = RecordEpisodeStatistics(Sevens(off()))
    obs, state = env.reset(KEY)
    found, _ = env.reset_where(mask, obs, state)
    assert (found[:2] == 7).all()
    assert_trees_equal(found[2:], obs[2:])


class Seen(NamedTuple):
    number: Any
    step: Any


class ByName(CountingEnv):
    @property
    def observation_space(self) -> Any:
        return Tuple((Box(0, 99, (), jnp.int32), Discrete(9)))

    def observe(self, state: Any) -> Any:
        return Seen(state.number, state.step)


class InOrder(ByName):
    @property
    def observation_space(self) -> Any:
        return Dict(number=Box(0, 99, (), jnp.int32), step=Discrete(9))

    def observe(self, state: Any) -> Any:
        return OrderedDict(step=state.step, number=state.number)


@pytest.mark.parametrize("env_class", [ByName, InOrder])
def test_observations_stay_in_the_containers_of_the_environment(env_class: Any) -> None:
    env = VecEnv(env_class(), N)
    obs, state = env.reset(KEY)
    obs, state, *_ = env.step(state, np.zeros(N, np.int32))
    new, _ = env.reset_where(np.arange(N) < 2, obs, state)
    assert jax.tree.structure(new) == jax.tree.structure(obs)
    first, steps = (new.number, new.step) if env_class is ByName else (new["number"], new["step"])
    number = obs.number if env_class is ByName else obs["number"]
    assert steps.tolist() == [0] * 2 + [1] * (N - 2)
    assert first[2:].tolist() == number[2:].tolist() != first[:2].tolist()
