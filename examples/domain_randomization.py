"""
Domain randomisation: one policy for poles of any length and mass, and carts of any force.

    python examples/domain_randomization.py --seed 1

PPO learns CartPole twice: with the default config, and with `DomainRandomization`, which draws the
length and mass of the pole and the force of the cart for every episode. Then both policies are
evaluated on a grid of configs, each in one compiled call of `evaluate_grid`. The algorithm is the
one of `ppo.py`.
"""

import argparse
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import envrax

N_ENVS, N_STEPS, EPOCHS, MINIBATCHES = 64, 32, 4, 8
LEARNING_RATE, GAMMA, GAE_LAMBDA, CLIP = 2e-3, 0.98, 0.98, 0.2
DEFAULT = {"pole_mass": 0.1, "force": 10.0, "half_length": 0.5}
DRAWN_WITHIN = 4.0  # configs are drawn from a quarter to four times the default
EPISODES = 20  # at each point of the grid


def sample(rng: jax.Array) -> dict[str, jax.Array]:
    """The three parameters, log-uniform from a quarter to four times their defaults."""
    factors = DRAWN_WITHIN ** jax.random.uniform(rng, (len(DEFAULT),), minval=-1.0)
    return {name: x * factor for (name, x), factor in zip(DEFAULT.items(), factors, strict=True)}


