"""`save` and `load`: loaded trees are equal to the bit; files and trees that are refused."""

import json
import os
import pickle
import re
import stat
import tracemalloc
import zipfile
from collections import OrderedDict, namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from fakes import CoinEnv
from helpers import assert_trees_equal

import envrax
from envrax import RecordEpisodeStatistics, VecEnv, saving

DTYPES_BEYOND_NUMPY = [
    name for name, x in vars(ml_dtypes).items() if isinstance(x, type) and issubclass(x, np.generic)
]


class Pair(NamedTuple):
    a: Any
    b: Any


def tree(seed: int, implementation: str = "threefry2x32") -> Any:
    key = jax.random.key(seed, impl=implementation)
    return {
        "keys": jax.random.split(key, (2, 3)),
        "legacy": jax.random.PRNGKey(seed),
        "small": Pair(jnp.full(3, seed, jnp.bfloat16), jnp.full((), seed, jnp.int4)),
        "a.b": {"c": jnp.full((2, 0), seed)},
        "a": {"b.c": jnp.bool_(seed)},
        "numpy": [np.full((2, 2), seed, np.float64).T, np.float16(seed)],
        "numbers": (seed, float(seed), bool(seed)),
        "none": None,
    }


@pytest.mark.parametrize("implementation", ["threefry2x32", "rbg"])
def test_every_kind_of_leaf_comes_back(implementation: str, tmp_path: Path) -> None:
    given = tree(1, implementation)
    envrax.save(tmp_path / "new" / "tree", given)
    for like in (tree(0, implementation), jax.eval_shape(lambda: tree(0, implementation)["keys"])):
        part = given if isinstance(like, dict) else given["keys"]
        if part is not given:
            envrax.save(tmp_path / "new" / "tree", part)
        found = envrax.load(tmp_path / "new" / "tree", like)
        assert_trees_equal(found, part)
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(part), strict=True):
            assert type(one) is type(other)
            assert getattr(one, "dtype", None) == getattr(other, "dtype", None)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["tree"]


@pytest.mark.parametrize("make_key", [jax.random.key, jax.random.PRNGKey])
def test_a_rollout_goes_on_to_the_bit(make_key: Any, tmp_path: Path) -> None:
    env = VecEnv(RecordEpisodeStatistics(CoinEnv()), 2)
    begin = envrax.start(env, make_key(0))
    middle, _ = envrax.rollout(env, None, begin, 7)
    envrax.save(tmp_path / "at.npz", middle)
    again = envrax.load(tmp_path / "at.npz", envrax.start(env, make_key(5)))
    assert_trees_equal(envrax.rollout(env, None, again, 9), envrax.rollout(env, None, middle, 9))


def test_arrays_return_to_their_mesh(tmp_path: Path) -> None:
    mesh = jax.make_mesh((1,), ("slots",))
    layout = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("slots"))
    given = jax.device_put({"x": jnp.arange(4), "rng": jax.random.split(jax.random.key(0))}, layout)
    envrax.save(tmp_path / "x", given)
    found = envrax.load(tmp_path / "x", given)
    assert_trees_equal(found, given)
    assert all(x.sharding == layout for x in found.values())


@pytest.mark.parametrize(
    ("like", "noun"),
    [
        ({"x": jnp.zeros(2)}, "float32[2]"),
        ({"x": jnp.zeros(3, jnp.int32)}, "int32[3]"),
        ({"x": jnp.zeros(3), "y": 0}, "'y'"),
        ({"a": jnp.zeros(3)}, "'a'"),
        ({}, "nothing"),
        ({"x": jax.random.split(jax.random.key(0), 3)}, "key<fry>"),
    ],
)
def test_another_tree_is_refused(like: Any, noun: str, tmp_path: Path) -> None:
    envrax.save(tmp_path / "x", {"x": jnp.zeros(3)})
    with pytest.raises(ValueError, match=re.escape(noun)):
        envrax.load(tmp_path / "x", like)


