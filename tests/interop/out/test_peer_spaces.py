"""Bounds of spaces from a library, and for one."""

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from envrax import Box
from envrax.interop.peer.spaces import bounds_of, box, unbounded

INTS: list[Any] = [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64]


@pytest.mark.parametrize("dtype", INTS)
def test_bounds_of_integers_are_those_that_the_dtype_holds(dtype: Any) -> None:
    type_ = jax.ShapeDtypeStruct((2,), np.dtype(dtype))
    info = np.iinfo(dtype)
    expected = Box(int(info.min), int(info.max), (2,), dtype)
    for low, high in [(-np.inf, np.inf), (-1e30, 1e30), (float(info.min), float(info.max))]:
        assert box(low, high, type_) == expected
    assert box(np.full(2, info.min), np.full(2, info.max), type_) == expected
    assert unbounded(type_) == expected
    assert box(np.array([0.5, 1.0]), 7.5, type_) == Box(np.array([1, 1]), 7, (2,), dtype)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, np.float16])
def test_a_float_of_any_width_has_no_bound_where_there_is_none(dtype: Any) -> None:
    low, high = bounds_of(Box(-np.inf, np.inf, (2,), dtype))
    assert (low, high) == (-np.inf, np.inf) and low.dtype == high.dtype == jnp.dtype(dtype)
