"""A compiled environment is the one that was first traced, and no other one's program is used."""

import cmath
import copy
import dataclasses
import enum
import functools
import gc
import math
import pickle
import types
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CounterEnv, NestedEnv
from helpers import assert_trees_equal, slow_but

import envrax
from envrax import (
    Box,
    ClipReward,
    Discrete,
    EnvConfig,
    EnvState,
    JaxEnv,
    JitWrapper,
    MultiEnv,
    MultiVecEnv,
    RecordEpisodeStatistics,
    VecEnv,
)
from envrax.autoreset import Select

KEY = jax.random.key(0)
GAIN = 0.0
REACHED = types.SimpleNamespace(table={"gain": 0.0})


class Gain(JaxEnv[Box, Discrete, EnvState, EnvConfig]):
    """The reward is its gain."""

    observation_space = Box(0.0, 1.0, ())  # pyright: ignore
    action_space = Discrete(2)  # pyright: ignore

    def gain(self) -> Any:
        raise NotImplementedError

    def reset(self, rng: jax.Array) -> Any:
        return jnp.float32(0), EnvState(rng=rng, step=jnp.int32(0), done=jnp.bool_(False))

    def step(self, state: EnvState, action: Any) -> Any:
        return jnp.float32(0), state, jnp.float32(self.gain()), jnp.bool_(False), {}


class OfAGlobal(Gain):
    def gain(self) -> Any:
        return GAIN


class OfAnObjectOfAGlobal(Gain):
    def gain(self) -> Any:
        return REACHED.table["gain"]


class OfTheClass(Gain):
    number = 0.0

    def gain(self) -> Any:
        return self.number


class Patched(Gain):
    pass


class OfAFunction(Gain):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def gain(self) -> Any:
        return self.function()


class OfAnAttribute(Gain):
    def __init__(self, value: Any, read: Callable[[Any], Any]) -> None:
        super().__init__()
        self.value, self.read = value, read

    def gain(self) -> Any:
        return self.read(self.value)


class LeavesOut(OfAnAttribute):
    """Pickle knows nothing of its value."""

    def __reduce__(self) -> Any:
        return LeavesOut, (1.0, self.read)


def of_a_global(gain: float) -> Gain:
    global GAIN
    GAIN = gain
    return OfAGlobal()


def of_an_object_of_a_global(gain: float) -> Gain:
    REACHED.table["gain"] = gain
    return OfAnObjectOfAGlobal()


def of_a_class_attribute(gain: float) -> Gain:
    OfTheClass.number = gain
    return OfTheClass()


def of_a_patched_method(gain: float) -> Gain:
    Patched.gain = lambda self: gain  # type: ignore[method-assign]
    return Patched()


def of_reloaded_code(gain: float) -> Gain:
    scope: dict[str, Any] = {}
    exec(f"def gain(self): return {gain}", scope)
    Patched.gain = scope["gain"]  # type: ignore[method-assign]
    return Patched()


def of_a_cached_closure(gain: float) -> Gain:
    return OfAFunction(functools.cache(lambda: gain))


def of_a_function_attribute(gain: float) -> Gain:
    def function() -> float:
        return function.gain  # type: ignore[attr-defined]

    function.gain = gain  # type: ignore[attr-defined]
    return OfAFunction(function)


def of_a_class_made_in_a_loop(gain: float) -> Gain:
    class Looped(Gain):
        def gain(self) -> Any:
            return gain

    return Looped()


def of_a_masked_array(gain: float) -> Gain:
    array = np.ma.array([1.0, 10.0], mask=[gain != 1.0, gain == 1.0])
    return OfAnAttribute(array, lambda x: float(x.compressed()[0]))


def of_an_array_subclass(gain: float) -> Gain:
    array = np.zeros(1).view(type("Tagged", (np.ndarray,), {"tag": gain}))
    return OfAnAttribute(array, lambda x: x.tag)


def of_two_enums(gain: float) -> Gain:
    one, ten = enum.IntEnum("Kind", {"A": 1}), enum.IntEnum("Kind", {"B": 1})  # type: ignore[misc]
    member: Any = one(1) if gain == 1.0 else ten(1)
    return OfAnAttribute(member, lambda x: {"A": 1.0, "B": 10.0}[x.name])


def of_two_builtins(gain: float) -> Gain:
    root: Any = math.sqrt if gain == 1.0 else cmath.sqrt
    return OfAnAttribute(root, lambda f: 1.0 if f.__module__ == "math" else 10.0)


