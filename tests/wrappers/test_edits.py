"""Attributes edited after `__init__`: `with_config` refuses to lose them, and nothing else."""

import dataclasses
import enum
import functools
import itertools
import math
import threading
import weakref
from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import jax_flag

from envrax import Discrete, JitWrapper, VecEnv, Wrapper
from envrax.testing import CountingEnv

NUMBERS = itertools.count()


class Mode(enum.Enum):
    EASY = 1
    HARD = 2


class Bag:
    """Compared by identity, as objects are."""

    def __init__(self, x: Any = 1) -> None:
        self.x, self.rule = x, lambda y: y + x
        self._cache: dict[int, int] = {}

    @functools.cached_property
    def twice(self) -> Any:
        return 2 * self.x


class Slotted:
    __slots__ = ("__y", "x")

    def __init__(self, x: Any = 1) -> None:
        self.x, self.__y = x, x


class Raising(Bag):
    def __eq__(self, other: object) -> bool:
        raise ValueError("not comparable")

    __hash__ = None  # pyright: ignore[reportAssignmentType]


class Elementwise(Bag):
    def __eq__(self, other: object) -> Any:
        return jnp.ones(2) == jnp.ones(2)

    __hash__ = None  # pyright: ignore[reportAssignmentType]


@chex.dataclass(frozen=True)
class Pair:
    left: Any
    right: Any


@dataclasses.dataclass
class Numbered:
    """Has a number that does not count."""

    rule: Any

    def __post_init__(self) -> None:
        self.number = next(NUMBERS)


class Holding(CountingEnv):
    """Keeps what a function makes of it."""

    make: Callable[[Any], Any]

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self.held = type(self).make(self)


def holding(make: Callable[[Any], Any]) -> Any:
    return type("Holding", (Holding,), {"make": staticmethod(make)})()


def recursive(_: Any) -> Any:
    def go(n: int) -> int:
        return n and go(n - 1)

    return go


def local(_: Any) -> Any:
    class Local:
        def __init__(self) -> None:
            self.x = 1

    return Local, Local(), {Local: 1}


MADE: dict[str, Callable[[Any], Any]] = {
    "enum": lambda env: Mode.EASY,
    "set": lambda env: {1, (2, 3)},
    "set of lambdas": lambda env: {lambda x: x, lambda x: x + 1},
    "partial": lambda env: functools.partial(max, 1),
    "space": lambda env: Discrete(2),
    "class": lambda env: int,
    "ufunc": lambda env: np.sin,
    "builtin": lambda env: math.sin,
    "module": lambda env: math,
    "object": lambda env: Bag(),
    "slots": lambda env: Slotted(),
    "raises": lambda env: Raising(),
    "elementwise": lambda env: Elementwise(),
    "arrays": lambda env: Pair(left=np.ones(3), right=jnp.ones(3)),
    "dataclass": lambda env: [Numbered(rule=lambda x: x)],
    "of the config": lambda env: [Pair(left=env.config.max_steps, right=jnp.ones(2)), Mode.EASY],
    "deep": lambda env: [{"a": (Bag(Bag({1: Bag()})),)}],
    "objects in an array": lambda env: np.array([Bag(), None]),
    "jitted": lambda env: jax.jit(lambda x: x * env.config.max_steps),
    "lru_cache": lambda env: functools.lru_cache(lambda x: x),
    "bound method": lambda env: env.reset,
    "bound, builtin": lambda env: [].append,
    "lambda over self": lambda env: lambda x: x * env.config.max_steps,
    "recursive": recursive,
    "itself": lambda env: [env, weakref.ref(env)],
    "local class": local,
    "lock": lambda env: (threading.Lock(), threading.RLock(), threading.Event()),
    "thread": lambda env: threading.Thread(target=print),  # each has a number of its own
    "numbered": lambda env: Bag(next(NUMBERS)),
    "generator": lambda env: np.random.default_rng(),
    "batch": lambda env: VecEnv(CountingEnv(), 2),
    "iterator": lambda env: iter([1]),
    "object()": lambda env: object(),
}


