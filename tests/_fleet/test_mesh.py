"""A fleet over several devices equals the one on a single device, whatever the kind of mesh."""

from typing import Any

# In a process of its own, which has four devices.
CODE = """
import os
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + (
    " --xla_force_host_platform_device_count=4"
)
import jax, jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from fakes import CounterEnv, VectorConfig
from helpers import assert_trees_equal, plain
from envrax import MultiVecEnv, VecEnv

def fleet(n):
    limits = 2, 2, 5
    return MultiVecEnv([VecEnv(CounterEnv(VectorConfig(max_steps=x)), n) for x in limits])

def steps(multi, states, actions):
    for _ in range(3):
        out = multi.step(states, actions)
        states = out[1]
    return out

eight, actions = fleet(8), [jnp.ones(8, jnp.int32)] * 3
_, states = eight.reset(jax.random.key(0))
expected = steps(eight, states, actions)
for kind in (AxisType.Explicit, AxisType.Auto):
    mesh = jax.make_mesh((4,), ("d",), axis_types=(kind,))
    spread = jax.device_put((states, actions), NamedSharding(mesh, P("d")))
    assert_trees_equal(steps(eight, *spread), expected)
    one = eight.step_at(0, spread[0][0], spread[1][0])
    assert_trees_equal(one, eight.step_at(0, states[0], actions[0]))
    local = jax.shard_map(fleet(2).step, mesh=mesh, in_specs=P("d"), out_specs=P("d"))
    out = jax.tree.map(plain, jax.jit(local)(*spread))
    assert_trees_equal(out, jax.tree.map(plain, eight.step(states, actions)))
"""


def test_every_mesh_equals_one_device(run_python: Any) -> None:
    run_python(CODE)
