# pyright: basic, reportMissingImports=false
"""`HasSpec`: the spec of an environment in Gymnasium's interface, with its time limit."""

import copy
import dataclasses
import json
import os
from typing import Any

import jax
import numpy as np

from envrax._checks.counts import NO_LIMIT
from envrax.batched_env import BatchedEnv
from envrax.env import JaxEnv
from envrax.interop.out.attributes import layers
from envrax.interop.peer.library import require
from envrax.wrappers.repeat import MaxAndSkipObservation, RepeatAction
from envrax.wrappers.time import limit_of

require("gymnasium", "1.2", extra="gymnasium")

from gymnasium.envs.registration import EnvSpec  # noqa: E402
from gymnasium.vector import AutoresetMode  # noqa: E402


class PlayedSpec(EnvSpec):
    """A spec whose `max_episode_steps` is never more than the environment plays."""

    def __setattr__(self, name: str, value: Any) -> None:
        played = vars(self).get("_played")
        if name == "max_episode_steps" and played is not None:
            # -1 asks Gymnasium for no `TimeLimit`; the environment keeps its own.
            value = played if value is None or value == -1 else int(min(value, played))
        super().__setattr__(name, value)

    def to_json(self) -> str:
        """
        The spec as JSON. Numbers of NumPy and JAX, paths and an `AutoresetMode` become plain.

        Raises
        ------
        TypeError
            If JSON cannot hold a keyword of the environment.
        """
        kwargs: dict[str, Any] = {}
        for name, value in self.kwargs.items():
            try:
                kwargs[name] = json.loads(json.dumps(value, default=_plain))
            except TypeError:
                raise TypeError(  # after which Minari writes its data set without the spec
                    f"EnvSpec.to_json: expected keywords of {self.id} that JSON holds; got "
                    f"{name}={value!r}. Pass the fields of a config by their names, and leave out "
                    "what is no number or text."
                ) from None
        return EnvSpec.to_json(dataclasses.replace(self, kwargs=kwargs))

    @classmethod
    def of(cls, spec: EnvSpec, played: int | None) -> "PlayedSpec":
        """The same spec, for an environment with this limit."""
        made = copy.copy(spec) if isinstance(spec, PlayedSpec) else cls.__new__(cls)
        vars(made).update(vars(spec), _played=played)
        made.max_episode_steps = spec.max_episode_steps
        return made


def _plain(value: Any) -> Any:
    """What JSON has for a value that it does not know."""
    if isinstance(value, AutoresetMode):
        return value.value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, np.generic | np.ndarray | jax.Array) and value.ndim == 0:
        return value.item()
    raise TypeError


class HasSpec:
    """
    The base of both bridges: `spec.max_episode_steps` is the time limit of the environment.

    The specs in Gymnasium's registry have no limit. With one, `gymnasium.make` would put a
    `TimeLimit` of its own around the environment, and end the episodes of a longer `max_steps`.
    Nor does a `TimeLimit` of Gymnasium that is longer than the limit of the environment state its
    own, which it cannot reach.
    """

    _spec: EnvSpec | None = None

    @property
    def spec(self) -> EnvSpec | None:
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec) -> None:  # `gymnasium.make` sets it too
        env: Any = vars(self).get("jax_env") or vars(self).get("batched_env")
        self._spec = PlayedSpec.of(spec, played_limit(env))


def played_limit(env: Any) -> int | None:
    """The number of steps after which an environment, or a batch of it, truncates; None if none."""
    while isinstance(env, BatchedEnv):
        env = getattr(env, "env", None)
    if any(isinstance(layer, RepeatAction | MaxAndSkipObservation) for layer in layers(env)):
        return None  # the limit counts steps of the environment
    limit = limit_of(env) if isinstance(env, JaxEnv) else None
    return limit if isinstance(limit, int) and limit < NO_LIMIT else None
