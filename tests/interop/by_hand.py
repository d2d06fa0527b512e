# pyright: basic, reportMissingImports=false
"""A library stepped by hand, beside the same library through its adapter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any

import jax
import numpy as np

from envrax.testing import report_env


def follow(
    env: Any,
    begin: Callable[..., Any],
    advance: Callable[..., Any],
    num_steps: int = 200,
    edit: Callable[[Any], Any] = lambda inner: inner,
) -> Counter[str]:
    """
    Step both with the same keys and random actions, and compare all that they return, bit by bit.

    Parameters
    ----------
    env : JaxEnv
        The environment, whose step draws from a key or not.
    begin : callable
        `begin(key)` gives obs and the library's state.
    advance : callable
        `advance(key, inner, action)` gives obs, the library's state, reward, and whether the
        library ends the episode by itself.
    num_steps : int
        How many steps, across episode ends.
    edit : callable
        A change to the library's state halfway, on both sides, to bring about an end.

    Returns
    -------
    Counter
        How often the episode was terminated and truncated.
    """
    reset, step = jax.jit(env.reset), jax.jit(env.step)
    begin, advance = by_hand(begin), by_hand(advance)
    ends: Counter[str] = Counter()
    rng = jax.random.key(3)
    obs, state = reset(rng)
    hand_obs, inner = begin(jax.random.split(rng)[1])
    equal((obs, state.inner), (hand_obs, inner))
    for n, action_key in enumerate(jax.random.split(jax.random.key(4), num_steps)):
        if n == num_steps // 2:
            state, inner = state.replace(inner=edit(state.inner)), edit(inner)
        action, key = env.action_space.sample(action_key), jax.random.split(state.rng)[1]
        hand_obs, inner, hand_reward, over = advance(key, inner, action)
        obs, state, reward, done, info = step(state, action)
        equal((obs, state.inner), (hand_obs, inner))
        equal((reward, info["terminated"]), (hand_reward, over))
        assert bool(info["truncated"]) == (int(state.step) == env.config.max_steps)
        if done:
            ends.update(name for name in ("terminated", "truncated") if info[name])
            rng = jax.random.split(state.rng)[0]
            obs, state = reset(rng)
            hand_obs, inner = begin(jax.random.split(rng)[1])
            equal((obs, state.inner), (hand_obs, inner))
    return ends


def equal(ours: Any, theirs: Any) -> None:
    """Compare the leaves of two trees, whose containers may differ."""
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_array_equal(bits(a), bits(b))


def bits(x: Any) -> Any:
    """A leaf that NumPy can read: of typed keys, their bits."""
    x = x if hasattr(x, "dtype") else np.asarray(x)
    return jax.random.key_data(x) if jax.numpy.issubdtype(x.dtype, jax.dtypes.prng_key) else x


def by_hand(function: Callable[..., Any]) -> Any:
    """Compile a library's function as its users do: the tests promote dtypes strictly."""

    @wraps(function)
    def called(*args: Any) -> Any:
        with jax.numpy_dtype_promotion("standard"):
            return function(*args)

    return jax.jit(called)


def keeps_the_contract(env: Any, num_steps: int = 100) -> None:
    """All rules hold, but exactly those that are waived."""
    report = report_env(env, num_steps=num_steps)
    assert report.ok and set(report.waived) == set(env.unwrapped.waivers), report
