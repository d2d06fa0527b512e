"""`OtherAgentsPolicy`: a policy that moves some agents of a world."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from envrax._jax.mesh import while_loop
from envrax.batched_env import AnyBatch
from envrax.env import AnyEnv
from envrax.rollouts.policy import PlainPolicy, Policy, UniformPolicy, call_policy, is_first
from envrax.spaces import Dict
from envrax.spaces.conform import conform
from envrax.spaces.flattening import zero_element


class OtherAgentsPolicy:
    """A policy, as for `rollout`, that moves some agents of a world or of a batch of worlds."""

    def __init__(
        self, env: AnyEnv | AnyBatch, agents: Sequence[str], policy: Policy | None
    ) -> None:
        self.env = env
        self.agents = agents
        self._policy = policy
        self._space = Dict(self.of(env.action_space))

    def of(self, tree: Any) -> Any:
        """The entries of these agents in a dict by agent; None for None."""
        return tree and {agent: tree[agent] for agent in self.agents}

    def move(self, state: Any, policy_state: Any, obs: Any, rng: Any) -> tuple[Any, Any, Any]:
        """The actions in `state`, the next key, and the new state of the policy."""
        policy = UniformPolicy(self._space) if self._policy is None else PlainPolicy(self._policy)

        def mask(state: Any) -> Any:
            return self.of(self.env.action_mask(state))

        known: dict[str, Any] = {"mask": mask, "first": partial(is_first, self.env)}
        extra_inputs = {name: known[name](state) for name in policy.extra_names}
        rng, actions, policy_state, _ = call_policy(
            policy, policy_state, self.of(obs), rng, extra_inputs
        )
        return conform(self._space, actions, "policy", "actions"), rng, policy_state

    def move_if_active(self, state: Any, policy_state: Any, obs: Any, rng: Any) -> Any:
        """
        `move`; a policy without a state is not called where none of these agents is active.

        Under `vmap` it is called if one is active anywhere in the batch.
        """
        if jax.tree.leaves(policy_state) or not self.agents:
            return self.move(state, policy_state, obs, rng)

        def call(carry: Any) -> Any:
            return jnp.bool_(False), self.move(state, policy_state, obs, carry[1][1])

        # A loop of one round or none: under `vmap`, a `cond` would always compute both branches.
        active = jnp.stack([*self.of(self.env.active(state)).values()])
        carry = jnp.any(active), (zero_element(self._space), rng, policy_state)
        return while_loop(True, lambda carry: carry[0], call, carry)[1]
