"""`Reference`: their side, a simulator on the host, asked one step at a time."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from envrax.testing.match.numbers import half_units, take
from envrax.testing.match.slots import TERMINATED, TRUNCATED, Slots


class Reference:
    """
    An object with `reset` and `step`: Gymnasium's, EnvPool's with one slot, or with only `done`.

    Its numbers are copies, in our order: it may return its own arrays and change them later.

    Parameters
    ----------
    raw : Any
        The object.
    slots : Slots
        Our side.
    inject, act : callable or None
        As for `match_env`.

    Attributes
    ----------
    units : np.ndarray
        As those of `Slots`, for both sides together.
    """

    def __init__(self, raw: Any, slots: Slots, inject: Any, act: Any) -> None:
        self.raw = raw
        self.inject: Callable[[Any, Any], Any] | None = inject
        self._act = act or self._default_act
        self._is_batch = _is_batch(raw)
        seed = {"seed": int(slots.random.integers(2**31))}
        try:
            raw.reset(**seed)
        except TypeError:  # it takes no seed
            raw.reset()
        leaves = self._leaves_at_reset()
        n = len(slots.units) - 3
        got = sum(x.size for x in leaves)
        if got != n:
            raise ValueError(
                f"match_env: expected observations of {n} numbers, as the environment's; got {got} "
                "from the reference. Wrap one of them."
            )
        ends = np.zeros(3)  # reward, terminated, truncated
        self.units = slots.units + np.concatenate([half_units(leaves), ends])

    def reset(self) -> np.ndarray:
        """Begin an episode: the numbers of the observation."""
        return _row(self._leaves_at_reset())

    def step(self, action: Any) -> np.ndarray:
        """The numbers of one step."""
        obs, reward, *ends, info = self.raw.step(self._act(action))
        if len(ends) == 1:
            truncated = bool(info.get("TimeLimit.truncated", False))
            ends = [ends[0] and not truncated, truncated]
        return _row([*jax.tree.leaves(obs), reward, *ends])

    def ask(self, states: Any, actions: Any) -> np.ndarray:
        """The numbers of a step from each state, put into a new episode."""
        found: list[np.ndarray] = []
        for i in range(len(jax.tree.leaves(actions)[0])):
            found.append(self.play(take(actions, slice(i, i + 1)), take(states, i))[0])
        return np.stack(found)

    def play(self, actions: Any, state: Any = None) -> np.ndarray:
        """The numbers of an episode under given actions, up to its end, from a state if given."""
        self.raw.reset()
        if self.inject is not None and state is not None:
            self.inject(self.raw, state)
        found: list[np.ndarray] = []
        for i in range(len(jax.tree.leaves(actions)[0])):
            found.append(self.step(take(actions, i)))
            if found[-1][TERMINATED] or found[-1][TRUNCATED]:
                break
        return np.stack(found)

    def _leaves_at_reset(self) -> list[Any]:
        found = self.raw.reset()
        has_info = isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], dict)
        return [np.asarray(x) for x in jax.tree.leaves(found[0] if has_info else found)]

    def _default_act(self, action: Any) -> Any:
        if self._is_batch:
            return np.asarray(action)[None].astype(self.raw.action_space.dtype)
        return action.item() if np.ndim(action) == 0 else action


def _row(leaves: list[Any]) -> np.ndarray:
    return np.concatenate([np.ravel(x).astype(np.float64) for x in leaves])


def _is_batch(raw: Any) -> bool:
    """Whether it is a batch, such as a pool of EnvPool; only one of one slot can be asked."""
    config = getattr(raw, "config", None)
    n = getattr(raw, "num_envs", config.get("num_envs") if isinstance(config, dict) else None)
    if n not in (None, 1):
        raise ValueError(f"match_env: expected a reference with one slot; got {n}. Make it with 1.")
    return n is not None
