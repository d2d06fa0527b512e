"""A batch spread over eight devices computes what it computes on one, in a process of its own."""

from typing import Any

import pytest

CODE = r"""
import os
os.environ["XLA_FLAGS"] += " --xla_force_host_platform_device_count=8"
import re
from functools import partial
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from conftest import count_compilations as compilations
from fakes import CoinConfig, CoinEnv, NestedEnv, PixelEnv
from helpers import assert_trees_close, assert_trees_equal, plain
from reset_after_envs import CountEpisodes
import envrax
from envrax import MultiVecEnv, VecEnv, evaluate, rollout, shard, start
from envrax.autoreset import Compact, Select
from envrax.multi_agent import OneAgent, agents_as_slots
from envrax.testing import ChaseWorld, NimWorld
from envrax.wrappers import vector

KEY = jax.random.key(0)
COLLECTIVE = re.compile(r" (all-[a-z-]+|collective-[a-z-]+|reduce-scatter)(?:-start)?\(.*")

def mesh_of(n, kind=AxisType.Explicit):
    return jax.make_mesh((n,), ("d",), axis_types=(kind,), devices=jax.devices()[:n])

def coin(**options):
    return VecEnv(CoinEnv(CoinConfig(end_rate=0.4)), 16, **options)

def play(env, n_steps=4):
    obs, state = env.reset(KEY)
    steps = [(obs, state)]
    for i in range(n_steps):
        actions = env.action_space.sample(jax.random.key(i))
        steps.append(env.step(steps[-1][1], actions))
    return steps

def collectives(jitted, *args):
    text = jitted.lower(*args).compile().as_text()
    return [found[0] for found in COLLECTIVE.finditer(text)]
"""


def run(run_python: Any, code: str) -> None:
    run_python(CODE + code)


def test_trajectories_do_not_depend_on_the_number_of_devices(run_python: Any) -> None:
    run(
        run_python,
        """
for make in (
    lambda: coin(final_obs=True, autoreset=Compact(4)),
    lambda: coin(autoreset=Select(), donate=True),
    lambda: VecEnv(NestedEnv(), 8, final_obs=True),
    lambda: VecEnv(CountEpisodes(CoinEnv(CoinConfig(end_rate=0.4))), 8),
):
    alone = make()
    if alone.compilation.donate:
        alone = coin(autoreset=Select())
    expected = play(alone)
    for n, kind in ((1, AxisType.Auto), (2, AxisType.Explicit), (8, AxisType.Auto)):
        batch = shard(make(), mesh_of(n, kind))
        if batch.compilation.donate:
            obs, state = batch.reset(KEY)
            for i in range(4):
                old, actions = state, batch.action_space.sample(jax.random.key(i))
                obs, state, *_ = batch.step(state, actions)
                assert old.rng.is_deleted()
            assert_trees_equal((obs, state), tuple(expected[-1][:2]))
            continue
        ours = play(batch)
        assert_trees_equal(ours, expected)
        assert {x.sharding for x in jax.tree.leaves(ours)} == {NamedSharding(batch.mesh, P("d"))}
        for slot in (0, 5, -1):
            here, there = batch.slot_state(ours[-1][1], slot), ours[-1][1]
            assert_trees_equal(here, alone.slot_state(jax.device_get(there), slot))
""",
    )


def test_two_axes_and_two_kinds_of_keys(run_python: Any) -> None:
    run(
        run_python,
        """
expected = play(coin())
for kind in (AxisType.Auto, AxisType.Explicit):
    mesh = jax.make_mesh((2, 4), ("model", "data"), axis_types=(kind, kind))
    ours = play(shard(coin(), mesh, "data"))
    assert_trees_equal(ours, expected)
    assert ours[-1][0].sharding.is_equivalent_to(NamedSharding(mesh, P("data")), 2)
# An axis of each kind, and the slots along either; statistics are whole on every device.
mixed = jax.make_mesh((2, 4), ("auto", "explicit"), axis_types=(AxisType.Auto, AxisType.Explicit))
alone = vector.NormalizeReward(coin())
expected = rollout(alone, None, start(alone, KEY), 4)
for axis in ("auto", "explicit"):
    batch = shard(alone, mixed, axis)
    ours = rollout(batch, None, start(batch, KEY), 4)
    assert_trees_close(ours, expected, rtol=1e-5, atol=1e-4)
    other = NamedSharding(mixed, P("explicit" if axis == "auto" else "auto"))
    actions = jax.device_put(batch.action_space.sample(KEY), other)
    moved = jax.jit(batch.step)(ours[0].env_state, actions)
    unmoved = batch.step(ours[0].env_state, jax.device_get(actions))
    assert_trees_close(moved, unmoved, rtol=1e-5, atol=1e-4)
legacy = jax.random.PRNGKey(0)
assert_trees_equal(shard(coin(), mesh, "data").reset(legacy), coin().reset(legacy))
""",
    )


