# pyright: reportMissingImports=false
"""
PPO in plain PyTorch, in one file, for `gymnasium.vector`: the same program for both libraries.

    python examples/cleanrl_ppo.py                                  CartPole of Gymnasium
    python examples/cleanrl_ppo.py --env-id classic/CartPole-v0     CartPole of envrax

An id with a slash is one of envrax; only `make` uses it. The loop needs a `VectorEnv` of Gymnasium
with `Discrete` actions and same-step auto-reset. Observations are flattened.
"""

import argparse
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor, nn
from torch.distributions import Categorical


@dataclass
class Options:
    """The command line; for CartPole with 8 environments by default."""

    env_id: str = "CartPole-v1"
    num_envs: int = 8
    num_steps: int = 32
    total_steps: int = 100_000
    epochs: int = 20
    minibatches: int = 1
    learning_rate: float = 1e-3
    clip: float = 0.2
    gamma: float = 0.98
    gae_lambda: float = 0.8
    entropy_weight: float = 0.0
    value_weight: float = 0.5
    max_grad_norm: float = 0.5
    seed: int = 0


@dataclass
class Log:  # number of updates; returns of the last 100 episodes
    updates: int = 0
    returns: deque[float] = field(default_factory=lambda: deque(maxlen=100))

    def mean_return(self) -> float:
        return float(np.mean(self.returns)) if self.returns else float("nan")


class Agent(nn.Module):
    def __init__(self, n_inputs: int, n_actions: int) -> None:
        super().__init__()
        self.policy = network(n_inputs, n_actions, last=0.01)
        self.critic = network(n_inputs, 1, last=1.0)

    def act(self, obs: Tensor) -> Categorical:
        return Categorical(logits=self.policy(obs))

    def value(self, obs: Tensor) -> Tensor:
        return self.critic(obs).squeeze(-1)


def network(n_inputs: int, n_outputs: int, last: float) -> nn.Sequential:
    layers = [nn.Linear(n_inputs, 64), nn.Linear(64, 64), nn.Linear(64, n_outputs)]
    for layer, gain in zip(layers, (2**0.5, 2**0.5, last), strict=True):
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])


def make(env_id: str, num_envs: int) -> VectorEnv[Any, Any, Any]:
    if "/" in env_id:
        import envrax
        from envrax.interop import to_gymnasium_vec

        return to_gymnasium_vec(envrax.make_vec(env_id, num_envs))
    kwargs = {"autoreset_mode": AutoresetMode.SAME_STEP}
    return gymnasium.make_vec(env_id, num_envs, vectorization_mode="sync", vector_kwargs=kwargs)


def tensor(observations: Any) -> Tensor:
    """Observations of several slots, one vector per slot."""
    stacked = np.stack(list(observations)).astype(np.float32)
    return torch.from_numpy(stacked.reshape(len(stacked), -1))


def last_values(agent: Agent, infos: dict[str, Any], cut: np.ndarray) -> Tensor:
    """The critic's value of the last observation where an episode was truncated; else 0."""
    values = torch.zeros(len(cut))
    if cut.any():
        values[torch.from_numpy(cut)] = agent.value(tensor(infos["final_obs"][cut]))
    return values


def advantages(
    rewards: Tensor, values: Tensor, next_values: Tensor, done: Tensor, o: Options
) -> Tensor:
    """Generalised advantage estimates; all of shape (time, slots)."""
    found, ahead = torch.zeros_like(rewards), torch.zeros(rewards.shape[1])
    surprise = rewards + o.gamma * next_values - values
    for t in reversed(range(len(rewards))):
        ahead = surprise[t] + o.gamma * o.gae_lambda * torch.where(done[t], 0.0, ahead)
        found[t] = ahead
    return found


