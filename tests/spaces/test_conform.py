"""`conform`: actions are brought to the space's dtype, or refused."""

from __future__ import annotations

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


def check(x: Any, dtype: Any, values: Any) -> None:
    """`x` is an array of exactly this dtype, not weakly typed, with these values."""
    assert isinstance(x, np.ndarray | jax.Array)
    assert x.dtype == dtype
    assert not getattr(x, "weak_type", False)
    np.testing.assert_array_equal(x, values)


def test_what_fits_is_returned_as_it_is() -> None:
    for space in (SLOTS, AIM, MultiBinary(2, bool)):
        x = jnp.zeros(space.shape, space.dtype)
        assert conform(space, x, WHO) is x
    x = jax.jit(NESTED.sample)(jax.random.key(0))
    kept = conform(NESTED, x, WHO)
    for a, b in zip(jax.tree.leaves(kept), jax.tree.leaves(x), strict=True):
        assert a is b
    made = conform(NESTED, {"move": [0, 1, 2], "aim": [np.zeros((3, 2)), [[True, False]] * 3]}, WHO)
    assert list(made) == ["aim", "move"] and jax.tree.structure(made) == jax.tree.structure(x)


@pytest.mark.parametrize(
    ("space", "x"),
    [
        (SLOTS, [1, 2, 3]),
        (SLOTS, (1, np.int8(2), np.uint64(3))),
        (SLOTS, np.array([1, 2, 3], np.uint8)),
        (SLOTS, np.array([1, 2, 3], np.int32)),
        (Discrete(4), np.int64(3)),
        (Discrete(9, jnp.uint8), 3),
        (AIM, [[0, 1], [0.5, 1], (0, 0.25)]),
        (AIM, [[0.1, 0.2], np.zeros(2), [0, 0]]),
        (Box(-1, 1, (), jnp.bfloat16), 0.1),
        (Box(-1, 1, (2,), jnp.float16), np.array([0.1, 1e9])),
        (MultiBinary(2, bool), [True, False]),
        (Box(0, 1, (2, 0)), [[], []]),
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
        (Box(-1, 1, ()), jnp.asarray(0.5), 0.5),
    ],
)
def test_other_jax_arrays_are_converted_on_their_device(space: Any, x: Any, values: Any) -> None:
    with jax.transfer_guard_device_to_host("disallow"):
        result = conform(space, x, WHO)
    assert isinstance(result, jax.Array)
    check(result, space.dtype, values)


BYTE = Discrete(200, jnp.uint8)


@pytest.mark.parametrize(
    ("space", "x", "values"),
    [
        (BYTE, jnp.int32(3), 3),
        (BYTE, jnp.int32(300), 255),
        (BYTE, jnp.int32(-1), 0),
        (BYTE, jnp.int8(-1), 0),
        (Box(-9, 9, (2,), jnp.int8), jnp.array([128, -(2**31)]), [127, -128]),
        (Box(-9, 9, (), jnp.int8), jnp.uint8(200), 127),
        (Box(0, 2**32 - 1, (), jnp.uint32), jnp.int32(-5), 0),
        (Discrete(9), jnp.uint32(2**32 - 1), 2**31 - 1),
        (Box(0, 255, (3,), jnp.uint8), [jnp.int32(300), 7, jnp.int8(-1)], [255, 7, 0]),
    ],
)
@pytest.mark.parametrize("traced", [False, True])
def test_integers_beyond_the_dtype_become_its_ends(
    space: Any, x: Any, values: Any, traced: bool
) -> None:
    """Without a read of the device; a NumPy or a Python integer is refused instead."""

    def convert(x: Any) -> Any:
        return conform(space, x, WHO)

    with jax.transfer_guard_device_to_host("disallow"):
        result = jax.jit(convert)(x) if traced else convert(x)
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


def test_64_bit_spaces_follow_x64() -> None:
    space = Discrete(4, jnp.int64).batch(3)
    x = jnp.array([1, 2, 3])
    assert conform(space, x, WHO) is x
    check(conform(space, [1, 2, 3], WHO), jnp.int32, [1, 2, 3])
    with jax.enable_x64(True):
        check(conform(space, [1, 2, 3], WHO), jnp.int64, [1, 2, 3])
        check(conform(space, x, WHO), jnp.int64, [1, 2, 3])
        check(conform(SLOTS, jnp.array([1, 2, 3]), WHO), jnp.int32, [1, 2, 3])


LEFT = {"move": [0, 1, 2], "aim": (np.zeros((3, 2)),)}
RIGHT = {"move": [0, 1, 2], "aim": (np.zeros((3, 2)), np.zeros((3, 2)))}


@pytest.mark.parametrize(
    ("space", "x", "error", "noun"),
    [
        (SLOTS, jnp.zeros(3), TypeError, "float32"),
        (SLOTS, np.zeros(3, bool), TypeError, "bool"),
        (SLOTS, jnp.zeros((3, 1), jnp.int32), ValueError, "shape"),
        (SLOTS, 3, ValueError, "shape"),
        (SLOTS, [0, 1, [2]], ValueError, r"actions\[2\]"),
        (SLOTS, [0, 1, True], TypeError, "bool True"),
        (SLOTS, [0, 1.0, 2], TypeError, "float 1.0"),
        (SLOTS, [0, 2**40, 2], ValueError, "int32 cannot hold"),
        (SLOTS, "abc", TypeError, "str"),
        (SLOTS, {"a": 1}, TypeError, "dict"),
        (SLOTS, np.array(["a"] * 3), TypeError, "<U1"),
        (SLOTS, jax.random.split(jax.random.key(0), 3), TypeError, "key<fry>"),
        (Discrete(4, jnp.uint8), -1, ValueError, "uint8 cannot hold"),
        (Box(0, 1, ()), 10**400, ValueError, "float32 cannot hold"),
        (AIM, np.zeros((3, 2), np.int32), TypeError, "int32"),
        (MultiBinary(2, bool), [0, 1], TypeError, "int 0"),
        (NESTED, [1, 2], ValueError, "keys"),
        (NESTED, {"move": 0}, ValueError, "keys"),
        (NESTED, LEFT, ValueError, "length 1"),
        (NESTED, RIGHT, TypeError, r"actions\['aim'\]\[1\]"),
    ],
)
def test_other_actions_are_refused(space: Space, x: Any, error: Any, noun: str) -> None:
    with pytest.raises(error, match=noun):
        conform(space, x, WHO)


def test_refusals_are_the_same_for_tracers() -> None:
    with pytest.raises(ValueError, match=r"\(2,\)"):
        jax.jit(lambda x: conform(SLOTS, x, WHO))(jnp.zeros(2, jnp.int32))
    with pytest.raises(TypeError, match="float32"):
        jax.jit(lambda x: conform(SLOTS, x, WHO))(jnp.zeros(3))