def test_other_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, like = tmp_path / "x", {"x": jnp.zeros(3)}
    with pytest.raises(FileNotFoundError):
        envrax.load(path, like)
    envrax.save(path, like)
    whole = path.read_bytes()
    for content in (b"", b"text", pickle.dumps(like), whole[:100], whole[:-40]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="whole file"):
            envrax.load(path, like)
    for write in (np.save, np.savez):
        with path.open("wb") as file:
            write(file, np.zeros(3))
        with pytest.raises(ValueError, match="whole file"):
            envrax.load(path, like)
    monkeypatch.setattr(saving, "FORMAT", "envrax.save, format 3")
    envrax.save(path, like)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="format 3"):
        envrax.load(path, like)


def test_a_save_that_fails_leaves_the_last_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, like = tmp_path / "x", {"x": jnp.zeros(3)}
    envrax.save(path, like)
    with pytest.raises(TypeError, match="text"):
        envrax.save(path, {"x": "text"})

    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(OSError, match="no space"):
        envrax.save(path, {"x": jnp.ones(3)})
    assert_trees_equal(envrax.load(path, like), like)
    assert [*tmp_path.iterdir()] == [path]


def test_threads_that_write_one_file(tmp_path: Path) -> None:
    path, like = tmp_path / "state.npz", {"x": np.zeros(100_000)}

    def write(i: int) -> None:
        for _ in range(5):
            envrax.save(path, {"x": np.full(100_000, i, float)})
            found = envrax.load(path, like)["x"]
            assert np.all(found == found[0]), "one of the files, whole"

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert [path.name for path in tmp_path.iterdir()] == ["state.npz"]


def test_what_a_link_points_to_is_written(tmp_path: Path) -> None:
    target, link = tmp_path / "run-7.npz", tmp_path / "latest.npz"
    envrax.save(target, 1)
    link.symlink_to(target)
    envrax.save(link, 2)
    assert envrax.load(target, 0) == 2 and link.is_symlink()


def older() -> Any:
    """What `format_1.npz` holds: a file of the first format, before plain names."""
    return {
        "rng": jax.random.split(jax.random.key(1), 2),
        "small": Pair(jnp.arange(3, dtype=jnp.bfloat16), jnp.full((), 1, jnp.int4)),
        "obs": {"image": np.arange(6, dtype=np.uint8).reshape(2, 3)},
        "empty": jnp.zeros((2, 0)),
        "numbers": (3, 0.5, True),
        "none": None,
    }


def test_a_file_of_the_first_format_loads() -> None:
    path = Path(__file__).with_name("format_1.npz")
    assert_trees_equal(envrax.load(path, older()), older())
    with pytest.raises(ValueError, match=re.escape("expected `['numbers'][0] float64[]`")):
        envrax.load(path, {**older(), "numbers": (0.0, 0.0, False)})


@pytest.mark.parametrize("name", DTYPES_BEYOND_NUMPY)
def test_every_dtype_of_ml_dtypes_comes_back(name: str, tmp_path: Path) -> None:
    given = np.ones((2, 3), getattr(ml_dtypes, name))
    envrax.save(tmp_path / "x", {"x": given})
    found = envrax.load(tmp_path / "x", {"x": np.zeros_like(given)})["x"]
    assert found.dtype == given.dtype and found.tobytes() == given.tobytes()


def test_other_tools_find_arrays_by_plain_names(tmp_path: Path) -> None:
    pair = Pair(np.arange(2), np.full(3, 0.5, ml_dtypes.bfloat16))
    envrax.save(tmp_path / "x", {"obs": {"image": np.ones((4, 2), np.uint8)}, "pairs": [pair]})
    with np.load(tmp_path / "x") as archive:
        assert archive.files == ["envrax.json", "obs/image", "pairs/0/a", "pairs/0/b"]
        assert_trees_equal(archive["obs/image"], np.ones((4, 2), np.uint8))
        assert archive["pairs/0/b"].dtype == np.uint16
        types = {x.get("array"): x["type"] for x in json.loads(archive["envrax.json"])["tree"]}
    assert types["pairs/0/b"] == "bfloat16[3]"


