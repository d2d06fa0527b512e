"""`BatchedProbe`: the data that the rules for a `BatchedEnv` check."""

from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any, cast

import jax
import jax.numpy as jnp

from envrax.batched_env import AnyBatch, StepOptions
from envrax.termination import step_env
from envrax.testing.probe import AnyEnv, Probe, Transition, apply_hooks, by_name
from envrax.testing.pytrees import take
from envrax.vec_env import VecEnv


class BatchedProbe(Probe):
    """
    A batched environment under test. Most rules for a `JaxEnv` check it too.

    Parameters
    ----------
    env : BatchedEnv
        The batched environment.
    num_steps, seed
        As in `Probe`.
    """

    state_class = object
    may_keep_on_host = True

    def __init__(self, env: AnyBatch, num_steps: int, seed: int) -> None:
        super().__init__(cast(Any, env), num_steps, seed, gradients=False)
        self.batch = env
        self.options: StepOptions = vars(env).get("_options", StepOptions())
        self.saw_episode_end = True

    def needs_reset(self, t: Transition) -> bool:
        return False  # a batch resets its slots itself

    def run_to_end(self, state: Any, rng: jax.Array) -> list[Transition]:
        return []

    def state_to_pass(self, state: Any) -> Any:
        # A `VecEnv` that donates its state deletes the arrays that are passed to it.
        return jax.tree.map(lambda x: jnp.copy(x) if isinstance(x, jax.Array) else x, state)

    def newest_state(self) -> Any:
        """The state after a reset and a step. A simulator on the host has only its latest state."""
        _, state = self.batch.reset(self.rng)
        return self.batch.step(self.state_to_pass(state), self.action(0, state))[1]

    def zeros(self, dtype: Any) -> jax.Array:
        return jnp.zeros((self.batch.n_slots,), dtype)

    def after_hooks(self, hook: str, value: Any) -> Any:
        if not isinstance(self.batch, VecEnv):
            return value
        env = cast(AnyEnv, self.batch.env)
        return jax.vmap(lambda one: apply_hooks(env, hook, one))(value)

    def notes(self) -> Iterator[str]:
        if not self.saw_episode_end:
            yield (
                "no episode ended in the first or the last slot, so auto-reset was not checked: "
                "raise `num_steps`."
            )

    @cached_property
    def single(self) -> "SingleEnv | None":
        """The environment of a `VecEnv`; None for other batches, and if agents are the slots."""
        batch = self.batch
        is_copied = isinstance(batch, VecEnv) and batch.num_envs == batch.n_slots
        return SingleEnv(cast(Any, batch).env) if is_copied else None


class SingleEnv:
    """
    The environment of a `VecEnv`, stepped by itself: the reference for each slot.

    Parameters
    ----------
    env : JaxEnv
        The environment.
    """

    def __init__(self, env: AnyEnv) -> None:
        self._env = env
        self.reset = jax.jit(env.reset)
        self.action_mask = jax.jit(env.action_mask)
        self._step = jax.jit(partial(step_env, env))
        self._reset_after = jax.jit(env.reset_after)

    def step(self, t: Transition, slot: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """The results of a step of one slot, and of the reset if its episode ended, else `{}`."""
        out = by_name(self._step(take(t.before, slot), take(t.action, slot)))
        if not bool(out["state"].done):
            return out, {}
        return out, by_name(self._reset_after(out["state"]))
