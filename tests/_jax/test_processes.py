"""What happens between processes: two that compile at once, and one that is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from films import file_names, film, play, steps_seen

pytestmark = pytest.mark.slow

RECORDING = """
import sys
sys.path[:0] = sys.argv[2:]
from films import film
import jax
env = film(sys.argv[1], steps=4)
for episode in range(2):
    obs, state = env.reset(jax.random.key(0))
    for step in range(5 if episode == 0 else 2):
        obs, state, *_ = env.step(state, 1)
print("recording", flush=True)
sys.stdin.read()
"""


def test_a_process_that_is_killed_leaves_no_file_that_looks_complete(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", RECORDING, str(tmp_path), *sys.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline() == "recording\n"
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    process.stdin.close()
    process.stdout.close()
    time.sleep(1)  # ffmpeg outlives it, sees the end of its input, and renames nothing
    assert file_names(tmp_path) == ["episode_0000.mp4", "episode_0001.mp4.part"]
    assert steps_seen(tmp_path / "episode_0000.mp4") == [0, 1, 2, 3, 4]

    play(film(tmp_path, steps=2), 2)  # the next run takes neither for its own
    assert "episode_0002.mp4" in file_names(tmp_path)


COMPILING = """
import envrax, jax, numpy as np, sys, time
from fakes import PixelEnv
while time.time() < float(sys.argv[1] if len(sys.argv) > 1 else START):
    pass
vec_env = envrax.VecEnv(envrax.FrameStackObservation(PixelEnv()), 3)
vec_env.compile("cache")
obs, state = vec_env.reset(jax.random.key(0))
obs, state, reward, *_ = vec_env.step(state, [0, 1, 2])
print(int(np.asarray(obs, np.int64).sum()), np.asarray(reward).tolist())
"""


def test_two_processes_fill_one_cache_at_once(tmp_path: Path, run_python: Any) -> None:
    """Both are right, none warns, and the third finds all of it."""
    begin = f"START = {time.time() + 4}\n"
    code = f"import warnings\nwarnings.simplefilter('error')\n{begin}{COMPILING}"
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    said = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    third = run_python(
        "misses = []\nimport jax\n"
        "jax.monitoring.register_event_listener(lambda e, **_: misses.append(e))\n"
        f"START = 0\n{COMPILING}\n"
        "assert '/jax/compilation_cache/cache_hits' in misses\n"
        "assert '/jax/compilation_cache/cache_misses' not in misses, misses\n"
    )
    assert said[0][0] == said[1][0] == third


def test_a_long_episode_takes_no_more_memory_than_a_short_one(
    run_python: Any, tmp_path: Path
) -> None:
    """2000 frames of 300 kB would be 600 MB."""
    printed = run_python(
        """
        import resource
        import numpy as np
        from films import FilmEnv
        from fakes import VectorConfig
        import envrax, jax

        class Large(FilmEnv):
            def render(self, state):
                return np.full((320, 320, 3), int(state.step) % 255, np.uint8)

        env = envrax.RecordVideo(envrax.JitWrapper(Large(VectorConfig(max_steps=9999))), "films")
        obs, state = env.reset(jax.random.key(0))
        for step in range(2000):
            obs, state, *_ = env.step(state, 1)
            if step == 99:
                short = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        env.close()
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - short) / 1024)
        """
    )
    assert float(printed) < 100  # MB
