"""Members of a fleet whose episodes depend on the one before."""

from typing import Any

import jax
from fakes import CoinConfig, CoinEnv, VectorConfig, VectorEnv
from helpers import assert_trees_equal
from reset_after_envs import CountEpisodes, CountState
from wrapper_rows import draw_gravity

from envrax import DomainRandomization, MultiVecEnv, TimeLimit, VecEnv


class CountInTwos(CountEpisodes):
    """Its reset and step are those of `CountEpisodes`."""

    def reset_after(self, state: CountState) -> tuple[Any, CountState]:
        obs, first = super().reset_after(state)
        return obs, first.replace(episodes=first.episodes + 1)


def coins(wrapper: Any, n: int = 4) -> Any:
    return VecEnv(wrapper(CoinEnv(CoinConfig(end_rate=0.5))), n)


def drawn_once() -> Any:
    env = VectorEnv(VectorConfig(max_steps=3))
    return VecEnv(DomainRandomization(env, draw_gravity, redraw=False), 2)


def test_a_fleet_equals_its_members() -> None:
    def without(env: Any) -> Any:
        return env

    recipes = [
        *(lambda: coins(CountEpisodes), lambda: coins(CountInTwos), drawn_once),
        *(lambda: coins(CountEpisodes), lambda: coins(without), drawn_once),
        lambda: coins(lambda env: TimeLimit(CountEpisodes(env), max_steps=2)),
    ]
    members = [recipe() for recipe in recipes]
    fleet = MultiVecEnv([recipe() for recipe in recipes])
    rng = jax.random.key(0)
    obs, states = fleet.reset(rng)
    alone = [m.reset(key)[1] for m, key in zip(members, jax.random.split(rng, 7), strict=True)]
    actions = [member.action_space.sample(jax.random.key(0)) for member in members]
    for _ in range(8):
        obs, states, *_ = fleet.step(states, actions)
        returned = [m.step(*both) for m, *both in zip(members, alone, actions, strict=True)]
        alone = [state for _, state, *_ in returned]
        assert_trees_equal((obs, states), ([first for first, *_ in returned], alone))
    assert int(states[1].episodes.max()) > int(states[0].episodes.max()) > 1
    obs, state, *_ = fleet.step_at(1, states[1], actions[1])
    assert_trees_equal(state, members[1].step(alone[1], actions[1])[1])
