"""`RecordVideo` in a stack, and what it refuses."""

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import VectorConfig, VectorEnv, VectorState
from films import FakeEncoder, FilmEnv, file_names, film, play, steps_seen

from envrax import (
    ClipReward,
    FrameStackObservation,
    GrayscaleObservation,
    JitWrapper,
    MissingPackageError,
    RecordEpisodeStatistics,
    RecordVideo,
    VecEnv,
    Wrapper,
    make,
    make_vec,
    register,
    unregister,
)


@pytest.fixture(autouse=True)
def no_ffmpeg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envrax.video.encoder.start_encoder", FakeEncoder)


def test_records_above_and_beneath_other_wrappers(tmp_path: Path) -> None:
    inner = RecordEpisodeStatistics(FilmEnv(VectorConfig(max_steps=2)))
    inner = RecordVideo(inner, tmp_path / "in")
    env = FrameStackObservation(GrayscaleObservation(ClipReward(inner)), n_stack=2)
    assert not env.traceable
    top = RecordVideo(env, tmp_path / "out")
    play(top, 2)
    for folder in ("in", "out"):
        assert steps_seen(tmp_path / folder / "episode_0000.mp4") == [0, 1, 2]


def test_close_from_the_top_of_a_stack_keeps_the_film(tmp_path: Path) -> None:
    env = RecordEpisodeStatistics(ClipReward(film(tmp_path)))
    play(env, 2)
    env.close()
    assert steps_seen(tmp_path / "episode_0000.mp4") == [0, 1, 2]


def test_an_episode_that_ends_closes_nothing_beneath(tmp_path: Path) -> None:
    closed: list[int] = []

    class Held(FilmEnv):
        def close(self) -> None:
            closed.append(1)

    env = RecordVideo(Held(VectorConfig(max_steps=2)), tmp_path)
    play(env, 2, 1)
    assert closed == []
    env.close()
    assert closed == [1]


def test_wrapper_that_draws_is_a_render(tmp_path: Path) -> None:
    class Drawn(Wrapper[Any, Any, Any, Any]):
        def render(self, state: Any) -> np.ndarray:
            return np.zeros((4, 4, 3), np.uint8)

    play(RecordVideo(ClipReward(Drawn(VectorEnv())), tmp_path), 1)


def test_make_compiles_beneath_a_video(tmp_path: Path) -> None:
    register("Film-v0", FilmEnv, VectorConfig(max_steps=2))
    try:
        env: Any = make(
            "Film-v0",
            wrappers=[ClipReward, RecordVideo(output_dir=tmp_path, fps=10), GrayscaleObservation],
        )
        with pytest.raises(RuntimeError, match=r"RecordVideo.*incompatible with JAX transforms"):
            make_vec("Film-v0", 2, wrappers=[RecordVideo(output_dir=tmp_path)])
    finally:
        unregister("Film-v0")
    assert [type(layer) for layer in (env, env.env, env.env.env)] == [
        GrayscaleObservation,
        RecordVideo,
        JitWrapper,
    ]
    play(env, 2)
    assert file_names(tmp_path) == ["episode_0000.mp4"]


# Refusals


def test_transforms_are_refused(tmp_path: Path) -> None:
    env = film(tmp_path)
    obs, state = env.reset(jax.random.key(0))
    keys = jax.random.split(jax.random.key(0), 2)
    zero = jnp.int32(0)

    def scanned() -> Any:
        return jax.lax.scan(lambda s, a: (env.step(s, a)[1], None), state, jnp.zeros(2, jnp.int32))

    for attempt in (
        lambda: jax.jit(env.reset)(keys[0]),
        lambda: jax.jit(lambda: env.reset(keys[0])[0])(),
        lambda: jax.vmap(env.reset)(keys),
        lambda: jax.jit(env.step)(state, zero),
        lambda: jax.jit(lambda: env.step(state, zero)[0])(),
        scanned,
    ):
        with pytest.raises(RuntimeError, match=r"RecordVideo is incompatible with JAX transforms"):
            attempt()
    env.close()


def test_compiling_from_above_is_refused(tmp_path: Path) -> None:
    for stack in (film(tmp_path), ClipReward(film(tmp_path))):
        for build in (lambda env: VecEnv(env, 2), lambda env: JitWrapper(env, pre_warm=False)):
            with pytest.raises(RuntimeError, match=r"RecordVideo.*incompatible with JAX"):
                build(stack)


def test_env_without_render_is_refused(tmp_path: Path) -> None:
    for env in (VectorEnv(), RecordEpisodeStatistics(ClipReward(VectorEnv()))):
        said = r"RecordVideo requires an environment that implements render; got .*VectorEnv\("
        with pytest.raises(TypeError, match=said):
            RecordVideo(env, tmp_path)


@pytest.mark.parametrize("fps", [0, -1, float("nan"), float("inf"), np.float32(np.inf)])
def test_fps_must_be_positive_and_finite(tmp_path: Path, fps: float) -> None:
    said = f"RecordVideo: expected fps above 0 and finite; got {fps}"
    with pytest.raises(ValueError, match=said):
        film(tmp_path, fps=fps)


def test_fps_may_be_a_numpy_number_and_nothing_else(tmp_path: Path) -> None:
    for fps in (np.float32(12.5), np.int64(3)):
        assert film(tmp_path, fps=fps).fps == fps
    for fps in ("30", None, 1j):
        with pytest.raises(TypeError, match="RecordVideo: expected fps to be a number; got"):
            film(tmp_path, fps=fps)


@pytest.mark.parametrize("package", ["imageio", "imageio_ffmpeg"])
def test_missing_encoder_is_told_at_construction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=rf"RecordVideo: .*{package}.*envrax\[video\]"):
        film(tmp_path)
    assert file_names(tmp_path) == []


def test_missing_program_is_told_at_construction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_ffmpeg() -> str:
        raise RuntimeError("No ffmpeg exe could be found.")

    monkeypatch.setattr("imageio_ffmpeg.get_ffmpeg_exe", no_ffmpeg)
    with pytest.raises(MissingPackageError, match=r"RecordVideo: .*No ffmpeg exe"):
        film(tmp_path)


@pytest.mark.parametrize(
    ("frame", "got"),
    [
        (np.zeros((4, 4, 3), np.float32), r"got \(4, 4, 3\) float32"),
        (np.zeros((4, 4), np.uint8), r"got \(4, 4\) uint8"),
        (np.zeros((4, 4, 4), np.uint8), r"got \(4, 4, 4\) uint8"),
    ],
)
def test_frames_that_are_no_images_are_refused(tmp_path: Path, frame: Any, got: str) -> None:
    class Odd(FilmEnv):
        def render(self, state: VectorState) -> np.ndarray:
            return frame

    with pytest.raises(ValueError, match=rf"RecordVideo: expected .*\(H, W, 3\); {got}"):
        RecordVideo(Odd(), tmp_path).reset(jax.random.key(0))


def test_frames_that_change_their_size_are_refused(tmp_path: Path) -> None:
    class Growing(FilmEnv):
        def render(self, state: VectorState) -> np.ndarray:
            return np.zeros((4 + 2 * int(state.step), 4, 3), np.uint8)

    with (
        RecordVideo(Growing(), tmp_path) as env,
        pytest.raises(ValueError, match=r"frame of shape \(4, 4, 3\).*got \(6, 4, 3\)"),
    ):
        play(env, 1)
    assert file_names(tmp_path) == ["episode_0000.mp4"]
