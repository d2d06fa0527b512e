"""One slot: its reset and its step, checked against the contract."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import jax

from envrax._jax.keys import key_types
from envrax._jax.returned import returned_arrays, with_info_entry
from envrax._jax.types import leaf_types, same_types
from envrax.env import AnyEnv, EnvState, Info, starting_method_name
from envrax.spaces import Space
from envrax.spaces.base import RETURN_LIKE
from envrax.spaces.conform import conform, fits
from envrax.termination import step_env


def checked_reset(env: AnyEnv, rng: jax.Array) -> tuple[Any, EnvState]:
    """`env.reset`, checked, also against the space, with strongly typed arrays."""
    obs, state = returned_arrays(type(env).__name__, "reset", env.reset(rng), EnvState)
    space = env.observation_space
    if not fits(space, obs):
        _require_obs(f"{env.name}.reset", space, obs)
    return obs, state


def _require_obs(who: str, space: Space, obs: Any) -> None:
    known = conform(space, obs, who, "obs", RETURN_LIKE)
    if len(jax.tree.leaves(obs)) != len(jax.tree.leaves(known)):  # lists of numbers
        raise TypeError(
            f"{who}: expected obs of {space}; got {jax.tree.structure(obs)}. {RETURN_LIKE}"
        )


def checked_step(env: AnyEnv, state: EnvState, action: Any) -> tuple[Any, ...]:
    """`step_env`, checked, with strongly typed arrays."""
    stepped = returned_arrays(type(env).__name__, "step", step_env(env, state, action))
    require_rewards(env, stepped[2])
    return stepped


def require_rewards(env: Any, rewards: Any) -> None:
    """Raise a TypeError unless there is one reward, or in a world one for each agent."""
    agents = env.agents
    if jax.tree.structure(rewards) != jax.tree.structure(dict.fromkeys(agents, 0) or 0):
        expected = f"a dict of rewards of {', '.join(agents)}" if agents else "one reward"
        raise TypeError(
            f"{type(env).__name__}: expected step to return {expected}; got "
            f"{jax.tree.map(lambda x: f'{x.dtype}{[*x.shape]}', rewards)}. A world of several "
            "agents names them in its property `agents`, and returns a plain `dict`."
        )


def with_final_mask(who: str, env: AnyEnv, last: EnvState, info: Info) -> Info:
    """`info` with the mask of the legal actions in state `last`, if the environment has masks."""
    try:
        mask = env.action_mask(last)
    except NotImplementedError:  # of a wrapper that cannot keep the mask
        return info
    has_mask = bool(jax.tree.leaves(mask))
    return with_info_entry(who, env, info, "final_mask", mask) if has_mask else info


def require_state_of(env: AnyEnv, state: Any, error: Exception) -> None:
    """Raise an error because of `error`, if `state` is of another stack than `env`."""
    if not env.traceable:
        return
    _, own = jax.eval_shape(partial(checked_reset, env), key_types()[0])
    expected = _classes(own)
    got = _classes(state)
    if got != expected:
        raise TypeError(
            f"{env.name}.step: expected a state of class {' around '.join(expected)}; got "
            f"{' around '.join(got)}. Pass the state that reset or step of {env} returned."
        ) from error


def _classes(state: Any) -> list[str]:
    """The classes of a state and of those within it, the outermost first."""
    names: list[str] = []
    while state is not None:
        names.append(type(state).__name__)
        state = getattr(state, "env_state", None)
    return names


def next_episode(env: AnyEnv, last: EnvState) -> tuple[Any, EnvState]:
    """First observation and state of the episode after one that ended in state `last`."""
    returned = env.reset_after(last)
    obs, state = returned_arrays(type(env).__name__, "reset_after", returned, EnvState)
    return obs, state


def require_same_types(
    env: AnyEnv, start: Any, other: Any, method: str = "step", *, after_end: bool = False
) -> None:
    """
    Raise an error, with the first such leaf, if the types of reset and of a method differ.

    `after_end` says that `start` is of the reset that follows an end, which may be `reset_after`.
    """
    if same_types(start, other):
        return
    begin = starting_method_name(env) if after_end else "reset"
    at_start = leaf_types(start)
    there = leaf_types(other)
    for leaf in [*at_start, *there]:
        if at_start.get(leaf) != there.get(leaf):
            raise TypeError(
                f"{env.name}: expected {begin} and {method} to agree on `{leaf}`; got "
                f"{at_start.get(leaf, 'no such leaf')} from {begin} and "
                f"{there.get(leaf, 'no such leaf')} from {method}. Return the same structure, "
                "shapes and dtypes from both, for example with `jnp.asarray(x, dtype)`."
            )
    raise TypeError(
        f"{env.name}: expected {begin} and {method} to agree on the structure of obs and state; "
        f"got {jax.tree.structure(start)} from {begin} and {jax.tree.structure(other)} from "
        f"{method}. Return the same containers from both."
    )


def begin_at(
    env: AnyEnv, begin: Callable[[AnyEnv, Any], Any], source: Any, start: Any
) -> tuple[Any, EnvState]:
    """`begin(env, source)`, in which the innermost environment begins with `start`."""
    used: list[Any] = []

    def give() -> Any:
        used.append(start)
        return start

    begun = begin(env._with_starts(give), source)  # pyright: ignore[reportPrivateUsage]
    if not used:
        raise TypeError(
            "reset_where: expected, with `starts`, wrappers that reset what they wrap; got "
            f"{env!r}, where one begins episodes otherwise. Leave it out."
        )
    return begun


def require_starts(env: AnyEnv, starts: Any, state: EnvState) -> None:
    """Raise an error unless `starts` are those of the innermost environment, for all slots."""
    inner = env.unwrapped
    expected = jax.eval_shape(jax.vmap(partial(checked_reset, inner)), state.rng)
    if same_types(expected, starts):
        return
    form = f"reset_where: expected starts like `jax.vmap({inner.name}.reset)(rngs)`, (obs, state)"
    names = "obs", "state"
    is_pair = isinstance(starts, tuple | list)
    found = leaf_types(dict(zip(names, cast(Any, starts), strict=False))) if is_pair else {}
    for leaf, expected_type in leaf_types(dict(zip(names, expected, strict=True))).items():
        if found.get(leaf) != expected_type:
            got = found.get(leaf, "no such leaf")
            raise TypeError(f"{form}, with `{leaf}` {expected_type}; got {got}.")
    raise TypeError(f"{form}; got another structure, {jax.tree.structure(starts)}.")
