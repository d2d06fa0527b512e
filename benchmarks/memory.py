"""Peak memory of a step against the size of the state, as planned by XLA."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from envrax import FrameStackObservation, GrayscaleObservation, JaxEnv, ResizeObservation, VecEnv
from envrax_classic import CartPole, Catch


@dataclass(frozen=True)
class Plan:
    """
    Memory of one compiled step.

    Attributes
    ----------
    title : str
    peaks : dict
        From the kind of step to its bytes: arguments, results and temporaries.
    state, results : int
        Bytes of the state, and of everything that a step returns, including the state.
    """

    title: str
    peaks: dict[str, int]
    state: int
    results: int

    def markdown(self) -> str:
        lines = [
            f"### {self.title}",
            "",
            f"The state takes {_mega(self.state)}, all outputs of a step {_mega(self.results)}.",
            "",
            "| | at the peak | times the state |",
            "|---|---|---|",
        ]
        for name, peak in self.peaks.items():
            lines.append(f"| {name} | {_mega(peak)} | {peak / self.state:.2f} |")
        return "\n".join(lines)


def memory() -> list[Plan]:
    """A small environment in many slots, and stacked images in fewer."""
    pixels = FrameStackObservation(ResizeObservation(GrayscaleObservation(Catch())))
    return [
        _plan("CartPole, N = 65,536", CartPole(), 65_536),
        _plan("Catch as four grey 84 x 84 pictures, N = 1024", pixels, 1024),
    ]


def _plan(title: str, env: JaxEnv[Any, Any, Any, Any], num_envs: int) -> Plan:
    vec_env = VecEnv(env, num_envs)
    _, state = jax.eval_shape(vec_env.reset, jax.random.key(0))
    actions = jax.eval_shape(vec_env.action_space.sample, jax.random.key(0))
    results = jax.eval_shape(vec_env.step, state, actions)
    peaks: dict[str, int] = {}
    for name, donated in (("`VecEnv.step`", ()), ("`VecEnv(donate=True).step`", (0,))):
        step: Any = jax.jit(vec_env.step, donate_argnums=donated)
        plan = step.lower(state, actions).compile().memory_analysis()
        # A donated argument is a result as well.
        given = plan.argument_size_in_bytes - plan.alias_size_in_bytes
        peaks[name] = given + plan.output_size_in_bytes + plan.temp_size_in_bytes
    return Plan(title, peaks, size_of(state), size_of(results))


def size_of(tree: Any) -> int:
    """Bytes of the arrays in a tree; typed keys count as their uint32 data."""
    words = jax.eval_shape(lambda tree: jax.tree.map(_words, tree), tree)
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(words))


def _words(x: jax.Array) -> jax.Array:
    return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x


def _mega(size: int) -> str:
    return f"{size / 1e6:.3g} MB"
