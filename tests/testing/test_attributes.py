"""What an environment keeps in attributes: traced values are found, and edits."""

import dataclasses
import re
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Callable
from functools import cached_property
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from broken_envs import faults
from broken_envs.drift import Drift, DriftConfig
from broken_envs.purity import StepSetsAnAttribute, TableIsFilledInATrace

from envrax import ClipReward, VecEnv
from envrax.testing.attributes import changed_attributes, read_attributes


class TableIsInADict(Drift):
    def __init__(self, kind: Any = dict) -> None:
        super().__init__()
        self.tables: Any = kind()

    def next_extra(self, extra: Any) -> Any:
        if "zero" not in self.tables:
            self.tables["zero"] = jnp.zeros(3)
        return self.tables["zero"][0]


@pytest.mark.parametrize(
    "env",
    [
        pytest.param(TableIsFilledInATrace(), marks=pytest.mark.slow),
        ClipReward(TableIsInADict()),
        TableIsInADict(OrderedDict),
    ],
)
def test_a_table_that_a_trace_fills_is_found(env: Any) -> None:
    """Also if a plain call filled it before, and the environment is left as it was."""
    if isinstance(env, TableIsFilledInATrace):
        assert env.table.shape == (3,)
    before = read_attributes(env)
    (fault,) = faults("no_tracer_leaks", env)
    assert fault.where.endswith(".step") and "one in `self.table" in fault.got
    assert not changed_attributes(before, read_attributes(env))


def test_the_attribute_that_a_step_sets_to_a_traced_value_is_named() -> None:
    (fault,) = faults("no_tracer_leaks", StepSetsAnAttribute())
    assert fault.got == "one in `self.last`" and "as a field of its class" in fault.fix


def test_a_traced_value_that_was_kept_before_the_check_is_found() -> None:
    env = StepSetsAnAttribute()
    jax.eval_shape(lambda state: env.step(state, 0), env.reset(jax.random.key(0))[1])
    assert faults("no_tracer_leaks", env)


class KeepsAtReset(Drift):
    def extra(self) -> Any:
        self.first = jnp.float32(0)
        return self.first


@pytest.mark.parametrize(
    ("env", "where", "name"),
    [
        (KeepsAtReset(), "KeepsAtReset.reset", "`self.first`"),
        (ClipReward(KeepsAtReset()), "ClipReward.reset", "`self.first` of KeepsAtReset"),
        (VecEnv(StepSetsAnAttribute(), 2), "VecEnv.step", "`self.last` of StepSetsAnAttribute"),
    ],
    ids=["reset", "wrapper", "batch"],
)
def test_an_attribute_is_found_in_every_stack(env: Any, where: str, name: str) -> None:
    (fault,) = faults("no_tracer_leaks", env)
    assert (fault.where, fault.got) == (where, f"one in {name}")


class Store:
    """An object beside the environment, such as a simulator of its own."""

    table: Any = None


class KeepsBeside(Drift):
    def __init__(self, *, reads: bool) -> None:
        super().__init__()
        self.store, self.reads = Store(), reads

    def next_extra(self, extra: Any) -> Any:
        if self.store.table is None:
            self.store.table = extra * 2
        return self.store.table if self.reads else extra


def test_a_value_that_the_next_trace_reads_is_found_wherever_it_is() -> None:
    """Its maker is named. One that nothing reads does no harm."""
    (fault,) = faults("no_tracer_leaks", KeepsBeside(reads=True))
    assert re.search(r"the next call reads, made by \S*next_extra at test_attributes.py", fault.got)
    assert not faults("no_tracer_leaks", KeepsBeside(reads=False))


