"""
A PPO like that of PureJaxRL, with the six edits that put it on a `VecEnv`.

    python examples/purejaxrl.py        two seeds at once learn CartPole

Each edit has its number in a comment; docs/coming-from/purejaxrl.md shows the lines before it.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

import envrax

NUM_ENVS, NUM_STEPS, NUM_UPDATES, EPOCHS, MINIBATCHES = 16, 128, 40, 4, 4
GAMMA, GAE_LAMBDA = 0.99, 0.95

# edit 1: the environment
wrappers = [envrax.FlattenObservation, envrax.RecordEpisodeStatistics]
env = envrax.make_vec(
    "classic/CartPole-v0", NUM_ENVS, wrappers=wrappers, final_obs=True, pre_warm=False
)


class ActorCritic(nn.Module):
    action_dim: int

    @nn.compact
    def __call__(self, x):
        actor, critic = (nn.tanh(nn.Dense(64)(x)) for _ in range(2))
        return jax.nn.log_softmax(nn.Dense(self.action_dim)(actor)), nn.Dense(1)(critic)[..., 0]


# edit 2: the sizes of the network
network = ActorCritic(env.single_action_space.n)
tx = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(2.5e-3))


def log_prob_of(log_probs, action):
    return jnp.take_along_axis(log_probs, action[..., None], axis=-1)[..., 0]


def env_step(runner_state, rng):
    params, env_state, last_obs = runner_state
    log_probs, value = network.apply(params, last_obs)
    action = jax.random.categorical(rng, log_probs)
    # edit 4: step
    obsv, env_state, reward, done, info = env.step(env_state, action)
    log_prob = log_prob_of(log_probs, action)
    transition = dict(
        done=done, action=action, value=value, reward=reward, log_prob=log_prob, obs=last_obs
    )
    return (params, env_state, obsv), (transition, info)


# edit 5: the advantage
def gae_step(gae, step):
    transition, next_value, terminated = step
    done, value, reward = transition["done"], transition["value"], transition["reward"]
    delta = reward + GAMMA * next_value * (1 - terminated) - value
    gae = delta + GAMMA * GAE_LAMBDA * (1 - done) * gae
    return gae, gae


def loss_fn(params, batch):
    log_probs, value = network.apply(params, batch["obs"])
    gae = (batch["gae"] - batch["gae"].mean()) / (batch["gae"].std() + 1e-8)
    ratio = jnp.exp(log_prob_of(log_probs, batch["action"]) - batch["log_prob"])
    actor_loss = -jnp.minimum(ratio * gae, jnp.clip(ratio, 0.8, 1.2) * gae).mean()
    value_loss = jnp.square(value - batch["value"] - batch["gae"]).mean()
    entropy = -(jnp.exp(log_probs) * log_probs).sum(axis=-1).mean()
    return actor_loss + 0.5 * value_loss - 0.01 * entropy


def update_minibatch(carry, batch):
    params, opt_state = carry
    updates, opt_state = tx.update(jax.grad(loss_fn)(params, batch), opt_state)
    return (optax.apply_updates(params, updates), opt_state), None


def update_step(carry, rng):
    runner_state, opt_state = carry
    rng, shuffle_rng = jax.random.split(rng)
    rngs = jax.random.split(rng, NUM_STEPS)
    (params, env_state, last_obs), (traj, info) = jax.lax.scan(env_step, runner_state, rngs)

    # edit 5
    _, next_values = network.apply(params, info["final_obs"])
    steps = traj, next_values, info["terminated"]
    _, gae = jax.lax.scan(gae_step, jnp.zeros(NUM_ENVS), steps, reverse=True)

    orders = jnp.tile(jnp.arange(gae.size), (EPOCHS, 1))
    orders = jax.random.permutation(shuffle_rng, orders, axis=1, independent=True)
    rows = orders.reshape(EPOCHS * MINIBATCHES, -1)
    batch = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[rows], traj | dict(gae=gae))
    (params, opt_state), _ = jax.lax.scan(update_minibatch, (params, opt_state), batch)

    # edit 6: the return
    ended, returns = info["episode"]["l"] > 0, info["episode"]["r"]
    mean_return = jnp.where(ended, returns, 0.0).sum() / ended.sum()
    return ((params, env_state, last_obs), opt_state), mean_return


def train(rng):
    rng, init_rng, reset_rng = jax.random.split(rng, 3)
    # edit 2
    params = network.init(init_rng, jnp.zeros(env.single_observation_space.shape))
    # edit 3: reset
    obsv, env_state = env.reset(reset_rng)
    carry = (params, env_state, obsv), tx.init(params)
    return jax.lax.scan(update_step, carry, jax.random.split(rng, NUM_UPDATES))[1]


def main() -> None:
    returns = jax.jit(jax.vmap(train))(jax.random.split(jax.random.key(0), 2))
    for seed, curve in enumerate(returns):
        best = jnp.nanmax(curve)  # NaN: no episode ended in the update
        print(f"seed {seed}: mean return of the first update {curve[0]:.1f}, the best {best:.1f}")


if __name__ == "__main__":
    main()
