"""Every wrapper and function of the package around worlds: applied to each agent, or refused."""

import re
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CoinEnv, NestedEnv, Pair, PixelEnv, VectorEnv
from helpers import assert_trees_close, assert_trees_equal, plain, random_actions, small_vec
from wrapper_rows import ROWS, in_turn

import envrax
from envrax import (
    DomainRandomization,
    FrameStackObservation,
    MultiVecEnv,
    NormalizeObservation,
    RecordEpisodeStatistics,
    ResizeObservation,
    StickyAction,
    TimeLimit,
    TransformObservation,
    evaluate,
    evaluate_grid,
    rollout,
    start,
)
from envrax.testing import ChaseWorld, NimWorld
from envrax.wrappers import vector

KEY = jax.random.key(0)
PAGE = (Path(__file__).parents[2] / "docs/advanced/several-agents.md").read_text(encoding="utf-8")

# How the public wrappers treat a world whose agents are copies of one env: `each` gives every agent
# what the wrapper gives to that env alone; `world` wraps the world; `no` refuses it.
ALONE: dict[str, tuple[Any, Any]] = {
    name: (factory, kinds[0])
    for name, (factory, kinds) in ROWS.items()
    if name[0].isupper() and name not in ("Wrapper", "DomainRandomization", "EpisodicLife")
} | {
    "ResizeObservation": (ResizeObservation(h=7, w=5), PixelEnv),
    "NormalizeObservation": (NormalizeObservation, PixelEnv),
    "FrameStackObservation": (FrameStackObservation(n_stack=3), PixelEnv),
    "key": (ResizeObservation(h=3, w=3, key="image"), NestedEnv),
    "stack of a key": (FrameStackObservation(n_stack=2, key="image"), NestedEnv),
}
# Most of them, several in a program.
STACKS: dict[str, tuple[str, ...]] = {
    "images": ("GrayscaleObservation", "ResizeObservation", "FrameStackObservation"),
    "shapes": (
        "DtypeObservation",
        "RescaleObservation",
        "ReshapeObservation",
        "FlattenObservation",
    ),
    "floats": (
        *("NanGuard", "JitWrapper", "TimeLimit", "TransformAction", "RescaleAction", "ClipAction"),
        *("RepeatAction", "ClipReward", "TransformReward", "EpisodeDiscount", "ExpandDims"),
    ),
}
STACKED = {name for names in STACKS.values() for name in names}
ALONE |= {
    stack: (
        in_turn(*(ALONE[name][0] for name in names)),
        CoinEnv if "NanGuard" in names else PixelEnv,
    )
    for stack, names in STACKS.items()
}
OF_THE_WORLD = {"StartStates", "StickyAction", "RecordEpisodeStatistics"}
REFUSED = {"AtariPreprocessing", "MaxAndSkipObservation", "TimeAwareObservation"}


QUICK = {"FilterObservation", "RescaleAction", *REFUSED}


def marked(name: str) -> Any:
    tier = "exhaustive" if name in STACKED else "slow"
    return name if name in QUICK else pytest.param(name, marks=getattr(pytest.mark, tier))


@pytest.mark.parametrize("name", [*map(marked, ALONE)])
def test_a_wrapper_does_to_each_agent_what_it_does_to_one(name: str) -> None:
    factory, env_class = ALONE[name]
    world = Pair(env_class())
    if name in REFUSED:
        with pytest.raises(TypeError, match=name):
            factory(world)
        return
    env = factory(world)
    assert env.agents == world.agents
    actions = jax.device_get(random_actions(env.action_space, (4,)))
    alone: Any = None if name in OF_THE_WORLD else factory(env_class())
    compiled: Any = jax.jit if env.traceable else lambda f: f
    step, step_alone = compiled(env.step), alone and compiled(alone.step)
    reset_alone = alone and compiled(alone.reset)
    keys = dict(zip(world.agents, jax.random.split(KEY, 3)[1:], strict=True))
    begun = alone and {agent: reset_alone(key) for agent, key in keys.items()}
    obs, state = compiled(env.reset)(KEY)
    assert obs in env.observation_space
    for t in range(4):
        action = jax.tree.map(lambda x, t=t: x[t], actions)
        obs, state, reward, done, _ = step(state, action)
        assert obs in env.observation_space
        if begun:
            out = {agent: step_alone(begun[agent][1], action[agent]) for agent in begun}
            assert_trees_equal(obs, {agent: x[0] for agent, x in out.items()})
            assert_trees_equal(reward, {agent: x[2] for agent, x in out.items()})
            begun = {agent: x[:2] for agent, x in out.items()}
        if np.any(state.done):
            break


