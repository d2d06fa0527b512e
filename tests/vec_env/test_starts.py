"""`reset_where` with `starts`: episodes that begin where the caller says."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from broken_envs.drift import Drift
from fakes import NestedEnv, PixelEnv, VectorEnv
from helpers import assert_trees_equal, plain, slow_but, small_vec
from reset_after_envs import CountEpisodes

from envrax import (
    AtariPreprocessing,
    DomainRandomization,
    EpisodicLife,
    FrameStackObservation,
    JitWrapper,
    MultiVecEnv,
    RecordEpisodeStatistics,
    StartStates,
    TimeLimit,
    VecEnv,
    Wrapper,
)
from envrax.multi_agent import OneAgent, agents_as_slots
from envrax.testing import ChaseWorld, CountingEnv, NimWorld
from envrax.wrappers import vector

KEY = jax.random.key(0)
N = 4
MASK = np.array([True, False, True, False])


def stacked() -> Any:
    env = FrameStackObservation(JitWrapper(CountingEnv()), n_stack=2)
    return RecordEpisodeStatistics(TimeLimit(env, max_steps=3))


BATCHES: dict[str, Any] = {
    "nested": lambda: VecEnv(NestedEnv(), N, autoreset=False),
    "stack": lambda: batch(stacked()),
    "atari": lambda: batch(AtariPreprocessing(PixelEnv(), noop_max=0, screen_size=4)),
    "normalized": lambda: vector.NormalizeObservation(batch(VectorEnv())),
    "worlds": lambda: agents_as_slots(small_vec(NimWorld(), 2)),
}


def batch(env: Any) -> Any:
    return small_vec(env, N)


@cache
def counters() -> Any:
    return batch(CountingEnv())


some_resets = jax.jit(jax.vmap(CountingEnv().reset))


def some_starts(seed: int) -> Any:
    return some_resets(jax.random.split(jax.random.key(seed), N))


def _innermost(env: Any) -> Any:
    while not hasattr(env, "unwrapped"):
        env = env.env
    return env.unwrapped


@pytest.mark.parametrize("name", slow_but("stack", values=BATCHES))
def test_starts_of_the_own_reset_equal_a_reset(name: str) -> None:
    """With the keys of a reset, in every field of every wrapper; the other slots stay."""
    env = BATCHES[name]()
    obs, state = env.reset(KEY)
    for i in range(2):
        obs, state, *_ = env.step(state, env.action_space.sample(jax.random.key(i)))
    rng = jax.random.key(5)
    n_envs = 2 if name == "worlds" else N
    starts = jax.jit(jax.vmap(_innermost(env).reset))(jax.random.split(rng, n_envs))
    found = env.reset_where(MASK, obs, state, rng, starts=starts)
    assert_trees_equal(found, env.reset_where(MASK, obs, state, rng))


def test_futures_of_one_state_have_keys_of_their_own() -> None:
    env = VecEnv(Drift(), N, autoreset=False)
    obs, state = env.reset(KEY)
    root = obs[1], env.slot_state(state, 1)
    first, roots = jax.tree.map(lambda x: jnp.stack([x] * N), root)
    keys = jax.random.split(jax.random.key(1), N)
    starts = first, roots.replace(rng=keys)
    _, state = env.reset_where(np.ones(N, bool), obs, state, starts=starts)
    found = env.step(state, jnp.ones(N, jnp.int32))[0]
    alone = [Drift().step(root[1].replace(rng=key), jnp.int32(1))[0] for key in keys]
    np.testing.assert_allclose(found, np.stack(alone), rtol=1e-6)
    assert len(np.unique(found[:, 0])) == N


def test_each_slot_begins_in_its_own_level() -> None:
    """In a `jit`, and a `vmap` over levels."""
    env = batch(RecordEpisodeStatistics(CountingEnv()))
    obs, state = env.reset(KEY)

    @jax.jit
    @jax.vmap
    def begin(levels: jax.Array) -> Any:
        first, starts = some_starts(0)
        first = first.at[:, 0].set(levels)
        return env.reset_where(MASK, obs, state, starts=(first, starts.replace(number=levels)))

    levels = np.arange(2 * N, dtype=np.int32).reshape(2, N)
    first, begun = begin(levels)
    expected = np.where(MASK, levels, state.env_state.number)
    np.testing.assert_array_equal(begun.env_state.number, expected)
    np.testing.assert_array_equal(first[..., 0], expected)


@pytest.mark.parametrize("redraw", [True, False])
@pytest.mark.slow
def test_what_wrappers_draw_or_keep_is_as_in_a_reset(redraw: bool) -> None:
    """Drawn fields are drawn, kept ones kept; the number of an episode goes on."""

    def sample(rng: jax.Array) -> dict[str, Any]:
        return {"max_steps": jax.random.randint(rng, (), 2, 90)}

    drawn = DomainRandomization(CountingEnv(), sample, redraw=redraw)
    env, starts = batch(CountEpisodes(drawn)), some_starts(9)
    obs, state = env.reset(KEY)
    found, begun = env.reset_where(MASK, obs, state, starts=starts)
    np.testing.assert_array_equal(found, np.where(MASK[:, None], starts[0], obs))
    limits = [np.asarray(at.env_state.fields["max_steps"]) for at in (begun, state)]
    np.testing.assert_array_equal(limits[0] == limits[1], ~MASK if redraw else np.ones(N, bool))
    np.testing.assert_array_equal(begun.episodes, np.where(MASK, 2, 1))


def test_a_lost_life_is_no_start() -> None:
    class Game(CountingEnv):
        def step(self, state: Any, action: Any) -> Any:
            *out, info = super().step(state, action)
            return *out, {**info, "lives": 3 - out[1].step // 2}

    env = VecEnv(EpisodicLife(Game()), N, autoreset=False)
    obs, state = env.reset(KEY)
    for _ in range(2):
        obs, state, _, dones, _ = env.step(state, jnp.ones(N, jnp.int32))
    assert dones.all()
    starts = some_starts(9)
    assert_trees_equal(env.reset_where(dones, obs, state, starts=starts)[0], starts[0])


def test_a_wrapper_keeps_what_was_set_after_it_was_built() -> None:
    class Scale(Wrapper[Any, Any, Any, Any]):
        k = 1

        def observation(self, obs: Any) -> Any:
            return obs * self.k

    wrapper = Scale(CountingEnv())
    wrapper.k = 3
    env = batch(wrapper)
    obs, state = env.reset(KEY)
    starts = some_starts(9)
    found = env.reset_where(np.ones(N, bool), obs, state, starts=starts)[0]
    assert_trees_equal(found, 3 * starts[0])


@pytest.mark.slow
def test_a_view_of_one_agent_plays_on_from_the_start() -> None:
    """Turns of others within the view's reset are played from the given start."""
    world = ChaseWorld()
    env = batch(OneAgent(world, world.agents[0], None))
    obs, state = env.reset(KEY)
    rng = jax.random.key(3)
    other, _ = env.reset(rng)
    starts = jax.jit(jax.vmap(world.reset))(jax.random.split(jax.random.key(8), N))
    found, begun = env.reset_where(MASK, obs, state, rng, starts=starts)
    wanted = np.asarray(starts[0][world.agents[0]])
    np.testing.assert_array_equal(found, np.where(MASK[:, None], wanted, obs))
    assert not np.array_equal(np.asarray(found)[MASK], np.asarray(other)[MASK])
    kept = [jax.tree.map(lambda x: plain(x)[~MASK], tree) for tree in (begun, state)]
    assert_trees_equal(*kept)


