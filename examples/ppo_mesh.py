"""`ppo.py --mesh`: the slots are spread over all local devices; each learns from its own."""

from typing import Any

import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from ppo_algorithm import PPO, TrainState
from ppo_options import HOST, Options

import envrax

AXIS = "slots"
EVERYWHERE, SPREAD = PartitionSpec(), PartitionSpec(AXIS)


class MeshPPO(PPO):
    """
    PPO on a mesh of all local devices: slots lie along it, parameters on every device.

    `n_envs` are the slots of all devices together. A minibatch is drawn on every device from its
    own slots, and the gradient is the mean over the devices.
    """

    def __init__(self, options: Options) -> None:
        n, n_envs = jax.local_device_count(), options.n_envs
        if options.env.startswith(HOST) or envrax.get_spec(options.env).is_batched:
            raise ValueError(f"--mesh: expected an environment of one agent; got {options.env}.")
        if n_envs % n or n_envs // n * options.n_steps % options.minibatches:
            raise ValueError(
                f"--mesh: expected n_envs to be a multiple of {n}, the number of devices, and the "
                f"steps of each device of minibatches; got n_envs = {n_envs}, n_steps = "
                f"{options.n_steps}, minibatches = {options.minibatches}."
            )
        super().__init__(options)
        self.mesh = jax.make_mesh((n,), (AXIS,), (AxisType.Auto,), devices=jax.local_devices())
        self.env = envrax.shard(self.env, self.mesh)
        everywhere, spread = (NamedSharding(self.mesh, spec) for spec in (EVERYWHERE, SPREAD))
        at = envrax.Rollout(spread, spread, everywhere, everywhere)
        self.layout = TrainState(everywhere, everywhere, at)
        self.init: Any = jax.jit(super().init, out_shardings=self.layout)

    def update(self, state: TrainState, _: None) -> tuple[TrainState, Any]:
        state, ended = super().update(state, _)
        return jax.lax.with_sharding_constraint(state, self.layout), ended

    def improve(self, params: Any, opt_state: Any, steps: envrax.Transition, rng: jax.Array) -> Any:
        def on_each(params: Any, opt_state: Any, steps: Any, rng: jax.Array) -> Any:
            rng = jax.random.fold_in(rng, jax.lax.axis_index(AXIS))
            return super(MeshPPO, self).improve(params, opt_state, steps, rng)

        specs = EVERYWHERE, EVERYWHERE, PartitionSpec(None, AXIS), EVERYWHERE
        learn = jax.shard_map(
            on_each, mesh=self.mesh, in_specs=specs, out_specs=EVERYWHERE, check_vma=False
        )
        return learn(params, opt_state, steps, rng)

    def gradient(self, params: Any, *minibatch: Any) -> Any:
        return jax.lax.pmean(super().gradient(params, *minibatch), AXIS)
