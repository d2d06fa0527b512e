"""Functions that several test modules share."""

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from envrax import VecEnv
from envrax.autoreset import Select


def small_vec(env: Any, num_envs: int, **options: Any) -> VecEnv[Any, Any, Any, Any]:
    """A batch whose programs are small, for tests that are not of the strategy of auto-reset."""
    return VecEnv(env, num_envs, autoreset=Select(), **options)


def slow_but(*quick: Any, values: Iterable[Any]) -> list[Any]:
    """Parameters for a test: those not in `quick` are marked as slow."""
    return [v if v in quick else pytest.param(v, marks=pytest.mark.slow) for v in values]


@contextmanager
def jax_flag(name: str, value: Any) -> Iterator[None]:
    """Change a setting of JAX inside the `with` block."""
    before = getattr(jax.config, name)
    jax.config.update(name, value)
    try:
        yield
    finally:
        jax.config.update(name, getattr(before, "value", before))


def with_final_obs(batch: Any) -> Any:
    """The batch, which shares its programs, with `final_obs=True`."""
    other = copy.copy(batch)
    other._options = batch._options._replace(final_obs=True)
    return other


def plain(leaf: Any) -> np.ndarray:
    """A leaf as NumPy array, PRNG keys as their bits."""
    if hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf)


def assert_trees_equal(ours: Any, theirs: Any) -> None:
    """The same structure, dtypes and bits."""
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for (path, a), b in zip(
        jax.tree_util.tree_leaves_with_path(ours), jax.tree.leaves(theirs), strict=True
    ):
        name = jax.tree_util.keystr(path)
        assert plain(a).dtype == plain(b).dtype, name
        np.testing.assert_array_equal(plain(a), plain(b), err_msg=name)


def assert_trees_close(ours: Any, theirs: Any, rtol: float, atol: float = 1e-7) -> None:
    """The same structure and dtypes, floats to rounding and all else to the bit."""
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for (path, a), b in zip(
        jax.tree_util.tree_leaves_with_path(ours), jax.tree.leaves(theirs), strict=True
    ):
        name, a, b = jax.tree_util.keystr(path), plain(a), plain(b)
        assert a.dtype == b.dtype, name
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=name)
        else:
            np.testing.assert_array_equal(a, b, err_msg=name)


def random_actions(space: Any, shape: tuple[int, ...], seed: int = 0) -> Any:
    """Samples of a space with leading axes."""
    keys = jax.random.split(jax.random.key(seed), shape)
    sample = space.sample
    for _ in shape:
        sample = jax.vmap(sample)
    return jax.jit(sample)(keys)


@jax.jit
def _busy(x: jax.Array) -> jax.Array:
    return jax.lax.fori_loop(0, 300, lambda _, x: jnp.tanh(x @ x), x)


def aligned(array: Any) -> np.ndarray:
    """A copy whose memory begins at a multiple of 64 bytes, as JAX takes it without a copy."""
    array = np.asarray(array)
    memory = np.zeros(array.nbytes + 64, np.uint8)
    begin = -memory.ctypes.data % 64
    view = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def written_again(call: Callable[[Any], Any], arrays: Any, other: Any = 7) -> Any:
    """The result of a call whose arguments are written again while a program still runs."""
    call(jax.tree.map(aligned, arrays))  # whatever compiles does so now
    given = jax.tree.map(aligned, arrays)
    _busy(jnp.ones((256, 256)))
    returned = call(given)
    for x in jax.tree.leaves(given):
        x[...] = other
    return jax.tree.map(np.asarray, returned)