def test_slots_that_cannot_be_divided_are_refused(run_python: Any) -> None:
    run(
        run_python,
        """
try:
    shard(VecEnv(CoinEnv(), 12), mesh_of(8))
except ValueError as error:
    sentence = "shard: expected a number of slots, or of worlds, that is a multiple of 8, the size"
    assert str(error).startswith(sentence), error
else:
    raise AssertionError
""",
    )


def test_one_program_each_and_no_collective(run_python: Any) -> None:
    run(
        run_python,
        """
for kind in (AxisType.Auto, AxisType.Explicit):
    batch = shard(coin(final_obs=True), mesh_of(8, kind))
    batch.compile(None)
    rng, actions = jax.random.key(1), np.zeros((16, 2), np.float32)
    with compilations() as seen:
        obs, state = batch.reset(rng)
        for _ in range(3):
            obs, state, *_ = batch.step(state, actions)
    assert seen.count == 0, seen.count
    acted = jax.jit(lambda x: x[:, :2])(obs)  # actions that a policy computed
    with compilations() as seen:
        batch.step(state, acted)
    assert seen.count == 0, seen.count
    laid = jax.device_put(actions, batch.sharding)
    assert collectives(jax.jit(batch.step), state, laid) == []
    assert collectives(jax.jit(batch.reset), rng) == []

    # Running statistics are those of all slots: sums over devices, and no other exchange.
    both = vector.NormalizeReward(vector.NormalizeObservation(batch))
    both.compile(None)
    with compilations() as seen:
        _, state = both.reset(rng)
        for _ in range(3):
            _, state, *_ = both.step(state, actions)
    assert seen.count == 0, seen.count
    found = collectives(jax.jit(both.step), state, laid)
    assert found and all("all-reduce" in x for x in found), found
""",
    )


@pytest.mark.slow
def test_what_goes_around_a_batch_goes_around_a_sharded_one(run_python: Any) -> None:
    run(
        run_python,
        """
def wrapped(env):
    return vector.NormalizeReward(vector.NormalizeObservation(env))

for kind in (AxisType.Auto, AxisType.Explicit):
    alone, spread = coin(), shard(coin(), mesh_of(4, kind))
    assert_trees_equal(evaluate(spread, None, KEY, 20), evaluate(alone, None, KEY, 20))
    ours, theirs = (rollout(env, None, start(env, KEY), 6) for env in (spread, alone))
    assert_trees_equal(ours, theirs)
    assert ours[1].reward.sharding.is_equivalent_to(NamedSharding(spread.mesh, P(None, "d")), 2)
    assert_trees_close(play(wrapped(spread)), play(wrapped(alone)), rtol=1e-5, atol=1e-4)
    inside = shard(wrapped(alone), spread.mesh)
    assert_trees_equal(play(inside), play(wrapped(spread)))
    assert_trees_close(
        evaluate(inside, None, KEY, 9), evaluate(wrapped(alone), None, KEY, 9), rtol=1e-4
    )
    fleet = MultiVecEnv({"spread": spread, "alone": VecEnv(NestedEnv(), 3)})
    obs, states = fleet.reset(KEY)
    rng = jax.random.split(KEY, 2)[0]
    assert_trees_equal((obs["spread"], states["spread"]), alone.reset(rng))
    actions = jax.tree.map(lambda s: s.sample(KEY), fleet.action_spaces)
    out = fleet.step(states, actions)
    assert_trees_equal(out[1]["spread"], alone.step(alone.reset(rng)[1], actions["spread"])[1])
    seeds = jax.random.split(KEY, 2)
    many = jax.vmap(lambda k: spread.step(spread.reset(k)[1], jnp.zeros((16, 2), jnp.float32)))
    one = jax.vmap(lambda k: alone.step(alone.reset(k)[1], jnp.zeros((16, 2), jnp.float32)))
    if kind == AxisType.Auto:
        assert_trees_equal(many(seeds), one(seeds))

    others = lambda stones, obs, rng: ({"bob": stones}, stones, None)
    view = VecEnv(OneAgent(NimWorld(), "alice", others, jnp.int32(1)), 8)
    slots = vector.NormalizeReward(agents_as_slots(VecEnv(ChaseWorld(), 8), ["runner_2"]))
    for alone in (view, slots):
        spread = shard(alone, mesh_of(4, kind))
        ours, theirs = (rollout(env, None, start(env, KEY), 12) for env in (spread, alone))
        assert_trees_close(ours[1], theirs[1], rtol=1e-5)
    few = agents_as_slots(VecEnv(ChaseWorld(), 2), ["runner_2"])
    for rng in (KEY, jax.random.PRNGKey(0)):  # a legacy key has as many numbers as there are worlds
        ours, theirs = (
            env.step(env.reset(rng)[1], jnp.ones(2, jnp.int32))
            for env in (shard(few, mesh_of(2, kind)), few)
        )
        assert_trees_equal(ours, theirs)

pixels = VecEnv(PixelEnv(), 8)
drawn = shard(pixels, mesh_of(8))
state = pixels.reset(KEY)[1]
expected = pixels.render_slot(state, 6)
np.testing.assert_array_equal(drawn.render_slot(drawn.reset(KEY)[1], 6), expected)
np.testing.assert_array_equal(drawn.render_slot(state, 6), expected)
np.testing.assert_array_equal(drawn.local_slots, np.arange(8))
""",
    )


