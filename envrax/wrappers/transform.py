"""Wrappers that apply a function to the observation, the reward or the action; `ClipReward`."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from envrax.env import ActSpaceT, AnyEnv, ConfigT, JaxEnv, ObsSpaceT, StateT
from envrax.spaces import Space
from envrax.spaces.base import canonical
from envrax.wrappers.base import ActionWrapper, ObservationWrapper, RewardWrapper


class TransformObservation(ObservationWrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    Apply a function to the observation.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    func : callable
        Maps an observation of the environment to the one returned to the caller. Written with
        `jnp`. A lambda cannot be pickled.
    observation_space : Space, optional
        The space of the results of `func`. Default: that of the environment.

    Raises
    ------
    TypeError
        If the structure, shape or dtype of a result of `func` is not that of the space.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> space = Box(0, 1000, (), jnp.int32)
    >>> env = TransformObservation(CountingEnv(), lambda obs: obs[1], space)
    >>> int(env.reset(jax.random.key(0))[0])
    0
    """

    def __init__(
        self,
        env: JaxEnv[Any, ActSpaceT, StateT, ConfigT],
        func: Callable[[Any], Any],
        observation_space: ObsSpaceT | None = None,
    ) -> None:
        super().__init__(env, observation_space)
        self.func = func
        _require_map(type(self), env, func, env.observation_space, self._space)

    def observation(self, obs: Any) -> Any:
        return self.func(obs)


class TransformReward(RewardWrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    Apply a function to the reward. The result is float32.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    func : callable
        Maps the reward of the environment to the one returned to the caller. Written with `jnp`.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> env = TransformReward(CountingEnv(), lambda reward: 0.5 * reward)
    >>> float(env.step(env.reset(jax.random.key(0))[1], 1)[2])
    0.5
    """

    def __init__(
        self, env: JaxEnv[ObsSpaceT, ActSpaceT, StateT, ConfigT], func: Callable[[jax.Array], Any]
    ) -> None:
        super().__init__(env)
        self.func = func

    def reward(self, reward: jax.Array) -> jax.Array:
        return jnp.asarray(self.func(reward)).astype(jnp.float32)


class ClipReward(RewardWrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    Replace the reward by its sign: float32 in {-1, 0, +1}.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> env = ClipReward(CountingEnv())
    >>> obs, state = env.reset(jax.random.key(0))
    >>> float(env.step(state, 2)[2])
    1.0
    """

    def reward(self, reward: jax.Array) -> jax.Array:
        return jnp.sign(jnp.asarray(reward).astype(jnp.float32))


class TransformAction(ActionWrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    """
    Apply a function to the action.

    Masks are not transformed. If the environment has masks, `action_mask` raises a
    `NotImplementedError`; override it in a subclass.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    func : callable
        Maps an action of the caller to the one for the environment. Written with `jnp`.
    action_space : Space, optional
        The space of the caller's actions. Default: that of the environment.

    Raises
    ------
    TypeError
        If the structure, shape or dtype of a result of `func` is not that of the environment's
        action space.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> env = TransformAction(CountingEnv(), lambda action: 2 - action)
    >>> float(env.step(env.reset(jax.random.key(0))[1], 0)[2])
    2.0
    """

    def __init__(
        self,
        env: JaxEnv[ObsSpaceT, Any, StateT, ConfigT],
        func: Callable[[Any], Any],
        action_space: ActSpaceT | None = None,
    ) -> None:
        super().__init__(env, action_space)
        self.func = func
        _require_map(type(self), env, func, self._space, env.action_space)

    def action(self, action: Any) -> Any:
        return self.func(action)


def _require_map(
    wrapper: type, env: AnyEnv, func: Callable[[Any], Any], source: Space, target: Space
) -> None:
    """Raise a TypeError unless `func` maps elements of `source` to elements of `target`."""
    if not env.traceable:
        return
    expected = _shape_dtype_structs(target)
    # JAX refers weakly to what it traces, which not every callable allows.
    got = jax.eval_shape(lambda x: func(x), _shape_dtype_structs(source))
    if _structure_and_types(got) != _structure_and_types(expected):
        described = jax.tree.map(lambda x: f"{x.dtype}{[*x.shape]}", got)
        raise TypeError(
            f"{wrapper.__name__}: expected func to map elements of {source} to elements of "
            f"{target}; got a result of type {described}. Pass the new space, or cast the result."
        )


def _shape_dtype_structs(space: Space) -> Any:
    return jax.tree.map(
        lambda dtype, shape: jax.ShapeDtypeStruct(shape, canonical(dtype)), space.dtype, space.shape
    )


def _structure_and_types(tree: Any) -> Any:
    return jax.tree.structure(tree), [(x.shape, x.dtype) for x in jax.tree.leaves(tree)]
