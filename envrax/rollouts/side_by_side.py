"""A policy that plays episodes side by side, in the slots of a batch."""

from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from envrax._jax.jaxprs import origin
from envrax._jax.mesh import take_slots
from envrax._jax.types import with_shardings
from envrax.compiled_batch import layout_of
from envrax.rollouts.policy import (
    AnyPolicy,
    SplitPolicy,
    TracedPolicy,
    UniformPolicy,
    call_policy,
    trace_policy,
)
from envrax.spaces import Space
from envrax.spaces.conform import conform

_register = partial(jax.tree_util.register_dataclass, data_fields=["policy"])


@partial(_register, meta_fields=["changes", "action_space"])
class EachSlot:
    """
    A policy that is called for every slot on its own, as for a batch of one, with the slot's key.

    Its memory is the key of every slot, and what it changes of its state.

    Attributes
    ----------
    policy : TracedPolicy or UniformPolicy
        The policy of one slot.
    changes : tuple of bool
        For each leaf of `policy_state`, whether a call may change it. Only those leaves are kept
        for each slot.
    action_space : Space
        The space of the actions of a batch of one slot.
    """

    def __init__(self, policy: AnyPolicy, changes: tuple[bool, ...], action_space: Space) -> None:
        self.policy = policy
        self.changes = changes
        self.action_space = action_space

    @property
    def asks(self) -> tuple[str, ...]:
        return self.policy.asks

    def first_memory(self, policy_state: Any, rngs: jax.Array) -> Any:
        """The memory of all slots at the beginning of their episodes, with a key for each."""

        def for_each(x: jax.Array) -> jax.Array:
            return jnp.broadcast_to(x, (rngs.shape[0], *jnp.shape(x)))

        return rngs, [*map(for_each, self._changing(policy_state))]

    def fresh_where(self, mask: jax.Array, policy_state: Any, memory: Any, rngs: jax.Array) -> Any:
        """The memory in which the slots of a mask begin an episode, with new keys."""
        pick: Any = jax.vmap(jnp.where)
        pick_shared: Any = jax.vmap(jnp.where, (0, None, 0))
        pairs = zip(self._changing(policy_state), memory[1], strict=True)
        return pick(mask, rngs, memory[0]), [pick_shared(mask, x, rows) for x, rows in pairs]

    def __call__(self, policy_state: Any, memory: Any, obs: Any, asked: Any) -> tuple[Any, Any]:
        """The actions and the next memory of all slots."""
        leaves, structure = cast(Any, jax.tree.flatten(policy_state))

        def one(memory: Any, obs: Any, asked: Any) -> tuple[Any, Any]:
            rng, changed = memory
            rows = iter(changed)
            pairs = zip(leaves, self.changes, strict=True)
            state: Any = structure.unflatten([next(rows) if new else x for x, new in pairs])
            if isinstance(self.policy, UniformPolicy):
                rng, action, _, _ = call_policy(self.policy, state, obs, rng, asked)
                return action, (rng, changed)
            given = jax.tree.map(lambda x: x[None], (obs, asked))
            rng, action, state, _ = call_policy(self.policy, state, given[0], rng, given[1])
            action = conform(self.action_space, action, "policy", "action")
            return jax.tree.map(lambda x: x[0], action), (rng, self._changing(state))

        return jax.vmap(one)(memory, obs, asked)

    def _changing(self, policy_state: Any) -> list[Any]:
        pairs = zip(jax.tree.leaves(policy_state), self.changes, strict=True)
        return [x for x, changes in pairs if changes]


@partial(_register, meta_fields=[])
class AllSlots:
    """
    A policy that is called for all slots at once, with one key, as `rollout` does.

    Its memory is that key, and its state.
    """

    def __init__(self, policy: AnyPolicy) -> None:
        self.policy = policy

    @property
    def asks(self) -> tuple[str, ...]:
        return self.policy.asks

    def first_memory(self, policy_state: Any, rngs: jax.Array) -> Any:
        """The memory at the beginning."""
        return take_slots(rngs, 0), policy_state

    def fresh_where(self, mask: jax.Array, policy_state: Any, memory: Any, rngs: jax.Array) -> Any:
        """The memory, which lasts through all episodes: a policy clears its own by `first`."""
        return memory

    def __call__(self, policy_state: Any, memory: Any, obs: Any, asked: Any) -> tuple[Any, Any]:
        """The actions of all slots, and the next memory."""
        rng, policy_state = memory
        rng, action, policy_state, _ = call_policy(self.policy, policy_state, obs, rng, asked)
        return action, (rng, policy_state)


SideBySide = EachSlot | AllSlots


def side_by_side(env: Any, policy: Any, inputs: Any) -> SideBySide:
    """
    A policy of a batch as it plays episodes: for every slot on its own, if it can.

    Parameters
    ----------
    env : BatchedEnv
        The batch.
    policy : SplitPolicy or UniformPolicy
        The policy.
    inputs : tuple
        The types of its inputs in the batch: policy_state, obs, key, and a dict of what it asks.
    """
    space = env.single_action_space
    policy_state, obs, rng, asked = inputs
    n_leaves = len(jax.tree.leaves(policy_state))
    if isinstance(policy, UniformPolicy):
        return EachSlot(UniformPolicy(space), (False,) * n_leaves, space)
    given: Any = policy_state, *jax.tree.map(_one_row, (obs,)), rng, jax.tree.map(_one_row, asked)
    if layout := layout_of(env):
        whole = NamedSharding(layout.mesh, PartitionSpec())
        given = jax.tree.map(lambda x: with_shardings(x, whole), given)
    try:
        of_one = _traced_for_one(policy, space.batch(1), given)
    except Exception:  # such as a policy that is written for a fixed number of slots
        return AllSlots(trace_policy(policy, *inputs))
    return EachSlot(of_one, _changes(of_one, n_leaves), space.batch(1))


def _one_row(x: Any) -> Any:
    return jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype)


def _traced_for_one(policy: SplitPolicy, space: Space, given: Any) -> TracedPolicy:
    """The policy of one slot, whose actions are in `space`."""
    traced = trace_policy(policy, *given)
    answer = [x.aval for x in traced.program.jaxpr.outvars]
    action, _, _ = traced.program.outputs.unflatten(answer)
    jax.eval_shape(lambda x: conform(space, x, "policy", "action"), action)
    return traced


def _changes(policy: TracedPolicy, n_leaves: int) -> tuple[bool, ...]:
    """Whether a call may change each leaf of `policy_state`."""
    program = policy.program.jaxpr
    before = program.invars[len(jax.tree.leaves(policy.arrays)) :][:n_leaves]
    _, after, _ = policy.program.outputs.unflatten(program.outvars)
    pairs = zip(before, jax.tree.leaves(after), strict=True)
    return tuple(origin(program, new) is not old for old, new in pairs)
