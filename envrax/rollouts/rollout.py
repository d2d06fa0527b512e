"""`rollout`: many steps of a policy in an environment, as one compiled call."""

import sys
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from envrax._checks.counts import require_count
from envrax._fleet.fleet import Fleet
from envrax._jax.keys import is_key, require_key
from envrax._jax.per_object import program_per_env
from envrax._jax.types import is_inside_jit, is_traced, strip_weak_type
from envrax.batched_env import BatchedEnv
from envrax.compiled_batch import compilation_of
from envrax.env import AnyEnv, JaxEnv
from envrax.rollouts import policy_step
from envrax.rollouts.policy import AnyPolicy, Policies, Policy
from envrax.rollouts.policy_step import AnyBatch, Rollout, Transition
from envrax.termination import episode_end

CHUNKS = 20  # of a rollout with a progress bar


def start(env: AnyEnv | AnyBatch | Fleet, rng: jax.Array, policy_state: Any = None) -> Rollout:
    """
    Begin a rollout: `rng, key = jax.random.split(rng)`, and reset with `key`.

    Parameters
    ----------
    env : JaxEnv, BatchedEnv, MultiEnv or MultiVecEnv
        The environment. Of a fleet, every field of the result is a list or dict with the values of
        the members, and member i begins with `jax.random.split(rng, M)[i]`.
    rng : jax.Array
        One PRNG key.
    policy_state : pytree, optional
        State that the policy carries from step to step, for all slots, such as the memory of a
        recurrent network. It may hold parameters too. Of a fleet, a list or dict with one for each
        member.

    Returns
    -------
    Rollout
        The argument `start` of `rollout`.
    """
    require_key(rng, "start", "Pass one key.")
    if isinstance(env, Fleet):
        fleet = cast(Any, env)
        return Rollout(*fleet._map("start", start, rng=rng, policy_state=policy_state))
    at = policy_step.begin(env, rng, policy_state)
    if isinstance(env, BatchedEnv) and (compilation_of(env) or not env.traceable):
        return at
    # Not compiled: wrappers share arrays, such as the key, and a shared one cannot be donated.
    obs, state = jax.device_put((at.obs, at.env_state), may_alias=False)
    return at._replace(obs=obs, env_state=state)


