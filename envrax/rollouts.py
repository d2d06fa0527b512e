"""`rollout`: many steps of a policy in an environment, as one compiled call."""

from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from envrax._checks import require_count
from envrax._jax.keys import require_key
from envrax._jax.programs import is_traced, strong
from envrax._play import AnyBatch, Play, Policy, Rollout, Transition, owned
from envrax.batched_env import BatchedEnv
from envrax.env import AnyEnv

__all__ = ["Rollout", "Transition", "rollout", "start"]

CHUNKS = 20  # of a rollout with a progress bar


def start(env: AnyEnv | AnyBatch, rng: jax.Array, policy_state: Any = None) -> Rollout:
    """
    Begin a rollout: `rng, key = jax.random.split(rng)`, and reset with `key`.

    Parameters
    ----------
    env : JaxEnv or BatchedEnv
        The environment.
    rng : jax.Array
        One PRNG key.
    policy_state : pytree, optional
        What the policy carries from step to step, for all slots, such as the memory of a recurrent
        network. It may hold parameters too.

    Returns
    -------
    Rollout
        Where `rollout` begins.
    """
    require_key(rng, "start", "pass one key.")
    return Play(env, None, "start").begin(rng, policy_state)


def rollout(
    env: AnyEnv | AnyBatch,
    policy: Policy | None,
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
    env : JaxEnv or BatchedEnv
        The environment. A `JaxEnv` is reset when an episode ends, by the rule of `VecEnv`. Of a
        batch, `with_final_obs()` is stepped.
    policy : callable or None
        `policy(policy_state, obs, rng) -> (action, policy_state, extras)`, a function that JAX can
        trace. For a batch it gets the observations of all slots and one key. If it has a parameter
        named `mask`, it gets `env.action_mask(env_state)` there (None if all actions are legal);
        if it has one named `first`, bool: which observations begin an episode, for a memory that
        must be cleared. None: uniform among the legal actions.

        A policy is compiled with what it closes over, as with `jax.jit`. Parameters that change
        belong in `policy_state`, in the arrays of a policy that is a pytree, such as
        `jax.tree_util.Partial(apply, params)`, or in the caller's own `jit` around all this.
    start : Rollout
        Where to begin: from `start`, or from the last call, which goes on to the bit as one longer
        call would.
    n_steps : int
        Number of steps. Per step `rng, key = jax.random.split(rng)`, and `key` is for the policy.
    progress : bool, default False
        Show a bar: the scan then runs in twenty pieces. Not inside `jit`.

    Returns
    -------
    Rollout
        Where it stands afterwards.
    Transition
        All steps: each leaf with leading axis `n_steps`.

    Raises
    ------
    TypeError
        If `env` is no environment, the policy returns no such triple or another form of
        `policy_state`, or a batch does not tell its last observations.
    ValueError
        If `n_steps` is below 1, `start` is of another number of slots, or `progress` is asked for
        inside `jit`.

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
    play = Play(env, policy, "rollout")
    n_steps = require_count("rollout: expected n_steps", n_steps)
    _require_start(play.given, start)
    if not play.given.traceable:
        return _on_the_host(play, start, n_steps, progress)
    if is_traced((start, play.arrays)):
        if progress:
            raise ValueError(
                "rollout: expected no progress bar inside `jit`; got `progress=True`. Leave it out,"
                " or call `rollout` from Python."
            )
        return _scan(play, n_steps, play.arrays, start)
    if not progress:
        return _compiled_scan(play, n_steps, play.arrays, start)
    return _in_chunks(play, start, n_steps)


def _scan(play: Play, n_steps: int, arrays: list[Any], start: Rollout) -> Any:
    start = jax.tree.map(strong, start)
    return jax.lax.scan(lambda at, _: play.step(arrays, at), start, length=n_steps)


_compiled_scan: Any = jax.jit(_scan, static_argnums=(0, 1))


def _in_chunks(play: Play, at: Rollout, n_steps: int) -> tuple[Rollout, Transition]:
    size = -(-n_steps // CHUNKS)
    parts: list[Transition] = []
    with _bar(n_steps) as bar:
        for begin in range(0, n_steps, size):
            length = min(size, n_steps - begin)
            at, part = _compiled_scan(play, length, play.arrays, at)
            parts.append(jax.block_until_ready(part))
            bar.update(length)
    return at, jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)


def _on_the_host(
    play: Play, at: Rollout, n_steps: int, progress: bool
) -> tuple[Rollout, Transition]:
    steps: list[Transition] = []
    with _bar(n_steps, hidden=not progress) as bar:
        for _ in range(n_steps):
            at, step = play.step_with(at, *play.compiled_act(at))
            steps.append(jax.tree.map(owned, step))
            # A simulator may write the next observation over this one.
            at = at._replace(obs=jax.tree.map(owned, at.obs))
            _require_like(steps[0], step, len(steps))
            bar.update()
    stacked = jax.tree.map(_stacked, *steps)
    return at, play.with_ends(stacked, (n_steps,))


def _require_like(first: Transition, step: Transition, number: int) -> None:
    """Refuse infos that change from step to step, or hold what is no number."""
    for name in sorted({*first.info, *step.info}):
        leaves = jax.tree.leaves(step.info.get(name))
        numbers = all(
            isinstance(x, jax.Array) or np.asarray(x).dtype.kind in "biufc" for x in leaves
        )
        if name not in first.info or name not in step.info or not numbers:
            raise TypeError(
                f"rollout: expected infos with the same names in every step, and numbers in them; "
                f"got another {name!r} in step {number}. Leave it out of the infos."
            )


def _stacked(*leaves: Any) -> Any:
    """The leaves of all steps as one array; stacked by NumPy, which compiles nothing."""
    if not jnp.issubdtype(jnp.result_type(leaves[0]), jax.dtypes.prng_key):
        return jnp.asarray(np.stack(cast(Any, leaves)))
    wrap: Any = jax.random.wrap_key_data
    bits = np.stack([jax.random.key_data(x) for x in leaves])
    return wrap(bits, impl=jax.random.key_impl(leaves[0]))


def _bar(n_steps: int, hidden: bool = False) -> Any:
    return tqdm(total=n_steps, desc="Rollout", unit=" steps", disable=hidden)


def _require_start(env: AnyEnv | AnyBatch, start: Any) -> None:
    if not isinstance(start, Rollout):
        raise TypeError(
            f"rollout: expected to begin at a Rollout; got {type(start).__name__}. Pass "
            "`envrax.start(env, rng)`, or what the last `rollout` returned first."
        )
    if isinstance(env, BatchedEnv):
        slots = {np.shape(x)[:1] for x in jax.tree.leaves(start.obs)}
        fits = slots <= {(env.n_slots,)}
    else:
        fits = np.shape(getattr(start.env_state, "done", False)) == ()
    if not fits:
        raise ValueError(
            f"rollout: expected a Rollout of {env}; got one of another number of slots. Begin with "
            "`envrax.start(env, rng)` of the same environment."
        )