def test_videos_are_those_of_one_device(run_python: Any) -> None:
    """Around a sharded batch and sharded itself, from Python and from a compiled program."""
    run(
        run_python,
        """
from pathlib import Path
import envrax.video.encoder
from fakes import VectorConfig
from films import FakeEncoder, FilmEnv, file_names, steps_seen
envrax.video.encoder.Encoder = FakeEncoder

class Plain(vector.BatchedWrapper):
    pass

def record(env, name):
    return vector.RecordVideo(Plain(env), name, slots=[1, -1])

def from_python(env):
    state = env.reset(KEY)[1]
    for _ in range(7):
        state = env.step(state, np.ones(4, np.int32))[1]

def compiled(env):
    rollout(env, None, start(env, KEY), 7)

films = VecEnv(FilmEnv(VectorConfig(max_steps=5)), 4)
auto, explicit = mesh_of(2, AxisType.Auto), mesh_of(2, AxisType.Explicit)
for name, env, run in (
    ("0", record(shard(films, auto), "0"), from_python),
    ("1", shard(record(films, "1"), auto), compiled),
    ("2", record(shard(films, explicit), "2"), compiled),
    ("3", shard(record(films, "3"), explicit), from_python),
):
    with env:
        run(env)
    seen = {x: steps_seen(Path(name, x)) for x in file_names(Path(name))}
    assert [*seen.values()] == [[0, 1, 2, 3, 4, 5], [0, 1, 2]] * 2, (name, seen)
frozen = shard(vector.RecordVideo(films, "frozen", frozen=True), explicit)
frozen.step(frozen.reset(KEY)[1], np.ones(4, np.int32))
assert not file_names(Path("frozen"))
""",
    )


def test_rollouts_within_the_shard_map_of_the_caller(run_python: Any) -> None:
    """`shard_map` checks what varies between devices, unless `check_vma` is off."""
    run(
        run_python,
        """
from envrax import ClipReward, FrameStackObservation
alone = CoinEnv(CoinConfig(end_rate=0.4))
seeds = jax.random.split(KEY, 4)
for env, kind in (
    (FrameStackObservation(ClipReward(alone), 2), AxisType.Explicit),
    (NestedEnv(), AxisType.Auto),  # one of its arrays is empty
    (vector.NormalizeReward(vector.NormalizeObservation(VecEnv(alone, 4))), AxisType.Explicit),
):
    def many(seeds):
        return jax.vmap(lambda rng: rollout(env, None, start(env, rng), 9))(seeds)
    expected = jax.jit(many)(seeds)
    assert expected[1].done.any() and not expected[1].done.all()
    mesh = mesh_of(2, kind)
    spread = jax.jit(jax.shard_map(many, mesh=mesh, in_specs=P("d"), out_specs=P("d")))
    ours = spread(jax.device_put(seeds, NamedSharding(mesh, P("d"))))
    assert_trees_close(ours, expected, rtol=1e-5, atol=1e-5)
""",
    )


