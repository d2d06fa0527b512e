"""Batches over several devices equal those on one, whatever the kind of mesh."""

from typing import Any

import jax
import jax.numpy as jnp
from fakes import CoinConfig, CoinEnv
from helpers import assert_trees_equal

from envrax import VecEnv
from envrax.autoreset import Compact

# In a process of its own, which has four devices.
CODE = """
import os
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + (
    " --xla_force_host_platform_device_count=4"
)
import jax, jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from fakes import CoinConfig, CoinEnv
from helpers import assert_trees_equal, plain
from envrax import VecEnv
from envrax.autoreset import Compact, Select

coin = CoinEnv(CoinConfig(end_rate=0.5, reset_kind="loop"))
key = jax.random.key(0)
strategies = Compact(2), Select()
AUTO, EXPLICIT = AxisType.Auto, AxisType.Explicit

def ones(*shape):
    return jnp.ones((*shape, 2), jnp.float32)

def make(n, autoreset=strategies[0]):
    return VecEnv(coin, n, autoreset=autoreset, final_obs=True)

def mesh_of(kind, **axes):
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=(kind,) * len(axes))

vec_env = make(8)
_, state = vec_env.reset(key)
expected = vec_env.step(state, ones(8))
assert expected[3].any() and not expected[3].all()

def in_shard_map(kind, manual, function, *args):
    mesh = mesh_of(kind, a=2, b=2)
    spread = jax.shard_map(
        function, mesh=mesh, in_specs=P("a"), out_specs=P("a"), axis_names=set(manual)
    )
    with jax.set_mesh(mesh):
        out = jax.jit(spread)(*jax.device_put(args, NamedSharding(mesh, P("a"))))
    return jax.tree.map(plain, out)
"""


def test_every_mesh_equals_one_device(run_python: Any) -> None:
    run_python(
        CODE
        + """
for kind in (EXPLICIT, AUTO):
    mesh = mesh_of(kind, d=4)
    spread, actions = jax.device_put((state, ones(8)), NamedSharding(mesh, P("d")))
    out = vec_env.step(spread, actions)
    assert_trees_equal(out, expected)
    if kind == EXPLICIT:  # fit for a `scan`
        assert jax.tree.map(jax.typeof, out[1]) == jax.tree.map(jax.typeof, spread)
    assert_trees_equal(vec_env.slot_state(spread, -3), vec_env.slot_state(state, 5))
    traced = jax.jit(vec_env.slot_state)(spread, 5)
    assert_trees_equal(traced, vec_env.slot_state(state, 5))
for manual in ("a", "ab"):
    half = in_shard_map(AUTO, manual, make(4).step, state, ones(8))
    assert_trees_equal(half, jax.tree.map(plain, expected))

def rollout(autoreset, rng):
    vec_env = make(6, autoreset)
    def body(state, _):
        obs, state, *out = vec_env.step(state, ones(6))
        return state, (obs, state, out)
    return jax.lax.scan(body, vec_env.reset(rng)[1], None, 9)[1]

seeds = jax.random.split(key, 2)
pairs = {strategies[0]: ("a", "ab"), strategies[1]: ("ab", "a")}
for autoreset, manuals in pairs.items():
    def local(rng):
        return jax.tree.map(lambda x: x[None], rollout(autoreset, rng[0]))

    alone = [jax.tree.map(plain, jax.jit(rollout, static_argnums=0)(autoreset, s)) for s in seeds]
    for kind, manual in zip((EXPLICIT, AUTO), manuals):
        each = in_shard_map(kind, manual, local, seeds)
        for i in range(2):
            assert_trees_equal(jax.tree.map(lambda x: x[i], each), alone[i])

    states = jax.vmap(make(8).reset)(jax.random.split(key, 4))[1]
    step = jax.jit(jax.vmap(make(8, autoreset).step))
    together = step(states, ones(4, 8))
    for kind in (EXPLICIT, AUTO):
        mesh = mesh_of(kind, d=4)
        for spec in (P("d"), P(None, "d")):
            if spec == P("d") and kind == EXPLICIT and jax.__version_info__ < (0, 10):
                continue  # there JAX fails on such a `vmap` of `jax.random` alone
            spread = jax.device_put((states, ones(4, 8)), NamedSharding(mesh, spec))
            with jax.set_mesh(mesh):
                assert_trees_equal(step(*spread), together)
"""
    )


def test_no_batch_at_all_gives_empty_results() -> None:
    """Under an outer `vmap` over an axis of length 0."""
    vec_env = VecEnv(CoinEnv(CoinConfig()), 4, autoreset=Compact(2))
    _, state = vec_env.reset(jax.random.key(0))
    no_states = jax.tree.map(lambda x: x[None][:0], state)
    obs, state, *_ = jax.vmap(vec_env.step)(no_states, jnp.zeros((0, 4, 2), jnp.float32))
    assert obs.shape == (0, 4, 4)
    assert_trees_equal(state, no_states)
