"""Two processes that compile at once."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

COMPILING = """
import envrax, jax, numpy as np
from fakes import PixelEnv
meet()
vec_env = envrax.VecEnv(envrax.FrameStackObservation(PixelEnv()), 3)
vec_env.compile("cache")
obs, state = vec_env.reset(jax.random.key(0))
obs, state, reward, *_ = vec_env.step(state, [0, 1, 2])
print(int(np.asarray(obs, np.int64).sum()), np.asarray(reward).tolist())
"""


def test_two_processes_fill_one_cache_at_once(tmp_path: Path, run_python: Any) -> None:
    """Both are right, neither warns, and a third process finds every program in the cache."""
    code = f"""
import sys, warnings
warnings.simplefilter("error")
def meet():
    print("ready", flush=True)
    sys.stdin.readline()
{COMPILING}
"""
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in both:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in both:
        assert process.stdin is not None
        process.stdin.write("go on\n")
        process.stdin.flush()
    printed = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], printed
    third = run_python(
        "from conftest import count_compilations\nmeet = list\n"
        f"with count_compilations() as counted:\n{textwrap.indent(COMPILING, '    ')}\n"
        "assert counted.hits and not counted.misses, counted\n"
    )
    assert printed[0][0] == printed[1][0] == third