WORLDS = {"alike": Pair(CoinEnv()), "unlike": ChaseWorld(), "turns": NimWorld()}
# What fits any world that has its spaces; the wrapper's own needs (images, floats) are as always.
ANY: dict[str, Any] = {
    name: ROWS[name][0]
    for name in (
        *("NanGuard", "JitWrapper", "TimeLimit", "StickyAction", "RepeatAction", "ClipReward"),
        *("TransformReward", "DelayObservation", "FlattenObservation", "RecordEpisodeStatistics"),
        *("EpisodeDiscount", "ExpandDims", "StartStates"),
    )
} | {"TransformObservation": TransformObservation(func=lambda x: x)}
ANY["stack"] = in_turn(*(ANY[name] for name in [*ANY][:-2]))


def wrapped_worlds() -> Iterator[Any]:
    """A stack meets every world in the slow tier, and each wrapper in the exhaustive one."""
    for name, kind in product(ANY, WORLDS):
        slow = pytest.mark.slow if name == "stack" else pytest.mark.exhaustive
        quick = name == "RecordEpisodeStatistics" and kind == "turns"
        yield pytest.param(name, kind, marks=[] if quick else slow)


@pytest.mark.parametrize(("name", "kind"), [*wrapped_worlds()])
def test_slots_of_a_wrapped_world_do_what_it_does_alone(name: str, kind: str) -> None:
    """The key of slot i is the i-th; episodes go on by `reset_after`."""
    env = ANY[name](WORLDS[kind])
    batch, n = small_vec(env, 2), 6
    actions = jax.device_get(random_actions(env.action_space, (n, 2)))
    reset, step, reset_after = map(jax.jit, (env.reset, env.step, env.reset_after))
    _, state = batch.reset(KEY)
    slots = [reset(rng) for rng in jax.random.split(KEY, 2)]
    for t in range(n):
        action = jax.tree.map(lambda x, t=t: x[t], actions)
        obs, state, *rest = batch.step(state, action)
        for i in range(2):
            alone, last, *others = step(slots[i][1], jax.tree.map(lambda x, i=i: x[i], action))
            slots[i] = reset_after(last) if bool(last.done) else (alone, last)
            mine = jax.tree.map(lambda x, i=i: plain(x)[i], (obs, state, tuple(rest)))
            theirs = jax.tree.map(plain, (*slots[i], tuple(others)))
            assert_trees_equal(mine, theirs)


def test_returns_by_agent_are_sums_of_rewards_by_agent() -> None:
    world = RecordEpisodeStatistics(TimeLimit(NimWorld(), 12))
    env = small_vec(world, 3)
    steps = jax.device_get(rollout(env, None, start(env, KEY), 40)[1])
    assert set(steps.reward) == set(world.agents) == set(steps.info["episode"]["r"])
    for agent in world.agents:
        for slot in range(3):
            (end, *_) = np.flatnonzero(steps.done[:, slot])
            total = np.sum(steps.reward[agent][: end + 1, slot], dtype=np.float32)
            np.testing.assert_allclose(
                steps.info["episode"]["r"][agent][end, slot], total, rtol=1e-6, atol=1e-6
            )


class Only(envrax.Wrapper[Any, Any, Any, Any]):
    """The reward of one agent as the one reward."""

    def __init__(self, env: Any, agent: str) -> None:
        super().__init__(env)
        self.agent = agent

    @property
    def agents(self) -> tuple[str, ...]:
        return ()

    def step(self, state: Any, action: Any) -> Any:
        obs, state, reward, done, info = self.env.step(state, action)
        return obs, state, reward[self.agent], done, info


def normalized_steps(env: Any, actions: Any) -> list[Any]:
    """Observations and rewards, both by running statistics."""
    batch = vector.NormalizeReward(vector.NormalizeObservation(small_vec(env, 4)))
    _, state = batch.reset(KEY)
    found: list[Any] = []
    for t in range(6):
        action = jax.tree.map(lambda x, t=t: x[t], actions)
        obs, state, reward, *_ = batch.step(state, action)
        found.append((obs, reward))
    return found


@pytest.mark.slow
def test_each_agent_has_running_statistics_of_its_own() -> None:
    world = Pair(VectorEnv())
    actions = jax.device_get(random_actions(world.action_space, (6, 4)))
    both = normalized_steps(world, actions)
    expected = normalized_steps(Only(world, "right"), actions)
    # Two programs, which XLA may round differently.
    found = [(obs, reward["right"]) for obs, reward in both]
    assert_trees_close(found, expected, rtol=1e-5, atol=1e-6)


def test_fleets_take_worlds() -> None:
    fleet = MultiVecEnv({kind: small_vec(WORLDS[kind], 2) for kind in ("unlike", "turns")})

    def begun_and_stepped(env: Any, action: Any) -> Any:
        obs, state = env.reset(KEY)
        return obs, env.step(state, action)

    actions = {kind: env.action_space.sample(KEY) for kind, env in fleet.envs.items()}
    begun, stepped = jax.eval_shape(partial(begun_and_stepped, fleet), actions)
    for kind, env in fleet.envs.items():
        expected = jax.eval_shape(partial(begun_and_stepped, env), actions[kind])
        assert expected == (begun[kind], tuple(x[kind] for x in stepped))


