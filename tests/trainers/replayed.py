"""What a `VecEnv` returns for the actions that a trainer took, to compare with its buffer."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import envrax
from envrax import Box, Discrete
from envrax.testing import CountingEnv
from envrax.testing.fakes import FakeConfig, FakeState

N_SLOTS = 3
NAMES = "obs", "action", "reward", "terminated", "truncated", "next_obs"


class DrawnEnv(CountingEnv):
    """
    Observations are drawn, so that no two are equal, and every program has the same bits.

    An episode terminates where the first entry is small, and is truncated after 12 steps.
    """

    @property
    def observation_space(self) -> Box:
        return Box(0.0, 1.0, (4,))

    @property
    def action_space(self) -> Discrete:
        return Discrete(2)

    def observe(self, state: FakeState) -> Any:
        return jax.random.uniform(jax.random.fold_in(state.rng, state.step), (4,), jnp.float32)

    def step(self, state: FakeState, action: Any) -> tuple[Any, ...]:
        obs, state, gain, truncated, _ = super().step(state, action)
        terminated = obs[0] < 0.05
        state = state.replace(done=terminated | truncated)
        info = {"terminated": terminated, "truncated": truncated}
        return obs, state, gain + obs[1], state.done, info


ENV = DrawnEnv(FakeConfig(max_steps=12))


def _key(seed: int, n_resets: int) -> Any:
    """The key of the `n_resets`-th reset of a bridge: each does `rng, key = split(rng)`."""
    rng = key = jax.random.key(seed)
    for _ in range(n_resets):
        rng, key = jax.random.split(rng)
    return key


def replayed(actions: Any, n_resets: int = 1) -> dict[str, Any]:
    """
    Transitions of a `VecEnv` from the key that a bridge uses in its `n_resets`-th reset.

    Rows are steps, columns are slots; `next_obs` is the observation of the step itself.
    """
    batch = envrax.VecEnv(ENV, actions.shape[1], final_obs=True)
    step = jax.jit(batch.step)
    obs, state = batch.reset(_key(0, n_resets))
    rows: list[tuple[Any, ...]] = []
    for action in actions.astype(np.int32):
        before = obs
        obs, state, reward, _, info = step(state, action)
        rows.append((before, action, reward, *_ends(info), info["final_obs"]))
    return _columns(rows)


def replayed_one(actions: Any, seed: int, n_resets: int) -> dict[str, Any]:
    """The same of one environment, which is reset after every episode."""
    step = jax.jit(ENV.step)
    obs, state = ENV.reset(_key(seed, n_resets))
    rows: list[tuple[Any, ...]] = []
    for action in actions.astype(np.int32):
        before = obs
        obs, state, reward, done, info = step(state, action)
        rows.append((before, action, reward, *_ends(info), obs))
        if done:
            n_resets += 1
            obs, state = ENV.reset(_key(seed, n_resets))
    return _columns(rows)


def _ends(info: dict[str, Any]) -> tuple[Any, Any]:
    return info["terminated"], info["truncated"]


def _columns(rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    columns = [np.stack(column) for column in zip(*jax.device_get(rows), strict=True)]
    return dict(zip(NAMES, columns, strict=True))


def require_equal(buffer: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Every array of the buffer has the bits of `wanted`, in which both kinds of end occur."""
    assert wanted["terminated"].any() and wanted["truncated"].any()
    assert buffer["obs"].dtype == buffer["next_obs"].dtype == np.float32
    for name, found in buffer.items():
        np.testing.assert_array_equal(found, wanted[name], strict=name not in ("action", "reward"))
