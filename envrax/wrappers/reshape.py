"""Wrappers that change the form of the observation: its shape, its dtype, its scale."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from envrax.env import ActSpaceT, ConfigT, JaxEnv, StateT
from envrax.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space, kind
from envrax.spaces.array import as_shape
from envrax.spaces.base import canonical
from envrax.spaces.flatten import flat_box, flatten, reshaped
from envrax.wrappers.affine import affine, target_box
from envrax.wrappers.base import require_that
from envrax.wrappers.dict_observation import box_of
from envrax.wrappers.hooks import ObservationWrapper


class FlattenObservation(ObservationWrapper[Box, ActSpaceT, StateT, ConfigT]):
    """
    Flatten observations of any space to one vector.

    Numbers are concatenated. A `Discrete` becomes a one-hot vector, and so does each entry of a
    `MultiDiscrete`. The keys of a `Dict` are sorted.

    The dtype is that of the space. If it holds several, a float among them makes it float32
    (float64 if there is one already); Gymnasium makes float64 of an int32 and a float32. Integers
    above 2**24 are then rounded.

    Raises
    ------
    TypeError
        If a space is not one of envrax's, or no dtype holds all the integers.

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

    @property
    def observation_space(self) -> Box:
        return self._space

    def observation(self, obs: Any) -> jax.Array:
        return flatten(self.env.observation_space, obs)


class ReshapeObservation(ObservationWrapper[Box, ActSpaceT, StateT, ConfigT]):
    """
    Give the observation another shape with as many elements.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    shape : int or tuple of int
        The new shape. An int means one dimension.

    Raises
    ------
    TypeError
        If the observations are not in a Box, or `shape` does not hold ints.
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
        space = box_of(type(self), env)
        self.shape = as_shape(shape, "ReshapeObservation")
        if np.prod(self.shape, dtype=int) != space.size:
            raise ValueError(
                f"ReshapeObservation: expected a shape with {space.size} elements for {space}; got "
                f"{self.shape}."
            )
        self._space = reshaped(space, self.shape)

    @property
    def observation_space(self) -> Box:
        return self._space

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
        The new dtype. Floats become integers by rounding towards zero.

    Raises
    ------
    TypeError
        If the observations are not in a Box, Discrete, MultiDiscrete or MultiBinary, or `dtype` is
        not a float or integer dtype or bool.
    ValueError
        If `dtype` cannot hold the bounds; infinite ones need a float.

    Examples
    --------
    >>> from envrax.testing import ImageEnv
    >>> DtypeObservation(ImageEnv(), dtype="float32").observation_space
    Box(0, 255, (12, 10, 3), float32)
    """

    def __init__(self, env: JaxEnv[Any, ActSpaceT, StateT, ConfigT], dtype: DTypeLike) -> None:
        super().__init__(env)
        space: Any = env.observation_space
        legal = isinstance(space, Box | Discrete | MultiDiscrete | MultiBinary)
        expected = "observations in a Box, Discrete, MultiDiscrete or MultiBinary"
        require_that(legal, type(self), expected, space)
        self.dtype = dtype
        bounds = [space.low, space.high] if isinstance(space, Box) else []
        bounded = all(np.isfinite(bound).all() for bound in bounds)
        if not bounded and kind(dtype) != "float":
            raise ValueError(
                f"DtypeObservation: expected a float dtype for {space}; got {dtype!r}, which holds "
                "no infinite bounds."
            )
        try:
            self._space = _with_dtype(space, dtype)
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"DtypeObservation: expected a dtype that holds {space}; got {dtype!r}: {error}"
            ) from error

    @property
    def observation_space(self) -> Any:
        return self._space

    def observation(self, obs: Any) -> jax.Array:
        return jnp.asarray(obs).astype(canonical(self._space.dtype))


class RescaleObservation(ObservationWrapper[Box, ActSpaceT, StateT, ConfigT]):
    """
    Scale the observation so that its bounds become `min_obs` and `max_obs`.

    A float dtype is kept; any other becomes float32, where Gymnasium computes in integers. Where
    the bounds of the environment are equal the result is `min_obs`.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    min_obs, max_obs : float or array-like
        The new bounds, for all elements or for each. They are infinite exactly where those of the
        environment are; an element with one infinite bound is shifted by the other.

    Raises
    ------
    TypeError
        If the observations are not in a Box.
    ValueError
        If the new bounds do not fit it.

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
        source = box_of(type(self), env)
        self.min_obs, self.max_obs = min_obs, max_obs
        self._space = target_box(type(self), "min_obs and max_obs", source, min_obs, max_obs)
        affine(type(self), source, self._space)  # refuses here

    @property
    def observation_space(self) -> Box:
        return self._space

    def observation(self, obs: Any) -> jax.Array:
        return affine(type(self), box_of(type(self), self.env), self._space)(obs)


def _with_dtype(space: Any, dtype: DTypeLike) -> Space:
    if isinstance(space, MultiDiscrete) and kind(np.dtype(dtype)) == "integer":
        return MultiDiscrete(space.nvec, dtype)
    if isinstance(space, Box):
        return Box(space.low, space.high, space.shape, dtype)
    if isinstance(space, MultiDiscrete):
        return Box(0, np.asarray(space.nvec) - 1, space.shape, dtype)
    return Box(0, space.n - 1 if isinstance(space, Discrete) else 1, space.shape, dtype)
