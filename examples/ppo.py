"""
PPO on any environment that is registered with envrax, in pure JAX.

    python examples/ppo.py                                     CartPole, in seconds
    python examples/ppo.py classic/Pendulum-v0 --seed 1
    python examples/ppo.py their/Env-v0 --import their_package --total-steps 2000000

Rollouts and updates are one compiled program, `PPO.train`; Python calls it twenty times and draws
the progress bar. Beside this file: `ppo_options.py` has the hyper-parameters, `ppo_network.py` the
policy and its network, `ppo_report.py` the picture and the video, and `multi_task.py` trains one
policy on several environments.
"""
# ruff: noqa: E402

import time

START = time.perf_counter()  # before the imports, which are part of the wait

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from ppo_network import ActorCritic, Policy, wrappers_for
from ppo_options import Options, parse
from tqdm import tqdm

import envrax

EPISODES, EVALUATION_SEED = 100, 1_000_003  # the same hundred starts before and after training


class Transition(NamedTuple):
    """One step of every environment."""

    obs: jax.Array
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    next_value: jax.Array  # of the observation that the step led to, before any reset
    reward: jax.Array
    terminated: jax.Array
    done: jax.Array


class TrainState(NamedTuple):
    """All that changes during training."""

    params: Any
    opt_state: Any
    obs: jax.Array
    env_state: Any
    rng: jax.Array


def advantages(rollout: Transition, gamma: float, gae_lambda: float) -> jax.Array:
    """
    Generalised advantage estimation over a rollout, whose leading axis is time.

    Time running out is no death: the return of a truncated episode goes on, as the critic sees it,
    and that of a terminated one is over. After either, the next row is another episode.
    """
    bootstrap = jnp.where(rollout.terminated, 0.0, rollout.next_value)
    surprise = rollout.reward + gamma * bootstrap - rollout.value

    def back(later: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        surprise, done = step
        advantage = surprise + gamma * gae_lambda * jnp.where(done, 0.0, later)
        return advantage, advantage

    end = jnp.zeros_like(surprise[0])
    return jax.lax.scan(back, end, (surprise, rollout.done), reverse=True)[1]


class PPO:
    """The algorithm: `init`, `train` and `evaluate` are pure functions, to be compiled."""

    tasks: tuple[str, ...] = ("return",)  # what is reported; each has an equal share of the slots

    def __init__(self, options: Options) -> None:
        self.options = options
        self.reward_scale: Any = options.reward_scale
        self.env = self.make_env(options.n_envs)
        self.network = self.make_network()
        falling = optax.linear_schedule(options.learning_rate, 0.0, options.n_descents)
        clip = optax.clip_by_global_norm(options.max_grad_norm)
        # As one long vector the parameters make a smaller program.
        self.optimiser = optax.flatten(optax.chain(clip, optax.adam(falling)))

    def make_env(self, n_slots: int) -> Any:
        """What to train on: anything with the `reset`, `step` and `config` of a `VecEnv`."""
        o = self.options
        wrappers = wrappers_for(o.env)
        return envrax.make_vec(o.env, n_slots, wrappers=wrappers, final_obs=True, pre_warm=False)

    def make_network(self) -> Any:
        return ActorCritic(self.env.single_action_space, self.options.hidden)

    def init(self, seed: int) -> TrainState:
        rng, env_rng, network_rng = jax.random.split(jax.random.key(seed), 3)
        obs, env_state = self.env.reset(env_rng)
        params = self.network.init(network_rng, jax.tree.map(lambda x: x[0], obs))
        return TrainState(params, self.optimiser.init(params), obs, env_state, rng)

    def forward(self, params: Any, obs: jax.Array) -> tuple[Policy, jax.Array]:
        """What to do, and what to expect, in each of many slots."""
        return jax.vmap(self.network.apply, (None, 0))(params, obs)

    def train(self, state: TrainState) -> tuple[TrainState, Any]:
        """A few updates, and for each and each task the sum and number of returns that came in."""
        return jax.lax.scan(self.update, state, length=self.options.updates_per_call)

    def update(self, state: TrainState, _: None) -> tuple[TrainState, Any]:
        rng, action_rng, shuffle_rng = jax.random.split(state.rng, 3)
        (obs, env_state), (rollout, episode) = jax.lax.scan(
            partial(self.step, state.params),
            (state.obs, state.env_state),
            jax.random.split(action_rng, self.options.n_steps),
        )
        params, opt_state = self.improve(state.params, state.opt_state, rollout, shuffle_rng)
        ended = jnp.stack([episode["r"], (episode["l"] > 0).astype(jnp.float32)])
        by_task = ended.reshape(2, self.options.n_steps, len(self.tasks), -1)
        return TrainState(params, opt_state, obs, env_state, rng), jnp.sum(by_task, axis=(1, 3))

    def step(self, params: Any, carry: Any, rng: jax.Array) -> tuple[Any, Any]:
        obs, env_state = carry
        policy, value = self.forward(params, obs)
        action = policy.sample(rng)
        next_obs, env_state, reward, done, info = self.env.step(env_state, action)
        transition = Transition(
            obs=obs,
            action=action,
            log_prob=policy.log_prob(action),
            value=value,
            next_value=self.forward(params, info["final_obs"])[1],
            reward=reward * self.reward_scale,
            terminated=info.get("terminated", done),
            done=done,
        )
        return (next_obs, env_state), (transition, info["episode"])

    def improve(self, params: Any, opt_state: Any, rollout: Transition, rng: jax.Array) -> Any:
        """A few epochs of gradient descent over a rollout, in shuffled minibatches."""
        o = self.options
        advantage = advantages(rollout, o.gamma, o.gae_lambda)
        samples = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (rollout, advantage))
        in_order = jnp.tile(jnp.arange(o.batch_size), (o.epochs, 1))
        shuffled = jax.random.permutation(rng, in_order, axis=1, independent=True)

        def descend(carry: Any, rows: jax.Array) -> tuple[Any, None]:
            params, opt_state = carry
            minibatch = jax.tree.map(lambda x: x[rows], samples)
            gradient = jax.grad(self.loss)(params, *minibatch)
            change, opt_state = self.optimiser.update(gradient, opt_state)
            return (optax.apply_updates(params, change), opt_state), None

        minibatches = shuffled.reshape(o.epochs * o.minibatches, -1)
        return jax.lax.scan(descend, (params, opt_state), minibatches)[0]

    def loss(self, params: Any, batch: Transition, advantage: jax.Array) -> jax.Array:
        o = self.options
        policy, value = self.forward(params, batch.obs)
        value_loss = jnp.mean(jnp.square(value - (batch.value + advantage)))
        advantage = (advantage - jnp.mean(advantage)) / (jnp.std(advantage) + 1e-8)
        ratio = jnp.exp(policy.log_prob(batch.action) - batch.log_prob)
        clipped = jnp.clip(ratio, 1 - o.clip, 1 + o.clip)
        policy_gain = jnp.mean(jnp.minimum(ratio * advantage, clipped * advantage))
        entropy = jnp.mean(policy.entropy())
        return o.value_weight * value_loss - policy_gain - o.entropy_weight * entropy

    def evaluate(self, params: Any, seed: int) -> jax.Array:
        """
        Returns of the first 100 episodes of each task started, without exploration.

        One episode in each slot, however long: the first 100 to finish would be the short ones.
        """
        n_slots = EPISODES * len(self.tasks)
        env = self.make_env(n_slots)
        obs, env_state = env.reset(jax.random.key(seed))

        def running(carry: Any) -> jax.Array:
            over, n_steps, *_ = carry
            return ~jnp.all(over) & (n_steps < env.config.max_steps)

        def step(carry: Any) -> Any:
            over, n_steps, returns, obs, env_state = carry
            action = self.forward(params, obs)[0].mode()
            obs, env_state, reward, done, _ = env.step(env_state, action)
            returns += jnp.where(over, 0.0, reward)
            return over | done, n_steps + 1, returns, obs, env_state

        over, returns = jnp.zeros(n_slots, bool), jnp.zeros(n_slots, jnp.float32)
        return jax.lax.while_loop(running, step, (over, 0, returns, obs, env_state))[2]


