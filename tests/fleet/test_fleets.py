"""`MultiEnv` and `MultiVecEnv`: what they tell about their members, and what they refuse."""

import copy
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from batched_fakes import OnTheHost, Scene
from fakes import CounterEnv, NestedEnv, PixelEnv
from helpers import assert_trees_equal, slow_but

from envrax import (
    BatchedEnv,
    Box,
    Discrete,
    FrameStackObservation,
    JitWrapper,
    MultiEnv,
    MultiVecEnv,
    VecEnv,
)

FLEETS = [MultiEnv, MultiVecEnv]


def named(name: str) -> Any:
    return type(name, (CounterEnv,), {})


def member(fleet: Any, env: Any) -> Any:
    return env if fleet is MultiEnv else VecEnv(env, 3)


def pickled(fleet: Any) -> Any:
    return pickle.loads(pickle.dumps(fleet))


def test_describes_its_members() -> None:
    envs = [CounterEnv(), FrameStackObservation(PixelEnv()), NestedEnv()]
    multi = MultiEnv(envs)
    assert multi.envs == envs and multi.num_envs == len(multi) == 3
    for side in ("observation", "action"):
        spaces = [getattr(env, f"{side}_space") for env in envs]
        assert getattr(multi, f"{side}_spaces") == spaces
        for attribute in ("shape", "size", "dtype"):
            expected = [getattr(space, attribute) for space in spaces]
            assert getattr(multi, f"{side}_{attribute}s") == expected
    assert multi.class_groups == {"CounterEnv": [0], "PixelEnv": [1], "NestedEnv": [2]}
    assert multi.env_keys == ["CounterEnv", "PixelEnv", "NestedEnv"]
    assert repr(multi) == "MultiEnv([CounterEnv, PixelEnv, NestedEnv], num_envs=3)"


def test_describes_its_batched_members() -> None:
    members = {"b": VecEnv(CounterEnv(), 3), "a": Scene(5)}
    multi = MultiVecEnv(members)
    assert multi.vec_envs == multi.envs == members and list(multi.envs) == ["b", "a"]
    assert (multi.num_envs, len(multi), multi.total_envs) == (2, 2, 8)
    assert multi.slots_per_env == {"b": 3, "a": 5}
    assert multi.observation_spaces["b"] == members["b"].observation_space
    assert multi.action_spaces["a"] == members["a"].action_space
    for side in ("observation", "action"):
        spaces = {k: getattr(m, f"single_{side}_space") for k, m in members.items()}
        assert getattr(multi, f"single_{side}_spaces") == spaces
        for attribute in ("shape", "size", "dtype"):
            found = getattr(multi, f"single_{side}_{attribute}s")
            assert found == {k: getattr(space, attribute) for k, space in spaces.items()}
            assert list(found) == ["b", "a"]
    assert multi.class_groups == {"CounterEnv": ["b"], "Scene": ["a"]}
    assert multi.env_keys == ["b", "a"]
    assert repr(multi) == "MultiVecEnv({'b': CounterEnv×3, 'a': Scene×5}, total=8)"
    assert repr(MultiVecEnv([Scene(5)])) == "MultiVecEnv([Scene×5], total=5)"


@pytest.mark.parametrize("fleet", FLEETS)
@pytest.mark.parametrize(
    ("names", "keys"),
    [
        (["A"], ["A"]),
        (["A", "B", "A"], ["A_0", "B", "A_1"]),
        (["A", "A", "A_0"], ["A_1", "A_2", "A_0"]),
        (["A_1", "A", "A", "A_0"], ["A_1", "A_2", "A_3", "A_0"]),
        (["A", "A_0", "A", "A_0"], ["A_1", "A_0_0", "A_2", "A_0_1"]),
    ],
)
def test_keys_for_logs_never_collide(fleet: Any, names: list[str], keys: list[str]) -> None:
    multi = fleet([member(fleet, named(name)()) for name in names])
    assert multi.env_keys == keys and len(set(keys)) == len(names)