def of_a_field_that_pickle_leaves_out(gain: float) -> Gain:
    return LeavesOut(gain, float)


OF_THE_OBJECT = [
    of_a_cached_closure,
    of_a_function_attribute,
    of_a_class_made_in_a_loop,
    of_a_masked_array,
    of_an_array_subclass,
    of_two_enums,
    of_two_builtins,
    of_a_field_that_pickle_leaves_out,
]
OF_WHAT_ALL_SHARE = [
    of_a_global,
    of_an_object_of_a_global,
    of_a_class_attribute,
    of_a_patched_method,
    of_reloaded_code,
]


def jitted(env: Any) -> Any:
    return JitWrapper(env, pre_warm=False)


STACKS: dict[str, Callable[[Any], Any]] = {
    "jit": jitted,
    "vec": lambda env: VecEnv(env, 2, autoreset=Select()),
    "fleet": lambda env: MultiEnv([jitted(env), jitted(env)]),
    "vec-fleet": lambda env: MultiVecEnv([VecEnv(env, 2), VecEnv(env, 2)]),
}
# The others compile for longer.
EVERY_STACK = [pytest.param(n, marks=[pytest.mark.slow] * (n != "vec")) for n in STACKS]


def rewards(env: Any) -> set[float]:
    """Those of every slot and member, by every call that there is."""
    _, state = env.reset(KEY)
    fleet = isinstance(env, MultiEnv | MultiVecEnv)
    spaces = env.action_spaces if fleet else [env.action_space]
    actions = [np.zeros(space.shape, np.int32) for space in spaces]
    _, _, reward, *_ = env.step(state, actions if fleet else actions[0])
    found = [reward]
    if fleet:
        found += [env.step_at(i, state[i], action)[2] for i, action in enumerate(actions)]
    return {float(x) for leaf in jax.tree.leaves(found) for x in np.ravel(leaf)}


@pytest.mark.parametrize("stack", EVERY_STACK)
@pytest.mark.parametrize(
    "make",
    slow_but(
        of_a_global,
        of_a_patched_method,
        of_a_cached_closure,
        of_a_class_made_in_a_loop,
        of_a_masked_array,
        values=OF_WHAT_ALL_SHARE + OF_THE_OBJECT,
    ),
)
def test_what_changed_since_counts_for_a_new_one_alone(make: Any, stack: str) -> None:
    old = STACKS[stack](make(1.0))
    assert rewards(old) == {1.0}
    new = STACKS[stack](make(10.0))
    assert rewards(new) == {10.0}
    assert rewards(old) == {1.0}


@pytest.mark.parametrize(
    "make",
    slow_but(
        of_a_cached_closure,
        of_a_class_made_in_a_loop,
        of_a_field_that_pickle_leaves_out,
        values=OF_THE_OBJECT,
    ),
)
def test_unequal_members_of_one_fleet_stay_unequal(make: Any) -> None:
    multi = MultiEnv([jitted(make(1.0)), jitted(make(10.0)), jitted(make(1.0))])
    _, states = multi.reset(KEY)
    _, _, reward, *_ = multi.step(states, [0, 0, 0])
    alone = [multi.step_at(i, states[i], 0)[2] for i in range(3)]
    assert list(map(float, reward)) == list(map(float, alone)) == [1.0, 10.0, 1.0]


def test_graphs_of_objects_cost_nothing() -> None:
    """Lists of lists of the same lists: two to the power of 60 paths, 60 objects."""
    value: Any = [1.0]
    for _ in range(60):
        value = [value, value]
    assert rewards(VecEnv(OfAnAttribute(value, lambda _: 1.0), 2)) == {1.0}


def test_nothing_of_an_environment_is_copied_or_pickled() -> None:
    """A viewer that pickle drops, a closure over a dict, an Enum of unhashable members."""

    class Kinds(enum.Enum):
        A = [1.0]  # noqa: RUF012

    class Uncopied(Gain):
        def __init__(self) -> None:
            super().__init__()
            self.viewer, self.kind, self.seen = types.SimpleNamespace(gain=2.0), Kinds.A, {}

        def __getstate__(self) -> Any:
            return {k: v for k, v in vars(self).items() if k != "viewer"}

        def __deepcopy__(self, memo: Any) -> Any:
            raise AssertionError

        def gain(self) -> Any:
            self.seen["traced"] = True
            return self.viewer.gain * self.kind.value[0]

    for name in ("jit", "vec", "fleet"):
        env = Uncopied()
        assert rewards(STACKS[name](env)) == {2.0}
        assert env.seen == {"traced": True}


