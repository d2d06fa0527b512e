"""One slot: a reset and a step of its environment, checked against the contract."""

from collections.abc import Callable
from typing import Any, cast

import jax
import numpy as np

from envrax._core.agents import require_rewards
from envrax._core.checks import RETURNS, require_tuple
from envrax._core.closing import whole_stack
from envrax._core.ends import episode_ended
from envrax._jax.programs import is_traced, strong
from envrax.env import AnyEnv, EnvState, carries_over
from envrax.spaces.conform import conform


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
    return checked(env, method, unedited(env, method, call, *args))


def unedited(env: Any, method: str, call: Callable[..., Any], *args: Any) -> Any:
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


def require_slots(state: Any, num_envs: int, who: str = "VecEnv") -> None:
    """Raise an error for anything but a state of `num_envs` slots."""
    expected = f"{who}.step: expected the state of {num_envs} slots that reset or step returned"
    if not isinstance(state, EnvState):
        got = _leaf_type(state) if hasattr(state, "shape") else type(state).__name__
        raise TypeError(f"{expected}; got {got}. Pass `state, actions`.")
    for leaf in jax.tree.leaves(state):
        if np.shape(leaf)[:1] != (num_envs,):
            raise ValueError(
                f"{expected}; got a leaf of shape {np.shape(leaf)}. Pass the state of this {who}."
            )


def require_same_types(env: AnyEnv, reset: Any, other: Any, method: str = "step") -> None:
    """Raise an error if the types of reset and of a method differ, with the first such leaf."""
    at_reset, there = leaf_types(reset), leaf_types(other)
    for leaf in [*at_reset, *there]:
        if at_reset.get(leaf) != there.get(leaf):
            raise TypeError(
                f"{env.name}: expected reset and {method} to agree on `{leaf}`; got "
                f"{at_reset.get(leaf, 'no such leaf')} from reset and "
                f"{there.get(leaf, 'no such leaf')} from {method}. Return the same structure, "
                "shapes and dtypes from both, for example with `jnp.asarray(x, dtype)`."
            )
    if jax.tree.structure(reset) != jax.tree.structure(other):
        raise TypeError(
            f"{env.name}: expected reset and {method} to agree on the structure of obs and state; "
            f"got {jax.tree.structure(reset)} from reset and {jax.tree.structure(other)} from "
            f"{method}. Return the same containers from both."
        )


def checked(env: AnyEnv, method: str, returned: Any) -> tuple[Any, ...]:
    """The results of `reset` or `step`, checked, as strongly typed arrays."""
    who = type(env).__name__
    _, state, *_ = require_tuple(who, method, returned)
    if not isinstance(state, EnvState):
        raise TypeError(
            f"{who}: expected {method} to return an EnvState in second place; got "
            f"{type(state).__name__}. Extend EnvState with `@chex.dataclass`."
        )

    def convert(path: Any, leaf: Any) -> jax.Array:
        try:
            return strong(leaf)
        except (TypeError, ValueError):
            which: int = path[0].idx
            where = ".".join(filter(None, (RETURNS[method].split(", ")[which], _name(path[1:]))))
            raise TypeError(
                f"{who}: expected {method} to return arrays and numbers; got {leaf!r} at `{where}`."
                " Leave it out, or return a number in its place."
            ) from None

    return jax.tree_util.tree_map_with_path(convert, tuple(returned))


def leaf_types(tree: Any) -> dict[str, str]:
    """Name, dtype and shape of every leaf."""
    return {name: _leaf_type(leaf) for name, leaf in named_leaves(tree).items()}


def named_leaves(tree: Any) -> dict[str, Any]:
    """The leaves by their names, such as "state.walls"."""
    leaves = cast(Any, jax.tree_util.tree_leaves_with_path(tree))
    return {_name(path): leaf for path, leaf in leaves}


def _leaf_type(x: Any) -> str:
    return f"{x.dtype}{list(x.shape)}"


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")
