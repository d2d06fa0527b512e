"""Members of a fleet whose episodes depend on the one before."""

from typing import Any

import jax
import pytest
from fakes import CoinConfig, CoinEnv, VectorConfig, VectorEnv
from helpers import assert_trees_equal
from reset_after_envs import CountEpisodes, CountState
from wrapper_rows import draw_gravity

from envrax import DomainRandomization, MultiVecEnv, VecEnv


class CountInTwos(CountEpisodes):
    """Its reset and step are those of `CountEpisodes`."""

    def reset_after(self, state: CountState) -> tuple[Any, CountState]:
        obs, first = super().reset_after(state)
        return obs, first.replace(episodes=first.episodes + 1)


@pytest.mark.slow
def test_a_fleet_equals_its_members() -> None:
    """Also two of the same environment, which step as one batch."""
    coin = CoinEnv(CoinConfig(end_rate=0.5))
    counted, gravity = CountEpisodes(coin), VectorEnv(VectorConfig(max_steps=3))
    members: list[Any] = [
        VecEnv(counted, 4),
        VecEnv(CountInTwos(coin), 4),
        VecEnv(DomainRandomization(gravity, draw_gravity, redraw=False), 2),
        VecEnv(counted, 4),
    ]
    fleet = MultiVecEnv(members)
    rng = jax.random.key(0)
    obs, states = fleet.reset(rng)
    alone = [m.reset(key)[1] for m, key in zip(members, jax.random.split(rng, 4), strict=True)]
    actions = [member.action_space.sample(jax.random.key(0)) for member in members]
    for _ in range(8):
        obs, states, *_ = fleet.step(states, actions)
        returned = [m.step(*both) for m, *both in zip(members, alone, actions, strict=True)]
        alone = [state for _, state, *_ in returned]
        assert_trees_equal((obs, states), ([first for first, *_ in returned], alone))
    assert int(states[1].episodes.max()) > int(states[0].episodes.max()) > 1
