"""`save` and `load`: a pytree of arrays in one file, with only NumPy."""

import json
import os
import re
from collections.abc import Container, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast
from zipfile import ZipFile

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from envrax._checks.files import require_replaceable, temporary_path
from envrax._jax.keys import is_key
from envrax.spaces.base import canonical

FORMAT = "envrax.save, format 2"
TYPES = "envrax.json"  # the entry with the format, and path and type of each node of the pytree

# The first format had an empty entry of this name, and then one entry a leaf, "path type.npy".
FIRST_FORMAT = "envrax.save, format 1"


def save(path: str | os.PathLike[str], tree: Any) -> None:
    """
    Write a pytree of arrays to a file, such as a state, a `Rollout` or parameters.

    The file appears only when it is complete: it is written under a temporary name in the same
    folder, and then renamed. A file of that name is replaced, and its permissions are kept. A
    missing folder is made. What a `save` to the same path left when it was killed is removed
    after an hour, by the next `save`.

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
            arrays[node["array"]] = _bits(leaf, "{path} {type}".format(**node))
        nodes.append(node)
    types = json.dumps({"format": FORMAT, "tree": nodes})
    with _replacing(Path(path).expanduser().resolve()) as file, ZipFile(file, "w") as archive:
        with archive.open(TYPES, "w") as entry:
            entry.write(types.encode())
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(cast(Any, entry), array, allow_pickle=False)


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
    with path.open("rb") as file:
        with _refusing_damage(path):
            archive = ZipFile(file)
            file_format, found = _contents(archive, os.fstat(file.fileno()).st_size)
        # A file of the first format has leaves only.
        nodes = [x for x in _nodes(like) if x[2] is not None or file_format == FORMAT]
        expected = (f"{jax.tree_util.keystr(keys)} {kind}" for keys, kind, _ in nodes)
        for one, other in zip_longest(expected, (what for what, _ in found), fillvalue="nothing"):
            if one != other:
                raise ValueError(
                    f"load: expected `{one.strip()}`; got `{other.strip()}` in {path}. Load what "
                    "`envrax.save` wrote, with a `like` of the same environment, wrappers and "
                    "number of slots."
                )
        leaves = [leaf for _, _, leaf in nodes if leaf is not None]
        _require_x64(nodes)
        names = [name for _, name in found if name is not None]
        with _refusing_damage(path):
            arrays = [_read(archive, *x) for x in zip(names, leaves, strict=True)]
    restored = map(_restored, arrays, leaves)
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
    if isinstance(leaf, np.ma.MaskedArray):
        raise TypeError(
            f"save: expected arrays without a mask; got a masked array as `{what}`. Save its "
            "`data` and its `mask`."
        )
    data = np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf)
    if data.dtype.hasobject or data.dtype.kind in "SU":
        raise TypeError(f"save: expected arrays and numbers; got {leaf!r} as `{what}`.")
    return data.view(_written_dtype(data.dtype))


def _written_dtype(dtype: Any) -> np.dtype[Any]:
    """The dtype in the file. NumPy has no names for the dtypes of other packages."""
    registered = np.dtype(dtype).isbuiltin == 2
    return np.dtype(f"u{dtype.itemsize}") if registered else np.dtype(dtype)


@contextmanager
def _replacing(path: Path) -> Generator[Any]:
    """A file to write, which then takes the place of the one at `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = require_replaceable("save", path)
    part = temporary_path(path)
    opener = partial(os.open, mode=0o666 if mode is None else mode)
    try:
        with open(part, "xb", opener=opener) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            part.chmod(mode)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


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


def _contents(archive: ZipFile, size: int) -> tuple[str, list[tuple[str, str | None]]]:
    """The format of a file, and "path type" of each node, a leaf with the name of its array."""
    names = [name.removesuffix(".npy") for name in archive.namelist()]
    if names[:1] == [FIRST_FORMAT]:
        return FIRST_FORMAT, [(name, name) for name in names[1:]]
    with archive.open(TYPES) as entry:
        types = json.loads(entry.read(size))  # not more, were it compressed by another tool
    if types["format"] != FORMAT:
        raise ValueError(f"expected `{FORMAT}`; got `{types['format']}`")
    return FORMAT, [(f"{x['path']} {x['type']}", x.get("array")) for x in types["tree"]]


def _read(archive: ZipFile, name: str, like: Any) -> np.ndarray:
    """One array, if its dtype and shape are those that a leaf like this is written with."""
    like = jax.eval_shape(jax.random.key_data, like) if is_key(like) else _typed(like)
    expected = (like.shape, _written_dtype(like.dtype))
    with archive.open(f"{name}.npy") as entry:
        np.lib.format.read_magic(cast(Any, entry))
        shape, _, dtype = np.lib.format.read_array_header_1_0(cast(Any, entry))
        if (shape, dtype) != expected:
            raise ValueError(f"expected `{name}` with {expected}; it holds {(shape, dtype)}")
        entry.seek(0)
        array = np.lib.format.read_array(cast(Any, entry), allow_pickle=False)
        if entry.read(1):  # the checksum is looked at after the last byte
            raise ValueError(f"`{name}` holds more than one array")
    return array