def test_class_groups_go_by_the_class_and_not_by_the_name() -> None:
    class Renamed(CounterEnv):
        name = "Display name"  # pyright: ignore

    multi = MultiVecEnv([VecEnv(Renamed(), 2), OnTheHost(2), VecEnv(Renamed(), 3)])
    assert multi.class_groups == {"Renamed": [0, 2], "GymCartPole": [1]}
    assert repr(multi).startswith("MultiVecEnv([Display name")
    assert MultiEnv([Renamed()]).class_groups == {"Renamed": [0]}


@pytest.mark.parametrize("fleet", slow_but(MultiEnv, values=FLEETS))
def test_a_tuple_counts_as_a_list(fleet: Any) -> None:
    multi = fleet((member(fleet, CounterEnv()), member(fleet, CounterEnv())))
    obs, states = multi.reset(jax.random.key(0))
    returned = multi.step(tuple(states), (multi.action_spaces[0].sample(jax.random.key(1)),) * 2)
    assert all(type(part) is list for part in (obs, states, multi.envs, *returned))


@pytest.mark.parametrize("fleet", FLEETS)
def test_the_members_that_it_was_given_are_kept_apart_from_its_own(fleet: Any) -> None:
    given = [member(fleet, CounterEnv())]
    multi = fleet(given)
    given.append(member(fleet, CounterEnv()))
    multi.envs.clear()
    assert len(multi) == len(multi.envs) == 1


@pytest.mark.parametrize(
    "keys", [[0, 1], pytest.param(["b", "a"], marks=pytest.mark.slow)], ids=["list", "dict"]
)
@pytest.mark.parametrize("fleet", slow_but(MultiEnv, values=FLEETS))
def test_one_member_at_a_time(fleet: Any, keys: list[Any]) -> None:
    made = [member(fleet, CounterEnv()), member(fleet, JitWrapper(PixelEnv(), pre_warm=False))]
    multi = fleet(made if keys == [0, 1] else dict(zip(keys, made, strict=True)))
    for key, one in zip(keys, made, strict=True):
        obs, state = multi.reset_at(key, jax.random.key(5))
        assert_trees_equal((obs, state), one.reset(jax.random.key(5)))
        action = one.action_space.sample(jax.random.key(1))
        assert_trees_equal(multi.step_at(key, state, action), one.step(state, action))
    if keys == [0, 1]:
        assert_trees_equal(
            multi.reset_at(-1, jax.random.key(5)), multi.reset_at(1, jax.random.key(5))
        )


def test_slots_of_a_member() -> None:
    multi = MultiVecEnv({"count": VecEnv(CounterEnv(), 3), "scene": Scene(4)})
    _, states = multi.reset(jax.random.key(0))
    alone = multi.vec_envs["count"]
    assert_trees_equal(multi.slot_state(states, "count", -1), alone.slot_state(states["count"], 2))
    frame = multi.render_slot(states, "count", 1)
    np.testing.assert_array_equal(frame, alone.render_slot(states["count"], 1))
    with pytest.raises(IndexError, match=r"VecEnv\.slot_state: expected an index"):
        multi.slot_state(states, "count", 3)
    with pytest.raises(NotImplementedError, match=r"Scene\.render_slot"):
        multi.render_slot(states, "scene")


@pytest.mark.parametrize(
    ("fleet", "copied"),
    [
        (MultiEnv, copy.deepcopy),
        (MultiVecEnv, pickled),
        pytest.param(MultiEnv, pickled, marks=pytest.mark.slow),
        pytest.param(MultiVecEnv, copy.deepcopy, marks=pytest.mark.slow),
    ],
)
def test_copies(fleet: Any, copied: Any) -> None:
    multi = fleet({"b": member(fleet, CounterEnv()), "a": member(fleet, CounterEnv())})
    expected = multi.reset(jax.random.key(0))
    assert_trees_equal(copied(multi).reset(jax.random.key(0)), expected)


