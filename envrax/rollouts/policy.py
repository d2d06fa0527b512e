"""A policy in the forms in which a program takes it: called, compiled by the user, or traced."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from types import FunctionType, MethodType
from typing import Any, ClassVar, cast

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from envrax._checks.callables import accepts, require_parameters
from envrax._jax.functions import Jitted, Traced, as_jitted, join, split, trace
from envrax._jax.jaxprs import origin
from envrax._jax.mesh import replicate
from envrax._jax.programs import programs
from envrax._jax.returned import returned_arrays, strip_weak_type
from envrax._jax.types import leaf_type, same_types, with_shardings
from envrax.batched_env import AnyBatch, BatchedEnv, is_straight
from envrax.compiled_batch import layout_of
from envrax.env import AnyEnv, EnvState, JaxEnv
from envrax.spaces import Space
from envrax.spaces.conform import conform

Policy = Callable[..., tuple[Any, Any, Any]]
Policies = list[Any] | dict[Any, Any]  # of the members of a fleet
_OPTIONAL = "mask", "first"  # parameters of a policy


class PlainPolicy:
    """
    A policy that is called where it is used, and what it returns is checked.

    Parameters
    ----------
    policy : callable
        As for `rollout`.

    Attributes
    ----------
    arrays : list
        The leaves of the policy, as a pytree, that are arrays or floats; None for the others.
    extra_names : tuple of str
        Those of `mask` and `first` that are parameters of the policy.
    """

    def __init__(self, policy: Any) -> None:
        if not callable(policy):
            raise TypeError(
                f"policy: expected a function `policy(policy_state, obs, rng)`; got {policy!r}."
            )
        self.name = getattr(policy, "__qualname__", type(policy).__name__)
        if isinstance(policy, MethodType) and not jax.tree_util.all_leaves([policy.__self__]):
            policy = jax.tree_util.Partial(policy.__func__, policy.__self__)
        self.arrays, self._static = split(policy)
        self.extra_names = accepts(policy, _OPTIONAL, 3)

    def __call__(self, *given: Any) -> tuple[Any, Any, Any]:
        return self.call(self.arrays, *given)

    def traced(self, *given: Any) -> "TracedPolicy":
        """What the policy computes now, from inputs like these, or of these types."""
        hint = "Keep what a later step needs in `policy_state`."
        traced = trace(self.call, self.arrays, given, "policy", self.name, hint)
        return TracedPolicy(traced, self.extra_names)

    def call(
        self, arrays: list[Any], policy_state: Any, obs: Any, rng: Any, extra_inputs: dict[str, Any]
    ) -> tuple[Any, Any, Any]:
        """The action, and the new state and the extras, of the policy with these arrays."""
        policy = join(arrays, self._static)
        before = [*map(id, jax.tree.leaves(policy))]
        try:
            returned = policy(policy_state, obs, rng, **extra_inputs)
        except TypeError:
            form = "policy: expected `policy(policy_state, obs, rng)`"
            require_parameters(form, policy, None, None, None, **extra_inputs)
            raise
        after = [*map(id, jax.tree.leaves(policy))]
        if after != before and self._changes(policy_state, obs, rng, extra_inputs):
            raise TypeError(
                "policy: expected a policy that a call does not change; got a "
                f"{type(policy).__name__} that changes, and the change would be lost. Keep what "
                "changes, such as random streams and running means, in `policy_state`."
            )
        answer: Any = returned_arrays("policy", "the call", returned)
        if not same_types(policy_state, answer[1]):
            expected = jax.tree.map(leaf_type, policy_state)
            got = jax.tree.map(leaf_type, answer[1])
            raise TypeError(
                f"policy: expected policy_state {expected}, as `start` got it; got {got}."
            )
        return answer

    def _changes(self, *given: Any) -> bool:
        """Whether a call changes the arrays; a copy, such as `nnx.jit` makes, is no change."""

        def after(arrays: list[Any]) -> list[Any]:
            policy = join(arrays, self._static)
            *of_policy, extra_inputs = given
            policy(*of_policy, **extra_inputs)
            return split(policy)[0]

        program = jax.make_jaxpr(after)(self.arrays).jaxpr
        return [origin(program, x) for x in program.outvars] != [*program.invars]


@partial(jax.tree_util.register_dataclass, data_fields=["jitted"], meta_fields=[])
@dataclass
class JittedPolicy:
    """A policy that the user compiled with `jax.jit`: traced once for its types, as JAX does."""

    jitted: Jitted

    @property
    def arrays(self) -> list[Any]:
        return self.jitted.arrays

    @cached_property  # it reads a signature
    def extra_names(self) -> tuple[str, ...]:
        return self.plain.extra_names

    @property
    def plain(self) -> PlainPolicy:
        return PlainPolicy(self.jitted.bound)

    def __call__(self, *given: Any) -> tuple[Any, Any, Any]:
        return self.plain(*given)

    def traced(self, *given: Any) -> "TracedPolicy":
        return self.plain.traced(*given)


@partial(jax.tree_util.register_dataclass, data_fields=["traced"], meta_fields=["extra_names"])
@dataclass
class TracedPolicy:
    """A policy as it is at this call."""

    traced: Traced
    extra_names: tuple[str, ...]

    def __call__(self, *given: Any) -> tuple[Any, Any, Any]:
        return self.traced(*given)


@jax.tree_util.register_static
@dataclass(frozen=True)
class UniformPolicy:
    """Uniform draws from a space, among the legal actions."""

    space: Space
    extra_names: ClassVar = ("mask",)
    arrays: ClassVar = ()

    def __call__(
        self, policy_state: Any, obs: Any, rng: Any, extra_inputs: dict[str, Any]
    ) -> tuple[Any, Any, Any]:
        mask, sample = extra_inputs["mask"], self.space.sample
        return sample(rng) if mask is None else sample(rng, mask), policy_state, None


AnyPolicy = PlainPolicy | JittedPolicy | TracedPolicy | UniformPolicy


def require_env(who: str, env: Any) -> None:
    """Raise a TypeError for anything but an environment or a batch, such as the id of one."""
    if not isinstance(env, JaxEnv | BatchedEnv):
        raise TypeError(
            f"{who}: expected a JaxEnv, a BatchedEnv or a fleet; got {env!r}. Pass one that `make` "
            "or `make_vec` returned."
        )


def plain_policy(env: AnyEnv | AnyBatch, policy: Policy | None) -> PlainPolicy | UniformPolicy:
    """The policy of the user, to be called or traced."""
    return UniformPolicy(env.action_space) if policy is None else PlainPolicy(policy)


def read_policy(
    env: AnyEnv | AnyBatch, policy: Policy | None
) -> tuple[PlainPolicy | JittedPolicy | UniformPolicy, Any]:
    """The policy of the user, and what of it the user compiled."""
    jitted = None if policy is None or isinstance(policy, FunctionType) else as_jitted(policy)
    if jitted is None:
        return plain_policy(env, policy), None
    return JittedPolicy(jitted), jitted.function


def trace_policy(env: AnyEnv | AnyBatch, policy: AnyPolicy, position: Any) -> AnyPolicy:
    """The policy as it is now, for a compiled program that begins at this `Rollout`."""
    if isinstance(policy, PlainPolicy):
        given = input_types(env, policy.extra_names, position)
        try:
            policy = policy.traced(*given)
        except Exception as error:
            shape = jax.tree.map(jnp.shape, given[1])
            error.add_note(f"The policy was called with observations of shape {shape}.")
            raise
    return on_devices_of(env, policy)


def input_types(env: AnyEnv | AnyBatch, names: tuple[str, ...], position: Any) -> Any:
    """Inputs of a policy: values if all are strongly typed arrays, else types."""
    given = position.policy_state, position.obs, position.rng
    as_types = bool(names)
    for x in jax.tree.leaves(given):
        if not isinstance(x, jax.Array) or getattr(x, "weak_type", False):
            as_types = True
    if not as_types:
        return *given, {}
    inputs = partial(inputs_of, env) if is_straight(env) else _compiled_inputs(env).eval_shape
    return inputs(names, position)


def inputs_of(env: AnyEnv | AnyBatch, names: tuple[str, ...], position: Any) -> tuple[Any, ...]:
    """The arguments of a policy, with the key not yet split."""
    extra_inputs = extra_inputs_of(env, names, position.env_state)
    return position.policy_state, position.obs, position.rng, extra_inputs


_compiled_inputs = programs(lambda *args: strip_weak_type(inputs_of(*args)), 0)


def on_devices_of(env: AnyEnv | AnyBatch, function: Any) -> Any:
    """The arrays of a function on the devices of an environment."""
    layout = getattr(env, "layout", None)
    return function if layout is None else replicate(function, layout.mesh, "policy")


def call_policy(
    policy: AnyPolicy, policy_state: Any, obs: Any, rng: Any, extra_inputs: Any
) -> tuple[Any, Any, Any, Any]:
    """The next key, the action, and the new state and the extras of the policy."""
    rng, key = jax.random.split(rng)
    return rng, *policy(policy_state, obs, key, extra_inputs)


call_compiled = programs(lambda _, *given: call_policy(*given))  # for an environment on the host


def extra_inputs_of(env: AnyEnv | AnyBatch, names: tuple[str, ...], state: Any) -> dict[str, Any]:
    """What a policy takes beside the observation: those of `mask` and `first` that are named."""
    extra_inputs: dict[str, Any] = {}
    if "mask" in names:
        extra_inputs["mask"] = env.action_mask(state)
    if "first" in names:
        extra_inputs["first"] = is_first(env, state)
    return extra_inputs


def is_first(env: AnyEnv | AnyBatch, state: Any) -> jax.Array:
    """Whether the next step is the first of an episode, for each slot."""
    slots: tuple[int, ...] = () if isinstance(env, JaxEnv) else (env.n_slots,)
    while not isinstance(state, EnvState) and hasattr(state, "env_state"):
        state = state.env_state
    steps: Any = getattr(state, "step", 0)
    n_slots = sum(slots)
    n_rows = jnp.size(steps)
    # A slot may be one agent of several in a world.
    is_known = isinstance(state, EnvState) and jnp.ndim(steps) == 1
    if is_known and n_slots and n_rows and n_slots % n_rows == 0:
        return jnp.repeat(steps == 0, n_slots // n_rows)
    if not isinstance(state, EnvState) or jnp.shape(steps) != slots:
        raise TypeError(
            "policy: expected an environment whose state counts the steps of each slot, for the "
            f"parameter `first`; got {env!r}. Leave that parameter out."
        )
    return state.step == 0


@dataclass
class PolicyPerSlot:
    """
    A policy that is called for every slot on its own, in episodes that their keys decide.

    Attributes
    ----------
    policy : TracedPolicy or UniformPolicy
        The policy of a batch of one slot.
    policy_state : pytree
        The state of the policy at the beginning of each episode.
    draws : bool
        Whether the policy uses its key.
    changes : tuple of bool
        Whether it may change each leaf of its state. Only those are kept for each slot.
    action_space : Space
        The actions of a batch of one slot.
    """

    policy: Any
    policy_state: Any
    draws: bool
    changes: tuple[bool, ...]
    action_space: Space

    def first_memory(self, rngs: jax.Array) -> Any:
        """What is kept for each slot at the beginning of an episode, with these keys."""
        rows = self._changing(self.policy_state)
        rows = [jnp.broadcast_to(x, (rngs.shape[0], *x.shape)) for x in rows]
        return rngs if self.draws else None, rows

    def act(
        self, memory: Any, obs: Any, extra_inputs: Any, unused_key: jax.Array
    ) -> tuple[Any, Any]:
        """The actions of all slots, and what is kept for each."""
        leaves, structure = cast(Any, jax.tree.flatten(self.policy_state))
        has_batch_axis = not isinstance(self.policy, UniformPolicy)

        def one(memory: Any, obs: Any, extra_inputs: Any) -> tuple[Any, Any]:
            rng, kept = memory
            rows = iter(kept)
            pairs = zip(leaves, self.changes, strict=True)
            state: Any = structure.unflatten([next(rows) if new else x for x, new in pairs])
            if has_batch_axis:
                obs, extra_inputs = jax.tree.map(lambda x: x[None], (obs, extra_inputs))
            if self.draws:
                rng, action, state, _ = call_policy(self.policy, state, obs, rng, extra_inputs)
            else:
                action, state, _ = self.policy(state, obs, unused_key, extra_inputs)
            if has_batch_axis:
                action = conform(self.action_space, action, "policy", "action")
                action = jax.tree.map(lambda x: x[0], action)
            return action, (rng, self._changing(state))

        return jax.vmap(one)(memory, obs, extra_inputs)

    def _changing(self, policy_state: Any) -> list[Any]:
        pairs = zip(jax.tree.leaves(policy_state), self.changes, strict=True)
        return [x for x, changes in pairs if changes]


def trace_for_slot(
    env: AnyBatch, policy: PlainPolicy | JittedPolicy, position: Any
) -> TracedPolicy | None:
    """
    The policy as it is now, for a batch of one slot.

    None if its actions have a row for each slot whatever it observes: it reads no observation.
    """
    inputs = input_types(env, policy.extra_names, position)
    state, obs, key, extra_inputs = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), inputs
    )
    given = state, *jax.tree.map(_one_row, (obs,)), key, jax.tree.map(_one_row, extra_inputs)
    if layout := layout_of(env):
        whole = NamedSharding(layout.mesh, PartitionSpec())
        given = jax.tree.map(lambda x: with_shardings(x, whole), given)
    try:
        found = policy.traced(*given)
        action, reads = found.traced.outputs[0], found.traced.reads()
        rows = {x.shape[:1] for x in jax.tree.leaves(action)}
        slots = {x.shape[:1] for x in jax.tree.leaves(obs)}
        of_obs = slice(len(jax.tree.leaves(state)), len(jax.tree.leaves((state, obs))))
        if rows == slots != {(1,)} and not any(reads[of_obs]):
            return None
        checked = partial(conform, env.single_action_space.batch(1), who="policy", name="action")
        jax.eval_shape(checked, action)
    except Exception as error:
        error.add_note(
            "evaluate calls a policy for every slot on its own: an observation has shape (1, ...). "
            "For a policy that must be called for all slots at once, pass `as_rollout=True`."
        )
        raise
    return found


def policy_per_slot(env: AnyBatch, policy: Any, policy_state: Any) -> PolicyPerSlot:
    """A policy of one slot, for all slots, from that state at the beginning of each episode."""
    space = env.single_action_space
    if isinstance(policy, UniformPolicy):
        never = (False,) * len(jax.tree.leaves(policy_state))
        return PolicyPerSlot(UniformPolicy(space), policy_state, True, never, space)
    state, obs, *_ = policy.traced.inputs
    sources = jax.tree.leaves(policy.traced.copies()[1])
    changes = tuple(source != i for i, source in enumerate(sources))
    draws = policy.traced.reads()[len(jax.tree.leaves((state, obs)))]
    return PolicyPerSlot(policy, policy_state, draws, changes, space.batch(1))


def _one_row(x: Any) -> Any:
    return jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype)
