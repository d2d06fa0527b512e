"""
The example PPO on CartPole, until it returns 475 or for 300,000 steps.

    python benchmarks/ppo_cartpole.py SEED

It prints "trained", then evaluates the policy and prints the mean return of 100 episodes.
"""

import sys
from collections import deque
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "examples"))

import jax
import numpy as np
from ppo import N_CALLS, PPO, PRESETS, Options

N_EPISODES = 100  # training stops at their mean return


def main(seed: int) -> None:
    name = "classic/CartPole-v0"
    ppo = PPO(Options(name, seed=seed, **PRESETS[name]))
    state = jax.jit(ppo.init)(seed)
    train = jax.jit(partial(jax.lax.scan, ppo.update, length=ppo.n_updates), donate_argnums=0)
    recent: deque[np.ndarray] = deque()  # per update: the sum of returns, and their number
    for _ in range(N_CALLS):
        state, ended = train(state)
        recent.extend(np.sum(ended, axis=-1).T)
        while sum(n for _, n in recent) - recent[0][1] >= N_EPISODES:
            recent.popleft()
        total, episodes = np.sum(recent, axis=0)
        if episodes >= N_EPISODES and total >= 475 * episodes:
            break
    print("trained", flush=True)
    returns = ppo.evaluate(ppo.env, state[0].policy_state, N_EPISODES, 500)
    print(f"{returns.mean():.2f} after training", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
