"""Peak memory of a step against the size of the state, as planned by XLA."""

from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.measure import Values
from envrax import FrameStackObservation, GrayscaleObservation, JaxEnv, ResizeObservation, VecEnv
from envrax_classic import CartPole, Catch


def memory() -> list[Values]:
    """A small environment in many slots, and stacked images in fewer."""
    pixels = FrameStackObservation(ResizeObservation(GrayscaleObservation(Catch())))
    return [
        _plan("CartPole, N = 65,536", CartPole(), 65_536),
        _plan("Catch as four grey 84 x 84 pictures, N = 1024", pixels, 1024),
    ]


def _plan(title: str, env: JaxEnv[Any, Any, Any, Any], num_envs: int) -> Values:
    vec_env = VecEnv(env, num_envs)
    _, state = jax.eval_shape(vec_env.reset, jax.random.key(0))
    actions = jax.eval_shape(vec_env.action_space.sample, jax.random.key(0))
    results = jax.eval_shape(vec_env.step, state, actions)
    rows = {
        "the state": {"MB": size_of(state) / 1e6},
        "everything that a step returns": {"MB": size_of(results) / 1e6},
    }
    for name, donated in (("peak of a step", ()), ("peak with `donate=True`", (0,))):
        step: Any = jax.jit(vec_env.step, donate_argnums=donated)
        plan = step.lower(state, actions).compile().memory_analysis()
        # A donated argument is a result as well.
        given = plan.argument_size_in_bytes - plan.alias_size_in_bytes
        peak = given + plan.output_size_in_bytes + plan.temp_size_in_bytes
        rows[name] = {"MB": peak / 1e6, "times the state": peak / size_of(state)}
    return Values(title, rows)


def size_of(tree: Any) -> int:
    """Bytes of the arrays in a tree; typed keys count as their uint32 data."""
    words = jax.eval_shape(lambda tree: jax.tree.map(_words, tree), tree)
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(words))


def _words(x: jax.Array) -> jax.Array:
    return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x
