"""A fleet returns what its members return by themselves, with the keys that it splits for them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from batched_fakes import OnTheHost, Scene
from fakes import CoinConfig, CoinEnv, CounterEnv, NestedEnv, PixelEnv, VectorConfig, VectorEnv
from helpers import assert_trees_close, assert_trees_equal, small_vec
from reset_after_envs import CountEpisodes, CountState
from wrapper_rows import draw_gravity

from envrax import (
    ClipReward,
    DomainRandomization,
    EpisodeDiscount,
    FrameStackObservation,
    JitWrapper,
    MultiEnv,
    MultiVecEnv,
    RecordEpisodeStatistics,
    VecEnv,
)
from envrax.autoreset import Select

STEPS = 6


def jitted(env: Any) -> Any:
    return JitWrapper(env, pre_warm=False)


class CountInTwos(CountEpisodes):
    """Its reset and step are those of `CountEpisodes`."""

    def reset_after(self, state: CountState) -> tuple[Any, CountState]:
        obs, first = super().reset_after(state)
        return obs, first.replace(episodes=first.episodes + 1)


COIN = CoinEnv(CoinConfig(end_rate=0.5))


# Equal, unequal and uncompiled ones, wrapped and not.
MEMBERS: dict[str, Callable[[], Any]] = {
    "counter": lambda: jitted(CounterEnv()),
    "nested": lambda: jitted(NestedEnv()),
    "uncompiled": CounterEnv,
    "frames": lambda: jitted(FrameStackObservation(PixelEnv())),
    "signs": lambda: ClipReward(jitted(CounterEnv())),
    "short": lambda: jitted(CounterEnv(VectorConfig(max_steps=3))),
    "coin": lambda: jitted(CoinEnv()),
    "counters": lambda: VecEnv(CounterEnv(), 3),
    "coins": lambda: VecEnv(COIN, 4),
    "nests": lambda: VecEnv(NestedEnv(), 2, final_obs=True),
    "eager": lambda: VecEnv(CounterEnv(), 3, jit_compile=False),
    "scene": lambda: Scene(5),
    "statistics": lambda: VecEnv(RecordEpisodeStatistics(EpisodeDiscount(CounterEnv())), 2),
    "counted": lambda: VecEnv(CountEpisodes(COIN), 4),
    "counted in twos": lambda: VecEnv(CountInTwos(COIN), 4),
    "drawn": lambda: VecEnv(DomainRandomization(VectorEnv(), draw_gravity, redraw=False), 2),
    "small counters": lambda: small_vec(CounterEnv(), 3),
    "small coins": lambda: small_vec(COIN, 4),
}
SINGLES = [
    "counter",
    "nested",
    "uncompiled",
    "frames",
    "counter",
    "signs",
    "short",
    "nested",
    "coin",
]
BATCHES = [
    *("counters", "coins", "counters", "nests", "eager", "scene", "coins", "small coins"),
    *("statistics", "scene", "nests", "counted", "counted in twos", "counted", "drawn"),
]


def keyed(members: list[Any]) -> dict[str, Any]:
    """Keys in an order that is not sorted, as JAX would return them."""
    return {f"{len(members) - i}": member for i, member in enumerate(members)}


def listed(container: Any) -> list[Any]:
    return list(container.values()) if isinstance(container, dict) else container


SLOW = pytest.mark.slow
FEW = ["small counters", "small coins", "small counters"]


@pytest.mark.parametrize(
    ("fleet", "names", "form", "keys"),
    [
        pytest.param(MultiEnv, SINGLES, keyed, jax.random.key, marks=SLOW),
        pytest.param(MultiVecEnv, BATCHES, list, jax.random.PRNGKey, marks=SLOW),
        pytest.param(MultiVecEnv, FEW, keyed, jax.random.key),
    ],
)
def test_a_fleet_equals_its_members(fleet: Any, names: list[str], form: Any, keys: Any) -> None:
    together = fleet(form([MEMBERS[name]() for name in names]))
    made = {name: MEMBERS[name]() for name in names}  # compiled once where equal, to save time
    alone = [made[name] for name in names]
    rngs = jax.random.split(keys(3), len(alone))
    returned = together.reset(keys(3))
    theirs = [member.reset(rng) for member, rng in zip(alone, rngs, strict=True)]
    for t in range(STEPS):
        if form is keyed:
            assert all(list(part) == list(keyed(alone)) for part in returned)
        ours = zip(*map(listed, returned), strict=True)
        for mine, yours in zip(ours, theirs, strict=True):
            assert_trees_equal(mine, yours)
        actions = actions_of(alone, t)
        returned = together.step(returned[1], form(actions))
        theirs = [m.step(last[1], a) for m, last, a in zip(alone, theirs, actions, strict=True)]


def actions_of(members: list[Any], t: int) -> list[Any]:
    return [member.action_space.sample(jax.random.key(t)) for member in members]


@pytest.mark.slow
def test_inside_the_callers_own_jit_vmap_and_scan() -> None:
    """Together with XLA's choices for a larger program: floats to the last bit."""
    names = "counters", "scene", "counters", "coins", "scene"
    fleet = MultiVecEnv([MEMBERS[name]() for name in names])
    actions = actions_of(fleet.vec_envs, 0)

    @jax.jit
    @jax.vmap
    def run(rng: jax.Array) -> Any:
        states = fleet.reset(rng)[1]
        return jax.lax.scan(lambda s, _: (fleet.step(s, actions)[1], None), states, length=2)[0]

    _, states = fleet.reset(jax.random.key(1))
    for _ in range(2):
        states = fleet.step(states, actions)[1]
    found = run(jnp.stack([jax.random.key(0), jax.random.key(1)]))
    assert_trees_close(jax.tree.map(lambda x: x[1], found), states, rtol=1e-6)


