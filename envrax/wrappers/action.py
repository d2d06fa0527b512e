"""Wrappers that change the action and the action space."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from envrax._checks.counts import require_count
from envrax.env import AnyEnv, ConfigT, JaxEnv, ObsSpaceT, StateT
from envrax.spaces import Box, Discrete, MultiDiscrete, kind
from envrax.spaces.base import canonical
from envrax.spaces.flattening import flat_box, unflatten
from envrax.wrappers.affine import affine, target_box
from envrax.wrappers.base import ActionWrapper, require_that


class ClipAction(ActionWrapper[ObsSpaceT, Box, StateT, ConfigT]):
    """
    Clip actions to the bounds of the environment's action space.

    The new action space has the same shape and dtype, and no bounds.

    Raises
    ------
    TypeError
        If the actions are not in a Box of floats or integers.

    Examples
    --------
    >>> from envrax.classic import Pendulum
    >>> Pendulum().action_space, ClipAction(Pendulum()).action_space
    (Box(-2.0, 2.0, (1,), float32), Box(-inf, inf, (1,), float32))
    """

    def __init__(self, env: JaxEnv[ObsSpaceT, Any, StateT, ConfigT]) -> None:
        super().__init__(env)
        space = _action_box(type(self), env, "float", "integer")
        self._space = Box(-np.inf, np.inf, space.shape, space.dtype)

    def action(self, action: Any) -> jax.Array:
        low, high = _action_box(type(self), self.env, "float", "integer").limits()
        return jnp.clip(jnp.asarray(action), low, high)


class RescaleAction(ActionWrapper[ObsSpaceT, Box, StateT, ConfigT]):
    """
    Scale actions from `min_action` .. `max_action` to the bounds of the environment.

    In a Box of floats, an action outside the new bounds becomes one outside the bounds of the
    environment. To clip such actions, wrap the result in `ClipAction`.

    In a Box of integers, an action becomes the nearest integer of the Box. The new bounds are those
    of a float32 Box, and become exactly the bounds of the environment. Between them, integers above
    2**24 are as exact as float32.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    min_action, max_action : float or array-like
        The new bounds, one for all elements or one for each. A new bound must be infinite exactly
        where the environment's bound is. An element with only one finite bound is shifted, so that
        the finite bounds match.

    Raises
    ------
    TypeError
        If the actions are not in a Box of floats or integers.
    ValueError
        If the new bounds do not fit this Box, or are equal.

    Examples
    --------
    >>> from envrax.classic import Pendulum
    >>> RescaleAction(Pendulum(), min_action=-1.0, max_action=1.0).action(jnp.ones(1)).tolist()
    [2.0]
    """

    def __init__(
        self,
        env: JaxEnv[ObsSpaceT, Any, StateT, ConfigT],
        min_action: ArrayLike,
        max_action: ArrayLike,
    ) -> None:
        super().__init__(env)
        target = _action_box(type(self), env, "float", "integer")
        self.min_action = min_action
        self.max_action = max_action
        names = "min_action and max_action"
        advice = "To remove bounds, wrap this wrapper in `ClipAction`."
        self._space = target_box(type(self), names, target, min_action, max_action, advice)
        if np.any(np.asarray(self._space.low) >= np.asarray(self._space.high)):
            raise ValueError(f"RescaleAction: expected min_action < max_action; got {self._space}.")
        affine(type(self), self._space, target)  # raises here, not in the first step

    def action(self, action: Any) -> jax.Array:
        target = _action_box(type(self), self.env, "float", "integer")
        return affine(type(self), self._space, target)(action)


class FlattenAction(ActionWrapper[ObsSpaceT, Box, StateT, ConfigT]):
    """
    Take actions of any space as one vector of floats.

    The vector is that of `envrax.spaces.flatten`, and `envrax.spaces.unflatten` makes the action of
    it. A `Discrete`, and each entry of a `MultiDiscrete`, has one number for each choice, from 0 to
    1: the choice with the greatest number is taken, the first of equal ones. Other integers are
    rounded to the nearest.

    The dtype is that of the space if all its numbers are floats of one dtype, else float32, or
    float64 if one of them is float64.

    `action_mask` raises a `NotImplementedError` if the environment has masks of legal actions: a
    vector of floats has none.

    Raises
    ------
    TypeError
        If a space is not from `envrax.spaces`, or no integer dtype can hold all values.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> env = FlattenAction(CountingEnv())
    >>> env.env.action_space, env.action_space
    (Discrete(3), Box(0, 1, (3,), float32))
    >>> env.action([0.1, 0.2, 0.7]).item()
    2
    """

    def __init__(self, env: JaxEnv[ObsSpaceT, Any, StateT, ConfigT]) -> None:
        super().__init__(env)
        try:
            flat = flat_box(env.action_space)
        except (TypeError, ValueError) as error:
            raise type(error)(f"FlattenAction: {error}") from error
        is_float = kind(flat.dtype) == "float"
        self._space = flat if is_float else Box(flat.low, flat.high, flat.shape)

    def action(self, action: Any) -> Any:
        return unflatten(self.env.action_space, action)


class DiscretizeAction(ActionWrapper[ObsSpaceT, Any, StateT, ConfigT]):
    """
    Replace a continuous action by a choice among a few values.

    The range of each element of the action is divided into equal intervals. A choice stands for the
    centre of an interval. The new action space is a Discrete with one choice for each combination,
    in which the last element changes fastest; or a MultiDiscrete with one entry for each element.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    bins : int or tuple of int
        Number of intervals, one for all elements or one for each.
    multidiscrete : bool, default False
        Use a MultiDiscrete action space instead of a Discrete one.

    Raises
    ------
    TypeError
        If the actions are not in a Box of floats, or `bins` has entries that are not ints.
    ValueError
        If the Box is unbounded, the number of `bins` is not the number of elements, an entry is
        below 1, or there are more combinations than int32 can hold.

    Examples
    --------
    >>> from envrax.classic import Pendulum
    >>> env = DiscretizeAction(Pendulum(), bins=4)
    >>> env.action_space, [env.action(i).tolist() for i in range(4)]
    (Discrete(4), [[-1.5], [-0.5], [0.5], [1.5]])
    """

    def __init__(
        self,
        env: JaxEnv[ObsSpaceT, Any, StateT, ConfigT],
        bins: int | tuple[int, ...],
        multidiscrete: bool = False,
    ) -> None:
        super().__init__(env)
        space = _action_box(type(self), env, "float")
        low, high = (
            np.broadcast_to(bound, space.shape).ravel().astype(np.float64)
            for bound in space.limits()
        )
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise ValueError(f"DiscretizeAction: expected a bounded Box of actions; got {space}.")
        self.bins = bins
        self.multidiscrete = multidiscrete
        per_element = list(bins) if np.iterable(bins) else [bins] * space.size
        self._bins = [require_count("DiscretizeAction: expected bins", n) for n in per_element]
        if len(self._bins) != space.size or not self._bins:
            raise ValueError(
                f"DiscretizeAction: expected an int, or {space.size} bins for {space}; got {bins}."
            )
        total = int(np.prod(np.asarray(self._bins, object)))
        self._space = MultiDiscrete(self._bins) if multidiscrete else Discrete(total)
        # One row of centres for each element. A row with fewer bins than the longest row ends with
        # values above the upper bound, which are never chosen.
        counts = np.asarray(self._bins)[:, None]
        fractions = (np.arange(max(self._bins)) + 0.5) / counts
        centres = low[:, None] * (1 - fractions) + high[:, None] * fractions
        self._centres = centres.astype(canonical(space.dtype))

    def action(self, action: Any) -> jax.Array:
        action = jnp.asarray(action)
        counts = np.asarray(self._bins, np.int32)
        if not self.multidiscrete:
            strides = np.cumprod([1, *self._bins[:0:-1]])[::-1].astype(np.int32)
            total = int(np.prod(counts, dtype=np.int64))
            action = jnp.clip(action, 0, total - 1).astype(jnp.int32) // strides % counts
        index = jnp.clip(action, 0, counts - 1).astype(jnp.int32)
        chosen = jnp.asarray(self._centres)[np.arange(len(counts), dtype=np.int32), index]
        return chosen.reshape(self.env.action_space.shape)


def _action_box(wrapper: type, env: AnyEnv, *kinds: str) -> Box:
    space: Any = env.action_space
    fits = isinstance(space, Box) and kind(space.dtype) in kinds
    expected = f"actions in a Box of {' or '.join(f'{k}s' for k in kinds)}"
    require_that(fits, wrapper, expected, space)
    return space
