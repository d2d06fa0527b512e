"""Wrappers that change the observation."""

from typing import Any, Generic, cast

import chex
import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks import require_count
from envrax.env import ActSpaceT, AnyEnv, ConfigT, JaxEnv, StateT
from envrax.spaces import Box
from envrax.wrappers.base import ObservationWrapper, require_that
from envrax.wrappers.stateful import InnerStateT, StatefulWrapper, WrapperState


class _BoxObservation(ObservationWrapper[Box, ActSpaceT, StateT, ConfigT]):
    """The base of those that make a Box of a Box."""

    _space: Box

    @property
    def observation_space(self) -> Box:
        return self._space


class GrayscaleObservation(_BoxObservation[ActSpaceT, StateT, ConfigT]):
    """
    RGB to grey: uint8[H, W, 3] -> uint8[H, W], 0.299 R + 0.587 G + 0.114 B to the nearest integer.

    Raises
    ------
    TypeError
        If the observations are not uint8 RGB images.

    Examples
    --------
    >>> from envrax.testing import ImageEnv
    >>> GrayscaleObservation(ImageEnv()).observation_space
    Box(0, 255, (12, 10), uint8)
    """

    def __init__(self, env: JaxEnv[Any, ActSpaceT, StateT, ConfigT]) -> None:
        super().__init__(env)
        space = _image_space(type(self), env, ranks=(3,))
        require_that(space.shape[-1] == 3, type(self), "RGB images, a last axis of 3", space)
        self._space = Box(0, 255, space.shape[:2], jnp.uint8)

    def observation(self, obs: jax.Array) -> jax.Array:
        # Integers give the same result eager and compiled, at any batch width.
        red, green, blue = (jnp.asarray(obs)[..., i].astype(jnp.int32) for i in range(3))
        return ((299 * red + 587 * green + 114 * blue + 500) // 1000).astype(jnp.uint8)


class ResizeObservation(_BoxObservation[ActSpaceT, StateT, ConfigT]):
    """
    Resize images: uint8[H, W] or [H, W, C] -> uint8[h, w] or [h, w, C], bilinear, rounded.

    Shrinking is antialiased: a new pixel averages over all the old ones that it covers.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    h, w : int, default 84
        New height and width, in pixels.

    Raises
    ------
    TypeError
        If the observations are not uint8 images, or `h` or `w` is not an int.
    ValueError
        If `h` or `w` is below 1.

    Examples
    --------
    >>> from envrax.testing import ImageEnv
    >>> ResizeObservation(ImageEnv(), h=6, w=5).observation_space
    Box(0, 255, (6, 5, 3), uint8)
    """

    def __init__(
        self, env: JaxEnv[Any, ActSpaceT, StateT, ConfigT], h: int = 84, w: int = 84
    ) -> None:
        super().__init__(env)
        space = _image_space(type(self), env, ranks=(2, 3))
        self.h = require_count("ResizeObservation: expected h", h)
        self.w = require_count("ResizeObservation: expected w", w)
        self._space = Box(0, 255, (self.h, self.w, *space.shape[2:]), jnp.uint8)

    def observation(self, obs: jax.Array) -> jax.Array:
        pixels = jnp.asarray(obs).astype(jnp.float32)
        resized = cast(jax.Array, jax.image.resize(pixels, self._space.shape, "bilinear"))
        return jnp.round(resized).astype(jnp.uint8)


class NormalizeObservation(_BoxObservation[ActSpaceT, StateT, ConfigT]):
    """
    Scale to 0..1: uint8[...] -> float32[...] / 255; any other bounded Box by its bounds.

    `low` becomes 0 and `high` becomes 1. Where they are equal the result is 0.

    Raises
    ------
    TypeError
        If the observation space is not a bounded Box.

    Examples
    --------
    >>> from envrax.testing import ImageEnv
    >>> NormalizeObservation(ImageEnv()).observation_space
    Box(0.0, 1.0, (12, 10, 3), float32)
    """

    def __init__(self, env: JaxEnv[Any, ActSpaceT, StateT, ConfigT]) -> None:
        super().__init__(env)
        space = _box(type(self), env)
        low, high = space.low, space.high
        with np.errstate(over="ignore", divide="ignore"):
            # Rounded as the observations will be, so that none lies outside.
            low, high = np.asarray(low, np.float32), np.asarray(high, np.float32)
            bounded = bool(np.isfinite(low).all() and np.isfinite(high).all())
            require_that(bounded, type(self), "a bounded Box", space)
            # Eighths, because float32 may hold neither `high - low` nor its inverse.
            self._low, self._high = low / 8, high
            scale = 1 / (high / 8 - self._low)
        self._scale = np.where(np.isfinite(scale), scale, np.float32(0))
        self._top = (high > low).astype(np.float32)
        self._bytes = space.dtype == jnp.uint8
        self._space = Box(0.0, 1.0, space.shape, jnp.float32)

    def observation(self, obs: jax.Array) -> jax.Array:
        # XLA turns some divisions into products, and x * (1 / 255) is not x / 255 in the last bit.
        # Without a division the result is the same eager and compiled.
        x = jnp.asarray(obs).astype(jnp.float32)
        if self._bytes:
            # x / 255 is x / 256 * (1 + 1 / 255), and this sum rounds to it for every byte.
            x = x * np.float32(1 / 256)
            return x + x * np.float32(1 / 255)
        scaled = (x / 8 - self._low) * self._scale
        return jnp.where(x >= self._high, self._top, scaled)


@chex.dataclass
class FrameStackState(WrapperState[InnerStateT]):
    """
    State of `FrameStackObservation`.

    Attributes
    ----------
    obs_stack : jax.Array
        The last `n_stack` observations along a new last axis, the oldest at index 0.
    """

    obs_stack: jax.Array


class FrameStackObservation(
    StatefulWrapper[Box, ActSpaceT, FrameStackState[InnerStateT], ConfigT, InnerStateT],
    Generic[ActSpaceT, InnerStateT, ConfigT],
):
    """
    Stack the last observations along a new last axis: uint8[H, W] -> uint8[H, W, n_stack].

    The oldest is at index 0. A reset fills the stack with the first observation. Observations of
    any other Box gain a last axis too.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    n_stack : int, default 4
        Number of observations in the stack.

    Raises
    ------
    TypeError
        If the observation space is not a Box, or `n_stack` is not an int.
    ValueError
        If `n_stack` is below 1.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> env = FrameStackObservation(CountingEnv(), n_stack=3)
    >>> obs, state = env.reset(jax.random.key(0))
    >>> obs, state, *_ = env.step(state, 0)
    >>> obs[1].tolist()
    [0, 0, 1]
    """

    def __init__(self, env: JaxEnv[Any, ActSpaceT, InnerStateT, ConfigT], n_stack: int = 4) -> None:
        super().__init__(env)
        space = _box(type(self), env)
        self.n_stack = require_count("FrameStackObservation: expected n_stack", n_stack)
        shape = (*space.shape, self.n_stack)
        self._space = Box(_add_axis(space.low), _add_axis(space.high), shape, space.dtype)

    @property
    def observation_space(self) -> Box:
        return self._space

    def on_reset(self, obs: jax.Array) -> tuple[jax.Array, dict[str, Any]]:
        stack = jnp.repeat(jnp.asarray(obs)[..., None], self.n_stack, axis=-1)
        return stack, {"obs_stack": stack}

    def on_step(
        self, obs: jax.Array, state: FrameStackState[InnerStateT], *rest: Any
    ) -> tuple[Any, ...]:
        newest = jnp.asarray(obs)[..., None]
        # A pad by -1 at the front is a shift. Along a short last axis XLA runs it eight times as
        # fast as a concatenation, which it copies element by element.
        by_one = [(0, 0, 0)] * (newest.ndim - 1) + [(-1, 1, 0)]
        shifted = jax.lax.pad(state.obs_stack, jnp.zeros((), newest.dtype), by_one)
        stack = jnp.where(jnp.arange(self.n_stack) == self.n_stack - 1, newest, shifted)
        return stack, state.replace(obs_stack=stack), *rest


def _add_axis(bound: Any) -> Any:
    return bound if np.isscalar(bound) else bound[..., None]


def _box(wrapper: type, env: AnyEnv) -> Box:
    space = env.observation_space
    require_that(isinstance(space, Box), wrapper, "observations in a Box", space)
    return space


def _image_space(wrapper: type, env: AnyEnv, ranks: tuple[int, ...]) -> Box:
    space = _box(wrapper, env)
    require_that(space.dtype == jnp.uint8, wrapper, "uint8 images", space)
    require_that(
        len(space.shape) in ranks,
        wrapper,
        f"images with {' or '.join(map(str, ranks))} axes, (H, W{', C' if 3 in ranks else ''})",
        space,
    )
    return space
