"""Wrappers that change the shape, the dtype or the scale of the observation."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from envrax.env import ActSpaceT, ConfigT, JaxEnv, StateT
from envrax.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space, kind
from envrax.spaces.array import as_shape
from envrax.spaces.base import canonical
from envrax.spaces.flattening import flat_box, flatten, reshaped
from envrax.wrappers.affine import affine, target_box
from envrax.wrappers.base import ObservationWrapper, require_that
from envrax.wrappers.dict_observation import require_box


class FlattenObservation(ObservationWrapper[Box, ActSpaceT, StateT, ConfigT]):
    """
    Flatten observations of any space to one vector.

    All elements are concatenated. A `Discrete` becomes a one-hot vector, and so does each entry of
    a `MultiDiscrete`. The entries of a `Dict` are in the order of its sorted keys.

    The dtype is that of the space. If the space has several dtypes and one of them is a float, the
    result is float32, or float64 if one of them is float64. Integers above 2**24 are rounded in
    float32. Gymnasium instead converts an int32 and a float32 to float64.

    Raises
    ------
    TypeError
        If a space is not from `envrax.spaces`, or no integer dtype can hold all values.

    Examples
    --------
    >>> from envrax.testing import NestedEnv
    >>> FlattenObservation(NestedEnv()).observation_space.shape
    (106,)
    """

    def __init__(self, env: JaxEnv[Any, ActSpaceT, StateT, ConfigT]) -> None:
        super().__init__(env)
        try:
            self._space = flat_box(env.observation_space)
        except (TypeError, ValueError) as error:
            raise type(error)(f"FlattenObservation: {error}") from error

    def observation(self, obs: Any) -> jax.Array:
        return flatten(self.env.observation_space, obs)


class ReshapeObservation(ObservationWrapper[Box, ActSpaceT, StateT, ConfigT]):
    """
    Give the observation another shape with the same number of elements.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    shape : int or tuple of int
        The new shape. An int stands for one dimension.

    Raises
    ------
    TypeError
        If the observations are not in a Box, or `shape` has entries that are not ints.
    ValueError
        If the number of elements differs.

    Examples
    --------
    >>> from envrax.testing import ImageEnv
    >>> ReshapeObservation(ImageEnv(), shape=(6, 60)).observation_space
    Box(0, 255, (6, 60), uint8)
    """

    def __init__(
        self, env: JaxEnv[Any, ActSpaceT, StateT, ConfigT], shape: int | tuple[int, ...]
    ) -> None:
        super().__init__(env)
        space = require_box(type(self), env)
        self.shape = as_shape(shape, "ReshapeObservation")
        if np.prod(self.shape, dtype=int) != space.size:
            raise ValueError(
                f"ReshapeObservation: expected a shape with {space.size} elements for {space}; got "
                f"{self.shape}."
            )
        self._space = reshaped(space, self.shape)

    def observation(self, obs: Any) -> jax.Array:
        return jnp.reshape(jnp.asarray(obs), self.shape)


class DtypeObservation(ObservationWrapper[Any, ActSpaceT, StateT, ConfigT]):
    """
    Give the observation another dtype.

    The space becomes a Box with the same bounds. A `MultiDiscrete` stays one if `dtype` is an
    integer dtype.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    dtype : DTypeLike
        The new dtype. Floats are converted to integers by rounding towards zero.

    Raises
    ------
    TypeError
        If the observations are not in a Box, Discrete, MultiDiscrete or MultiBinary, or `dtype` is
        not a float or integer dtype or bool.
    ValueError
        If `dtype` cannot hold the bounds. Infinite bounds need a float dtype.

    Examples
    --------
    >>> from envrax.testing import ImageEnv
    >>> DtypeObservation(ImageEnv(), dtype="float32").observation_space
    Box(0, 255, (12, 10, 3), float32)
    """

    def __init__(self, env: JaxEnv[Any, ActSpaceT, StateT, ConfigT], dtype: DTypeLike) -> None:
        super().__init__(env)
        space: Any = env.observation_space
        fits = isinstance(space, Box | Discrete | MultiDiscrete | MultiBinary)
        expected = "observations in a Box, Discrete, MultiDiscrete or MultiBinary"
        require_that(fits, type(self), expected, space)
        self.dtype = dtype
        bounds = [space.low, space.high] if isinstance(space, Box) else []
        bounded = all(np.isfinite(bound).all() for bound in bounds)
        if not bounded and kind(dtype) != "float":
            raise ValueError(
                f"DtypeObservation: expected a float dtype for {space}; got {dtype!r}, which "
                "cannot hold infinite bounds."
            )
        try:
            self._space = _with_dtype(space, dtype)
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"DtypeObservation: expected a dtype that holds all values of {space}; got "
                f"{dtype!r}: {error}"
            ) from error

    def observation(self, obs: Any) -> jax.Array:
        return jnp.asarray(obs).astype(canonical(self._space.dtype))


class RescaleObservation(ObservationWrapper[Box, ActSpaceT, StateT, ConfigT]):
    """
    Scale the observation so that its bounds become `min_obs` and `max_obs`.

    A float dtype is kept. Any other dtype becomes float32; Gymnasium computes in integers. Where
    the bounds of the environment are equal, the result is `min_obs`.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    min_obs, max_obs : float or array-like
        The new bounds, one for all elements or one for each. A new bound must be infinite exactly
        where the environment's bound is. An element with only one finite bound is shifted, so that
        the finite bounds match.

    Raises
    ------
    TypeError
        If the observations are not in a Box.
    ValueError
        If the new bounds do not fit this Box.

    Examples
    --------
    >>> from envrax.testing import ImageEnv
    >>> RescaleObservation(ImageEnv(), min_obs=-1.0, max_obs=1.0).observation_space
    Box(-1.0, 1.0, (12, 10, 3), float32)
    """

    def __init__(
        self, env: JaxEnv[Any, ActSpaceT, StateT, ConfigT], min_obs: ArrayLike, max_obs: ArrayLike
    ) -> None:
        super().__init__(env)
        source = require_box(type(self), env)
        self.min_obs = min_obs
        self.max_obs = max_obs
        names = "min_obs and max_obs"
        advice = (
            "Give the observations bounds first, by `TransformObservation` with `jnp.clip`, or "
            "normalise them by `envrax.wrappers.vector.NormalizeObservation`."
        )
        self._space = target_box(type(self), names, source, min_obs, max_obs, advice)
        affine(type(self), source, self._space)  # raises here, not in the first step

    def observation(self, obs: Any) -> jax.Array:
        return affine(type(self), require_box(type(self), self.env), self._space)(obs)


def _with_dtype(space: Any, dtype: DTypeLike) -> Space:
    if isinstance(space, MultiDiscrete) and kind(np.dtype(dtype)) == "integer":
        return MultiDiscrete(space.nvec, dtype)
    if isinstance(space, Box):
        return Box(space.low, space.high, space.shape, dtype)
    if isinstance(space, MultiDiscrete):
        return Box(0, np.asarray(space.nvec) - 1, space.shape, dtype)
    return Box(0, space.n - 1 if isinstance(space, Discrete) else 1, space.shape, dtype)
