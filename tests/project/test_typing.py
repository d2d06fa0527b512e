"""What pyright and mypy, both strict, infer and find in files of users."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envrax.__main__ import main

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "tests" / "typing_samples"


def commented(sample: str, pattern: str) -> dict[int, str]:
    """The comment at the end of each line, by line number."""
    lines = (SAMPLES / sample).read_text().splitlines()
    found = ((number, re.search(pattern, line)) for number, line in enumerate(lines, 1))
    return {number: match[1] for number, match in found if match}


REVEALED = commented("revealed.py", r"^reveal_type\(.*  # (.+)$")
REFUSED = commented("refused.py", r"  # (report\w+)$")


@pytest.fixture(scope="module")
def messages_by_file() -> dict[str, list[dict[str, Any]]]:
    """The messages of pyright, by file."""
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, "--project", str(SAMPLES)], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 4
    by_file: dict[str, list[dict[str, Any]]] = {path.name: [] for path in SAMPLES.glob("*.py")}
    for diagnostic in report["generalDiagnostics"]:
        by_file[Path(diagnostic["file"]).name].append(diagnostic)
    return by_file


def line_of(diagnostic: dict[str, Any]) -> int:
    return diagnostic["range"]["start"]["line"] + 1


@pytest.mark.parametrize("file", ["user.py", "suite.py"])
def test_strict_checking_finds_nothing_in_a_users_file(messages_by_file: Any, file: str) -> None:
    assert [(line_of(d), d["message"]) for d in messages_by_file[file]] == []


def test_types_are_known(messages_by_file: Any) -> None:
    messages = {line_of(d): d["message"] for d in messages_by_file["revealed.py"]}
    assert len(REVEALED) > 50
    assert {
        line: message.split('" is "')[-1][:-1] for line, message in messages.items()
    } == REVEALED


def test_mistakes_are_found_and_nothing_else(messages_by_file: Any) -> None:
    found: dict[int, set[str]] = {}
    for diagnostic in messages_by_file["refused.py"]:
        found.setdefault(line_of(diagnostic), set()).add(diagnostic["rule"])
    assert found.keys() == REFUSED.keys()
    assert {line: rule for line, rule in REFUSED.items() if rule not in found[line]} == {}


@pytest.fixture
def suites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a user's suite, and what `python -m envrax new` writes."""
    monkeypatch.chdir(tmp_path)
    main(["new", "my_suite"])
    Path("my_suite", "ppo.py").unlink()  # flax has types that these two do not read
    shutil.copy(SAMPLES / "suite.py", tmp_path)
    return tmp_path


def test_pyright_finds_nothing_in_suites(suites: Path) -> None:
    # JAX is partly untyped, and chex has no types.
    unknown = ("Argument", "Lambda", "Member", "Variable")
    off = ["reportMissingTypeStubs", *(f"reportUnknown{x}Type" for x in unknown)]
    config = {"extraPaths": [str(ROOT), "my_suite"], "typeCheckingMode": "strict"}
    (suites / "pyrightconfig.json").write_text(json.dumps({**config, **dict.fromkeys(off, False)}))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=suites, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_finds_nothing_in_suites(suites: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--config-file", str(SAMPLES / "mypy.ini"), "."]
    paths = {"MYPYPATH": os.pathsep.join([str(ROOT), "my_suite"])}
    done = subprocess.run(
        command,
        cwd=suites,
        env={**os.environ, **paths},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
