"""A fleet returns what its members return by themselves, with the keys that it splits for them."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from batched_fakes import OnTheHost, Scene
from fakes import CoinConfig, CoinEnv, CounterEnv, NestedEnv, PixelEnv, VectorConfig, VectorEnv
from helpers import assert_trees_close, assert_trees_equal

from envrax import (
    ClipReward,
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


def counters() -> Any:
    return VecEnv(CounterEnv(), 3)


def coins() -> Any:
    return VecEnv(CoinEnv(CoinConfig(end_rate=0.5)), 4)


def nests() -> Any:
    return VecEnv(NestedEnv(), 2, final_obs=True)


def scene() -> Any:
    return Scene(5)


BATCHES: list[Callable[[], Any]] = [
    counters,
    coins,
    counters,
    nests,
    lambda: VecEnv(CounterEnv(), 3, jit_compile=False),
    scene,
    coins,
    lambda: VecEnv(CoinEnv(CoinConfig(end_rate=0.5)), 4, autoreset=Select()),
    lambda: VecEnv(RecordEpisodeStatistics(EpisodeDiscount(CounterEnv())), 2),
    scene,
    nests,
]


def as_dict(members: list[Any]) -> dict[str, Any]:
    """Keys in an order that is not sorted, as JAX would return them."""
    return {f"{len(members) - i}-{m.name}": m for i, m in enumerate(members)}


def listed(container: Any) -> list[Any]:
    return list(container.values()) if isinstance(container, dict) else container


SLOW = pytest.mark.slow
LIST, DICT = (list, jax.random.PRNGKey), (as_dict, jax.random.key)
SINGLE, VEC = (MultiEnv, SINGLES), (MultiVecEnv, BATCHES)
FEW = (MultiVecEnv, [counters, coins, counters, scene])


@pytest.mark.parametrize(
    ("fleet", "recipes", "form", "keys"),
    [
        pytest.param(*SINGLE, *LIST, id="single-list-legacy", marks=SLOW),
        pytest.param(*SINGLE, *DICT, id="single-dict-typed", marks=SLOW),
        pytest.param(*VEC, *LIST, id="vec-list-legacy", marks=SLOW),
        pytest.param(*VEC, *DICT, id="vec-dict-typed", marks=SLOW),
        pytest.param(*FEW, *DICT, id="few-dict-typed"),
    ],
)
def test_a_fleet_equals_its_members(
    fleet: Any, recipes: list[Callable[[], Any]], form: Any, keys: Any
) -> None:
    together = fleet(form([recipe() for recipe in recipes]))
    made = {recipe: recipe() for recipe in recipes}  # compiled once where equal, to save time
    alone = [made[recipe] for recipe in recipes]
    rngs = jax.random.split(keys(3), len(alone))
    obs, states = together.reset(keys(3))
    theirs = [member.reset(rng) for member, rng in zip(alone, rngs, strict=True)]
    if form is as_dict:
        assert list(obs) == list(states) == list(as_dict(alone))
    for t in range(STEPS):
        returned = together.step(states, together._container.build(actions_of(alone, t)))
        states = returned[1]
        ours = zip(*map(listed, returned), strict=True)
        theirs = [
            member.step(last[1], action)
            for member, last, action in zip(alone, theirs, actions_of(alone, t), strict=True)
        ]
        for mine, yours in zip(ours, theirs, strict=True):
            assert_trees_equal(mine, yours)
        if form is as_dict:
            assert all(list(part) == list(as_dict(alone)) for part in returned)


def actions_of(members: list[Any], t: int) -> list[Any]:
    return [member.action_space.sample(jax.random.key(t)) for member in members]


@pytest.mark.slow
@pytest.mark.parametrize("transform", ["scan", "jit", "vmap"])
def test_inside_the_callers_own_transform(transform: str) -> None:
    fleet = MultiVecEnv([counters(), scene(), counters(), coins(), scene()])
    actions = actions_of(fleet.vec_envs, 0)
    _, states = fleet.reset(jax.random.key(0))
    one = fleet.step(states, actions)[1]
    if transform == "jit":
        # Together with XLA's choices for a larger program: floats to the last bit.
        assert_trees_close(jax.jit(fleet.step)(states, actions)[1], one, rtol=1e-6)
    elif transform == "scan":
        stepped = jax.jit(
            lambda s: jax.lax.scan(lambda s, _: (fleet.step(s, actions)[1], None), s, length=2)[0]
        )(states)
        assert_trees_close(stepped, fleet.step(one, actions)[1], rtol=1e-6)
    else:
        many = jax.vmap(fleet.reset)(jax.random.split(jax.random.key(1), 2))
        twice = jax.tree.map(lambda x: np.stack([x, x]), actions)
        _, stepped, *_ = jax.vmap(fleet.step)(many[1], twice)
        slot = jax.tree.map(lambda x: x[1], (many[1], stepped))
        assert_trees_close(slot[1], fleet.step(slot[0], actions)[1], rtol=1e-6)


def test_gradients_reach_through_a_fleet() -> None:
    """Equal members and unequal ones, against the members by themselves."""
    envs = [VectorEnv(), jitted(VectorEnv()), jitted(VectorEnv())]

    def score(step: Any, pos: jax.Array) -> Any:
        states = [env.reset(jax.random.key(i))[1].replace(pos=pos) for i, env in enumerate(envs)]
        return sum(step(states, [2, 1, 2])[2])

    multi = jax.grad(lambda pos: score(MultiEnv(envs).step, pos))(np.ones(3, np.float32))
    alone = jax.grad(
        lambda pos: score(
            lambda s, a: list(
                zip(*[e.step(x, y) for e, x, y in zip(envs, s, a, strict=True)], strict=True)
            ),
            pos,
        )
    )(np.ones(3, np.float32))
    np.testing.assert_allclose(multi, alone, rtol=1e-6)


def test_a_subclass_with_a_step_of_its_own_keeps_it() -> None:
    class Twice(VecEnv[Any, Any, Any, Any]):
        def step(self, state: Any, actions: Any) -> Any:
            return super().step(super().step(state, actions)[1], actions)

    fleet = MultiVecEnv([Twice(CounterEnv(), 2), Twice(CounterEnv(), 2)])
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
        actions = {
            "scene": np.full(4, t % 3),
            "gym": np.asarray([0, 1, t % 2]),
            "jax": np.zeros(2, np.int32),
        }
        obs, states, rewards, dones, infos = fleet.step(states, actions)
        theirs = alone.step(None, actions["gym"])
        assert_trees_equal(
            (obs["gym"], rewards["gym"], dones["gym"], infos["gym"]), (theirs[0], *theirs[2:])
        )
        assert list(obs) == ["gym", "scene", "jax"]
    gym = fleet.vec_envs["gym"]
    assert gym.steps == 60
    fleet.close()
    assert gym.closed
