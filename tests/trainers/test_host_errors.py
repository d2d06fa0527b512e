# pyright: reportMissingImports=false
"""
What simulators on the host return, and what they are given: as both sides declare, or an error.

Of an error, its type and one noun.
"""

from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Any

import envpool
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ale_py.vector_env import AtariVectorEnv
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers import vector as gym_vector
from helpers import assert_trees_equal
from trainers.host_envs import KEY, MAKE

from envrax import Box, Discrete
from envrax.interop import to_gymnasium_vec
from envrax.interop.host.envpool import from_envpool
from envrax.interop.host.gymnasium_vec import from_gymnasium_vec

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*precision lowered"),
    pytest.mark.filterwarnings("ignore:.*autoreset_mode"),
]
NEXT_STEP, SAME_STEP, DISABLED = MODES = list(AutoresetMode)
each_mode = pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)


def sync(mode: AutoresetMode = NEXT_STEP, name: str = "CartPole") -> SyncVectorEnv:
    return SyncVectorEnv([MAKE[name]] * 2, autoreset_mode=mode)


def pool(**options: Any) -> Any:
    return envpool.make("CartPole-v1", **{"env_type": "gymnasium", "num_envs": 3, **options})


class Careless(SyncVectorEnv):
    """A vector environment that resets all slots, whatever the mask says."""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return super().reset(seed=seed)


class Undeclared(VectorEnv):
    """A vector environment that says nothing about its auto-reset."""

    num_envs = 2

    def __init__(self) -> None:
        env = MAKE["CartPole"]()
        self.single_observation_space = env.observation_space
        self.single_action_space = env.action_space
        self.observation_space = batch_space(env.observation_space, 2)
        self.action_space = batch_space(env.action_space, 2)


def undeclared_beside_ale() -> Any:
    # ALE writes its mode to the metadata that all vector environments share.
    AtariVectorEnv("breakout", 1, autoreset_mode=SAME_STEP)
    return from_gymnasium_vec(Undeclared())


def apart() -> Any:
    return AsyncVectorEnv([MAKE["CartPole"]] * 2, shared_memory=False, context="forkserver")


def bounded(bound: float) -> gymnasium.Env:
    space = gymnasium.spaces.Box(-bound, bound, (4,))
    return gymnasium.wrappers.TransformObservation(MAKE["CartPole"](), lambda x: x, space)


def unlike() -> Any:
    return SyncVectorEnv([partial(bounded, b) for b in (5, 9)], observation_mode="different")


def careless_step() -> Any:
    make = [partial(gymnasium.make, "MountainCar-v0", max_episode_steps=n) for n in (3, 9)]
    env = from_gymnasium_vec(Careless(make, autoreset_mode=DISABLED))
    _, state = env.reset(KEY)
    for _ in range(3):
        _, state, *_ = env.step(state, [1, 1])


def around(wrapper: Any, mode: AutoresetMode = NEXT_STEP) -> Any:
    return from_gymnasium_vec(wrapper(sync(mode)))


def part_of_ale() -> Any:
    return from_gymnasium_vec(AtariVectorEnv("breakout", 3, batch_size=2))


def careless() -> Any:
    return from_gymnasium_vec(Careless([MAKE["CartPole"]] * 2))


def made() -> Any:
    return from_gymnasium_vec(gymnasium.make_vec("CartPole-v1", 2))


