"""The part of CI that counts the kernels of a step fails where a step got dearer."""

import json
from pathlib import Path

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
