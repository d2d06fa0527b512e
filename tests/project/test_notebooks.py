"""The notebooks are those of the pages, and print in Jupyter what the pages show."""

import runpy
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "notebooks"
MADE = runpy.run_path(str(ROOT / ".ci" / "notebooks.py"))


def test_the_files_are_what_the_script_writes() -> None:
    """If not, run `python .ci/notebooks.py`."""
    files = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.ipynb")}
    assert files == MADE["notebooks"](MADE["repository"]())


def test_where_there_is_an_address_it_installs_from_there_and_colab_opens_it() -> None:
    title, install, *_ = MADE["cells"]("randomise", "https://github.com/some/where")
    assert "(https://github.com/some/where/blob/main/docs/advanced/domain" in title["source"]
    assert "/github/some/where/blob/main/docs/notebooks/randomise.ipynb)" in title["source"]
    assert install["source"].endswith(
        'install --quiet "envrax @ git+https://github.com/some/where"'
    )


def tier(name: str) -> Any:
    return pytest.mark.interop if name == "any-library" else pytest.mark.integration


@pytest.mark.filterwarnings("ignore")  # of asyncio and of Jupyter
@pytest.mark.parametrize("name", [pytest.param(n, marks=tier(n)) for n in MADE["NOTEBOOKS"]])
def test_a_notebook_prints_what_it_shows(name: str, tmp_path: Path) -> None:
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    shown = [shows(cell) for cell in notebook.cells]
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": tmp_path}}).execute()
    assert [shows(cell) for cell in notebook.cells] == shown


def shows(cell: Any) -> str:
    outputs = cell.get("outputs", [])
    return "".join(output.text for output in outputs if output.get("name") == "stdout")
