"""What the rules for a `BatchedEnv` look at, worked out once."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, cast

import jax
import jax.numpy as jnp

from envrax.batched_env import BatchedEnv
from envrax.env import JaxEnv, episode_ended
from envrax.testing.probe import Probe, Transition, named, through_hooks
from envrax.testing.rules import SkipRule
from envrax.testing.trees import rows
from envrax.vec_env import VecEnv


class BatchedProbe(Probe):
    """
    A batched environment under examination, by the rules for one as far as they fit.

    Parameters
    ----------
    env : BatchedEnv
        The batched environment.
    num_steps, seed
        As of `Probe`.
    """

    def __init__(self, env: BatchedEnv[Any, Any], num_steps: int, seed: int) -> None:
        super().__init__(cast(Any, env), num_steps, seed, gradients=False)
        self.batch = env
        self.saw_an_end = True

    def ended(self, t: Transition) -> bool:
        return False  # it goes on by itself

    def end(self, state: Any) -> list[Transition]:
        return []

    def lend(self, state: Any) -> Any:
        # A `VecEnv` may take over the buffers of the state.
        return jax.tree.map(lambda x: jnp.copy(x) if isinstance(x, jax.Array) else x, state)

    def zeros(self, dtype: Any) -> jax.Array:
        return jnp.zeros((self.batch.n_slots,), dtype)

    def expected(self, hook: str, value: Any) -> Any:
        if not isinstance(self.batch, VecEnv):
            return value
        env = cast(JaxEnv[Any, Any, Any, Any], self.batch.env)
        return jax.vmap(lambda one: through_hooks(env, hook, one))(value)

    def notes(self) -> Iterator[str]:
        if not self.saw_an_end:
            yield (
                "no episode ended in the first and last slot, so that no auto-reset was looked "
                "at: raise `num_steps`."
            )

    @cached_property
    def single(self) -> "Single":
        """
        One of the copies, stepped alone.

        Raises
        ------
        SkipRule
            If the slots are no copies of a `JaxEnv`.
        """
        if not isinstance(self.batch, VecEnv):
            raise SkipRule("slots are copies of a `JaxEnv` in a `VecEnv` only")
        return Single(self.batch.env)


class Single:
    """
    An environment stepped by hand, with the auto-reset that the contract gives to slots.

    Parameters
    ----------
    env : JaxEnv
        The environment.
    """

    def __init__(self, env: JaxEnv[Any, Any, Any, Any]) -> None:
        self._env, self.reset, self._step = env, jax.jit(env.reset), jax.jit(env.step)

    def step(self, t: Transition, slot: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a step gives in a slot, and the next episode if that step ended one, else {}."""
        out = named(self._step(rows(t.before, slot), rows(t.action, slot)))
        if not bool(episode_ended(self._env, out["state"], out["done"])):
            return out, {}
        return out, named(self.reset(jax.random.split(out["state"].rng)[0]))
