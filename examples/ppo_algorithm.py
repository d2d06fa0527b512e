"""The algorithm of `ppo.py`: rollouts, advantages, the loss, and the evaluation."""

from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from ppo_network import ActorCritic, Policy
from ppo_options import Options
from ppo_spaces import Features, choosable
from ppo_views import VIEWS

import envrax

EPISODES = 100  # of an evaluation
LONGEST = 5_000  # steps of an episode there: some environments have no time limit


class Choice(NamedTuple):
    """What the policy tells of an action, in every slot: the extras of a rollout."""

    log_prob: jax.Array
    value: jax.Array
    mask: Any  # of the legal actions, in an environment that has one


class TrainState(NamedTuple):
    """Everything that changes during training."""

    params: Any
    opt_state: Any
    at: envrax.Rollout


def advantages(
    steps: envrax.Transition, next_value: jax.Array, gamma: float, gae_lambda: float
) -> jax.Array:
    """
    Generalised advantage estimation over a rollout, whose leading axis is time.

    `next_value` is that of the observation that each step made. Where an episode was truncated, the
    return is bootstrapped from it; where it was terminated, it is not. In both cases the next row
    is another episode.
    """
    bootstrap = jnp.where(steps.terminated, 0.0, next_value)
    surprise = steps.reward + gamma * bootstrap - steps.extras.value

    def back(later: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        surprise, done = step
        advantage = surprise + gamma * gae_lambda * jnp.where(done, 0.0, later)
        return advantage, advantage

    end = jnp.zeros_like(surprise[0])
    return jax.lax.scan(back, end, (surprise, steps.done), reverse=True)[1]


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
        id = self.options.env
        # Innermost first: the statistics are those of the original rewards.
        wrappers = [envrax.RecordEpisodeStatistics, *VIEWS.get(id, []), Features, choosable]
        return envrax.make(id, wrappers=wrappers, jit_compile=False)

    def make_env(self, n_slots: int) -> Any:
        """A `BatchedEnv` with `info["episode"]`, the statistics of its episodes."""
        return envrax.VecEnv(self.single_env, n_slots)

    def make_network(self) -> Any:
        return ActorCritic(self.env.single_action_space, self.options.hidden)

    def init(self, seed: int) -> TrainState:
        rng, network_rng = jax.random.split(jax.random.key(seed))
        at = envrax.start(self.env, rng)
        params = self.network.init(network_rng, jax.tree.map(lambda x: x[0], at.obs))
        return TrainState(params, self.optimiser.init(params), at)

    def forward(self, params: Any, obs: Any, mask: Any = None) -> tuple[Policy, jax.Array]:
        """The policy over the legal actions, and the value, of each slot."""
        return jax.vmap(self.network.apply, (None, 0, 0))(params, obs, mask)

    def values(self, params: Any, obs: Any) -> jax.Array:
        """Values of the observations of a rollout, whose leading axis is time."""
        return jax.vmap(partial(self.forward, params))(obs)[1]

    def explore(self, params: Any, _: Any, obs: Any, rng: jax.Array, mask: Any) -> Any:
        """The policy of `envrax.rollout`: a drawn action, and what the loss needs of it."""
        policy, value = self.forward(params, obs, mask)
        action = policy.sample(rng)
        return action, None, Choice(policy.log_prob(action), value, mask)

    def exploit(self, params: Any, _: Any, obs: Any, rng: jax.Array, mask: Any) -> Any:
        """The policy of `envrax.evaluate`."""
        return self.choose(self.forward(params, obs, mask)[0], rng), None, None

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
        explore = partial(self.explore, state.params)
        at, steps = envrax.rollout(self.env, explore, state.at, self.options.n_steps)
        rng, shuffle_rng = jax.random.split(at.rng)
        params, opt_state = self.improve(state.params, state.opt_state, steps, shuffle_rng)
        episode = steps.info["episode"]
        ended = jnp.stack([episode["r"], (episode["l"] > 0).astype(jnp.float32)])
        by_task = ended.reshape(2, self.options.n_steps, len(self.tasks), -1)
        state = TrainState(params, opt_state, at._replace(rng=rng))
        return state, jnp.sum(by_task, axis=(1, 3))

    def learned_reward(self, reward: jax.Array) -> jax.Array:
        """What the advantages are made of; statistics count the environment's own reward."""
        return reward * self.reward_scale

    def improve(self, params: Any, opt_state: Any, steps: envrax.Transition, rng: jax.Array) -> Any:
        """A few epochs of gradient descent over a rollout, in shuffled minibatches."""
        o = self.options
        next_value = self.values(params, steps.next_obs)
        steps = steps._replace(reward=self.learned_reward(steps.reward))
        advantage = advantages(steps, next_value, o.gamma, o.gae_lambda)
        rows = steps.obs, steps.action, steps.extras, advantage
        samples = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rows)
        in_order = jnp.tile(jnp.arange(advantage.size), (o.epochs, 1))
        shuffled = jax.random.permutation(rng, in_order, axis=1, independent=True)

        def descend(carry: Any, rows: jax.Array) -> tuple[Any, None]:
            params, opt_state = carry
            minibatch = jax.tree.map(lambda x: x[rows], samples)
            change, opt_state = self.optimiser.update(self.gradient(params, *minibatch), opt_state)
            return (optax.apply_updates(params, change), opt_state), None

        minibatches = shuffled.reshape(o.epochs * o.minibatches, -1)
        return jax.lax.scan(descend, (params, opt_state), minibatches)[0]

    def gradient(self, params: Any, *minibatch: Any) -> Any:
        return jax.grad(self.loss)(params, *minibatch)

    def loss(
        self, params: Any, obs: Any, action: jax.Array, then: Choice, advantage: jax.Array
    ) -> jax.Array:
        o = self.options
        policy, value = self.forward(params, obs, then.mask)
        value_loss = jnp.mean(jnp.square(value - (then.value + advantage)))
        advantage = (advantage - jnp.mean(advantage)) / (jnp.std(advantage) + 1e-8)
        ratio = jnp.exp(policy.log_prob(action) - then.log_prob)
        clipped = jnp.clip(ratio, 1 - o.clip, 1 + o.clip)
        policy_gain = jnp.mean(jnp.minimum(ratio * advantage, clipped * advantage))
        entropy = jnp.mean(policy.entropy())
        return o.value_weight * value_loss - policy_gain - o.entropy_weight * entropy

    def evaluate(self, params: Any, seed: int) -> jax.Array:
        """
        Returns of some episodes of each task and agent, without exploration if it is `greedy`.

        One episode in each slot, cut after 5,000 steps.
        """
        n_slots = self.n_episodes * len(self.tasks) * self.n_agents
        env, policy = self.make_env(n_slots), partial(self.exploit, params)
        found = envrax.evaluate(env, policy, jax.random.key(seed), n_slots, max_steps=LONGEST)
        return found.returns
