"""The wrappers that `ppo.py` needs around an environment: floats to see, and actions to choose."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import envrax
from envrax import Box, Dict, Discrete, MultiDiscrete, Space, Tuple

ONE_HOT = 32  # a count of more values is scaled
SMALLEST_IMAGE = 8  # in pixels of a side: what is smaller is part of the vector
WIDEST = 2**15  # integers of wider bounds are not scaled: the bounds say nothing about them


class Features(envrax.ObservationWrapper[Any, Any, Any, Any]):
    """
    See any observation as float32: an image, a vector, or a tuple of images and one vector.

    Images are leaves of rank 3, at least 8 x 8; all other leaves are flattened into the vector.
    Integers are scaled from their bounds to 0..1; a `Discrete` or `MultiDiscrete` of up to 32
    values becomes one-hot.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        space = env.observation_space
        seen = jax.eval_shape(lambda: self.observation(space.sample(jax.random.key(0))))
        boxes = [Box(-np.inf, np.inf, x.shape) for x in jax.tree.leaves(seen)]
        self._space = Tuple(boxes) if isinstance(seen, tuple) else boxes[0]

    @property
    def observation_space(self) -> Space:
        return self._space

    def observation(self, obs: Any) -> Any:
        return features(self.env.observation_space, obs)


def features(space: Space, obs: Any) -> Any:
    """One observation as `Features` shows it."""
    leaves = list(floats(space, obs))
    images = [x for x in leaves if is_image(x)]
    others = [x.ravel() for x in leaves if not is_image(x)]
    seen = [*images, *([jnp.concatenate(others)] if others else [])]
    return tuple(seen) if len(seen) > 1 else seen[0]


def is_image(x: Any) -> bool:
    return x.ndim == 3 and min(x.shape[:2]) >= SMALLEST_IMAGE


def floats(space: Space, obs: Any) -> Iterator[jax.Array]:
    """The leaves of an observation as float32, in the order of `jax.tree.leaves`."""
    if isinstance(space, Dict):
        for name in sorted(space.spaces):
            yield from floats(space.spaces[name], obs[name])
    elif isinstance(space, Tuple):
        for child, x in zip(space.spaces, obs, strict=True):
            yield from floats(child, x)
    elif isinstance(space, Discrete | MultiDiscrete):
        n = np.asarray(space.n if isinstance(space, Discrete) else space.nvec)
        if n.max() <= ONE_HOT:
            yield jax.nn.one_hot(obs, int(n.max()), dtype=jnp.float32)
        else:
            yield scaled(obs, np.zeros_like(n), n - 1)
    elif isinstance(space, Box) and jnp.issubdtype(space.dtype, jnp.integer):
        yield scaled(obs, space.low, space.high)
    else:
        yield jnp.asarray(obs).astype(jnp.float32)


def scaled(x: jax.Array, low: Any, high: Any) -> jax.Array:
    """Integers from their bounds to 0..1; as they are where the bounds are too wide."""
    x, low = jnp.asarray(x).astype(jnp.float32), np.asarray(low, np.float64)
    width = np.asarray(high, np.float64) - low
    if np.all(width == 255) and not low.any():  # bytes: to the bit as in `NormalizeObservation`
        x = x * np.float32(1 / 256)
        return x + x * np.float32(1 / 255)
    known = width < WIDEST
    start, width = np.where(known, low, 0), np.where(known, np.maximum(width, 1), 1)
    return (x - start.astype(np.float32)) * (1 / width).astype(np.float32)


class VectorAction(envrax.ActionWrapper[Any, Box, Any, Any]):
    """
    Take any real vector as action, and clip it to the bounds of the wrapped Box.

    Where both bounds are finite, the action is rescaled from -1..1 to the bounds.
    """

    @property
    def action_space(self) -> Box:
        return vectors(self.env.action_space)

    def action(self, action: jax.Array) -> jax.Array:
        return rescaled(self.env.action_space, action)


def vectors(space: Box) -> Box:
    """What `rescaled` takes to the Box."""
    return Box(-np.inf, np.inf, (space.size,))


def rescaled(space: Box, action: jax.Array) -> jax.Array:
    """A real vector as an element of the Box."""
    low, high = (np.broadcast_to(bound, space.shape) for bound in (space.low, space.high))
    bounded = np.isfinite(low) & np.isfinite(high)
    left = np.where(bounded, low, -1).astype(np.float32)
    right = np.where(bounded, high, 1).astype(np.float32)
    wanted = left / 2 + right / 2 + (right / 2 - left / 2) * action.reshape(space.shape)
    return jnp.clip(wanted.astype(space.dtype), low, high)


def choosable(env: Any) -> Any:
    """The environment, in a `VectorAction` where its actions are real."""
    require_policy(env.action_space, env.name)
    return VectorAction(env) if isinstance(env.action_space, Box) else env


def require_policy(space: Space, name: str) -> None:
    """Raise a TypeError if there is no policy for such actions."""
    if not isinstance(space, Discrete | MultiDiscrete | Box):
        raise TypeError(
            f"ppo: expected actions in a Discrete, a MultiDiscrete or a Box; got {space} from "
            f"{name}. Wrap it, and register the wrapped class."
        )
