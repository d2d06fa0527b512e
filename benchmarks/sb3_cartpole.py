"""
Stable-Baselines3's PPO on CartPole, until it returns 475 or for 100,000 steps.

    python benchmarks/sb3_cartpole.py SEED THREADS

The hyper-parameters are those of RL Baselines3 Zoo for CartPole-v1. It prints "trained", then
evaluates the policy and prints the mean return of 100 episodes.
"""

import importlib
import sys
from typing import Any

N_EPISODES = 100  # training stops at their mean return, as in the library's own log


def main(seed: int, threads: int) -> None:
    env_util = importlib.import_module("stable_baselines3.common.env_util")
    evaluation = importlib.import_module("stable_baselines3.common.evaluation")
    if threads:
        importlib.import_module("torch").set_num_threads(threads)
    model = ppo(env_util.make_vec_env("CartPole-v1", n_envs=8, seed=seed), seed)
    model.learn(100_000, callback=goes_on)
    print("trained", flush=True)
    env = env_util.make_vec_env("CartPole-v1", n_envs=8, seed=1_000_003)
    mean, _ = evaluation.evaluate_policy(model, env, n_eval_episodes=100, deterministic=True)
    print(f"{mean:.2f} after {model.num_timesteps} steps", flush=True)


def ppo(env: Any, seed: int) -> Any:
    """The model for eight environments."""
    return importlib.import_module("stable_baselines3").PPO(
        "MlpPolicy",
        env,
        n_steps=32,
        batch_size=256,
        n_epochs=20,
        gae_lambda=0.8,
        gamma=0.98,
        learning_rate=lambda left: 1e-3 * left,
        clip_range=lambda left: 0.2 * left,
        ent_coef=0.0,
        seed=seed,
        device="cpu",
    )


def goes_on(variables: dict[str, Any], _: Any) -> bool:
    """Called after every step; training continues while the last episodes returned too little."""
    if not variables["dones"].any():
        return True
    returns = [episode["r"] for episode in variables["self"].ep_info_buffer]
    return len(returns) < N_EPISODES or sum(returns) < 475 * N_EPISODES


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
