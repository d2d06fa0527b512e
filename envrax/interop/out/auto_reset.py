"""One environment that resets itself, as trainers written in JAX step it under their own `vmap`."""

from typing import Any, NamedTuple

import jax

from envrax._jax.keys import to_threefry
from envrax.agent_values import require_one_agent
from envrax.autoreset.rule import step_one
from envrax.autoreset.slot import checked_reset
from envrax.env import AnyEnv, EnvState, JaxEnv, with_config
from envrax.interop.out.rewards import require_reward_shape
from envrax.interop.peer.containers import as_in_space
from envrax.spaces.conform import conform
from envrax.termination import end_of_step, with_reasons


class AutoResetStep(NamedTuple):
    """
    The result of `step`, of one environment.

    Attributes
    ----------
    obs, state
        After the step; where the episode ended, the first ones of the next episode.
    reward : jax.Array
        A scalar.
    done, terminated, truncated : jax.Array
        bool scalars: whether the episode ended, and why.
    info : dict
        Of the step, with `terminated`, `truncated`, and where there are masks `action_mask`, of
        `state`, and `final_mask`, of the state of `final_obs`.
    final_obs, final_state
        The observation and the state of the step, before any reset.
    """

    obs: Any
    state: EnvState
    reward: jax.Array
    done: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    info: dict[str, Any]
    final_obs: Any
    final_state: EnvState


class Bridge:
    """
    The base class of the results of `to_gymnax`, `to_brax` and `to_stoa`.

    Attributes
    ----------
    env : JaxEnv
        The environment that the function was given, which `wrap` returns.
    """

    env: AnyEnv

    def configured(self, params: Any, max_steps: int) -> AnyEnv:
        """The environment with params in the form of this bridge, and with a limit, unless 0."""
        env = self._with(params)
        return with_config(env, max_steps=max_steps) if max_steps else env

    def _with(self, params: Any) -> AnyEnv:
        """The environment with these params; by default a dict of fields of the config."""
        return with_config(self.env, **params) if params else self.env


def require_single(who: str, env: Any) -> None:
    """Raise a TypeError for anything but an environment that JAX can trace."""
    if not isinstance(env, JaxEnv) or not env.traceable:
        raise TypeError(
            f"{who}: expected a JaxEnv that JAX can trace; got {env!r}. Pass one environment: the "
            "trainer makes the batch."
        )
    require_one_agent(who, env)


def reset(env: AnyEnv, rng: jax.Array) -> tuple[Any, EnvState]:
    """Begin an episode with one key."""
    obs, state = checked_reset(env, to_threefry(rng))
    return as_in_space(env.observation_space, obs), state


def step(
    who: str, env: AnyEnv, state: EnvState, action: Any, *, autoreset: bool = True
) -> AutoResetStep:
    """Take one step, and begin the next episode where this one ended, as `VecEnv` does."""
    action = conform(env.action_space, action, who, "action")
    found = step_one(env, state, action, None if autoreset else False)
    obs, state, reward, _, info, last, final_obs = found
    obs, final_obs = (as_in_space(env.observation_space, x) for x in (obs, final_obs))
    require_reward_shape(who, reward, ())
    end = end_of_step(who, env, last, info)
    info = with_mask(env, last, with_reasons(info, end), "final_mask")
    info = with_mask(env, state, info)
    return AutoResetStep(obs, state, reward, *end, info, final_obs, last)


def with_mask(
    env: AnyEnv, state: EnvState, info: dict[str, Any], name: str = "action_mask"
) -> dict[str, Any]:
    """`info` with the mask of the actions that are legal in `state`, if there is one."""
    mask = env.action_mask(state)
    return info if mask is None else {**info, name: mask}
