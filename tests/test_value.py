"""Snapshots: equal for what behaves alike, different for what may not, and out of reach."""

import copy
import functools
import threading
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import ALL, VectorConfig, VectorEnv
from helpers import jax_flag

from envrax import Box, Dict, Discrete, FrameStackObservation, JitWrapper, Tuple, VecEnv
from envrax._value import take_snapshot


def value_of(x: Any) -> Any:
    snapshot = take_snapshot(x)
    return snapshot and snapshot.value


class Holder(VectorEnv):
    """An environment that holds something."""

    def __init__(self, held: Any) -> None:
        super().__init__()
        self.held = held


class Colour(Enum):
    RED = 1
    BLUE = 2


class Slotted:
    __slots__ = ("__private", "public")

    def __init__(self, private: Any, public: Any) -> None:
        self.__private, self.public = private, public


class Forgetful:
    """Pickle drops what it was given."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def __getstate__(self) -> dict[str, Any]:
        return {}


class Labelled(dict[str, int]):
    """A dict with an attribute."""


def labelled(label: str, **items: int) -> Labelled:
    made = Labelled(items)
    made.label = label  # pyright: ignore[reportAttributeAccessIssue]
    return made


def adder(n: Any) -> Callable[[Any], Any]:
    return lambda x: x + n


def loop(n: int) -> list[Any]:
    found: list[Any] = [n]
    found.append(found)
    return found


def shared(n: int) -> list[Any]:
    part = [n]
    return [part, part]


# Each row: how to make it, and arguments that give another value.
PAIRS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]] = {
    "int and bool": (lambda x: x, (1,), (True,)),
    "int and float": (lambda x: x, (1,), (1.0,)),
    "zeros": (float, ("0.0",), ("-0.0",)),
    "nan": (float, ("nan",), ("inf",)),
    "str and bytes": (lambda x: x, ("a",), (b"a",)),
    "list and tuple": (lambda x, kind: kind(x), ([1], list), ([1], tuple)),
    "dict order": (dict, ([("a", 1), ("b", 2)],), ([("b", 2), ("a", 1)],)),
    "set": (set, ([1, 2],), ([1, 3],)),
    "numpy array": (lambda n: np.full(3, n), (1,), (2,)),
    "numpy dtype": (lambda t: np.ones(3, t), (np.int32,), (np.int64,)),
    "numpy shape": (np.ones, ((2, 3),), ((3, 2),)),
    "jax array": (lambda n: jnp.full(3, n), (1.0,), (2.0,)),
    "weak type": (lambda weak: jnp.asarray(1.0, None if weak else jnp.float32), (1,), (0,)),
    "jax and numpy": (lambda kind: kind(3), (jnp.zeros,), (lambda n: np.zeros(n, np.float32),)),
    "typed key": (jax.random.key, (0,), (1,)),
    "key kinds": (lambda kind: kind(0), (jax.random.key,), (jax.random.PRNGKey,)),
    "key implementation": (lambda x: jax.random.key(0, impl=x), ("threefry2x32",), ("rbg",)),
    "enum": (Colour, (1,), (2,)),
    "class": (lambda x: x, (int,), (str,)),
    "path": (Path, ("a",), ("b",)),
    "closure": (adder, (1,), (2,)),
    "closure over an array": (lambda n: adder(np.ones(n)), (2,), (3,)),
    "partial": (functools.partial, (adder, 1), (adder, 2)),
    "method": (lambda x: x.append, ([1],), ([2],)),
    "slots": (Slotted, (1, 2), (3, 2)),
    "dropped by pickle": (Forgetful, (1,), (2,)),
    "items of a subclass": (lambda n: labelled("x", a=n), (1,), (2,)),
    "attribute of a subclass": (labelled, ("x",), ("y",)),
    "cycle": (loop, (1,), (2,)),
    "space": (lambda n: Tuple((Discrete(n), Dict(a=Box(0, n, (2,))))), (3,), (4,)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_equal_where_made_alike_and_only_there(name: str) -> None:
    make, these, others = PAIRS[name]
    one, same, other = (value_of(Holder(make(*args))) for args in (these, these, others))
    assert one is not None
    assert one == same and hash(one) == hash(same)
    assert one != other


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize(
    "stack",
    [
        lambda env: env,
        lambda env: JitWrapper(env, pre_warm=False),
        lambda env: VecEnv(env, 3),
        lambda env: VecEnv(JitWrapper(env, cache_dir="here", pre_warm=False), 3),
    ],
    ids=["env", "jit", "vec", "vec-jit"],
)
def test_environments_and_their_copies(cls: Any, stack: Any) -> None:
    value = value_of(stack(cls()))
    assert value is not None
    assert value == value_of(stack(cls())) == value_of(copy.deepcopy(stack(cls())))
    config = cls().config.replace(max_steps=77)
    assert value != value_of(stack(cls(config)))


def test_what_differs_anywhere_in_the_stack() -> None:
    made = [
        VecEnv(VectorEnv(), 3),
        VecEnv(VectorEnv(), 4),
        VecEnv(VectorEnv(), 3, final_obs=True),
        VecEnv(VectorEnv(), 3, jit_compile=False),
        VecEnv(VectorEnv(VectorConfig(gravity=1.0)), 3),
        VecEnv(FrameStackObservation(VectorEnv()), 3),
        VecEnv(FrameStackObservation(VectorEnv(), n_stack=2), 3),
    ]
    assert len({value_of(vec_env) for vec_env in made}) == len(made)


def test_a_part_that_is_shared_equals_two_equal_ones() -> None:
    assert value_of(Holder(shared(1))) == value_of(Holder([[1], [1]]))


def test_one_jitted_function_is_one_value() -> None:
    function = jax.jit(lambda x: x)
    assert value_of(Holder(function)) == value_of(Holder(function))
    assert value_of(Holder(function)) != value_of(Holder(jax.jit(lambda x: x)))


@pytest.mark.parametrize("held", [threading.Lock, lambda: (i for i in ())])
def test_no_value_where_none_can_be_had(held: Any) -> None:
    assert value_of(Holder(held())) is None


def test_a_tracer_has_no_value() -> None:
    seen: list[Any] = []
    jax.make_jaxpr(lambda x: seen.append(value_of(Holder([x]))) or x)(1.0)
    assert seen == [None]


def test_no_device_is_asked_for_what_holds_no_array() -> None:
    with jax_flag("jax_transfer_guard", "disallow"):
        assert value_of(VecEnv(VectorEnv(), 3)) is not None


def test_the_copy_is_out_of_reach_but_for_what_nobody_can_change() -> None:
    env = Holder({"numpy": np.zeros(3), "jax": jnp.zeros(3)})
    snapshot = take_snapshot(env)
    assert snapshot is not None
    env.config.gravity = 9.0
    env.held["numpy"][0] = 1.0
    assert snapshot.copy.config.gravity == 0.5
    assert snapshot.copy.held["numpy"][0] == 0.0
    assert snapshot.copy.held["jax"] is env.held["jax"]
    assert value_of(snapshot.copy) == snapshot.value != value_of(env)


def test_what_cannot_be_copied_has_no_snapshot() -> None:
    class Uncopied(VectorEnv):
        def __deepcopy__(self, memo: Any) -> Any:
            raise RuntimeError("not me")

    assert take_snapshot(Uncopied()) is None
