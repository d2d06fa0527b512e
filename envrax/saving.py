"""`save` and `load`: a pytree of arrays in one file, with only NumPy."""

import json
import os
import re
from collections.abc import Container, Generator, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast
from zipfile import ZipFile

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from envrax._checks.files import put_in_place, temporary_path
from envrax._jax.keys import is_key
from envrax.spaces.base import canonical

FORMAT = "envrax.save, format 2"
TYPES = "envrax.json"  # the entry with the format, and path and type of each node of the pytree


def save(path: str | os.PathLike[str], tree: Any) -> None:
    """
    Write a pytree of arrays to a file, such as a state, a `Rollout` or parameters.

    The file appears only when it is complete: it is written under a temporary name in the same
    folder, and then renamed. A file of that name is replaced, and its permissions are kept. A
    missing folder is made.

    The file is an archive of NumPy: `numpy.load(path)["obs/image"]` is one array. Its entry
    "envrax.json" has the types. Arrays whose dtype NumPy lacks, such as bfloat16, are written as
    unsigned integers of the same bits.

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
    OverflowError
        If a number does not fit into 64 bits.
    FileExistsError
        If the path is that of a folder, a pipe, a device or a read-only file.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     save(f"{folder}/here.npz", {"rng": jax.random.key(3), "step": 7})
    ...     found = load(f"{folder}/here.npz", {"rng": jax.random.key(0), "step": 0})
    >>> bool(found["rng"] == jax.random.key(3)), found["step"]
    (True, 7)
    """
    arrays: dict[str, Any] = {}
    nodes: list[dict[str, str]] = []
    for keys, kind, leaf in _nodes(tree):
        node = {"path": jax.tree_util.keystr(keys), "type": kind}
        if leaf is not None:
            node["array"] = _new_name(keys, arrays)
            arrays[node["array"]] = _bits(leaf, f"{node['path']} {kind}".strip())
        nodes.append(node)
    path = Path(path).expanduser().resolve()
    part = temporary_path("save", path)
    try:
        with part.open("xb") as file:
            _write(file, nodes, arrays)
            file.flush()
            os.fsync(file.fileno())
        put_in_place(part, path)
    finally:
        part.unlink(missing_ok=True)


def load(path: str | os.PathLike[str], like: Any) -> Any:
    """
    Read a pytree that `save` wrote.

    No array is read before all names, types, shapes and dtypes fit `like`.

    Parameters
    ----------
    path : path-like
        The file.
    like : pytree
        A pytree of the same structure, shapes and dtypes; its classes and containers have the same
        names. Its values are not used; `jax.eval_shape` makes one without computing it.

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
        If `save` did not write the file, wrote another version of the format, or the file is
        damaged. If the file lacks a leaf or a container of `like`, has an extra one, or one of
        another type, shape or dtype.
    """
    path = Path(path).expanduser()
    nodes = list(_nodes(like))
    expected = (f"{jax.tree_util.keystr(keys)} {kind}" for keys, kind, _ in nodes)
    leaves = [leaf for _, _, leaf in nodes if leaf is not None]
    with path.open("rb") as file:
        with _refusing_damage(path):
            archive = ZipFile(file)
            found = _contents(archive)
        for one, other in zip_longest(expected, (what for what, _ in found), fillvalue="nothing"):
            if one != other:
                raise ValueError(
                    f"load: expected `{one.strip()}`; got `{other.strip()}` in {path}. Load what "
                    "`envrax.save` wrote, with a `like` of the same environment, wrappers and "
                    "number of slots."
                )
        _require_x64(nodes)
        names = [name for _, name in found if name is not None]
        with _refusing_damage(path):
            arrays = [_read(archive, *x) for x in zip(names, leaves, strict=True)]
    restored = map(_restored, arrays, leaves)
    return jax.tree.unflatten(jax.tree.structure(like), restored)


def _write(file: Any, nodes: list[dict[str, str]], arrays: dict[str, Any]) -> None:
    """An archive of the types and the arrays."""
    with ZipFile(file, "w") as archive:
        with archive.open(TYPES, "w") as entry:
            entry.write(json.dumps({"format": FORMAT, "tree": nodes}).encode())
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(cast(Any, entry), array, allow_pickle=False)


def _restored(data: Any, like: Any) -> Any:
    """An array of the file as a leaf of the kind of `like`."""
    if not hasattr(like, "dtype"):
        return type(like)(data.item())
    if is_key(like):
        with jax.transfer_guard_host_to_device("allow"):  # of the shape of an empty array
            concrete = jnp.empty((), like.dtype)  # `like` may be abstract
        impl = jax.random.key_impl(concrete)
        data = cast(Any, jax.random.wrap_key_data(jax.device_put(data), impl=impl))
    else:
        data = data.view(like.dtype)
    if not hasattr(like, "sharding"):  # a NumPy array or scalar
        return data if isinstance(like, np.ndarray) else data[()]
    # An abstract `like` may have an abstract mesh. The next step then places the state.
    has_mesh = isinstance(getattr(like.sharding, "mesh", None), Mesh)
    return jax.device_put(data, like.sharding if has_mesh else None, may_alias=False)


