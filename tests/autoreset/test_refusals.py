"""What an environment returns that no batch can hold is refused in a sentence."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from fakes import VectorEnv, VectorState

from envrax import JitWrapper, VecEnv


class Noted(VectorEnv):
    """Says something in its info, and in its observation at reset."""

    def __init__(self, info: Any, obs: Any = None) -> None:
        super().__init__()
        self.info, self.obs = info, obs

    def reset(self, rng: jax.Array) -> tuple[Any, VectorState]:
        obs, state = super().reset(rng)
        return obs if self.obs is None else self.obs, state

    def step(self, state: VectorState, action: Any) -> tuple[Any, ...]:
        *out, info = super().step(state, action)
        return *out, {**info, **self.info}


def step(env: Any, **options: Any) -> Any:
    vec_env = VecEnv(env, 2, **options)
    return vec_env.step(vec_env.reset(jax.random.key(0))[1], jnp.zeros(2, jnp.int32))


@pytest.mark.parametrize(
    ("info", "obs", "said"),
    [
        ({"note": "fell"}, None, "'fell' at `info.note`"),
        ({"why": {"deep": [jnp.int32(1), object]}}, None, "at `info.why.deep.1`"),
        ({}, "here", "'here' at `obs`"),
    ],
)
@pytest.mark.parametrize("wrap", [lambda env: env, lambda env: JitWrapper(env, pre_warm=False)])
def test_a_value_that_is_no_array(wrap: Any, info: Any, obs: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        step(wrap(Noted(info, obs)))


def test_an_info_with_a_final_obs_of_its_own() -> None:
    env = Noted({"final_obs": jnp.float32(1)})
    with pytest.raises(ValueError, match=r"VecEnv.step: .* 'final_obs'.* Noted.* another name"):
        step(env, final_obs=True)
    assert step(env)[4]["final_obs"].tolist() == [1.0, 1.0]
