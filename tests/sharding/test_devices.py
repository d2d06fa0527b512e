"""A batch spread over eight devices computes what it computes on one, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).with_name("eight_devices.py")


@pytest.mark.integration
def test_eight_devices(tmp_path: Path) -> None:
    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", str(TESTS)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "XLA_FLAGS": f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=8",
    }
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
