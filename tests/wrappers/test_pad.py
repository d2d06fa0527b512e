"""`PadObservation`, `PadAction` and `pad_spaces`: equal spaces for one policy."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CoinEnv, PixelEnv, VectorEnv

import envrax
from envrax import Box, Discrete, PadAction, PadObservation, VecEnv, pad_spaces
from envrax.classic import Acrobot, CartPole, Pendulum
from envrax.multi_agent import agents_as_slots
from envrax.testing import CountingEnv, MaskedEnv, NestedEnv, NimWorld

KEY = jax.random.key(0)
CHOICES: dict[str, Any] = {
    "pole": CartPole(),
    "arm": Acrobot(),
    "count": CountingEnv(),
    "masked": MaskedEnv(),
}


@pytest.mark.parametrize("name", CHOICES)
def test_a_padded_environment_is_the_environment(name: str) -> None:
    """With its own choices: the same steps, and zeros behind the observation."""
    env = CHOICES[name]
    padded = pad_spaces(CHOICES)[name]
    (obs, state), (wide, padded_state) = env.reset(KEY), padded.reset(KEY)
    n = obs.size
    for key in jax.random.split(jax.random.key(1), 20):
        assert wide[:n].tolist() == obs.ravel().tolist() and not wide[n:].any()
        mask, wide_mask = env.action_mask(state), padded.action_mask(padded_state)
        legal = np.ones(env.action_space.n, bool) if mask is None else mask
        assert wide_mask.tolist() == [*legal, *[False] * (3 - len(legal))]
        action = padded.action_space.sample(key, wide_mask)
        obs, state, reward, done, _ = env.step(state, action)
        wide, padded_state, *rest, _ = padded.step(padded_state, action)
        assert rest == [reward, done]
        if done:
            break


def test_spaces_are_equal_and_one_policy_plays_all() -> None:
    envs = pad_spaces(CHOICES)
    assert list(envs) == list(CHOICES)
    assert len({repr(env.observation_space) for env in envs.values()}) == 1
    fleet = envrax.MultiVecEnv({name: envrax.VecEnv(env, 2) for name, env in envs.items()})
    obs, states = fleet.reset(KEY)
    assert np.concatenate([*obs.values()]).shape == (8, 6)
    assert np.concatenate([*fleet.action_masks(states).values()]).shape == (8, 3)

    @jax.jit
    def policy(params: Any, obs: Any, rng: Any, mask: Any) -> Any:
        return jax.random.categorical(rng, jnp.where(mask, obs @ params, -1e9)), params, None

    params = jnp.ones((6, 3))
    for env in envs.values():
        found = envrax.evaluate(env, policy, KEY, 4, policy_state=params, max_steps=30)
        assert np.isfinite(found.returns).all()


def test_images_are_filled_up_along_each_axis() -> None:
    small = envrax.ResizeObservation(PixelEnv(), h=5, w=4)
    envs = pad_spaces([small, PixelEnv()])
    assert [env.observation_space.shape for env in envs] == [PixelEnv().observation_space.shape] * 2
    image, _ = small.reset(KEY)
    padded, _ = envs[0].reset(KEY)
    assert padded.dtype == jnp.uint8 and (padded[:5, :4] == image).all()
    assert padded.sum() == image.sum()


def test_arrays_of_actions_are_cut() -> None:
    torque = envrax.RescaleAction(Pendulum(), min_action=-1.0, max_action=1.0)
    pendulum, coin = pad_spaces([torque, CoinEnv()])
    assert pendulum.action_space == coin.action_space == Box(-1.0, 1.0, 2)
    assert pendulum.action(jnp.array([0.5, -0.5])).tolist() == [0.5]


def test_agents_of_a_world_have_equal_spaces() -> None:
    (world,) = pad_spaces([NimWorld()])
    assert len({repr(x) for x in world.observation_space.spaces.values()}) == 1
    assert agents_as_slots(envrax.VecEnv(world, 2)).n_slots == 2 * len(world.agents)


def test_a_choice_that_is_not_there_is_the_last() -> None:
    assert PadAction(CartPole(), Discrete(5)).action(jnp.int32(4)) == 1


BAD: list[Any] = [
    (partial(pad_spaces, CartPole()), "a list or a dict"),
    (partial(pad_spaces, []), "a list or a dict"),
    (partial(pad_spaces, [VecEnv(CartPole(), 2)]), "`VecEnv` goes around"),
    (partial(pad_spaces, [CartPole(), Pendulum()]), "all Discrete"),
    (partial(pad_spaces, [CoinEnv(), Pendulum()]), "begins with"),
    (partial(pad_spaces, [NestedEnv()]), "all Discrete"),
    (partial(PadAction, CartPole(), Discrete(1)), "begins with"),
    (partial(PadAction, CartPole(), Box(0, 1, 1)), "begins with"),
    (partial(PadObservation, NestedEnv(), Box(0, 1, 9)), "observations in a Box"),
    (partial(PadObservation, VectorEnv(), Box(-jnp.inf, jnp.inf, 2)), "filled up with zeros"),
    (partial(PadObservation, VectorEnv(), Box(-jnp.inf, jnp.inf, (3, 1))), "filled up with zeros"),
    (partial(PadObservation, VectorEnv(), Box(-1.0, 1.0, 4)), "filled up with zeros"),
    (partial(PadObservation, VectorEnv(), Box(-9, 9, 4, jnp.int32)), "filled up with zeros"),
    (partial(PadObservation, VectorEnv(), Box(-jnp.inf, jnp.inf, 4, jnp.float16)), "with zeros"),
    (partial(PadObservation, PixelEnv(), Discrete(3)), "filled up with zeros"),
]


@pytest.mark.parametrize(("call", "said"), BAD)
def test_spaces_that_do_not_fit_are_refused(call: Any, said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        call()
