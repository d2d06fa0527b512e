"""`episodes`: the steps of a rollout as whole episodes of NumPy arrays."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, cast

import jax
import numpy as np

from envrax._jax.keys import is_key
from envrax.rollouts.rollout import Transition

_BLOCK = 64  # steps that are compared at a time


class Episode(NamedTuple):
    """
    One episode of T steps, from `episodes`: NumPy arrays with a leading time axis.

    `episode._asdict()` is a dict of the same.

    Attributes
    ----------
    obs : pytree of numpy.ndarray
        T + 1 observations: those before each step, and the last one, which no policy saw.
    action : pytree of numpy.ndarray
        T actions.
    reward : numpy.ndarray
        T rewards; a dict by agent in a world of several.
    done : numpy.ndarray
        bool, of shape (T,). The last entry is False if the data ended before the episode did.
    terminated, truncated : numpy.ndarray
        bool, of shape (T,): why the episode ended. Where the data ended first, the last entry of
        `truncated` is True.
    info : dict
        T entries in each leaf, as the environment returned them.
    extras : pytree of numpy.ndarray
        T entries in each leaf, as the policy returned them.
    """

    obs: Any
    action: Any
    reward: Any
    done: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    info: dict[str, Any]
    extras: Any


def episodes(transitions: Transition | Iterable[Transition]) -> Iterator[Episode]:
    """
    Split the steps of a rollout into episodes of NumPy arrays.

    Episodes come in the order of the steps in which they end, then of slots, and those that the end
    of the data cut come last, however the data is divided into pieces. Every array is a copy that
    belongs to the caller.

    Parameters
    ----------
    transitions : Transition or iterable of Transition
        The steps that `rollout` returned, of one environment or of a batch. An iterable has the
        pieces of one long rollout, each the continuation of the one before. An iterator of pieces,
        such as a generator that calls `rollout`, is read as the episodes are taken; between two
        pieces, only the steps of episodes that have not ended are kept.

    Returns
    -------
    iterator of Episode
        One slot's steps from a reset to an end. The first episode of a slot begins with the first
        step of the data, and the last one ends with it, truncated.

    Raises
    ------
    TypeError
        If something else than a `Transition` of one environment is met.
    ValueError
        If an array has no axis of time and slots, or a piece does not continue the one before.

    Examples
    --------
    >>> from envrax import VecEnv, rollout, start
    >>> from envrax.testing import CountingEnv
    >>> env = VecEnv(CountingEnv(), 3)
    >>> end, steps = rollout(env, None, start(env, jax.random.key(0)), 7)
    >>> [(len(x.obs), len(x.action), bool(x.done[-1])) for x in episodes(steps)]
    [(6, 5, True), (6, 5, True), (6, 5, True), (3, 2, False), (3, 2, False), (3, 2, False)]
    """
    if isinstance(transitions, Transition):
        return _split([transitions])
    if not isinstance(cast(Any, transitions), Iterable):
        raise _not_steps("episodes", transitions)
    return _split(transitions)


def _split(pieces: Iterable[Transition]) -> Iterator[Episode]:
    unfinished: list[list[Transition]] = []  # for each slot, the parts of its episode so far
    last: Transition | None = None
    for steps in map(_to_numpy, pieces):
        if last is None:
            unfinished = [[] for _ in range(steps.done.shape[1])]
        _require_order(last, steps)
        yield from _ended(steps, unfinished)
        last = jax.tree.map(lambda x: x[-1].copy(), steps)
    yield from (_joined(parts) for parts in unfinished if parts)


def _ended(steps: Transition, unfinished: list[list[Transition]]) -> Iterator[Episode]:
    """The episodes that end in these steps; the others are added to the unfinished ones."""
    n_steps, n_slots = steps.done.shape
    begins = [0] * n_slots
    for time, slot in np.argwhere(steps.done).tolist():
        parts = [*unfinished[slot], _part(steps, slot, begins[slot], time + 1)]
        unfinished[slot] = []
        begins[slot] = time + 1
        yield _joined(parts)
    for slot, begin in enumerate(begins):
        if begin < n_steps:
            # A copy, since a view keeps all steps in memory.
            part = jax.tree.map(np.array, _part(steps, slot, begin, n_steps))
            unfinished[slot].append(part)


def _part(steps: Transition, slot: int, begin: int, end: int) -> Transition:
    """Some steps of one slot, with the last row of `next_obs`."""
    next_obs = jax.tree.map(lambda x: x[end - 1 : end, slot], steps.next_obs)
    rest = jax.tree.map(lambda x: x[begin:end, slot], steps._replace(next_obs=None))
    return rest._replace(next_obs=next_obs)


def _joined(parts: list[Transition]) -> Episode:
    def join(*trees: Any) -> Any:
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *trees)

    obs = join(*(part.obs for part in parts), parts[-1].next_obs)
    steps = join(*(part._replace(obs=None, next_obs=None) for part in parts))
    steps.truncated[-1] |= not steps.done[-1]
    fields = steps._replace(obs=obs)._asdict()
    del fields["next_obs"]
    return Episode(**fields)


def _to_numpy(steps: Any) -> Transition:
    """The steps as NumPy arrays, each with an axis of time and one of slots; keys as their bits."""
    if isinstance(steps, Transition):
        bits: Any = jax.tree.map(lambda x: jax.random.key_data(x) if is_key(x) else x, steps)
        steps = jax.tree.map(np.asarray, jax.device_get(bits))
    return with_slots("episodes", steps)


def with_slots(name: str, steps: Any) -> Transition:
    """The steps of one environment, each array with an axis of time and one of slots."""
    if not isinstance(steps, Transition):
        raise _not_steps(name, steps)
    if isinstance(steps.done, list | dict):
        raise TypeError(
            f"{name}: expected the steps of one environment; got those of a fleet. Take one "
            "member's, `Transition(*(field[member] for field in steps))`."
        )
    if steps.next_obs is None:
        raise TypeError(
            f"{name}: expected steps with `next_obs`; got None, from a simulator that does not "
            "show the last observation of an episode. See `from_rsl_rl` for those that do."
        )
    shape = steps.done.shape
    for path, leaf in cast(Any, jax.tree_util.tree_leaves_with_path(steps)):
        if leaf.shape[: len(shape)] != shape:
            raise ValueError(
                f"{name}: expected a value for each step and slot, of shape {shape} + (...,); "
                f"got steps{jax.tree_util.keystr(path)} of shape {leaf.shape}. Leave it out, such "
                "as with `steps._replace(extras=None)`."
            )
    if len(shape) not in (1, 2):
        raise ValueError(
            f"{name}: expected `done` of shape (time,) or (time, slots); got {shape}. Call it for "
            "each rollout, or for each seed."
        )
    return steps if len(shape) == 2 else jax.tree.map(lambda x: x[:, None], steps)


def _not_steps(name: str, x: Any) -> TypeError:
    return TypeError(
        f"{name}: expected a Transition or an iterable of them; got {type(x).__name__}. Pass the "
        "second result of `rollout`, or those of several calls that continue each other."
    )


def _require_order(last: Transition | None, steps: Transition) -> None:
    """Raise a ValueError if a step does not follow the one before; `last` is that of the first."""
    if last is not None:
        first = jax.tree.map(lambda x: x[:1], steps.obs)
        _require_continuation(last.done[None], _one_row(last.next_obs), first)
    for i in range(0, len(steps.done) - 1, _BLOCK):
        before = slice(i, min(i + _BLOCK, len(steps.done) - 1))
        after = slice(before.start + 1, before.stop + 1)
        next_obs = jax.tree.map(lambda x: x[before], steps.next_obs)  # noqa: B023
        obs = jax.tree.map(lambda x: x[after], steps.obs)  # noqa: B023
        _require_continuation(steps.done[before], next_obs, obs)


def _one_row(tree: Any) -> Any:
    return jax.tree.map(lambda x: x[None], tree)


def _require_continuation(done: Any, next_obs: Any, obs: Any) -> None:
    alike = done.shape == np.shape(jax.tree.leaves(obs)[0])[:2]
    if alike:
        pairs = jax.tree.map(lambda x, y: close(x[~done], y[~done]), next_obs, obs)
        alike = all(jax.tree.leaves(pairs))
    if not alike:
        raise ValueError(
            "episodes: expected the steps of one rollout in their order, with the axes time and "
            "slots; got one whose `obs` is not the `next_obs` of the step before. Call `episodes` "
            "for each rollout, or for each seed."
        )


def close(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal but for rounding: a program may compute `obs` and `next_obs` apart."""
    if np.array_equal(a, b):
        return True
    return np.allclose(a.astype(float), b.astype(float), rtol=1e-3, equal_nan=True)
