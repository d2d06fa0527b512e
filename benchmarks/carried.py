"""What lasts longer than an episode: the cost of a large leaf of the state in auto-reset."""

from typing import Any

import chex
import jax
import jax.numpy as jnp

from benchmarks.measure import Table, compare
from benchmarks.rollout import of_vec_env
from envrax import StatefulWrapper, VecEnv
from envrax.wrappers.stateful import WrapperState
from envrax_classic import CartPole


@chex.dataclass
class LargeState(WrapperState[Any]):
    """1,000 floats in every slot."""

    large: jax.Array


class BegunAnew(StatefulWrapper[Any, Any, LargeState, Any, Any]):
    """A reset fills the leaf, and a step leaves it as it is."""

    def on_reset(self, obs: Any) -> Any:
        return obs, {"large": jnp.zeros(1000, jnp.float32)}

    def on_step(self, *stepped: Any) -> Any:
        return stepped


class Kept(BegunAnew):
    """The leaf goes on through `reset_after`, as it is."""

    def reset_after(self, state: Any) -> Any:
        obs, new = super().reset_after(state)
        return obs, new.replace(large=state.large)


class Changed(Kept):
    """`reset_after` reads the leaf, and changes it."""

    def reset_after(self, state: Any) -> Any:
        obs, new = super().reset_after(state)
        return obs, new.replace(large=state.large + jnp.float32(1.0))


def reset_after(n: int = 4096, steps: int = 200) -> list[Table]:
    """A leaf of 16 MB that an episode leaves alone, and what its end does to it."""
    env = CartPole()
    envs = {
        "without the leaf": env,
        "kept: passed through `reset_after`": Kept(env),
        "written again by the reset": BegunAnew(env),
        "read and changed by `reset_after`": Changed(env),
    }
    ways = {name: of_vec_env(VecEnv(each, n), 2, steps) for name, each in envs.items()}
    title = f"CartPole, N = {n}, 1,000 floats more in every slot, rollout"
    return [Table(title, compare(ways), steps)]