class Network(nn.Module):
    """The log-probabilities of the two actions, and the value."""

    @nn.compact
    def __call__(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        def head(x: jax.Array, n_outputs: int) -> jax.Array:
            for _ in range(2):
                x = nn.tanh(nn.Dense(64, kernel_init=nn.initializers.he_uniform())(x))
            return nn.Dense(n_outputs, kernel_init=nn.initializers.zeros)(x)

        return jax.nn.log_softmax(head(x, 2)), head(x, 1)[..., 0]


network = Network()


def act(params: Any, obs: jax.Array, rng: jax.Array) -> Any:
    log_probs, value = network.apply(params, obs)
    action = jax.random.categorical(rng, log_probs)
    return action, params, (taken(log_probs, action), value)


def taken(log_probs: jax.Array, action: jax.Array) -> jax.Array:
    return jnp.take_along_axis(log_probs, action[..., None], axis=-1)[..., 0]


def advantages(steps: envrax.Transition, value: jax.Array, next_value: jax.Array) -> jax.Array:
    """Generalised advantage estimation, bootstrapped unless the episode was terminated."""
    surprise = steps.reward + GAMMA * jnp.where(steps.terminated, 0.0, next_value) - value

    def back(later: jax.Array, step: Any) -> tuple[jax.Array, jax.Array]:
        surprise, done = step
        advantage = surprise + GAMMA * GAE_LAMBDA * jnp.where(done, 0.0, later)
        return advantage, advantage

    return jax.lax.scan(back, jnp.zeros_like(surprise[0]), (surprise, steps.done), reverse=True)[1]


def loss(params: Any, rows: Any) -> jax.Array:
    obs, action, log_prob, gain, target = rows
    log_probs, value = network.apply(params, obs)
    gain = (gain - jnp.mean(gain)) / (jnp.std(gain) + 1e-8)
    ratio = jnp.exp(taken(log_probs, action) - log_prob)
    kept = jnp.minimum(ratio * gain, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * gain)
    return 0.5 * jnp.mean(jnp.square(value - target)) - jnp.mean(kept)


def train(env: Any, seed: Any, total_steps: int) -> tuple[Any, jax.Array]:
    """The trained parameters, and the mean return of an episode in each update. A pure function."""
    vec_env = envrax.VecEnv(env, N_ENVS)
    n_updates = -(-total_steps // (N_ENVS * N_STEPS))
    falling = optax.linear_schedule(LEARNING_RATE, 0.0, n_updates * EPOCHS * MINIBATCHES)
    optimiser = optax.flatten(optax.chain(optax.clip_by_global_norm(0.5), optax.adam(falling)))

    def update(state: Any, _: None) -> tuple[Any, jax.Array]:
        at, opt_state = state
        at, steps = envrax.rollout(vec_env, act, at, N_STEPS)
        log_prob, value = steps.extras
        gain = advantages(steps, value, network.apply(at.policy_state, steps.next_obs)[1])
        rows = steps.obs, steps.action, log_prob, gain, gain + value
        rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rows)

        def descend(carry: Any, chosen: jax.Array) -> tuple[Any, None]:
            params, opt_state = carry
            gradient = jax.grad(loss)(params, jax.tree.map(lambda x: x[chosen], rows))
            change, opt_state = optimiser.update(gradient, opt_state)
            return (optax.apply_updates(params, change), opt_state), None

        rng, *rngs = jax.random.split(at.rng, EPOCHS + 1)
        orders = jnp.stack([jax.random.permutation(key, gain.size) for key in rngs])
        minibatches = orders.reshape(EPOCHS * MINIBATCHES, -1)
        (params, opt_state), _ = jax.lax.scan(descend, (at.policy_state, opt_state), minibatches)
        mean = jnp.sum(steps.info["episode"]["r"]) / jnp.sum(steps.done)
        return (at._replace(policy_state=params, rng=rng), opt_state), mean

    rng, network_rng = jax.random.split(jax.random.key(seed))
    params = network.init(network_rng, jnp.zeros(4))
    begin = envrax.start(vec_env, rng, params), optimiser.init(params)
    (at, _), means = jax.lax.scan(update, begin, length=n_updates)
    return at.policy_state, means


def grid(n: int) -> dict[str, list[float]]:
    """`n` values around each default, in factors of two; three values of the mass."""
    factors = {name: 2.0 ** np.arange(-(n // 2), n - n // 2) for name in DEFAULT}
    factors["pole_mass"] = DRAWN_WITHIN ** np.arange(-1.0, 2.0)
    return {name: (x * factors[name]).tolist() for name, x in DEFAULT.items()}


def save_heat_maps(path: Path, maps: dict[str, np.ndarray], points: dict[str, list[float]]) -> None:
    """Returns by length and force, side by side. A frame marks the configs drawn in training."""
    lengths, forces = points["half_length"], points["force"]
    figure = Figure(figsize=(9.6, 4.9), dpi=150, layout="constrained")
    panels = figure.subplots(1, len(maps), sharey=True)
    for panel, (name, values) in zip(panels, maps.items(), strict=True):
        panel.imshow(values, origin="lower", vmin=0, vmax=500)
        for (row, column), value in np.ndenumerate(values):
            colour = "white" if value < 300 else "black"
            panel.text(column, row, f"{value:.0f}", ha="center", va="center", color=colour)
        side = 2 * np.log2(DRAWN_WITHIN) + 1  # in cells; a cell is a factor of two
        corner = len(lengths) // 2 - side / 2, len(forces) // 2 - side / 2
        panel.add_patch(Rectangle(corner, side, side, fill=False, edgecolor="white", linewidth=2))
        panel.set_title(f"{name}: {values.mean():.0f} on average", loc="left", size=10)
        panel.set_xlabel("half length of the pole [m]")
        panel.set_xticks(range(len(lengths)), [f"{x:.3g}" for x in lengths])
        panel.set_yticks(range(len(forces)), [f"{x:.3g}" for x in forces])
    panels[0].set_ylabel("force [N]")
    figure.colorbar(panels[0].images[0], ax=list(panels), label="return of an episode")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="PPO on CartPole, with and without randomisation.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--total-steps", type=int, default=1_000_000, help="of each training")
    parser.add_argument("--grid", type=int, default=7, help="values along an axis")
    given = parser.parse_args(arguments)
    wrappers = [envrax.RecordEpisodeStatistics]
    env = envrax.make("classic/CartPole-v0", wrappers=wrappers, jit_compile=False)
    drawn = envrax.DomainRandomization(env, sample)
    points, maps = grid(given.grid), dict[str, np.ndarray]()
    rng = jax.random.key(1_000_003)
    for name, world in (("trained on the default", env), ("trained on drawn configs", drawn)):
        print(f"PPO {name}, seed {given.seed}: compiling, then {given.total_steps:,} steps")
        params, _ = jax.jit(train, static_argnums=(0, 2))(world, given.seed, given.total_steps)
        found = envrax.evaluate_grid(env, act, rng, points, EPISODES, policy_state=params)
        maps[name] = np.asarray(found.returns.mean(axis=(0, -1)))  # over masses and episodes
        print(f"mean return on the grid: {maps[name].mean():.1f}\n\n{found}\n")
    path = Path("runs") / f"domain-randomization-{given.seed}" / "grid.png"
    save_heat_maps(path, maps, points)
    print(f"see {path}")


if __name__ == "__main__":
    main()
