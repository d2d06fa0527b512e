"""What `DomainRandomization` and `with_config` refuse: it would be lost, or wrong in silence."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import pytest

from envrax import Box, DomainRandomization, EnvConfig, JaxEnv, StartStates, with_config
from envrax.testing import CountingEnv


class Small(CountingEnv):
    """Observes in int8, to which a drawn number must not add its int32."""

    @property
    def observation_space(self) -> Any:
        return Box(-100, 100, (2,), jnp.int8)

    def reset(self, rng: jax.Array) -> Any:
        obs, state = super().reset(rng)
        return obs.astype(jnp.int8) + self.config.max_steps, state

    def step(self, state: Any, action: Any) -> Any:
        obs, *rest = super().step(state, action)
        return obs.astype(jnp.int8) + self.config.max_steps, *rest


def draw_max_steps(rng: jax.Array) -> dict[str, Any]:
    return {"max_steps": jax.random.randint(rng, (), 3, 9, jnp.int32)}


def test_what_would_change_a_dtype_is_refused() -> None:
    sentence = r"return `reset\.obs` as int8\[2\] with any `max_steps`"
    with jax.numpy_dtype_promotion("standard"), pytest.raises(TypeError, match=sentence):
        DomainRandomization(Small(), draw_max_steps)


class Halved(DomainRandomization[Any, Any, Any, Any]):
    def reward(self, reward: jax.Array) -> jax.Array:
        return reward / 2


def test_the_hooks_of_a_subclass_are_called() -> None:
    env = Halved(CountingEnv(), draw_max_steps)
    _, state = env.reset(jax.random.key(0))
    assert env.step(state, 1)[2] == CountingEnv().step(state.env_state, 1)[2] / 2 != 0


def test_no_wrapper_around_it_decides_by_what_is_drawn() -> None:
    config = DomainRandomization(CountingEnv(), draw_max_steps).config
    for use in (lambda: bool(config.max_steps), lambda: config.max_steps == 3):
        with pytest.raises(TypeError, match=r"`config\.max_steps`"):
            use()


@chex.dataclass
class Derived(EnvConfig):
    half: float = 0.0

    def __post_init__(self) -> None:
        self.half = self.max_steps / 2


class OfDerived(JaxEnv[Any, Any, Any, Derived]):
    @property
    def observation_space(self) -> Any:
        return Box(0, 1, (2,))

    @property
    def action_space(self) -> Any:
        return Box(0, 1, (2,))

    def reset(self, rng: jax.Array) -> Any: ...

    def step(self, state: Any, action: Any) -> Any: ...


def test_a_config_that_computes_its_fields_is_refused() -> None:
    with pytest.raises(TypeError, match="without `__post_init__`"):
        with_config(OfDerived(), max_steps=3)


def test_start_states_go_around_it() -> None:
    inner = DomainRandomization(CountingEnv(), draw_max_steps)
    env = StartStates(inner, inner.reset)
    _, state = env.reset(jax.random.key(0))
    assert "max_steps" in state.env_state.fields
