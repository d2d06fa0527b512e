"""The files of `RecordVideo`, written by ffmpeg: their contents, and errors of ffmpeg."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import imageio.v3
import jax
import numpy as np
import pytest
from fakes import VectorConfig, VectorState
from films import FilmEnv, file_names, film, frames, play, reading, steps_seen

from envrax import RecordVideo
from envrax.video.ffmpeg import Encoder, find_ffmpeg


def test_every_episode_is_recorded_from_its_first_frame_to_its_last(tmp_path: Path) -> None:
    env = film(tmp_path / "a" / "b")
    play(env, 3, 3)
    assert file_names(tmp_path / "a" / "b") == ["episode_0000.mp4", "episode_0001.mp4"]
    for name in file_names(tmp_path / "a" / "b"):
        assert steps_seen(tmp_path / "a" / "b" / name) == [0, 1, 2, 3]


@pytest.mark.parametrize("shape", [(16, 16, 3), (31, 16, 3), (3, 5, 3)])
def test_frames_keep_their_size(tmp_path: Path, shape: tuple[int, ...]) -> None:
    class Sized(FilmEnv):
        def render(self, state: VectorState) -> np.ndarray:
            return np.full(shape, 200, np.uint8)

    play(RecordVideo(Sized(VectorConfig(max_steps=1)), tmp_path), 1)
    seen = frames(tmp_path / "episode_0000.mp4")
    assert seen.shape == (2, *shape)
    np.testing.assert_allclose(seen, 200, atol=3)


def test_colours_and_rows_come_out_as_drawn(tmp_path: Path) -> None:
    image = np.zeros((32, 48, 3), np.uint8)
    image[:16, :, 0] = image[:, :16, 2] = 250

    class Painting(FilmEnv):
        def render(self, state: VectorState) -> np.ndarray:
            return image[:, ::-1][:, ::-1]  # not contiguous either

    play(RecordVideo(Painting(VectorConfig(max_steps=1)), tmp_path), 1)
    seen = frames(tmp_path / "episode_0000.mp4")[0].astype(int)
    for row, column in [(4, 4), (4, 40), (28, 4), (28, 40)]:
        np.testing.assert_allclose(seen[row, column], image[row, column], atol=12)


def test_fps_is_that_of_the_file(tmp_path: Path) -> None:
    play(film(tmp_path, fps=12), 3)
    with reading():
        about = imageio.v3.immeta(tmp_path / "episode_0000.mp4", plugin="FFMPEG")
    assert about["fps"] == 12


def test_encoder_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = film(tmp_path, fps=10)
    env.fps = "nonsense"
    with pytest.raises(RuntimeError, match="nonsense"):
        play(env, 3)
    assert not env.recording and file_names(tmp_path) == []


def test_an_encoder_that_is_killed_is_told_so(tmp_path: Path) -> None:
    env = film(tmp_path)
    _, state = env.reset(jax.random.key(0))
    _, state, *_ = env.step(state, 1)
    os.kill(children()[0], signal.SIGKILL)
    with pytest.raises(RuntimeError, match="signal SIGKILL, without a message"):
        env.close()
    assert file_names(tmp_path) == []
    play(env, 3)  # the next film is another one
    assert steps_seen(tmp_path / "episode_0001.mp4") == [0, 1, 2, 3]


def children() -> list[int]:
    own = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return [*map(int, own.split())]


def test_a_frame_that_is_interrupted_ends_its_film(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a frame would shift all that follow."""
    env = film(tmp_path, steps=6)
    _, state = env.reset(jax.random.key(0))
    for _ in range(3):
        _, state, *_ = env.step(state, 1)
    write = Encoder.write

    def interrupted(encoder: Encoder, frame: np.ndarray) -> None:
        write(encoder, frame[:5])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Encoder, "write", interrupted)
        env.step(state, 1)
    for _ in range(3):
        _, state, *_ = env.step(state, 1)
    seen = [steps_seen(tmp_path / name) for name in file_names(tmp_path)]
    assert seen == [[0, 1, 2, 3], [3, 4, 5, 6]]


# ffmpeg, which writes to a pipe when it has ended.
FFMPEG = """#!/bin/sh
"{program}" "$@"
status=$?
echo ended > "{pipe}"
exit $status
"""
RECORDING = """
import sys
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


@pytest.mark.slow
def test_a_process_that_is_killed_leaves_no_file_that_looks_complete(tmp_path: Path) -> None:
    films, pipe, program = tmp_path / "films", tmp_path / "pipe", tmp_path / "ffmpeg"
    os.mkfifo(pipe)
    program.write_text(FFMPEG.format(program=find_ffmpeg(), pipe=pipe))
    program.chmod(0o755)
    path = os.pathsep.join(sys.path)
    process = subprocess.Popen(
        [sys.executable, "-c", RECORDING, str(films)],
        env={**os.environ, "PYTHONPATH": path, "IMAGEIO_FFMPEG_EXE": str(program)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdin is not None
    # Open for writing too, so that neither side waits for the other.
    with open(pipe, "r+b", buffering=0) as ended:
        assert process.stdout.readline() == "recording\n"
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        process.stdin.close()
        process.stdout.close()
        # ffmpeg outlives the process, reads to the end of its input, and renames nothing.
        assert [ended.readline(), ended.readline()] == [b"ended\n"] * 2
    assert file_names(films) == ["episode_0000.mp4", "episode_0001.mp4.part"]
    assert steps_seen(films / "episode_0000.mp4") == [0, 1, 2, 3, 4]

    play(film(films, steps=2), 2)  # the next run takes neither for its own
    assert "episode_0002.mp4" in file_names(films)


@pytest.mark.slow
def test_encoder_starts_without_a_fork(run_python: Any) -> None:
    said = run_python(
        """
        import os
        os.register_at_fork(before=lambda: print("forked"))
        from films import film, play, Path
        play(film(Path("films")), 3)
        print(os.listdir("films"))
        """
    )
    assert said.split("\n")[:-1] == ["['episode_0000.mp4']"]


@pytest.mark.slow
def test_a_film_belongs_to_the_process_that_began_it(run_python: Any) -> None:
    """A forked worker neither keeps ffmpeg waiting nor writes into the film, nor completes it."""
    said = run_python(
        """
        import os, warnings
        warnings.simplefilter("ignore")  # JAX warns of forks
        import numpy as np
        from films import FilmEnv, Path, file_names, steps_seen
        from envrax.video.batch_recording import Recording
        from envrax.video.encoder import open_video
        from envrax.video.film import Schedule

        def frame(grey):
            return np.full(FilmEnv.shape, FilmEnv.grey * grey, np.uint8)

        video = open_video(Path("films"), {}, 0, 30, frame(0))
        batch = Recording([0], Path("films"), 30, None, None, Schedule(None, None, 0))
        begun = batch.begins([False], lambda place: lambda: frame(2))
        after = lambda place: lambda: frame(3)
        batch.add_step(begun, after, [False], after)
        reading, writing = os.pipe()
        if not os.fork():
            os.close(writing)
            assert not video.takes_frames
            video.close()
            batch.finish()
            os.read(reading, 1)  # as long as the other process lives
            os._exit(0)
        os.close(reading)
        video.add(frame(1))
        video.close()
        batch.finish()
        for name in file_names(Path("films")):
            print(name, steps_seen(Path("films", name)))
        """
    )
    assert said == "episode_0000.mp4 [0, 1]\nslot_0-episode_0000.mp4 [2, 3]\n"
