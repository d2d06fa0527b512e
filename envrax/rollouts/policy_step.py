"""One step of a policy in an environment or a batch, as pure functions."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._jax.compiled import BEFORE_CALLS
from envrax._jax.keys import to_threefry
from envrax._jax.mesh import replicate, varying_like
from envrax._jax.per_object import PerObject, program_per_env
from envrax._jax.types import strip_weak_type
from envrax.autoreset.rule import step_one
from envrax.autoreset.slot import reset_slot, with_final_mask
from envrax.batched_env import BatchedEnv
from envrax.compiled_batch import (
    CompiledBatch,
    layout_of,
    require_final_obs,
    with_autoreset,
    with_final_obs,
)
from envrax.env import AnyEnv, EnvState, JaxEnv
from envrax.rollouts.policy import (
    AnyPolicy,
    Policies,
    Policy,
    SplitPolicy,
    UniformPolicy,
    call_policy,
    trace_policy,
)
from envrax.rollouts.side_by_side import side_by_side
from envrax.spaces.conform import conform
from envrax.termination import step_end

AnyBatch = BatchedEnv[Any, Any]


class Rollout(NamedTuple):
    """
    The position of a rollout: everything that the next step depends on.

    Attributes
    ----------
    obs : pytree of jax.Array
        The observation that the policy sees next.
    env_state : pytree
        State of the environment.
    policy_state : pytree
        State of the policy.
    rng : jax.Array
        PRNG key for the policy's randomness.
    """

    obs: Any
    env_state: Any
    policy_state: Any
    rng: jax.Array


class Transition(NamedTuple):
    """
    One step; `rollout` returns it with a leading time axis on each leaf.

    Attributes
    ----------
    obs, action : pytree of jax.Array
        The observation before the step, and the action of the policy.
    reward : jax.Array
        As the environment returned it.
    done, terminated, truncated : jax.Array
        bool: whether an episode ended in this step, and why. Without a reason of the environment
        an end is a truncation where `step >= config.max_steps`, else a termination.
    next_obs : pytree of jax.Array
        The observation after the step, before any reset; where an episode ended, the next `obs` is
        the first one of the next episode. To bootstrap, take the value of `next_obs` wherever
        `terminated` is False.
    info : dict
        The info of the step, with `terminated` and `truncated`; and with `final_mask`, the mask of
        the legal actions in the state of `next_obs`, if the environment has masks.
    extras : pytree
        The extras that the policy returned, such as log-probabilities.
    """

    obs: Any
    action: Any
    reward: jax.Array
    done: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    next_obs: Any
    info: dict[str, Any]
    extras: Any


def require_env(who: str, env: Any) -> None:
    """Raise a TypeError for anything but an environment or a batch, such as the id of one."""
    if not isinstance(env, JaxEnv | BatchedEnv):
        raise TypeError(
            f"{who}: expected a JaxEnv, a BatchedEnv or a fleet; got {env!r}. Pass one that `make` "
            "or `make_vec` returned."
        )


def begin(env: AnyEnv | AnyBatch, rng: jax.Array, policy_state: Any) -> Rollout:
    """Begin an episode, or one in every slot."""
    layout = layout_of(env) if isinstance(env, BatchedEnv) else None
    if layout is not None:
        rng, policy_state = replicate((rng, policy_state), layout.mesh, "start")
    rng, key = jax.random.split(to_threefry(rng))
    returned: Any = reset_slot(env, key) if isinstance(env, JaxEnv) else env.reset(key)
    obs, state = varying_like(key, returned)
    return Rollout(jax.tree.map(copy_if_numpy, obs), state, as_arrays(policy_state), rng)


def as_arrays(policy_state: Any) -> Any:
    """The state of a policy as arrays that nobody else writes to."""
    return jax.tree.map(lambda x: strip_weak_type(copy_if_numpy(x)), policy_state)


def step(env: AnyEnv | AnyBatch, policy: AnyPolicy, at: Rollout) -> tuple[Rollout, Transition]:
    """One step; `episode_end` fills in `terminated` and `truncated` later."""
    rng, action, policy_state, extras = act(env, policy, at)
    if isinstance(env, JaxEnv):
        stepped = step_one(env, at.env_state, cast_action(env, action))
        obs, state, reward, _, info, last, next_obs = stepped
        done = last.done
        terminated, truncated = step_end(env.name, env, last, info)
        info = {**info, "terminated": terminated, "truncated": truncated}
        info = with_final_mask("rollout", env, last, info)
    else:
        batch = _as_rolled_out(env) or env
        obs, state, reward, done, info = batch.step(at.env_state, action)
        next_obs = require_final_obs(env.name, info)
        info = {name: x for name, x in info.items() if name != "final_obs"}
    transition = Transition(at.obs, action, reward, done, done, done, next_obs, info, extras)
    return Rollout(obs, state, policy_state, rng), transition


def cast_action(env: AnyEnv, action: Any) -> Any:
    """The action of a policy in the dtype of the action space."""
    return conform(env.action_space, action, "policy", "action")


def split_policy(
    env: AnyEnv | AnyBatch, policy: Policy | Policies | None
) -> SplitPolicy | UniformPolicy:
    """The policy of the user, as the functions of this module take it."""
    return UniformPolicy(env.action_space) if policy is None else SplitPolicy(policy)


def read_policy(
    env: AnyEnv | AnyBatch, policy: AnyPolicy, at: Rollout, one_slot: bool = False
) -> Any:
    """
    The policy as it is now, for a compiled program that is called next.

    Parameters
    ----------
    env : JaxEnv or BatchedEnv
        The environment.
    policy : SplitPolicy, TracedPolicy or UniformPolicy
        The policy; only the first kind is read.
    at : Rollout
        Where it is called first, or the types of that.
    one_slot : bool, default False
        Return a `SideBySide`, which calls the policy of a batch for every slot on its own.
    """
    for function in tuple(BEFORE_CALLS):
        function()
    inputs = _compiled_inputs(env).eval_shape if env.traceable else partial(_inputs, env)
    if one_slot:
        traced: Any = side_by_side(env, policy, inputs(policy.asks, at))
    elif not isinstance(policy, SplitPolicy):
        return policy
    else:
        traced = trace_policy(policy, *inputs(policy.asks, at))
    if isinstance(env, CompiledBatch) and env.layout is not None:
        return placed(env, traced)
    return traced


def placed(env: AnyEnv | AnyBatch, traced: Any) -> Any:
    """The arrays of a function on the devices of an environment."""
    layout = layout_of(env) if isinstance(env, BatchedEnv) else None
    return traced if layout is None else replicate(traced, layout.mesh, "policy")


def _inputs(env: AnyEnv | AnyBatch, asks: tuple[str, ...], at: Rollout) -> tuple[Any, ...]:
    """What a policy is called with, but with the key that its own is split from."""
    return at.policy_state, at.obs, at.rng, asked(env, asks, at.env_state)


def asked(env: AnyEnv | AnyBatch, asks: tuple[str, ...], state: Any) -> dict[str, Any]:
    """What a policy asks for beside the observation."""
    known = {"mask": env.action_mask, "first": partial(is_first, env)}
    return {name: known[name](state) for name in asks}


_compiled_inputs = program_per_env(lambda *args: strip_weak_type(_inputs(*args)), 0)


def act(env: AnyEnv | AnyBatch, policy: AnyPolicy, at: Rollout) -> tuple[Any, Any, Any, Any]:
    """The next key, the action, and the new state and the extras of the policy."""
    call = call_policy if env.traceable else _compiled_call(env)
    return call(policy, *_inputs(env, policy.asks, at))


_compiled_call = program_per_env(lambda _, *given: call_policy(*given))


def loop(env: AnyEnv | AnyBatch, goes_on: Callable[[Any], Any], step: Any, carry: Any) -> Any:
    """`jax.lax.while_loop`, or a Python loop for an environment on the host."""
    if env.traceable:
        return jax.lax.while_loop(goes_on, step, varying_like(carry, carry))
    while goes_on(carry):
        carry = step(carry)
    return carry


def _rebuilt(batch: Any) -> AnyBatch | None:
    rebuilt = with_autoreset(with_final_obs(batch()))
    return None if rebuilt is batch() else rebuilt


_as_rolled_out = PerObject(_rebuilt)  # once for all rollouts of a batch


def is_first(env: AnyEnv | AnyBatch, state: Any) -> jax.Array:
    """Whether the next step is the first of an episode, for each slot."""
    slots: tuple[int, ...] = () if isinstance(env, JaxEnv) else (env.n_slots,)
    while not isinstance(state, EnvState) and hasattr(state, "env_state"):
        state = state.env_state
    if not env.traceable and (first := getattr(state, "first", None)) is not None:
        return jnp.asarray(first)
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


def copy_if_numpy(x: Any) -> Any:
    """A copy of a NumPy array, whose memory a simulator or the caller may write to."""
    return cast(Any, x).copy() if isinstance(x, np.ndarray) else x
