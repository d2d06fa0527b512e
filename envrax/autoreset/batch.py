"""Step a batch, and begin the next episode where one ended."""

from typing import Any, cast

import jax
import jax.core
import jax.numpy as jnp

from envrax._compile import strong
from envrax._returned import require_tuple
from envrax.autoreset.choice import choose_for
from envrax.autoreset.ways import AutoReset, Fresh, in_shard_map
from envrax.env import EnvState, Info, JaxEnv, episode_ended

AnyEnv = JaxEnv[Any, Any, Any, Any]


def reset(env: AnyEnv, num_envs: int, rng: jax.Array) -> tuple[Any, EnvState]:
    """
    Begin an episode in every slot, one key each.

    Parameters
    ----------
    env : JaxEnv
        The environment, copied `num_envs` times.
    num_envs : int
        Number of slots.
    rng : jax.Array
        One PRNG key.

    Returns
    -------
    obs, state
        As from `JaxEnv.reset`, with leading axis `num_envs`.
    """
    rngs = jax.random.split(rng, num_envs)
    fresh = jax.vmap(lambda rng: _begin(env, rng))(rngs)
    if in_shard_map():
        # A constant of the reset, such as step 0, has to vary over the axes that the key varies
        # over, as it will after a step. A select between equals says so and compiles to nothing.
        odd = (jax.random.bits(rng) & 1).astype(jnp.bool_)
        fresh = jax.tree.map(lambda x: jnp.where(odd, x, x), fresh)
    return fresh


def step(
    env: AnyEnv, autoreset: AutoReset | None, state: EnvState, actions: Any
) -> tuple[Any, EnvState, jax.Array, jax.Array, Info, Any]:
    """
    Step every slot, and begin the next episode in those whose episode ended.

    A slot that ended is reset with `jax.random.split(new_state.rng)[0]` of its own state.

    Parameters
    ----------
    env : JaxEnv
        The environment of every slot.
    autoreset : AutoReset
        How the slots that ended are replaced; None for what `choose` says.
    state : EnvState
        State of all slots, leading axis N.
    actions : pytree of jax.Array
        Actions of all slots, leading axis N.

    Returns
    -------
    obs, new_state
        Those of the step; in a slot that ended, those of its next episode.
    rewards, dones, infos
        Those of the step, in every slot.
    final_obs : pytree of jax.Array
        The observations of the step, before any reset, in every slot.

    Raises
    ------
    TypeError
        If reset and step give states or observations of different structure, shape or dtype.
    """

    def transition(state: EnvState, action: Any) -> tuple[Any, ...]:
        returned = _checked(env, "step", env.step(state, action))
        obs, new_state, reward, done, info = strong(returned)
        return obs, new_state, reward, done, info, episode_ended(env, new_state, done)

    final_obs, state, rewards, dones, infos, ended = jax.vmap(transition)(state, actions)
    stepped = {"obs": final_obs, "state": state}
    closed, fresh = _hoisted_reset(env, stepped)
    if autoreset is None:
        autoreset = choose_for(closed.jaxpr, ended.size, jax.default_backend())
    merged = autoreset(fresh, closed.consts, state.rng, ended, stepped)
    return merged["obs"], merged["state"], rewards, dones, infos, final_obs


def _hoisted_reset(env: AnyEnv, stepped: Any) -> tuple[Any, Fresh]:
    """
    The reset of one slot as jaxpr, and as function with all that `env` closes over as argument.

    A traced config value, differentiated from outside, must not reach into `custom_jvp` unseen.
    """

    def fresh(rng: jax.Array) -> Any:
        obs, state = _begin(env, jax.random.split(rng)[0])
        return {"obs": obs, "state": state}

    slot = jax.eval_shape(lambda tree: jax.tree.map(lambda x: x[0], tree), stepped)
    closed, out = jax.make_jaxpr(fresh, return_shape=True)(slot["state"].rng)
    _require_same(env, out, slot)
    tree = cast(Any, jax.tree.structure(out))

    def call(consts: list[Any], rng: jax.Array) -> Any:
        return jax.tree.unflatten(tree, jax.core.eval_jaxpr(closed.jaxpr, consts, rng))

    return closed, call


def _begin(env: AnyEnv, rng: jax.Array) -> tuple[Any, EnvState]:
    return strong(_checked(env, "reset", env.reset(rng)))


def _checked(env: AnyEnv, method: str, returned: Any) -> tuple[Any, ...]:
    """What an environment's method returned, if it has the form of the contract."""
    _, state, *_ = checked = require_tuple(type(env).__name__, method, returned)
    if not isinstance(state, EnvState):
        raise TypeError(
            f"{type(env).__name__}: expected {method} to return an EnvState in second place; got "
            f"{type(state).__name__}. Extend EnvState with `@chex.dataclass`."
        )
    return checked


def _require_same(env: AnyEnv, reset: Any, step: Any) -> None:
    """Refuse an environment whose reset and step disagree, naming the first leaf that differs."""
    at_reset, at_step = _described(reset), _described(step)
    for leaf in [*at_reset, *at_step]:
        if at_reset.get(leaf) != at_step.get(leaf):
            raise TypeError(
                f"{env.name}: expected reset and step to agree on `{leaf}`; got "
                f"{at_reset.get(leaf, 'no such leaf')} at reset and "
                f"{at_step.get(leaf, 'no such leaf')} after a step. Return the same structure, "
                "shapes and dtypes from both, for example with `jnp.asarray(x, dtype)`."
            )
    if jax.tree.structure(reset) != jax.tree.structure(step):
        raise TypeError(
            f"{env.name}: expected reset and step to agree on the structure of obs and state; got "
            f"{jax.tree.structure(reset)} at reset and {jax.tree.structure(step)} after a step. "
            "Return the same containers from both."
        )


def _described(tree: Any) -> dict[str, str]:
    leaves = cast(Any, jax.tree_util.tree_leaves_with_path(tree))
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): f"{leaf.dtype}{list(leaf.shape)}"
        for path, leaf in leaves
    }
