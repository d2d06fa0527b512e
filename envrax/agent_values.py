"""Values by agent in an environment of several; a single value for one agent."""

from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp


def for_each(env: Any, function: Callable[..., Any], *values: Any) -> Any:
    """`function` of the values; in a world, a dict of its results for the values of each agent."""
    if not env.agents:
        return function(*values)
    return {agent: function(*[x[agent] for x in values]) for agent in env.agents}


def by_agent(env: Any, value: Any) -> Any:
    """`value`; in a world, a dict with it for each agent."""
    return dict.fromkeys(env.agents, value) or value


def add_rewards(returns: Any, rewards: Any) -> Any:
    """
    The sums of the rewards so far, of each agent, in float32.

    The returns may have an axis of slots. A reward may have a trailing axis of 1.
    """

    def add(total: jax.Array, reward: Any) -> jax.Array:
        reward = jnp.asarray(reward).reshape(*total.shape, -1)
        return total + jnp.sum(reward, axis=-1, dtype=jnp.float32)

    return jax.tree.map(add, returns, rewards)


def require_one_agent(who: str, env: Any) -> None:
    """Raise a TypeError for a world of several agents."""
    if env.agents:
        raise TypeError(
            f"{who}: expected an environment of one agent; got {env!r} of {', '.join(env.agents)}. "
            "Take the view of one agent, `envrax.multi_agent.OneAgent`, or `agents_as_slots`."
        )


def map_info(
    info: dict[str, Any], by_agent: Callable[[Any], Any], of_world: Callable[[Any], Any]
) -> dict[str, Any]:
    """
    The info of a world, with one function applied to each dict by agent, and another to the rest.

    By agent are the entries of `info["agents"]`, the observations `info["final_obs"]`, the masks
    `info["final_mask"]` and the returns `info["episode"]["r"]`. Everything else is the world's,
    whatever its keys are.
    """

    def entry(name: str, x: Any) -> Any:
        if name in ("final_obs", "final_mask"):
            return by_agent(x)
        if name == "agents":
            return {reason: by_agent(ends) for reason, ends in x.items()}
        if name == "episode" and isinstance(x, dict) and isinstance(cast(Any, x).get("r"), dict):
            rest = {k: of_world(v) for k, v in cast(Any, x).items() if k != "r"}
            return {**rest, "r": by_agent(x["r"])}
        return of_world(x)

    return {name: entry(name, x) for name, x in info.items()}