def test_names_that_would_collide(tmp_path: Path) -> None:
    keys = ["a/b", "a\\b", "a_b", "a", "n\0l", "n\0m", "", "envrax.json", "../up"]
    keys += ["lone \ud800", "lone \udfff"]
    given = {key: np.full(2, i) for i, key in enumerate(keys)}
    given["a"] = {"b": np.arange(4)}
    envrax.save(tmp_path / "x", given)
    assert_trees_equal(envrax.load(tmp_path / "x", jax.tree.map(np.zeros_like, given)), given)


@pytest.mark.parametrize(
    ("given", "like"),
    [
        ([1, 2], (1, 2)),
        ([1, 2], {0: 1, 1: 2}),
        ({"a": 1, "b": 2}, OrderedDict(a=1, b=2)),
        (Pair(1, 2), namedtuple("Other", ["a", "b"])(1, 2)),
        ({"x": 1, "y": None}, {"x": 1, "y": []}),
    ],
)
def test_another_structure_is_refused(given: Any, like: Any, tmp_path: Path) -> None:
    envrax.save(tmp_path / "x", given)
    envrax.load(tmp_path / "x", given)
    with pytest.raises(ValueError, match=r"load: expected `.*`; got `.*`"):
        envrax.load(tmp_path / "x", like)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    "array", [np.arange(3.0), np.arange(4), np.zeros((3, 1), int), np.int64(0)]
)
def test_an_array_that_another_tool_rewrote(array: Any, first: bool, tmp_path: Path) -> None:
    """In a file of either format."""
    path, like = tmp_path / "x", older() if first else {"x": np.arange(3)}
    envrax.save(path, like)
    source = Path(__file__).with_name("format_1.npz") if first else path
    with np.load(source) as archive:
        entries = {name: archive[name] for name in archive.files}
    rewritten = "['obs']['image'] uint8[2, 3].npy" if first else "x.npy"
    with zipfile.ZipFile(path, "w") as archive:
        for name, x in entries.items():
            with archive.open(name if isinstance(x, bytes) else f"{name}.npy", "w") as entry:
                if isinstance(x, bytes):
                    entry.write(x)
                else:
                    np.save(entry, array if f"{name}.npy" == rewritten else x)
    with pytest.raises(ValueError, match=r"load: .*holds"):
        envrax.load(path, like)


def test_a_damaged_file_is_refused_or_loads_as_it_was(tmp_path: Path) -> None:
    """One flipped bit: a ValueError, or the same tree if nothing reads that bit. Never others."""
    path, like = tmp_path / "x", [np.arange(3.0)]
    envrax.save(path, like)
    whole = path.read_bytes()
    refused = 0
    for i in range(len(whole)):
        flipped = bytearray(whole)
        flipped[i] ^= 1 << i % 8
        path.write_bytes(flipped)
        try:
            assert_trees_equal(envrax.load(path, like), like)
        except ValueError as error:
            assert str(error).startswith("load: "), error
            refused += 1
    assert refused > len(whole) / 2


def test_nothing_is_read_before_names_and_sizes_fit(tmp_path: Path) -> None:
    """A file of 32 KiB that holds 32 MiB."""
    path, like = tmp_path / "x", {"x": np.zeros(3)}
    envrax.save(path, like)
    with np.load(path) as archive:
        types = archive["envrax.json"]
    others = (
        types.replace(b"'x'", b"'y'"),
        types.replace(b"[3]", b"[4194304]"),
        types + b" " * 2**25,
    )
    for type_of_it in (types, *others):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("envrax.json", type_of_it)
            with archive.open("x.npy", "w") as entry:
                np.save(entry, np.zeros(2**22))
        tracemalloc.start()
        try:
            with pytest.raises(ValueError, match=r"load: "):
                envrax.load(path, like)
            assert tracemalloc.get_traced_memory()[1] < 2**20
        finally:
            tracemalloc.stop()


