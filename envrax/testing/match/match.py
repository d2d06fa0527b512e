"""`match_env`: whether an environment is the same as a reference on the host."""

from collections.abc import Callable
from typing import Any, cast

import jax
import numpy as np

from envrax._checks.counts import require_count
from envrax._jax.keys import is_key, require_key
from envrax.env import AnyEnv, JaxEnv
from envrax.testing.match.ends import check_ends, check_limit
from envrax.testing.match.environment import Environment
from envrax.testing.match.episodes import check_episodes, check_starts, check_transfer
from envrax.testing.match.numbers import LEAST_SCALE, Sketch, size, take
from envrax.testing.match.read import check_read_starts, check_read_states
from envrax.testing.match.reference import Reference
from envrax.testing.match.report import DIFFERS, SKIPPED, Check, Match
from envrax.testing.match.sizes import FLOAT32, FLOAT64, LONG_WINDOWS, N_STEPS, ONE_STEP, WINDOWS
from envrax.testing.match.spaces import check_spaces
from envrax.testing.match.trials import Sides, compare_windows, one_step, reacts
from envrax.testing.match.walk import MOST_STARTS, explore, flat, steps_from

WHO = "match_env"
SOME = 128  # steps
SEED = 1  # of the reference, where it is asked twice


def match_env(
    env: AnyEnv,
    reference: Any,
    inject: Callable[[Any, Any], Any] | None = None,
    *,
    extract: Callable[[Any], Any] | None = None,
    act: Callable[[Any], Any] | None = None,
    states: Any = None,
    policy: Callable[..., Any] | None = None,
    n_steps: int = 40_000,
    n_resets: int = 2000,
    rng: jax.Array | None = None,
) -> Match:
    """
    Compare an environment with a reference on the host: is it the same, or only a similar one?

    Both sides take one step, and windows of 8 and of 64 steps, from the same states under the same
    actions. Where chance decides, the distributions of the results are compared: random steps are
    drawn many times. Sums and differences of two of the 8 numbers that vary most are compared as
    numbers are: they show two that are equal, opposite or bounded together, and noise that both
    share. The report states the power for equal and opposite ones alone: of 10,000 draws, 3 % were
    enough where the two mirrored each other at another value, and 40 % where they were bounded
    together or shared their noise. A value that repeats shows too. Windows compare what a step
    changes without showing it. Then come the time limit, the distribution of starts, episodes from
    starts of each side, and the edges at which episodes terminate. Print the result: it has the
    first case that differs of each check, and else says which differences would have been found,
    and what was not compared.

    One step may differ by 1e-11 of the largest value of a number in float64, by 1e-5 in float32, by
    the rounding of an observation's dtype, and by what a rounding of the state changes. All tests
    together call the same different with a chance of 1e-4.

    The reference is reset before each window, and seeded once, if it takes a seed. Then the result
    depends only on `rng`. If its infos have an `action_mask`, it is compared with ours.

    Parameters
    ----------
    env : JaxEnv
        The environment, with one agent.
    reference : Any
        An environment of Gymnasium, a pool of EnvPool with one slot, or any object with `reset`
        and `step` like theirs. Its observations have as many numbers as ours, in the same order.
    inject : callable, optional
        `inject(reference, state)` puts our whole state into the reference, which was reset before.
        It may leave the reference's clock alone. Leaves of the state are NumPy arrays; PRNG keys
        are their bits.
    extract : callable, optional
        `extract(reference) -> state` reads our whole state, but for `rng`, `step` and `done`, from
        a reference that can be read and not set.
    act : callable, optional
        From our action to the reference's. Default: an int for a scalar, else an array, of float64
        where states are.
    states : EnvState, optional
        States with a leading axis to step from, such as those that a trained policy visits.
        Default: those of a walk under random actions.
    policy : callable, optional
        A policy, as for `evaluate`, but without `mask` and `first`, such as one that was trained on
        one of the sides. It plays 64 episodes on each, and their returns and lengths are compared.
    n_steps : int, default 40_000
        Draws of random steps of each side; other trials grow with it. Twice as many find a change
        of a chance that is smaller by a factor of 1.4.
    n_resets : int, default 2000
        Resets of each side; the number of episodes grows with it.
    rng : jax.Array, optional
        PRNG key. Default: `jax.random.key(0)`.

    Returns
    -------
    Match
        `ok` is True only with `inject` or `extract`. Without them, or where a check is open,
        nothing more can be said than that no difference was found, and it is None.

    Raises
    ------
    TypeError
        If `env` is no `JaxEnv` of one agent that JAX can trace.
    ValueError
        If the reference has several slots, or observations of another size; if no state of
        `states` is of a running episode.
    """
    if not isinstance(cast(Any, env), JaxEnv) or env.agents or not env.traceable:
        raise TypeError(f"{WHO}: expected a traceable JaxEnv with one agent; got {env!r}.")
    require_count(f"{WHO}: expected n_steps", n_steps)
    require_count(f"{WHO}: expected n_resets", n_resets)
    rng = jax.random.key(0) if rng is None else rng
    require_key(rng, WHO, "Pass one key.")
    random = np.random.default_rng(np.asarray(jax.random.key_data(rng) if is_key(rng) else rng))
    theirs = Reference(reference, inject, extract, act, random)
    environment = Environment(env, random, theirs.has_masks)
    theirs.imitate(environment)
    sides = _sides(environment, theirs, states, n_steps / N_STEPS, n_resets)
    checks = [check_spaces(env, theirs), check_limit(sides)]
    if inject is None:
        checks.append(Check("one step", SKIPPED, "needs `inject`"))
    else:
        checks += _check_steps(sides)
    if extract is not None:
        checks += [check_read_states(sides), check_read_starts(sides)]
    checks += [check_starts(sides), check_episodes(sides), check_ends(sides)]
    if policy is not None:
        checks.append(check_transfer(sides, policy, rng))
    spec = getattr(reference, "spec", None)
    name = getattr(spec, "id", type(reference).__name__)
    return Match(f"{env.name} against {name}", tuple(checks), sides.precision.name)