def test_gradients_reach_through_a_fleet() -> None:
    """Equal members and unequal ones, against the members by themselves."""
    envs = [VectorEnv(), jitted(VectorEnv()), jitted(VectorEnv())]

    def score(step: Any, pos: jax.Array) -> Any:
        states = [env.reset(jax.random.key(i))[1].replace(pos=pos) for i, env in enumerate(envs)]
        return sum(step(states, [2, 1, 2])[2])

    def alone(states: Any, actions: Any) -> Any:
        steps = [env.step(*both) for env, *both in zip(envs, states, actions, strict=True)]
        return [*zip(*steps, strict=True)]

    at = np.ones(3, np.float32)
    slopes = [jax.grad(partial(score, step)) for step in (MultiEnv(envs).step, alone)]
    found, expected = (jax.jit(slope)(at) for slope in slopes)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.slow
def test_a_subclass_with_a_step_of_its_own_keeps_it() -> None:
    class Twice(VecEnv[Any, Any, Any, Any]):
        def step(self, state: Any, actions: Any) -> Any:
            return super().step(super().step(state, actions)[1], actions)

    fleet = MultiVecEnv([Twice(CounterEnv(), 2, autoreset=Select()) for _ in range(2)])
    obs, states = fleet.reset(jax.random.key(0))
    obs, states, *_ = fleet.step(states, [np.zeros(2, np.int32)] * 2)
    assert [int(s.step[0]) for s in states] == [2, 2]


def test_members_on_the_host_step_beside_the_compiled_ones() -> None:
    fleet = MultiVecEnv({"gym": OnTheHost(3), "scene": Scene(4), "jax": small_vec(CounterEnv(), 2)})
    alone = OnTheHost(3)
    obs, states = fleet.reset(jax.random.key(0))
    first, _ = alone.reset(jax.random.split(jax.random.key(0), 3)[0])
    np.testing.assert_array_equal(obs["gym"], first)
    for t in range(60):  # past the ends of some episodes
        gym_actions = np.asarray([0, 1, t % 2])
        actions = {"scene": np.full(4, t % 3), "gym": gym_actions, "jax": np.zeros(2, np.int32)}
        obs, states, *rest = fleet.step(states, actions)
        first, _, *expected = alone.step(None, gym_actions)
        assert_trees_equal((obs["gym"], *(x["gym"] for x in rest)), (first, *expected))
    gym = fleet.vec_envs["gym"]
    assert gym.steps == 60
    fleet.close()
    assert gym.closed