def _nodes(tree: Any, keys: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str, Any]]:
    """
    Keys, type and leaf of all nodes of a pytree, a container before what is in it.

    The type of a leaf is such as "uint8[2, 3]", that of a container such as "list"; its leaf is
    None.
    """
    children, _ = cast(Any, jax.tree.flatten_with_path(tree, is_leaf=lambda x: x is not tree))
    if [key for key, _ in children] == [()]:
        array = _typed(tree)
        yield keys, f"{array.dtype}{list(array.shape)}", tree
        return
    yield keys, type(tree).__name__, None
    for key, child in children:
        yield from _nodes(child, (*keys, *key))


def _require_x64(nodes: list[tuple[tuple[Any, ...], str, Any]]) -> None:
    """Raise a ValueError for a JAX array in `like` whose dtype JAX would cut to 32 bits."""
    for keys, kind, leaf in nodes:
        if hasattr(leaf, "sharding") and not is_key(leaf) and canonical(leaf.dtype) != leaf.dtype:
            raise ValueError(
                f"load: expected arrays of JAX of at most 32 bits; got {kind} as "
                f"`{jax.tree_util.keystr(keys)}` in `like`. Enable 64 bits with "
                '`jax.config.update("jax_enable_x64", True)`, or give NumPy arrays.'
            )


def _typed(leaf: Any) -> Any:
    """The leaf, or an array of it, with a shape and a dtype."""
    return leaf if hasattr(leaf, "dtype") else np.asarray(leaf)


def _new_name(keys: tuple[Any, ...], taken: Container[str]) -> str:
    """A plain name for a leaf, such as "obs/image"."""
    # An entry of an archive cannot have all characters in its name.
    name = jax.tree_util.keystr(keys, simple=True, separator="/")
    name = re.sub(r"[\0\\\ud800-\udfff]", "_", name) or "value"
    while name in taken:
        name += "_"
    return name


def _bits(leaf: Any, what: str) -> np.ndarray:
    """A leaf as an array of a dtype that NumPy can write."""
    data = np.asarray(jax.device_get(jax.random.key_data(leaf) if is_key(leaf) else leaf))
    if isinstance(leaf, int) and data.dtype.hasobject:
        raise OverflowError(
            f"save: expected numbers of at most 64 bits; got {leaf} as `{what}`. Save it as a "
            "float, or as several numbers."
        )
    # A mask would be lost.
    is_masked = isinstance(leaf, np.ma.MaskedArray)
    if is_masked or data.dtype.hasobject or data.dtype.kind in "SU":
        raise TypeError(f"save: expected arrays and numbers; got {leaf!r} as `{what}`.")
    return data.view(_written_dtype(data.dtype))


def _written_dtype(dtype: Any) -> np.dtype[Any]:
    """The dtype in the file. NumPy has no names for the dtypes of other packages."""
    registered = np.dtype(dtype).isbuiltin == 2
    return np.dtype(f"u{dtype.itemsize}") if registered else np.dtype(dtype)


@contextmanager
def _refusing_damage(path: Path) -> Generator[None]:
    """Whatever reading a file raises becomes one ValueError."""
    try:
        yield
    except Exception as error:
        raise ValueError(
            f"load: expected a whole file that `envrax.save` wrote; got {path}, and reading it "
            f"fails: {type(error).__name__}: {error}"
        ) from error


def _contents(archive: ZipFile) -> list[tuple[str, str | None]]:
    """ "path type" of each node, a leaf with the name of its array."""
    types = json.loads(archive.read(TYPES))
    if types["format"] != FORMAT:
        raise ValueError(f"expected `{FORMAT}`; got `{types['format']}`")
    return [(f"{x['path']} {x['type']}", x.get("array")) for x in types["tree"]]


def _read(archive: ZipFile, name: str, like: Any) -> np.ndarray:
    """One array, if its dtype and shape are those that a leaf like this is written with."""
    like = jax.eval_shape(jax.random.key_data, like) if is_key(like) else _typed(like)
    with archive.open(f"{name}.npy") as entry:
        array = np.lib.format.read_array(cast(Any, entry), allow_pickle=False)
        entry.read()  # the checksum is compared at the end of an entry
    expected, found = (like.shape, _written_dtype(like.dtype)), (array.shape, array.dtype)
    if found != expected:
        raise ValueError(f"expected `{name}` with {expected}; it holds {found}")
    return array