def _sides(
    environment: Environment, reference: Reference, states: Any, share: float, n_resets: int
) -> Sides:
    """Both sides, after a walk of ours."""
    first, starts = environment.reset(max(n_resets, MOST_STARTS))
    starts = take(starts, slice(MOST_STARTS))
    walk, visited = explore(environment, starts)
    if states is not None:
        visited = steps_from(environment, environment.as_numpy(states, starts))
    some = take(visited, environment.random.integers(len(visited.numbers), size=SOME))

    def ask_ours(states: Any, actions: Any) -> np.ndarray:
        return environment.step(states, actions)[1]

    def ask_theirs(states: Any, actions: Any) -> np.ndarray:
        return reference.play(*one_step(states, actions), SEED)[1]

    is_wide = environment.wide and reference.inject is not None
    is_wide = is_wide and all(reacts(ask, *some[:2]) for ask in (ask_ours, ask_theirs))
    precision = FLOAT64 if is_wide else FLOAT32
    numbers = np.concatenate([first, flat(walk).numbers])
    scale = np.maximum(size(numbers).max(axis=0), LEAST_SCALE)
    sketch = Sketch(numbers, environment.rewards.stop, environment.names, environment.random)
    return Sides(
        environment, reference, walk, visited, starts, share, n_resets, precision, scale, sketch
    )


def _check_steps(sides: Sides) -> list[Check]:
    """One step, and windows of several, from the same states; no windows if a step differs."""
    limit = sides.limit or 2 * LONG_WINDOWS.length
    checks = [compare_windows(sides, ONE_STEP.scaled(sides.share, 1))]
    before = 1
    for sizes in (WINDOWS, LONG_WINDOWS):
        length = min(sizes.length, max(2, limit // 2))
        if checks[-1].verdict == DIFFERS or length <= before or limit == 1:
            break
        checks.append(compare_windows(sides, sizes.scaled(sides.share, length)))
        before = length
    return checks
