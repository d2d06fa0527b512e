"""PPO in the shape of PureJaxRL's single file, for both protocols of gymnax."""

from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax


class Row(NamedTuple):
    done: jax.Array
    action: jax.Array
    value: jax.Array
    reward: jax.Array
    log_prob: jax.Array
    obs: jax.Array
    bootstrap: jax.Array  # the value of the last observation, where a limit of time cut the episode


class ActorCritic(nn.Module):
    n_actions: int

    @nn.compact
    def __call__(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        dense = partial(nn.Dense, kernel_init=nn.initializers.orthogonal(np.sqrt(2)))
        actor, critic = (nn.tanh(dense(64)(nn.tanh(dense(64)(x)))) for _ in range(2))
        logits = nn.Dense(self.n_actions, kernel_init=nn.initializers.orthogonal(0.01))(actor)
        return logits, nn.Dense(1)(critic)[..., 0]


CONFIG = dict(
    LR=2.5e-3, NUM_ENVS=64, NUM_STEPS=64, UPDATE_EPOCHS=4, NUM_MINIBATCHES=8, GAMMA=0.99,
    GAE_LAMBDA=0.95, CLIP_EPS=0.2, ENT_COEF=0.01, VF_COEF=0.5, MAX_GRAD_NORM=0.5,
)  # fmt: skip


def make_train(env: Any, env_params: Any, total_timesteps: int, version: int = 0) -> Any:
    """`train(rng) -> mean returns of the episodes that ended in each update`."""
    c: Any = CONFIG
    n_updates = total_timesteps // (c["NUM_ENVS"] * c["NUM_STEPS"])
    network = ActorCritic(env.action_space(env_params).n)

    def lr(count: Any) -> Any:
        return c["LR"] * (1 - count // (c["NUM_MINIBATCHES"] * c["UPDATE_EPOCHS"]) / n_updates)

    tx = optax.chain(optax.clip_by_global_norm(c["MAX_GRAD_NORM"]), optax.adam(lr, eps=1e-5))

    def train(rng: jax.Array) -> jax.Array:
        rng, init_rng, reset_rng = jax.random.split(rng, 3)
        reset_rngs = jax.random.split(reset_rng, c["NUM_ENVS"])
        obs, env_state = jax.vmap(env.reset, in_axes=(0, None))(reset_rngs, env_params)
        params = network.init(init_rng, obs[0])

        def env_step(carry: Any, _: Any) -> Any:
            params, env_state, obs, rng = carry
            rng, act_rng, step_rng = jax.random.split(rng, 3)
            logits, value = network.apply(params, obs)
            action = jax.random.categorical(act_rng, logits).astype(jnp.int32)
            log_prob = jax.nn.log_softmax(logits)[jnp.arange(c["NUM_ENVS"]), action]
            step_rngs = jax.random.split(step_rng, c["NUM_ENVS"])
            step = jax.vmap(env.step, in_axes=(0, 0, 0, None))
            new_obs, env_state, reward, *ends, info = step(step_rngs, env_state, action, env_params)
            done = ends[0] | ends[1] if version else ends[0]
            last = network.apply(params, info["final_observation"])[1]
            cut = (ends[1] & ~ends[0]) if version else jnp.zeros_like(done)
            row = Row(done, action, value, reward, log_prob, obs, jnp.where(cut, last, 0.0))
            return (params, env_state, new_obs, rng), (row, info)

        def update(carry: Any, _: Any) -> Any:
            params, opt_state, env_state, obs, rng = carry
            rng, shuffle_rng = jax.random.split(rng)
            (_, env_state, obs, rng), (rows, info) = jax.lax.scan(
                env_step, (params, env_state, obs, rng), None, c["NUM_STEPS"]
            )

            def backward(carry: Any, row: Row) -> Any:
                gae, next_value = carry
                after = jnp.where(row.done, row.bootstrap, next_value)
                delta = row.reward + c["GAMMA"] * after - row.value
                gae = delta + c["GAMMA"] * c["GAE_LAMBDA"] * (1 - row.done) * gae
                return (gae, row.value), gae

            last_value = network.apply(params, obs)[1]
            begin = jnp.zeros_like(last_value), last_value
            _, gain = jax.lax.scan(backward, begin, rows, reverse=True)

            def loss(params: Any, batch: Any) -> Any:
                row, gain, target = batch
                logits, value = network.apply(params, row.obs)
                log_probs = jax.nn.log_softmax(logits)
                log_prob = jnp.take_along_axis(log_probs, row.action[:, None], 1)[:, 0]
                gain = (gain - gain.mean()) / (gain.std() + 1e-8)
                ratio = jnp.exp(log_prob - row.log_prob)
                clipped = jnp.clip(ratio, 1 - c["CLIP_EPS"], 1 + c["CLIP_EPS"])
                actor = -jnp.minimum(ratio * gain, clipped * gain).mean()
                entropy = -(jnp.exp(log_probs) * log_probs).sum(-1).mean()
                critic = 0.5 * jnp.square(value - target).mean()
                return actor + c["VF_COEF"] * critic - c["ENT_COEF"] * entropy

            def minibatch(carry: Any, batch: Any) -> Any:
                params, opt_state = carry
                change, opt_state = tx.update(jax.grad(loss)(params, batch), opt_state)
                return (optax.apply_updates(params, change), opt_state), None

            def epoch(carry: Any, rng: jax.Array) -> Any:
                flat = jax.tree.map(
                    lambda x: x.reshape(-1, *x.shape[2:]), (rows, gain, gain + rows.value)
                )
                order = jax.random.permutation(rng, c["NUM_ENVS"] * c["NUM_STEPS"])
                batches = jax.tree.map(
                    lambda x: x[order].reshape(c["NUM_MINIBATCHES"], -1, *x.shape[1:]), flat
                )
                return jax.lax.scan(minibatch, carry, batches)

            rngs = jax.random.split(shuffle_rng, c["UPDATE_EPOCHS"])
            (params, opt_state), _ = jax.lax.scan(epoch, (params, opt_state), rngs)
            ended = info["returned_episode"]
            total = jnp.sum(info["returned_episode_returns"] * ended)
            return (params, opt_state, env_state, obs, rng), total / jnp.maximum(1, ended.sum())

        carry = params, tx.init(params), env_state, obs, rng
        return jax.lax.scan(update, carry, None, n_updates)[1]

    return train
