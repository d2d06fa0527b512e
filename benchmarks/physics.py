# pyright: reportMissingImports=false
"""
Physics of its own in every slot: what it costs, and what a policy gains that was trained in it.

    python -m benchmarks physics                 speed and memory
    python -m benchmarks physics-training        PPO on CartpoleBalance, three seeds, heat maps
    python -m benchmarks.physics                 16 slots beside the library with their 16 models
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import envrax
from benchmarks import seeds
from benchmarks.measure import Table, Values, compare
from benchmarks.memory import size_of
from benchmarks.worlds import LENGTH, loop
from envrax._jax.types import named_leaves

# What is drawn, which every step reads.
DAMPING = {
    "playground/CartpoleBalance": "dof_damping",
    "playground/CheetahRun": "dof_damping",
    "brax/inverted_pendulum": "dof.damping",
    "brax/ant": "dof.damping",
}
BALANCE, DRAWN_WITHIN, SEEDS = "playground/CartpoleBalance", 4.0, 3


def speed(sizes: tuple[int, ...] = (64, 1024)) -> list[Table | Values]:
    """In a scan: damping drawn for every episode, against one model for all slots."""
    tables, sizes_of = list[Table | Values](), dict[str, dict[str, float]]()
    for id, name in DAMPING.items():
        env = envrax.make(id, jit_compile=False)
        nominal = named_leaves(env.unwrapped.params)[name]

        def sample(rng: Any, name: str = name, nominal: Any = nominal) -> Any:
            return {"params": {name: nominal * jax.random.uniform(rng, minval=0.5, maxval=2.0)}}

        drawn = envrax.DomainRandomization(env, sample)
        for n in sizes:
            chunks = max(1, 512 // n)
            ways = {"one model for all": loop(env, n), "drawn for every episode": loop(drawn, n)}
            works = {way: partial(run, chunks) for way, run in ways.items()}
            tables.append(Table(f"{id}, N = {n}", compare(works), chunks * LENGTH))
        state = jax.eval_shape(drawn.reset, jax.random.key(0))[1]
        sizes_of[id] = {"all": size_of(state), "what is drawn": size_of(state.fields)}
    return [*tables, Values("bytes of a slot", sizes_of)]


def factors(rng: jax.Array, env: Any) -> dict[str, Any]:
    """The mass of the pole and the force of the motor, up to four times more or less."""
    model = env.unwrapped.params
    mass, force = DRAWN_WITHIN ** jax.random.uniform(rng, (2,), minval=-1.0)
    return {"params": changes(model, mass, force)}


def changes(model: Any, mass: Any, force: Any) -> dict[str, Any]:
    heavy = jnp.array([1.0, 1.0, mass], jnp.float32)  # the world, the cart, the pole
    return {"body_mass": model.body_mass * heavy, "actuator_gear": model.actuator_gear * force}


class _Training(seeds.Training):
    def __init__(self, options: seeds.Options, world: Any) -> None:
        super().__init__(options)
        self.vec_env = envrax.VecEnv(world(self.env), options.n_envs)


def train(total_steps: int = 1_500_000, side: int = 7, n_episodes: int = 8) -> list[Values]:
    """Returns on a grid of masses and forces, of policies that saw one model, or many."""
    o = seeds.Options(BALANCE, total_steps=total_steps, reward_scale=0.1, learning_rate=1e-3)
    worlds = {
        "trained with one model": lambda env: env,
        "trained with drawn models": lambda env: envrax.DomainRandomization(env, factors),
    }
    points = 2.0 ** np.arange(-(side // 2), side - side // 2)
    maps, seen = list[Values](), dict[str, dict[str, float]]()
    for name, world in worlds.items():
        training = _Training(o, world)
        model = training.env.unwrapped.params
        grid = {
            "params.body_mass": [changes(model, x, 1.0)["body_mass"] for x in points],
            "params.actuator_gear": [changes(model, 1.0, x)["actuator_gear"] for x in points],
        }
        whole, found = jax.jit(training.whole), []
        for seed in range(SEEDS):
            params = whole(seed)
            result = envrax.evaluate_grid(
                training.env, training.act, jax.random.key(7), grid, n_episodes,
                policy_state=params,
            )  # fmt: skip
            found.append(np.asarray(result.returns.mean(-1)))
            middle = found[-1][side // 2, side // 2]
            seen[f"{name}, seed {seed}"] = {"nominal": middle, "on the grid": found[-1].mean()}
        rows = {
            f"mass {mass:.3g}": {f"force {x:.3g}": r for x, r in zip(points, row, strict=True)}
            for mass, row in zip(points, np.mean(found, axis=0), strict=True)
        }
        maps.append(Values(name, rows))
    return [*maps, Values("each seed", seen)]


def slots(n: int = 16, steps: int = 200) -> None:
    """The largest difference of an observation after a step, from the same state and action."""
    for id, damping in DAMPING.items():
        env = envrax.make(id, max_steps=10**6, jit_compile=False)
        peer, fields = env.unwrapped.peer.unwrapped, named_leaves(env.unwrapped.params)
        mass = "body_mass" if "playground" in id else "link.inertia.mass"
        contacts = ["geom_friction"] * ("Cheetah" in id or "ant" in id)
        names, attribute = (damping, mass, *contacts), env.unwrapped.model_attribute

        def sample(rng: Any, names: Any = names, fields: Any = fields) -> Any:
            factors = 2.0 ** jax.random.uniform(rng, (len(names),), minval=-1.0)
            return {"params": {k: fields[k] * x for k, x in zip(names, factors, strict=True)}}

        def by_hand(
            function: Any, changes: Any, *given: Any, peer: Any = peer, a: Any = attribute
        ) -> Any:
            before = getattr(peer, a)
            setattr(peer, a, before.tree_replace(changes))
            try:
                return getattr(peer, function)(*given)
            finally:
                setattr(peer, a, before)

        drawn = envrax.DomainRandomization(env, sample)
        keys = jax.random.split(jax.random.key(0), n)
        obs, state = jax.jit(jax.vmap(drawn.reset))(keys)
        changes = state.fields["params"]
        resets = jax.vmap(lambda key: jax.random.split(jax.random.split(key)[0])[1])(keys)
        inner = jax.jit(jax.vmap(partial(by_hand, "reset")))(changes, resets)
        actions = 0.3 * jax.random.uniform(
            jax.random.key(1), (steps, n, *env.action_space.shape), minval=-1.0
        )

        ours, theirs = jax.vmap(drawn.step), jax.vmap(partial(by_hand, "step"))
        run = jax.jit(partial(_differences, ours, theirs))
        apart = np.asarray(run(state, changes, inner, actions))
        finite = apart[np.isfinite(apart)]
        print(
            f"{id}, {', '.join(names)}: at reset {np.abs(obs - inner.obs).max():.1e}; in {steps} "
            f"steps at most {finite.max():.1e}, in 99 % of them {np.quantile(finite, 0.99):.1e}; "
            f"{100 * finite.size / apart.size:.0f} % finite",
            flush=True,
        )


def _differences(ours: Any, theirs: Any, state: Any, changes: Any, inner: Any, actions: Any) -> Any:
    """Each step of both from the state of the library, since contacts magnify rounding."""

    def step(inner: Any, action: Any) -> Any:
        at = state.replace(env_state=state.env_state.replace(inner=inner))
        obs, after = ours(at, action)[0], theirs(changes, inner, action)
        return after, jnp.abs(obs - after.obs).max(axis=1)

    return jax.lax.scan(step, inner, actions)[1]


if __name__ == "__main__":
    slots()
