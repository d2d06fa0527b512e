"""A policy as the user passed it, and what it computes at this call as an argument of a program."""

import contextlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import MethodType
from typing import Any, ClassVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from envrax._checks.callables import accepts
from envrax._checks.tuples import require_tuple
from envrax._jax.jaxprs import origin
from envrax._jax.program_key import program_key
from envrax._jax.types import leaf_type, same_types, strip_weak_type
from envrax.spaces import Space

Policy = Callable[..., tuple[Any, Any, Any]]
Policies = list[Any] | dict[Any, Any]  # of the members of a fleet
_ARRAYS = jax.Array | np.ndarray | np.generic | float | complex


class SplitPolicy:
    """
    A policy, split into its arrays and the rest, as for a pytree.

    Parameters
    ----------
    policy : callable
        As for `rollout`.

    Attributes
    ----------
    name : str
        The function or class, for error messages.
    arrays : list
        The leaves of the policy that are arrays or floats; None for the others.
    asks : tuple of str
        Those of `mask` and `first` that are parameters of the policy.
    """

    def __init__(self, policy: Any) -> None:
        self.name = getattr(policy, "__qualname__", type(policy).__name__)
        if isinstance(policy, MethodType) and not jax.tree_util.all_leaves([policy.__self__]):
            policy = jax.tree_util.Partial(policy.__func__, policy.__self__)
        leaves, self._treedef = cast(Any, jax.tree.flatten(policy))
        self.arrays: list[Any] = [x if isinstance(x, _ARRAYS) else None for x in leaves]
        self._others = [None if isinstance(x, _ARRAYS) else x for x in leaves]
        self.asks = accepts(policy, ("mask", "first"), 3)
        _require_parameters(policy, self.asks)

    def __call__(self, *given: Any) -> tuple[Any, Any, Any]:
        return self.call(self.arrays, *given)

    def call(
        self, arrays: list[Any], policy_state: Any, obs: Any, rng: Any, asked: dict[str, Any]
    ) -> tuple[Any, Any, Any]:
        """The action, and the new state and the extras, of the policy with these arrays."""
        policy = self._joined(arrays)
        before = [*map(id, jax.tree.leaves(policy))]
        returned = policy(policy_state, obs, rng, **asked)
        after = [*map(id, jax.tree.leaves(policy))]
        if after != before and self._changes(policy_state, obs, rng, asked):
            raise TypeError(
                "policy: expected a policy that a call does not change; got a "
                f"{type(policy).__name__} that changes, and the change would be lost. Keep what "
                "changes, such as random streams and running means, in `policy_state`."
            )
        answer = strip_weak_type(require_tuple("policy", "the call", returned))
        if not same_types(policy_state, answer[1]):
            expected = jax.tree.map(leaf_type, policy_state)
            got = jax.tree.map(leaf_type, answer[1])
            raise TypeError(
                f"policy: expected policy_state {expected}, as `start` got it; got {got}."
            )
        return answer

    def _joined(self, arrays: list[Any]) -> Any:
        pairs = zip(arrays, self._others, strict=True)
        return self._treedef.unflatten([other if x is None else x for x, other in pairs])

    def _changes(self, *given: Any) -> bool:
        """Whether a call changes the arrays; a copy, such as `nnx.jit` makes, is no change."""

        def after(arrays: list[Any]) -> list[Any]:
            policy = self._joined(arrays)
            *of_policy, asked = given
            policy(*of_policy, **asked)
            return SplitPolicy(policy).arrays

        program = jax.make_jaxpr(after)(self.arrays).jaxpr
        return [origin(program, x) for x in program.outvars] != [*program.invars]


@jax.tree_util.register_static
@dataclass(frozen=True)
class UniformPolicy:
    """Uniform draws from a space, among the legal actions."""

    space: Space
    asks: ClassVar = ("mask",)
    arrays: ClassVar = ()

    def __call__(
        self, policy_state: Any, obs: Any, rng: Any, asked: dict[str, Any]
    ) -> tuple[Any, Any, Any]:
        mask, sample = asked["mask"], self.space.sample
        return sample(rng) if mask is None else sample(rng, mask), policy_state, None


