"""Observations and actions filled up, so that several environments have equal spaces."""

from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax.env import ActSpaceT, ConfigT, JaxEnv, ObsSpaceT, StateT
from envrax.spaces import Box, Discrete, kind
from envrax.spaces.base import canonical
from envrax.spaces.flattening import common_dtype
from envrax.wrappers.base import ActionWrapper, ObservationWrapper, per_agent_envs
from envrax.wrappers.dict_observation import require_box
from envrax.wrappers.reshape import FlattenObservation


class PadObservation(ObservationWrapper[Box, ActSpaceT, StateT, ConfigT]):
    """
    Fill observations up with zeros at the end of each axis.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    observation_space : Box
        The space of the new observations. `pad_spaces` finds one for several environments.

    Raises
    ------
    TypeError
        If the observations are not in a Box.
    ValueError
        If `observation_space` is no Box that holds these observations and the zeros.

    Examples
    --------
    >>> from envrax.classic import CartPole
    >>> env = PadObservation(CartPole(), Box(-jnp.inf, jnp.inf, 6))
    >>> env.observation([1.0, 2.0, 3.0, 4.0]).tolist()
    [1.0, 2.0, 3.0, 4.0, 0.0, 0.0]
    """

    def __init__(
        self, env: JaxEnv[Any, ActSpaceT, StateT, ConfigT], observation_space: Box
    ) -> None:
        super().__init__(env, observation_space)
        own = require_box(type(self), env)
        if not _holds_observations(observation_space, own):
            raise ValueError(
                f"PadObservation: expected a Box that holds observations of {own}, filled up with "
                f"zeros; got {observation_space}. `pad_spaces` finds one."
            )
        self._padding = _padding(own, observation_space.shape)

    def observation(self, obs: Any) -> jax.Array:
        return jnp.pad(jnp.asarray(obs).astype(canonical(self._space.dtype)), self._padding)


class PadAction(ActionWrapper[ObsSpaceT, Any, StateT, ConfigT]):
    """
    Take actions of a larger space: more choices, or arrays with longer axes.

    Choices that the environment does not have are never legal, as `action_mask` says. One that is
    taken all the same counts as the environment's last. Of an array the environment gets the
    beginning of each axis.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    action_space : Discrete or Box
        The space of the caller's actions. `pad_spaces` finds one for several environments.

    Raises
    ------
    ValueError
        If the space of the environment is not the beginning of `action_space`: both a Discrete, or
        both a Box with the same bounds where both have numbers.

    Examples
    --------
    >>> from envrax.classic import CartPole
    >>> env = PadAction(CartPole(), Discrete(3))
    >>> env.action_mask(env.reset(jax.random.key(0))[1]).tolist()
    [True, True, False]
    """

    def __init__(
        self, env: JaxEnv[ObsSpaceT, Any, StateT, ConfigT], action_space: Discrete | Box
    ) -> None:
        super().__init__(env, action_space)
        if not _begins_with(action_space, env.action_space):
            raise ValueError(
                f"PadAction: expected a Discrete or a Box that begins with {env.action_space}; got "
                f"{action_space}. Give all environments one kind of action: choices by "
                "`DiscretizeAction`, or arrays with the same bounds by `RescaleAction`."
            )

    def action(self, action: Any) -> jax.Array:
        own: Any = self.env.action_space
        if isinstance(own, Discrete):
            return jnp.clip(jnp.asarray(action), 0, own.n - 1).astype(canonical(own.dtype))
        return jnp.asarray(action)[tuple(slice(n) for n in own.shape)]

    def action_mask(self, state: Any) -> Any:
        own: Any = self.env.action_space
        mask = self.env.action_mask(self._inner(state))
        if isinstance(own, Box):
            return mask
        mask = jnp.ones(own.n, bool) if mask is None else mask
        return jnp.pad(mask, (0, self._space.n - own.n))


