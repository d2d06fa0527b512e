"""The algorithm of `ppo.py`: rollouts, advantages, the loss, and the evaluation."""

from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from ppo_network import ActorCritic, Policy
from ppo_options import Options
from ppo_spaces import WRAPPERS

import envrax

EPISODES = 100  # of an evaluation
LONGEST = 5_000  # steps of an episode there: some environments have no time limit


class Transition(NamedTuple):
    """One step of every environment."""

    obs: Any
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    next_value: jax.Array  # of the observation that the step led to, before any reset
    reward: jax.Array
    terminated: jax.Array
    done: jax.Array
    mask: Any = None  # of the legal actions, in an environment that has one


class TrainState(NamedTuple):
    """Everything that changes during training."""

    params: Any
    opt_state: Any
    obs: Any
    env_state: Any
    rng: jax.Array


def advantages(rollout: Transition, gamma: float, gae_lambda: float) -> jax.Array:
    """
    Generalised advantage estimation over a rollout, whose leading axis is time.

    Where an episode was truncated, the return is bootstrapped from the critic's value of the last
    observation; where it was terminated, it is not. In both cases the next row is another episode.
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

    tasks: tuple[str, ...] = ("return",)  # reported separately; each has as many slots
    n_agents = 1  # in one environment; each is a slot
    n_episodes = EPISODES

    def __init__(self, options: Options) -> None:
        self.options = options
        self.reward_scale: Any = options.reward_scale
        self.env = self.make_env(options.n_envs)
        self.network = self.make_network()
        falling = optax.linear_schedule(options.learning_rate, 0.0, options.n_descents)
        clip = optax.clip_by_global_norm(options.max_grad_norm)
        # Parameters in one vector make a smaller program.
        self.optimiser = optax.flatten(optax.chain(clip, optax.adam(falling)))

    @cached_property
    def single_env(self) -> Any:
        """One environment, in the wrappers that the network needs."""
        return envrax.make(self.options.env, wrappers=WRAPPERS, jit_compile=False)

    def make_env(self, n_slots: int) -> Any:
        """Anything with the `reset`, `step`, `action_mask` and `config` of a `VecEnv`."""
        return envrax.VecEnv(self.single_env, n_slots, final_obs=True)

    def make_network(self) -> Any:
        return ActorCritic(self.env.single_action_space, self.options.hidden)

    def init(self, seed: int) -> TrainState:
        rng, env_rng, network_rng = jax.random.split(jax.random.key(seed), 3)
        obs, env_state = self.env.reset(env_rng)
        params = self.network.init(network_rng, jax.tree.map(lambda x: x[0], obs))
        return TrainState(params, self.optimiser.init(params), obs, env_state, rng)

    def forward(self, params: Any, obs: Any, mask: Any = None) -> tuple[Policy, jax.Array]:
        """The policy over the legal actions, and the value, of each slot."""
        return jax.vmap(self.network.apply, (None, 0, 0))(params, obs, mask)

    def choose(self, policy: Policy, rng: jax.Array) -> jax.Array:
        """Actions of the trained policy."""
        return policy.mode() if self.options.greedy else policy.sample(rng)

    def act(self, params: Any, obs: Any, mask: Any, rng: jax.Array) -> Any:
        """What the trained policy does in `single_env`."""
        return self.choose(self.network.apply(params, obs, mask)[0], rng)

    def train(self, state: TrainState) -> tuple[TrainState, Any]:
        """Some updates; for each, and for each task, the sum and number of finished returns."""
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
        mask = self.env.action_mask(env_state)
        policy, value = self.forward(params, obs, mask)
        action = policy.sample(rng)
        next_obs, env_state, reward, done, info = self.env.step(env_state, action)
        transition = Transition(
            obs=obs,
            action=action,
            log_prob=policy.log_prob(action),
            value=value,
            next_value=self.forward(params, info["final_obs"])[1],
            reward=self.learned_reward(reward),
            terminated=info.get("terminated", done),
            done=done,
            mask=mask,
        )
        return (next_obs, env_state), (transition, info["episode"])

    def learned_reward(self, reward: jax.Array) -> jax.Array:
        """What the advantages are made of; statistics count the environment's own reward."""
        return reward * self.reward_scale

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
        policy, value = self.forward(params, batch.obs, batch.mask)
        value_loss = jnp.mean(jnp.square(value - (batch.value + advantage)))
        advantage = (advantage - jnp.mean(advantage)) / (jnp.std(advantage) + 1e-8)
        ratio = jnp.exp(policy.log_prob(batch.action) - batch.log_prob)
        clipped = jnp.clip(ratio, 1 - o.clip, 1 + o.clip)
        policy_gain = jnp.mean(jnp.minimum(ratio * advantage, clipped * advantage))
        entropy = jnp.mean(policy.entropy())
        return o.value_weight * value_loss - policy_gain - o.entropy_weight * entropy

    def evaluate(self, params: Any, seed: int) -> jax.Array:
        """
        Returns of some episodes of each task and agent, without exploration if it is `greedy`.

        One episode in each slot, cut after 5,000 steps. The first to finish would be biased: short
        episodes finish first.
        """
        n_slots = self.n_episodes * len(self.tasks) * self.n_agents
        env = self.make_env(n_slots)
        obs, env_state = env.reset(jax.random.key(seed))
        rng = jax.random.key(seed + 1)
        longest = min(env.config.max_steps, LONGEST)

        def running(carry: Any) -> jax.Array:
            over, n_steps, *_ = carry
            return ~jnp.all(over) & (n_steps < longest)

        def step(carry: Any) -> Any:
            over, n_steps, returns, obs, env_state = carry
            policy, _ = self.forward(params, obs, env.action_mask(env_state))
            action = self.choose(policy, jax.random.fold_in(rng, n_steps))
            obs, env_state, reward, done, _ = env.step(env_state, action)
            returns += jnp.where(over, 0.0, reward)
            return over | done, n_steps + 1, returns, obs, env_state

        over, returns = jnp.zeros(n_slots, bool), jnp.zeros(n_slots, jnp.float32)
        return jax.lax.while_loop(running, step, (over, 0, returns, obs, env_state))[2]
