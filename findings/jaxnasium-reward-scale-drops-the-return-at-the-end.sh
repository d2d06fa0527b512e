#!/usr/bin/env bash
# What: the running return by whose spread NormalizeVecRewardWrapper divides the rewards.
# Version: jaxnasium 0.1.1 with jax 0.11.2, Python 3.12.
# Expected: the discounted sum of the rewards of an episode, which begins anew in the next one.
# Seen: the step that ends an episode forgets the sum of its episode, and keeps its own reward, which
#   then runs on through the next episode. With a reward at the end only, no step of the first episode
#   has a return but the last, and every step of the following ones has one: rewards are divided by
#   another number than in Gymnasium or Stable-Baselines3.
# Output:
#   return of each step, two episodes: [0.0, 0.0, 0.0, 1.0, 0.5, 0.25, 0.125, 1.0]
#   expected: [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet jaxnasium==0.1.1 jax==0.11.2 jaxlib==0.11.2
venv/bin/python - <<'PY'
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxnasium import Box, Discrete, Environment, TimeStep
from jaxnasium.wrappers import NormalizeVecRewardWrapper, VecEnvWrapper


class Counter(eqx.Module):
    time: jax.Array


class RewardAtTheEnd(Environment):
    """Episodes of 4 steps; the last one pays 1."""

    def reset_env(self, key):
        return jnp.zeros(1), Counter(jnp.array(0))

    def step_env(self, key, state, action):
        last = state.time == 3
        step = TimeStep(jnp.zeros(1), last.astype(float), last, jnp.array(False), {})
        return step, Counter(state.time + 1)

    @property
    def observation_space(self):
        return Box(low=0.0, high=1.0, shape=(1,))

    @property
    def action_space(self):
        return Discrete(2)


env = NormalizeVecRewardWrapper(VecEnvWrapper(RewardAtTheEnd()), gamma=0.5)
keys = jax.random.split(jax.random.key(0), 2)
_, state = env.reset(keys)
seen, wanted, sum_ = [], [], 0.0
for time in range(8):
    step, state = env.step(keys, state, jnp.zeros(2, int))
    seen.append(float(state.return_val[0]))
    sum_ = 0.5 * sum_ + (time % 4 == 3)
    wanted.append(sum_)
    sum_ *= time % 4 != 3
print("return of each step, two episodes:", seen)
print("expected:", wanted)
assert wanted == [0, 0, 0, 1, 0, 0, 0, 1]
assert seen == [0, 0, 0, 1, 0.5, 0.25, 0.125, 1], "it changed"
PY
