"""A policy as a pytree that `jit` takes, and one call of it."""

import contextlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import MethodType
from typing import Any, cast

import jax
import numpy as np

from envrax._checks.callables import accepts
from envrax._checks.tuples import require_tuple
from envrax._jax.jaxprs import origin
from envrax._jax.types import strip_weak_type
from envrax.spaces import Space

Policy = Callable[..., tuple[Any, Any, Any]]
Policies = list[Any] | dict[Any, Any]  # of the members of a fleet


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["arrays"],
    meta_fields=["treedef", "others", "asks"],
)
@dataclass(frozen=True)
class SplitPolicy:
    """A policy as a pytree: its arrays and floats are traced, the rest is static."""

    arrays: list[Any]
    treedef: Any
    others: tuple[Any, ...]  # functions, for the most part, and their types; None for arrays
    asks: tuple[str, ...]  # those of `mask` and `first` that are parameters

    def joined(self) -> Any:
        pairs = zip(self.arrays, self.others, strict=True)
        return self.treedef.unflatten(other[1] if x is None else x for x, other in pairs)


def split_policy(policy: Policy | Policies | None) -> SplitPolicy:
    """A policy as a pytree that `jit` takes."""
    call = getattr(policy, "__call__", None)  # noqa: B004
    if isinstance(policy, MethodType) and not jax.tree_util.all_leaves([policy.__self__]):
        policy = jax.tree_util.Partial(policy.__func__, policy.__self__)
    elif isinstance(call, MethodType) and jax.tree_util.all_leaves([policy]):
        policy = call  # hashed by the object's identity, whether it has an `__eq__` or not
    leaves, treedef = cast(Any, jax.tree.flatten(policy))
    arrays = [x if _is_array(x) else None for x in leaves]
    # With types, since True equals 1.
    others = tuple(None if _is_array(x) else (cast(Any, type(x)), x) for x in leaves)
    asked = ("mask",) if policy is None else accepts(policy, ("mask", "first"), 3)
    _require_parameters(policy, asked)
    return SplitPolicy(arrays, treedef, others, asked)


def _require_parameters(policy: Any, asked: tuple[str, ...]) -> None:
    with contextlib.suppress(ValueError):  # some functions tell no signature
        signature = inspect.signature(policy) if policy is not None else None
        try:
            _ = signature and signature.bind(None, None, None, **dict.fromkeys(asked))
        except TypeError as error:
            raise TypeError(
                f"policy: expected `policy(policy_state, obs, rng)`; got {signature}: {error}."
            ) from None


def call_policy(
    space: Space, given: SplitPolicy, policy_state: Any, obs: Any, rng: Any, asked: Any
) -> tuple[Any, Any, Any, Any]:
    """The next key, the action, and the new state and the extras of the policy."""
    rng, key = jax.random.split(rng)
    policy = given.joined()
    if policy is None:
        mask, sample = asked["mask"], space.sample
        return rng, sample(key) if mask is None else sample(key, mask), policy_state, None
    call = partial(_called, policy_state, obs, key, asked)
    before = jax.tree.leaves(policy)
    returned = call(policy)
    if [*map(id, jax.tree.leaves(policy))] != [*map(id, before)] and _changes(given, call):
        raise TypeError(
            "policy: expected a policy that a call does not change; got a "
            f"{type(policy).__name__} that changes, and the change would be lost. Keep what "
            "changes, such as random streams and running means, in `policy_state`."
        )
    answer = require_tuple("policy", "the call", returned)
    expected, got = (str(jax.tree.structure(x)) for x in (policy_state, answer[1]))
    if got != expected:
        raise TypeError(f"policy: expected policy_state {expected}, as `start` got it; got {got}.")
    return rng, *strip_weak_type(answer)


def _called(policy_state: Any, obs: Any, rng: Any, asked: Any, policy: Any) -> Any:
    return policy(policy_state, obs, rng, **asked)


def _changes(given: SplitPolicy, call: Callable[[Any], Any]) -> bool:
    """Whether a call changes arrays in a policy; a copy, such as `nnx.jit` makes, is no change."""

    def after(arrays: list[Any]) -> list[Any]:
        call(policy := replace(given, arrays=arrays).joined())
        return split_policy(policy).arrays

    program = jax.make_jaxpr(after)(given.arrays).jaxpr
    return [origin(program, x) for x in program.outvars] != [*program.invars]


def _is_array(x: Any) -> bool:
    return isinstance(x, jax.Array | np.ndarray | np.generic | float | complex)
