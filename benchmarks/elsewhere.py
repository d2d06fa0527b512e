# pyright: basic, reportMissingImports=false
"""
Packages without an adapter, through `envrax.wrap`, beside loops of their own functions.

Each package is installed apart, with `pip install --no-deps` where it pins an old JAX::

    python -m benchmarks.elsewhere nasimjax pobax

tries these two, and writes what it finds into `benchmarks/elsewhere.json`. With `--check` it writes
nothing, and fails where what is understood, or the first 200 steps, are other than that file has.
"""

import json
import os
import signal
import sys
import time
import tomllib
import warnings
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import envrax
from envrax.interop.peer.containers import as_dicts
from envrax.testing import report_env

ROWS = Path(__file__).with_suffix(".toml")
RESULTS = ROWS.with_suffix(".json")
STEPS = 200
SECONDS = 240
"""The time that one check may take."""


def bare(*packages: str) -> None:
    """Import packages without the lines of their `__init__`, where these cannot run."""
    for name in packages:
        module = sys.modules[name] = ModuleType(name)
        folders = (os.path.join(x, *name.split(".")) for x in sys.path)
        module.__path__ = [x for x in folders if os.path.isdir(x)]


def difference(row: dict[str, str], names: dict[str, Any], env: Any) -> str:
    """How the steps of `env` differ from those of the package's functions, with the same keys."""

    def ours(carry: Any, key: Any) -> Any:
        state, mask_key = carry
        rng, again = jax.random.split(key)
        action = env.action_space.sample(rng, env.action_mask(state))
        obs, after, reward, done, _ = env.step(state, action)
        begun = env.reset(again)[1]
        chosen = jax.tree.map(lambda a, b: jnp.where(done, a, b), begun, after)
        return (chosen, mask_key), (action, state.rng, again, obs, reward, done)

    def theirs(state: Any, played: Any) -> Any:
        action, rng, again = played
        values = {**names, "state": state, "action": action, "key": jax.random.split(rng)[1]}
        obs, after, reward, done = eval(row["step"].strip(), values)
        done = jnp.reshape(jnp.asarray(done), ()).astype(bool)
        begun = eval(row["reset"], {**names, "key": jax.random.split(again)[1]})[1]
        chosen = jax.tree.map(
            lambda a, b: jnp.where(done, a, b).astype(jnp.asarray(b).dtype), begun, after
        )
        return chosen, (obs, reward, done)

    key = jax.random.PRNGKey(0) if "legacy_keys" in row["line"] else jax.random.key(0)
    keys = jax.random.split(key, STEPS)
    first = jax.jit(env.reset)(key)[1]
    _, played = jax.jit(lambda s: jax.lax.scan(ours, (s, key), keys))(first)
    begin = jax.jit(lambda key: eval(row["reset"], {**names, "key": key})[1])
    state = begin(jax.random.split(key)[1])
    with jax.numpy_dtype_promotion("standard"):
        _, own = jax.jit(lambda s: jax.lax.scan(theirs, s, played[:3]))(state)
    pairs = zip(jax.tree.leaves(as_dicts(played[3:])), jax.tree.leaves(as_dicts(own)), strict=True)
    largest = 0.0
    for a, b in pairs:
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        a = a.reshape(b.shape)
        if not np.array_equal(a, b, equal_nan=True):
            largest = max(largest, float(np.nanmax(np.abs(a - b) / np.maximum(np.abs(b), 1))))
    return f"{largest:.1e}" if largest else "="


def verdict(env: Any) -> str:
    """What `check_env` says."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        report = report_env(env, num_steps=20)
    except TimeoutError:
        return "stopped"
    finally:
        signal.alarm(0)
    broken = [f"{x.rule}: expected {x.expected}; got {x.got}" for x in report.findings]
    return "; ".join(broken) or "kept"


def understood(package: str, row: dict[str, str]) -> tuple[dict[str, Any], Any]:
    """What is understood of an environment, and how its steps differ from its own; and itself."""
    names: dict[str, Any] = {"jax": jax, "jnp": jnp, "envrax": envrax, "bare": bare, "params": None}
    exec(row["setup"], names)
    start = time.perf_counter()
    env = eval(row["line"], names)
    found = {
        "version": version(package),
        "jax": jax.__version__,
        "line": row["line"],
        "seconds": round(time.perf_counter() - start, 1),
        "recognised": str(getattr(env.unwrapped, "reading", env)).splitlines(),
    }
    print(package, row["name"], found["line"], *found["recognised"], sep="\n    ", flush=True)
    found["own loop"] = difference(row, names, env)
    print("    own loop:", found["own loop"], flush=True)
    return found, env


def main(arguments: list[str]) -> None:
    """Try packages, and keep or check what is found."""
    warnings.simplefilter("ignore")
    rows = tomllib.loads(ROWS.read_text())
    results = json.loads(RESULTS.read_text())
    packages = [x for x in arguments if not x.startswith("--")] or [*rows]
    others: list[str] = []
    for package, row in [(x, row) for x in packages for row in rows[x]]:
        name = f"{package}: {row['name']}"
        found, env = understood(package, row)
        if "--check" in arguments:
            kept = results[name]
            others += [name] if any(found[x] != kept[x] for x in ("recognised", "own loop")) else []
            continue
        found["check"] = verdict(env)
        print("    check:", found["check"], flush=True)
        results[name] = found
        RESULTS.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n")
    if others:
        sys.exit(f"other than {RESULTS.name} has: {', '.join(others)}")


if __name__ == "__main__":
    main(sys.argv[1:])
