"""A policy, such as one that was trained on one side, played on both."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax.rollouts.evaluate import evaluate
from envrax.testing.match.checks import Pair
from envrax.testing.match.report import ALIKE, DIFFERS, Check
from envrax.testing.match.samples import difference
from envrax.testing.match.slots import REWARD, TERMINATED

PLAYED = 64  # episodes of each side


def check_transfer(pair: Pair, policy: Any, rng: jax.Array) -> Check:
    """Returns and lengths of episodes of a policy, cut at our limit."""
    env = pair.slots.env
    like: Any = jax.eval_shape(env.reset, rng)[0]
    splits = np.cumsum([x.size for x in jax.tree.leaves(like)])

    def act(numbers: jax.Array, state: Any, rng: jax.Array) -> Any:
        rng, key = jax.random.split(rng)
        parts = jax.tree.unflatten(jax.tree.structure(like), jnp.split(numbers, splits)[:-1])
        obs: Any = jax.tree.map(lambda x, y: x.reshape(y.shape).astype(y.dtype), parts, like)
        action, state, _ = policy(state, obs, key)
        return action, state, rng

    program: Any = jax.jit(act)

    def play(rng: jax.Array) -> tuple[float, int]:
        numbers = np.append(pair.reference.reset(), [0.0, 0.0, 0.0])
        state: Any = None
        total = 0.0
        length = 0
        while length < env.config.max_steps and not numbers[TERMINATED:].any():
            action, state, rng = program(numbers, state, rng)
            numbers = pair.reference.step(jax.device_get(action))
            total += numbers[REWARD]
            length += 1
        return total, length

    found = jax.device_get(evaluate(env, policy, rng, PLAYED))
    ours = np.stack([found.returns, found.lengths], axis=1).astype(np.float64)
    theirs = np.array([play(key) for key in jax.random.split(rng, PLAYED)])
    said, p = difference(["return", "length"], ours, theirs, pair.slots.random)
    means = (f"{x.mean():.4g} +- {x.std() / PLAYED**0.5:.2g}" for x in (ours[:, 0], theirs[:, 0]))
    text = f"{PLAYED} episodes, return {' here, '.join(means)} there; {said or p}"
    return Check("transfer", DIFFERS if said else ALIKE, text)
