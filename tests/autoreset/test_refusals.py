"""What an environment returns that no batch can hold is refused in a sentence."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from fakes import NestedEnv, VectorEnv, VectorState

import envrax
from envrax import Box, Dict, Discrete, JitWrapper, RecordEpisodeStatistics, Tuple, VecEnv


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


class Described(NestedEnv):
    """Says something else of its observations."""

    def __init__(self, **entries: Any) -> None:
        super().__init__()
        self.entries = entries

    @property
    def observation_space(self) -> Dict:
        return Dict(**{**super().observation_space.spaces, **self.entries})


@pytest.mark.parametrize(
    ("entries", "error", "said"),
    [
        (
            {"image": Box(0, 255, (2, 3), jnp.uint8)},
            ValueError,
            r"obs\['image'\] of shape \(2, 3\), uint8; got \(2, 2\) uint8. Return what",
        ),
        (
            {"both": Tuple((Discrete(7), Box(-9, 9, (2,), jnp.int32)))},
            TypeError,
            r"obs\['both'\]\[1\] of shape \(2,\), int32; got \(2,\) float32. Cast it",
        ),
        ({"both": Tuple((Discrete(7),))}, ValueError, r"obs\['both'\] to be a tuple of length 1"),
        ({"more": Discrete(2)}, ValueError, r"obs to be a dict with keys .*'more'\]; got"),
    ],
)
def test_observations_that_the_space_does_not_describe(entries: Any, error: Any, said: str) -> None:
    env = RecordEpisodeStatistics(Described(**entries))
    for begin in (VecEnv(env, 2).reset, lambda rng: envrax.start(env, rng)):
        with pytest.raises(error, match=rf"Described.reset: expected {said}"):
            begin(jax.random.key(0))


def test_another_dtype_of_that_kind_is_left_to_the_checker() -> None:
    VecEnv(Described(image=Box(0, 255, (2, 2), jnp.int32)), 2).reset(jax.random.key(0))


class Keeps(VectorEnv):
    """Sets an attribute in a method."""

    def __init__(self, kept: Any) -> None:
        super().__init__()
        self.kept = kept

    def reset(self, rng: jax.Array) -> tuple[Any, VectorState]:
        obs, state = super().reset(rng)
        self.count = self.kept(state)
        return obs, state
