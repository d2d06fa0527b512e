"""One slot: a reset and a step of its environment, checked against the contract."""

from collections.abc import Callable, Iterator
from typing import Any

import jax

from envrax._jax.types import is_traced
from envrax.agent_values import require_rewards
from envrax.autoreset.checks import checked
from envrax.env import AnyEnv, EnvState, Resource, carries_over
from envrax.spaces.conform import conform
from envrax.termination import episode_ended


def whole_stack(env: Any) -> Iterator[Any]:
    """An environment or a batch, and everything that it wraps, the outermost first."""
    while isinstance(env, Resource):
        yield env
        env = vars(env).get("env")


def reset_slot(env: AnyEnv, rng: jax.Array) -> tuple[Any, EnvState]:
    """`env.reset`, checked, also against the space, with strongly typed arrays."""
    obs, state = _called(env, "reset", env.reset, rng)
    who, space = f"{env.name}.reset", env.observation_space
    hint = "Return what `observation_space.sample(rng)` looks like, or change the space."
    known = conform(space, obs, who, "obs", hint)
    if len(jax.tree.leaves(obs)) != len(jax.tree.leaves(known)):  # lists of numbers
        raise TypeError(f"{who}: expected obs of {space}; got {jax.tree.structure(obs)}. {hint}")
    return obs, state


def step_slot(env: AnyEnv, state: EnvState, action: Any) -> tuple[Any, ...]:
    """`env.step`, checked, with strongly typed arrays; and whether the episode ended, last."""
    obs, new_state, reward, done, info = _called(env, "step", env.step, state, action)
    require_rewards(env, reward)
    return obs, new_state, reward, done, info, episode_ended(env, new_state, done)


def next_episode(env: AnyEnv, last: EnvState) -> dict[str, Any]:
    """First observation and state of the episode after one that ended in state `last`."""
    method = "reset_after" if carries_over(env) else "reset"
    obs, state = _called(env, method, env.reset_after, last)
    return {"obs": obs, "state": state}


def _called(env: AnyEnv, method: str, call: Any, *args: Any) -> tuple[Any, ...]:
    """What a method returned, checked."""
    return checked(env, method, check_no_leaked_tracers(env, method, call, *args))


def check_no_leaked_tracers(env: Any, method: str, call: Callable[..., Any], *args: Any) -> Any:
    """The result of a call that may keep no traced value in `env`, nor in what it wraps."""
    before = [(layer, dict(_attributes(layer))) for layer in whole_stack(env)]
    returned = call(*args)
    for layer, kept in before:
        for name, x in _attributes(layer).items():
            if x is not kept.get(name) and is_traced(x):
                raise TypeError(
                    f"{type(layer).__name__}: expected {method} to leave the environment as it is; "
                    f"got `self.{name}`, set to a traced value. Keep what changes in the state, as "
                    "a field of its class."
                )
    return returned


def _attributes(env: object) -> dict[str, Any]:
    return vars(env)
