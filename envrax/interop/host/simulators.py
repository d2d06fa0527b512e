"""`Simulators`: the host's side of `from_host`, called once a step for all slots."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, cast

import jax
import numpy as np

from envrax.interop.host.arrays import copy_as, copy_rewards_and_ends
from envrax.spaces.base import is_list, is_mapping

WHO = "from_host"
RESET = -1  # in place of the number of a call
NEWEST = (
    f"{WHO}: expected the state of the last call, since a simulator cannot go back; got an older "
    "one. Pass the newest state, or reset the batch."
)


class Begun(NamedTuple):
    obs: Any
    mask: Any
    call: Any


class Stepped(NamedTuple):
    begun: Begun
    reward: Any
    terminated: Any
    truncated: Any
    final_obs: Any
    final_mask: Any
    info: Any


class Simulators:
    """The simulators on the host, called once for all slots."""

    def __init__(self, make: Callable[[], Any], n: int, threads: int) -> None:
        self.all = [make() for _ in range(n)]
        self.has_mask = hasattr(self.all[0], "action_mask")
        self.error: Exception | None = None
        self.n_calls = 0
        self._pool = ThreadPoolExecutor(threads) if threads else None
        self._map: Any = self._pool.map if self._pool else map
        self.types: Any = None  # of one `Stepped` of all slots
        self._last: Any = None  # observations and masks of all slots

    def begin(self, call: Any, mask: Any, seeds: Any) -> Begun:
        """Reset the simulators of the mask."""
        with _Kept(self):
            self._take_turn(call)
            obs, masks = self._last or ([None] * len(self.all), [None] * len(self.all))
            self._last = self._reset(np.asarray(mask), np.asarray(seeds), obs, masks)
            return self._begun()

    def step(self, autoreset: bool, call: Any, actions: Any, seeds: Any) -> Stepped:
        """Step all simulators, and reset those whose episode ended."""
        with _Kept(self):
            self._take_turn(call)
            actions = jax.tree.map(np.asarray, actions)
            rows = [jax.tree.map(lambda x, i=i: x[i], actions) for i in range(len(self.all))]
            results = [*self._map(self._step_one, self.all, rows)]
            obs, rewards, terminated, truncated, infos = zip(*results, strict=True)
            ends = copy_rewards_and_ends(len(self.all), rewards, terminated, truncated, WHO)
            masks = self._masks([*self._map(self._mask_of, self.all)])
            last = self._obs(obs)
            self._last = [*obs], masks
            if autoreset and ends.done.any():
                self._last = self._reset(ends.done, np.asarray(seeds), *self._last)
            final_mask = self._stacked_masks(masks)
            return Stepped(
                begun=self._begun(),
                reward=ends.rewards,
                terminated=ends.terminated,
                truncated=ends.truncated,
                final_obs=last,
                final_mask=final_mask,
                info=self._infos(infos),
            )

    def _reset(self, which: Any, seeds: Any, obs: Any, masks: Any) -> Any:
        slots = np.flatnonzero(which)
        first = self._map(lambda i: self.all[i].reset(int(seeds[i])), slots)
        obs, masks = [*obs], [*masks]
        for i, x in zip(slots, first, strict=True):
            obs[i] = x
            masks[i] = self._mask_of(self.all[i])
        return obs, self._masks(masks)

    def _step_one(self, simulator: Any, action: Any) -> tuple[Any, ...]:
        returned: Any = simulator.step(action)
        if not isinstance(returned, tuple) or len(returned) not in (4, 5):
            raise TypeError(
                f"{WHO}: expected step to return (obs, reward, terminated, truncated[, info]); got "
                f"{returned!r}."
            )
        return cast(Any, returned if len(returned) == 5 else (*returned, {}))

    def _mask_of(self, simulator: Any) -> Any:
        return simulator.action_mask() if self.has_mask else None

    def _masks(self, masks: list[Any]) -> list[Any]:
        # Copies: a simulator may write the next mask over this one.
        return [jax.tree.map(np.array, mask) for mask in masks]

    def _stacked_masks(self, masks: list[Any]) -> Any:
        return jax.tree.map(lambda *x: np.stack(x), *masks) if self.has_mask else None

    def _obs(self, rows: Any) -> Any:
        """The observations of all slots, stacked and copied."""
        return copy_as(self.types.final_obs, _stacked(self.types.final_obs, rows), WHO)

    def _infos(self, infos: Any) -> Any:
        found: dict[str, Any] = {}
        for name, types in self.types.info.items():
            missing = [i for i, info in enumerate(infos) if name not in info]
            if missing:
                raise ValueError(
                    f"{WHO}: expected an info {name!r} from every step; got "
                    f"{sorted(infos[missing[0]])} from simulator {missing[0]}. Return it always, "
                    "or leave it out of `infos`."
                )
            found[name] = copy_as(types, _stacked(types, [x[name] for x in infos]), WHO)
        return found

    def _begun(self) -> Begun:
        obs, masks = self._last
        return Begun(self._obs(obs), self._stacked_masks(masks), np.int32(self.n_calls))

    def _take_turn(self, call: Any) -> None:
        """Count the call first: if it fails, no state is the newest until a reset."""
        if call not in (RESET, self.n_calls):
            raise RuntimeError(NEWEST)
        self.n_calls += 1

    def close(self) -> None:
        """Close the simulators that can be."""
        for simulator in self.all:
            if hasattr(simulator, "close"):
                simulator.close()
        if self._pool is not None:
            self._pool.shutdown()


class _Kept:
    """Keep an error of a simulator: JAX raises another in its place."""

    def __init__(self, simulators: Simulators) -> None:
        self._simulators = simulators

    def __enter__(self) -> None:
        self._simulators.error = None

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self._simulators.error = error


def _stacked(types: Any, rows: Any) -> Any:
    """Rows of the structure of `types`, stacked leaf by leaf."""
    if is_mapping(types):
        return {name: _stacked(x, [row[name] for row in rows]) for name, x in types.items()}
    if is_list(types):
        columns = zip(types, zip(*rows, strict=True), strict=True)
        return tuple(_stacked(x, column) for x, column in columns)
    return np.stack([np.asarray(row) for row in rows])
