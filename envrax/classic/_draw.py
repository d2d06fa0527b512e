"""An anti-aliased NumPy canvas for `render`, and tile images for pixel observations."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

Colour = tuple[int, int, int]
Point = tuple[float, float]

PAPER: Colour = (248, 249, 250)
MIST: Colour = (222, 226, 230)
SLATE: Colour = (134, 142, 150)
INK: Colour = (33, 37, 41)
BLUE: Colour = (51, 102, 204)
TEAL: Colour = (32, 178, 150)
CORAL: Colour = (250, 100, 90)
AMBER: Colour = (250, 176, 5)


def tile_image(paper: Colour, *layers: tuple[jax.Array, Colour]) -> jax.Array:
    """
    Paint masks over a plain background, in JAX.

    Parameters
    ----------
    paper : Colour
        Background.
    *layers : tuple[jax.Array, Colour]
        bool masks of shape (H, W), each with its colour. Later masks cover earlier ones.

    Returns
    -------
    jax.Array
        uint8 image of shape (H, W, 3).
    """
    image = jnp.array(paper, np.uint8).reshape(1, 1, 3)
    for mask, colour in layers:
        image = jnp.where(mask[..., None], np.array(colour, np.uint8).reshape(1, 1, 3), image)
    return image


class Canvas:
    """
    An RGB image of a world in which y points up. All lengths are in units of the world.

    A shape is drawn from the signed distance to its outline, so that a pixel on an edge is covered
    in part.

    Parameters
    ----------
    width, height : int
        Size of the image in pixels: even numbers, as video encoders prefer.
    scale : float
        Pixels per unit of the world.
    centre : Point
        The point of the world in the middle of the image.
    paper : Colour
        Background.
    """

    def __init__(
        self,
        width: int,
        height: int,
        scale: float,
        centre: Point = (0.0, 0.0),
        paper: Colour = PAPER,
    ) -> None:
        self._image = np.full((height, width, 3), paper, np.float32)
        self._scale = scale
        self._x = (np.arange(width) + 0.5 - width / 2) / scale + centre[0]
        self._y = (np.arange(height) + 0.5 - height / 2) / scale + centre[1]

    def disc(self, centre: Point, radius: float, colour: Colour) -> None:
        """Fill a circle."""
        self.line(centre, centre, 2 * radius, colour)

    def line(self, start: Point, end: Point, width: float, colour: Colour) -> None:
        """Draw a segment with round ends."""
        (x0, y0), (x1, y1) = start, end
        dx, dy = x1 - x0, y1 - y0
        rows, columns, x, y = self._window((x0, x1), (y0, y1), width / 2)
        along = ((x - x0) * dx + (y - y0) * dy) / max(dx * dx + dy * dy, 1e-12)
        along = np.clip(along, 0.0, 1.0)
        distance = np.hypot(x - x0 - along * dx, y - y0 - along * dy) - width / 2
        self._cover(rows, columns, distance, colour)

    def box(self, centre: Point, size: Point, colour: Colour, corner: float = 0.0) -> None:
        """Fill an upright rectangle with corners rounded by the radius `corner`."""
        (cx, cy), (half_x, half_y) = centre, (size[0] / 2, size[1] / 2)
        rows, columns, x, y = self._window((cx - half_x, cx + half_x), (cy - half_y, cy + half_y))
        dx, dy = np.abs(x - cx) - half_x + corner, np.abs(y - cy) - half_y + corner
        outside = np.hypot(np.maximum(dx, 0.0), np.maximum(dy, 0.0))
        distance = outside + np.minimum(np.maximum(dx, dy), 0.0) - corner
        self._cover(rows, columns, distance, colour)

    def ground(self, height: Callable[[np.ndarray], np.ndarray], colour: Colour) -> None:
        """Fill the area under the curve `height(x)`."""
        curve = height(self._x)
        slope = np.gradient(curve, self._x)
        distance = (self._y[:, None] - curve) / np.hypot(1.0, slope)
        self._cover(slice(None), slice(None), distance, colour)

    def image(self) -> np.ndarray:
        """The image, uint8 of shape (H, W, 3)."""
        return np.ascontiguousarray(np.rint(self._image[::-1]).astype(np.uint8))

    def _window(
        self, xs: Point, ys: Point, reach: float = 0.0
    ) -> tuple[slice, slice, np.ndarray, np.ndarray]:
        """The pixels within `reach` of a rectangle. Drawing only these is ten times faster."""
        reach += 1.0 / self._scale
        columns = slice(*np.searchsorted(self._x, (min(xs) - reach, max(xs) + reach)))
        rows = slice(*np.searchsorted(self._y, (min(ys) - reach, max(ys) + reach)))
        return rows, columns, self._x[columns], self._y[rows, None]

    def _cover(self, rows: slice, columns: slice, distance: np.ndarray, colour: Colour) -> None:
        share = np.clip(0.5 - distance * self._scale, 0.0, 1.0)[..., None]
        window = self._image[rows, columns]
        window += share * (np.array(colour) - window)