def compiled(ppo: PPO) -> list[Any]:
    """`init`, `train` and `evaluate`, all compiled at the same time, to keep every core busy."""
    state = jax.eval_shape(ppo.init, 0)
    traced = [
        jax.jit(ppo.init).lower(0),
        jax.jit(ppo.train, donate_argnums=0).lower(state),
        jax.jit(ppo.evaluate).lower(state.params, 0),
    ]
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda program: program.compile(), traced))


class Result(NamedTuple):
    """The trained network, each task's learning curve as steps and returns, both evaluations."""

    params: Any
    curves: list[tuple[np.ndarray, np.ndarray]]
    before: np.ndarray
    after: np.ndarray


def run(ppo: PPO) -> Result:
    """Train and evaluate, with a progress bar."""
    o, history, postfix = ppo.options, list[np.ndarray](), dict.fromkeys(ppo.tasks, "?")
    init, train, evaluate = compiled(ppo)
    state = init(o.seed)
    before = np.asarray(evaluate(state.params, EVALUATION_SEED))
    steps_per_call = o.updates_per_call * o.batch_size
    with tqdm(total=o.n_calls * steps_per_call, unit=" steps", unit_scale=True) as bar:
        for _ in range(o.n_calls):
            state, ended = train(state)
            history.append(np.asarray(ended))
            for task, total, episodes in zip(ppo.tasks, *history[-1].sum(axis=0), strict=True):
                if episodes:
                    postfix[task] = f"{total / episodes:.4g}"
            bar.set_postfix(postfix, refresh=False)
            bar.update(steps_per_call)
    after = np.asarray(evaluate(state.params, EVALUATION_SEED))
    steps = np.arange(1, o.n_calls * o.updates_per_call + 1) * o.batch_size
    by_task = np.concatenate(history).transpose(2, 1, 0)
    curves = [(steps[n > 0], total[n > 0] / n[n > 0]) for total, n in by_task]
    return Result(state.params, curves, before, after)


def main(arguments: Sequence[str] | None = None) -> None:
    options, video = parse(arguments)
    folder = Path("runs") / f"{options.env}-{options.seed}"
    print(f"PPO on {options.env}, seed {options.seed}: compiling")
    ppo = PPO(options)
    result = run(ppo)
    for name, returns in (("before", result.before), ("after", result.after)):
        score = f"{returns.mean():.2f} ± {returns.std():.2f}"
        print(f"{name:>6}: {score} over the first {EPISODES} episodes started")

    from ppo_report import save_curve, save_video  # matplotlib takes its time

    title, (curve,) = f"PPO on {options.env}", result.curves
    save_curve(folder / "curve.png", title, curve, result.before, result.after)
    print(f"{time.perf_counter() - START:.1f} s of wall time, imports and compilation included")
    if video:
        act = jax.jit(lambda obs: ppo.network.apply(result.params, obs)[0].mode())
        save_video(
            folder, options.env, wrappers_for(options.env), act, options.fps, EVALUATION_SEED
        )
    print(f"see {folder}")


if __name__ == "__main__":
    main()
