"""`save` and `load`: loaded trees are equal to the bit; files and trees that are refused."""

import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CoinEnv
from helpers import assert_trees_equal

import envrax
from envrax import RecordEpisodeStatistics, VecEnv, saving


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
        with pytest.raises(ValueError, match="another file"):
            envrax.load(path, like)
    for write in (np.save, np.savez):
        with path.open("wb") as file:
            write(file, np.zeros(3))
        with pytest.raises(ValueError, match=r"another file|arr_0"):
            envrax.load(path, like)
    monkeypatch.setattr(saving, "FORMAT", "envrax.save, format 2")
    envrax.save(path, like)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="format 2"):
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

    monkeypatch.setattr(np, "savez", full)
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