def test_gradients_and_traced_configs_go_through(run_python: Any) -> None:
    run(
        run_python,
        """
from fakes import VectorConfig, VectorEnv
def loss(gravity, mesh):
    env = VecEnv(VectorEnv(VectorConfig(gravity=gravity, max_steps=3)), 8)
    env = env if mesh is None else shard(env, mesh)
    _, state = env.reset(KEY)
    actions = jnp.ones(8, jnp.int32)
    def body(state, _):
        out = env.step(state, actions)
        return out[1], jnp.sum(out[2])
    return jnp.sum(jax.lax.scan(body, state, length=5)[1])
expected = jax.jit(jax.value_and_grad(lambda g: loss(g, None)))(jnp.float32(0.5))
for kind in (AxisType.Auto, AxisType.Explicit):
    mesh = mesh_of(4, kind)
    try:
        with jax.set_mesh(mesh):
            ours = jax.jit(jax.value_and_grad(lambda g: loss(g, mesh)))(jnp.float32(0.5))
    except NotImplementedError as error:  # JAX cannot, and says so
        assert kind == AxisType.Explicit and "Explicit" in str(error), error
    else:
        np.testing.assert_allclose(ours, expected, rtol=1e-5)
        assert kind == AxisType.Auto
""",
    )


def test_arrays_of_a_policy_may_lie_on_one_device(run_python: Any) -> None:
    run(
        run_python,
        """
def policy_of(weights):
    def act(total, obs, rng, first):
        rows = sum(x.reshape(8, -1).sum(1).astype(jnp.float32) for x in jax.tree.leaves(obs))
        push = jnp.tanh(rows * weights[0] + first.astype(jnp.float32))
        return jnp.stack([push, -push], 1), total + weights.sum(), first
    return act

def played(env, weights):
    at = start(env, KEY, jnp.float32(0))
    end, steps = rollout(env, policy_of(weights), at, 6)
    found = evaluate(env, policy_of(weights), KEY, 8, policy_state=jnp.float32(0))
    return jax.tree.map(plain, (steps.action, steps.reward, steps.extras, end.policy_state, found))

def env():
    return VecEnv(CoinEnv(CoinConfig(end_rate=0.4)), 8)

anywhere = jnp.arange(3.0)
on_one = jax.device_put(anywhere, jax.devices()[0])
on_one_device = played(env(), anywhere)
for kind in (AxisType.Auto, AxisType.Explicit):
    for weights in (anywhere, on_one, np.asarray(anywhere)):
        assert_trees_equal(played(shard(env(), mesh_of(4, kind)), weights), on_one_device)
""",
    )


def test_resets_by_mask_and_evaluations_do_not_depend_on_the_devices(run_python: Any) -> None:
    run(
        run_python,
        """
def play_by_mask(env):
    obs, state = env.reset(KEY)
    found = []
    for i in range(4):
        obs, state, rewards, dones, _ = env.step(state, env.action_space.sample(jax.random.key(i)))
        obs, state = env.reset_where(dones, obs, state)
        found.append((obs, state, rewards, dones))
    mask = np.arange(env.n_slots) % 3 == 0
    found.append(env.reset_where(mask, obs, state, jax.random.key(5)))
    return jax.device_get(jax.tree.map(plain, found))

def noisy(state, obs, rng):
    return jax.random.uniform(rng, (*obs.shape[:-1], 2), jnp.float32), state, None

class Noop(vector.BatchedWrapper):
    pass

makes = [
    lambda: Noop(Noop(coin(autoreset=False))),
    lambda: VecEnv(NestedEnv(), 8, autoreset=False),
    lambda: vector.NormalizeReward(coin(autoreset=False)),
]
expected = [play_by_mask(make()) for make in makes]
episodes = [evaluate(coin(), policy, KEY, 21) for policy in (None, noisy)]
for kind in (AxisType.Auto, AxisType.Explicit):
    mesh = mesh_of(4, kind)
    for make, alone in zip(makes, expected, strict=True):
        equal = make is not makes[2]  # devices add statistics in another order
        compare = assert_trees_equal if equal else partial(assert_trees_close, rtol=1e-4, atol=1e-5)
        compare(play_by_mask(shard(make(), mesh)), alone)
    for policy, alone in zip((None, noisy), episodes, strict=True):
        for batch in (shard(coin(), mesh), shard(Noop(coin()), mesh)):
            found = evaluate(batch, policy, KEY, 21)
            assert_trees_equal(jax.tree.map(plain, found), jax.tree.map(plain, alone))
    batch = shard(Noop(coin(autoreset=False)), mesh)
    obs, state = batch.reset(KEY)
    found = jax.jit(batch.reset_where)(jnp.ones(16, bool), obs, state)
    assert_trees_equal(plain(found[0]), plain(batch.reset_where(np.ones(16, bool), obs, state)[0]))

batch = shard(coin(autoreset=False), mesh_of(4))
obs, state = batch.reset(KEY)
given = jnp.zeros(16, bool), obs, state
assert not collectives(jax.jit(batch.reset_where), *given)
""",
    )