def pad_spaces(envs: Any) -> Any:
    """
    Give several environments equal spaces, so that one policy plays them all.

    Observations are filled up with zeros, as `PadObservation` does, to the longest of each axis.
    They are flattened first unless all are Boxes with the same number of axes. Beside floats,
    integers become float32, which rounds those above 2**24. Actions become those
    of `PadAction`. The agents of a world get equal spaces too.

    Parameters
    ----------
    envs : list or dict of JaxEnv
        The environments. Their actions are choices (`Discrete`) or arrays (`Box`), of all alike.

    Returns
    -------
    list or dict of JaxEnv
        The environments in their wrappers, in a list or dict like the one given.

    Raises
    ------
    ValueError
        If actions are of different kinds, or bounds of actions differ.
    TypeError
        If `envs` is not a list or a dict of JaxEnv, or an observation cannot be flattened.

    Examples
    --------
    >>> from envrax.classic import Acrobot, CartPole
    >>> envs = pad_spaces({"pole": CartPole(), "arm": Acrobot()})
    >>> envs["pole"].action_space, envs["pole"].observation_space.shape
    (Discrete(3), (6,))
    >>> envs["pole"].observation_space == envs["arm"].observation_space
    True
    """
    keys = list(cast(Any, envs)) if isinstance(envs, dict) else None
    members: list[Any] = [*envs] if isinstance(envs, list | tuple) else []
    members = [envs[key] for key in keys] if keys else members
    if not members or not all([isinstance(env, JaxEnv) for env in members]):
        raise TypeError(
            f"pad_spaces: expected a list or a dict of JaxEnv; got {envs!r}. Pass environments of "
            "`make`; `VecEnv` goes around those that `pad_spaces` returns."
        )
    seen = [one.observation_space for one in _agents(members)]
    if not all(isinstance(x, Box) for x in seen) or len({len(x.shape) for x in seen}) > 1:
        members = [FlattenObservation(env) for env in members]
        seen = [one.observation_space for one in _agents(members)]
    acted = [one.action_space for one in _agents(members)]
    choices = all(isinstance(x, Discrete) for x in acted)
    arrays = all(isinstance(x, Box) for x in acted) and len({len(x.shape) for x in acted}) == 1
    if not choices and not arrays:
        raise ValueError(
            "pad_spaces: expected actions that are all Discrete, or all Boxes with the same number "
            f"of axes; got {acted}. Use `DiscretizeAction` or `FlattenAction`."
        )
    see = _common(seen)
    act = Discrete(max(x.n for x in acted)) if choices else _common(acted)
    padded = [PadAction(PadObservation(env, see), act) for env in members]
    return dict(zip(keys, padded, strict=True)) if keys else padded


def _agents(envs: list[Any]) -> list[Any]:
    """The environments; of a world its agents."""
    each = [per_agent_envs(env) for env in envs]
    return [one for x in each for one in (cast(Any, x).values() if type(x) is dict else [x])]


def _common(boxes: list[Box]) -> Box:
    """The least Box that holds the elements of all, filled up with zeros."""
    shape = tuple(np.max([box.shape for box in boxes], axis=0).tolist())
    dtype = common_dtype([box.dtype for box in boxes])
    bounds = np.array([_bounds(box, shape).astype(dtype) for box in boxes])
    return Box(bounds[:, 0].min(axis=0), bounds[:, 1].max(axis=0), shape, dtype)


def _padding(box: Box, shape: tuple[int, ...]) -> list[tuple[int, int]]:
    return [(0, n - own) for own, n in zip(box.shape, shape, strict=True)]


def _bounds(box: Box, shape: tuple[int, ...]) -> Any:
    """Both bounds of a Box, filled up with zeros."""
    bounds = np.broadcast_to(box.limits(), (2, *box.shape))
    return np.pad(bounds, [(0, 0), *_padding(box, shape)])


def _is_longer(box: Any, own: Box) -> bool:
    same = isinstance(box, Box) and len(box.shape) == len(own.shape)
    return same and all(n >= m for n, m in zip(box.shape, own.shape, strict=True))


def _holds_observations(box: Any, own: Box) -> bool:
    if not _is_longer(box, own):
        return False
    if kind(own.dtype) == "float" and common_dtype([own.dtype, box.dtype]) != box.dtype:
        return False
    (low, high), (least, most) = _bounds(own, box.shape), _bounds(box, box.shape)
    return bool((least <= low).all() and (high <= most).all())


def _begins_with(space: Any, own: Any) -> bool:
    if isinstance(own, Discrete):
        return isinstance(space, Discrete) and space.n >= own.n
    if not isinstance(own, Box) or not _is_longer(space, own) or space.dtype != own.dtype:
        return False
    beginning = _bounds(space, space.shape)[:, *(slice(n) for n in own.shape)]
    return bool((beginning == _bounds(own, own.shape)).all())
