# pyright: basic, reportMissingImports=false
"""`HasSpec`: the spec of an environment in Gymnasium's interface, with its time limit."""

import dataclasses
from typing import Any

from envrax._checks.counts import INT32_MAX
from envrax.batched_env import BatchedEnv
from envrax.env import JaxEnv
from envrax.interop.library import require
from envrax.interop.out.attributes import layers
from envrax.wrappers.repeat import MaxAndSkipObservation, RepeatAction
from envrax.wrappers.time import limit_of

require("gymnasium", "1.2", extra="gymnasium")

from gymnasium.envs.registration import EnvSpec  # noqa: E402


class HasSpec:
    """
    The base of both bridges: `spec.max_episode_steps` is the time limit of the environment.

    The specs in Gymnasium's registry have no limit. With one, `gymnasium.make` would put a
    `TimeLimit` of its own around the environment, and end the episodes of a longer `max_steps`.
    """

    _spec: EnvSpec | None = None

    @property
    def spec(self) -> EnvSpec | None:
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec) -> None:  # `gymnasium.make` sets it too
        if spec.max_episode_steps is None:
            spec = dataclasses.replace(spec, max_episode_steps=self._limit())
        self._spec = spec

    def _limit(self) -> int | None:
        env: Any = vars(self).get("jax_env") or vars(self).get("batched_env")
        while isinstance(env, BatchedEnv):
            env = getattr(env, "env", None)
        if any(isinstance(layer, RepeatAction | MaxAndSkipObservation) for layer in layers(env)):
            return None  # the limit counts steps of the environment
        limit = limit_of(env) if isinstance(env, JaxEnv) else None
        return limit if isinstance(limit, int) and limit < INT32_MAX else None
