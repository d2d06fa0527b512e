"""
`OneAgent` around a world of Pgx, against the view of one player that the adapter has of its own.

    python -m benchmarks worlds

`python -m benchmarks.interop_speed jaxmarl` compares worlds with JaxMARL's own loop.
"""

from typing import Any

import jax

from benchmarks import interop_loops as loops
from benchmarks.interop_speed import Rollout
from benchmarks.measure import Table, compare
from envrax import VecEnv, make
from envrax.multi_agent.one_agent import OneAgent

GAMES, SIZES = ("tic_tac_toe", "connect_four"), (64, 1024)
LENGTH, CHUNKS = 50, 20


def loop(env: Any, n: int) -> Rollout:
    """`n` copies with auto-reset, in a scan with random legal actions."""
    batch = VecEnv(env, n)

    def step(state: Any, actions: Any, _: Any) -> Any:
        obs, state, reward, done, _ = batch.step(state, actions)
        return state, (obs, reward, done)

    state = batch.reset(jax.random.key(0))[1]
    return Rollout(loops.Loop(state, step, batch.action_mask), batch.action_space, LENGTH)


def views() -> list[Table]:
    """A table for each game and number of slots."""
    return [_table(game, n) for game in GAMES for n in SIZES]


def _table(game: str, n: int) -> Table:
    from envrax.interop.pgx import uniform

    def others(policy_state: Any, obs: Any, rng: Any, mask: Any) -> Any:
        drawn = uniform(obs["player_1"], mask["player_1"], rng)
        return {"player_1": drawn}, policy_state, None

    def made(**options: Any) -> Any:
        return make(f"pgx/{game}", options=options, jit_compile=False)

    ways = {
        "player=0": loop(made(player=0), n),
        "OneAgent": loop(OneAgent(made(player="all"), "player_0", others), n),
    }
    for way in ways.values():
        way(1)
    seconds = compare({name: lambda run=run: run(CHUNKS) for name, run in ways.items()})
    return Table(f"pgx/{game}, {n} slots", seconds, CHUNKS * LENGTH)
