"""Batches of other libraries over four devices, in a process of their own."""

from typing import Any

CODE = """
import os
os.environ["XLA_FLAGS"] += " --xla_force_host_platform_device_count=4"
import jax, envrax
from helpers import assert_trees_equal
mesh, key = jax.make_mesh((4,), ("slots",)), jax.random.key(0)
for name in ("gymnax/Breakout-MinAtar", "jaxmarl/MPE_simple_spread_v3"):
    separate = envrax.make_vec(name, 8, pre_warm=False, final_obs=True)
    spread = envrax.shard(separate, mesh)
    ours, theirs = spread.reset(key), separate.reset(key)
    actions = separate.action_space.sample(key)
    for _ in range(28):
        ours, theirs = spread.step(ours[1], actions), separate.step(theirs[1], actions)
        assert_trees_equal(ours[2:4], theirs[2:4])
    assert spread.num_envs == 8 and spread.n_slots == separate.n_slots
    spread.slot_state(ours[1], spread.n_slots - 1)
"""


def test_they_do_not_depend_on_the_number_of_devices(run_python: Any) -> None:
    run_python(CODE)
