# pyright: reportMissingImports=false
"""
What the trainers of others reach on CartPole of envrax, and on Gymnasium's, with equal settings.

Each of `torchrl`, `skrl`, `sbx`, `tianshou`, `rllib` and `agilerl` trains PPO for `STEPS` steps in
`N` slots. The number is the mean return of the last 100 episodes of training, and the mean over
seeds.
"""

import importlib
import os
import statistics
from collections.abc import Callable
from typing import Any

from benchmarks.measure import Values

N = 8
STEPS = 40_960
SEEDS = (0,)
OURS = "envrax/classic.CartPole-v0"
THEIRS = "CartPole-v1"
PPO = {"gamma": 0.98, "gae_lambda": 0.8, "clip": 0.2, "epochs": 10, "rows": 32, "rate": 1e-3}

Train = Callable[[str, int], list[float]]  # from an id and a seed to the returns of all episodes


def torchrl() -> list[Values]:
    """TorchRL's collector, GAE and loss, with resets that it does itself."""
    return _compare("TorchRL", _torchrl)


def skrl() -> list[Values]:
    """skrl, with the mixin of docs/trainers/others.md."""
    return _compare("skrl", _skrl)


def sbx() -> list[Values]:
    """sbx, by `to_sb3`."""
    return _compare("sbx", _sbx)


def tianshou() -> list[Values]:
    """Tianshou, which takes single environments."""
    return _compare("Tianshou", _tianshou)


def rllib() -> list[Values]:
    """RLlib, with next-step resets."""
    return _compare("RLlib", _rllib)


def agilerl() -> list[Values]:
    """AgileRL, one agent without evolution."""
    return _compare("AgileRL", _agilerl)


def _compare(trainer: str, train: Train) -> list[Values]:
    importlib.import_module("torch").set_num_threads(1)
    importlib.import_module("envrax.interop.gymnasium_registration").register("classic")
    columns: dict[str, float] = {}
    for name, id in {"envrax": OURS, "Gymnasium": THEIRS}.items():
        means: list[float] = []
        for seed in SEEDS:
            means.append(statistics.mean(train(id, seed)[-100:]))
            print(f"{trainer}, {name}, seed {seed}: {means[-1]:.1f}", flush=True)
        columns[name] = statistics.mean(means)
    return [Values(f"PPO on CartPole, {STEPS} steps", {trainer: columns})]


def _counted(id: str, mode: str) -> Any:
    """A vector environment that keeps the returns of its episodes."""
    import gymnasium
    import numpy as np

    class Counted(gymnasium.vector.VectorWrapper):
        def __init__(self, envs: Any) -> None:
            super().__init__(envs)
            self.returns: list[float] = []
            self.sums = np.zeros(N)
            self.autoreset_mode = envs.autoreset_mode  # TorchRL reads it

        def step(self, actions: Any) -> Any:
            result = self.env.step(actions)
            _, rewards, terminated, truncated, _ = result
            self.sums += rewards
            ended = terminated | truncated
            self.returns += self.sums[ended].tolist()
            self.sums[ended] = 0
            return result

    if id == OURS:
        return Counted(gymnasium.make_vec(id, N, autoreset_mode=mode))
    kwargs = {"autoreset_mode": mode}
    return Counted(gymnasium.make_vec(id, N, "sync", kwargs))


def _torchrl(id: str, seed: int) -> list[float]:
    import torch
    from tensordict.nn import TensorDictModule
    from torchrl.collectors import Collector
    from torchrl.envs import GymWrapper
    from torchrl.modules import MLP, OneHotCategorical, ProbabilisticActor, ValueOperator
    from torchrl.objectives import ClipPPOLoss
    from torchrl.objectives.value import GAE

    torch.manual_seed(seed)
    envs = _counted(id, "Disabled")
    env = GymWrapper(envs)
    env.set_seed(seed)
    shape = {"num_cells": [64, 64], "activation_class": torch.nn.Tanh}
    logits = TensorDictModule(MLP(4, 2, **shape), ["observation"], ["logits"])
    actor = ProbabilisticActor(
        logits,
        ["logits"],
        spec=env.action_spec,
        distribution_class=OneHotCategorical,
        return_log_prob=True,
    )
    critic = ValueOperator(MLP(4, 1, **shape))
    advantages = GAE(gamma=PPO["gamma"], lmbda=PPO["gae_lambda"], value_network=critic)
    loss = ClipPPOLoss(actor, critic, clip_epsilon=PPO["clip"], entropy_coeff=0.0)
    optimizer = torch.optim.Adam(loss.parameters(), PPO["rate"])
    for data in Collector(env, actor, frames_per_batch=N * PPO["rows"], total_frames=STEPS):
        for _ in range(PPO["epochs"]):
            advantages(data)
            found = loss(data.reshape(-1))
            sum(x for name, x in found.items() if name.startswith("loss_")).backward()
            torch.nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad()
    return envs.returns


