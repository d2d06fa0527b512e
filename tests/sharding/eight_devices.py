"""Tests of batches that are spread over eight devices."""

import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import count_compilations as compilations
from fakes import CoinConfig, CoinEnv, CounterEnv, NestedEnv, PixelEnv, VectorConfig, VectorEnv
from films import FakeEncoder, FilmEnv, file_names, steps_seen
from helpers import assert_trees_close, assert_trees_equal, plain
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from reset_after_envs import CountEpisodes

import envrax.video.encoder
from envrax import (
    ClipReward,
    FrameStackObservation,
    MultiVecEnv,
    VecEnv,
    evaluate,
    rollout,
    shard,
    start,
)
from envrax.autoreset import Compact, Select
from envrax.multi_agent import OneAgent, agents_as_slots
from envrax.sharding import ShardedEnv
from envrax.testing import ChaseWorld, NimWorld
from envrax.wrappers import vector

KEY = jax.random.key(0)
LEGACY = jax.random.PRNGKey(0)
KINDS = [AxisType.Auto, AxisType.Explicit]
COLLECTIVE = re.compile(r" (all-[a-z-]+|collective-[a-z-]+|reduce-scatter)(?:-start)?\(.*")


def mesh_of(n: int, kind: AxisType = AxisType.Explicit) -> Any:
    return jax.make_mesh((n,), ("d",), axis_types=(kind,), devices=jax.devices()[:n])


def coin(**options: Any) -> Any:
    return VecEnv(CoinEnv(CoinConfig(end_rate=0.4)), 16, **options)


def play(env: Any, n_steps: int = 4) -> list[Any]:
    obs, state = env.reset(KEY)
    steps = [(obs, state)]
    for i in range(n_steps):
        actions = env.action_space.sample(jax.random.key(i))
        steps.append(env.step(steps[-1][1], actions))
    return steps


def collectives(jitted: Any, *args: Any) -> list[str]:
    text = jitted.lower(*args).compile().as_text()
    return [found[0] for found in COLLECTIVE.finditer(text)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: coin(final_obs=True, autoreset=Compact(4)),
        lambda: VecEnv(NestedEnv(), 8, final_obs=True),
        lambda: VecEnv(CountEpisodes(CoinEnv(CoinConfig(end_rate=0.4))), 8),
    ],
)
def test_trajectories_do_not_depend_on_the_number_of_devices(make: Any) -> None:
    alone = make()
    expected = play(alone)
    for n, kind in ((1, AxisType.Auto), (2, AxisType.Explicit), (8, AxisType.Auto)):
        batch = shard(make(), mesh_of(n, kind))
        ours = play(batch)
        assert_trees_equal(ours, expected)
        assert {x.sharding for x in jax.tree.leaves(ours)} == {NamedSharding(batch.mesh, P("d"))}
        state = ours[-1][1]
        for slot in (0, 5, -1):
            there = alone.slot_state(jax.device_get(state), slot)
            assert_trees_equal(batch.slot_state(state, slot), there)


def test_a_donated_state_is_written_over() -> None:
    expected = play(coin(autoreset=Select()))[-1]
    batch = shard(coin(autoreset=Select(), donate=True), mesh_of(8))
    obs, state = batch.reset(KEY)
    for i in range(4):
        old = state
        obs, state, *_ = batch.step(old, batch.action_space.sample(jax.random.key(i)))
        assert old.rng.is_deleted()
    assert_trees_equal((obs, state), expected[:2])


def test_one_axis_of_two_and_a_legacy_key() -> None:
    mesh = jax.make_mesh((2, 4), ("model", "data"), axis_types=(AxisType.Explicit,) * 2)
    batch = shard(coin(), mesh, "data")
    ours = play(batch)
    assert_trees_equal(ours, play(coin()))
    assert ours[-1][0].sharding.is_equivalent_to(NamedSharding(mesh, P("data")), 2)
    assert_trees_equal(batch.reset(LEGACY), coin().reset(LEGACY))


