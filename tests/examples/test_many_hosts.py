"""The example of several processes runs to its end and agrees in all of them."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "many_hosts.py"


@pytest.mark.integration
def test_two_processes_agree() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("process ")]
    slots = [line.split("slots ")[1].split(", reward")[0] for line in lines if "slots [" in line]
    assert sorted(slots) == [str([*range(8)]), str([*range(8, 16)])]
    means = {line.split()[-1] for line in lines if "ended" in line}
    assert len(means) == 1 and float(means.pop()) > 0