def _skrl(id: str, seed: int) -> list[float]:
    import torch
    from skrl.agents.torch.ppo import PPO as Agent
    from skrl.envs.wrappers.torch import wrap_env
    from skrl.memories.torch import RandomMemory
    from skrl.trainers.torch import SequentialTrainer
    from skrl.utils import set_seed
    from skrl.utils.model_instantiators.torch import categorical_model, deterministic_model

    class FinalObs:
        def record_transition(self, *, next_observations: Any, infos: Any, **rest: Any) -> None:
            next_observations = next_observations.clone()
            for slot, last in enumerate(infos.get("final_obs", ())):
                if last is not None:
                    next_observations[slot] = torch.from_numpy(last)
            super().record_transition(next_observations=next_observations, infos=infos, **rest)

    set_seed(seed)
    envs = _counted(id, "SameStep")
    env = wrap_env(envs)
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    layers = {"name": "net", "input": "OBSERVATIONS", "layers": [64, 64], "activations": "tanh"}
    models = {
        "policy": categorical_model(**spaces, network=[layers], output="ACTIONS"),
        "value": deterministic_model(**spaces, network=[layers], output="ONE"),
    }
    settings = {
        "rollouts": PPO["rows"],
        "learning_epochs": PPO["epochs"],
        "mini_batches": 1,
        "discount_factor": PPO["gamma"],
        "gae_lambda": PPO["gae_lambda"],
        "ratio_clip": PPO["clip"],
        "learning_rate": PPO["rate"],
        "time_limit_bootstrap": True,
        "experiment": {"write_interval": 0, "checkpoint_interval": 0},
    }
    memory = RandomMemory(memory_size=PPO["rows"], num_envs=N)
    agent = type("Agent", (FinalObs, Agent), {})(
        models=models, memory=memory, cfg=settings, **spaces
    )
    loop = {"timesteps": STEPS // N, "headless": True, "disable_progressbar": True}
    SequentialTrainer(env=env, agents=agent, cfg=loop).train()
    return envs.returns


def _sbx(id: str, seed: int) -> list[float]:
    from sbx import PPO as Agent
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecMonitor

    import envrax
    from envrax.interop import to_sb3

    batch = to_sb3(envrax.make_vec("classic/CartPole-v0", N)) if id == OURS else None
    agent = Agent(
        "MlpPolicy",
        make_vec_env(id, N) if batch is None else VecMonitor(batch),
        n_steps=PPO["rows"],
        batch_size=256,
        n_epochs=PPO["epochs"],
        gamma=PPO["gamma"],
        gae_lambda=PPO["gae_lambda"],
        learning_rate=PPO["rate"],
        seed=seed,
    )
    agent.learn(STEPS)
    return [episode["r"] for episode in agent.ep_info_buffer]


def _tianshou(id: str, seed: int) -> list[float]:
    import gymnasium
    import torch
    from tianshou.algorithm import PPO as Agent
    from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Collector, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv
    from tianshou.trainer import OnPolicyTrainerParams
    from tianshou.utils.net.common import Net
    from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic
    from torch.distributions import Categorical

    torch.manual_seed(seed)
    made = [gymnasium.make(id) for _ in range(N)]
    kept = [gymnasium.wrappers.RecordEpisodeStatistics(env, buffer_length=100) for env in made]
    envs = DummyVectorEnv([lambda env=env: env for env in kept])
    network = Net(state_shape=(4,), hidden_sizes=(64, 64), activation=torch.nn.Tanh)
    actor = DiscreteActor(preprocess_net=network, action_shape=2, softmax_output=True)
    policy = DiscreteActorPolicy(
        actor=actor, dist_fn=Categorical, action_space=kept[0].action_space
    )
    agent = Agent(
        policy=policy,
        critic=DiscreteCritic(preprocess_net=network),
        optim=AdamOptimizerFactory(lr=PPO["rate"]),
        gamma=PPO["gamma"],
        gae_lambda=PPO["gae_lambda"],
        eps_clip=PPO["clip"],
    )
    rows = N * PPO["rows"]
    collector = Collector(agent, envs, VectorReplayBuffer(rows, N))
    collector.reset(gym_reset_kwargs={"seed": seed})
    agent.run_training(
        OnPolicyTrainerParams(
            training_collector=collector,
            test_collector=None,
            max_epochs=1,
            epoch_num_steps=STEPS,
            collection_step_num_env_steps=rows,
            batch_size=256,
            update_step_num_repetitions=PPO["epochs"],
            show_progress=False,
        )
    )
    return [x for env in kept for x in list(env.return_queue)[-100 // N :]]


def _rllib(id: str, seed: int) -> list[float]:
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    from ray.rllib.algorithms.ppo import PPOConfig

    config = (
        PPOConfig()
        .environment(id, env_config={"autoreset_mode": "NextStep"} if id == OURS else {})
        .env_runners(
            num_env_runners=0,
            num_envs_per_env_runner=N,
            gym_env_vectorize_mode="vector_entry_point" if id == OURS else "sync",
        )
        .training(
            gamma=PPO["gamma"],
            lambda_=PPO["gae_lambda"],
            clip_param=PPO["clip"],
            lr=PPO["rate"],
            train_batch_size_per_learner=2048,
            minibatch_size=256,
            num_epochs=PPO["epochs"],
        )
        .debugging(seed=seed)
    )
    algorithm = config.build_algo()
    for _ in range(STEPS // 2048):
        found = algorithm.train()
    algorithm.stop()
    return [found["env_runners"]["episode_return_mean"]]  # of the last 100 episodes


def _agilerl(id: str, seed: int) -> list[float]:
    import torch
    from agilerl.algorithms import PPO as Agent
    from agilerl.rollouts.on_policy import collect_rollouts

    torch.manual_seed(seed)
    envs = _counted(id, "SameStep")
    agent = Agent(
        envs.single_observation_space,
        envs.single_action_space,
        num_envs=N,
        learn_step=N * PPO["rows"],
        batch_size=256,
        lr=PPO["rate"],
        gamma=PPO["gamma"],
        gae_lambda=PPO["gae_lambda"],
        clip_coef=PPO["clip"],
        update_epochs=PPO["epochs"],
    )
    agent.set_training_mode(True)
    envs.reset(seed=seed)
    last: dict[str, Any] = {}
    for _ in range(STEPS // (N * PPO["rows"])):
        _, *found = collect_rollouts(agent, envs, **last)
        last = dict(zip(("last_obs", "last_done", "last_scores", "last_info"), found, strict=True))
        agent.learn()
    return envs.returns
