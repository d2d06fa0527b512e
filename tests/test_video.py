"""`RecordVideo`: which episodes are recorded, under which names, and what is in the files."""

import contextlib
import copy
import gc
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import imageio.v3
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import PixelEnv, VectorConfig, VectorEnv, VectorState

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


class FilmEnv(PixelEnv):
    """Each frame is one plain grey that tells the number of the step."""

    shape = (16, 12, 3)
    grey = 40

    def render(self, state: VectorState) -> np.ndarray:
        return np.full(self.shape, self.grey * int(state.step), np.uint8)


def film(folder: Path, steps: int = 3, **triggers: Any) -> Any:
    return RecordVideo(FilmEnv(VectorConfig(max_steps=steps)), folder, **triggers)


def play(env: Any, *lengths: int) -> None:
    """One episode after another, each of so many steps."""
    for length in lengths:
        obs, state = env.reset(jax.random.key(0))
        for _ in range(length):
            obs, state, *_ = env.step(state, jnp.int32(1))


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """imageio reads without a fork, and may leave its pipes to the garbage collector."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setenv("IMAGEIO_FFMPEG_NO_PREVENT_SIGINT", "1")
        warnings.simplefilter("ignore", ResourceWarning)
        yield


def frames(path: Path) -> np.ndarray:
    with reading():
        return imageio.v3.imread(path, plugin="FFMPEG")


def steps_seen(path: Path) -> list[int]:
    return np.rint(frames(path).mean((1, 2, 3)) / FilmEnv.grey).astype(int).tolist()


# Contents


def test_every_episode_is_recorded_from_its_first_frame_to_its_last(tmp_path: Path) -> None:
    env = film(tmp_path / "a" / "b")
    play(env, 3, 3)
    assert files(tmp_path / "a" / "b") == ["episode_0000.mp4", "episode_0001.mp4"]
    for name in files(tmp_path / "a" / "b"):
        assert steps_seen(tmp_path / "a" / "b" / name) == [0, 1, 2, 3]


@pytest.mark.parametrize("shape", [(16, 16, 3), (15, 16, 3), (16, 13, 3), (31, 17, 3), (3, 5, 3)])
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


def test_recording_changes_nothing_that_the_env_returns(tmp_path: Path) -> None:
    bare, filmed = FilmEnv(), RecordVideo(FilmEnv(), tmp_path)
    obs, state = bare.reset(jax.random.key(3))
    seen, filmed_state = filmed.reset(jax.random.key(3))
    np.testing.assert_array_equal(seen, obs)
    ours = filmed.step(filmed_state, jnp.int32(2))
    theirs = bare.step(state, jnp.int32(2))
    assert jax.tree.all(jax.tree.map(np.array_equal, ours[:1] + ours[2:], theirs[:1] + theirs[2:]))
    filmed.close()


# Triggers


@pytest.mark.parametrize(
    ("triggers", "expected"),
    [
        ({}, [0, 1, 2, 3]),
        ({"episode_trigger": lambda episode: episode % 2 == 1}, [1, 3]),
        ({"episode_trigger": lambda episode: False}, []),
        ({"step_trigger": lambda step: step == 4}, [1]),
        ({"step_trigger": lambda step: step in (0, 9)}, [0, 3]),
        (
            {
                "episode_trigger": lambda episode: episode == 0,
                "step_trigger": lambda step: step == 7,
            },
            [0, 2],
        ),
        (
            {
                "episode_trigger": lambda episode: episode == 1,
                "recording_trigger": lambda: False,
            },
            [1],
        ),
        (
            {
                "episode_trigger": lambda episode: False,
                "recording_trigger": lambda: True,
            },
            [0, 1, 2, 3],
        ),
    ],
)
def test_triggers_are_ored(tmp_path: Path, triggers: Any, expected: list[int]) -> None:
    play(film(tmp_path, **triggers), 3, 3, 3, 3)
    assert files(tmp_path) == [f"episode_{number:04d}.mp4" for number in expected]


def test_step_trigger_begins_within_an_episode(tmp_path: Path) -> None:
    env = film(tmp_path, steps=4, step_trigger=lambda step: step == 2)
    obs, state = env.reset(jax.random.key(0))
    recording = [env.recording]
    for _ in range(4):
        obs, state, *_ = env.step(state, jnp.int32(1))
        recording.append(env.recording)
    assert recording == [False, False, False, True, False]
    assert steps_seen(tmp_path / "episode_0000.mp4") == [2, 3, 4]


def test_step_trigger_counts_on_over_episodes(tmp_path: Path) -> None:
    asked: list[int] = []
    play(film(tmp_path, step_trigger=asked.append), 3, 2)
    assert asked == [0, 1, 2, 3, 4]


def test_recording_trigger_is_asked_at_reset_and_at_every_step(tmp_path: Path) -> None:
    answers = iter([False, False, True, False])
    play(film(tmp_path, recording_trigger=lambda: next(answers)), 3)
    assert steps_seen(tmp_path / "episode_0000.mp4") == [1, 2, 3]


def test_nothing_is_recorded_after_the_end(tmp_path: Path) -> None:
    env = film(tmp_path, recording_trigger=lambda: True)
    obs, state = env.reset(jax.random.key(0))
    for _ in range(6):  # over the limit of three
        obs, state, *_ = env.step(state, jnp.int32(1))
    assert files(tmp_path) == ["episode_0000.mp4"]
    assert steps_seen(tmp_path / "episode_0000.mp4") == [0, 1, 2, 3]


def test_env_that_forgets_its_done_ends_its_film(tmp_path: Path) -> None:
    class Forgetful(FilmEnv):
        def step(self, state: VectorState, action: Any) -> tuple[Any, ...]:
            obs, state, reward, done, info = super().step(state, action)
            return obs, state.replace(done=jnp.bool_(False)), reward, done, info

    play(RecordVideo(Forgetful(VectorConfig(max_steps=2)), tmp_path), 2)
    assert files(tmp_path) == ["episode_0000.mp4"]


# Files


def test_file_has_its_name_only_when_it_is_complete(tmp_path: Path) -> None:
    env = film(tmp_path)
    assert not env.recording
    obs, state = env.reset(jax.random.key(0))
    for _ in range(2):
        assert env.recording
        assert files(tmp_path) != [] and not list(tmp_path.glob("*.mp4"))
        obs, state, *_ = env.step(state, jnp.int32(1))
    env.step(state, jnp.int32(1))
    assert not env.recording
    assert files(tmp_path) == ["episode_0000.mp4"]


def test_reset_keeps_the_episode_that_it_cuts_short(tmp_path: Path) -> None:
    play(film(tmp_path), 2, 0, 3)
    seen = [steps_seen(tmp_path / name) for name in files(tmp_path)]
    assert seen == [[0, 1, 2], [0], [0, 1, 2, 3]]


def test_close_keeps_the_episode_that_it_cuts_short(tmp_path: Path) -> None:
    env = film(tmp_path)
    env.close()  # nothing to close
    play(env, 1)
    env.close()
    env.close()
    assert not env.recording
    assert steps_seen(tmp_path / "episode_0000.mp4") == [0, 1]
    play(env, 3)
    assert files(tmp_path) == ["episode_0000.mp4", "episode_0001.mp4"]


def test_with_closes_also_after_an_error(tmp_path: Path) -> None:
    with film(tmp_path) as env:
        assert isinstance(env, RecordVideo)
        play(env, 1)
    with pytest.raises(KeyError), film(tmp_path) as env:
        play(env, 2)
        raise KeyError
    assert [steps_seen(tmp_path / name) for name in files(tmp_path)] == [[0, 1], [0, 1, 2]]


def test_forgotten_env_completes_its_file(tmp_path: Path) -> None:
    env = film(tmp_path)
    play(env, 1)
    del env
    gc.collect()
    assert steps_seen(tmp_path / "episode_0000.mp4") == [0, 1]


def test_numbers_go_on_after_those_of_earlier_runs(tmp_path: Path) -> None:
    play(film(tmp_path), 1, 3)
    (tmp_path / "episode_0007.mp4").write_bytes(b"kept")
    (tmp_path / "notes.txt").touch()
    before = {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}
    play(film(tmp_path), 3, 3)
    assert set(files(tmp_path)) - set(before) == {"episode_0008.mp4", "episode_0009.mp4"}
    assert {name: (tmp_path / name).read_bytes() for name in before} == before


def test_two_envs_that_write_at_once_share_a_folder(tmp_path: Path) -> None:
    ours, theirs = film(tmp_path), film(tmp_path)
    play(ours, 1)
    play(theirs, 2)
    ours.close()
    theirs.close()
    assert [steps_seen(tmp_path / name) for name in files(tmp_path)] == [[0, 1], [0, 1, 2]]


def test_copy_does_not_write_into_the_same_file(tmp_path: Path) -> None:
    env = film(tmp_path)
    obs, state = env.reset(jax.random.key(0))
    twin = copy.deepcopy(env)
    assert env.recording and not twin.recording
    twin.step(state, jnp.int32(1))
    twin.close()
    play(twin, 3)
    for _ in range(3):
        obs, state, *_ = env.step(state, jnp.int32(1))
    assert [steps_seen(tmp_path / name) for name in files(tmp_path)] == [[0, 1, 2, 3]] * 2


# Stacks


def test_records_above_and_beneath_other_wrappers(tmp_path: Path) -> None:
    inner = RecordEpisodeStatistics(FilmEnv(VectorConfig(max_steps=2)))
    inner = RecordVideo(inner, tmp_path / "in")
    env = FrameStackObservation(GrayscaleObservation(ClipReward(inner)), n_stack=2)
    assert not env.traceable
    top = RecordVideo(env, tmp_path / "out")
    play(top, 2)
    for folder in ("in", "out"):
        assert steps_seen(tmp_path / folder / "episode_0000.mp4") == [0, 1, 2]


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
    assert files(tmp_path) == ["episode_0000.mp4"]


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
        with pytest.raises(TypeError, match=r"RecordVideo: expected .*`render`; got .*VectorEnv"):
            RecordVideo(env, tmp_path)


@pytest.mark.parametrize("fps", [0, -1, float("nan")])
def test_fps_must_be_positive(tmp_path: Path, fps: float) -> None:
    with pytest.raises(ValueError, match=f"RecordVideo: expected fps above 0; got {fps}"):
        film(tmp_path, fps=fps)


@pytest.mark.parametrize("package", ["imageio", "imageio_ffmpeg"])
def test_missing_encoder_is_told_at_construction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=rf"RecordVideo: .*{package}.*envrax\[video\]"):
        film(tmp_path)
    assert files(tmp_path) == []


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
    assert files(tmp_path) == ["episode_0000.mp4"]


def test_encoder_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = film(tmp_path, fps=10)
    env.fps = "nonsense"
    with pytest.raises(RuntimeError, match=r"ffmpeg to complete .*episode_0000\.mp4.*nonsense"):
        play(env, 3)
    assert not env.recording


def test_encoder_starts_without_a_fork(run_python: Any) -> None:
    tests = str(Path(__file__).parent)
    said = run_python(
        f"""
        import os, subprocess, sys
        os.register_at_fork(before=lambda: print("forked"))
        sys.path.insert(0, {tests!r})
        from test_video import film, play, Path
        play(film(Path("films")), 3)
        print(os.listdir("films"))
        """
    )
    assert said.split("\n")[:-1] == ["['episode_0000.mp4']"]
