# pyright: reportMissingImports=false
"""
The figures of an accelerator, in 25 minutes at most.

    python -m benchmarks gpu --output figures
    python -m benchmarks gpu --minutes 3 --small       what of it a CPU does in three minutes

The most important parts come first. A part that would begin too late is left out, and so is a
library that is not installed.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import jax

from benchmarks import files
from benchmarks.cartpole import by_hand_in_scan, gymnax_in_scan
from benchmarks.interop import timed
from benchmarks.measure import Result, Table, Values, Work, compare, machine
from benchmarks.resets import World, WorldConfig
from benchmarks.rollout import of_vec_env
from envrax import VecEnv
from envrax.autoreset import Compact, Select
from envrax.classic import CartPole

LIBRARIES = {
    "gymnax": "Breakout-MinAtar",
    "craftax": "Craftax-Classic-Symbolic-v1",
    "xminigrid": "MiniGrid-FourRooms",
    "brax": "ant",
    "playground": "CartpoleBalance",
}


def cartpole(n: int) -> Table:
    """The step of a scan, both strategies of auto-reset, plain JAX, gymnax."""
    steps = max(20, min(1000, 20_000_000 // n))
    ways = {
        "envrax": of_vec_env(VecEnv(CartPole(), n), 2, steps),
        "`Select`": of_vec_env(VecEnv(CartPole(), n, autoreset=Select()), 2, steps),
        "`Compact`": of_vec_env(VecEnv(CartPole(), n, autoreset=Compact()), 2, steps),
        "JAX by hand, every slot reset, one key for all": by_hand_in_scan(n, steps),
    }
    try:
        ways["gymnax"] = gymnax_in_scan(n, steps)
    except ImportError as error:
        print(f"left out: {error}")
    return Table(f"CartPole, N = {n}", compare(ways), steps)


def strategies(rounds: int, n: int) -> Table:
    """Where `Compact` begins to pay: a reset of as many rounds of work as a step has one."""
    env = World(WorldConfig(rounds=rounds, mean_steps=100))
    steps = 100
    ways: dict[str, Work] = {
        name: of_vec_env(VecEnv(env, n, autoreset=strategy), 2, steps)
        for name, strategy in (("`Select`", Select()), ("`Compact`", Compact()))
    }
    return Table(f"a reset of {rounds} steps' work, N = {n}", compare(ways), steps)


def library(name: str, n: int) -> Values:
    """`make_vec` against the library's own loop, both with auto-reset."""
    rows = timed(name, LIBRARIES[name], n)
    return Values(f"{name}/{LIBRARIES[name]}, N = {n}, µs per step", rows)


def compiled(n: int) -> Table:
    """From nothing to a compiled step."""
    times: list[float] = []
    for _ in range(3):
        jax.clear_caches()
        begin = time.perf_counter()
        env = VecEnv(CartPole(), n)
        state = jax.eval_shape(env.reset, jax.random.key(0))[1]
        actions = jax.eval_shape(env.action_space.sample, jax.random.key(0))
        jax.jit(lambda *x, env=env: env.step(*x)).lower(state, actions).compile()
        times.append(time.perf_counter() - begin)
    return Table(f"compilation of a step of CartPole, N = {n}", {"envrax": times}, 1)


def trained() -> Table:
    """The example PPO on CartPole, compilation included."""
    from ppo import PPO, PRESETS, Options, run

    name = "classic/CartPole-v0"
    begin = time.perf_counter()
    *_, after = run(PPO(Options(name, **PRESETS[name])))
    print(f"PPO on CartPole: mean return {after.mean():.0f}")
    return Table("the example PPO", {"envrax": [time.perf_counter() - begin]}, 1)


def parts(small: bool) -> Iterator[Callable[[], Result]]:
    for n in (64, 4096) if small else (64, 4096, 65_536, 1_000_000):
        yield partial(cartpole, n)
    for name in LIBRARIES:
        yield partial(library, name, 64 if small else 4096)
    for rounds in (1, 10, 100, 1000):
        yield partial(strategies, rounds, 1024 if small else 16_384)
    yield trained
    yield partial(compiled, 4096)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=22, help="begin nothing after them (22)")
    parser.add_argument("--small", action="store_true", help="sizes for a CPU")
    parser.add_argument("--output", type=Path, help="folder for gpu.json")
    given = parser.parse_args()
    begin = time.perf_counter()
    tables = list[Result]()
    device = jax.devices()[0]
    where = f"{device.device_kind}, {machine()}"
    print(where, flush=True)
    for part in parts(given.small):
        name = getattr(part, "func", part).__name__, *getattr(part, "args", ())
        if time.perf_counter() - begin > 60 * given.minutes:
            print("left out, for time:", *name)
            continue
        try:
            tables.append(part())
        except Exception as error:  # one library that fails costs its part
            print("left out:", *name, f"{type(error).__name__}: {error}".split("\n")[0])
            continue
        print(f"\n{tables[-1].markdown()}\n", flush=True)
        if given.output:  # after each part: what is measured is kept
            found = {table.title: table.data() for table in tables}
            more = {"device": device.device_kind, "memory": device.memory_stats() or {}}
            files.write("gpu", found, given.output, **more)
