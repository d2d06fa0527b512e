"""Actions, and observations for others, are in float64 within the bounds of a float64 space."""

from functools import partial
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import envrax
from envrax.interop import from_host, from_space, to_dm_env, to_gymnasium, to_gymnasium_vec
from envrax.interop.host.arrays import as_declared
from envrax.interop.host.gymnasium_vec import from_gymnasium_vec

OWN = spaces.Dict(
    {
        "angle": spaces.Box(-np.pi, np.pi, (1,), np.float64),
        "many": spaces.Tuple(
            [
                spaces.Box(
                    np.array([-0.1, 0.1, -0.7]), np.array([0.1, 0.3, 0.3]), dtype=np.float64
                ),
                spaces.Discrete(3),
                spaces.MultiDiscrete([2, 5]),
            ]
        ),
    }
)


class Strict(gymnasium.Env[Any, Any]):
    """It keeps the actions that it gets."""

    observation_space = spaces.Box(-1, 1, (1,))
    action_space = OWN

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.got: list[Any] = []
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.got.append(action)
        return np.zeros(1, np.float32), 0.0, False, False, {}


class Single:
    """The same by the protocol of `from_host`."""

    def __init__(self) -> None:
        self.env = Strict()

    @property
    def got(self) -> list[Any]:
        return self.env.got

    def reset(self, seed: int) -> Any:
        return self.env.reset(seed=seed)[0]

    def step(self, action: Any) -> Any:
        return self.env.step(action)


def by_gymnasium() -> Any:
    made = SyncVectorEnv([Strict, Strict], autoreset_mode=AutoresetMode.SAME_STEP)
    return from_gymnasium_vec(made), made.envs


def by_hand() -> Any:
    batch = from_host(Single, 2, from_space(Strict.observation_space), from_space(OWN))
    return batch, batch.simulator.all


@pytest.mark.parametrize("make", [by_gymnasium, by_hand])
def test_what_is_in_our_space_is_in_that_of_the_simulator(make: Any) -> None:
    """The float32 of pi is above it, and that of 0.7 below."""
    env, simulators = make()
    state = env.reset(jax.random.key(0))[1]
    corner = partial(jax.tree.map, lambda x: np.broadcast_to(x, (2, *x.shape)))
    parts = [env.single_action_space["angle"], *env.single_action_space["many"].spaces]
    for i in range(2):
        angle, *many = (np.broadcast_to(part.limits()[i], part.shape) for part in parts)
        state = env.step(state, corner({"angle": angle, "many": tuple(many)}))[1]
    for rng in jax.random.split(jax.random.key(1), 20):
        state = env.step(state, env.action_space.sample(rng))[1]
    for simulator in simulators:
        assert len(simulator.got) == 22
        assert all(OWN.contains(action) for action in simulator.got), simulator.got[:2]
        assert simulator.got[1]["angle"] == np.pi and simulator.got[0]["angle"] == -np.pi


class Edge(envrax.EpisodicEnv[envrax.Box, envrax.Box, envrax.EnvState, envrax.EnvConfig]):
    """It stands at the float32 of pi."""

    @property
    def observation_space(self) -> envrax.Box:
        return envrax.Box(-np.pi, np.pi, (2,), np.float64)

    @property
    def action_space(self) -> envrax.Box:
        return envrax.Box(-0.1, 0.1, (1,), np.float64)

    def begin(self, key: Any, **episode: Any) -> Any:
        return envrax.EnvState(**episode)

    def advance(self, state: Any, action: Any) -> Any:
        return state, jax.numpy.float32(0), state.step >= 1

    def observe(self, state: Any) -> Any:
        return jax.numpy.full(2, jax.numpy.pi)


def test_observations_are_in_the_space_of_a_bridge() -> None:
    for env in (to_gymnasium(Edge()), to_gymnasium_vec(envrax.VecEnv(Edge(), 2))):
        obs, _ = env.reset(seed=0)
        seen = [obs, *(env.step(env.action_space.sample())[0] for _ in range(3))]
        assert all(env.observation_space.contains(obs) for obs in seen)
    env = to_dm_env(Edge(), seed=0)
    env.observation_spec().validate(env.reset().observation)


def test_actions_keep_their_order_and_those_outside_stay_outside() -> None:
    draw = np.random.default_rng(0)
    edges = np.array([0.1, 0.7, np.pi, 1e-320, 1e-40, 1e300, np.inf, 0, 1 / 3, 16777217.0])
    edges = np.concatenate([edges, draw.normal(size=30), draw.normal(size=30) * 1e30])
    for low, high in np.sort(draw.choice([*edges, *-edges], (300, 2))):
        if low == np.inf or high == -np.inf:
            continue
        space = envrax.Box(low, high, (), np.float64)
        ends = space.limits()
        with np.errstate(all="ignore"):
            near = [np.nextafter(ends, side, dtype=np.float32) for side in (-np.inf, 0, np.inf)]
        given = np.sort(np.concatenate([ends, *near, draw.normal(size=9), [0]]).astype(np.float32))
        given = given[(given == 0) | (abs(given) > 2e-38)]  # JAX takes smaller ones for 0
        got = as_declared(space, given)
        assert got.dtype == np.float64 and (got[1:] >= got[:-1]).all()
        for action, handed in zip(given, got, strict=True):
            if space.contains(jax.numpy.asarray(action)):
                assert low <= handed <= high and np.allclose(handed, action, rtol=1e-7, atol=2e-38)
            else:
                assert handed == action
