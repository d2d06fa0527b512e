"""
Train PPO on any registered environment, in pure JAX: `python examples/ppo.py classic/Pendulum-v0`.

Without arguments it balances classic/CartPole-v0. See `--help` for the hyper-parameters.
"""
# ruff: noqa: E402

import time

START = time.perf_counter()  # imports are part of the wait

import argparse
import importlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import envrax
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from envrax import Box, Discrete, VecEnv
from tqdm import tqdm


@dataclass(frozen=True)
class Config:
    """What to train on, and how; every field is a command line option."""

    env: str = "classic/CartPole-v0"
    seed: int = 0
    total_steps: int = 500_000  # over all environments
    n_envs: int = 64
    n_steps: int = 64  # per environment and update
    epochs: int = 4
    minibatches: int = 8
    learning_rate: float = 1e-3  # decays to 0
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy: float = 0.01
    value_weight: float = 0.5
    max_grad_norm: float = 0.5
    reward_scale: float = 1.0
    hidden: int = 64

    @property
    def n_updates(self) -> int:
        return max(1, self.total_steps // (self.n_envs * self.n_steps))


PRESETS: dict[str, dict[str, Any]] = {}


class UnitAction(envrax.ActionWrapper[Any, Box, Any, Any]):
    """Take any real action: -1 and 1 are the bounds of a bounded Box, what is beyond is clipped."""

    @property
    def action_space(self) -> Box:
        return Box(-np.inf, np.inf, self.env.action_space.shape)

    def action(self, action: jax.Array) -> jax.Array:
        low, high = self.env.action_space.low, self.env.action_space.high
        bounded = np.isfinite(low) & np.isfinite(high)
        centre = np.where(bounded, (low + high) / 2, 0).astype(np.float32)
        reach = np.where(bounded, (high - low) / 2, 1).astype(np.float32)
        return jnp.clip(centre + reach * action, low, high).astype(self.env.action_space.dtype)


class Categorical(NamedTuple):
    """The policy over a Discrete space."""

    logits: jax.Array

    def sample(self, rng: jax.Array) -> jax.Array:
        return jax.random.categorical(rng, self.logits)

    def mode(self) -> jax.Array:
        return jnp.argmax(self.logits, axis=-1)

    def log_prob(self, action: jax.Array) -> jax.Array:
        log_probs = jax.nn.log_softmax(self.logits)
        return jnp.take_along_axis(log_probs, action[..., None], axis=-1)[..., 0]

    def entropy(self) -> jax.Array:
        return -jnp.sum(jax.nn.softmax(self.logits) * jax.nn.log_softmax(self.logits), axis=-1)


class ActorCritic(nn.Module):
    n_actions: int
    hidden: int

    @nn.compact
    def __call__(self, obs):
        def mlp(n_out, scale):
            x = obs
            for _ in range(2):
                x = nn.tanh(nn.Dense(self.hidden, kernel_init=nn.initializers.orthogonal(2**0.5))(x))
            return nn.Dense(n_out, kernel_init=nn.initializers.orthogonal(scale))(x)

        return Categorical(mlp(self.n_actions, 0.01)), mlp(1, 1.0)[..., 0]


class Transition(NamedTuple):
    obs: Any
    action: Any
    log_prob: Any
    value: Any
    next_value: Any
    reward: Any
    terminated: Any
    done: Any


def gae(t: Transition, gamma: float, lam: float) -> jax.Array:
    delta = t.reward + gamma * t.next_value * ~t.terminated - t.value

    def back(adv, x):
        delta, done = x
        adv = delta + gamma * lam * adv * ~done
        return adv, adv

    return jax.lax.scan(back, jnp.zeros_like(delta[0]), (delta, t.done), reverse=True)[1]


class State(NamedTuple):
    params: Any
    opt_state: Any
    env_state: Any
    obs: Any
    rng: Any


def main():
    ap = argparse.ArgumentParser(argument_default=argparse.SUPPRESS)
    for f in fields(Config):
        ap.add_argument("--" + f.name.replace("_", "-"), type=type(f.default))
    c = Config(**vars(ap.parse_args()))
    import envrax_classic

    t_imp = time.perf_counter() - START
    env = envrax.make_vec(c.env, c.n_envs, wrappers=[envrax.RecordEpisodeStatistics], final_obs=True, pre_warm=False)
    ev = envrax.make_vec(c.env, 100, pre_warm=False)
    net = ActorCritic(env.single_action_space.n, c.hidden)
    forward = net.apply
    batch_size = c.n_envs * c.n_steps
    opt = optax.chain(
        optax.clip_by_global_norm(c.max_grad_norm),
        optax.adam(optax.linear_schedule(c.learning_rate, 0.0, c.n_updates * c.epochs * c.minibatches), eps=1e-5),
    )

    @jax.jit
    def init(seed):
        rng, k1, k2 = jax.random.split(jax.random.key(seed), 3)
        obs, env_state = env.reset(k1)
        params = net.init(k2, obs)
        return State(params, opt.init(params), env_state, obs, rng)

    def rollout_step(params, carry, rng):
        env_state, obs = carry
        pi, value = forward(params, obs)
        action = pi.sample(rng)
        next_obs, env_state, reward, done, info = env.step(env_state, action)
        next_value = forward(params, info["final_obs"])[1]
        t = Transition(obs, action, pi.log_prob(action), value, next_value, reward * c.reward_scale, info["terminated"], done)
        return (env_state, next_obs), (t, info["episode"])

    def loss_fn(params, t, adv):
        pi, value = forward(params, t.obs)
        target = adv + t.value
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        ratio = jnp.exp(pi.log_prob(t.action) - t.log_prob)
        pg = -jnp.minimum(ratio * adv, jnp.clip(ratio, 1 - c.clip, 1 + c.clip) * adv).mean()
        vl = 0.5 * jnp.square(value - target).mean()
        return pg + c.value_weight * vl - c.entropy * pi.entropy().mean()

    def update(s, _):
        rng, k1, k2 = jax.random.split(s.rng, 3)
        (env_state, obs), (t, ep) = jax.lax.scan(partial(rollout_step, s.params), (s.env_state, s.obs), jax.random.split(k1, c.n_steps))
        adv = gae(t, c.gamma, c.gae_lambda)
        batch = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (t, adv))
        order = jnp.broadcast_to(jnp.arange(batch_size), (c.epochs, batch_size))
        idx = jax.random.permutation(k2, order, axis=1, independent=True).reshape(c.epochs * c.minibatches, -1)

        def step(carry, i):
            params, os = carry
            g = jax.grad(loss_fn)(params, *jax.tree.map(lambda x: x[i], batch))
            up, os = opt.update(g, os, params)
            return (optax.apply_updates(params, up), os), None

        (params, os), _ = jax.lax.scan(step, (s.params, s.opt_state), idx)
        n = (ep["l"] > 0).sum()
        return State(params, os, env_state, obs, rng), (ep["r"].sum(), n)

    chunk = max(1, round(c.n_updates / 20))

    @partial(jax.jit, donate_argnums=0)
    def train(s):
        return jax.lax.scan(update, s, None, length=chunk)

    @jax.jit
    def evaluate(params, seed):
        obs, st = ev.reset(jax.random.key(seed))
        def cond(x):
            return ~x[2].all() & (x[4] < ev.config.max_steps)
        def body(x):
            obs, st, ended, ret, i = x
            a = forward(params, obs)[0].mode()
            obs, st, r, d, _ = ev.step(st, a)
            return obs, st, ended | d, ret + jnp.where(ended, 0.0, r), i + 1
        return jax.lax.while_loop(cond, body, (obs, st, jnp.zeros(100, bool), jnp.zeros(100), 0))[3]

    t0 = time.perf_counter()
    p0 = time.process_time()
    s = init(c.seed)
    jax.block_until_ready(s)
    t1 = time.perf_counter(); p1 = time.process_time()
    ev_ = evaluate.lower(s.params, 1).compile()
    t2 = time.perf_counter(); p2 = time.process_time()
    tr = train.lower(s)
    t3a = time.perf_counter(); p3a = time.process_time()
    tr = tr.compile()
    t3 = time.perf_counter(); p3 = time.process_time()
    before = ev_(s.params, 1)
    curve = []
    for _ in range(-(-c.n_updates // chunk)):
        s, m = tr(s)
        r, n = jax.device_get(m)
        curve.append(float(r.sum() / max(1, n.sum())))
    t4 = time.perf_counter(); p4 = time.process_time()
    after = np.asarray(ev_(s.params, 1))
    t5 = time.perf_counter(); p5 = time.process_time()
    print(f"import {t_imp:.2f}  init {t1-t0:.2f} ({p1-p0:.2f}) evalcompile {t2-t1:.2f} ({p2-p1:.2f}) lower {t3a-t2:.2f} ({p3a-p2:.2f}) traincompile {t3-t3a:.2f} ({p3-p3a:.2f}) train {t4-t3:.2f} ({p4-p3:.2f}) eval {t5-t4:.2f} total {t5-START:.2f} cpu {p5:.2f}")
    print(f"{np.mean(before):.1f} -> {after.mean():.1f} +- {after.std():.1f}", " ".join(f"{x:.0f}" for x in curve))

main()
