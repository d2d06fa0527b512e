"""`Simulators`: the host's side of `from_host`, called once a step for all slots."""

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import jax
import numpy as np

from envrax.interop.host.arrays import copy_as, copy_rewards_and_ends, require_legal
from envrax.spaces import Space
from envrax.spaces.base import is_list, is_mapping

WHO = "from_host"
RESET = -1  # in place of the number of a call
_NUMBERS = itertools.count()
NEWEST = (
    f"{WHO}: expected the state of the last call, since a simulator cannot go back; got an older "
    "one. Pass the newest state, or reset the batch."
)


class Begun(NamedTuple):
    """What all slots show now, and the number of the call."""

    obs: Any
    mask: Any
    call: Any


class Stepped(NamedTuple):
    """The results of a step; `begun` is after the resets, all others before."""

    begun: Begun
    reward: Any
    terminated: Any
    truncated: Any
    final_obs: Any
    final_mask: Any
    info: Any


class _Row(NamedTuple):
    """What one simulator gave, copied: it may write the next results over these."""

    obs: Any
    mask: Any
    reward: Any = None
    terminated: Any = None
    truncated: Any = None
    info: Any = None


class Simulators:
    """
    The simulators on the host, called once for all slots.

    Attributes
    ----------
    all : list
        The simulators.
    has_mask : bool
        Whether they have `action_mask`.
    types : Stepped
        Types of the results of all slots.
    n_calls : int
        The number of the newest call, which no other batch has.
    error : BaseException or None
        What the last call raised.
    """

    def __init__(self, make: Callable[[], Any], n: int, threads: int, actions: Space) -> None:
        self._action_space = actions
        self._is_closed = False
        self.all = [make() for _ in range(n)]
        self.has_mask = hasattr(self.all[0], "action_mask")
        self.types: Any = None
        self.n_calls = next(_NUMBERS)
        self.error: BaseException | None = None
        self._pool = ThreadPoolExecutor(threads) if threads else None
        self._rows: list[Any] = [None] * n  # the newest of each

    def begin(self, call: Any, mask: Any, seeds: Any) -> Begun:
        """Reset the simulators of the mask."""
        with _Kept(self):
            self._take_turn(call)
            self._reset(np.asarray(mask), np.asarray(seeds))
            return self._begun()

    def step(self, autoreset: bool, call: Any, actions: Any, seeds: Any) -> Stepped:
        """Step all simulators, and reset those whose episode ended."""
        with _Kept(self):
            self._take_turn(call)
            actions = jax.tree.map(np.asarray, actions)
            require_legal(self._action_space, actions, WHO)
            slots = range(len(self.all))
            given = [jax.tree.map(lambda x, i=i: x[i], actions) for i in slots]
            rows = self._rows = self._each(self._step_one, slots, given)
            ends = copy_rewards_and_ends(
                len(rows),
                [row.reward for row in rows],
                [row.terminated for row in rows],
                [row.truncated for row in rows],
                WHO,
            )
            last = self._begun()
            if autoreset and ends.done.any():
                self._reset(ends.done, np.asarray(seeds))
            return Stepped(
                begun=self._begun(),
                reward=ends.rewards,
                terminated=ends.terminated,
                truncated=ends.truncated,
                final_obs=last.obs,
                final_mask=last.mask,
                info=_stacked(self.types.info, [row.info for row in rows]),
            )

    def _reset(self, which: Any, seeds: Any) -> None:
        slots = np.flatnonzero(which)
        rows = self._each(self._reset_one, slots, [int(seeds[i]) for i in slots])
        self._rows = [*self._rows]
        for i, row in zip(slots, rows, strict=True):
            self._rows[i] = row

    def _reset_one(self, slot: int, seed: int) -> _Row:
        obs = self.all[slot].reset(seed)
        if isinstance(obs, tuple) and not is_list(self.types.final_obs):
            raise TypeError(
                f"{WHO}: expected reset to return an observation; got a tuple of {len(obs)}. "
                "Return it without an info."
            )
        return _Row(_copied(obs), self._mask_of(slot))

    def _step_one(self, slot: int, action: Any) -> _Row:
        returned: Any = self.all[slot].step(action)
        if not isinstance(returned, tuple) or len(returned) not in (4, 5):
            raise TypeError(
                f"{WHO}: expected step to return (obs, reward, terminated, truncated[, info]); got "
                f"{returned!r}."
            )
        parts: Any = (*returned, {})
        obs, reward, terminated, truncated, info = parts[:5]
        missing = [name for name in self.types.info if name not in info]
        if missing:
            raise ValueError(
                f"{WHO}: expected an info {missing[0]!r} from every step; got {sorted(info)} from "
                f"simulator {slot}. Return it always, or leave it out of `infos`."
            )
        info = _copied({name: info[name] for name in self.types.info})
        return _Row(_copied(obs), self._mask_of(slot), reward, terminated, truncated, info)

    def _mask_of(self, slot: int) -> Any:
        return _copied(self.all[slot].action_mask()) if self.has_mask else None

    def _each(self, function: Callable[..., Any], slots: Any, given: Any) -> list[Any]:
        """The results of all calls; an error only after each of them has ended."""
        pairs = zip(slots, given, strict=True)
        if self._pool is None:
            return [function(*pair) for pair in pairs]
        calls = [self._pool.submit(function, *pair) for pair in pairs]
        wait(calls)
        return [call.result() for call in calls]

    def _begun(self) -> Begun:
        obs = _stacked(self.types.final_obs, [row.obs for row in self._rows])
        mask = None
        if self.has_mask:
            mask = _stacked(self.types.final_mask, [row.mask for row in self._rows])
        return Begun(obs, mask, np.int32(self.n_calls))

    def _take_turn(self, call: Any) -> None:
        """Count the call first: if it fails, no state is the newest until a reset."""
        if self._is_closed:
            raise RuntimeError(
                f"{WHO}: expected an open batch; got one after `close`. Build another."
            )
        if call not in (RESET, self.n_calls):
            raise RuntimeError(NEWEST)
        self.n_calls = next(_NUMBERS)

    def close(self) -> None:
        """Close the simulators that can be."""
        self._is_closed = True
        for simulator in self.all:
            if hasattr(simulator, "close"):
                simulator.close()
        if self._pool is not None:
            self._pool.shutdown()


def _copied(tree: Any) -> Any:
    if is_mapping(tree):
        return {name: _copied(x) for name, x in tree.items()}
    return tuple(map(_copied, tree)) if isinstance(tree, tuple) else np.array(tree)


class _Kept:
    """Keep an error of a simulator: JAX raises another in its place."""

    def __init__(self, simulators: Simulators) -> None:
        self._simulators = simulators

    def __enter__(self) -> None:
        self._simulators.error = None

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self._simulators.error = error


def _stacked(types: Any, rows: Any) -> Any:
    """Rows of the structure of `types`, stacked leaf by leaf, in its dtypes."""
    if is_mapping(types):
        return {name: _stacked(x, [row[name] for row in rows]) for name, x in types.items()}
    if is_list(types):
        columns = zip(types, zip(*rows, strict=True), strict=True)
        return tuple(_stacked(x, column) for x, column in columns)
    shapes = {np.shape(row) for row in rows}
    if shapes != {types.shape[1:]}:
        raise ValueError(
            f"{WHO}: expected arrays of shape {types.shape[1:]} from every simulator; got "
            f"{', '.join(map(str, shapes))}. Correct the space that you pass."
        )
    return copy_as(types, np.stack(rows), WHO)
