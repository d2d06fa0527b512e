"""`episodes` against a loop over steps and slots, and for any division into pieces."""

import weakref
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import fakes
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_trees_equal, plain, slow_but, small_vec

import envrax
from envrax import Episode, Transition, episodes
from envrax.testing import NimWorld

N_STEPS = 50
N_SLOTS = 4


def random_policy(policy_state: Any, obs: Any, rng: jax.Array) -> Any:
    """Extras of several kinds: a pytree, and a PRNG key for each slot."""
    actions = fakes.CoinEnv().action_space.batch(N_SLOTS).sample(rng)
    return actions, None, {"mean": obs.mean(-1), "keys": jax.random.split(rng, N_SLOTS)}


def played(env: Any, policy: Any = None, n_steps: int = N_STEPS, seed: int = 0) -> Transition:
    return envrax.rollout(env, policy, envrax.start(env, jax.random.key(seed)), n_steps)[1]


@pytest.fixture(scope="module")
def steps() -> Transition:
    """Episodes of random lengths, that end for no reason, in several slots."""
    return played(small_vec(fakes.CoinEnv(), N_SLOTS), random_policy)


def split(steps: Transition, *lengths: int) -> list[Transition]:
    """The same steps in pieces of these lengths, and one with what is left."""
    bounds = [0, *np.cumsum(lengths), N_STEPS]
    return [jax.tree.map(lambda x: x[a:b], steps) for a, b in pairwise(bounds) if a < b]  # noqa: B023


def by_hand(steps: Transition) -> Iterator[dict[str, Any]]:
    """One step of one slot after the other; the episodes in the order of their ends."""
    n_steps, n_slots = steps.done.shape
    open_rows: list[list[Transition]] = [[] for _ in range(n_slots)]
    for time in range(n_steps):
        for slot in range(n_slots):
            open_rows[slot].append(jax.tree.map(lambda x: x[time, slot], steps))  # noqa: B023
            if steps.done[time, slot]:
                yield from_rows(open_rows[slot])
                open_rows[slot] = []
    for rows in filter(None, open_rows):
        rows[-1] = rows[-1]._replace(truncated=np.bool_(True))
        yield from_rows(rows)


def from_rows(rows: list[Transition]) -> dict[str, Any]:
    wanted = jax.tree.map(lambda *x: np.stack(x), *rows)._asdict()
    seen = [x.obs for x in rows] + [rows[-1].next_obs]
    wanted["obs"] = jax.tree.map(lambda *x: np.stack(x), *seen)
    del wanted["next_obs"]
    return wanted


ENVS: dict[str, Any] = {"a batch": None, "nested": fakes.NestedEnv(), "a world": NimWorld()}


@pytest.mark.parametrize("name", slow_but("a batch", "nested", values=ENVS))
def test_they_are_those_of_a_loop_by_hand(steps: Transition, name: str) -> None:
    """Of a batch, of nested observations, and of a world of several agents."""
    env = ENVS[name]
    given = steps if env is None else played(env, n_steps=12)
    arrays: Any = jax.tree.map(plain, given)
    one_slot = jax.tree.map(lambda x: x[:, None], arrays)
    found = [episode._asdict() for episode in episodes(given)]
    wanted = list(by_hand(arrays if env is None else one_slot))
    assert len(found) == len(wanted) > 1
    assert_trees_equal(found, wanted)


@pytest.mark.parametrize("lengths", [(1, 30, 3), (1,) * N_STEPS])
def test_the_division_into_pieces_changes_nothing(
    steps: Transition, lengths: tuple[int, ...]
) -> None:
    found = list(episodes(iter(split(steps, *lengths))))
    assert_trees_equal(found, list(episodes(steps)))


def test_the_caller_may_edit_and_keep_each_array(steps: Transition) -> None:
    numpy_steps: Transition = jax.tree.map(np.array, steps._replace(extras=None))
    before = jax.tree.map(np.copy, numpy_steps)
    for episode in episodes(numpy_steps):
        for leaf in jax.tree.leaves(episode):
            assert leaf.base is None
            leaf[...] = 1
    assert_trees_equal(numpy_steps, before)


def test_pieces_are_read_when_their_episodes_are_taken_and_not_kept(steps: Transition) -> None:
    n_leaves = len(jax.tree.leaves(steps))
    alive: list[weakref.ref[Any]] = []
    most = 0

    def pieces() -> Iterator[Transition]:
        nonlocal most
        for piece in split(steps._replace(extras=None), *[5] * 9):
            copy: Transition = jax.tree.map(np.array, piece)
            alive.extend(map(weakref.ref, jax.tree.leaves(copy)))
            most = max(most, sum(x() is not None for x in alive))
            yield copy
            del copy

    found = episodes(pieces())
    assert not alive
    next(found)
    assert len(alive) <= 2 * n_leaves
    list(found)
    assert most <= 2 * n_leaves < len(alive)  # the last piece, and the one that was made


def test_no_pieces_have_no_episodes() -> None:
    assert list(episodes([])) == []


def test_what_is_no_rollout_is_refused_in_a_sentence(steps: Transition) -> None:
    first, second, third = split(steps, 20, 10)
    alone: Any = jax.tree.map(lambda x: x[:, :2], second)
    without_slots = steps._replace(extras={"loss": steps.reward.sum(1)})
    cases: list[tuple[Any, type[Exception], str]] = [
        (None, TypeError, "Transition or an iterable of them; got NoneType"),
        ((envrax.Rollout(0, 0, 0, jax.random.key(0)), steps), TypeError, "got Rollout"),
        ([*steps], TypeError, "Transition or an iterable"),
        (Transition(*([x, x] for x in steps)), TypeError, "fleet"),
        (without_slots, ValueError, r"steps\.extras\['loss'\] of shape \(50,\)"),
        ([first, third], ValueError, "steps of one rollout"),
        ([first, alone], ValueError, "steps of one rollout"),
        ([first, first], ValueError, "steps of one rollout"),
    ]
    for given, error, message in cases:
        with pytest.raises(error, match=message):
            list(episodes(given))


def test_rounding_and_nan_do_not_divide_pieces(steps: Transition) -> None:
    first, second = split(steps, 25)
    obs = second.obs.at[0, 0].set(second.obs[0, 0] * (1 + 1e-6))
    first = first._replace(next_obs=first.next_obs.at[-1, 1].set(jnp.nan))
    obs = obs.at[0, 1].set(jnp.nan)
    assert not bool(first.done[-1, :2].any())
    found = list(episodes([first, second._replace(obs=obs)]))
    assert [len(x.action) for x in found] == [len(x.action) for x in episodes(steps)]
    assert all(isinstance(x, Episode) for x in found)


def test_steps_out_of_order_are_refused(steps: Transition) -> None:
    """Seeds side by side, two rollouts as one, every second step."""
    first, second = (jax.tree.map(lambda x: plain(x)[a : a + 7], steps) for a in (0, 20))  # noqa: B023
    swapped = jax.tree.map(lambda x: np.swapaxes(x, 0, 1), first)
    glued = jax.tree.map(lambda *x: np.concatenate(x), first, second)
    thinned = jax.tree.map(lambda x: x[::2], first)
    for wrong in (swapped, glued, thinned):
        with pytest.raises(ValueError, match="steps of one rollout in their order"):
            list(episodes(wrong))
    stacked = jax.tree.map(lambda *x: np.stack(x), first, second)
    with pytest.raises(ValueError, match="for each seed"):
        list(episodes(stacked))
