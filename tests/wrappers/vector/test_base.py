"""`BatchedWrapper`: a batch around a batch, in every place where a batch may be."""

import copy
import pickle
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from batched_fakes import OnTheHost
from helpers import assert_trees_equal

from envrax import Box, ClipReward, Discrete, VecEnv
from envrax.autoreset import Select
from envrax.testing import CountingEnv, ImageEnv, MaskedEnv, RingWorld, check_batched_env
from envrax.wrappers import WrapperFactory
from envrax.wrappers.vector import BatchedWrapper, BatchedWrapperState

KEY = jax.random.key(0)


class Changed(BatchedWrapper[Box, Discrete]):
    """Every hook once."""

    def __init__(self, env: Any, by: float = 2.0) -> None:
        super().__init__(env)
        self.by = by

    @property
    def single_observation_space(self) -> Box:
        return Box(-np.inf, np.inf, self.env.single_observation_space.shape)

    @property
    def single_action_space(self) -> Discrete:
        return Discrete(2)

    def action(self, actions: Any) -> Any:
        return 1 - actions

    def observation(self, obs: Any) -> Any:
        return jnp.asarray(obs).astype(jnp.float32) * jnp.float32(self.by)

    def reward(self, rewards: jax.Array) -> jax.Array:
        return rewards + jnp.float32(10)

    def info(self, infos: Any) -> Any:
        return {**infos, "more": infos["truncated"]}


@chex.dataclass
class CountedState(BatchedWrapperState):
    ends: jax.Array


class Counted(BatchedWrapper[Any, Any]):
    """How many episodes of the whole batch have ended."""

    state_class = CountedState

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        return obs, {"ends": jnp.int32(0)}

    def on_step(self, obs: Any, state: Any, rewards: Any, dones: Any, infos: Any, /) -> Any:
        ends = state.ends + jnp.sum(dones, dtype=jnp.int32)
        return obs, state.replace(ends=ends), rewards, dones, infos


def counting(n: int = 3, **options: Any) -> Any:
    return VecEnv(CountingEnv(), n, autoreset=Select(), **options)


def twice(obs: Any) -> Any:
    return 2 * np.asarray(obs).astype(np.float32)


def test_hooks_change_what_they_are_named_after() -> None:
    plain, env = counting(final_obs=True), Changed(counting(final_obs=True))
    assert env.observation_space == env.single_observation_space.batch(3)
    assert env.action_space == Discrete(2).batch(3)
    obs, inner = plain.reset(KEY)
    seen, state = env.reset(KEY)
    for _ in range(7):
        obs, inner, rewards, dones, infos = plain.step(inner, [1, 0, 1])
        seen, state, more, ends, told = env.step(state, [0, 1, 0])
        assert_trees_equal(seen, twice(obs))
        assert_trees_equal((state.env_state, ends), (inner, dones))
        assert_trees_equal(more, np.asarray(rewards) + 10)
        assert_trees_equal(told["final_obs"], twice(infos["final_obs"]))
        assert_trees_equal(told["more"], infos["truncated"])
        assert "more" not in infos


def test_one_that_changes_nothing_says_what_the_batch_says() -> None:
    vec_env = VecEnv(ImageEnv(), 3)
    env = BatchedWrapper(vec_env)
    assert (env.n_slots, env.name, env.traceable) == (3, "ImageEnv", True)
    assert env.observation_space == vec_env.observation_space
    assert repr(env) == f"BatchedWrapper({vec_env!r})"


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda: Counted(Changed(counting())), marks=pytest.mark.slow),
        pytest.param(lambda: Counted(RingWorld()), marks=pytest.mark.exhaustive),
    ],
)
def test_the_kit_finds_nothing(build: Any) -> None:
    check_batched_env(build(), num_steps=20)


def test_state_of_its_own_goes_on_in_a_scan() -> None:
    env = Counted(counting())

    @jax.jit
    def run(rng: jax.Array) -> Any:
        _, state = env.reset(rng)
        step = lambda s, a: (env.step(s, a)[1], None)  # noqa: E731
        return jax.lax.scan(step, state, jnp.zeros((12, 3), jnp.int32))[0]

    assert jax.vmap(run)(jax.random.split(KEY)).ends.tolist() == [6, 6]


def test_on_the_host_the_batch_runs_there_and_the_rest_is_compiled() -> None:
    with OnTheHost(2) as plain, Counted(Changed(OnTheHost(2))) as env:
        assert not env.traceable and env.name == "GymCartPole"
        obs, inner = plain.reset(KEY)
        seen, state = env.reset(KEY)
        for i in range(30):
            obs, inner, rewards, dones, infos = plain.step(inner, np.array([i % 2, 1]))
            seen, state, more, ends, told = env.step(state, [1 - i % 2, 0])
            np.testing.assert_array_equal(seen, obs * np.float32(2))
            np.testing.assert_array_equal(more, rewards + 10)
        assert int(state.ends) > 0 and state.env_state.env_state == inner
        base: Any = env.env.env
        assert base.steps == 30
    assert base.closed


@pytest.mark.slow
def test_compile_leaves_nothing_to_compile(compile_counter: Any) -> None:
    env = Counted(Changed(counting()))
    env.compile(None)
    rng, actions = KEY, jnp.zeros(3, jnp.int32)
    with compile_counter() as compiled:
        _, state = env.reset(rng)
        env.step(state, actions)
    assert compiled.count == 0


@pytest.mark.slow
def test_copies() -> None:
    env = Counted(Changed(counting(), by=3.0))
    _, state = env.reset(KEY)
    for other in (pickle.loads(pickle.dumps(env)), copy.deepcopy(env)):
        assert_trees_equal(other.step(state, [0, 1, 0]), env.step(state, [0, 1, 0]))


def test_deferred_construction() -> None:
    factory: Any = Changed(by=3.0)
    assert factory == WrapperFactory(Changed, {"by": 3.0})  # pyright: ignore[reportArgumentType]
    assert factory(counting()).by == 3.0
    for call, noun in [
        (lambda: Changed(bye=3.0), "bye"),
        (lambda: Changed(CountingEnv()), "BatchedEnv"),  # pyright: ignore
        (lambda: ClipReward(Counted(counting())), "inside"),  # pyright: ignore
    ]:
        with pytest.raises(TypeError, match=noun):
            call()


def test_masks_go_through_unless_the_actions_change() -> None:
    masked = VecEnv(MaskedEnv(), 3)
    obs, state = Counted(masked).reset(KEY)
    assert_trees_equal(Counted(masked).action_mask(state), masked.action_mask(state.env_state))
    with pytest.raises(NotImplementedError, match="Changed"):
        Changed(masked).action_mask(state)
    assert Changed(counting()).action_mask(state) is None


def test_refusals() -> None:
    env = Counted(counting(donate=True))
    assert env.compilation is not None and env.compilation.donate
    _, state = env.reset(KEY)
    for call, error, noun in [
        (lambda: env.reset(0), TypeError, "PRNG key"),  # pyright: ignore
        (lambda: env.step(state.env_state, [0, 1, 2]), TypeError, "CountedState"),
        (lambda: env.step(state, [0, 1]), ValueError, "actions"),
    ]:
        with pytest.raises(error, match=noun):
            call()
    env.step(state, [0, 1, 2])
    with pytest.raises((RuntimeError, ValueError), match="deleted"):
        env.step(state, [0, 1, 2])