def rollout(
    env: AnyEnv | AnyBatch | Fleet,
    policy: Policy | Policies | None,
    start: Rollout,
    n_steps: int,
    *,
    progress: bool = False,
) -> tuple[Rollout, Transition]:
    """
    Take `n_steps` steps, in every slot of a batch, across the ends of episodes.

    It is one compiled scan, and works inside the caller's own `jit`, `vmap` and `grad`. An
    environment on the host is stepped by a Python loop, with a compiled policy.

    Parameters
    ----------
    env : JaxEnv, BatchedEnv, MultiEnv or MultiVecEnv
        The environment. A `JaxEnv` is auto-reset as in a `VecEnv`. A batch is stepped with
        `final_obs=True`. The members of a fleet are played one after the other, each on its own.
    policy : callable or None
        `policy(policy_state, obs, rng) -> (action, policy_state, extras)`, a function that JAX can
        trace. For a batch it gets the observations of all slots and one key. Two more parameters
        are optional: `mask` gets `env.action_mask(env_state)` (None if all actions are legal);
        `first` gets bools, True where the observation begins an episode, to clear a memory.
        Without a policy, actions are uniform among the legal ones. For a fleet, one policy
        for all members, each called on its own, or a list or dict with one for each.

        A policy is read at each call of `rollout`: arrays that it holds or closes over count as
        they are then, and other arrays of the same types compile nothing. A Python number that it
        closes over, or another function, compiles once for each value; what your own `jax.jit`
        within it closes over stays as JAX traced it. A policy may be a pytree, such as
        `jax.tree_util.Partial(apply, params)`: its floats are arrays. A call must not change a
        policy: what changes belongs in `policy_state`.
    start : Rollout
        Where to begin: from `start`, or from the last call, which continues bit-identically to one
        longer call.
    n_steps : int
        Number of steps. Each does `rng, key = jax.random.split(rng)`, and `key` is for the policy.
    progress : bool, default False
        Show a progress bar: the scan runs in twenty pieces. No effect inside `jit`.

    Returns
    -------
    Rollout
        Where to continue.
    Transition
        All steps: each leaf with leading axis `n_steps`. Of a fleet, every field of both results
        is a list or dict with the values of the members.

    Raises
    ------
    TypeError
        If `start` is not a Rollout, the policy does not return such a triple, changes itself or the
        types of `policy_state`, or a batch has no `final_obs`.
    ValueError
        If `n_steps` is below 1.

    Examples
    --------
    >>> from envrax import VecEnv
    >>> from envrax.testing import CountingEnv
    >>> env = VecEnv(CountingEnv(), 3)
    >>> begin = start(env, jax.random.key(0))
    >>> end, steps = rollout(env, None, begin, 100)
    >>> steps.reward.shape, int(steps.done.sum())
    ((100, 3), 60)
    """
    n_steps = require_count("rollout: expected n_steps", n_steps)
    if not isinstance(cast(Any, start), Rollout):
        raise TypeError(
            f"rollout: expected to begin at a Rollout; got {type(start).__name__}. Pass "
            "`envrax.start(env, rng)`, or the first result of the last `rollout`."
        )
    if isinstance(env, Fleet):
        fleet = cast(Any, env)

        def one(member: Any, policy: Any, *at: Any) -> tuple[Any, ...]:
            end, steps = rollout(member, policy, Rollout(*at), n_steps, progress=progress)
            return *end, *steps

        out = fleet._map("rollout", one, policy=policy, **start._asdict())
        return Rollout(*out[:4]), Transition(*out[4:])
    policy_step.require_env("rollout", env)
    given: AnyPolicy = policy_step.split_policy(env, policy)
    traceable = env.traceable
    inline = traceable and (is_traced((start, given.arrays)) or is_inside_jit())
    if not inline:
        given = policy_step.read_policy(env, given, start)
        inline = traceable and is_traced(given)  # it closes over tracers, of a `grad` for example
    if inline:
        return _scan(env, given, n_steps, start)
    if traceable and not progress:
        return _compiled_scan(env)(given, n_steps, start)
    shown = progress and sys.stderr  # a daemon may have no `sys.stderr`
    with tqdm(total=n_steps, desc="Rollout", unit=" steps", disable=not shown) as bar:
        run = _in_chunks if traceable else _on_the_host
        return run(env, given, n_steps, start, bar)


def _scan(
    env: AnyEnv | AnyBatch, policy: AnyPolicy, n_steps: int, start: Rollout
) -> tuple[Rollout, Transition]:
    start = strip_weak_type(start)
    step = partial(policy_step.step, env, policy)
    at, steps = jax.lax.scan(lambda at, _: step(at), start, length=n_steps)
    return at, _with_ends(env, steps)


_compiled_scan = program_per_env(_scan, 1)


def _in_chunks(
    env: Any, policy: AnyPolicy, n_steps: int, at: Rollout, bar: Any
) -> tuple[Rollout, Transition]:
    size = -(-n_steps // CHUNKS)
    parts: list[Transition] = []
    for begin in range(0, n_steps, size):
        length = min(size, n_steps - begin)
        at, part = _compiled_scan(env)(policy, length, at)
        parts.append(jax.block_until_ready(part))
        bar.update(length)
    return at, jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)


def _on_the_host(
    env: Any, policy: AnyPolicy, n_steps: int, at: Rollout, bar: Any
) -> tuple[Rollout, Transition]:
    steps: list[Transition] = []
    for _ in range(n_steps):
        at, one = policy_step.step(env, policy, at)
        steps.append(jax.tree.map(policy_step.copy_if_numpy, one))
        # A simulator may write the next observation over this one.
        at = at._replace(obs=jax.tree.map(policy_step.copy_if_numpy, at.obs))
        bar.update()
    return at, _with_ends(env, jax.tree.map(_stacked, *steps))


def _stacked(*leaves: Any) -> Any:
    if is_key(leaves[0]):
        return jnp.stack(leaves)
    return jnp.asarray(np.stack(leaves))  # compiles nothing, however many there are


def _with_ends(env: AnyEnv | AnyBatch, steps: Transition) -> Transition:
    """The same steps, with `terminated` and `truncated` filled in."""
    slots = () if isinstance(env, JaxEnv) else (env.n_slots,)
    shape = (*jnp.shape(steps.done)[:1], *slots)
    terminated, truncated = episode_end(env.name, shape, steps.done, steps.info)
    return steps._replace(terminated=terminated, truncated=truncated)