@pytest.mark.slow
def test_grids_and_drawn_fields_take_worlds() -> None:
    grid = evaluate_grid(NimWorld(), None, KEY, {"max_steps": [1, 4]}, 3)
    assert grid.returns["bob"].shape == (2, 3) and "max_steps=4" in str(grid)
    drawn = DomainRandomization(NimWorld(), lambda rng: {"max_steps": jnp.int32(2)})
    assert evaluate(drawn, None, KEY, 2).lengths.tolist() == [2, 2]


@pytest.mark.slow
def test_a_coin_for_each_agent_and_none_for_those_that_wait() -> None:
    world = Pair(CoinEnv())
    env = StickyAction(world, repeat_action_probability=0.5)
    first, then = (dict.fromkeys(world.agents, np.full(2, x, np.float32)) for x in (0.5, -0.5))

    def is_stuck(rng: jax.Array) -> Any:
        before, state, *_ = env.step(env.reset(rng)[1], first)
        after, *_ = env.step(state, then)
        moved = jax.tree.map(lambda a, b: a[:2] - 0.5 * b[:2], after, before)
        return {agent: jnp.abs(moved[agent] - then[agent]).max() > 1e-5 for agent in moved}

    stuck = jax.device_get(jax.jit(jax.vmap(is_stuck))(jax.random.split(KEY, 64)))
    assert 10 < stuck["left"].sum() < 54 and (stuck["left"] != stuck["right"]).any()
    nim = StickyAction(NimWorld(), repeat_action_probability=0.5)
    _, state = jax.jit(nim.reset)(KEY)
    first = next(agent for agent, acts in nim.active(state).items() if acts)
    _, state, *_ = jax.jit(nim.step)(state, {"alice": 2, "bob": 2})
    assert {agent: bool(x) for agent, x in state.has_acted.items()} == {
        agent: agent == first for agent in nim.agents
    }


def test_a_world_that_breaks_its_word_is_refused() -> None:
    class Sums(NimWorld):
        def step(self, state: Any, action: Any) -> Any:
            obs, state, reward, done, info = super().step(state, action)
            return obs, state, sum(reward.values()), done, info

    env = small_vec(Sums(), 2)
    with pytest.raises(TypeError, match="rewards"):
        env.step(env.reset(KEY)[1], env.action_space.sample(KEY))


def test_the_page_says_which_wrappers_refuse_a_world() -> None:
    three = re.search(r"three are refused.+?first: (.+?)\.", PAGE, re.DOTALL)
    assert three and {*re.findall(r"`(\w+)`", three[1])} == REFUSED


def test_a_wrapper_that_changes_more_than_each_agent_has_is_refused() -> None:
    class Tells(envrax.RewardWrapper[Any, Any, Any, Any]):
        def reward(self, reward: Any) -> Any:
            return reward

        def info(self, info: Any) -> Any:
            return {**info, "mine": 1}

    with pytest.raises(TypeError, match="Tells"):
        Tells(NimWorld())


class Logs(envrax.RewardWrapper[Any, Any, Any, Any]):
    """A wrapper of one's own, with a resource, attributes and a method."""

    def __init__(self, env: Any, log: list[str]) -> None:
        super().__init__(env)
        self.log = log

    @property
    def traceable(self) -> bool:
        return self.log is None

    def reward(self, reward: Any) -> Any:
        return self.scaled(reward)

    def scaled(self, reward: Any) -> Any:
        return reward * len(self.log)

    def close(self) -> None:
        self.log.append("closed")
        super().close()


def test_a_wrapper_of_ones_own_is_closed_and_told_apart_for_each_agent() -> None:
    class Closes(NimWorld):
        def close(self) -> None:
            log.append("world")

    log: list[str] = []
    env: Any = Logs(Closes(), log=log)
    assert not env.traceable and repr(env).startswith("Logs(Closes(")
    env.close()
    assert log == ["closed", "closed", "world"]
    assert not hasattr(env, "scaled")
    assert env.wrappers["alice"].scaled(1.0) == 3.0
    envrax.multi_agent.OneAgent(Closes(), "alice", None).close()
    assert log[3:] == ["world"]


@pytest.mark.parametrize("member", ["compile", "name", "config", "render", "active", "step"])
def test_what_is_not_applied_to_each_agent_is_not_lost(member: str) -> None:
    cls = type("Own", (Logs,), {member: property(lambda self: None)})
    with pytest.raises(TypeError, match=f"Own: expected .* overrides {member}"):
        cls(NimWorld(), log=[])
