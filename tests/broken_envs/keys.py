"""Environments that break a rule on PRNG keys."""

from typing import Any

import jax
import jax.numpy as jnp

from broken_envs.drift import F32, Drift, DriftState


class ResetKeepsTheKey(Drift):
    def reset(self, rng: jax.Array) -> Any:
        obs, state = super().reset(rng)
        return obs, state.replace(rng=rng)


class ResetIgnoresTheKey(Drift):
    def reset(self, rng: jax.Array) -> Any:
        obs, state = super().reset(rng)
        return obs, state.replace(rng=jax.random.key(0))


class StepKeepsTheKey(Drift):
    def step(self, state: DriftState, action: Any) -> Any:
        obs, new, *rest = super().step(state, action)
        return obs, new.replace(rng=state.rng), *rest


class StepFoldsTheCountIn(Drift):
    """At step 0 it draws from the key of the next reset: `split(rng)[0]` is `fold_in(rng, 0)`."""

    def step(self, state: DriftState, action: Any) -> Any:
        drawn = jax.random.uniform(jax.random.fold_in(state.rng, state.step), (), F32)
        obs, new, reward, *rest = super().step(state, action)
        new = new.replace(rng=state.rng, place=jnp.full(2, drawn))
        return self.observe(new), new, drawn, *rest


class ABranchKeepsTheKey(Drift):
    """Only a step that the uncompiled ones do not reach draws, and no step replaces the key."""

    def step(self, state: DriftState, action: Any) -> Any:
        obs, new, *rest = super().step(state, action)
        key = jax.random.fold_in(state.rng, 7)
        draw = lambda key: jax.random.uniform(key, (), F32)  # noqa: E731
        gust = jax.lax.cond(state.step % 5 == 4, draw, lambda _: F32(0), key)
        new = new.replace(rng=state.rng, place=state.place + gust)
        return self.observe(new), new, gust, *rest[1:]


class NextEpisodeKeepsTheKey(Drift):
    def reset_after(self, state: DriftState) -> Any:
        obs, first = super().reset_after(state)
        return obs, first.replace(rng=state.rng)


class ResetDrawsFromAFixedKey(Drift):
    def reset(self, rng: jax.Array) -> Any:
        _, state = super().reset(rng)
        state.place = jax.random.uniform(jax.random.key(3), (2,), F32)
        return self.observe(state), state


class StepDrawsFromAFixedKey(Drift):
    def next_extra(self, extra: Any) -> Any:
        return jax.random.uniform(jax.random.key(3), (), F32)


class StepFoldsTheCountIntoAFixedKey(Drift):
    """Each episode has the same noise."""

    def step(self, state: DriftState, action: Any) -> Any:
        key = jax.random.fold_in(jax.random.key(3), state.step)
        return super().step(state.replace(extra=jax.random.uniform(key, (), F32)), action)


class KeyIsUsedTwice(Drift):
    def reset(self, rng: jax.Array) -> Any:
        obs, state = super().reset(rng)
        return obs, state.replace(extra=jax.random.uniform(rng, (), F32))


class StateKeepsAUsedKey(Drift):
    def reset(self, rng: jax.Array) -> Any:
        obs, state = super().reset(rng)
        return obs, state.replace(extra=jax.random.fold_in(rng, 1))

    def next_extra(self, extra: Any) -> Any:
        jax.random.uniform(extra, (), F32)
        return extra


class StepFoldsAKeptKey(Drift):
    """Each step draws the same number from a key of the episode."""

    def reset(self, rng: jax.Array) -> Any:
        rng, kept = jax.random.split(rng)
        obs, state = super().reset(rng)
        return obs, state.replace(extra=kept)

    def next_extra(self, extra: Any) -> Any:
        jax.random.uniform(self.derived(extra), (), F32)
        return extra

    def derived(self, key: Any) -> Any:
        return jax.random.fold_in(key, 7)


class StepRewrapsAKeptKey(StepFoldsAKeptKey):
    def derived(self, key: Any) -> Any:
        return jax.random.wrap_key_data(jax.random.key_data(key))


class StepFoldsAKeptKeyInALoop(StepFoldsAKeptKey):
    def next_extra(self, extra: Any) -> Any:
        def body(total: Any, i: Any) -> Any:
            return total + jax.random.uniform(jax.random.fold_in(extra, i), (), F32), None

        jax.lax.scan(body, F32(0), jnp.arange(2, dtype=jnp.int32))
        return extra


class KeysMustBeTyped(Drift):
    def reset(self, rng: jax.Array) -> Any:
        return super().reset(jax.random.wrap_key_data(jax.random.key_data(rng)))


class NextEpisodesKeyIsTyped(Drift):
    def reset_after(self, state: DriftState) -> Any:
        rng = jax.random.wrap_key_data(jax.random.key_data(state.rng))
        return self.reset(jax.random.split(rng)[0])


class NextEpisodeDiffersByTheKindOfKey(Drift):
    def reset_after(self, state: DriftState) -> Any:
        typed = jnp.issubdtype(state.rng.dtype, jax.dtypes.prng_key)
        return self.reset(jax.random.split(state.rng)[0 if typed else 1])


BROKEN: dict[str, list[Any]] = {
    "key_moves_on": [
        ResetKeepsTheKey,
        ResetIgnoresTheKey,
        StepKeepsTheKey,
        StepFoldsTheCountIn,
        ABranchKeepsTheKey,
        NextEpisodeKeepsTheKey,
    ],
    "draws_depend_on_the_key": [
        ResetDrawsFromAFixedKey,
        StepDrawsFromAFixedKey,
        StepFoldsTheCountIntoAFixedKey,
    ],
    "keys_are_used_once": [KeyIsUsedTwice],
    "calls_share_no_key": [
        StateKeepsAUsedKey,
        StepFoldsAKeptKey,
        StepRewrapsAKeptKey,
        StepFoldsAKeptKeyInALoop,
    ],
    "both_kinds_of_keys": [
        KeysMustBeTyped,
        NextEpisodesKeyIsTyped,
        NextEpisodeDiffersByTheKindOfKey,
    ],
}