STATISTICS = gym_vector.RecordEpisodeStatistics
RUNNING_REWARDS, RUNNING = gym_vector.NormalizeReward, gym_vector.NormalizeObservation
ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a single environment": (lambda: from_gymnasium_vec(MAKE["dict"]()), TypeError, "VectorEnv"),
    "a pool": (lambda: from_gymnasium_vec(pool()), TypeError, "from_envpool"),
    "no partial reset": (made, ValueError, "NEXT_STEP"),
    "a reset of its own": (careless, ValueError, "NEXT_STEP"),
    "a mask that is ignored": (careless_step, RuntimeError, "reset_mask"),
    "no shared memory": (lambda: from_gymnasium_vec(apart()), ValueError, "shared memory"),
    "no mode": (undeclared_beside_ale, ValueError, "autoreset_mode"),
    "statistics": (lambda: around(STATISTICS), ValueError, "RecordEpisodeStatistics"),
    "rewards": (lambda: around(RUNNING_REWARDS, DISABLED), ValueError, "NormalizeReward"),
    "running observations": (lambda: around(RUNNING), ValueError, "NormalizeObservation"),
    "slots that differ": (lambda: from_gymnasium_vec(unlike()), ValueError, "observation_space"),
    "a part of ALE's slots": (part_of_ale, ValueError, "batch_size"),
    "one info": (lambda: from_gymnasium_vec(sync(), info_keys="prob"), TypeError, "info_keys"),
    "no pool": (lambda: from_envpool(sync()), TypeError, "pool"),
    "a pool for dm_env": (lambda: from_envpool(pool(env_type="dm")), TypeError, "Gymnasium"),
    "a part of the slots": (lambda: from_envpool(pool(batch_size=2)), ValueError, "batch_size"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_at_construction_and_step(name: str) -> None:
    call, error, noun = ERRORS[name]
    with pytest.raises(error, match=noun):
        call()


HOSTS: dict[str, Callable[..., Any]] = {
    "gymnasium": lambda **options: from_gymnasium_vec(sync(), **options),
    "envpool": lambda **options: from_envpool(pool(num_envs=2), **options),
}


def test_missing_infos_are_an_error() -> None:
    with pytest.raises(ValueError, match="lives"):
        HOSTS["envpool"](info_keys=("lives",))
    env = HOSTS["gymnasium"](info_keys=("lives",))
    _, state = env.reset(KEY)
    with pytest.raises(ValueError, match="lives"):  # a reset has none: nobody knows what it is
        env.step(state, [0, 1])
    env = HOSTS["gymnasium"](info_keys={"lives": Discrete(6)})
    _, state = env.reset(KEY)
    with pytest.raises(ValueError, match="lives"):
        env.step(state, [0, 1])
    with pytest.raises(RuntimeError, match="reset"):
        env.step(state, [0, 1])  # after an error, no state is valid


LOAD = {"load": Box(-np.inf, np.inf, ())}


@each_mode
@pytest.mark.parametrize("keys", [("prob",), LOAD])
def test_infos_in_a_list_are_refused_before_a_step(mode: AutoresetMode, keys: Any) -> None:
    """Gymnasium's own wrapper makes that list; only in `SAME_STEP` mode is it built around."""
    with pytest.raises(
        (TypeError, ValueError), match=r"^from_gymnasium_vec.*: expected .*DictInfoToList"
    ):
        from_gymnasium_vec(gym_vector.DictInfoToList(sync(mode)), info_keys=keys).reset(KEY)
    if mode is SAME_STEP:
        stepped(gym_vector.DictInfoToList(sync(mode)), [0, 1])


@pytest.mark.parametrize("name", HOSTS)
def test_only_the_newest_state_can_be_stepped_and_drawn(name: str) -> None:
    env, other = HOSTS[name](), HOSTS[name]()
    _, first = env.reset(KEY)
    _, foreign = other.reset(KEY)
    _, state, *_ = env.step(first, [0, 1])
    for stale in (first, foreign):
        with pytest.raises(RuntimeError, match="state"):
            env.step(stale, [0, 1])
        with pytest.raises(RuntimeError, match="state"):
            env.render_slot(stale)
    env.step(state, [0, 1])  # the simulator was not stepped by these calls


@pytest.mark.parametrize("name", HOSTS)
def test_programs_call_the_simulator_in_order(name: str) -> None:
    """Also where no argument is traced; `vmap` is refused, and calls nothing."""
    env, twin = (HOSTS[name](final_obs=True) for _ in range(2))
    rows = np.random.default_rng(0).integers(0, 2, (40, 2), np.int32)

    def step(state: Any, row: Any) -> Any:
        obs, state, *rest = env.step(state, row)
        return state, (obs, *rest)

    obs, state = jax.jit(lambda: env.reset(KEY))()
    state, first = jax.jit(lambda state: step(state, rows[0]))(state)
    _, others = jax.jit(lambda state: jax.lax.scan(step, state, rows[1:]))(state)
    theirs, at = twin.reset(KEY)
    assert_trees_equal(obs, theirs)
    for i, row in enumerate(rows):
        theirs, at, *expected = twin.step(at, row)
        out = first if i == 0 else jax.tree.map(lambda x, i=i: x[i - 1], others)
        assert_trees_equal(out, (theirs, *expected))
    with pytest.raises(TypeError, match="vmap"):
        jax.vmap(lambda row: env.step(at, row))(rows)
    twin.step(at, [0, 1])


def test_a_refused_action_does_not_lose_the_state() -> None:
    env = HOSTS["gymnasium"]()
    _, state = env.reset(KEY)
    with pytest.raises(ValueError, match="slot 1"):
        env.step(state, [0, 2])
    with pytest.raises(jax.errors.JaxRuntimeError, match="slot 1"):
        jax.block_until_ready(jax.jit(env.step)(state, np.array([0, 2])))
    env.step(state, [0, 1])


@pytest.mark.parametrize("name", HOSTS)
def test_wrong_actions_and_calls_after_close(name: str) -> None:
    with HOSTS[name]() as env:
        _, state = env.reset(KEY)
        with pytest.raises(ValueError, match=r"shape .* got a list of length 3"):
            env.step(state, [0, 1, 0])
        with pytest.raises(ValueError, match=r"shape .* got a tuple of length 1"):
            env.step(state, (0,))
        with pytest.raises(TypeError, match="float"):
            env.step(state, [0.5, 1.0])
        with pytest.raises(ValueError, match="slot 0"):
            env.step(state, [-1, 1])
        with pytest.raises(NotImplementedError, match="state"):
            env.slot_state(state)
        with pytest.raises(NotImplementedError, match="slots"):
            env.render_slot(state)
    with pytest.raises(RuntimeError, match="simulator"):
        env.step(state, [0, 1])
    with pytest.raises(RuntimeError, match="simulator"):
        env.reset(KEY)


class Simulator(gymnasium.Env):
    """It keeps its actions, and ends every episode after one step if `last` is given."""

    def __init__(self, acts: Any = None, sees: Any = None, last: Any = None) -> None:
        self.action_space = acts or spaces.Discrete(2)
        self.observation_space = sees or spaces.Box(-1, 1, (3,))
        self.last, self.got = last, []

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        space: Any = self.observation_space
        return np.zeros(space.shape, space.dtype), {}

    def step(self, action: Any) -> Any:
        self.got.append(action)
        obs = self.reset()[0] if self.last is None else self.last
        return obs, 0.0, self.last is not None, False, {}


class Edited(SyncVectorEnv):
    """A vector environment whose steps are edited on their way."""

    def __init__(self, edit: Callable[[list[Any]], None], mode: AutoresetMode = SAME_STEP) -> None:
        super().__init__([partial(Simulator, last=np.ones(3, np.float32))] * 2, autoreset_mode=mode)
        self.edit = edit

    def step(self, actions: Any) -> Any:
        result = list(super().step(actions))
        self.edit(result)
        return tuple(result)


def stepped(vector_env: Any, actions: Any, **options: Any) -> Any:
    env = from_gymnasium_vec(vector_env, **options)
    return env.step(env.reset(KEY)[1], actions)


@each_mode
def test_a_last_observation_that_its_dtype_cannot_hold_is_refused(mode: AutoresetMode) -> None:
    whole = spaces.Box(0, 2**30, (2,), np.int64)
    make = partial(Simulator, sees=whole, last=np.full(2, 2**40 + 7))
    with pytest.raises(ValueError, match="int32"):
        stepped(SyncVectorEnv([make], autoreset_mode=mode), [0], final_obs=True)


def _large(result: list[Any], place: str) -> None:
    large = np.array([np.inf, 1e39])
    result[1] = large if place == "rewards" else result[1]
    result[4]["final_info"] = {"load": large if place == "load" else np.zeros(2)}


@pytest.mark.parametrize("place", ["rewards", "load"])
def test_finite_rewards_and_infos_that_would_become_infinite_are_refused(place: str) -> None:
    with pytest.raises(ValueError, match=place):
        load = {"load": Box(-np.inf, np.inf, ())}
        stepped(Edited(partial(_large, place=place)), [0, 1], info_keys=load)


@each_mode
def test_finite_observations_that_would_become_infinite_are_refused(mode: AutoresetMode) -> None:
    sees = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    for last, finite in ((np.array([-np.inf, np.nan]), True), (np.array([0.0, -1e300]), False)):
        env = SyncVectorEnv([partial(Simulator, sees=sees, last=last)], autoreset_mode=mode)
        if finite:
            result = stepped(env, [0], final_obs=True)[4]["final_obs"]
            np.testing.assert_array_equal(result, [last])
        else:
            with pytest.raises(ValueError, match="float32"):
                stepped(env, [0], final_obs=True)


def _scalar(result: list[Any]) -> None:
    result[4]["final_obs"][0] = 0.5


def _missing(result: list[Any]) -> None:
    result[4]["final_obs"][1] = None


def test_a_last_observation_of_another_shape_or_none_is_refused() -> None:
    with pytest.raises(ValueError, match="float32"):
        stepped(Edited(_scalar), [0, 1], final_obs=True)
    with pytest.raises(RuntimeError, match="final_obs"):
        stepped(Edited(_missing), [0, 1], final_obs=True)


OUTSIDE: dict[str, tuple[Any, Any]] = {
    "binary": (spaces.MultiBinary(2), [[0, 5]]),
    "an array": (spaces.MultiDiscrete([4], dtype=np.uint8), jnp.array([[257]])),
    "a box": (spaces.Box(0, 200, (1,), np.uint8), jnp.array([[-200]])),
    "a scalar": (spaces.Discrete(3, dtype=np.int8), jnp.array([257])),
    "wide": (spaces.Discrete(4), np.array([2**32 + 1])),
    "a dict": (
        spaces.Dict({"a": spaces.Discrete(3, dtype=np.int8)}),
        MappingProxyType({"a": jnp.array([257])}),
    ),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_integers_outside_of_the_space_never_reach_the_simulator(name: str) -> None:
    space, actions = OUTSIDE[name]
    vector_env = SyncVectorEnv([partial(Simulator, space)])
    env = from_gymnasium_vec(vector_env)
    _, state = env.reset(KEY)
    with pytest.raises(ValueError, match="actions"):
        env.step(state, actions)
    assert not vector_env.envs[0].got


@pytest.mark.parametrize(
    ("space", "given"),
    [
        (spaces.MultiBinary(2), [[1, 0]]),
        (spaces.Discrete(3, dtype=np.int8), jnp.array([2])),
        (spaces.Box(-1, 1, (1,)), jnp.array([[0.5]], jnp.bfloat16)),
        (spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (1,))]), [[2], jnp.array([[0.1]])]),
    ],
)
def test_the_simulator_gets_actions_of_its_space(space: Any, given: Any) -> None:
    vector_env = SyncVectorEnv([partial(Simulator, space)])
    stepped(vector_env, given)
    (found,) = vector_env.envs[0].got
    assert space.contains(found)
    ours, theirs = (np.hstack([np.ravel(x) for x in jax.tree.leaves(y)]) for y in (given, found))
    np.testing.assert_array_equal(ours, theirs)


