"""`Slots`: our side, an environment in 64 slots, whose states NumPy holds, in float64 if it can."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._jax.keys import is_key
from envrax.env import AnyEnv
from envrax.spaces import Box
from envrax.termination import end_of_step, step_env
from envrax.testing.match.numbers import columns, half_units, is_bits, join, matrix, take

WIDTH = 64
REWARD, TERMINATED, TRUNCATED = -3, -2, -1  # after the numbers of the observation


class Slots:
    """
    An environment without auto-reset, in as many slots as asked for, 64 in a call.

    Keys are legacy ones, which NumPy can hold. The numbers of a step are those of its observation,
    then reward, terminated and truncated, as float64.

    Attributes
    ----------
    wide : bool
        Whether states are float64.
    names : list of str
        Names of the numbers, such as "obs[1]".
    units : np.ndarray
        For each number half a unit in the last place of 1, in the dtype of the environment; 0 for
        integers and flags.
    """

    def __init__(self, env: AnyEnv, random: np.random.Generator) -> None:
        self.env = env
        self.random = random
        self._key_shape = jax.random.key_data(jax.random.key(0)).shape
        self.wide = True
        try:
            self.wide = self._keeps_float64()
        except Exception:  # whatever code raises that fixes its dtypes
            self.wide = False
        self._reset: Any = jax.jit(jax.vmap(self._reset_one))
        self._step: Any = jax.jit(jax.vmap(self._step_one))
        self._act: Any = jax.jit(jax.vmap(self._act_one))
        _, state = self._run(self._reset, self._keys())
        action = self._run(self._act, state, self._keys())
        results = self._run(self._step, state, action)[1]
        self.names = [*columns(results)]
        self.units = half_units([x[0] for x in jax.tree.leaves(results)])

    def reset(self, n: int) -> tuple[np.ndarray, Any]:
        """The numbers of the first observations, and the states, of new episodes."""
        found = join([self._run(self._reset, self._keys()) for _ in range(0, n, WIDTH)])
        first, state = take(found, slice(n))
        return matrix(first), state

    def step(self, state: Any, action: Any) -> tuple[Any, np.ndarray]:
        """The states after one step from some states, and the numbers of each step."""
        n = len(jax.tree.leaves(action)[0])
        chunks = [np.minimum(np.arange(i, i + WIDTH), n - 1) for i in range(0, n, WIDTH)]
        found = join([self._run(self._step, *take((state, action), rows)) for rows in chunks])
        new_state, results = take(found, slice(n))
        return new_state, matrix(results)

    def ask(self, state: Any, action: Any) -> np.ndarray:
        """The numbers of one step from some states."""
        return self.step(state, action)[1]

    def actions(self, state: Any) -> Any:
        """A random legal action for each slot; half of the floats of a `Box` are at a bound."""
        action: Any = self._run(self._act, state, self._keys())
        space: Any = self.env.action_space
        if not isinstance(space, Box) or action.dtype.kind != "f":
            return action
        sides, at_bound = cast(Any, self.random.random((2, *action.shape)) < 0.5)
        bounds = cast(Any, np.where(sides, space.low, space.high))
        at_bound = at_bound & np.isfinite(bounds)
        return cast(Any, np.where(at_bound, bounds, action)).astype(action.dtype)

    def as_numpy(self, states: Any, like: Any) -> Any:
        """States that a user built, with the dtypes of ours, and keys of zeros."""

        def convert(x: Any, y: Any) -> Any:
            x = np.zeros((*x.shape, *self._key_shape)) if is_key(x) else np.asarray(x)
            return x.astype(y.dtype)

        return jax.tree.map(convert, states, like)

    def with_other_keys(self, state: Any) -> Any:
        """The same states with other PRNG keys."""

        def redraw(x: Any) -> Any:
            return self._bits(x.shape) if is_bits(x) else x

        return jax.tree.map(redraw, state)

    def _keeps_float64(self) -> bool:
        """Whether float64 states stay float64 in a step under `enable_x64`."""

        def before_and_after(rng: jax.Array) -> tuple[Any, Any]:
            _, state = self._reset_one(rng)
            return state, self.env.step(state, self._act_one(state, rng))[1]

        with self._mode():
            types = jax.eval_shape(before_and_after, self._keys()[0])
            before, after = map(jax.tree.leaves, types)
            return [x.dtype for x in before] == [x.dtype for x in after]

    def _reset_one(self, rng: jax.Array) -> Any:
        obs, state = self.env.reset(rng)
        return {"obs": obs}, jax.tree.map(self._widen, state)

    def _step_one(self, state: Any, action: Any) -> Any:
        obs, new_state, reward, _, info = step_env(self.env, state, action)
        _, terminated, truncated = end_of_step("match_env", self.env, new_state, info)
        new_state = jax.tree.map(lambda x, old: jnp.asarray(x).astype(old.dtype), new_state, state)
        ends = {"terminated": terminated, "truncated": truncated}
        return new_state, {"obs": obs, "reward": reward, **ends}

    def _act_one(self, state: Any, rng: jax.Array) -> Any:
        action = self.env.action_space.sample(rng, self.env.action_mask(state))
        return jax.tree.map(self._widen, action)

    def _widen(self, x: Any) -> Any:
        x = jnp.asarray(x)
        return x.astype(np.float64) if self.wide and jnp.issubdtype(x.dtype, jnp.floating) else x

    def _keys(self) -> Any:
        return self._bits((WIDTH, *self._key_shape))

    def _bits(self, shape: tuple[int, ...]) -> Any:
        return self.random.integers(2**32, size=shape, dtype=np.uint32)

    def _run(self, program: Any, *args: Any) -> Any:
        with self._mode():
            return jax.device_get(program(*args))

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
