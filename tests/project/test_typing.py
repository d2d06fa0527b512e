"""What pyright infers and finds in files of users, which it checks strictly."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.integration
SAMPLES = Path(__file__).parents[1] / "typing_samples"


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
    assert report["summary"]["filesAnalyzed"] == 3
    by_file: dict[str, list[dict[str, Any]]] = {path.name: [] for path in SAMPLES.glob("*.py")}
    for diagnostic in report["generalDiagnostics"]:
        by_file[Path(diagnostic["file"]).name].append(diagnostic)
    return by_file


def line_of(diagnostic: dict[str, Any]) -> int:
    return diagnostic["range"]["start"]["line"] + 1


def test_strict_checking_finds_nothing_in_a_users_file(messages_by_file: Any) -> None:
    assert [(line_of(d), d["message"]) for d in messages_by_file["user.py"]] == []


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
