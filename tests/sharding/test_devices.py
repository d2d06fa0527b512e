"""A batch spread over eight devices computes what it computes on one, in a process of its own."""

from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).with_name("eight_devices.py")


@pytest.mark.parametrize("tier", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_eight_devices(tier: str, run_python: Any) -> None:
    run_python(
        f"""
        import os, sys
        os.environ["XLA_FLAGS"] += " --xla_force_host_platform_device_count=8"
        os.dup2(2, 1)  # shown if a test fails
        import pytest
        options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", {tier!r}]
        sys.exit(pytest.main([*options, {str(TESTS)!r}]))
        """
    )
