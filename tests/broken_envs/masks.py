"""Environments that break the rule on masks of legal actions."""

from typing import Any

import jax.numpy as jnp

from broken_envs.drift import F32, Drift, DriftState
from envrax import MultiDiscrete


class MaskIsOfIntegers(Drift):
    def action_mask(self, state: DriftState) -> Any:
        return jnp.ones(3, jnp.int8)


class MaskIsTooShort(Drift):
    def action_mask(self, state: DriftState) -> Any:
        return jnp.ones(2, jnp.bool_)


class MaskAllowsPadding(Drift):
    @property
    def action_space(self) -> Any:
        return MultiDiscrete((2, 3))

    def step(self, state: DriftState, action: Any) -> Any:
        return super().step(state, action[0])

    def action_mask(self, state: DriftState) -> Any:
        return jnp.ones((2, 3), jnp.bool_)


class NothingIsLegal(Drift):
    """In the middle of an episode."""

    def action_mask(self, state: DriftState) -> Any:
        return jnp.full(3, state.step != 3)


class NothingIsLegalWhereTheNextEpisodeBegins(Drift):
    def reset_after(self, state: DriftState) -> Any:
        obs, first = super().reset_after(state)
        return obs, first.replace(extra=F32(1))

    def action_mask(self, state: DriftState) -> Any:
        return jnp.full(3, (state.step > 0) | (state.extra == 0))


class MaskAsksATracer(Drift):
    def action_mask(self, state: DriftState) -> Any:
        return jnp.arange(3) != 2 if state.step > 2 else jnp.ones(3, jnp.bool_)


BROKEN: dict[str, list[Any]] = {
    "masks_fit_the_space": [
        MaskIsOfIntegers,
        MaskIsTooShort,
        MaskAllowsPadding,
        NothingIsLegal,
        NothingIsLegalWhereTheNextEpisodeBegins,
        MaskAsksATracer,
    ]
}