class TableIsOfNumPy(Drift):
    @cached_property
    def table(self) -> np.ndarray:
        return np.zeros(3, np.float32)

    @cached_property
    def observation_space(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().observation_space

    def next_extra(self, extra: Any) -> Any:
        return jnp.asarray(self.table)[0]


def test_a_cached_property_without_traced_values_is_legal() -> None:
    assert not faults("no_tracer_leaks", TableIsOfNumPy())


class Keeper(Drift):
    """Has one attribute of each kind."""

    shared: dict[str, Any] = {}  # noqa: RUF012
    count = 0

    def __init__(self) -> None:
        super().__init__()
        self.number, self.text, self.missing = 3, "text", float("nan")
        self.numbers, self.names, self.seen = [1, 2], {"a": np.zeros(2)}, {1}
        self.array, self.table = np.array([1.0, np.nan]), jnp.zeros(2)
        self.key = jax.random.key(0)


EDITS: dict[str, Callable[[Any], Any]] = {
    "shared": lambda env: env.shared.update({len(env.shared): 1}),
    "count": lambda env: setattr(Keeper, "count", Keeper.count + 1),
    "number": lambda env: setattr(env, "number", 4),
    "text": lambda env: delattr(env, "text"),
    "new": lambda env: setattr(env, "new", None),
    "numbers": lambda env: env.numbers.append(3),
    "names": lambda env: env.names["a"].fill(1),
    "seen": lambda env: env.seen.add(2),
    "array": lambda env: env.array.fill(1),
    "table": lambda env: setattr(env, "table", jnp.ones(2)),
    "key": lambda env: setattr(env, "key", jax.random.key(1)),
    "_config": lambda env: object.__setattr__(env.config, "max_steps", 9),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_found_beneath_a_wrapper_too(name: str) -> None:
    env = Keeper()
    before = read_attributes(ClipReward(env))
    EDITS[name](env)
    assert changed_attributes(before, read_attributes(ClipReward(env))) == [name]


def test_an_equal_value_is_no_edit() -> None:
    env = Keeper()
    before = read_attributes(env)
    vars(env).update({k: v for k, v in vars(Keeper()).items() if k != "missing"})
    assert not changed_attributes(before, read_attributes(env))


class Pair(NamedTuple):
    first: Any


@dataclasses.dataclass
class Node:
    children: list[Any]


def _of_list(value: Any) -> None:
    value.append(1)


def _array_of(value: Any) -> Any:
    array = np.empty(2, object)
    array[0] = value
    return array


# A container, and what edits it.
CONTAINERS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "dict": (dict, lambda x: x.update(a=1)),
    "list": (list, _of_list),
    "set": (set, lambda x: x.add(1)),
    "deque": (deque, _of_list),
    "full deque": (lambda: deque([0, 0], maxlen=2), _of_list),
    "Counter": (Counter, lambda x: x.update(["a"])),
    "defaultdict": (lambda: defaultdict(int), lambda x: x["a"]),
    "OrderedDict": (OrderedDict, lambda x: x.update(a=1)),
    "ChainMap": (ChainMap, lambda x: x.update(a=1)),
    "UserDict": (UserDict, lambda x: x.update(a=1)),
    "UserList": (UserList, _of_list),
    "SimpleNamespace": (SimpleNamespace, lambda x: setattr(x, "a", 1)),
    "dataclass": (lambda: Node([]), lambda x: setattr(x, "children", 1)),
    "bytearray": (lambda: bytearray(1), _of_list),
    "array": (lambda: np.zeros(2), lambda x: x.fill(1)),
}

# What may hold a container, and how it is found there.
HOLDERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "itself": (lambda x: x, lambda x: x),
    "dict": (lambda x: {"a": x}, lambda x: x["a"]),
    "tuple": (lambda x: (0, x), lambda x: x[1]),
    "NamedTuple": (Pair, lambda x: x.first),
    "deque": (lambda x: deque([x]), lambda x: x[0]),
    "defaultdict": (lambda x: defaultdict(int, a=x), lambda x: x["a"]),
    "dataclass": (lambda x: Node([x]), lambda x: x.children[0]),
    "view": (lambda x: MappingProxyType({"a": x}), lambda x: x["a"]),
    "array": (_array_of, lambda x: x[0]),
    "lists": (lambda x: [[[x]]], lambda x: x[0][0][0]),
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("container", CONTAINERS)
def test_an_edit_is_found_in_every_standard_container(holder: str, container: str) -> None:
    make, edit = CONTAINERS[container]
    hold, held_by = HOLDERS[holder]
    env: Any = Drift()
    env.kept, env.other = hold(make()), hold(make())
    before = read_attributes(env)
    assert not changed_attributes(before, read_attributes(env))
    edit(held_by(env.kept))
    assert changed_attributes(before, read_attributes(env)) == ["kept"]


@chex.dataclass
class HoldingConfig(DriftConfig):
    held: Any = None


class EditsWhatItHolds(Drift):
    def __init__(self, held: Any, edit: Callable[[Any], Any], *, in_config: bool) -> None:
        super().__init__(HoldingConfig(held=held if in_config else None))
        self.held, self.edit = held, edit

    def next_extra(self, extra: Any) -> Any:
        config: Any = self.config
        self.edit(self.held if config.held is None else config.held)
        return extra


def _count(held: Any) -> None:
    held["a"]["b"] += 1


@pytest.mark.parametrize("in_config", [True, False])
@pytest.mark.parametrize(
    ("make", "edit"),
    [
        (lambda: {"a": {"b": 0}}, _count),
        (lambda: {"a": Counter[str]()}, _count),
        (lambda: {"a": list[int]()}, lambda held: held["a"].append(1)),
        (lambda: defaultdict[str, int](int), lambda held: held.update(a=held["a"] + 1)),
        (lambda: OrderedDict(a=OrderedDict(b=0)), _count),
        (lambda: deque([0], maxlen=99), lambda held: held.append(1)),
    ],
    ids=["dict", "counter", "list", "defaultdict", "ordered", "deque"],
)
def test_the_rule_finds_an_edit_beneath_a_container(make: Any, edit: Any, in_config: bool) -> None:
    (fault,) = faults("inputs_are_left_alone", EditsWhatItHolds(make(), edit, in_config=in_config))
    assert fault.where == "EditsWhatItHolds.step"
    assert ("`_config`" if in_config else "`held`") in fault.got


class Raises:
    """Can be neither compared nor copied nor counted."""

    def __eq__(self, other: object) -> bool:
        raise ValueError

    __len__ = __iter__ = __copy__ = __deepcopy__ = __eq__  # pyright: ignore[reportAssignmentType]
    __hash__ = object.__hash__


class CannotBeRead(list[Any]):
    def __iter__(self) -> Any:
        raise ValueError


def test_what_an_attribute_holds_may_be_endless_or_refuse_everything() -> None:
    env: Any = Drift()
    env.ring, env.shared, env.deep = {}, [0], []
    env.ring.update(a=env.ring, b=[env.ring], c=Node([env.ring]))
    for _ in range(5000):
        env.shared, env.deep = [env.shared, env.shared], [env.deep]
    env.raises, env.unread = {"a": [Raises()]}, {"a": CannotBeRead()}
    env.ragged = np.array([np.zeros(2), np.zeros(3)], object)
    before = read_attributes(env)
    assert not changed_attributes(before, read_attributes(env))
    env.ring["c"].children.append(1)
    env.raises["a"][0] = Raises()
    env.ragged[0][0] = 1
    assert changed_attributes(before, read_attributes(env)) == ["ring", "raises", "ragged"]


class LooksUp(Drift):
    """Its tables are filled when they are first read, and the order of a dict changes."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: Any = OrderedDict(a={"b": 0}, c={"d": 0})
        self.by_name: Any = defaultdict(list)

    @cached_property
    def table(self) -> Any:
        return {"a": np.zeros(3, np.float32)}

    def next_extra(self, extra: Any) -> Any:
        self.tables.move_to_end("a" if next(iter(self.tables)) == "a" else "c")
        return extra + self.table["a"][0] + len(self.by_name["a"])


def test_the_rule_accepts_what_is_filled_once() -> None:
    assert not faults("inputs_are_left_alone", LooksUp())
