"""`AtariPreprocessing`, and the two wrappers that only it uses."""

from typing import Any, Generic, cast

import chex
import jax
import jax.numpy as jnp

from envrax._checks.counts import require_count
from envrax._jax.keys import cond
from envrax._jax.types import strip_weak_type
from envrax.env import ActSpaceT, AnyEnv, ConfigT, Info, JaxEnv, ObsSpaceT, StateT, carries_over
from envrax.spaces import Box, Discrete
from envrax.termination import end_if, step_env
from envrax.wrappers.base import Wrapper, require_that
from envrax.wrappers.episodic_life import lives_in
from envrax.wrappers.hooks import refuse_mask
from envrax.wrappers.observation import (
    GrayscaleObservation,
    NormalizeObservation,
    ResizeObservation,
    require_rgb_box,
)
from envrax.wrappers.repeat import MaxAndSkipObservation
from envrax.wrappers.reshape import ReshapeObservation
from envrax.wrappers.stateful import InnerStateT, StatefulWrapper, WrapperState


class AtariPreprocessing(Wrapper[Box, ActSpaceT, StateT, ConfigT]):
    """
    The usual preprocessing of Atari games, for any environment with uint8 RGB images.

    The steps are applied in this order, the innermost first: no-ops after a reset; end of the
    episode on loss of a life; grayscale; `MaxAndSkipObservation`; resizing; scaling to 0..1. To
    stack frames, wrap the result in `FrameStackObservation`. If the environment has `observe`, two
    images are drawn for a step. One is drawn after the no-ops.

    It differs from Gymnasium's wrapper in three ways. Images are resized by `ResizeObservation`,
    not by OpenCV's area interpolation. The no-op is action 0. An environment that skips frames
    itself is not detected: turn its frame skip off.

    No-ops do not count as steps: `state.step` is 0 after a reset. With no-ops or repeated actions,
    `action_mask` raises a `NotImplementedError` if the environment has masks of legal actions. With
    `terminal_on_life_loss`, `info["terminated"]` and `info["truncated"]` say in every step why the
    episode ended.

    Parameters
    ----------
    env : JaxEnv
        The environment to wrap.
    noop_max : int, default 30
        Each reset is followed by a random number of steps with action 0, from 1 to `noop_max`. 0
        turns this off.
    frame_skip : int, default 4
        Number of steps for one action.
    screen_size : int or tuple of int, default 84
        Size of the new image; a tuple is (width, height).
    terminal_on_life_loss : bool, default False
        Terminate the episode when `info["lives"]` falls, and begin a new game. To go on with the
        same game, put `EpisodicLife` around this wrapper instead. A life lost in the first step of
        an episode is not detected, because `reset` returns no info.
    grayscale_obs : bool, default True
        Convert the images to grayscale.
    grayscale_newaxis : bool, default False
        Give grayscale images a last axis of size 1.
    scale_obs : bool, default False
        Scale to float32 in 0..1.

    Raises
    ------
    TypeError
        If the observations are not uint8 RGB images, a number is not an int, or there are no-ops
        and the actions are not Discrete. If `env` contains a `RecordEpisodeStatistics`, which would
        count the no-ops and miss the ends by a lost life.
    ValueError
        If a number is out of range; or at the first step, if `terminal_on_life_loss` is True and
        there is no `info["lives"]`.

    Examples
    --------
    >>> from envrax.testing import ImageEnv
    >>> AtariPreprocessing(ImageEnv(), noop_max=0, screen_size=(8, 6)).observation_space
    Box(0, 255, (6, 8), uint8)
    """

    def __init__(
        self,
        env: JaxEnv[Any, ActSpaceT, StateT, ConfigT],
        noop_max: int = 30,
        frame_skip: int = 4,
        screen_size: int | tuple[int, int] = 84,
        terminal_on_life_loss: bool = False,
        grayscale_obs: bool = True,
        grayscale_newaxis: bool = False,
        scale_obs: bool = False,
    ) -> None:
        who = "AtariPreprocessing: expected"
        noop_max = require_count(f"{who} noop_max", noop_max, least=0)
        frame_skip = require_count(f"{who} frame_skip", frame_skip)
        size: Any = screen_size if isinstance(screen_size, tuple) else (screen_size, screen_size)
        if len(size) != 2:
            raise ValueError(f"{who} screen_size to be an int or (width, height); got {size}.")
        width, height = (require_count(f"{who} screen_size", side) for side in size)
        self.changes_episodes = bool(noop_max or terminal_on_life_loss)
        super().__init__(env)
        stack: AnyEnv = env
        require_rgb_box(type(self), env, None)
        if noop_max:
            stack = NoopReset(stack, noop_max)
        if terminal_on_life_loss:
            stack = LifeLoss(stack)
        if grayscale_obs:
            stack = GrayscaleObservation(stack)
        if frame_skip > 1:
            stack = MaxAndSkipObservation(stack, frame_skip)
        stack = ResizeObservation(stack, height, width)
        if grayscale_obs and grayscale_newaxis:
            stack = ReshapeObservation(stack, (height, width, 1))
        if scale_obs:
            stack = NormalizeObservation(stack)
        self.env = cast(Any, stack)
        self.noop_max = noop_max
        self.frame_skip = frame_skip
        self.screen_size = screen_size
        self.terminal_on_life_loss = terminal_on_life_loss
        self.grayscale_obs = grayscale_obs
        self.grayscale_newaxis = grayscale_newaxis
        self.scale_obs = scale_obs


