"""`RecordVideo`: which episodes are recorded, under which names, in a stack; what it refuses."""

import copy
import gc
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import VectorConfig, VectorEnv, VectorState
from films import Canvas, FakeEncoder, FilmEnv, file_names, film, play, steps_seen

from envrax import (
    ClipReward,
    FrameStackObservation,
    GrayscaleObservation,
    JitWrapper,
    MissingPackageError,
    RecordEpisodeStatistics,
    RecordVideo,
    VecEnv,
    make,
    make_vec,
    register,
    unregister,
)


@pytest.fixture(autouse=True)
def no_ffmpeg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envrax.video.encoder.Encoder", FakeEncoder)


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


def never(_: int) -> bool:
    return False


@pytest.mark.parametrize(
    ("triggers", "expected"),
    [
        ({}, [0, 1, 2, 3]),
        ({"episode_trigger": lambda episode: episode % 2 == 1}, [1, 3]),
        ({"episode_trigger": never}, []),
        ({"step_trigger": lambda step: step in (1, 10)}, [0, 3]),
        ({"step_trigger": lambda step: step in (0, 13)}, []),
        ({"step_trigger": lambda step: step == 6}, [1]),
        ({"episode_trigger": lambda i: i == 0, "step_trigger": lambda step: step == 7}, [0, 2]),
        ({"episode_trigger": lambda i: i == 1, "recording_trigger": lambda: False}, [1]),
        ({"episode_trigger": never, "recording_trigger": lambda: True}, [0, 1, 2, 3]),
    ],
)
def test_triggers_are_ored(tmp_path: Path, triggers: Any, expected: list[int]) -> None:
    play(film(tmp_path, **triggers), 3, 3, 3, 3)
    assert file_names(tmp_path) == [f"episode_{number:04d}.mp4" for number in expected]


def test_step_trigger_begins_within_an_episode(tmp_path: Path) -> None:
    asked: list[int] = []
    env = film(tmp_path, step_trigger=lambda step: asked.append(step) or step in (2, 6))
    obs, state = env.reset(jax.random.key(0))
    recording = [env.recording]
    for _ in range(3):
        obs, state, *_ = env.step(state, jnp.int32(1))
        recording.append(env.recording)
    assert recording == [False, False, True, False]
    play(env, 3, 1)
    assert asked == [1, 2, 3, 4, 5, 6, 7]  # since construction
    seen = [steps_seen(tmp_path / name) for name in file_names(tmp_path)]
    assert seen == [[2, 3], [3]]  # the second one has only the last state


def test_recording_trigger_is_asked_at_reset_and_at_every_step(tmp_path: Path) -> None:
    answers = iter([False, False, True, False])
    play(film(tmp_path, recording_trigger=lambda: next(answers)), 3)
    assert next(answers, None) is None
    assert steps_seen(tmp_path / "episode_0000.mp4") == [2, 3]


def test_nothing_is_recorded_after_the_end(tmp_path: Path) -> None:
    env = film(tmp_path, recording_trigger=lambda: True)
    obs, state = env.reset(jax.random.key(0))
    for _ in range(6):  # over the limit of three
        obs, state, *_ = env.step(state, jnp.int32(1))
    assert file_names(tmp_path) == ["episode_0000.mp4"]
    assert steps_seen(tmp_path / "episode_0000.mp4") == [0, 1, 2, 3]


def test_env_that_forgets_its_done_ends_its_film(tmp_path: Path) -> None:
    class Forgetful(FilmEnv):
        def step(self, state: VectorState, action: Any) -> tuple[Any, ...]:
            obs, state, reward, done, info = super().step(state, action)
            return obs, state.replace(done=jnp.bool_(False)), reward, done, info

    play(RecordVideo(Forgetful(VectorConfig(max_steps=2)), tmp_path), 2)
    assert file_names(tmp_path) == ["episode_0000.mp4"]


# Files