def test_close_closes_every_member() -> None:
    class Closing(CounterEnv):
        closed = 0

        def close(self) -> None:
            type(self).closed += 1

    MultiEnv([Closing(), JitWrapper(Closing(), pre_warm=False)]).close()
    assert Closing.closed == 2
    MultiVecEnv([VecEnv(Closing(), 2)]).close()
    assert Closing.closed == 3


def test_a_member_of_one_s_own_needs_no_more_than_the_contract() -> None:
    class Minimal(BatchedEnv[Box, Discrete]):
        n_slots = 2  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]
        single_observation_space = Box(0.0, 1.0, ())  # pyright: ignore
        single_action_space = Discrete(2)  # pyright: ignore

        def reset(self, rng: jax.Array) -> Any:
            return jax.random.uniform(rng, (2,)), rng

        def step(self, state: Any, actions: Any) -> Any:
            zeros = np.zeros(2, np.float32)
            return jax.random.uniform(state, (2,)), state, zeros, zeros > 0, {}

    multi = MultiVecEnv([Minimal(), Minimal()])
    obs, states = multi.reset(jax.random.key(0))
    obs, states, rewards, dones, infos = multi.step(states, [[0, 1], [1, 0]])
    assert infos == [{}, {}] and multi.class_groups == {"Minimal": [0, 1]}


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("empty", [[], {}, ()])
def test_empty(empty: Any) -> None:
    with pytest.raises(ValueError, match=r"^MultiEnv requires at least one environment\.$"):
        MultiEnv(empty)
    with pytest.raises(ValueError, match=r"^MultiVecEnv requires at least one VecEnv\.$"):
        MultiVecEnv(empty)


@pytest.mark.parametrize(
    ("fleet", "given", "sentence"),
    [
        (MultiEnv, CounterEnv(), r"MultiEnv: expected a list or a dict of JaxEnvs; got CounterEnv"),
        (MultiEnv, "CartPole-v0", r"expected a list or a dict of JaxEnvs; got 'CartPole-v0'"),
        (MultiEnv, [CounterEnv(), 3], r"MultiEnv: expected JaxEnvs; got 3 at 1\."),
        (MultiEnv, {"a": VecEnv(CounterEnv(), 2)}, r"expected JaxEnvs; got VecEnv\(.* at 'a'\."),
        (MultiEnv, [CounterEnv], r"expected JaxEnvs; got <class .*CounterEnv'> at 0\."),
        (MultiVecEnv, [CounterEnv()], r"MultiVecEnv: expected BatchedEnvs; got CounterEnv.* at 0"),
        (MultiEnv, {CounterEnv()}, r"MultiEnv: expected a list or a dict of JaxEnvs; got {Counter"),
        (MultiVecEnv, 3, r"MultiVecEnv: expected a list or a dict of BatchedEnvs; got 3"),
    ],
)
def test_wrong_members(fleet: Any, given: Any, sentence: str) -> None:
    with pytest.raises(TypeError, match=sentence):
        fleet(given)


def test_one_host_env_twice() -> None:
    gym = OnTheHost(2)
    with pytest.raises(ValueError, match=r"expected every member that works on the host once"):
        MultiVecEnv([gym, gym])


def test_wrong_lengths() -> None:
    multi = MultiEnv([CounterEnv(), CounterEnv(), CounterEnv()])
    _, states = multi.reset(jax.random.key(0))
    with pytest.raises(ValueError) as error:
        multi.step(states[:2], [0, 1, 2])
    assert str(error.value) == (
        "MultiEnv.step: expected 3 states and actions, got 2 states and 3 actions."
    )
    vec = MultiVecEnv([Scene(2)])
    with pytest.raises(ValueError, match=r"^MultiVecEnv\.step: expected 1 states and actions, got"):
        vec.step([], [])
    with pytest.raises(ValueError, match=r"slot_state: expected 1 states, got 0 states\."):
        vec.slot_state([], 0)