def _column(place: int, result: list[Any]) -> None:
    result[place] = np.asarray(result[place])[:, None]


def _unclear(result: list[Any]) -> None:
    result[2] = np.array([0.5, 0.0])


EDITS: dict[str, Callable[[list[Any]], None]] = {
    "rewards": partial(_column, 1),
    "terminated": partial(_column, 2),
    "truncated": partial(_column, 3),
    "terminated of": _unclear,
}


@pytest.mark.parametrize("mode", [SAME_STEP, DISABLED], ids=lambda mode: mode.name)
@pytest.mark.parametrize("noun", EDITS)
def test_rewards_and_ends_are_one_for_each_slot(noun: str, mode: AutoresetMode) -> None:
    with pytest.raises(ValueError, match=noun):
        stepped(Edited(EDITS[noun], mode), [0, 1])


def test_can_render() -> None:
    drawing = partial(gymnasium.make, "CartPole-v1", render_mode="rgb_array")
    for make, draws in ((MAKE["CartPole"], False), (drawing, True)):
        env = from_gymnasium_vec(SyncVectorEnv([make]))
        assert env.can_render == draws
        result = to_gymnasium_vec(env).metadata["render_modes"]
        assert result == ["rgb_array"] * draws
    assert not from_envpool(pool()).can_render
    assert from_envpool(pool(render_mode="rgb_array")).can_render


def test_a_simulator_belongs_to_one_batch() -> None:
    bare = SyncVectorEnv([MAKE["CartPole"]] * 2, autoreset_mode=SAME_STEP)
    wrapped = gym_vector.TransformReward(bare, lambda r: 3 * r)
    other: Any = pool()
    for build, simulator, again in (
        (from_gymnasium_vec, bare, wrapped),
        (from_envpool, other, other),
    ):
        with pytest.raises(TypeError):
            build(simulator, info_keys="lives")  # a batch that was not built owns nothing
        env = build(simulator)
        with pytest.raises(ValueError, match="batch"):
            build(again)
        env.reset(KEY)
        env.close()
        build(again)
