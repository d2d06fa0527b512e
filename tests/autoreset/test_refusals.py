"""What environments return and batches refuse."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from fakes import NestedEnv, VectorEnv, VectorState

import envrax
from envrax import Box, Dict, Discrete, JitWrapper, RecordEpisodeStatistics, Tuple, VecEnv


class Noted(VectorEnv):
    """Adds entries to its info, and may replace the observation of a reset."""

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
        step(wrap(Noted(info, obs)))


class Returns(VectorEnv):
    """Changes what a step returns."""

    def __init__(self, **changed: Any) -> None:
        super().__init__()
        self.changed = changed

    def step(self, state: VectorState, action: Any) -> tuple[Any, ...]:
        names = "obs", "state", "reward", "done", "info"
        returned = dict(zip(names, super().step(state, action), strict=True))
        changed = {name: change(returned[name]) for name, change in self.changed.items()}
        return tuple({**returned, **changed}.values())


def _evaluate(env: Any) -> Any:
    return envrax.evaluate(env, None, jax.random.key(0), 2)


def _rollout(env: Any) -> Any:
    return envrax.rollout(env, None, envrax.start(env, jax.random.key(0)), 2)


@pytest.mark.parametrize("take", [step, _evaluate, _rollout])
@pytest.mark.parametrize(
    ("changed", "noun"),
    [
        ({"info": lambda _: None}, "info to be a dict with str keys; got None"),
        ({"info": lambda _: [1]}, r"info to be a dict with str keys; got \[1\]"),
        ({"info": lambda _: {1: 2, "a": 3}}, "info to be a dict with str keys; got {1: 2, 'a': 3}"),
        ({"done": lambda _: None}, r"done of shape \(\), bool; got None"),
        (
            {"state": lambda state: state.replace(rng=jax.random.key_data(state.rng))},
            "new_state.rng of key<fry>, as in the state before; got uint32",
        ),
    ],
)
def test_what_a_step_returns_is_checked_where_it_is_taken(
    take: Any, changed: Any, noun: str
) -> None:
    with pytest.raises(TypeError, match=noun):
        take(Returns(**changed))


def test_an_info_with_a_final_obs_of_its_own() -> None:
    env = Noted({"final_obs": jnp.float32(1)})
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