def test_wrong_keys() -> None:
    multi = MultiEnv({"a": CounterEnv(), "b": CounterEnv()})
    _, states = multi.reset(jax.random.key(0))
    with pytest.raises(ValueError) as error:
        multi.step({"a": states["a"]}, {"a": 0, "c": 1, "b": 2})
    assert str(error.value) == (
        "MultiEnv.step: expected states and actions, each a dict with keys 'a', 'b'; got states "
        "without 'b', actions with the unexpected 'c'."
    )


@pytest.mark.parametrize(
    ("members", "actions", "sentence"),
    [
        ([CounterEnv()], {0: 0}, r"each a list of 1; got actions as a dict"),
        ([CounterEnv()], 0, r"each a list of 1; got actions as a int"),
        ({"a": CounterEnv()}, [0], r"each a dict with keys 'a'; got actions as a list"),
    ],
)
def test_the_other_container(members: Any, actions: Any, sentence: str) -> None:
    multi = MultiEnv(members)
    _, states = multi.reset(jax.random.key(0))
    with pytest.raises(TypeError, match=sentence):
        multi.step(states, actions)


@pytest.mark.parametrize(
    ("members", "idx", "error", "sentence"),
    [
        ([CounterEnv()], 1, IndexError, r"reset_at: expected an index from -1 to 0; got 1\."),
        ([CounterEnv()], -2, IndexError, r"expected an index from -1 to 0; got -2\."),
        ([CounterEnv()], "a", TypeError, r"expected an index from -1 to 0; got 'a'\."),
        ({"a": CounterEnv()}, "b", KeyError, r"reset_at: expected a key of 'a'; got 'b'\."),
        ({"a": CounterEnv()}, 0, KeyError, r"expected a key of 'a'; got 0\."),
    ],
)
def test_wrong_indices(members: Any, idx: Any, error: Any, sentence: str) -> None:
    multi = MultiEnv(members)
    with pytest.raises(error, match=sentence):
        multi.reset_at(idx, jax.random.key(0))
    with pytest.raises(error, match=sentence.replace("reset_at", "step_at")):
        multi.step_at(idx, None, 0)


@pytest.mark.parametrize(
    ("rng", "error", "sentence"),
    [
        (0, TypeError, r"MultiEnv\.reset: expected a PRNG key; got 0"),
        (jax.random.split, TypeError, r"MultiEnv\.reset: expected a PRNG key"),
        (None, ValueError, r"Pass one key; MultiEnv splits it\."),
    ],
)
def test_wrong_keys_of_randomness(rng: Any, error: Any, sentence: str) -> None:
    rng = jax.random.split(jax.random.key(0), 2) if rng is None else rng
    with pytest.raises(error, match=sentence):
        MultiEnv([CounterEnv()]).reset(rng)


def test_wrong_actions_stop_everything() -> None:
    """Before any member is stepped, also those that cannot be stepped back."""
    gym = OnTheHost(2)
    multi = MultiVecEnv(
        {"gym": gym, "count": VecEnv(CounterEnv(), 3), "b": VecEnv(CounterEnv(), 3)}
    )
    _, states = multi.reset(jax.random.key(0))
    good = {"gym": [0, 1], "count": [0, 1, 2], "b": [0, 1, 2]}
    with pytest.raises(
        ValueError, match=r"expected actions\['b'\] of shape \(3,\), int32; got .*4"
    ):
        multi.step(states, {**good, "b": [0, 1, 2, 0]})
    with pytest.raises(TypeError, match=r"expected actions\['count'\]\[0\] of shape \(\), int32"):
        multi.step(states, {**good, "count": [0.5, 1, 2]})
    with pytest.raises(ValueError, match=r"step: expected actions of shape \(3,\), int32"):
        multi.step_at("b", states["b"], [1])
    assert gym.steps == 0
    multi.step(states, good)
    assert gym.steps == 1


