"""The files of `benchmarks/results`: what each benchmark found, when, where and with what."""

import json
import os
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.measure import machine

RESULTS = Path(__file__).parent / "results"


def read(name: str, folder: Path = RESULTS) -> dict[str, Any]:
    """The content of a file; no tables if there is none."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {"tables": {}}


def write(name: str, tables: dict[str, Any], folder: Path = RESULTS, **more: Any) -> None:
    """
    Write a file in one piece.

    Parameters
    ----------
    name : str
        Of the benchmark.
    tables : dict
        From title to rows, from row to columns, from column to number.
    folder : Path
        Where the file is written.
    **more
        Further entries of the file.
    """
    path = folder / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {"date": f"{date.today()}", "machine": machine(), **more, "tables": tables}
    path.with_suffix(".new").write_text(json.dumps(found, indent=1) + "\n")
    os.replace(path.with_suffix(".new"), path)
