"""`rollout`: many steps of a policy in an environment, as one compiled call."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from envrax._checks.counts import require_count
from envrax._checks.streams import can_show_progress
from envrax._fleet.fleet import Fleet
from envrax._jax.cache import compile_cache
from envrax._jax.keys import is_key, require_key
from envrax._jax.per_object import PerObject, cache_of, cached_program_per_env, program_per_env
from envrax._jax.types import is_inside_jit, is_traced, strip_weak_type
from envrax.batched_env import BatchedEnv
from envrax.compiled_batch import compilation_of
from envrax.env import AnyEnv, JaxEnv
from envrax.rollouts import policy_step
from envrax.rollouts.policy import AnyPolicy, Policies, Policy, trace_function
from envrax.rollouts.policy_step import AnyBatch, Rollout, Transition
from envrax.termination import episode_end

Keep = Callable[[Transition], Any] | None
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
    at = _begun(env, rng, policy_state)
    if isinstance(env, BatchedEnv) and (compilation_of(env) or not env.traceable):
        return at
    if is_traced(at):
        return at
    # Not compiled: wrappers share arrays, such as the key, and a shared one cannot be donated.
    obs, state = jax.device_put((at.obs, at.env_state), may_alias=False)
    return at._replace(obs=obs, env_state=state)


def _begun(env: AnyEnv | AnyBatch, rng: jax.Array, policy_state: Any) -> Rollout:
    """The beginning, compiled through the cache of the environment at the first call."""
    policy_step.require_env("start", env)
    cache = cache_of(env)
    begun_with = _keys_begun_with(env)
    if cache is None or is_key(rng) in begun_with or is_traced(rng):
        return policy_step.begin(env, rng, policy_state)
    # Traced before the cache is opened, as by a cached program.
    jax.eval_shape(partial(policy_step.begin, env), rng, policy_state)
    with compile_cache(cache[0]):
        at = policy_step.begin(env, rng, policy_state)
    begun_with.add(is_key(rng))
    return at


_keys_begun_with = PerObject(lambda _: set())  # typed ones, legacy ones


def rollout(
    env: AnyEnv | AnyBatch | Fleet,
    policy: Policy | Policies | None,
    start: Rollout,
    n_steps: int,
    *,
    progress: bool = False,
    collect: Callable[[Transition], Any] | None = None,
) -> tuple[Rollout, Any]:
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
    collect : callable, optional
        `collect(transition) -> pytree of jax.Array`: what to keep of each step, in place of the
        whole `Transition`, such as `lambda t: (t.obs, t.action, t.reward)`. It is read at each
        call, as a policy is.

    Returns
    -------
    Rollout
        Where to continue.
    Transition
        All steps: each leaf with leading axis `n_steps`. With `collect`, what it returned. Of a
        fleet, every field of both results, or what was collected, is a list or dict with the
        values of the members.

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
    if collect is not None and not callable(cast(Any, collect)):
        raise TypeError(
            f"rollout: expected collect to be a function of a Transition; got {collect!r}. Pass "
            "such as `lambda step: step.reward`."
        )
    if isinstance(env, Fleet):
        fleet = cast(Any, env)

        def one(member: Any, policy: Any, *at: Any) -> tuple[Any, ...]:
            how: Any = dict(progress=progress, collect=collect)
            end, steps = rollout(member, policy, Rollout(*at), n_steps, **how)
            return (*end, *steps) if collect is None else (*end, steps)

        out = fleet._map("rollout", one, policy=policy, **start._asdict())
        return Rollout(*out[:4]), Transition(*out[4:]) if collect is None else out[4]
    policy_step.require_env("rollout", env)
    given: AnyPolicy = policy_step.split_policy(env, policy)
    traceable = env.traceable
    inline = traceable and (is_traced((start, given.arrays)) or is_inside_jit())
    keep: Any = collect
    if not inline:
        given = policy_step.read_policy(env, given, start)
        inline = traceable and is_traced(given)  # it closes over tracers, of a `grad` for example
        if collect is not None and traceable and not inline:
            types = _compiled_transition(env).eval_shape(given, start)
            keep = policy_step.placed(env, trace_function(collect, types))
    if inline:
        return _scan(env, given, keep, n_steps, start)
    if traceable and not progress:
        return _compiled_scan(env)(given, keep, n_steps, start)
    shown = progress and can_show_progress()
    with tqdm(total=n_steps, desc="Rollout", unit=" steps", disable=not shown) as bar:
        run = _in_chunks if traceable else _on_the_host
        return run(env, given, keep, n_steps, start, bar)


def _transition(env: AnyEnv | AnyBatch, policy: AnyPolicy, start: Rollout) -> Transition:
    """One step, as `collect` gets it."""
    return _with_ends(env, policy_step.step(env, policy, strip_weak_type(start))[1])


def _scan(
    env: AnyEnv | AnyBatch, policy: AnyPolicy, keep: Keep, n_steps: int, start: Rollout
) -> tuple[Rollout, Any]:
    start = strip_weak_type(start)

    def step(at: Rollout, _: None) -> tuple[Rollout, Any]:
        at, transition = policy_step.step(env, policy, at)
        return at, transition if keep is None else keep(_with_ends(env, transition))

    at, steps = jax.lax.scan(step, start, length=n_steps)
    return at, _with_ends(env, steps, n_steps) if keep is None else steps


_compiled_scan = cached_program_per_env(_scan, 2)
_compiled_transition = program_per_env(_transition)


def _in_chunks(
    env: Any, policy: AnyPolicy, keep: Keep, n_steps: int, at: Rollout, bar: Any
) -> tuple[Rollout, Any]:
    size = -(-n_steps // CHUNKS)
    parts: list[Any] = []
    for begin in range(0, n_steps, size):
        length = min(size, n_steps - begin)
        at, part = _compiled_scan(env)(policy, keep, length, at)
        parts.append(jax.block_until_ready(part))
        bar.update(length)
    return at, jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)


def _on_the_host(
    env: Any, policy: AnyPolicy, keep: Keep, n_steps: int, at: Rollout, bar: Any
) -> tuple[Rollout, Any]:
    steps: list[Any] = []
    for _ in range(n_steps):
        at, one = policy_step.step(env, policy, at)
        one = one if keep is None else keep(_with_ends(env, one))
        steps.append(jax.tree.map(policy_step.copy_if_numpy, one))
        # A simulator may write the next observation over this one.
        at = at._replace(obs=jax.tree.map(policy_step.copy_if_numpy, at.obs))
        bar.update()
    stacked = jax.tree.map(_stacked, *steps)
    return at, _with_ends(env, stacked, n_steps) if keep is None else stacked


def _stacked(*leaves: Any) -> Any:
    if is_key(leaves[0]):
        return jnp.stack(leaves)
    return jnp.asarray(np.stack(leaves))  # compiles nothing, however many there are


def _with_ends(env: AnyEnv | AnyBatch, steps: Transition, *time: int) -> Transition:
    """The same steps, with `terminated` and `truncated` filled in."""
    shape = time if isinstance(env, JaxEnv) else (*time, env.n_slots)
    terminated, truncated = episode_end(env.name, shape, steps.done, steps.info)
    return steps._replace(terminated=terminated, truncated=truncated)