def test_states_that_are_not_the_members() -> None:
    """They are refused as by the members alone, and the member is named."""
    multi = MultiVecEnv([VecEnv(CounterEnv(), 2), VecEnv(CounterEnv(), 2)])
    obs, states = multi.reset(jax.random.key(0))
    three = VecEnv(CounterEnv(), 3).reset(jax.random.key(0))[1]
    actions = [[0, 1]] * 2
    for given in ([states[0], three], [three, three]):
        with pytest.raises(ValueError, match=r"the state of 2 slots .* got a leaf of shape \(3,"):
            multi.step(given, actions)
    with pytest.raises(TypeError, match=r"the state of 2 slots .*; got int32\[2, 2\]"):
        multi.step(obs, actions)
    with pytest.raises(ValueError) as told:
        multi.step([states[0], three], actions)
    assert told.value.__notes__[0] == "This was in MultiVecEnv member 1."


@pytest.mark.slow
def test_identical_members_with_keys_of_both_kinds() -> None:
    multi = MultiVecEnv([VecEnv(CounterEnv(), 2), VecEnv(CounterEnv(), 2)])
    _, states = multi.reset(jax.random.key(0))
    _, states[0] = multi.reset_at(0, jax.random.PRNGKey(1))
    _, _, rewards, *_ = multi.step(states, [[0, 1], [2, 1]])
    assert [x.tolist() for x in rewards] == [[0.0, 1.0], [2.0, 1.0]]


@pytest.mark.parametrize(
    ("method", "returned", "sentence"),
    [
        ("reset", np.zeros((2, 1)), r"member 'q': expected reset to return a tuple \(obs, state\)"),
        ("step", (0, 0, 0, 0), r"member 'q': expected step to return a tuple .*tuple of length 4"),
    ],
)
@pytest.mark.parametrize("traceable", [True, False])
def test_members_that_break_the_contract(
    method: str, returned: Any, sentence: str, traceable: bool
) -> None:
    class Broken(Scene):
        pass

    Broken.traceable = traceable  # pyright: ignore
    setattr(Broken, method, lambda self, *args: returned)
    multi = MultiVecEnv({"a": Scene(2), "q": Broken(2)})
    with pytest.raises(TypeError, match=sentence):
        _, states = multi.reset(jax.random.key(0))
        multi.step(states, {"a": [0, 0], "q": [0, 0]})


@pytest.mark.parametrize("compiled", [True, False])
def test_an_error_names_its_member(compiled: bool) -> None:
    class Failing(CounterEnv):
        def step(self, state: Any, action: Any) -> Any:
            raise ZeroDivisionError("mine")

    env = JitWrapper(Failing(), pre_warm=False) if compiled else Failing()
    multi = MultiEnv({"good": CounterEnv(), "bad": env})
    _, states = multi.reset(jax.random.key(0))
    with pytest.raises(ZeroDivisionError, match="mine") as error:
        multi.step(states, {"good": 0, "bad": 0})
    assert "This was in MultiEnv member 'bad'." in error.value.__notes__


@pytest.mark.slow
def test_members_with_side_effects_share_nothing() -> None:
    """Each keeps its own host state, compiled or not."""

    class Noting(CounterEnv):
        def __init__(self) -> None:
            super().__init__()
            self.noted: list[int] = []

        def step(self, state: Any, action: Any) -> Any:
            jax.debug.callback(lambda a: self.noted.append(int(a)), jnp.asarray(action))
            return super().step(state, action)

    envs = [Noting(), Noting()]
    multi = MultiEnv([JitWrapper(env, pre_warm=False) for env in envs])
    _, states = multi.reset(jax.random.key(0))
    for actions in ([0, 1], [2, 0]):
        _, states, *_ = multi.step(states, actions)
    alone = [VecEnv(Noting(), 1), VecEnv(Noting(), 1)]
    for vec_env in alone:
        vec_env.step(vec_env.reset(jax.random.key(0))[1], [1])
    jax.effects_barrier()
    assert [env.noted for env in envs] == [[0, 2], [1, 0]]
    assert [vec_env.env.noted for vec_env in alone] == [[1], [1]]