@pytest.mark.parametrize("made", MADE)
def test_what_is_not_edited_is_not_refused(made: str) -> None:
    env = holding(MADE[made])
    assert env.with_config(max_steps=3).config.max_steps == 3
    if made not in ("thread", "numbered"):
        env.held = MADE[made](env)  # a twin is no edit
        env.with_config(max_steps=3)


@pytest.mark.parametrize(
    ("made", "other"),
    [
        ("enum", Mode.HARD),
        ("set", {1, (2, 4)}),
        ("set", {1}),
        ("set of lambdas", {lambda x: x, lambda x: x + 2}),
        ("partial", functools.partial(max, 2)),
        ("partial", functools.partial(min, 1)),
        ("space", Discrete(3)),
        ("class", float),
        ("ufunc", np.cos),
        ("builtin", math.cos),
        ("module", itertools),
        ("object", Bag(2)),
        ("object", Slotted()),
        ("slots", Slotted(2)),
        ("raises", Raising(2)),
        ("elementwise", Elementwise(2)),
        ("arrays", Pair(left=np.ones(3), right=jnp.zeros(3))),
        ("dataclass", [Numbered(rule=lambda x: 2 * x)]),
        ("deep", [{"a": (Bag(Bag({1: Bag(2)})),)}]),
        ("objects in an array", np.array([Bag(2), None])),
        ("jitted", jax.jit(lambda x: x)),
        ("bound method", CountingEnv().step),
        ("lambda over self", lambda x: x),
        ("recursive", lambda n: n),
        ("numbered", None),
        ("batch", VecEnv(CountingEnv(), 3)),
        ("object()", "text"),
    ],
)
def test_an_edit_is_refused(made: str, other: Any) -> None:
    env = holding(MADE[made])
    env.held = other
    with pytest.raises(TypeError, match="'held' would be lost"):
        env.with_config(max_steps=3)


def test_an_object_that_is_changed_itself() -> None:
    env = holding(lambda env: Bag())
    env.held._cache[1] = 2  # what it keeps for later is no edit
    assert env.held.twice == 2
    env.with_config(max_steps=3)
    env.held.x = 5
    with pytest.raises(TypeError, match="'held' would be lost"):
        env.with_config(max_steps=3)
    added = holding(lambda env: Bag())
    added.held.colour = "red"
    with pytest.raises(TypeError, match="'held' would be lost"):
        added.with_config(max_steps=3)


class Scaled(Wrapper[Any, Any, Any, Any]):
    """Refers to itself, and keeps a set."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.kinds = {1}
        self.rule = lambda x: x * self.config.max_steps


def test_wrappers() -> None:
    env = Scaled(Scaled(CountingEnv()))
    changed = env.with_config(max_steps=3)
    assert changed.rule(2) == changed.env.rule(2) == 6
    env.kinds = {2}
    with pytest.raises(TypeError, match=r"Scaled\.with_config: .* 'kinds' would be lost"):
        env.with_config(max_steps=3)


@pytest.mark.parametrize("made", ["of the config", "lambda over self", "jitted", "space"])
def test_of_what_is_traced(made: str) -> None:
    def twice(x: Any) -> Any:
        return holding(MADE[made]).with_config(max_steps=x).with_config(max_steps=2 * x)

    with jax_flag("jax_check_tracer_leaks", True), jax_flag("jax_numpy_dtype_promotion", "strict"):
        assert jax.jit(lambda x: twice(x).config.max_steps)(3) == 6


def test_what_has_been_compiled_is_no_edit() -> None:
    env = holding(lambda env: (JitWrapper(CountingEnv(), pre_warm=False), jax.jit(lambda x: x)))
    inner, jitted = env.held
    _, state = inner.reset(jax.random.key(0))
    jitted(state.step)
    assert env.with_config(max_steps=3).config.max_steps == 3
    assert jax.jit(lambda x: env.with_config(max_steps=x).config.max_steps)(3) == 3
