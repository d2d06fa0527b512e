"""`VecEnv`: what it returns, that it is compiled, and that it composes."""

import copy
import pickle
from functools import cache, partial
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CounterEnv, VectorConfig
from helpers import assert_trees_equal, plain, slow_but

from envrax import (
    BatchedEnv,
    Box,
    Discrete,
    EnvState,
    EpisodeDiscount,
    EpisodicEnv,
    JitWrapper,
    MultiDiscrete,
    MultiVecEnv,
    RecordEpisodeStatistics,
    VecEnv,
)
from envrax.autoreset import Select

KEYS = [jax.random.key, jax.random.PRNGKey]
ACTIONS = np.asarray([0, 1, 2], np.int32)


@cache
def counters() -> VecEnv[Any, Any, Any, Any]:
    """Three counters whose episodes last three steps, compiled once for the module."""
    return VecEnv(CounterEnv(VectorConfig(max_steps=3)), 3, autoreset=Select())


@cache
def rollout(make_rng: Any = jax.random.key) -> list[Any]:
    """What a reset and four steps of `counters()` return, an episode's end among them."""
    vec_env = counters()
    obs, state = vec_env.reset(make_rng(0))
    outputs: list[Any] = [(obs, state)]
    for _ in range(4):
        outputs.append(vec_env.step(state, ACTIONS))
        state = outputs[-1][1]
    return outputs


def test_attributes() -> None:
    env = EpisodeDiscount(CounterEnv(VectorConfig(max_steps=7)))
    vec_env = VecEnv(env, num_envs=5)
    assert isinstance(vec_env, BatchedEnv)
    assert vec_env.env is env
    assert vec_env.num_envs == vec_env.n_slots == 5
    assert vec_env.name == "CounterEnv"
    assert vec_env.config == VectorConfig(max_steps=7)
    assert vec_env.single_action_space == Discrete(3)
    assert vec_env.action_space == MultiDiscrete((3,) * 5)
    assert vec_env.single_observation_space == env.observation_space
    assert vec_env.observation_space == env.observation_space.batch(5)
    assert vec_env.traceable
    assert "EpisodeDiscount" in repr(vec_env) and "num_envs=5" in repr(vec_env)


@pytest.mark.parametrize("make_rng", slow_but(jax.random.key, values=KEYS))
def test_each_slot_is_the_environment_by_itself(make_rng: Any) -> None:
    """With a key of its own, and a next episode after the end of one."""
    env, outputs = JitWrapper(counters().env, pre_warm=False), rollout(make_rng)
    for i, rng in enumerate(jax.random.split(make_rng(0), 3)):
        expected: Any = env.reset(rng)
        for t, output in enumerate(outputs):
            if t:
                obs, state, *rest = env.step(expected[1], ACTIONS[i])
                if t == 3:
                    obs, state = env.reset(jax.random.split(state.rng)[0])
                expected = obs, state, *rest
            ours = jax.tree.map(lambda x: plain(x)[i], output)  # noqa: B023
            assert_trees_equal(ours, jax.tree.map(plain, expected))
    assert [bool(o[3].all()) for o in outputs[1:]] == [False, False, True, False]


def test_compiles_one_program_for_each_kind_of_key(compile_counter: Any) -> None:
    """However the actions are written, and however often it is called."""
    vec_env = VecEnv(CounterEnv(VectorConfig(max_steps=3)), 3, autoreset=Select())
    ways = [[0, 1, 2], (2, 1, 0), np.asarray([1, 1, 1]), np.ones(3, np.uint8), jnp.asarray(ACTIONS)]
    for make_rng in KEYS:
        keys = [make_rng(seed) for seed in range(2)]
        with compile_counter() as compiled:
            states = [vec_env.reset(key)[1] for key in keys]
        assert compiled.count == 1
        with compile_counter() as compiled:
            for state in states:
                for actions in ways:
                    state = vec_env.step(state, actions)[1]
        assert compiled.count == 1


def test_python_runs_in_every_call_if_nothing_is_compiled() -> None:
    calls: list[None] = []

    class Noting(CounterEnv):
        def step(self, state: Any, action: Any) -> tuple[Any, ...]:
            calls.append(None)
            return super().step(state, action)

    vec_env = VecEnv(Noting(VectorConfig(max_steps=3)), 3, jit_compile=False)
    state = vec_env.reset(jax.random.key(0))[1]
    for t in range(1, 5):
        out = vec_env.step(state, ACTIONS)
        state = out[1]
        assert len(calls) == t
        assert_trees_equal(out, rollout()[t])


