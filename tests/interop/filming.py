# pyright: basic, reportMissingImports=false
"""An episode that `RecordVideo` keeps, beside what the environment draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import imageio.v3
import jax
import numpy as np

from envrax.wrappers import RecordVideo


def shows_its_episode(env: Any, folder: Path, num_steps: int = 2) -> np.ndarray:
    """
    Record a few steps, and compare each frame of the file with `render`.

    Returns the last image. MP4 keeps colours roughly, and pads images of an odd size.
    """
    drawn = []
    with RecordVideo(env, output_dir=folder) as film:
        _, state = film.reset(jax.random.key(0))
        drawn.append(env.render(state))
        for key in jax.random.split(jax.random.key(1), num_steps):
            action = env.action_space.sample(key, env.action_mask(state))
            _, state, *_ = film.step(state, action)
            drawn.append(env.render(state))
    (file,) = folder.iterdir()
    frames = imageio.v3.imread(file, plugin="FFMPEG")
    assert len(frames) == len(drawn)
    for frame, image in zip(frames, drawn, strict=True):
        assert image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3
        height, width, _ = image.shape
        assert np.abs(frame[:height, :width].astype(float) - image).mean() < 12
    assert len(np.unique(drawn[-1].reshape(-1, 3), axis=0)) > 2  # a picture, and not a blank
    return drawn[-1]
