"""A policy, such as one that was trained on one side, played on both."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax.rollouts.evaluate import evaluate
from envrax.testing.match.environment import REWARD
from envrax.testing.match.report import Check
from envrax.testing.match.statistics import compare
from envrax.testing.match.trials import Sides, check_of

PLAYED = 64  # episodes of a policy, on each side


def check_transfer(sides: Sides, policy: Any, rng: jax.Array) -> Check:
    """Returns and lengths of episodes of a policy, such as one trained on one side."""
    env = sides.environment.env
    like: Any = jax.eval_shape(env.reset, rng)[0]
    splits = np.cumsum([x.size for x in jax.tree.leaves(like)])
    begin = len(sides.environment.names) - int(splits[-1])
    limit = env.config.max_steps

    def act(numbers: jax.Array, state: Any, rng: jax.Array) -> Any:
        rng, key = jax.random.split(rng)
        parts = jax.tree.unflatten(jax.tree.structure(like), jnp.split(numbers, splits)[:-1])
        obs: Any = jax.tree.map(lambda x, y: x.reshape(y.shape).astype(y.dtype), parts, like)
        action, state, _ = policy(state, obs, key)
        return action, state, rng

    program: Any = jax.jit(act)

    def play(rng: jax.Array) -> tuple[float, int]:
        numbers = sides.reference.reset()
        state: Any = None
        total = 0.0
        length = 0
        while length < limit and not numbers[:REWARD].astype(bool).any():
            action, state, rng = program(numbers[begin:], state, rng)
            numbers = sides.reference.step(jax.device_get(action))
            total += float(numbers[sides.environment.rewards].sum())
            length += 1
        return total, length

    found = jax.device_get(evaluate(env, policy, rng, PLAYED))
    ours = np.stack([found.returns, found.lengths], axis=1).astype(np.float64)
    theirs = np.array([play(key) for key in jax.random.split(rng, PLAYED)])
    tolerance = np.array([[1e-5 * max(1e-3, abs(ours[:, 0]).max()), 0]])
    tested = compare(ours[None], theirs[None], tolerance, ["return", "length"], {}, sides.random)
    means = (f"{x.mean():.4g} +- {x.std() / PLAYED**0.5:.2g}" for x in (ours[:, 0], theirs[:, 0]))
    said = f"{PLAYED} episodes, return {' here, '.join(means)} there"
    return check_of("transfer", said, tested, PLAYED, [])
