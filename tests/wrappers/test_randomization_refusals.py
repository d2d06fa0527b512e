"""What `DomainRandomization` and `with_config` refuse: it would be lost, or wrong in silence."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import pytest

from envrax import Box, ClipReward, DomainRandomization, EnvConfig, JaxEnv, StartStates
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


def test_it_has_no_subclasses() -> None:
    with pytest.raises(TypeError, match="a wrapper around DomainRandomization"):
        type("Mine", (DomainRandomization,), {})


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
        OfDerived().with_config(max_steps=3)


class WithReward(CountingEnv):
    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self.scale = lambda x: x


def test_an_edited_function_or_environment_is_not_lost() -> None:
    env = WithReward()
    env.with_config(max_steps=3)
    env.scale = lambda x: 100 * x
    with pytest.raises(TypeError, match="'scale' would be lost"):
        env.with_config(max_steps=3)
    wrapper = ClipReward(CountingEnv())
    wrapper.env = CountingEnv(CountingEnv().config.replace(max_steps=2))
    with pytest.raises(TypeError, match="'env' would be lost"):
        wrapper.with_config(max_steps=3)


def test_start_states_go_around_it() -> None:
    inner = DomainRandomization(CountingEnv(), draw_max_steps)
    env = StartStates(inner, inner.reset)
    _, state = env.reset(jax.random.key(0))
    assert "max_steps" in state.env_state.fields
    env.with_rng(state, jax.random.key(1))
