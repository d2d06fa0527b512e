"""Kernels of a step: what CI fails for, and what an interrupted run leaves behind."""

import copy
import json
from pathlib import Path
from typing import Any

import jax
import pytest

from benchmarks import accelerators

COUNTS = {"kernels": 10, "kernels with an end": 20, "syncs": 0, "syncs with an end": 1}


@pytest.mark.parametrize(
    ("changed", "is_dearer"),
    [
        ({}, False),
        ({"kernels": 5}, False),
        ({"kernels with an end": 22}, False),
        ({"kernels with an end": 23}, True),
        ({"syncs": 1}, True),
        ({"syncs with an end": 2}, True),
    ],
)
def test_a_tenth_more_kernels_or_another_wait_fails(
    changed: dict[str, int], is_dearer: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = accelerators.IDS[: len(accelerators.CLASSIC)]
    checked = tmp_path / "counts.json"
    before = {"jax": jax.__version__, "kernels, syncs": dict.fromkeys(ids, COUNTS)}
    checked.write_text(json.dumps(before))
    monkeypatch.setattr(accelerators, "CHECKED", checked)
    monkeypatch.setattr(accelerators, "measured", lambda *_: COUNTS | changed)
    assert accelerators.check(write=False) == is_dearer


def test_an_id_without_committed_counts_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checked = tmp_path / "counts.json"
    checked.write_text(json.dumps({"jax": jax.__version__, "kernels, syncs": {}}))
    monkeypatch.setattr(accelerators, "CHECKED", checked)
    monkeypatch.setattr(accelerators, "measured", lambda *_: COUNTS)
    assert accelerators.check(write=False) == 1
    assert "no counts are committed" in capsys.readouterr().out


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Results that are kept in memory."""
    results: dict[str, Any] = {}

    def read(name: str) -> dict[str, Any]:
        return copy.deepcopy(results.get(name, {"tables": {}}))

    def write(name: str, tables: dict[str, Any], **more: Any) -> None:
        results[name] = {**more, "tables": tables}

    monkeypatch.setattr("benchmarks.files.read", read)
    monkeypatch.setattr("benchmarks.files.write", write)
    return results


@pytest.mark.usefixtures("found")
def test_an_interrupted_row_is_made_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> dict[str, float]:
        raise KeyboardInterrupt

    monkeypatch.setattr(accelerators, "measured", interrupted)
    ways = accelerators.to_do("classic/Catch-v0", "H100", 8)
    with pytest.raises(KeyboardInterrupt):
        accelerators.compile_each("classic/Catch-v0", "H100", 8)
    assert accelerators.to_do("classic/Catch-v0", "H100", 8) == ways


def test_the_ways_after_one_that_ends_its_process_are_compiled(
    found: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    id, device, n = "gymnax/CartPole-v1", "H100", 8
    first, ending, last = accelerators.to_do(id, device, n)

    def child(*_: Any) -> None:
        for way in accelerators.to_do(id, device, n):
            if way == ending:
                return
            title = accelerators.title_of(id, device, n)
            accelerators.add("gymnax", title, way, {"kernels": 1}, None)

    monkeypatch.setattr("subprocess.run", child)
    accelerators.compile_apart(id, device, n)
    (rows,) = found["accelerators/gymnax"]["tables"].values()
    (reasons,) = found["accelerators/gymnax"]["why"].values()
    assert list(rows) == [first, last]
    assert reasons == {ending: "the process ended"}
