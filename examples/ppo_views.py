"""Wrappers with which single environments show `ppo.py` more of what is there, by their ids."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import envrax
from envrax import Box

RADIUS = 6  # of the part of a maze that is seen, in cells


class AroundAgent(envrax.ObservationWrapper[Box, Any, Any, Any]):
    """
    A maze as its agent sees it: walls, the goal and its own trail around it, and where it stands.

    Takes stacked frames of `classic/Maze-v0`, in which a colour tells what is in a cell. A network
    of this size does not find the agent in the whole picture, nor where it came from in one frame.
    """

    @property
    def observation_space(self) -> Box:
        side = 2 * RADIUS + 1
        return Box(0.0, 1.0, (3 * side * side + 2,))

    def observation(self, obs: jax.Array) -> jax.Array:
        from envrax_classic.maze import CORAL, INK, TEAL  # the agent, the walls, the goal

        def painted(colour: Any) -> jax.Array:
            same = obs == np.array(colour, np.uint8)[:, None]
            return jnp.all(same, axis=2).astype(jnp.float32)

        n_frames, side = obs.shape[-1], 2 * RADIUS + 1
        newest = np.arange(1, n_frames + 1, dtype=np.float32) / n_frames
        trail = jnp.max(painted(CORAL) * newest, axis=-1)
        row, column = jnp.unravel_index(jnp.argmax(trail), trail.shape)
        planes = [
            jnp.pad(painted(INK)[..., -1], RADIUS, constant_values=1.0),
            jnp.pad(painted(TEAL)[..., -1], RADIUS),
            jnp.pad(trail, RADIUS),
        ]
        window = jax.lax.dynamic_slice(jnp.stack(planes), (0, row, column), (3, side, side))
        where = jnp.stack([row, column]).astype(jnp.float32) / trail.shape[0]
        return jnp.concatenate([window.ravel(), where])


# Innermost first.
VIEWS: dict[str, list[Any]] = {
    "classic/Maze-v0": [envrax.FrameStackObservation(n_stack=4), AroundAgent],
    # Velocities of at most 0.07 beside positions of 1 are lost on the network.
    "classic/MountainCar-v0": [envrax.RescaleObservation(min_obs=-1.0, max_obs=1.0)],
    # Ten by ten cells: the convolutions, made for larger images, blur which cell it is.
    "gymnax/Breakout-MinAtar": [envrax.FlattenObservation],
}