def update(agent: Agent, optimizer: Any, batch: dict[str, Tensor], left: float, o: Options) -> None:
    """Several epochs over a batch of steps; `left` is the part of training that remains."""
    clip, size = o.clip * left, len(batch["obs"])
    for _ in range(o.epochs):
        for chosen in torch.randperm(size).chunk(o.minibatches):
            part = {name: x[chosen] for name, x in batch.items()}
            policy, gain = agent.act(part["obs"]), part["advantage"]
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            ratio = (policy.log_prob(part["action"]) - part["log_prob"]).exp()
            kept = torch.minimum(ratio * gain, ratio.clamp(1 - clip, 1 + clip) * gain)
            error = (agent.value(part["obs"]) - part["target"]).square().mean()
            loss = o.value_weight * error - kept.mean() - o.entropy_weight * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), o.max_grad_norm)
            optimizer.step()


def train(envs: VectorEnv[Any, Any, Any], o: Options) -> tuple[Agent, Log]:
    """Train on any vector environment that resets in the step that ends an episode."""
    if envs.metadata.get("autoreset_mode") != AutoresetMode.SAME_STEP:
        raise ValueError(f"train: expected same-step auto-reset; got {envs.metadata}.")
    if not isinstance(envs.single_action_space, gymnasium.spaces.Discrete):
        raise TypeError(f"train: expected Discrete actions; got {envs.single_action_space}.")
    torch.manual_seed(o.seed)
    first, _ = envs.reset(seed=o.seed)
    obs, log, sums = tensor(first), Log(), np.zeros(envs.num_envs)
    agent = Agent(obs.shape[1], int(envs.single_action_space.n))
    optimizer = torch.optim.Adam(agent.parameters(), lr=o.learning_rate, eps=1e-5)
    n_updates = max(1, o.total_steps // (o.num_steps * envs.num_envs))
    for log.updates in range(1, n_updates + 1):
        left = 1 - (log.updates - 1) / n_updates
        optimizer.param_groups[0]["lr"] = o.learning_rate * left
        steps: list[dict[str, Tensor]] = []
        for _ in range(o.num_steps):
            with torch.no_grad():
                policy = agent.act(obs)
                action = policy.sample()
                seen, reward, terminated, truncated, infos = envs.step(action.numpy())
                done = terminated | truncated
                steps.append(
                    {
                        "obs": obs,
                        "action": action,
                        "log_prob": policy.log_prob(action),
                        "value": agent.value(obs),
                        "reward": torch.as_tensor(reward, dtype=torch.float32),
                        "done": torch.as_tensor(done),
                        "last": last_values(agent, infos, truncated & ~terminated),
                    }
                )
            sums += reward
            log.returns.extend(sums[done].tolist())
            sums[done] = 0.0
            obs = tensor(seen)
        batch = {name: torch.stack([step[name] for step in steps]) for name in steps[0]}
        with torch.no_grad():
            ahead = torch.cat([batch["value"][1:], agent.value(obs)[None]])
        ahead = torch.where(batch["done"], batch["last"], ahead)
        gain = advantages(batch["reward"], batch["value"], ahead, batch["done"], o)
        batch |= {"advantage": gain, "target": gain + batch["value"]}
        update(agent, optimizer, {name: x.flatten(0, 1) for name, x in batch.items()}, left, o)
        if log.updates % max(1, n_updates // 20) == 0:
            n_steps = log.updates * o.num_steps * envs.num_envs
            print(f"{n_steps:>8} steps, mean return {log.mean_return():.1f}", flush=True)
    return agent, log


def main() -> None:
    parser = argparse.ArgumentParser(description="PPO on one environment.")
    for name, value in vars(Options()).items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(value), default=value)
    options = Options(**vars(parser.parse_args()))
    torch.set_num_threads(1)  # more threads slow down small networks
    begin, envs = time.perf_counter(), make(options.env_id, options.num_envs)
    _, log = train(envs, options)
    envs.close()
    print(f"{options.env_id}: {log.mean_return():.1f} after {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