@pytest.mark.parametrize("key", [None, jax.random.key(3)], ids=["after", "keys"])
def test_fleets_take_containers_of_masks_and_starts(key: Any, compile_counter: Any) -> None:
    """Other masks and other starts compile nothing."""
    members: dict[str, Any] = dict.fromkeys("ba", counters())
    masks, starts = {"b": MASK, "a": ~MASK}, {"b": some_starts(1), "a": None}
    fleet = MultiVecEnv(members)
    obs, states = fleet.reset(KEY)
    keys = [None, None] if key is None else jax.random.split(key, 2)
    expected = [
        member.reset_where(masks[name], obs[name], states[name], rng, starts=starts[name])
        for (name, member), rng in zip(members.items(), keys, strict=True)
    ]
    with compile_counter() as compiled:
        found = fleet.reset_where(masks, obs, states, key, starts=starts)
    assert compiled.count == 0
    assert_trees_equal([*zip(*map(dict.values, found), strict=True)], expected)


def test_refusals() -> None:
    env, starts = counters(), some_starts(0)
    obs, state = env.reset(KEY)
    begun: Any = starts[1]
    for given, noun in [
        (starts[1], "obs.* got no such leaf"),
        ((starts[0][:2], begun), r"`obs` int32\[4, 2\]; got int32\[2, 2\]"),
        ((starts[0], begun.replace(step=np.zeros(N, np.float32))), "`state.step` int32"),
        (jax.tree.map(lambda x: x[0], starts), "`obs`"),
    ]:
        with pytest.raises(TypeError, match=f"expected starts like.*{noun}"):
            env.reset_where(MASK, obs, state, starts=given)

    class Otherwise(Wrapper[Any, Any, Any, Any]):
        def reset(self, rng: jax.Array) -> Any:
            return CountingEnv().reset(rng)

    for inner, noun in [
        (StartStates(CountingEnv(), CountingEnv().reset), "without StartStates"),
        (Otherwise(CountingEnv()), "wrappers that reset what they wrap; got Otherwise"),
    ]:
        own = batch(inner)
        with pytest.raises(TypeError, match=noun):
            own.reset_where(MASK, *own.reset(KEY), starts=starts)
    with pytest.raises(TypeError, match="starts in a list or dict"):
        MultiVecEnv([env]).reset_where([MASK], [obs], [state], starts=starts)
