"""`MultiEnv` and `MultiVecEnv`: what they tell about their members, and what they refuse."""

import copy
import pickle
from typing import Any

import jax
import numpy as np
import pytest
from batched_fakes import OnTheHost, Scene
from fakes import CoinEnv, CounterEnv, NestedEnv, PixelEnv, VectorEnv
from helpers import assert_trees_equal, slow_but, small_vec

from envrax import BatchedEnv, FrameStackObservation, JitWrapper, MultiEnv, MultiVecEnv, VecEnv

FLEETS = [MultiEnv, MultiVecEnv]
KEY = jax.random.key(0)


def named(name: str) -> Any:
    return type(name, (CounterEnv,), {})


def member(fleet: Any, env: Any) -> Any:
    return env if fleet is MultiEnv else small_vec(env, 3)


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
    assert repr(multi) == "MultiEnv([CounterEnv, PixelEnv, NestedEnv], num_envs=3)"


def test_class_groups_go_by_the_class_and_not_by_the_name() -> None:
    class Renamed(CounterEnv):
        name = "Display name"  # pyright: ignore

    multi = MultiVecEnv([VecEnv(Renamed(), 2), OnTheHost(2), VecEnv(Renamed(), 3)])
    assert multi.class_groups == {"Renamed": [0, 2], "GymCartPole": [1]}


def test_describes_its_batched_members() -> None:
    members = {"b": small_vec(CounterEnv(), 3), "a": Scene(5)}
    multi = MultiVecEnv(members)
    assert multi.vec_envs == multi.envs == members and list(multi.envs) == ["b", "a"]
    assert multi.num_envs == multi.n_envs == len(multi) == 2
    assert multi.total_envs == multi.total_slots == 8
    assert multi.slots_per_env == {"b": 3, "a": 5}
    for side in ("observation", "action"):
        for kind in (f"{side}_space", f"single_{side}_space"):
            spaces = {name: getattr(member, kind) for name, member in members.items()}
            assert getattr(multi, f"{kind}s") == spaces
        for attribute in ("shape", "size", "dtype"):
            found = getattr(multi, f"single_{side}_{attribute}s")
            assert found == {name: getattr(space, attribute) for name, space in spaces.items()}
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
        (["A_1", "A", "A", "A_0"], ["A_1", "A_2", "A_3", "A_0"]),
        (["A", "A_0", "A", "A_0"], ["A_1", "A_0_0", "A_2", "A_0_1"]),
    ],
)
def test_keys_for_logs_never_collide(fleet: Any, names: list[str], keys: list[str]) -> None:
    multi = fleet([member(fleet, named(name)()) for name in names])
    assert multi.env_keys == keys and len(set(keys)) == len(names)


@pytest.mark.parametrize("fleet", slow_but(MultiEnv, values=FLEETS))
def test_one_member_at_a_time(fleet: Any) -> None:
    made = [member(fleet, CounterEnv()), member(fleet, JitWrapper(PixelEnv(), pre_warm=False))]
    for multi, keys in ((fleet(made), [0, -1]), (fleet(dict(zip("ba", made, strict=True))), "ba")):
        for key, one in zip(keys, made, strict=True):
            obs, state = multi.reset_at(key, KEY)
            assert_trees_equal((obs, state), one.reset(KEY))
            action = one.action_space.sample(KEY)
            assert_trees_equal(multi.step_at(key, state, action), one.step(state, action))


def test_slots_of_a_member() -> None:
    multi = MultiVecEnv({"count": small_vec(CounterEnv(), 3), "scene": Scene(4)})
    _, states = multi.reset(KEY)
    alone = multi.vec_envs["count"]
    assert_trees_equal(multi.slot_state(states, "count", -1), alone.slot_state(states["count"], 2))
    frame = multi.render_slot(states, "count", 1)
    np.testing.assert_array_equal(frame, alone.render_slot(states["count"], 1))


@pytest.mark.parametrize("fleet", slow_but(MultiVecEnv, values=FLEETS))
def test_copies(fleet: Any) -> None:
    multi = fleet({"b": member(fleet, CounterEnv()), "a": member(fleet, CounterEnv())})
    expected = multi.reset(KEY)
    for copied in (copy.deepcopy(multi), pickle.loads(pickle.dumps(multi))):
        assert_trees_equal(copied.reset(KEY), expected)


def test_close_closes_every_member() -> None:
    class Resource(CounterEnv):
        closed = 0

        def close(self) -> None:
            type(self).closed += 1

    MultiEnv([Resource(), JitWrapper(Resource(), pre_warm=False)]).close()
    assert Resource.closed == 2
    MultiVecEnv([VecEnv(Resource(), 2)]).close()
    assert Resource.closed == 3


# Refusals


def stepped(members: Any, states: Any, actions: Any) -> Any:
    """A step with states that are made of the fleet's by `states`."""
    first = next(iter(members.values() if isinstance(members, dict) else members))
    fleet: Any = MultiVecEnv(members) if isinstance(first, BatchedEnv) else MultiEnv(members)
    return fleet.step(states(fleet.reset(KEY)[1]), actions)


def pair() -> list[Any]:
    return [small_vec(CounterEnv(), 2), small_vec(CounterEnv(), 2)]


def three_slots() -> Any:
    return small_vec(CounterEnv(), 3).reset(KEY)[1]