class _Program:
    """What a policy computes from its arrays, constants and inputs; equal if it is the same."""

    def __init__(self, jaxpr: Any, outputs: Any, inputs: Any, asks: tuple[str, ...]) -> None:
        self.jaxpr = jaxpr
        self.outputs = outputs
        self.inputs = inputs
        self.asks = asks
        self._key = asks, outputs, program_key(jaxpr)
        self._hash = hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Program) and self._key == other._key

    def __hash__(self) -> int:
        return self._hash


@partial(
    jax.tree_util.register_dataclass, data_fields=["arrays", "constants"], meta_fields=["program"]
)
class TracedPolicy:
    """
    A policy as it is at this call: a pytree of all arrays that it holds or closes over.

    A compiled program that takes it keeps none of these arrays, and no function of the user.
    """

    def __init__(self, arrays: list[Any], constants: list[Any], program: _Program) -> None:
        self.arrays = arrays
        self.constants = constants
        self.program = program

    @property
    def asks(self) -> tuple[str, ...]:
        return self.program.asks

    def __call__(self, *given: Any) -> tuple[Any, Any, Any]:
        if not same_types(given, self.program.inputs):
            raise TypeError(
                "policy: expected inputs of the same types in every step; got "
                f"{jax.tree.map(leaf_type, self.program.inputs)} in the first and "
                f"{jax.tree.map(leaf_type, given)} in a later one."
            )
        function = cast(Any, jaxpr_as_fun)(ClosedJaxpr(self.program.jaxpr, self.constants))
        answer = function(*jax.tree.leaves((self.arrays, *given)))
        return self.program.outputs.unflatten(strip_weak_type(answer))  # literals are no arrays


AnyPolicy = SplitPolicy | TracedPolicy | UniformPolicy


def call_policy(
    policy: AnyPolicy, policy_state: Any, obs: Any, rng: Any, asked: Any
) -> tuple[Any, Any, Any, Any]:
    """The next key, the action, and the new state and the extras of the policy."""
    rng, key = jax.random.split(rng)
    return rng, *policy(policy_state, obs, key, asked)


def trace_policy(policy: SplitPolicy, *given: Any) -> TracedPolicy:
    """
    What a policy computes now.

    Parameters
    ----------
    policy : SplitPolicy
        The policy.
    *given : pytree of jax.ShapeDtypeStruct
        The types of its inputs: policy_state, obs, key, and a dict of what it asks for.
    """
    return _traced(policy.call, policy.arrays, given, policy.asks, f"policy {policy.name}")


def trace_function(function: Callable[..., Any], *given: Any) -> Any:
    """What another function of the user, such as `collect`, computes now."""
    return _traced(lambda _, *given: function(*given), [], given, (), f"{function!r}")


def _traced(
    function: Callable[..., Any], arrays: list[Any], given: Any, asks: tuple[str, ...], name: str
) -> TracedPolicy:
    try:
        traced, types = jax.make_jaxpr(function, return_shape=True)(arrays, *given)
        for x in traced.consts:
            if isinstance(x, Tracer):
                jnp.copy(x)  # an error, if its trace has ended
    except jax.errors.UnexpectedTracerError as error:
        raise TypeError(
            f"rollout, evaluate: expected a function that keeps no array of a call; got {name}, "
            "which uses one that JAX traced in an earlier call. Keep what a later step needs in "
            "`policy_state`."
        ) from error
    program = _Program(traced.jaxpr, jax.tree.structure(types), given, asks)
    return TracedPolicy(arrays, traced.consts, program)


def _require_parameters(policy: Any, asked: tuple[str, ...]) -> None:
    with contextlib.suppress(ValueError):  # some functions tell no signature
        signature = inspect.signature(policy)
        try:
            signature.bind(None, None, None, **dict.fromkeys(asked))
        except TypeError as error:
            raise TypeError(
                f"policy: expected `policy(policy_state, obs, rng)`; got {signature}: {error}."
            ) from None