def test_a_mask_is_not_lost(tmp_path: Path) -> None:
    masked = np.ma.masked_array([1.0, 2.0], [True, False])
    with pytest.raises(TypeError, match=r"without a mask; got a masked array as `\['x'\] float64"):
        envrax.save(tmp_path / "x", {"x": masked})


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.float64, np.complex128])
def test_numbers_are_not_cut_to_32_bits(dtype: Any, tmp_path: Path) -> None:
    """JAX would, where 64 bits are not enabled."""
    given = {"x": np.array([2**30 + 1], dtype) * dtype(3)}
    envrax.save(tmp_path / "x", given)
    like = {"x": jax.ShapeDtypeStruct((1,), dtype)}
    with pytest.raises(ValueError, match=r"at most 32 bits; got .*64|128.*`\['x'\]` in `like`"):
        envrax.load(tmp_path / "x", like)
    with jax.enable_x64(True):
        assert_trees_equal(envrax.load(tmp_path / "x", like), given)
    assert_trees_equal(envrax.load(tmp_path / "x", given), given)


def test_what_cannot_be_removed_is_left(tmp_path: Path) -> None:
    left = tmp_path / f".x.{'a' * 32}.part"
    left.mkdir()
    os.utime(left, (0, 0))
    envrax.save(tmp_path / "x", 1)
    assert left.exists() and envrax.load(tmp_path / "x", 0) == 1


@pytest.mark.parametrize("name", ["x" * 255, "ü" * 127])
def test_the_longest_names(name: str, tmp_path: Path) -> None:
    for value in (1, 2):
        envrax.save(tmp_path / name, value)
    assert envrax.load(tmp_path / name, 0) == 2
    assert os.listdir(tmp_path) == [name]


def test_only_a_regular_file_is_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "read-only").write_text("mine")
    (tmp_path / "read-only").chmod(0o444)
    for name, mode in {"fifo": "p", "folder": "d", "read-only": "-r--r--r--"}.items():
        before = os.lstat(tmp_path / name)
        with pytest.raises(FileExistsError, match=f"save: expected .*{name}.*{mode}"):
            envrax.save(tmp_path / name, 1)
        assert os.lstat(tmp_path / name) == before
    with pytest.raises(FileExistsError, match=r"save: expected .*crw"):
        envrax.save("/dev/null", 1)
    assert len([*tmp_path.iterdir()]) == 3


def test_the_mode_of_a_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, new = tmp_path / "x", tmp_path / "new"
    write = np.lib.format.write_array

    def look_and_write(*args: Any, **kwargs: Any) -> None:
        (part,) = (x for x in tmp_path.iterdir() if x.name.endswith(".part"))
        modes.append(stat.S_IMODE(part.stat().st_mode))
        write(*args, **kwargs)

    monkeypatch.setattr(np.lib.format, "write_array", look_and_write)
    for mode in (0o600, 0o666, 0o640):
        modes: list[int] = []
        path.write_text("")
        path.chmod(mode)
        envrax.save(path, 1)
        assert stat.S_IMODE(path.stat().st_mode) == mode
        assert not modes[0] & ~mode, "nor may others read the file while it is written"
    envrax.save(new, 1)
    (tmp_path / "plain").write_text("")
    assert new.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_what_a_killed_save_left_is_removed_by_a_later_one(run_python: Any, tmp_path: Path) -> None:
    run_python(
        """
        import os
        import numpy as np
        import envrax
        np.lib.format.write_array = lambda *args, **kwargs: os._exit(0)
        envrax.save("x[1].npz", 1)
        """
    )
    (left,) = tmp_path.iterdir()
    other = tmp_path / ".x[1].npz.notes.part"
    other.write_text("mine")
    envrax.save(tmp_path / "x[1].npz", 2)
    assert left.exists(), "another process may still be writing it"
    for path in (left, other):
        os.utime(path, (0, 0))
    envrax.save(tmp_path / "x[1].npz", 3)
    assert {path.name for path in tmp_path.iterdir()} == {"x[1].npz", other.name}