def test_file_has_its_name_only_when_it_is_complete(tmp_path: Path) -> None:
    env = film(tmp_path)
    assert not env.recording
    obs, state = env.reset(jax.random.key(0))
    assert env.recording and file_names(tmp_path) == []
    for _ in range(2):
        obs, state, *_ = env.step(state, jnp.int32(1))
        assert env.recording and file_names(tmp_path) == ["episode_0000.mp4.part"]
    env.step(state, jnp.int32(1))
    assert not env.recording
    assert file_names(tmp_path) == ["episode_0000.mp4"]


def test_each_frame_goes_to_the_encoder_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a long episode takes no more memory than a short one."""
    sizes: list[int] = []

    class Watched(FakeEncoder):
        def write(self, frame: np.ndarray) -> None:
            super().write(frame)
            sizes.append(len(self.written) // frame.size)

    monkeypatch.setattr("envrax.video.encoder.Encoder", Watched)
    with film(tmp_path, steps=9) as env:
        _, state = env.reset(jax.random.key(0))
        for step in range(1, 6):
            _, state, *_ = env.step(state, jnp.int32(1))
            assert sizes == list(range(1, step + 2))


def test_reset_keeps_the_episode_that_it_cuts_short(tmp_path: Path) -> None:
    play(film(tmp_path), 2, 0, 0, 3)  # no films of the resets alone
    assert seen_in(tmp_path) == [[0, 1, 2], [0, 1, 2, 3]]


def test_close_keeps_the_episode_that_it_cuts_short(tmp_path: Path) -> None:
    env = film(tmp_path)
    env.close()  # nothing to close
    play(env, 1)
    env.close()
    env.close()
    assert not env.recording
    assert steps_seen(tmp_path / "episode_0000.mp4") == [0, 1]
    play(env, 3)
    assert file_names(tmp_path) == ["episode_0000.mp4", "episode_0001.mp4"]


def test_with_closes_also_beneath_others_and_after_an_error(tmp_path: Path) -> None:
    with ClipReward(film(tmp_path)) as env:
        play(env, 1)
    with pytest.raises(KeyError), film(tmp_path) as env:
        play(env, 2)
        raise KeyError
    play(film(tmp_path), 1)  # forgotten: the garbage collector completes it
    gc.collect()
    assert seen_in(tmp_path) == [[0, 1], [0, 1, 2], [0, 1]]


def test_numbers_go_on_after_those_of_earlier_runs(tmp_path: Path) -> None:
    play(film(tmp_path), 1, 3)
    (tmp_path / "episode_0007.mp4").write_bytes(b"kept")
    (tmp_path / "notes.txt").touch()
    before = {name: (tmp_path / name).read_bytes() for name in file_names(tmp_path)}
    play(film(tmp_path), 3, 3)
    assert set(file_names(tmp_path)) - set(before) == {"episode_0008.mp4", "episode_0009.mp4"}
    assert {name: (tmp_path / name).read_bytes() for name in before} == before


@pytest.mark.parametrize("existing", ["episode_0000.mp4", "episode_0000.mp4.part"])
def test_a_number_that_another_recorder_takes_meanwhile_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, existing: str
) -> None:
    def outdated(folder: Path, _: str) -> int:
        (folder / existing).write_bytes(b"theirs")
        return 0

    monkeypatch.setattr("envrax.video.encoder.free_number", outdated)
    play(film(tmp_path), 3)
    assert file_names(tmp_path) == [existing, "episode_0001.mp4"]
    assert (tmp_path / existing).read_bytes() == b"theirs"


def test_a_tilde_is_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    play(film("~/films"), 3)  # pyright: ignore[reportArgumentType]
    assert file_names(tmp_path / "films") == ["episode_0000.mp4"]


def test_copy_does_not_write_into_the_same_file(tmp_path: Path) -> None:
    env = film(tmp_path)
    obs, state = env.reset(jax.random.key(0))
    obs, state, *_ = env.step(state, jnp.int32(1))
    twin = copy.deepcopy(env)
    assert env.recording and not twin.recording
    twin.step(state, jnp.int32(1))
    twin.close()
    play(twin, 3)
    for _ in range(2):
        obs, state, *_ = env.step(state, jnp.int32(1))
    assert seen_in(tmp_path) == [[0, 1, 2, 3], [1, 2], [0, 1, 2, 3]]


def seen_in(folder: Path) -> list[list[int]]:
    return [steps_seen(folder / name) for name in file_names(folder)]


# One run a film


def test_runs_in_turn_share_no_film(tmp_path: Path) -> None:
    env = film(tmp_path, steps=9)
    state = env.reset(jax.random.key(0))[1]
    for _ in range(3):
        state = env.step(state, jnp.int32(1))[1]
    play(env, 2)  # an evaluation in between, with the same key
    for _ in range(2):
        state = env.step(state, jnp.int32(1))[1]
    other = env.env.reset(jax.random.key(1))[1]  # of the environment itself
    other = env.step(other, jnp.int32(1))[1]
    with env:
        env.step(state, jnp.int32(1))
    assert seen_in(tmp_path) == [[0, 1, 2, 3], [0, 1, 2], [3, 4, 5], [0, 1], [5, 6]]


def test_a_copy_of_the_last_state_goes_on_with_the_film(tmp_path: Path) -> None:
    env = film(tmp_path)
    state = env.reset(jax.random.key(0))[1]
    for _ in range(3):
        state = env.step(copy.deepcopy(state), jnp.int32(1))[1]
    assert seen_in(tmp_path) == [[0, 1, 2, 3]]


def test_a_run_that_was_not_chosen_is_not_recorded(tmp_path: Path) -> None:
    env = film(tmp_path, episode_trigger=lambda episode: episode == 1)
    first = env.reset(jax.random.key(0))[1]
    chosen = env.reset(jax.random.key(1))[1]
    env.step(chosen, jnp.int32(1))
    env.step(first, jnp.int32(1))
    assert not env.recording
    assert seen_in(tmp_path) == [[0, 1]]


def test_one_canvas_for_all_frames(tmp_path: Path) -> None:
    play(RecordVideo(Canvas(VectorConfig(max_steps=3)), tmp_path), 3)
    assert seen_in(tmp_path) == [[0, 1, 2, 3]]


def test_an_interrupted_close_is_completed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = [KeyboardInterrupt]

    class Slow(FakeEncoder):
        def finish(self) -> str | None:
            if once:
                raise once.pop()
            return super().finish()

    monkeypatch.setattr("envrax.video.encoder.Encoder", Slow)
    env = film(tmp_path)
    play(env, 2)
    with pytest.raises(KeyboardInterrupt):
        env.close()
    assert file_names(tmp_path) == ["episode_0000.mp4.part"]
    env.close()
    assert file_names(tmp_path) == ["episode_0000.mp4"]
    assert seen_in(tmp_path) == [[0, 1, 2]]


def test_an_encoder_that_cannot_start_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*arguments: Any) -> FakeEncoder:
        raise OSError("too many processes")

    monkeypatch.setattr("envrax.video.encoder.Encoder", start)
    with pytest.raises(OSError, match="too many"):
        play(film(tmp_path), 1)
    assert file_names(tmp_path) == []


def test_what_is_beneath_is_closed_whatever_the_film(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(FakeEncoder):
        def finish(self) -> str | None:
            return "exit code 1, no space left"

    closed: list[int] = []
    monkeypatch.setattr("envrax.video.encoder.Encoder", Failing)
    env = film(tmp_path)
    monkeypatch.setattr(env.env, "close", lambda: closed.append(1))
    play(env, 2)
    with pytest.raises(RuntimeError, match="no space left"):
        env.close()
    assert closed == [1] and file_names(tmp_path) == []


# In a stack


def test_records_above_and_beneath_other_wrappers(tmp_path: Path) -> None:
    inner = RecordEpisodeStatistics(FilmEnv(VectorConfig(max_steps=2)))
    inner = RecordVideo(inner, tmp_path / "in")
    env = FrameStackObservation(GrayscaleObservation(ClipReward(inner)), n_stack=2)
    assert not env.traceable
    top = RecordVideo(env, tmp_path / "out")
    play(top, 2)
    for folder in ("in", "out"):
        assert steps_seen(tmp_path / folder / "episode_0000.mp4") == [0, 1, 2]


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


def test_make_compiles_beneath_a_video(tmp_path: Path) -> None:
    register("Film-v0", FilmEnv, VectorConfig(max_steps=2))
    try:
        env: Any = make(
            "Film-v0",
            wrappers=[ClipReward, RecordVideo(output_dir=tmp_path, fps=10), GrayscaleObservation],
        )
        with pytest.raises(RuntimeError, match="RecordVideo"):
            make_vec("Film-v0", 2, wrappers=[RecordVideo(output_dir=tmp_path)])
    finally:
        unregister("Film-v0")
    layers = [type(layer) for layer in (env, env.env, env.env.env)]
    assert layers == [GrayscaleObservation, RecordVideo, JitWrapper]
    play(env, 2)
    assert file_names(tmp_path) == ["episode_0000.mp4"]


# Refusals


def test_transforms_are_refused(tmp_path: Path) -> None:
    env = film(tmp_path)
    _, state = env.reset(jax.random.key(0))
    for attempt in (
        lambda: jax.jit(lambda: env.reset(jax.random.key(0))[0])(),
        lambda: jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 2)),
        lambda: jax.jit(lambda: env.step(state, jnp.int32(0))[0])(),
        lambda: jax.lax.scan(lambda s, a: (env.step(s, a)[1], None), state, jnp.zeros(2, int)),
        lambda: VecEnv(ClipReward(env), 2),
        lambda: JitWrapper(env, pre_warm=False),
    ):
        with pytest.raises(RuntimeError, match="incompatible"):
            attempt()
    env.close()


def test_what_cannot_be_filmed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="VectorEnv"):
        RecordVideo(RecordEpisodeStatistics(ClipReward(VectorEnv())), tmp_path)
    for fps in (float("nan"), np.float32(np.inf)):
        with pytest.raises(ValueError, match="fps"):
            film(tmp_path, fps=fps)
    with pytest.raises(TypeError, match="fps"):
        film(tmp_path, fps="30")
    assert film(tmp_path, fps=np.float32(12.5)).fps == 12.5


def test_a_missing_encoder_is_told_at_construction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(MissingPackageError, match="imageio-ffmpeg"):
        film(tmp_path)

    def no_ffmpeg() -> str:
        raise RuntimeError("No ffmpeg exe could be found.")

    no_program = SimpleNamespace(get_ffmpeg_exe=no_ffmpeg)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", no_program)  # pyright: ignore
    with pytest.raises(MissingPackageError, match="No ffmpeg exe"):
        film(tmp_path)


@pytest.mark.parametrize(
    ("frame", "noun"),
    [
        (lambda step: np.zeros((4, 4, 3), np.float32), "float32"),
        (lambda step: np.zeros((4, 4), np.uint8), r"\(4, 4\)"),
        (lambda step: np.zeros((4, 4, 4), np.uint8), r"\(4, 4, 4\)"),
        (lambda step: np.zeros((4 + 2 * step, 4, 3), np.uint8), r"\(6, 4, 3\)"),
    ],
)
def test_frames_that_are_no_images_are_refused(tmp_path: Path, frame: Any, noun: str) -> None:
    class Odd(FilmEnv):
        def render(self, state: VectorState) -> np.ndarray:
            return frame(int(state.step))

    with RecordVideo(Odd(), tmp_path) as env, pytest.raises(ValueError, match=noun):
        play(env, 1)
