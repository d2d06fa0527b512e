"""`save` and `load`: loaded trees are equal to the bit; files and trees that are refused."""

import json
import os
import pickle
import re
import stat
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
from envrax.autoreset import Select

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


def test_a_rollout_goes_on_to_the_bit(tmp_path: Path) -> None:
    env = VecEnv(RecordEpisodeStatistics(CoinEnv()), 2, autoreset=Select())
    middle, _ = envrax.rollout(env, None, envrax.start(env, jax.random.key(0)), 8)
    envrax.save(tmp_path / "at.npz", middle)
    again = envrax.load(tmp_path / "at.npz", envrax.start(env, jax.random.key(5)))
    assert_trees_equal(envrax.rollout(env, None, again, 8), envrax.rollout(env, None, middle, 8))


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


@pytest.mark.parametrize(
    "array", [np.arange(3.0), np.arange(4), np.zeros((3, 1), int), np.int64(0)]
)
def test_an_array_that_another_tool_rewrote(array: Any, tmp_path: Path) -> None:
    path, like = tmp_path / "x", {"x": np.arange(3)}
    envrax.save(path, like)
    with np.load(path) as archive:
        types = archive["envrax.json"]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("envrax.json", types)
        with archive.open("x.npy", "w") as entry:
            np.save(entry, array)
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


def test_a_mask_is_not_lost(tmp_path: Path) -> None:
    masked = np.ma.masked_array([1.0, 2.0], [True, False])
    with pytest.raises(TypeError, match=r"arrays and numbers; got masked_array"):
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


@pytest.mark.parametrize("name", ["x" * 255, "ü" * 127])
def test_the_longest_names(name: str, tmp_path: Path) -> None:
    for value in (1, 2):
        envrax.save(tmp_path / name, value)
    assert envrax.load(tmp_path / name, 0) == 2
    assert os.listdir(tmp_path) == [name]


def test_only_a_regular_file_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "read-only").write_text("mine")
    # Root may write everywhere.
    monkeypatch.setattr(os, "access", lambda path, _: path.name != "read-only")
    for path in (*tmp_path.iterdir(), Path("/dev/null")):
        before = os.lstat(path)
        with pytest.raises(FileExistsError, match=f"save: expected .*{path.name}"):
            envrax.save(path, 1)
        assert os.lstat(path).st_ino == before.st_ino
    assert len([*tmp_path.iterdir()]) == 3


def test_the_mode_of_a_file_stays(tmp_path: Path) -> None:
    path, new = tmp_path / "x", tmp_path / "new"
    for mode in (0o600, 0o666, 0o640):
        path.write_text("")
        path.chmod(mode)
        envrax.save(path, 1)
        assert stat.S_IMODE(path.stat().st_mode) == mode
    envrax.save(new, 1)
    (tmp_path / "plain").write_text("")
    assert new.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_number_that_does_not_fit_64_bits(tmp_path: Path) -> None:
    for number in (2**63 - 1, -(2**63), 2**64 - 1):
        envrax.save(tmp_path / "x", {"n": number})
        assert envrax.load(tmp_path / "x", {"n": number}) == {"n": number}
    for number in (2**64, 2**70, -(2**63) - 1):
        with pytest.raises(OverflowError, match=rf"at most 64 bits; got {number} as `\['n'\]"):
            envrax.save(tmp_path / "x", {"n": number})


@pytest.mark.parametrize("implementation", ["threefry2x32", "rbg"])
def test_transfers_are_meant(implementation: str, tmp_path: Path) -> None:
    given, like = tree(1, implementation), tree(0, implementation)
    with jax.transfer_guard("disallow"):
        envrax.save(tmp_path / "x", given)
        found = envrax.load(tmp_path / "x", like)
    assert_trees_equal(found, given)
