"""`FilterObservation`, and functions for one entry of a `Dict` observation."""

from collections.abc import Sequence
from typing import Any, cast

from envrax._checks.counts import require_count
from envrax._checks.names import require_known
from envrax.env import ActSpaceT, AnyEnv, ConfigT, JaxEnv, StateT
from envrax.spaces import Box, Dict, Space, Tuple
from envrax.spaces.base import RETURN_LIKE, describe, is_mapping, require_container
from envrax.wrappers.base import ObservationWrapper, require_that


def get_entry(x: Any, key: str | None) -> Any:
    """The entry `key` of an observation or of its space; all of it if `key` is None."""
    if key is not None and not isinstance(x, Dict) and not (is_mapping(x) and key in x):
        got = f"keys {sorted(x)}" if is_mapping(x) else describe(x)
        raise ValueError(
            f"expected obs to be a dict with the key {key!r}; got {got}. {RETURN_LIKE}"
        )
    return x if key is None else x[key]


def replace_entry(x: Any, key: str | None, value: Any) -> Any:
    """A copy of an observation or its space with a new entry `key`; `value` if `key` is None."""
    if key is None:
        return value
    return Dict({**x.spaces, key: value}) if isinstance(x, Dict) else {**x, key: value}


def entry_space(wrapper: type, space: Space, key: str | None) -> Space:
    """
    The space of the entry `key` of observations in `space`; all of it if `key` is None.

    Raises
    ------
    TypeError
        If `key` is not None and the observations are not in a Dict.
    ValueError
        If the Dict has no such key.
    """
    if key is None:
        return space
    spaces: Any = space
    require_that(isinstance(space, Dict), wrapper, f"observations in a Dict for {key=}", space)
    require_known(f"{wrapper.__name__}: expected key among", [key], spaces, error=ValueError)
    return spaces[key]


def require_box(wrapper: type, env: AnyEnv, key: str | None = None) -> Box:
    """The `entry_space` of the observations of `env`. Raise a TypeError unless it is a Box."""
    space: Any = entry_space(wrapper, env.observation_space, key)
    before = "FlattenObservation" if isinstance(space, Dict | Tuple) else "DtypeObservation"
    advice = f"Put `{before}` before it, or choose observations that are arrays, such as images."
    require_that(isinstance(space, Box), wrapper, "observations in a Box", space, advice)
    return cast(Box, space)


class FilterObservation(ObservationWrapper[Any, ActSpaceT, StateT, ConfigT]):
    """
    Keep some entries of a `Dict` or `Tuple` observation.

    The keys of a `Dict` stay sorted. The entries of a `Tuple` are in the order of `filter_keys`.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    filter_keys : sequence of str or int
        The keys of a `Dict`, or the indices of a `Tuple`, to keep.

    Raises
    ------
    TypeError
        If the observations are not in a Dict or Tuple.
    ValueError
        If a key is unknown, or `filter_keys` is empty.

    Examples
    --------
    >>> from envrax.testing import NestedEnv
    >>> list(NestedEnv().observation_space)
    ['image', 'place']
    >>> FilterObservation(NestedEnv(), filter_keys=["image"]).observation_space
    Dict({'image': Box(0, 255, (2, 2), uint8)})
    """

    def __init__(
        self, env: JaxEnv[Any, ActSpaceT, StateT, ConfigT], filter_keys: Sequence[str | int]
    ) -> None:
        super().__init__(env)
        space: Any = env.observation_space
        expected = "observations in a Dict or a Tuple"
        require_that(isinstance(space, Dict | Tuple), type(self), expected, space)
        keys: Any = space if isinstance(space, Dict) else range(-len(space), len(space))
        message = "FilterObservation: expected filter_keys among"
        require_known(message, filter_keys, keys, error=ValueError)
        require_count("FilterObservation: expected the number of filter_keys", len(filter_keys))
        self.filter_keys = filter_keys
        kept = self._kept(space, space)
        self._space = Dict(kept) if isinstance(space, Dict) else Tuple(kept)

    def observation(self, obs: Any) -> Any:
        space: Any = self.env.observation_space
        require_container(space.spaces, obs, "FilterObservation", "obs", RETURN_LIKE)
        return self._kept(space, obs)

    def _kept(self, space: Any, x: Any) -> Any:
        kept = [x[key] for key in self.filter_keys]
        return (
            dict(zip(self.filter_keys, kept, strict=True))
            if isinstance(space, Dict)
            else tuple(kept)
        )
