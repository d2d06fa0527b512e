"""`EpisodicLife`: a lost life ends the episode, and the game goes on."""

from typing import Any, Generic

import chex
import jax
import jax.numpy as jnp

from envrax._jax.keys import cond
from envrax._jax.returned import strip_weak_type
from envrax.env import ActSpaceT, AnyEnv, ConfigT, Info, ObsSpaceT
from envrax.termination import end_if
from envrax.wrappers.stateful import InnerStateT, StatefulWrapper, WrapperState


@chex.dataclass
class LifeState(WrapperState[InnerStateT]):
    """
    State of `EpisodicLife`. `step` counts the steps of this episode.

    Attributes
    ----------
    lives : jax.Array
        int32 scalar, the number after the last step; -1 before the first step of a game.
    begun : jax.Array
        int32 scalar, the `step` of the wrapped environment at which this episode began.
    goes_on : jax.Array
        bool scalar, whether a lost life ended this episode, so that the next goes on with the game.
    obs : pytree of jax.Array
        The last observation, with which that episode begins.
    """

    lives: jax.Array
    begun: jax.Array
    goes_on: jax.Array
    obs: Any


class EpisodicLife(
    StatefulWrapper[ObsSpaceT, ActSpaceT, LifeState[InnerStateT], ConfigT, InnerStateT],
    Generic[ObsSpaceT, ActSpaceT, InnerStateT, ConfigT],
):
    """
    End the episode when a life is lost, and go on with the same game in the next one.

    Works for any environment with a number of lives in `info["lives"]`. An episode is terminated
    when this number falls to one above 0. The next episode then begins with the observation of that
    step. Any other end, such as the end of the game or a time limit, is followed by a new game.
    `reset` always begins a new game.

    `state.step` counts the steps of the episode. Time limits inside this wrapper count those of the
    game. `info["terminated"]` and `info["truncated"]` say in every step why the episode ended.
    A `RecordEpisodeStatistics` inside this wrapper counts games, and one outside of it lives.

    The state keeps the last observation. Put this wrapper outside of those that make images
    smaller, and inside of `FrameStackObservation`, which begins each episode with one frame.

    A life lost in the first step of a game is not detected, because `reset` returns no info.

    Raises
    ------
    ValueError
        At the first step, if there is no `info["lives"]`.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> class Game(CountingEnv):
    ...     def step(self, state, action):
    ...         obs, state, reward, done, info = super().step(state, action)
    ...         return obs, state, reward, done, {**info, "lives": 3 - state.step // 2}
    >>> env = EpisodicLife(Game())
    >>> obs, state = env.reset(jax.random.key(0))
    >>> for _ in range(2):
    ...     obs, state, reward, done, info = env.step(state, 1)
    >>> done.item(), state.step.item(), state.env_state.done.item()
    (True, 2, False)
    >>> obs, state = env.reset_after(state)
    >>> state.step.item(), state.env_state.step.item()
    (0, 2)
    """

    _begins_games = False  # even where a life was lost

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        fields = {"lives": jnp.int32(-1), "begun": jnp.int32(0), "goes_on": jnp.bool_(False)}
        return obs, {**fields, "obs": obs}

    def on_step(
        self, obs: Any, state: LifeState[InnerStateT], reward: Any, done: jax.Array, info: Info
    ) -> tuple[Any, ...]:
        lives = lives_in("EpisodicLife", self.env, info)
        lost = (lives > 0) & (lives < state.lives)
        goes_on = lost & ~state.done
        stepped = state.env_state, done, info
        ended, done, info = end_if("EpisodicLife.step", self.env, stepped, terminated=lost)
        step = state.step - state.begun
        state = state.replace(lives=lives, goes_on=goes_on, obs=obs, step=step, done=ended)
        return obs, state, reward, done, info

    def _with_starts(self, give: Any) -> Any:
        other = super()._with_starts(give)
        other._begins_games = True
        return other

    def reset_after(self, state: LifeState[InnerStateT]) -> tuple[Any, LifeState[InnerStateT]]:
        carry = strip_weak_type((state.obs, state))
        if self._begins_games:
            return self._new_game(carry)
        if not self.traceable:
            return self._go_on(carry) if bool(state.goes_on) else self._new_game(carry)
        return cond(state.goes_on, self._go_on, self._new_game, carry)

    def _go_on(self, carry: Any) -> Any:
        obs, state = carry
        new = {"step": jnp.int32(0), "done": jnp.bool_(False), "goes_on": jnp.bool_(False)}
        return obs, state.replace(begun=state.begun + state.step, **new)

    def _new_game(self, carry: Any) -> Any:
        return strip_weak_type(super().reset_after(carry[1]))

    def _inner(self, state: LifeState[InnerStateT]) -> Any:
        return super()._inner(state.replace(step=state.step + state.begun))


def lives_in(wrapper: str, env: AnyEnv, info: Info) -> jax.Array:
    """
    The number of lives in an info, int32.

    Raises
    ------
    ValueError
        If there is none, or more than one.
    """
    if "lives" not in info or jnp.shape(info["lives"]) != ():
        raise ValueError(
            f"{wrapper}: expected one number of lives in info['lives']; got "
            f"{jax.tree.map(jnp.shape, info)} from {env}. Leave the loss of lives out."
        )
    return jnp.asarray(info["lives"]).astype(jnp.int32)