@pytest.mark.parametrize("axis", ["auto", "explicit"])
def test_axes_of_both_kinds(axis: str) -> None:
    """The slots along either; statistics are whole on every device."""
    mesh = jax.make_mesh((2, 4), ("auto", "explicit"), axis_types=(*KINDS,))
    alone = vector.NormalizeReward(coin())
    expected = rollout(alone, None, start(alone, KEY), 4)
    batch = shard(alone, mesh, axis)
    ours = rollout(batch, None, start(batch, KEY), 4)
    assert_trees_close(ours, expected, rtol=1e-5, atol=1e-4)
    other = NamedSharding(mesh, P("explicit" if axis == "auto" else "auto"))
    actions = jax.device_put(batch.action_space.sample(KEY), other)
    moved = jax.jit(batch.step)(ours[0].env_state, actions)
    unmoved = batch.step(ours[0].env_state, jax.device_get(actions))
    assert_trees_close(moved, unmoved, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("kind", [AxisType.Explicit, AxisType.Auto])
def test_no_key_counts_as_used_twice(kind: AxisType) -> None:
    with jax.debug_key_reuse(True):
        play(shard(coin(), mesh_of(2, kind)))


def test_slots_that_cannot_be_divided_are_refused() -> None:
    sentence = "shard: expected a number of slots, or of worlds, that is a multiple of 8, the size"
    with pytest.raises(ValueError, match=f"^{sentence}"):
        shard(VecEnv(CoinEnv(), 12), mesh_of(8))


@pytest.mark.parametrize("kind", KINDS)
def test_one_program_each_and_no_collective(kind: AxisType) -> None:
    batch = shard(coin(final_obs=True), mesh_of(8, kind))
    # Running statistics are those of all slots: sums over devices, and no other exchange.
    both = vector.NormalizeReward(vector.NormalizeObservation(batch))
    rng, actions = jax.random.key(1), np.zeros((16, 2), np.float32)
    laid = jax.device_put(actions, batch.sharding)
    for env in (batch, both):
        env.compile(None)
        with compilations() as seen:
            obs, state = env.reset(rng)
            for _ in range(3):
                obs, state, *_ = env.step(state, actions)
        acted = jax.jit(lambda x: x[:, :2])(obs)  # actions that a policy computed
        with compilations() as seen_acted:
            env.step(state, acted)
        assert seen.count == seen_acted.count == 0
        found = collectives(jax.jit(env.step), state, laid)
        assert bool(found) == (env is both) and all("all-reduce" in x for x in found), found
    assert collectives(jax.jit(batch.reset), rng) == []


def wrapped(env: Any) -> Any:
    return vector.NormalizeReward(vector.NormalizeObservation(env))


def test_what_goes_around_a_batch_goes_around_a_sharded_one() -> None:
    alone = coin()
    spread = shard(coin(), mesh_of(4))
    ours, theirs = (rollout(env, None, start(env, KEY), 6) for env in (spread, alone))
    assert_trees_equal(ours, theirs)
    assert ours[1].reward.sharding.is_equivalent_to(NamedSharding(spread.mesh, P(None, "d")), 2)
    around, inside = wrapped(spread), shard(wrapped(alone), spread.mesh)
    played = play(inside)
    assert_trees_close(played, play(wrapped(alone)), rtol=1e-5, atol=1e-4)
    assert_trees_equal(played, play(around))
    found, expected = (evaluate(env, None, KEY, 9) for env in (inside, wrapped(alone)))
    assert_trees_close(found, expected, rtol=1e-4)
    fleet = MultiVecEnv({"spread": spread, "alone": VecEnv(NestedEnv(), 3)})
    obs, states = fleet.reset(KEY)
    begun = alone.reset(jax.random.split(KEY, 2)[0])
    assert_trees_equal((obs["spread"], states["spread"]), begun)
    actions = jax.tree.map(lambda s: s.sample(KEY), fleet.action_spaces)
    out = fleet.step(states, actions)
    assert_trees_equal(out[1]["spread"], alone.step(begun[1], actions["spread"])[1])


def test_under_vmap() -> None:
    def first_step(env: Any) -> Any:
        step = lambda rng: env.step(env.reset(rng)[1], jnp.zeros((16, 2), jnp.float32))  # noqa: E731
        return jax.vmap(step)(jax.random.split(KEY, 2))

    assert_trees_equal(first_step(shard(coin(), mesh_of(4, AxisType.Auto))), first_step(coin()))


def test_worlds_of_several_agents() -> None:
    def others(stones: Any, obs: Any, rng: jax.Array) -> Any:
        return {"bob": stones}, stones, None

    view = VecEnv(OneAgent(NimWorld(), "alice", others, jnp.int32(1)), 8)
    slots = vector.NormalizeReward(agents_as_slots(VecEnv(ChaseWorld(), 8), ["runner_2"]))
    for alone in (view, slots):
        both = shard(alone, mesh_of(4)), alone
        ours, theirs = (rollout(env, None, start(env, KEY), 12)[1] for env in both)
        assert_trees_close(ours, theirs, rtol=1e-5)
    few = agents_as_slots(VecEnv(ChaseWorld(), 2), ["runner_2"])
    spread = shard(few, mesh_of(2))
    # A legacy key has as many numbers as there are worlds.
    states = (env.reset(LEGACY)[1] for env in (spread, few))
    actions = jnp.ones(2, jnp.int32)
    assert_trees_equal(
        *(env.step(x, actions) for env, x in zip((spread, few), states, strict=True))
    )


def test_a_slot_is_drawn_wherever_it_lies() -> None:
    pixels = VecEnv(PixelEnv(), 8)
    drawn = shard(pixels, mesh_of(8))
    state = pixels.reset(KEY)[1]
    expected = pixels.render_slot(state, 6)
    for given in (state, drawn.reset(KEY)[1]):
        np.testing.assert_array_equal(drawn.render_slot(given, 6), expected)
    np.testing.assert_array_equal(drawn.local_slots, np.arange(8))


class Noop(vector.BatchedWrapper[Any, Any]):
    """Changes nothing."""


def test_videos_are_those_of_one_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Around a sharded batch and sharded itself, from Python and from a compiled program."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(envrax.video.encoder, "Encoder", FakeEncoder)

    def record(env: Any, name: str) -> Any:
        return vector.RecordVideo(Noop(env), name, slots=[1, -1])

    def from_python(env: Any) -> None:
        state = env.reset(KEY)[1]
        for _ in range(7):
            state = env.step(state, np.ones(4, np.int32))[1]

    def compiled(env: Any) -> None:
        rollout(env, None, start(env, KEY), 7)

    films = VecEnv(FilmEnv(VectorConfig(max_steps=5)), 4)
    auto, explicit = mesh_of(2, AxisType.Auto), mesh_of(2, AxisType.Explicit)
    for name, env, run in (
        ("0", shard(record(films, "0"), auto), from_python),
        ("1", record(shard(films, explicit), "1"), compiled),
    ):
        with env:
            run(env)
        seen = {x: steps_seen(Path(name, x)) for x in file_names(Path(name))}
        assert [*seen.values()] == [[0, 1, 2, 3, 4, 5], [0, 1, 2]] * 2, (name, seen)
    frozen = shard(vector.RecordVideo(films, "frozen", frozen=True), explicit)
    frozen.step(frozen.reset(KEY)[1], np.ones(4, np.int32))
    assert not file_names(Path("frozen"))


ALONE = CoinEnv(CoinConfig(end_rate=0.4))


@pytest.mark.parametrize(
    ("env", "kind"),
    [
        (FrameStackObservation(ClipReward(ALONE), 2), AxisType.Explicit),
        (NestedEnv(), AxisType.Auto),  # one of its arrays is empty
        (wrapped(VecEnv(ALONE, 4)), AxisType.Explicit),
    ],
)
def test_rollouts_within_the_shard_map_of_the_caller(env: Any, kind: AxisType) -> None:
    """`shard_map` checks what varies between devices, unless `check_vma` is off."""
    seeds = jax.random.split(KEY, 4)
    many = jax.vmap(lambda rng: rollout(env, None, start(env, rng), 9))
    expected = jax.jit(many)(seeds)
    assert expected[1].done.any() and not expected[1].done.all()
    mesh = mesh_of(2, kind)
    spread = jax.jit(jax.shard_map(many, mesh=mesh, in_specs=P("d"), out_specs=P("d")))
    ours = spread(jax.device_put(seeds, NamedSharding(mesh, P("d"))))
    assert_trees_close(ours, expected, rtol=1e-5, atol=1e-5)


def test_gradients_and_traced_configs_go_through() -> None:
    def loss(gravity: Any, mesh: Any) -> Any:
        env: Any = VecEnv(VectorEnv(VectorConfig(gravity=gravity, max_steps=3)), 8)
        env = env if mesh is None else shard(env, mesh)
        actions = jnp.ones(8, jnp.int32)

        def body(state: Any, _: None) -> Any:
            out = env.step(state, actions)
            return out[1], jnp.sum(out[2])

        return jnp.sum(jax.lax.scan(body, env.reset(KEY)[1], length=5)[1])

    mesh = mesh_of(4)
    gravity = jnp.float32(0.5)
    expected = jax.jit(jax.value_and_grad(lambda g: loss(g, None)))(gravity)
    with jax.set_mesh(mesh):
        ours = jax.jit(jax.value_and_grad(lambda g: loss(g, mesh)))(gravity)
    np.testing.assert_allclose(ours, expected, rtol=1e-5)


def test_arrays_of_a_policy_may_lie_on_one_device() -> None:
    def played(env: Any, weights: Any) -> Any:
        def act(total: Any, obs: Any, rng: jax.Array, first: Any) -> Any:
            push = jnp.tanh(obs.sum(1) * weights[0] + first.astype(jnp.float32))
            return jnp.stack([push, -push], 1), total + weights.sum(), first

        end, steps = rollout(env, act, start(env, KEY, jnp.float32(0)), 6)
        found = evaluate(env, act, KEY, 8, policy_state=jnp.float32(0), as_rollout=True)
        return steps.action, steps.reward, steps.extras, end.policy_state, found

    anywhere = jnp.arange(3.0)
    on_one = jax.device_put(anywhere, jax.devices()[0])
    expected = played(VecEnv(ALONE, 8), anywhere)
    batch = shard(VecEnv(ALONE, 8), mesh_of(4))
    for weights in (on_one, np.asarray(anywhere)):
        assert_trees_equal(played(batch, weights), expected)


def play_by_mask(env: Any) -> Any:
    obs, state = env.reset(KEY)
    found: list[Any] = []
    for i in range(4):
        actions = env.action_space.sample(jax.random.key(i))
        obs, state, rewards, dones, _ = env.step(state, actions)
        obs, state = env.reset_where(dones, obs, state)
        found.append((obs, state, rewards, dones))
    mask = np.arange(env.n_slots) % 3 == 0
    found.append(env.reset_where(mask, obs, state, jax.random.key(5)))
    jitted = jax.jit(env.reset_where)
    assert_trees_equal(jitted(mask, obs, state)[0], env.reset_where(mask, obs, state)[0])
    if isinstance(env, ShardedEnv):
        assert not collectives(jitted, jnp.asarray(mask), obs, state)
    keys = jax.random.split(jax.random.key(9), env.n_slots)
    inner: Any = env.unwrapped
    starts = jax.vmap(inner.reset)(keys)
    return [*found, env.reset_where(mask, obs, state, starts=starts)]


@pytest.mark.parametrize(
    ("make", "atol"),
    [
        (lambda: Noop(Noop(coin(autoreset=False))), 0.0),
        (lambda: VecEnv(NestedEnv(), 8, autoreset=False), 0.0),
        # Devices add statistics in another order.
        (lambda: vector.NormalizeReward(coin(autoreset=False)), 1e-5),
    ],
)
def test_resets_by_mask_do_not_depend_on_the_devices(make: Any, atol: float) -> None:
    expected = play_by_mask(make())
    kind = AxisType.Auto if atol else AxisType.Explicit
    found = play_by_mask(shard(make(), mesh_of(4, kind)))
    assert_trees_close(found, expected, rtol=10 * atol, atol=atol)


def noisy(state: Any, obs: Any, rng: jax.Array) -> Any:
    return jax.random.uniform(rng, (*obs.shape[:-1], 2), jnp.float32), state, None


def counting(count: Any, obs: Any, rng: jax.Array) -> Any:
    push = (count % 3).astype(jnp.float32)
    return jnp.full((*obs.shape[:-1], 2), push - 1), count + 1, None


@pytest.mark.parametrize(("policy", "memory"), [(noisy, None), (jax.jit(counting), 0)])
def test_evaluations_do_not_depend_on_the_devices(policy: Any, memory: Any) -> None:
    expected = evaluate(coin(), policy, KEY, 21, policy_state=memory)
    for kind, batch in zip(KINDS, (coin(), Noop(coin())), strict=True):
        found = evaluate(shard(batch, mesh_of(4, kind)), policy, KEY, 21, policy_state=memory)
        assert_trees_equal(found, expected)


def test_a_fleet_equals_the_one_on_a_single_device() -> None:
    def fleet(n: int) -> Any:
        limits = 2, 2, 5
        return MultiVecEnv([VecEnv(CounterEnv(VectorConfig(max_steps=x)), n) for x in limits])

    def third_step(states: Any, actions: Any) -> Any:
        for _ in range(2):
            states = eight.step(states, actions)[1]
        return eight.step(states, actions)

    eight, actions = fleet(8), [jnp.ones(8, jnp.int32)] * 3
    _, states = eight.reset(KEY)
    mesh = mesh_of(4)
    spread = jax.device_put((states, actions), NamedSharding(mesh, P("d")))
    assert_trees_equal(third_step(*spread), third_step(states, actions))
    one = eight.step_at(0, spread[0][0], spread[1][0])
    assert_trees_equal(one, eight.step_at(0, states[0], actions[0]))
    local = jax.shard_map(fleet(2).step, mesh=mesh, in_specs=P("d"), out_specs=P("d"))
    out = jax.tree.map(plain, jax.jit(local)(*spread))
    assert_trees_equal(out, jax.tree.map(plain, eight.step(states, actions)))
