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
from helpers import assert_trees_close, assert_trees_equal
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


def counter() -> Any:
    return jitted(CounterEnv())


def nested() -> Any:
    return jitted(NestedEnv())


# Equal, unequal and uncompiled ones, wrapped and not, in no order.
SINGLES: list[Callable[[], Any]] = [
    counter,
    nested,
    CounterEnv,
    lambda: jitted(FrameStackObservation(PixelEnv())),
    counter,
    lambda: ClipReward(jitted(CounterEnv())),
    lambda: jitted(CounterEnv(VectorConfig(max_steps=3))),
    nested,
    lambda: jitted(CoinEnv()),
]


class CountInTwos(CountEpisodes):
    """Its reset and step are those of `CountEpisodes`."""

    def reset_after(self, state: CountState) -> tuple[Any, CountState]:
        obs, first = super().reset_after(state)
        return obs, first.replace(episodes=first.episodes + 1)


COIN = CoinEnv(CoinConfig(end_rate=0.5))


def counters() -> Any:
    return VecEnv(CounterEnv(), 3)


def coins() -> Any:
    return VecEnv(COIN, 4)


def quick() -> Any:
    return VecEnv(CounterEnv(), 3, autoreset=Select())


def quick_coins() -> Any:
    return VecEnv(COIN, 4, autoreset=Select())


def nests() -> Any:
    return VecEnv(NestedEnv(), 2, final_obs=True)


def scene() -> Any:
    return Scene(5)


def counted() -> Any:
    return VecEnv(CountEpisodes(COIN), 4)


BATCHES: list[Callable[[], Any]] = [
    counters,
    coins,
    counters,
    nests,
    lambda: VecEnv(CounterEnv(), 3, jit_compile=False),
    scene,
    coins,
    quick_coins,
    lambda: VecEnv(RecordEpisodeStatistics(EpisodeDiscount(CounterEnv())), 2),
    scene,
    nests,
    counted,
    lambda: VecEnv(CountInTwos(COIN), 4),
    counted,
    lambda: VecEnv(DomainRandomization(VectorEnv(), draw_gravity, redraw=False), 2),
]


def keyed(members: list[Any]) -> dict[str, Any]:
    """Keys in an order that is not sorted, as JAX would return them."""
    return {f"{len(members) - i}": member for i, member in enumerate(members)}


def listed(container: Any) -> list[Any]:
    return list(container.values()) if isinstance(container, dict) else container


SLOW = pytest.mark.slow
FEW = [quick, quick_coins, quick]


@pytest.mark.parametrize(
    ("fleet", "recipes", "form", "keys"),
    [
        pytest.param(MultiEnv, SINGLES, list, jax.random.PRNGKey, marks=SLOW),
        pytest.param(MultiEnv, SINGLES, keyed, jax.random.key, marks=SLOW),
        pytest.param(MultiVecEnv, BATCHES, list, jax.random.PRNGKey, marks=SLOW),
        pytest.param(MultiVecEnv, BATCHES, keyed, jax.random.key, marks=SLOW),
        pytest.param(MultiVecEnv, FEW, keyed, jax.random.key),
    ],
)
def test_a_fleet_equals_its_members(
    fleet: Any, recipes: list[Callable[[], Any]], form: Any, keys: Any
) -> None:
    together = fleet(form([recipe() for recipe in recipes]))
    made = {recipe: recipe() for recipe in recipes}  # compiled once where equal, to save time
    alone = [made[recipe] for recipe in recipes]
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
    fleet = MultiVecEnv([counters(), scene(), counters(), coins(), scene()])
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


def test_a_subclass_with_a_step_of_its_own_keeps_it() -> None:
    class Twice(VecEnv[Any, Any, Any, Any]):
        def step(self, state: Any, actions: Any) -> Any:
            return super().step(super().step(state, actions)[1], actions)

    fleet = MultiVecEnv([Twice(CounterEnv(), 2, autoreset=Select()) for _ in range(2)])
    obs, states = fleet.reset(jax.random.key(0))
    obs, states, *_ = fleet.step(states, [np.zeros(2, np.int32)] * 2)
    assert [int(s.step[0]) for s in states] == [2, 2]


def test_members_on_the_host_step_beside_the_compiled_ones() -> None:
    fleet = MultiVecEnv({"gym": OnTheHost(3), "scene": Scene(4), "jax": VecEnv(CounterEnv(), 2)})
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