ONE, KEYED = [CounterEnv()], {"a": CounterEnv()}
REFUSED: list[tuple[Any, Any, str]] = [
    (lambda: MultiVecEnv({}), ValueError, "at least one"),
    (lambda: MultiEnv(CounterEnv()), TypeError, "list"),
    (lambda: MultiEnv([CounterEnv(), 3]), TypeError, "at 1"),
    (lambda: MultiEnv({"a": small_vec(CounterEnv(), 2)}), TypeError, "at 'a'"),
    (lambda: MultiVecEnv([OnTheHost(2)] * 2), ValueError, "once"),
    (lambda: stepped(ONE, lambda s: s, {0: 0}), TypeError, "actions as a dict"),
    (lambda: stepped(KEYED, lambda s: s, [0]), TypeError, "actions as a list"),
    (lambda: stepped(KEYED, lambda s: s, {"a": 0, "c": 1}), ValueError, "unexpected 'c'"),
    (lambda: stepped(KEYED, lambda s: {}, {"a": 0}), ValueError, "without 'a'"),
    (lambda: stepped([Scene(2)], lambda s: [], [[0, 0]]), ValueError, "got 0 states"),
    (lambda: stepped(pair(), lambda s: [s[0], three_slots()], [[0, 1]] * 2), ValueError, "slots"),
    (lambda: stepped(pair(), lambda s: [0, 1], [[0, 1]] * 2), TypeError, "slots"),
    (lambda: MultiEnv(ONE).step_at(-2, None, 0), IndexError, "index"),
    (lambda: MultiEnv(ONE).reset_at("a", KEY), TypeError, "integer"),
    (lambda: MultiEnv(ONE).reset(0), TypeError, "PRNG key"),
]


@pytest.mark.parametrize(("call", "error", "noun"), REFUSED)
def test_what_is_refused(call: Any, error: Any, noun: str) -> None:
    with pytest.raises(error, match=noun):
        call()


def test_wrong_actions_stop_everything() -> None:
    """Before any member is stepped, also those that cannot be stepped back."""
    gym = OnTheHost(2)
    multi = MultiVecEnv({"gym": gym, "b": small_vec(CounterEnv(), 3)})
    _, states = multi.reset(KEY)
    with pytest.raises(ValueError, match=r"actions\['b'\]"):
        multi.step(states, {"gym": [0, 1], "b": [0, 1, 2, 0]})
    with pytest.raises(TypeError, match=r"actions\['b'\]\[0\]"):
        multi.step(states, {"gym": [0, 1], "b": [0.5, 1, 2]})
    assert gym.steps == 0
    multi.step(states, {"gym": [0, 1], "b": [0, 1, 2]})
    assert gym.steps == 1


@pytest.mark.parametrize(
    ("method", "returned"), [("reset", np.zeros((2, 1))), ("step", (0, 0, 0, 0))]
)
@pytest.mark.parametrize("traceable", [True, False])
def test_members_that_break_the_contract(method: str, returned: Any, traceable: bool) -> None:
    class Broken(Scene):
        pass

    Broken.traceable = traceable  # pyright: ignore
    setattr(Broken, method, lambda self, *args: returned)
    multi = MultiVecEnv({"a": Scene(2), "q": Broken(2)})
    with pytest.raises(TypeError, match=f"'q'.*{method}"):
        _, states = multi.reset(KEY)
        multi.step(states, {"a": [0, 0], "q": [0, 0]})


@pytest.mark.parametrize("compiled", [True, False])
def test_an_error_names_its_member(compiled: bool) -> None:
    class Failing(CounterEnv):
        def step(self, state: Any, action: Any) -> Any:
            raise ZeroDivisionError("mine")

    env = JitWrapper(Failing(), pre_warm=False) if compiled else Failing()
    multi = MultiEnv({"good": CounterEnv(), "bad": env})
    _, states = multi.reset(KEY)
    with pytest.raises(ZeroDivisionError, match="mine") as error:
        multi.step(states, {"good": 0, "bad": 0})
    assert "This was in MultiEnv member 'bad'." in error.value.__notes__


def test_keys_of_the_same_member_twice_are_used_once() -> None:
    member = small_vec(CounterEnv(), 2)
    fleet = MultiVecEnv([member, member])
    with jax.debug_key_reuse(True):
        _, states = fleet.reset(KEY)
        _, states, *_ = fleet.step(states, [[0, 1], [1, 0]])
        fleet.step(states, [[0, 1], [1, 0]])


def test_the_widest_action_and_observation() -> None:
    assert MultiVecEnv([VecEnv(NestedEnv(), 9), VecEnv(CoinEnv(), 2)]).pad_dims() == (3, 7)
    assert MultiEnv([CoinEnv(), VectorEnv()]).pad_dims() == (2, 4)


def test_reset_where_with_a_list_for_a_dict() -> None:
    """The message names what was given, and no `rng`."""
    fleet = MultiVecEnv({"a": small_vec(CounterEnv(), 2)})
    with pytest.raises(TypeError) as found:
        fleet.reset_where([np.ones(2, bool)], *fleet.reset(KEY), KEY)
    assert str(found.value) == (
        "MultiVecEnv.reset_where: expected masks and obs and states, each a dict with keys "
        "'a'; got masks as a list."
    )
