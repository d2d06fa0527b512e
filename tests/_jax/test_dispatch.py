"""A Python loop pays for one compiled call: however it is called, nothing is compiled again."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CounterEnv, VectorConfig

from envrax import JitWrapper, VecEnv

KEYS = [jax.random.key, jax.random.PRNGKey]
SCALARS: list[Callable[[int], Any]] = [
    int,
    np.int64,
    np.int8,
    lambda a: np.asarray(a, np.int32),
    jnp.int32,
    lambda a: jnp.asarray(a, jnp.uint8),
]
BATCHES: list[Callable[[int], Any]] = [
    lambda a: [a, a],
    lambda a: (a, np.int64(a)),
    lambda a: np.asarray([a, a]),
    lambda a: np.asarray([a, a], np.uint8),
    lambda a: jnp.asarray([a, a], jnp.int32),
]


@pytest.mark.parametrize(
    ("make", "spellings"),
    [
        (lambda config: JitWrapper(CounterEnv(config), pre_warm=False), SCALARS),
        pytest.param(lambda config: VecEnv(CounterEnv(config), 2), BATCHES, marks=pytest.mark.slow),
    ],
    ids=["jit", "vec"],
)
def test_a_thousand_mixed_calls(make: Any, spellings: Any, compile_counter: Any) -> None:
    env = make(VectorConfig(max_steps=321))
    actions = [spell(a) for a in range(3) for spell in spellings]
    jnp.asarray(0, jnp.uint8).astype(jnp.int32)  # JAX's own conversion is a program too
    keys = [key(0) for key in KEYS]
    with compile_counter() as compiled:
        states = [env.reset(key)[1] for key in keys]
        for i in range(1000):
            which = i % 3 % 2
            _, states[which], *_ = env.step(states[which], actions[i % len(actions)])
    # A reset and a step for each kind of key. The reset does not know the limit, so that an equal
    # one may be there already.
    assert len(KEYS) <= compiled.count <= 2 * len(KEYS)
    assert sum(int(np.max(state.step)) for state in states) > 0