@chex.dataclass
class NoopState(WrapperState[InnerStateT]):
    """State of `NoopReset`. `noops` is the environment's `step` after the no-ops."""

    noops: jax.Array


class NoopReset(
    StatefulWrapper[ObsSpaceT, ActSpaceT, NoopState[InnerStateT], ConfigT, InnerStateT],
    Generic[ObsSpaceT, ActSpaceT, InnerStateT, ConfigT],
):
    """Begin each episode with 1 to `noop_max` steps of action 0. `state.step` excludes them."""

    def __init__(
        self, env: JaxEnv[ObsSpaceT, ActSpaceT, InnerStateT, ConfigT], noop_max: int
    ) -> None:
        super().__init__(env)
        space = env.action_space
        require_that(isinstance(space, Discrete), AtariPreprocessing, "Discrete actions", space)
        self.noop_max = noop_max

    def observe(self, state: NoopState[InnerStateT]) -> Any:
        return self._observe_inner(state.env_state)

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        return obs, {"noops": jnp.int32(0)}

    def on_step(self, obs: Any, state: NoopState[InnerStateT], *rest: Any) -> tuple[Any, ...]:
        return obs, state.replace(step=state.step - state.noops), *rest

    def action_mask(self, state: NoopState[InnerStateT]) -> Any:
        mask = super().action_mask(state)
        return refuse_mask(self, mask, "action 0, the no-op of a reset, may be illegal")

    def reset(self, rng: jax.Array) -> tuple[Any, NoopState[InnerStateT]]:
        rng, key = jax.random.split(rng)
        return self._after_noops(key, super().reset(rng)[1])

    def _carries_over(self) -> bool:
        return carries_over(self.env)

    def reset_after(self, state: NoopState[InnerStateT]) -> tuple[Any, NoopState[InnerStateT]]:
        if not carries_over(self.env):
            return self.reset(jax.random.split(state.rng)[0])
        rng, key = jax.random.split(state.rng)
        return self._after_noops(key, super().reset_after(state.replace(rng=rng))[1])

    def _after_noops(
        self, key: jax.Array, state: NoopState[InnerStateT]
    ) -> tuple[Any, NoopState[InnerStateT]]:
        """The observation and the state after the no-ops. Only the last observation is computed."""
        inner: Any = strip_weak_type(state.env_state)
        noops = jax.random.randint(key, (), 1, self.noop_max + 1, jnp.int32)
        if self.traceable:
            inner = cast(
                Any, jax.lax.fori_loop(1, noops, lambda _, inner: self._noop(inner)[1], inner)
            )
        else:
            for _ in range(1, int(noops)):
                inner = self._noop(inner)[1]
        obs, inner = self._noop(inner)
        return obs, state.replace(env_state=inner, rng=inner.rng, noops=inner.step)

    def _inner(self, state: NoopState[InnerStateT]) -> Any:
        return super()._inner(state.replace(step=state.step + state.noops))

    def _noop(self, state: Any) -> tuple[Any, Any]:
        """The observation and the state after one no-op; those of the next episode at an end."""

        def next_episode(stepped: Any) -> Any:
            return strip_weak_type(self.env.reset_after(stepped[1]))

        obs, state, *_ = step_env(self.env, state, jnp.int32(0))
        stepped = strip_weak_type((obs, state))
        if not self.traceable:
            return next_episode(stepped) if bool(state.done) else stepped
        return cond(state.done, next_episode, lambda stepped: stepped, stepped)


@chex.dataclass
class LifeLossState(WrapperState[InnerStateT]):
    """State of `LifeLoss`. `lives` is the number after the last step, -1 before the first step."""

    lives: jax.Array


class LifeLoss(
    StatefulWrapper[ObsSpaceT, ActSpaceT, LifeLossState[InnerStateT], ConfigT, InnerStateT],
    Generic[ObsSpaceT, ActSpaceT, InnerStateT, ConfigT],
):
    """Terminate the episode when `info["lives"]` falls."""

    def observe(self, state: LifeLossState[InnerStateT]) -> Any:
        return self._observe_inner(state.env_state)

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        return obs, {"lives": jnp.int32(-1)}

    def on_step(
        self, obs: Any, state: LifeLossState[InnerStateT], reward: Any, done: jax.Array, info: Info
    ) -> tuple[Any, ...]:
        lives = lives_in("AtariPreprocessing(terminal_on_life_loss=True)", self.env, info)
        lost = lives < state.lives
        stepped = state.env_state, done, info
        ended, done, info = end_if("AtariPreprocessing.step", self.env, stepped, terminated=lost)
        return obs, state.replace(lives=lives, done=ended), reward, done, info
