"""`Environment`: our side, stepped from states that NumPy holds, in float64 if it can."""

import copy
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._jax.keys import is_key
from envrax._jax.types import named_leaves
from envrax.env import AnyEnv
from envrax.spaces import Box
from envrax.spaces.masks import with_full_masks
from envrax.termination import end_of_step, step_env
from envrax.testing.match.numbers import (
    columns,
    count,
    is_float,
    join,
    matrix,
    named_as_key,
    take,
    where,
)

WIDTH = 256  # rows of a call
PROBES = 32  # draws in all of which an action must be legal
PERSISTENCE = 0.0, 0.75, 0.94, 0.985  # the chance that a row repeats its action, by row
MOST_NUMBERS = 500  # of a state, that are looked at
TERMINATED, TRUNCATED, REWARD = 0, 1, 2  # the first numbers of a step


class Outcome(NamedTuple):
    """What a step gives. Its leaves, in this order, are the numbers of the step."""

    terminated: Any
    truncated: Any
    reward: Any
    mask: Any
    obs: Any


class Environment:
    """
    An environment without auto-reset, in as many rows as asked for.

    States are trees of NumPy arrays with a leading axis, in which a PRNG key is its bits. A key is
    a leaf that is a typed key after a reset with one, or bits with the name of a key.

    Parameters
    ----------
    env : JaxEnv
        The environment.
    random : np.random.Generator
        Draws keys.
    with_masks : bool
        Whether masks of legal actions are among the numbers of a step.

    Attributes
    ----------
    template : Outcome
        Types of what a step gives, as users get it.
    names : list of str
        Names of the numbers, such as "obs[1]".
    rewards : slice
        Which numbers are rewards.
    has_masks : bool
        Whether the environment has masks.
    wide : bool
        Whether states are float64.
    """

    def __init__(self, env: AnyEnv, random: np.random.Generator, with_masks: bool) -> None:
        self.env = env
        self.random = random
        self.with_masks = with_masks
        self.wide = False
        key = jax.eval_shape(lambda: jax.random.key(0, impl="threefry2x32"))
        with self._mode():
            state: Any = jax.eval_shape(lambda rng: env.reset(rng)[1], key)
            mask: Any = jax.eval_shape(env.action_mask, state)
            action: Any = jax.eval_shape(self._sample, mask, key)
            self.template: Outcome = jax.eval_shape(self._outcome, state, action)[1]
        self.has_masks = mask is not None
        self.rewards = slice(REWARD, REWARD + int(np.prod(self.template.reward.shape)))
        one = jax.tree.map(lambda x: np.zeros((1, *x.shape)), self.template)
        self.names = [*columns(one)]
        leaves = named_leaves(state)
        self._typed = jax.tree.map(is_key, state)
        self.keys = frozenset(k for k, x in leaves.items() if is_key(x) or named_as_key(k, x))
        self._is_key = jax.tree.unflatten(
            jax.tree.structure(state), [k in self.keys for k in leaves]
        )
        try:
            self.env = copy.deepcopy(env)  # it may keep the types of its first call
            self.wide = self._keeps_float64(key)
        except Exception:  # whatever code raises that fixes its dtypes
            self.wide = False
        self.env = self.env if self.wide else env
        self._reset: Any = jax.jit(jax.vmap(self._reset_row))
        self._step: Any = jax.jit(jax.vmap(self._step_row))
        self._masks: Any = jax.jit(jax.vmap(self._mask_row))
        self._choose: Any = jax.jit(jax.vmap(self._choose_row))

    def reset(self, n: int) -> tuple[np.ndarray, Any]:
        """The numbers of the first observations, and the states, of new episodes."""
        outcomes, states = self._by_chunks(self._reset, n, self.bits((n, 2)))
        return matrix(outcomes), states

    def step(self, states: Any, actions: Any, nudge: float = 0.0) -> tuple[Any, np.ndarray]:
        """The states after one step from some, and its numbers; NaN if the action is illegal."""
        n = count(actions)
        nudges = np.full(n, nudge)
        found = self._by_chunks(self._step, n, states, actions, nudges, self.bits((n, 2)))
        states, outcomes, legal = found
        return states, np.where(legal[:, None], matrix(outcomes), np.nan)

    def play(self, states: Any, actions: Any, nudge: float = 0.0) -> np.ndarray:
        """
        The numbers of windows of steps, with axes (windows, steps, numbers).

        They are NaN from the first illegal action on.

        Parameters
        ----------
        states : pytree
            The first state of each.
        actions : pytree
            Actions, with axes (windows, steps).
        nudge : float, default 0
            Relative error of each state before each step; whole numbers are exact.
        """
        rows: list[np.ndarray] = []
        for t in range(jax.tree.leaves(actions)[0].shape[1]):
            states, numbers = self.step(states, take(actions, (slice(None), t)), nudge)
            rows.append(numbers)
        return hold(np.stack(rows, axis=1), self.rewards)

    def actions(self, states: Any) -> Any:
        """A random legal action for each state; half of the floats of a `Box` are at a bound."""
        return self._drawn(self.masks(states), count(states))

    def masks(self, states: Any) -> Any:
        """The masks of some states; None without masks."""
        return self._by_chunks(self._masks, count(states), states) if self.has_masks else None

    def plan(self, probes: Any, n: int, length: int) -> Any:
        """
        Lists of actions, with axes (lists, steps), that are legal whatever chance decides.

        Where there is no such action, it is one that may be illegal.

        Parameters
        ----------
        probes : pytree
            First states: as many for each list, one after the other.
        n, length : int
            The number of lists, and of actions in each.
        """
        repeats = self.random.random((length, n)) < np.resize(PERSISTENCE, n)
        rows = np.repeat(np.arange(n), count(probes) // n)
        over = np.zeros(len(rows), bool)
        found: list[Any] = []
        for t in range(length):
            masks = jax.tree.map(partial(_all_legal, ended=over, n=n), self.masks(probes))
            action = self._drawn(masks, n)
            if self.has_masks:
                probes, numbers = self.step(probes, take(action, rows))
                over |= ended(numbers)
            elif found:
                action = where(repeats[t], found[-1], action)
            found.append(action)
        return jax.tree.map(lambda *x: np.stack(x, axis=1), *found)

    def with_fresh_keys(self, states: Any) -> Any:
        """The same states with other PRNG keys."""
        return jax.tree.map(lambda x, k: self.bits(x.shape) if k else x, states, self._is_key)

    def columns(self, states: Any, without: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
        """The first numbers of states, without keys and leaves of the given names."""
        names = [x for x in named_leaves(states) if x.rpartition(".")[2] in without]
        return columns(states, self.keys | {*names}, MOST_NUMBERS)

    def as_numpy(self, states: Any, like: Any) -> Any:
        """States that a user built, with the dtypes of ours, and keys of zeros."""
        if jax.tree.structure(states) != jax.tree.structure(like):
            raise ValueError(
                f"match_env: expected states with the tree of the environment's, "
                f"{jax.tree.structure(like)}; got {jax.tree.structure(states)}."
            )

        def convert(x: Any, y: Any) -> Any:
            return np.zeros((*x.shape, 2), np.uint32) if is_key(x) else np.asarray(x, y.dtype)

        return jax.tree.map(convert, states, like)

    def bits(self, shape: tuple[int, ...]) -> Any:
        """Bits of keys."""
        return self.random.integers(2**32, size=shape, dtype=np.uint32)

    def _drawn(self, masks: Any, n: int) -> Any:
        action: Any = self._by_chunks(self._choose, n, masks, self.bits((n, 2)))
        space: Any = self.env.action_space
        if not isinstance(space, Box) or not is_float(action.dtype):
            return action
        sides, at_bound = cast(Any, self.random.random((2, *action.shape)) < 0.5)
        bounds = cast(Any, np.where(sides, space.low, space.high))
        at_bound = at_bound & np.isfinite(bounds)
        return cast(Any, np.where(at_bound, bounds, action)).astype(action.dtype)

    def _by_chunks(self, program: Any, n: int, *args: Any) -> Any:
        """What a program gives for n rows, 256 in a call."""
        found: list[Any] = []
        with self._mode():
            for begin in range(0, n, WIDTH):
                rows = np.minimum(np.arange(begin, begin + WIDTH), n - 1)
                found.append(jax.device_get(program(*take(args, rows))))
        return jax.tree.map(lambda x: x[:n], join(found))

    def _keeps_float64(self, key: Any) -> bool:
        """Whether float64 states stay float64 in a step under `enable_x64`."""

        def before_and_after(rng: jax.Array) -> tuple[Any, Any]:
            state = jax.tree.map(self._widen, self.env.reset(rng)[1])
            action = self._sample(self.env.action_mask(state), rng)
            return state, self.env.step(state, action)[1]

        self.wide = True
        with self._mode():
            before, after = map(jax.tree.leaves, jax.eval_shape(before_and_after, key))
            return [x.dtype for x in before] == [x.dtype for x in after]

    def _outcome(self, state: Any, action: Any) -> tuple[Any, Outcome]:
        """One step of the environment, and how it ends."""
        obs, new_state, reward, _, info = step_env(self.env, state, action)
        _, terminated, truncated = end_of_step("match_env", self.env, new_state, info)
        return new_state, Outcome(terminated, truncated, reward, self._mask(new_state), obs)

    def _mask(self, state: Any) -> Any:
        """The mask to compare: all is legal where the environment has none."""
        if not self.with_masks:
            return None
        return with_full_masks(self.env.action_space, self.env.action_mask(state))

    def _reset_row(self, bits: Any) -> Any:
        obs, state = self.env.reset(_wrapped(bits))
        flag = jnp.bool_(False)
        reward = jnp.zeros(self.template.reward.shape)
        state = jax.tree.map(self._widen, state)
        return Outcome(flag, flag, reward, self._mask(state), obs), self._as_bits(state)

    def _step_row(self, state: Any, action: Any, nudge: Any, seed: Any) -> Any:
        state = self._as_keys(self._nudged(state, nudge, seed))
        legal = _is_legal(self.env.action_mask(state), action)
        new_state, outcome = self._outcome(state, action)

        def keep_dtype(x: Any, old: Any) -> Any:
            return x if is_key(x) else jnp.asarray(x).astype(old.dtype)

        return self._as_bits(jax.tree.map(keep_dtype, new_state, state)), outcome, legal

    def _mask_row(self, state: Any) -> Any:
        return self.env.action_mask(self._as_keys(state))

    def _choose_row(self, mask: Any, bits: Any) -> Any:
        return self._sample(mask, _wrapped(bits))

    def _sample(self, mask: Any, rng: jax.Array) -> Any:
        return jax.tree.map(self._widen, self.env.action_space.sample(rng, mask))

    def _nudged(self, state: Any, nudge: Any, seed: Any) -> Any:
        """Floats a rounding away; whole ones are exact."""
        structure = cast(Any, jax.tree.structure(state))
        keys = jax.random.split(_wrapped(seed), structure.num_leaves)

        def moved(x: Any, key: Any) -> Any:
            if not is_float(x.dtype):
                return x
            turn = jax.random.uniform(key, x.shape, jnp.float32, -1, 1).astype(x.dtype)
            return jnp.where(x == jnp.round(x), x, x * (1 + jnp.asarray(nudge, x.dtype) * turn))

        return jax.tree.map(moved, state, jax.tree.unflatten(structure, [*keys]))

    def _as_bits(self, state: Any) -> Any:
        return jax.tree.map(lambda x: jax.random.key_data(x) if is_key(x) else x, state)

    def _as_keys(self, state: Any) -> Any:
        return jax.tree.map(lambda x, typed: _wrapped(x) if typed else x, state, self._typed)

    def _widen(self, x: Any) -> Any:
        x = x if is_key(x) else jnp.asarray(x)
        return x.astype(np.float64) if self.wide and is_float(x.dtype) else x

    @contextmanager
    def _mode(self) -> Generator[None]:
        """In float64, or as the user has it; with options for debugging off."""
        x64 = self.wide or cast(Any, jax.config).jax_enable_x64
        with (
            jax.enable_x64(x64),
            jax.numpy_dtype_promotion("standard"),
            jax.legacy_prng_key("allow"),
            jax.debug_key_reuse(False),
        ):
            yield


def _wrapped(bits: Any) -> jax.Array:
    return cast(jax.Array, jax.random.wrap_key_data(bits, impl="threefry2x32"))


def ended(numbers: np.ndarray) -> np.ndarray:
    """Which steps ended the episode; also one that is NaN, which is illegal or was refused."""
    return np.any(numbers[..., :REWARD], axis=-1)


def hold(numbers: np.ndarray, rewards: slice) -> np.ndarray:
    """Windows in which the step that ends the episode repeats without its reward."""
    is_end = ended(numbers)
    steps = cast(Any, np.arange(numbers.shape[1]))
    last = np.where(is_end.any(axis=1), is_end.argmax(axis=1), len(steps) - 1)[:, None]
    held = np.take_along_axis(numbers, np.minimum(steps, last)[:, :, None], axis=1)
    held[:, :, rewards] = np.where((steps > last)[:, :, None], 0, held[:, :, rewards])
    return held


def _is_legal(mask: Any, action: Any) -> Any:
    """Whether all parts of an action are legal."""

    def part(mask: Any, action: Any) -> Any:
        if mask is None:
            return jnp.bool_(True)
        chosen = jnp.expand_dims(jnp.asarray(action), -1).astype(jnp.int32)
        return jnp.take_along_axis(mask, chosen, axis=-1).all()

    legal = jax.tree.map(part, mask, action, is_leaf=lambda x: x is None)
    return jnp.stack(jax.tree.leaves(legal)).all()


def _all_legal(mask: np.ndarray, ended: np.ndarray, n: int) -> np.ndarray:
    """What is legal in all running rows of each of n groups."""
    free = ended.reshape(-1, *[1] * (mask.ndim - 1))
    return np.all((mask | free).reshape(n, -1, *mask.shape[1:]), axis=1)
