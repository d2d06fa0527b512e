"""`match_env`: whether an environment is the same as a reference on the host."""

from collections.abc import Callable
from typing import Any, cast

import jax
import numpy as np

from envrax._checks.counts import require_count
from envrax._jax.keys import is_key, require_key
from envrax.env import AnyEnv, JaxEnv
from envrax.testing.match.checks import (
    Pair,
    check_one_step,
    check_open_loop,
    check_spaces,
    check_starts,
)
from envrax.testing.match.compare import FLOAT32, FLOAT64, Rounding, tells_float64
from envrax.testing.match.coverage import choose, explore, steps_from
from envrax.testing.match.ends import check_ends, check_limit
from envrax.testing.match.numbers import take
from envrax.testing.match.reference import Reference
from envrax.testing.match.report import Match
from envrax.testing.match.slots import Slots
from envrax.testing.match.transfer import check_transfer

WHO = "match_env"
MOST_STARTS = 640  # first states that are kept
SOME = 128  # cases


def match_env(
    env: AnyEnv,
    reference: Any,
    inject: Callable[[Any, Any], Any] | None = None,
    *,
    extract: Callable[[Any], Any] | None = None,
    act: Callable[[Any], Any] | None = None,
    states: Any = None,
    policy: Callable[..., Any] | None = None,
    n_steps: int = 1000,
    n_resets: int = 3000,
    rng: jax.Array | None = None,
) -> Match:
    """
    Compare an environment with a reference on the host: is it the same, or only a similar one?

    Both sides take one step from about 4,000 states, and their numbers are compared in float64,
    where both compute in it. Then come episodes under the same actions, the time limit, the
    distribution of starts, and the states between which episodes begin to terminate. Steps that
    depend on the PRNG key are left out. Print the result: it has the first case that differs, and
    what all of them share. One step may differ by 1e-11 of the largest value of a number in
    float64, by 1e-5 in float32, and by the rounding of an observation's dtype.

    The reference is reset many times, and seeded once, if it takes a seed. Then the result depends
    only on `rng`.

    Parameters
    ----------
    env : JaxEnv
        The environment, with one agent.
    reference : Any
        An environment of Gymnasium, a pool of EnvPool with one slot, or any object with `reset`
        and `step` like theirs. Its observations have as many numbers as ours, in the same order.
    inject : callable, optional
        `inject(reference, state)` puts our state into the reference, which was reset before, and
        leaves its clock alone. Leaves of the state are NumPy arrays; PRNG keys are their bits.
    extract : callable, optional
        `extract(reference) -> state` reads our state from a reference that can be read and not set.
    act : callable, optional
        From our action to the reference's. Default: an int for a scalar, else an array, of float64
        where states are.
    states : EnvState, optional
        States with a leading axis to step from, such as those that a trained policy visits.
        Default: those of a walk of 64 slots.
    policy : callable, optional
        A policy, as for `evaluate`, but without `mask` and `first`, such as one that was trained on
        one of the sides. It plays 64 episodes on each, and their returns and lengths are compared.
    n_steps : int, default 1000
        Steps of the walk of each slot.
    n_resets : int, default 3000
        Resets of each side.
    rng : jax.Array, optional
        PRNG key. Default: `jax.random.key(0)`.

    Returns
    -------
    Match
        `ok` is True only with `inject` or `extract`; without them nothing more can be said than
        that no difference was found, and it is None.

    Raises
    ------
    TypeError
        If `env` is no `JaxEnv` of one agent that JAX can trace.
    ValueError
        If the reference has several slots, or observations of another size.
    """
    if not isinstance(cast(Any, env), JaxEnv) or env.agents or not env.traceable:
        raise TypeError(f"{WHO}: expected a traceable JaxEnv with one agent; got {env!r}.")
    require_count(f"{WHO}: expected n_steps", n_steps)
    require_count(f"{WHO}: expected n_resets", n_resets)
    rng = jax.random.key(0) if rng is None else rng
    require_key(rng, WHO, "Pass one key.")
    random = np.random.default_rng(np.asarray(jax.random.key_data(rng) if is_key(rng) else rng))
    slots = Slots(env, random)
    first, starts = slots.reset(n_resets)
    visited, steps = explore(slots, take(starts, slice(MOST_STARTS)), n_steps)
    if states is not None:
        steps = steps_from(slots, slots.as_numpy(states, starts))
    cases = choose(steps, random)
    theirs = Reference(reference, slots, inject, act)
    some = take((cases.state, cases.action), slice(-SOME, None))
    is_wide = slots.wide and inject is not None
    is_wide = is_wide and tells_float64(slots.ask, *some) and tells_float64(theirs.ask, *some)
    rounding = Rounding(slots, theirs.units, FLOAT64 if is_wide else FLOAT32)
    pair = Pair(slots, theirs, first, visited, cases, rounding)
    checks = [
        check_spaces(pair),
        check_one_step(pair, extract),
        check_open_loop(pair),
        check_limit(pair),
        check_starts(pair),
        check_ends(pair),
    ]
    if policy is not None:
        checks.append(check_transfer(pair, policy, rng))
    spec = getattr(reference, "spec", None)
    name = getattr(spec, "id", type(reference).__name__)
    return Match(f"{env.name} against {name}", tuple(checks), rounding.precision.name)
