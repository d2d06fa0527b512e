"""Equal environments share their programs; nobody's edits reach anybody else."""

import copy
import gc
import pickle
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
import pytest
from fakes import CounterEnv, NestedEnv, VectorConfig
from helpers import assert_trees_equal

import envrax
from envrax import ClipReward, JitWrapper, MultiVecEnv, RecordEpisodeStatistics, VecEnv
from envrax._compile import _PROGRAMS

# Limits that no other test uses, so that no other test has compiled these.
LIMITS = iter(range(10_000, 20_000))


@pytest.fixture
def config() -> VectorConfig:
    return VectorConfig(max_steps=next(LIMITS))


def jitted(env: Any) -> Any:
    return JitWrapper(env, pre_warm=False)


STACKS: dict[str, Callable[[Any], Any]] = {
    "jit": jitted,
    "jit-inside": lambda env: ClipReward(jitted(env)),
    "vec": lambda env: VecEnv(env, 3),
    "vec-wrapped": lambda env: VecEnv(RecordEpisodeStatistics(jitted(env)), 3, final_obs=True),
    "fleet": lambda env: MultiVecEnv([VecEnv(env, 2), VecEnv(NestedEnv(), 2)]),
}


def use(env: Any, key: Any = jax.random.key) -> Any:
    _, state = env.reset(key(0))
    if isinstance(env, MultiVecEnv):
        actions: Any = [np.zeros(2, np.int32), env.action_spaces[1].sample(key(1))]
    else:
        actions = np.zeros(env.action_space.shape, np.int32)
    return env.step(state, actions)


# A fleet takes longest.
DEAR_LAST = [pytest.param(name, marks=[pytest.mark.slow] * (name == "fleet")) for name in STACKS]


@pytest.mark.parametrize("name", DEAR_LAST)
def test_an_equal_one_compiles_nothing(
    name: str, config: VectorConfig, compile_counter: Any
) -> None:
    stack = STACKS[name]
    first = stack(CounterEnv(config))
    expected = use(first)
    for other in (
        stack(CounterEnv(config.replace())),
        copy.deepcopy(first),
        pickle.loads(pickle.dumps(first)),
    ):
        with compile_counter() as compiled:
            assert_trees_equal(use(other), expected)
        assert compiled.count == 0


def test_make_twice(config: VectorConfig, compile_counter: Any) -> None:
    envrax.register("sharing/Counter-v0", CounterEnv, config)
    try:
        made = [
            envrax.make("sharing/Counter-v0", cache_dir=None),
            envrax.make_vec("sharing/Counter-v0", 3, cache_dir=None),
        ]
        with compile_counter() as compiled:
            made.append(envrax.make("sharing/Counter-v0", cache_dir=None))
            made.append(envrax.make_vec("sharing/Counter-v0", 3, cache_dir=None))
            use(made[-1])
        assert compiled.count == 0
    finally:
        envrax.unregister("sharing/Counter-v0")


@pytest.mark.parametrize("name", ["jit", "vec"])
def test_an_edit_reaches_nobody_who_is_compiled(name: str, config: VectorConfig) -> None:
    """Neither another one nor itself, also where a new kind of key makes JAX trace anew."""
    ours, theirs = STACKS[name](CounterEnv(config)), STACKS[name](CounterEnv(config.replace()))
    _ = use(ours), use(theirs)
    ours.config.max_steps = 1
    for env in (ours, theirs):
        for key in (jax.random.key, jax.random.PRNGKey):
            assert not np.any(use(env, key)[3])
    assert np.all(use(STACKS[name](CounterEnv(ours.config)))[3])


@pytest.mark.parametrize("name", ["jit", "vec"])
def test_an_edit_before_the_first_call_counts(name: str, config: VectorConfig) -> None:
    env = STACKS[name](CounterEnv(config))
    env.config.max_steps = 1
    assert np.all(use(env)[3])


@pytest.mark.parametrize("name", DEAR_LAST)
def test_neither_environment_nor_program_is_kept_alive(name: str, config: VectorConfig) -> None:
    gc.collect()
    before = len(_PROGRAMS)
    inner = CounterEnv(config)
    env = STACKS[name](inner)
    use(env)
    seen = weakref.ref(inner), weakref.ref(env)
    assert len(_PROGRAMS) > before
    del inner, env
    gc.collect()
    assert [ref() for ref in seen] == [None, None]
    assert len(_PROGRAMS) == before


def test_what_cannot_be_compared_has_its_own_program(
    config: VectorConfig, compile_counter: Any
) -> None:
    class Opaque(CounterEnv):
        def __init__(self, config: VectorConfig) -> None:
            super().__init__(config)
            self.stream: Iterator[int] = (i for i in range(3))

    made = [VecEnv(Opaque(config), 3) for _ in range(2)]
    counts: list[int] = []
    for env in made:
        with compile_counter() as compiled:
            use(env)
        counts.append(compiled.count)
    assert counts[1] == 2


def test_threads_get_equal_results(config: VectorConfig) -> None:
    """Eight at once, on environments that are equal and not compiled yet."""

    def episode(_: int) -> Any:
        return use(VecEnv(CounterEnv(config), 3))

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(episode, range(8)))
    for result in results[1:]:
        assert_trees_equal(result, results[0])
