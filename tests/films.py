"""Short videos for the tests of `RecordVideo`, and functions that read them."""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import imageio.v3
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import PixelEnv, VectorConfig, VectorState

from envrax import RecordVideo


class FilmEnv(PixelEnv):
    """Each frame is one grey, which encodes the number of the step."""

    shape = (16, 12, 3)
    grey = 40

    def _image(self, pos: jax.Array) -> jax.Array:
        return jnp.broadcast_to(pos.astype(jnp.uint8), self.shape)  # quick to compile

    def render(self, state: VectorState) -> np.ndarray:
        return np.full(self.shape, self.grey * int(state.step), np.uint8)


class Canvas(FilmEnv):
    """Draws every state on the same array."""

    canvas = np.zeros(FilmEnv.shape, np.uint8)

    def render(self, state: VectorState) -> np.ndarray:
        self.canvas[:] = super().render(state)
        return self.canvas


class FakeEncoder:
    """Stands in for ffmpeg, which takes a while to start: its file holds the raw frames."""

    def __init__(self, path: Path, fps: float, shape: tuple[int, ...], form: str) -> None:
        self.path, self.written = path, b""

    def write(self, frame: np.ndarray) -> None:
        self.written += frame.tobytes()

    def finish(self) -> str | None:
        self.path.write_bytes(self.written)
        return None

    def kill(self) -> None:
        pass


def film(folder: Path, steps: int = 3, **triggers: Any) -> Any:
    return RecordVideo(FilmEnv(VectorConfig(max_steps=steps)), folder, **triggers)


def play(env: Any, *lengths: int) -> None:
    """One episode after another, each of so many steps."""
    for length in lengths:
        obs, state = env.reset(jax.random.key(0))
        for _ in range(length):
            obs, state, *_ = env.step(state, jnp.int32(1))


def file_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """imageio reads without a fork, and may leave its pipes to the garbage collector."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setenv("IMAGEIO_FFMPEG_NO_PREVENT_SIGINT", "1")
        warnings.simplefilter("ignore", ResourceWarning)
        yield


def frames(path: Path) -> np.ndarray:
    raw = path.read_bytes()
    if raw[4:8] != b"ftyp":  # no MP4: a `FakeEncoder` has written it
        return np.frombuffer(raw, np.uint8).reshape(-1, *FilmEnv.shape)
    with reading():
        return imageio.v3.imread(path, plugin="FFMPEG")


def steps_seen(path: Path) -> list[int]:
    return np.rint(frames(path).mean((1, 2, 3)) / FilmEnv.grey).astype(int).tolist()
