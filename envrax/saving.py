"""`save` and `load`: a pytree of arrays in one file, with only NumPy."""

import os
import uuid
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast
from zipfile import BadZipFile

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from envrax._jax.keys import is_key

FORMAT = "envrax.save, format 1"  # the first entry of a file, before the leaves


def save(path: str | os.PathLike[str], tree: Any) -> None:
    """
    Write a pytree of arrays to a file, such as a state, a `Rollout` or parameters.

    The file appears only when it is complete: it is written under a temporary name in the same
    folder, and then renamed. A file of that name is replaced. A missing folder is made.

    Parameters
    ----------
    path : path-like
        The file, by convention with the suffix `.npz`. `~` is the home directory.
    tree : pytree
        Arrays of JAX and NumPy of any shape and dtype, PRNG keys of both kinds, numbers.

    Raises
    ------
    TypeError
        If a leaf is anything else, such as a string or a function.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     save(f"{folder}/here.npz", {"rng": jax.random.key(3), "step": 7})
    ...     found = load(f"{folder}/here.npz", {"rng": jax.random.key(0), "step": 0})
    >>> bool(found["rng"] == jax.random.key(3)), found["step"]
    (True, 7)
    """
    path = Path(path).expanduser().resolve()
    arrays = dict[str, Any]({FORMAT: 0})
    for name, leaf in _leaves(tree).items():
        data = np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf)
        if data.dtype.kind in "OSU":
            raise TypeError(f"save: expected arrays and numbers; got {leaf!r} as `{name}`.")
        # NumPy has no name for dtypes such as bfloat16. They are written as unsigned integers.
        arrays[name] = data.view(f"u{data.itemsize}") if data.dtype.kind == "V" else data
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")  # a name of this call
    try:
        with part.open("wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def load(path: str | os.PathLike[str], like: Any) -> Any:
    """
    Read a pytree that `save` wrote.

    Parameters
    ----------
    path : path-like
        The file.
    like : pytree
        A pytree of the same structure, shapes and dtypes. Its values are not used;
        `jax.eval_shape` makes one without computing it.

    Returns
    -------
    pytree
        Leaves of the same kinds as in `like`: JAX arrays, NumPy arrays or numbers. JAX arrays are
        strongly typed, and lie on the mesh of the leaf in `like` if that has one.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If `save` did not write the file, or wrote another version of the format. If the file lacks
        a leaf of `like`, has an extra one, or one of another shape or dtype.
    """
    try:
        with Path(path).expanduser().open("rb") as file, np.load(file) as archive:
            arrays = dict(archive)
    except (ValueError, TypeError, AttributeError, EOFError, BadZipFile):
        arrays = {"another file": None}
    leaves = _leaves(like)
    for expected, got in zip_longest([FORMAT, *leaves], arrays, fillvalue="nothing"):
        if expected != got:
            raise ValueError(
                f"load: expected `{expected}`; got `{got}` in {path}. Load what `envrax.save` "
                "wrote, with a `like` of the same environment, wrappers and number of slots."
            )
    restored = map(_restored, [*arrays.values()][1:], leaves.values())
    return jax.tree.unflatten(jax.tree.structure(like), restored)


def _restored(data: Any, like: Any) -> Any:
    """An array of the file as a leaf of the kind of `like`."""
    if not hasattr(like, "dtype"):
        return type(like)(data.item())
    if is_key(like):
        concrete = jnp.empty((), like.dtype)  # `like` may be abstract
        data = cast(Any, jax.random.wrap_key_data(data, impl=jax.random.key_impl(concrete)))
    else:
        data = data.view(like.dtype)
    if not hasattr(like, "sharding"):  # a NumPy array or scalar
        return data if isinstance(like, np.ndarray) else data[()]
    # An abstract `like` may have an abstract mesh. The next step then places the state.
    has_mesh = isinstance(getattr(like.sharding, "mesh", None), Mesh)
    return jax.device_put(data, like.sharding if has_mesh else None, may_alias=False)


def _leaves(tree: Any) -> dict[str, Any]:
    """The leaves by name, dtype and shape, such as "['walls'] bool[4, 3]"."""
    leaves: dict[str, Any] = {}
    for path, x in cast(Any, jax.tree_util.tree_leaves_with_path(tree)):
        array = x if hasattr(x, "dtype") else np.asarray(x)
        leaves[f"{jax.tree_util.keystr(path)} {array.dtype}{list(array.shape)}"] = x
    return leaves
