# pyright: basic, reportMissingImports=false
"""`HasSpec`: the spec of an environment in Gymnasium's interface, with its time limit."""

import copy
from typing import Any

from envrax._checks.counts import NO_LIMIT
from envrax.batched_env import BatchedEnv
from envrax.env import JaxEnv
from envrax.interop.out.attributes import layers
from envrax.interop.peer.library import require
from envrax.wrappers.repeat import MaxAndSkipObservation, RepeatAction
from envrax.wrappers.time import limit_of

require("gymnasium", "1.2", extra="gymnasium")

from gymnasium.envs.registration import EnvSpec  # noqa: E402


class PlayedSpec(EnvSpec):
    """A spec whose `max_episode_steps` is never more than the environment plays."""

    def __setattr__(self, name: str, value: Any) -> None:
        played = vars(self).get("_played")
        if name == "max_episode_steps" and played is not None:
            # -1 asks Gymnasium for no `TimeLimit`; the environment keeps its own.
            value = played if value is None or value == -1 else min(value, played)
        super().__setattr__(name, value)

    @classmethod
    def of(cls, spec: EnvSpec, played: int | None) -> "PlayedSpec":
        """The same spec, for an environment with this limit."""
        made = copy.copy(spec) if isinstance(spec, PlayedSpec) else cls.__new__(cls)
        vars(made).update(vars(spec), _played=played)
        made.max_episode_steps = spec.max_episode_steps
        return made


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
