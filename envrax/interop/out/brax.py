# pyright: basic, reportMissingImports=false
"""`to_brax`: an environment for Brax's trainers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.counts import require_count
from envrax.env import AnyEnv, with_config
from envrax.interop.brax import wrap
from envrax.interop.out import auto_reset
from envrax.interop.out.auto_reset import Bridge, require_single
from envrax.interop.peer.library import require
from envrax.spaces import Box
from envrax.spaces.base import kind
from envrax.wrappers import (
    FlattenObservation,
    RecordEpisodeStatistics,
    RepeatAction,
    RescaleAction,
    TimeLimit,
)
from envrax.wrappers.base import layers
from envrax.wrappers.time import counted_steps

require("brax", "0.14", "envs.base", "envs.wrappers.training")

from brax.envs.base import Env, State  # noqa: E402
from brax.envs.wrappers.training import VmapWrapper  # noqa: E402


class ToBrax(Bridge, Env):
    """The result of `to_brax`."""

    def __init__(self, env: AnyEnv) -> None:
        self.env = env
        self._env = FlattenObservation(RescaleAction(env, -1.0, 1.0))

    def _with(self, params: Any) -> AnyEnv:
        return self.env if params is None else with_config(self.env, params=params)

    @property
    def observation_size(self) -> int:
        """The size of an observation, which is a vector."""
        return self._env.observation_space.size

    @property
    def action_size(self) -> int:
        """The size of an action."""
        return self.env.action_space.size

    @property
    def backend(self) -> str:
        """The string "envrax", since no backend of Brax is used."""
        return "envrax"

    def reset(self, rng: jax.Array) -> State:
        """Begin an episode."""
        obs, state = auto_reset.reset(self._env, rng)
        zero = jnp.float32(0)
        info = {"truncation": zero, "elapsed": zero}
        return State(state, obs.astype(jnp.float32), zero, zero, {}, info)

    def step(self, state: State, action: jax.Array) -> State:
        """Take one step; where the episode ends, begin the next one."""
        action = jnp.reshape(action, self.env.action_space.shape)
        out = auto_reset.step("to_brax(env).step", self._env, state.pipeline_state, action)
        # Brax has one flag and a mask of truncations: an end that is both is a termination.
        truncation = (out.truncated & ~out.terminated).astype(jnp.float32)
        elapsed = jnp.float32(counted_steps(self._env, out.final_state))
        return state.replace(
            pipeline_state=out.state,
            obs=out.obs.astype(jnp.float32),
            reward=out.reward.astype(jnp.float32),
            done=out.done.astype(jnp.float32),
            info={**state.info, "truncation": truncation, "elapsed": elapsed},
        )


class TrainingBatch(VmapWrapper):
    """The result of `brax_training_wrap`: a batch with the statistics that Brax's trainers read."""

    def reset(self, rng: jax.Array) -> State:
        """Begin an episode in every slot."""
        state = super().reset(rng)
        zero = jnp.zeros_like(state.reward)
        metrics = {"sum_reward": zero, "length": zero}
        info = {"steps": zero, "episode_done": zero, "episode_metrics": metrics}
        return state.replace(info={**state.info, **info})

    def step(self, state: State, action: jax.Array) -> State:
        """Take one step in every slot."""
        new = super().step(state, action)
        goes_on = 1 - state.info["episode_done"]
        steps = new.info["elapsed"]
        sum_reward = state.info["episode_metrics"]["sum_reward"] * goes_on + new.reward
        metrics = {"sum_reward": sum_reward, "length": steps}
        info = {"steps": steps, "episode_done": new.done, "episode_metrics": metrics}
        return new.replace(info={**new.info, **info})


def to_brax(env: AnyEnv) -> ToBrax:
    """
    An environment for Brax's trainers: float32 observations in a vector, actions from -1 to 1.

    A step that ends an episode begins the next one, as in `VecEnv`. Pass `brax_training_wrap` to
    the trainer as well: Brax's own wrappers go back to the first state of each slot, and treat a
    truncation by the environment as a termination.

    Parameters
    ----------
    env : JaxEnv
        The environment, with actions in a bounded `Box` of floats.

    Returns
    -------
    brax.envs.Env
        Its `State` has the environment's state as `pipeline_state`, `info["truncation"]`, and in
        `info["elapsed"]` the number of steps that the time limit counts.

    Raises
    ------
    TypeError
        If actions are not in a bounded `Box` of floats, or observations cannot be flattened.
    """
    require_single("to_brax", env)
    space: Any = env.action_space
    is_float = isinstance(space, Box) and kind(space.dtype) == "float"
    if not is_float or not all(np.all(np.isfinite(x)) for x in (space.low, space.high)):
        raise TypeError(
            f"to_brax: expected actions in a bounded Box of floats; got {space}. Brax's trainers "
            "take no other actions: use `to_gymnax`, or bound them with a wrapper."
        )
    return ToBrax(env)


def brax_training_wrap(
    env: Any, episode_length: int = 1000, action_repeat: int = 1, randomization_fn: Any = None
) -> TrainingBatch:
    """
    A batch for Brax's trainers, `ppo.train(..., wrap_env_fn=brax_training_wrap)`.

    Every episode begins with a reset, where Brax's wrappers go back to the first state of the slot.
    An environment of Brax is wrapped by `envrax.interop.brax.wrap`.

    Parameters
    ----------
    env : brax.envs.Env
        The result of `to_brax`, or an environment of Brax.
    episode_length : int, default 1000
        Limit, in steps of the environment, that truncates an episode.
    action_repeat : int, default 1
        Number of steps for one action, whose rewards are added up. The end of an episode ends the
        repetition too.
    randomization_fn : None
        Not supported: see `DomainRandomization`.

    Raises
    ------
    TypeError
        If there is a `randomization_fn`, `env` is already wrapped for training or has a
        `RecordEpisodeStatistics`, or a length is no int.
    ValueError
        If a length is below 1.
    """
    if randomization_fn is not None:
        raise TypeError(
            "brax_training_wrap: expected randomization_fn=None, since it changes a model of Brax; "
            "got a function. Put `DomainRandomization` around the environment before `to_brax`."
        )
    who = "brax_training_wrap"
    episode_length = require_count(f"{who}: expected episode_length", episode_length)
    action_repeat = require_count(f"{who}: expected action_repeat", action_repeat)
    if not isinstance(env, ToBrax):
        env = to_brax(wrap(env, max_steps=episode_length))
    if any(isinstance(layer, RecordEpisodeStatistics) for layer in layers(env.env)):
        raise TypeError(
            f"{who}: expected an environment without RecordEpisodeStatistics, since "
            f'`info["episode_metrics"]` counts whole episodes; got {env.env!r}. Leave it out.'
        )
    limited = TimeLimit(env.env, episode_length)
    return TrainingBatch(
        to_brax(RepeatAction(limited, action_repeat) if action_repeat > 1 else limited)
    )