class Simulator(Gain):
    """Its state lives on the host: steps since the last reset."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def begin(self, _: Any) -> Any:
        self.steps = 0
        return np.float32(0)

    def advance(self, _: Any) -> Any:
        self.steps += 1
        return np.float32(self.steps)

    def call(self, function: Any, rng: jax.Array) -> Any:
        like = jax.ShapeDtypeStruct((), np.float32)
        return jax.experimental.io_callback(function, like, jax.random.key_data(rng), ordered=True)

    def reset(self, rng: jax.Array) -> Any:
        _, state = super().reset(rng)
        return self.call(self.begin, rng), state

    def step(self, state: EnvState, action: Any) -> Any:
        reward = self.call(self.advance, state.rng)
        return jnp.float32(0), state, reward, jnp.bool_(False), {}


def test_reset_and_step_drive_one_simulator() -> None:
    for multi in (jitted(Simulator()), MultiEnv([jitted(Simulator()), jitted(Simulator())])):
        for _ in range(2):
            assert rewards(multi) <= {1.0, 2.0}


def use(env: Any, key: Any = jax.random.key) -> Any:
    _, state = env.reset(key(0))
    if isinstance(env, MultiVecEnv):
        actions: Any = [np.zeros(2, np.int32), env.action_spaces[1].sample(key(1))]
    else:
        actions = np.zeros(env.action_space.shape, np.int32)
    return env.step(state, actions)


COUNTERS: dict[str, Callable[[Any], Any]] = {
    "jit": jitted,
    "jit-inside": lambda env: ClipReward(jitted(env)),
    "vec": lambda env: VecEnv(env, 3),
    "vec-wrapped": lambda env: VecEnv(RecordEpisodeStatistics(jitted(env)), 3, final_obs=True),
    "fleet": lambda env: MultiVecEnv([VecEnv(env, 2), VecEnv(NestedEnv(), 2)]),
}


@pytest.mark.parametrize("stack", EVERY_STACK)
@pytest.mark.parametrize("first", ["reset", "step"])
def test_an_edit_after_the_first_call_of_either_method_has_no_effect(
    stack: str, first: str
) -> None:
    inner = OfAnAttribute(1.0, float)
    env = STACKS[stack](inner)
    _, state = env.reset(KEY)
    if first == "step":
        rewards(env)
    inner.value = 10.0
    assert rewards(env) == {1.0}
    assert rewards(STACKS[stack](inner)) == {10.0}


@pytest.mark.parametrize("stack", EVERY_STACK)
def test_an_edit_before_the_first_call_counts(stack: str) -> None:
    inner = OfAnAttribute(1.0, float)
    env = STACKS[stack](inner)
    inner.value = 10.0
    assert rewards(env) == {10.0}


def test_members_edited_apart_after_the_first_call_run_as_they_were() -> None:
    """Also for arguments of new types, which JAX traces anew: then the edit counts, once."""
    envs = [OfAnAttribute(1.0, float) for _ in range(2)]
    multi = MultiEnv([jitted(env) for env in envs])
    _, states = multi.reset(KEY)
    envs[1].value = 10.0
    assert list(map(float, multi.step(states, [0, 0])[2])) == [1.0, 1.0]
    _, legacy = multi.reset(jax.random.PRNGKey(0))
    assert list(map(float, multi.step(legacy, [0, 0])[2])) == [1.0, 10.0]
    assert list(map(float, multi.step(states, [0, 0])[2])) == [1.0, 1.0]
    assert float(multi.step_at(1, states[1], 0)[2]) == 1.0


@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_fleet_compiles_its_members_as_they_are_when_it_is_first_used(n: int) -> None:
    envs = [OfAnAttribute(1.0, float) for _ in range(n)]
    members = [VecEnv(env, 2) for env in envs]
    for env, member in zip(envs, members, strict=True):
        assert rewards(member) == {1.0}
        env.value = 10.0
    assert rewards(MultiVecEnv(members)) == {10.0}
    assert rewards(members[0]) == {1.0}


@pytest.mark.parametrize("name", slow_but("jit", values=COUNTERS))
def test_copies_run(name: str) -> None:
    first = COUNTERS[name](CounterEnv())
    expected = use(first)
    assert_trees_equal(use(copy.deepcopy(first)), expected)
    assert_trees_equal(use(pickle.loads(pickle.dumps(first))), expected)


def test_make_twice_compiles_from_the_cache(cache_events: Any) -> None:
    envrax.register("own/Gain-v0", OfTheClass, EnvConfig())
    try:
        for make in (envrax.make, functools.partial(envrax.make_vec, n_envs=3)):
            make("own/Gain-v0")
            with cache_events() as cache:
                make("own/Gain-v0")
            assert cache.misses == 0 < cache.hits
    finally:
        envrax.unregister("own/Gain-v0")


@pytest.mark.parametrize("name", slow_but("vec", values=COUNTERS))
def test_nothing_is_kept_alive(name: str) -> None:
    inner = CounterEnv()
    env = COUNTERS[name](inner)
    use(env)
    seen = weakref.ref(inner), weakref.ref(env)
    del inner, env
    gc.collect()
    assert [ref() for ref in seen] == [None, None]


@pytest.mark.slow
def test_threads_get_equal_results() -> None:
    env = VecEnv(CounterEnv(), 3)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: use(env), range(8)))
    for result in results[1:]:
        assert_trees_equal(result, results[0])


@dataclasses.dataclass
class Tagged:
    """A pytree with static data."""

    x: Any
    kind: Any


jax.tree_util.register_dataclass(Tagged, data_fields=["x"], meta_fields=["kind"])


class OfAKind(OfAnAttribute):
    """Its info holds what is no part of any program."""

    def step(self, state: EnvState, action: Any) -> Any:
        *rest, _ = super().step(state, action)
        return *rest, {"tagged": Tagged(jnp.float32(0), self.value)}


@pytest.mark.parametrize(("one", "other"), [(1, True), (0.0, -0.0)])
def test_static_data_is_that_of_the_member(one: Any, other: Any) -> None:
    multi = MultiEnv([jitted(OfAKind(value, lambda _: 1.0)) for value in (one, other)])
    _, states = multi.reset(KEY)
    *_, infos = multi.step(states, [0, 0])
    assert [repr(info["tagged"].kind) for info in infos] == [repr(one), repr(other)]


def test_zeros_of_both_signs_are_two_constants() -> None:
    envs = [OfAnAttribute(zero, lambda x: 1 / jnp.float32(x)) for zero in (0.0, -0.0)]
    tables = [OfAnAttribute(np.zeros(1, np.float32) * sign, lambda x: 1 / x[0]) for sign in (1, -1)]
    for pair in (envs, tables):
        with np.errstate(divide="ignore"):
            multi = MultiEnv([jitted(env) for env in pair])
            _, states = multi.reset(KEY)
            _, _, reward, *_ = multi.step(states, [0, 0])
        assert list(map(float, reward)) == [math.inf, -math.inf]


def test_a_batch_edited_after_the_first_call_of_its_fleet_runs_as_it_was() -> None:
    """Also after a call that JAX traced anew for other keys, and took the members apart."""
    envs = [OfAnAttribute(1.0, float) for _ in range(2)]
    multi = MultiVecEnv([VecEnv(env, 2, autoreset=Select()) for env in envs])
    _, states = multi.reset(KEY)
    envs[0].value = 10.0
    actions = [np.zeros(2, np.int32)] * 2
    _, legacy = multi.reset(jax.random.PRNGKey(0))
    assert [x.tolist() for x in multi.step(legacy, actions)[2]] == [[10.0, 10.0], [1.0, 1.0]]
    assert [x.tolist() for x in multi.step(states, actions)[2]] == [[1.0, 1.0], [1.0, 1.0]]


def test_a_reset_in_the_callers_own_program_is_a_first_call() -> None:
    inner = OfAnAttribute(1.0, float)
    env = VecEnv(inner, 2, autoreset=Select())
    _, state = jax.jit(env.reset)(KEY)
    inner.value = 10.0
    assert env.step(state, [0, 0])[2].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("n", [1, 2])
def test_members_of_a_fleet_are_checked_like_batches_alone(n: int) -> None:
    class Discounted(Gain):
        def step(self, state: EnvState, action: Any) -> Any:
            return jnp.float32(0), state, jnp.float32(0), jnp.float32(1), {}

    multi = MultiVecEnv([VecEnv(Discounted(), 2) for _ in range(n)])
    _, states = multi.reset(KEY)
    with pytest.raises(TypeError, match=r"Discounted\.step: expected done of shape \(\), bool"):
        multi.step(states, [[0, 0]] * n)
