"""`conform`: actions are brought to the space's dtype, or refused in a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from envrax.spaces import Box, Dict, Discrete, MultiBinary, Space, Tuple, conform

WHO = "VecEnv.step"
SLOTS = Discrete(4).batch(3)
AIM = Box(-1.0, 1.0, (3, 2))
NESTED = Dict(move=SLOTS, aim=Tuple([AIM, MultiBinary(2, bool).batch(3)]))


@dataclass(frozen=True)
class Bare(Space):
    """A space with nothing but a shape and a dtype, both nested."""

    shape: Any = ((), {"a": (2,)})
    dtype: Any = (jnp.int8, {"a": np.float32})

    def sample(self, rng: jax.Array, mask: Any = None) -> Any:
        raise NotImplementedError

    def contains(self, x: Any) -> bool:
        raise NotImplementedError

    def batch(self, n: int) -> Space:
        raise NotImplementedError


def check(x: Any, dtype: Any, values: Any) -> None:
    """`x` is an array of exactly this dtype, not weakly typed, with these values."""
    assert isinstance(x, np.ndarray | jax.Array)
    assert x.dtype == dtype
    assert not getattr(x, "weak_type", False)
    np.testing.assert_array_equal(x, values)


def test_what_fits_is_returned_as_it_is() -> None:
    for space in (SLOTS, AIM, MultiBinary(2, bool)):
        x = space.sample(jax.random.key(0))
        assert conform(space, x, WHO) is x
    x = NESTED.sample(jax.random.key(0))
    kept = conform(NESTED, x, WHO)
    for a, b in zip(jax.tree.leaves(kept), jax.tree.leaves(x), strict=True):
        assert a is b


@pytest.mark.parametrize(
    ("space", "x"),
    [
        (SLOTS, [1, 2, 3]),
        (SLOTS, (1, np.int8(2), np.uint64(3))),
        (SLOTS, np.array([1, 2, 3])),
        (SLOTS, np.array([1, 2, 3], np.uint8)),
        (SLOTS, np.array([1, 2, 3], np.int32)),
        (Discrete(4), 3),
        (Discrete(4), np.int64(3)),
        (Discrete(9, jnp.uint8), 3),
        (AIM, [[0, 1], [0.5, 1], (0, 0.25)]),
        (AIM, np.full((3, 2), 0.1)),
        (AIM, [[0.1, 0.2], np.zeros(2), [0, 0]]),
        (Box(-1, 1, (), jnp.bfloat16), 0.1),
        (Box(-1, 1, (2,), jnp.float16), np.array([0.1, 1e9])),
        (Box(-1, 1, ()), 1),
        (MultiBinary(2, bool), [True, False]),
        (Box(0, 1, (2, 0)), [[], []]),
        (Box(0, 1, (0,)), []),
    ],
    ids=repr,
)
def test_host_values_become_numpy_arrays_of_the_dtype(
    space: Any, x: Any, compile_counter: Any
) -> None:
    with compile_counter() as compiled:
        result = conform(space, x, WHO)
    assert compiled.count == 0
    assert type(result) is np.ndarray
    assert result.shape == space.shape
    expected = np.array([np.asarray(item).tolist() for item in x] if isinstance(x, list) else x)
    with np.errstate(over="ignore"):
        check(result, space.dtype, expected.astype(space.dtype))


@pytest.mark.parametrize(
    ("space", "x", "values"),
    [
        (SLOTS, jnp.array([1, 2, 3], jnp.int8), [1, 2, 3]),
        (SLOTS, [jnp.int32(1), 2, np.int8(3)], [1, 2, 3]),
        (AIM, jnp.ones((3, 2), jnp.float16), np.ones((3, 2))),
        (AIM, [jnp.ones(2), [0.5, jnp.float32(2)], np.zeros(2)], [[1, 1], [0.5, 2], [0, 0]]),
        (Discrete(4), jnp.asarray(3), 3),
        (Box(-1, 1, ()), jnp.asarray(0.5), 0.5),
    ],
)
def test_other_jax_arrays_are_converted_on_their_device(space: Any, x: Any, values: Any) -> None:
    with jax.transfer_guard_device_to_host("disallow"):
        result = conform(space, x, WHO)
    assert isinstance(result, jax.Array)
    check(result, space.dtype, values)


def test_nothing_traced_is_read_and_weak_types_are_gone() -> None:
    def act(a: Any, b: Any, c: Any) -> Any:
        return (
            conform(Discrete(4), a, WHO),
            conform(Box(-1, 1, ()), b, WHO),
            conform(SLOTS, [a, 1, c], WHO),
            conform(AIM, [[b, a], [0, 0.5], [b, b]], WHO),
        )

    one, half, slots, aim = jax.jit(act)(1, 0.5, jnp.int8(3))
    check(one, jnp.int32, 1)
    check(half, jnp.float32, 0.5)
    check(slots, jnp.int32, [1, 1, 3])
    check(aim, jnp.float32, [[0.5, 1], [0, 0.5], [0.5, 0.5]])
    check(
        jax.vmap(lambda x: conform(Discrete(4), x, WHO))(jnp.ones(2, jnp.int8)), jnp.int32, [1, 1]
    )


def test_containers_come_back_as_tuples_and_sorted_dicts() -> None:
    x = {"move": [0, 1, 2], "aim": [np.zeros((3, 2)), [[True, False]] * 3]}
    result = conform(NESTED, x, WHO)
    assert list(result) == ["aim", "move"]
    assert jax.tree.structure(result) == jax.tree.structure(NESTED.sample(jax.random.key(0)))
    assert jax.tree.map(lambda leaf: leaf.dtype, result) == NESTED.dtype


def test_a_space_without_bounds_of_its_own_will_do() -> None:
    first, second = conform(Bare(), [1, {"a": [0, 0.5]}], WHO)
    check(first, jnp.int8, 1)
    check(second["a"], jnp.float32, [0, 0.5])
    with pytest.raises(ValueError, match=r"expected actions\[1\]\['a'\] of shape \(2,\), float32"):
        conform(Bare(), [1, {"a": [0, 0.5, 1]}], WHO)


def test_64_bit_spaces_follow_x64() -> None:
    space = Discrete(4, jnp.int64).batch(3)
    x = jnp.array([1, 2, 3])
    assert conform(space, x, WHO) is x
    check(conform(space, [1, 2, 3], WHO), jnp.int32, [1, 2, 3])
    with jax.enable_x64(True):
        check(conform(space, [1, 2, 3], WHO), jnp.int64, [1, 2, 3])
        check(conform(space, x, WHO), jnp.int64, [1, 2, 3])
        check(conform(SLOTS, jnp.array([1, 2, 3]), WHO), jnp.int32, [1, 2, 3])


def test_bounds_are_not_checked() -> None:
    check(conform(Discrete(4), 7, WHO), jnp.int32, 7)


@pytest.mark.parametrize(
    ("space", "x", "error", "message"),
    [
        (
            Discrete(4).batch(64),
            np.zeros(32, np.float32),
            ValueError,
            r"VecEnv\.step: expected actions of shape \(64,\), int32; got \(32,\) float32\. "
            r"Pass actions built like action_space\.sample\(rng\)\.",
        ),
        (
            SLOTS,
            jnp.zeros(3),
            TypeError,
            r"expected actions of shape \(3,\), int32; got \(3,\) float32\. "
            r"Pass values of that kind, as in actions\.astype\('int32'\)\.",
        ),
        (SLOTS, np.zeros(3, bool), TypeError, r"int32; got \(3,\) bool\."),
        (SLOTS, jnp.zeros((3, 1), jnp.int32), ValueError, r"int32; got \(3, 1\) int32\."),
        (SLOTS, 3, ValueError, r"\(3,\), int32; got int 3\."),
        (SLOTS, [0, 1], ValueError, r"\(3,\), int32; got a list of length 2\."),
        (SLOTS, [0, 1, [2]], ValueError, r"actions\[2\] of shape \(\), int32; got a list of leng"),
        (SLOTS, [0, 1, True], TypeError, r"actions\[2\] of shape \(\), int32; got bool True\."),
        (SLOTS, [0, 1.0, 2], TypeError, r"actions\[1\] of shape \(\), int32; got float 1\.0\."),
        (SLOTS, [0, 2**40, 2], ValueError, r"got an int that int32 cannot hold\."),
        (SLOTS, None, TypeError, r"\(3,\), int32; got NoneType\."),
        (SLOTS, "abc", TypeError, r"\(3,\), int32; got str\."),
        (SLOTS, {"a": 1}, TypeError, r"\(3,\), int32; got dict\."),
        (SLOTS, np.array(["a"] * 3), TypeError, r"got \(3,\) <U1\."),
        (SLOTS, jax.random.split(jax.random.key(0), 3), TypeError, r"got \(3,\) key<fry>\."),
        (Discrete(4), 0.5, TypeError, r"of shape \(\), int32; got float 0\.5\."),
        (Discrete(4), True, TypeError, r"of shape \(\), int32; got bool True\."),
        (Discrete(4, jnp.uint8), -1, ValueError, r"got an int that uint8 cannot hold\."),
        (Discrete(4), 2**70, ValueError, r"got an int that int32 cannot hold\."),
        (Box(0, 1, ()), 10**400, ValueError, r"got an int that float32 cannot hold\."),
        (AIM, np.zeros((3, 2), np.int32), TypeError, r"float32; got \(3, 2\) int32\."),
        (AIM, [[0.0, 1.0]] * 2, ValueError, r"float32; got a list of length 2\."),
        (MultiBinary(2, bool), [0, 1], TypeError, r"actions\[0\] of shape \(\), bool; got int 0\."),
        (NESTED, [1, 2], ValueError, r"actions to be a dict with keys \['aim', 'move'\]; got a li"),
        (NESTED, {"move": 0}, ValueError, r"with keys \['aim', 'move'\]; got keys \['move'\]\."),
        (
            NESTED,
            {"move": [0, 1, 2], "aim": (np.zeros((3, 2)),)},
            ValueError,
            r"expected actions\['aim'\] to be a tuple of length 2; got a tuple of length 1\.",
        ),
        (
            NESTED,
            {"move": [0, 1, 2], "aim": (np.zeros((3, 2)), np.zeros((3, 2)))},
            TypeError,
            r"expected actions\['aim'\]\[1\] of shape \(3, 2\), bool; got \(3, 2\) float64\.",
        ),
    ],
)
def test_other_actions_are_refused(
    space: Space, x: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as refusal:
        conform(space, x, WHO)
    assert str(refusal.value).startswith("VecEnv.step: expected actions")


def test_refusals_are_the_same_for_tracers() -> None:
    with pytest.raises(ValueError, match=r"got \(2,\) int32\."):
        jax.jit(lambda x: conform(SLOTS, x, WHO))(jnp.zeros(2, jnp.int32))
    with pytest.raises(TypeError, match=r"got \(3,\) float32\."):
        jax.jit(lambda x: conform(SLOTS, x, WHO))(jnp.zeros(3))
