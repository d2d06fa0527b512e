"""What physics of its own in every slot costs, against one model for all slots."""

from functools import partial
from typing import Any

import jax

import envrax
from benchmarks.measure import Table, Values, compare
from benchmarks.memory import size_of
from benchmarks.rollout import Loop, RandomPlay

# The damping of each model, which every step reads: where it is, and its name.
DAMPING = {
    "playground/CartpoleBalance": lambda model: (model.dof_damping, "dof_damping"),
    "playground/CheetahRun": lambda model: (model.dof_damping, "dof_damping"),
    "brax/inverted_pendulum": lambda model: (model.dof.damping, "dof.damping"),
    "brax/ant": lambda model: (model.dof.damping, "dof.damping"),
}
LENGTH = 50  # steps of a scan


def speed(sizes: tuple[int, ...] = (64, 1024)) -> list[Table | Values]:
    """In a scan: damping drawn for every episode, against one model for all slots."""
    tables: list[Table | Values] = []
    sizes_of: dict[str, dict[str, float]] = {}
    for id, damping in DAMPING.items():
        env = envrax.make(id, jit_compile=False)
        nominal, name = damping(env.unwrapped.params)

        def sample(rng: Any, name: str = name, nominal: Any = nominal) -> Any:
            return {"params": {name: nominal * jax.random.uniform(rng, minval=0.5, maxval=2.0)}}

        drawn = envrax.DomainRandomization(env, sample)
        for n in sizes:
            chunks = max(1, 512 // n)
            ways = {
                "one model for all": random_play(env, n),
                "drawn for every episode": random_play(drawn, n),
            }
            works = {way: partial(run, chunks) for way, run in ways.items()}
            tables.append(Table(f"{id}, N = {n}", compare(works), chunks * LENGTH))
        state = jax.eval_shape(drawn.reset, jax.random.key(0))[1]
        sizes_of[id] = {"all": size_of(state), "what is drawn": size_of(state.fields)}
    return [*tables, Values("bytes of a slot", sizes_of)]


def random_play(env: Any, n: int) -> RandomPlay:
    """`n` slots with auto-reset, in a scan."""
    batch = envrax.VecEnv(env, n)

    def step(state: Any, actions: Any, _: Any) -> Any:
        obs, state, reward, done, _ = batch.step(state, actions)
        return state, (obs, reward, done)

    state = batch.reset(jax.random.key(0))[1]
    return RandomPlay(Loop(state, step), batch.action_space, LENGTH)
