"""Wrappers that convert observations: to grayscale, to another size, to 0..1."""

from abc import abstractmethod
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.counts import require_count
from envrax.env import ActSpaceT, AnyEnv, ConfigT, JaxEnv, StateT
from envrax.spaces import Box
from envrax.wrappers.affine import affine
from envrax.wrappers.base import ObservationWrapper, require_that
from envrax.wrappers.dict_observation import get_entry, replace_entry, require_box


class _BoxObservation(ObservationWrapper[Box, ActSpaceT, StateT, ConfigT]):
    """Base class of wrappers that map a Box to a Box; with `key`, one entry of a Dict."""

    _space: Box

    def __init__(self, env: JaxEnv[Any, ActSpaceT, StateT, ConfigT], key: str | None) -> None:
        super().__init__(env)
        self.key = key

    @property
    def observation_space(self) -> Box:
        return replace_entry(self.env.observation_space, self.key, self._space)

    def observation(self, obs: Any) -> Any:
        return replace_entry(obs, self.key, self._convert(get_entry(obs, self.key)))

    @abstractmethod
    def _convert(self, obs: jax.Array) -> jax.Array: ...


class GrayscaleObservation(_BoxObservation[ActSpaceT, StateT, ConfigT]):
    """
    Convert RGB to grayscale: uint8[H, W, 3] -> uint8[H, W].

    The value is 0.299 R + 0.587 G + 0.114 B, rounded to the nearest integer.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    key : str, optional
        The entry of a `Dict` observation to change. All other entries are unchanged.

    Raises
    ------
    TypeError
        If the observations are not uint8 RGB images.
    ValueError
        If there is no such key.

    Examples
    --------
    >>> from envrax.testing import ImageEnv
    >>> GrayscaleObservation(ImageEnv()).observation_space
    Box(0, 255, (12, 10), uint8)
    """

    def __init__(
        self, env: JaxEnv[Any, ActSpaceT, StateT, ConfigT], *, key: str | None = None
    ) -> None:
        super().__init__(env, key)
        space = require_rgb_box(type(self), env, key)
        self._space = Box(0, 255, space.shape[:2], jnp.uint8)

    def _convert(self, obs: jax.Array) -> jax.Array:
        # Integers give the same result eager and compiled, at any batch size.
        red, green, blue = (jnp.asarray(obs)[..., i].astype(jnp.int32) for i in range(3))
        return ((299 * red + 587 * green + 114 * blue + 500) // 1000).astype(jnp.uint8)


class ResizeObservation(_BoxObservation[ActSpaceT, StateT, ConfigT]):
    """
    Resize images: uint8[H, W] or [H, W, C] -> uint8[h, w] or [h, w, C], bilinear, rounded.

    Shrinking is antialiased: a new pixel is a weighted average of the old pixels around it.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    h, w : int, default 84
        New height and width, in pixels.
    key : str, optional
        The entry of a `Dict` observation to change. All other entries are unchanged.

    Raises
    ------
    TypeError
        If the observations are not uint8 images, they seem to have their channels first (more than
        4 channels, and more than rows), or `h` or `w` is not an int.
    ValueError
        If `h` or `w` is below 1, or there is no such key.

    Examples
    --------
    >>> from envrax.testing import ImageEnv
    >>> ResizeObservation(ImageEnv(), h=6, w=5).observation_space
    Box(0, 255, (6, 5, 3), uint8)
    """

    def __init__(
        self,
        env: JaxEnv[Any, ActSpaceT, StateT, ConfigT],
        h: int = 84,
        w: int = 84,
        *,
        key: str | None = None,
    ) -> None:
        super().__init__(env, key)
        space = require_image_box(type(self), env, key, ranks=(2, 3))
        height, width, channels = (*space.shape, 1)[:3]
        is_channels_first = channels > 4 and height < min(width, channels)
        expected = (
            "images with channels last, (H, W, C), as `jnp.moveaxis(obs, 0, -1)` in "
            "`TransformObservation` gives them"
        )
        got = f"{space}, whose first axis is the smallest"
        require_that(not is_channels_first, type(self), expected, got)
        self.h = require_count("ResizeObservation: expected h", h)
        self.w = require_count("ResizeObservation: expected w", w)
        self._space = Box(0, 255, (self.h, self.w, *space.shape[2:]), jnp.uint8)

    def _convert(self, obs: jax.Array) -> jax.Array:
        pixels = jnp.asarray(obs).astype(jnp.float32)
        resized = cast(jax.Array, jax.image.resize(pixels, self._space.shape, "bilinear"))
        return jnp.round(resized).astype(jnp.uint8)


class NormalizeObservation(_BoxObservation[ActSpaceT, StateT, ConfigT]):
    """
    Scale observations in a bounded Box to float32 in 0..1.

    uint8 observations are divided by 255, whatever their bounds. In any other Box, `low` becomes 0
    and `high` becomes 1; where they are equal, the result is 0.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    key : str, optional
        The entry of a `Dict` observation to change. All other entries are unchanged.

    Raises
    ------
    TypeError
        If the observation space is not a bounded Box.
    ValueError
        If there is no such key.

    Examples
    --------
    >>> from envrax.testing import ImageEnv
    >>> NormalizeObservation(ImageEnv()).observation_space
    Box(0.0, 1.0, (12, 10, 3), float32)
    """

    def __init__(
        self, env: JaxEnv[Any, ActSpaceT, StateT, ConfigT], *, key: str | None = None
    ) -> None:
        super().__init__(env, key)
        space = require_box(type(self), env, key)
        bounds = [np.asarray(bound, np.float64) for bound in (space.low, space.high)]
        bounded = all(np.isfinite(bound).all() for bound in bounds)
        expected = (
            "a bounded Box (for others, `envrax.wrappers.vector.NormalizeObservation` goes around "
            "the batch, with running statistics)"
        )
        require_that(bounded, type(self), expected, space)
        self._space = Box(0.0, 1.0, space.shape, jnp.float32)
        self._is_uint8 = space.dtype == jnp.uint8
        affine(type(self), space, self._space)  # raises here, not in the first step

    def _convert(self, obs: jax.Array) -> jax.Array:
        if not self._is_uint8:
            space = require_box(type(self), self.env, self.key)
            return affine(type(self), space, self._space)(obs)
        # XLA turns some divisions into products, and x * (1 / 255) differs from x / 255 in the last
        # bit. x / 255 equals x / 256 * (1 + 1 / 255). The sum below rounds to x / 255 for every
        # uint8.
        x = jnp.asarray(obs).astype(jnp.float32) * np.float32(1 / 256)
        return x + x * np.float32(1 / 255)


def require_image_box(wrapper: type, env: AnyEnv, key: str | None, ranks: tuple[int, ...]) -> Box:
    """The space of the entry `key`. Raise a TypeError unless it is a Box of uint8 images."""
    space = require_box(wrapper, env, key)
    require_that(space.dtype == jnp.uint8, wrapper, "uint8 images", space)
    axes = "(H, W, C)" if 3 in ranks else "(H, W)"
    expected = f"images with {' or '.join(map(str, ranks))} axes, {axes}"
    require_that(len(space.shape) in ranks, wrapper, expected, space)
    return space


def require_rgb_box(wrapper: type, env: AnyEnv, key: str | None) -> Box:
    """The space of the entry `key`. Raise a TypeError unless it is a Box of uint8 RGB images."""
    space = require_image_box(wrapper, env, key, ranks=(3,))
    require_that(space.shape[-1] == 3, wrapper, "RGB images, a last axis of 3", space)
    return space
