"""Memory and time of large batches on this machine, each case in a process of its own."""

import json
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import jax

from benchmarks.memory import size_of
from envrax import FrameStackObservation, GrayscaleObservation, ResizeObservation, VecEnv
from envrax_classic import CartPole, Catch

CASES: dict[str, tuple[Any, int]] = {
    "CartPole": (CartPole, 1_000_000),
    "Catch, a picture of 20 x 10 x 3 bytes": (Catch, 100_000),
    "Catch, four grey pictures of 84 x 84 bytes": (
        lambda: FrameStackObservation(ResizeObservation(GrayscaleObservation(Catch()))),
        100_000,
    ),
}
WAYS = "`step`", "`step`, `donate=True`", "in a scan"
STEPS = 10


@dataclass(frozen=True)
class Sizes:
    """Bytes and times of batches; `rows` are of `_measure`."""

    rows: list[dict[str, Any]]

    def markdown(self) -> str:
        lines = [
            "### Large batches",
            "",
            "| environment | slots | bytes of a slot: state, obs | | most memory, less that of the "
            "process before | per slot | ms per step | ns per slot and step |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for row in self.rows:
            n, peak, seconds = row["slots"], row["peak"], row["seconds"]
            lines.append(
                f"| {row['name']} | {n:,} | {row['state'] / n:.0f}, {row['obs'] / n:.0f} | "
                f"{row['way']} | {peak / 1e6:,.0f} MB | {peak / n:,.0f} | {1e3 * seconds:.3g} | "
                f"{1e9 * seconds / n:.3g} |"
            )
        return "\n".join(lines)


def scale() -> list[Sizes]:
    """A million slots of CartPole, 100,000 with pictures."""
    rows: list[dict[str, Any]] = []
    for name in CASES:
        for way in WAYS:
            command = [sys.executable, "-m", "benchmarks.scale", name, way]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            rows.append(json.loads(done.stdout.splitlines()[-1]))
            print(rows[-1], flush=True)
    return [Sizes(rows)]


def _measure(name: str, way: str) -> dict[str, Any]:
    make, n = CASES[name]
    env = VecEnv(make(), n, donate=way == WAYS[1])
    in_scan = way == WAYS[2]
    run: Any = jax.jit(lambda *given: _scan(env, *given), donate_argnums=(0, 1))
    obs, state = jax.eval_shape(env.reset, jax.random.key(0))
    actions = jax.eval_shape(env.action_space.sample, jax.random.key(1))
    if in_scan:
        run = run.lower(obs, state, actions).compile()
    env.compile(None)
    before = _most_memory()

    sizes = {"state": size_of(state), "obs": size_of(obs)}
    actions = env.action_space.sample(jax.random.key(1))
    obs, state = env.reset(jax.random.key(0))
    jax.block_until_ready(state)
    seconds: list[float] = []
    for _ in range(4 if in_scan else STEPS):
        begin = time.perf_counter()
        if in_scan:
            obs, state = run(obs, state, actions)
        else:
            obs, state, *_ = env.step(state, actions)
        jax.block_until_ready((obs, state))
        seconds.append((time.perf_counter() - begin) / (STEPS if in_scan else 1))
    peak = _most_memory() - before
    found = {"peak": peak, "seconds": statistics.median(seconds)}
    return {"name": name, "way": way, "slots": n, **sizes, **found}


def _scan(env: Any, obs: Any, state: Any, actions: Any) -> Any:
    def step(carry: Any, _: None) -> tuple[Any, None]:
        obs, state, *_rest = env.step(carry[1], actions)
        return (obs, state), None

    return jax.lax.scan(step, (obs, state), length=STEPS)[0]


def _most_memory() -> int:
    """The most memory that this process has held so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    print(json.dumps(_measure(*sys.argv[1:])))
