"""`save_video` and `tile_frames`."""

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import imageio.v3
import numpy as np
import pytest
from films import reading

from envrax import MissingPackageError, save_video, tile_frames
from envrax.video.ffmpeg import Encoder

GREYS = (np.arange(12, dtype=np.uint8) * 20)[:, None, None, None]
FRAMES = GREYS + np.zeros((1, 16, 24, 3), np.uint8)


def greys(path: Path) -> list[int]:
    with reading():
        options = {} if path.suffix.lower() == ".gif" else {"plugin": "FFMPEG"}
        seen = imageio.v3.imread(path, **options)
    assert seen.shape[1:] == FRAMES.shape[1:]
    return np.rint(seen.mean((1, 2, 3)) / 20).astype(int).tolist()


@pytest.mark.parametrize("name", ["a/b/film.mp4", "film.gif", "film.GIF"])
def test_every_frame_is_in_the_file(tmp_path: Path, name: str) -> None:
    save_video(tmp_path / name, FRAMES, fps=20)
    assert greys(tmp_path / name) == list(range(12))


def test_frames_may_come_one_by_one_and_replace_a_file(tmp_path: Path) -> None:
    path = tmp_path / "film.gif"
    path.write_bytes(b"old")

    def frames() -> Iterator[np.ndarray]:
        for frame in FRAMES[:3]:
            assert path.read_bytes() == b"old"
            yield frame

    save_video(str(path), frames(), fps=20)
    assert greys(path) == [0, 1, 2]
    assert os.listdir(tmp_path) == ["film.gif"]


def test_a_link_to_a_file_without_a_suffix(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"old")
    (tmp_path / "link.gif").symlink_to("blob")
    save_video(tmp_path / "link.gif", FRAMES, fps=20)
    assert greys(tmp_path / "link.gif") == list(range(12))
    assert sorted(os.listdir(tmp_path)) == ["blob", "link.gif"]


def test_a_link_is_followed_and_permissions_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "film.gif", tmp_path / "link.gif"
    path.write_bytes(b"old")
    path.chmod(0o600)
    link.symlink_to(path)
    save_video(link, FRAMES, fps=20)
    assert link.is_symlink() and greys(path) == list(range(12))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_only_a_regular_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pipe.gif"
    os.mkfifo(path)
    before = os.lstat(path)
    with pytest.raises(FileExistsError, match=r"save_video: expected a new path.*pipe"):
        save_video(path, FRAMES)
    assert os.lstat(path) == before


def test_frames_that_are_drawn_on_one_array(tmp_path: Path) -> None:
    canvas = np.zeros(FRAMES.shape[1:], np.uint8)

    def frames() -> Iterator[np.ndarray]:
        for frame in FRAMES:
            canvas[:] = frame
            yield canvas

    save_video(tmp_path / "film.gif", frames(), fps=20)
    assert greys(tmp_path / "film.gif") == list(range(12))
    np.testing.assert_array_equal(tile_frames(frames()), tile_frames(FRAMES))


def test_an_interrupted_film_leaves_the_file_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "film.mp4"
    path.write_bytes(b"old")

    def interrupted(encoder: Encoder) -> str | None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Encoder, "finish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_video(path, FRAMES)
    assert os.listdir(tmp_path) == ["film.mp4"] and path.read_bytes() == b"old"


def test_a_gif_lasts_as_long_as_asked(tmp_path: Path) -> None:
    save_video(tmp_path / "film.gif", FRAMES, fps=10)
    assert imageio.v3.immeta(tmp_path / "film.gif")["duration"] == 100


def test_an_error_among_the_frames_leaves_no_file(tmp_path: Path) -> None:
    def frames() -> Iterator[np.ndarray]:
        yield FRAMES[0]
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        save_video(tmp_path / "film.mp4", frames())
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "frames", "fps", "noun"),
    [
        ("film.avi", FRAMES, 30, "path"),
        ("film.gif", FRAMES, 60, "GIF"),
        ("film.mp4", FRAMES, 0, "fps"),
        ("film.mp4", [], 30, "frame"),
        ("film.mp4", FRAMES[0], 30, "shape"),
        ("film.mp4", FRAMES / 255.0, 30, "float64"),
        ("film.mp4", [FRAMES[0], FRAMES[0][1:]], 30, "every frame"),
    ],
)
def test_refusals(tmp_path: Path, name: str, frames: Any, fps: Any, noun: str) -> None:
    with pytest.raises(ValueError, match=noun):
        save_video(tmp_path / name, frames, fps)
    assert os.listdir(tmp_path) == []


def test_a_missing_encoder_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "imageio", None)
    with pytest.raises(MissingPackageError, match="imageio-ffmpeg"):
        save_video(tmp_path / "film.mp4", FRAMES)


def test_frames_side_by_side() -> None:
    images = np.arange(6, dtype=np.uint8)[:, None, None, None] + np.zeros((1, 2, 3, 3), np.uint8)
    picture = tile_frames(images, 2, 3)
    assert picture.shape == (4, 9, 3) and picture.dtype == np.uint8
    assert picture[::2, ::3, 0].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert tile_frames(images[:5] + 1, cols=3)[::2, ::3, 0].tolist() == [[1, 2, 3], [4, 5, 0]]
    assert tile_frames(list(images), rows=1).shape == (2, 18, 3)
    assert tile_frames(images).shape == (4, 9, 3)
    assert tile_frames(iter(images[:1])).shape == (2, 3, 3)
    assert tile_frames(images[:3], cols=2, gap=2)[::2, ::3, 0].tolist() == [
        [0, 128, 1],
        [128, 128, 128],
        [2, 128, 128],
    ]


def test_a_label_is_written_into_the_corner_of_its_frame() -> None:
    images = np.full((2, 40, 60, 3), 90, np.uint8)
    left, right = np.split(tile_frames(images, 1, labels=["", "slot 7"]), 2, axis=1)
    assert right[:15, :40].max() > 200 and right[:15, :40].min() < 20  # white in black
    assert (left == 90).all() and (right[20:] == 90).all() and (images == 90).all()


def test_frames_that_do_not_fit_are_refused() -> None:
    images = np.zeros((5, 2, 3, 3), np.uint8)
    for frames, shape, noun in [
        (images, {"rows": 2, "cols": 2}, "up to 4"),
        ([], {}, "none"),
        ([images[0], images[0][:1]], {}, "one shape"),
        (images, {"rows": 0}, "rows"),
        (images, {"labels": ["one"]}, "a label for each of 5"),
        (images, {"gap": -8}, "gap"),
    ]:
        with pytest.raises(ValueError, match=noun):
            tile_frames(frames, **shape)
