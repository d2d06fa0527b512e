"""What environments return and batches refuse."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from fakes import NestedEnv
from vec_env.test_refusals import Flawed

import envrax
from envrax import Box, Dict, Discrete, JitWrapper, RecordEpisodeStatistics, Tuple, VecEnv


def noted(info: Any, obs: Any = None) -> Any:
    """Adds entries to its info, and may replace the observation of a reset."""
    reset = None if obs is None else lambda _, state: (obs, state)
    return Flawed(reset, lambda *out: (*out[:4], {**out[4], **info}))


def step(env: Any, **options: Any) -> Any:
    """What a step of a batch returns, as shapes: nothing is compiled."""
    vec_env = VecEnv(env, 2, **options)
    _, state = jax.eval_shape(vec_env.reset, jax.random.key(0))
    return jax.eval_shape(vec_env.step, state, jnp.zeros(2, jnp.int32))


@pytest.mark.parametrize(
    ("info", "obs", "noun"),
    [
        ({"note": "fell"}, None, "info.note"),
        ({"why": {"deep": [jnp.int32(1), object]}}, None, "info.why.deep.1"),
        ({}, "here", "`obs`"),
    ],
)
@pytest.mark.parametrize("wrap", [lambda env: env, lambda env: JitWrapper(env, pre_warm=False)])
def test_a_value_that_is_no_array(wrap: Any, info: Any, obs: Any, noun: str) -> None:
    with pytest.raises(TypeError, match=noun):
        step(wrap(noted(info, obs)))


def _evaluate(env: Any) -> Any:
    return envrax.evaluate(env, None, jax.random.key(0), 2)


def _rollout(env: Any) -> Any:
    return envrax.rollout(env, None, envrax.start(env, jax.random.key(0)), 2)


@pytest.mark.parametrize("take", [step, _evaluate, _rollout])
@pytest.mark.parametrize(
    ("change", "noun"),
    [
        (lambda *out: (*out[:4], None), "info to be a dict with str keys; got None"),
        (lambda *out: (*out[:4], [1]), r"info to be a dict with str keys; got \[1\]"),
        (lambda *out: (*out[:4], {1: 2, "a": 3}), "a dict with str keys; got {1: 2, 'a': 3}"),
        (lambda o, s, r, done, i: (o, s, r, None, i), r"done of shape \(\), bool; got None"),
        (
            lambda o, s, *out: (o, s.replace(rng=jax.random.key_data(s.rng)), *out),
            "new_state.rng of key<fry>, as in the state before; got uint32",
        ),
    ],
)
def test_what_a_step_returns_is_checked_where_it_is_taken(
    take: Any, change: Any, noun: str
) -> None:
    with pytest.raises(TypeError, match=noun):
        take(Flawed(at_step=change))


def test_an_info_with_a_final_obs_of_its_own() -> None:
    env = noted({"final_obs": jnp.float32(1)})
    with pytest.raises(ValueError, match="final_obs"):
        step(env, final_obs=True)
    assert step(env)[4]["final_obs"].shape == (2,)


class Described(NestedEnv):
    """Has other entries in its observation space."""

    def __init__(self, **entries: Any) -> None:
        super().__init__()
        self.entries = entries

    @property
    def observation_space(self) -> Dict:
        return Dict(**{**super().observation_space.spaces, **self.entries})


@pytest.mark.parametrize(
    ("entries", "error", "noun"),
    [
        ({"image": Box(0, 255, (2, 3), jnp.uint8)}, ValueError, "image"),
        ({"both": Tuple((Discrete(7), Box(-9, 9, (2,), jnp.int32)))}, TypeError, r"both'\]\[1\]"),
        ({"both": Tuple((Discrete(7),))}, ValueError, "length 1"),
        ({"more": Discrete(2)}, ValueError, "more"),
    ],
)
def test_observations_that_the_space_does_not_describe(entries: Any, error: Any, noun: str) -> None:
    env = RecordEpisodeStatistics(Described(**entries))
    for begin in (VecEnv(env, 2).reset, lambda rng: envrax.start(env, rng)):
        with pytest.raises(error, match=noun):
            begin(jax.random.key(0))


def test_another_dtype_of_that_kind_is_left_to_the_checker() -> None:
    env = VecEnv(Described(image=Box(0, 255, (2, 2), jnp.int32)), 2)
    jax.eval_shape(env.reset, jax.random.key(0))
