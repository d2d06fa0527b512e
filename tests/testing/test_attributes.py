"""What an environment keeps in attributes: traced values are found, and edits."""

import re
from collections.abc import Callable
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from broken_envs import faults
from broken_envs.drift import Drift
from broken_envs.purity import StepSetsAnAttribute, TableIsFilledInATrace

from envrax import ClipReward, VecEnv
from envrax.testing.attributes import changed_attributes, read_attributes


class TableIsInADict(Drift):
    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[str, Any] = {}

    def next_extra(self, extra: Any) -> Any:
        if "zero" not in self.tables:
            self.tables["zero"] = jnp.zeros(3)
        return self.tables["zero"][0]


@pytest.mark.parametrize(
    "env",
    [pytest.param(TableIsFilledInATrace(), marks=pytest.mark.slow), ClipReward(TableIsInADict())],
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