def test_composes_with_jit_vmap_and_scan() -> None:
    vec_env = counters()

    def run(rng: jax.Array, actions: Any) -> Any:
        def body(state: Any, _: None) -> Any:
            out = vec_env.step(state, actions)
            return out[1], out

        first = vec_env.reset(rng)
        return first, jax.lax.scan(body, first[1], None, 4)[1]

    seeds = jnp.stack([jax.random.key(5), jax.random.key(0)])
    both = jax.jit(jax.vmap(run))(seeds, np.stack([ACTIONS[::-1], ACTIONS]))
    begun, *stepped = jax.tree.map(plain, rollout())
    first, steps = jax.tree.map(lambda x: plain(x)[1], both)
    assert_trees_equal(first, begun)
    assert_trees_equal(steps, jax.tree.map(lambda *x: np.stack(x), *stepped))


def test_slot_state_follows_list_rules() -> None:
    vec_env, state = counters(), rollout()[1][1]
    starts = [int(s) for s in state.number]
    assert len(set(starts)) == 3
    for one in (0, 1, 2, -3, -2, -1, np.int64(1), jnp.int32(1), jnp.uint8(1)):
        assert int(vec_env.slot_state(state, slot_idx=one).number) == starts[one]
    assert int(vec_env.slot_state(state).number) == starts[0]
    vec_env.env.step(vec_env.slot_state(state, 1), 0)  # it is a state of the single env


@pytest.mark.parametrize("index", [3, -4, 10**12, np.int64(3), jnp.int32(-4)])
def test_an_index_out_of_range_is_an_index_error(index: Any) -> None:
    vec_env, state = counters(), rollout()[0][1]
    for take in (vec_env.slot_state, vec_env.render_slot):
        with pytest.raises(IndexError, match="index"):
            take(state, index)
    with pytest.raises(IndexError, match="index"):
        vec_env.render(state, index=index)


def test_slot_state_takes_a_traced_index() -> None:
    vec_env, state = counters(), rollout()[1][1]
    slots = jax.vmap(partial(vec_env.slot_state, state))(jnp.asarray([2, 0, -1], jnp.int32))
    np.testing.assert_array_equal(slots.number, state.number[jnp.asarray([2, 0, 2])])


def test_renders_one_slot_through_any_stack() -> None:
    vec_env = VecEnv(EpisodeDiscount(RecordEpisodeStatistics(CounterEnv())), 3)
    _, state = vec_env.reset(jax.random.key(0))
    for i in (0, 2, -1):
        image = vec_env.render_slot(state, i)
        assert isinstance(image, np.ndarray) and image.dtype == np.uint8
        expected = np.full((16, 16, 3), np.asarray(state.env_state.number)[i], np.uint8)
        np.testing.assert_array_equal(image, expected)
        np.testing.assert_array_equal(vec_env.render(state, index=i), image)
    np.testing.assert_array_equal(vec_env.render(state), vec_env.render_slot(state))


def test_pickle_and_deepcopy_run() -> None:
    rollout()
    for twin in (pickle.loads(pickle.dumps(counters())), copy.deepcopy(counters())):
        assert twin.env is not counters().env
        assert (twin.num_envs, twin.action_space) == (3, counters().action_space)
        first = twin.reset(jax.random.key(0))
        assert_trees_equal([first, twin.step(first[1], ACTIONS)], rollout()[:2])


@chex.dataclass
class StateWithATuple(EnvState):
    pair: Any
    nothing: Any = None


class HasATuple(EpisodicEnv[Any, Any, StateWithATuple, VectorConfig]):
    @property
    def observation_space(self) -> Any:
        return Box(0.0, 9.0, ())

    @property
    def action_space(self) -> Any:
        return Discrete(3)

    def begin(self, key: jax.Array, **episode: Any) -> Any:
        return StateWithATuple(pair=(jax.random.uniform(key), {"x": jnp.int32(0)}), **episode)

    def advance(self, state: Any, action: Any) -> Any:
        return state, jnp.float32(0), jnp.bool_(False)

    def observe(self, state: Any) -> Any:
        return state.pair[0]


@pytest.mark.parametrize(
    ("env", "action"),
    [
        (JitWrapper(HasATuple(), pre_warm=False), jnp.int32(1)),
        (VecEnv(HasATuple(), 3), ACTIONS),
        (MultiVecEnv([VecEnv(HasATuple(), 3)]), [ACTIONS]),
    ],
    ids=["JitWrapper", "VecEnv", "MultiVecEnv"],
)
def test_it_is_pickled_after_a_step_whatever_the_state_holds(env: Any, action: Any) -> None:
    _, state = env.reset(jax.random.key(0))
    stepped = env.step(state, action)
    twin = pickle.loads(pickle.dumps(env))
    assert_trees_equal(twin.step(twin.reset(jax.random.key(0))[1], action), stepped)


def test_a_slot_is_taken_without_an_implicit_transfer() -> None:
    env, (_, state) = counters(), rollout()[0]
    with jax.transfer_guard("disallow"):
        env.slot_state(state, 1)
