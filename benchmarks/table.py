"""
Check every environment of the libraries in `envrax.interop` and of the classic suite.

    python -m benchmarks table                     all libraries
    python -m benchmarks table gymnax pgx          these

A process of its own checks each library. Verdicts go to `benchmarks/verdicts/LIBRARY.json` as they
come; ids that are there already are not checked again, unless `--again` is given.
`python -m benchmarks pages` writes them into the cards of the ids.
"""

import json
import time
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

import envrax
from benchmarks.libraries import VERDICTS, verdicts, verdicts_path, visit_each
from envrax.testing import report_env
from envrax.testing.mismatch import why_outside

WORLDS = {"jumanji": {"agents": "all"}, "pgx": {"player": "all"}}  # their games of several
MOST = 8  # arrays of a space that is written out, and names of a longer one
LONG = ("gymnax", "jumanji", "pgx", "navix")  # also run for long, with legal actions
CHECKED = 100  # steps of `check_env`
# The long run.
SLOTS = 16
STEPS = 500
CHUNK = 50


def main() -> None:
    visit_each("table", __doc__, check_library, lambda name: verdicts_path(name).unlink(True))


def check_library(library: str, end: float) -> None:
    """Add the verdict on every id of a library that has none yet."""
    names = list(envrax.load_suite(library))
    every = [(name, name, dict[str, Any]()) for name in names]
    if library in WORLDS:
        every += [(f"{name} as a world", name, WORLDS[library]) for name in names]
    for case, name, options in every:
        known = verdicts(library).get(case, {})
        if known.keys() >= {"obs", "mask"} or known.get("verdict") in ("stopped", "not built"):
            continue
        if time.monotonic() > end:
            continue
        if known:  # checked before these facts were kept
            env = _made(name, options)
            _add(library, case, {**facts(env), **known})
            continue
        _add(library, case, {"verdict": "stopped", "why": "the process that checked it ended"})
        started = time.perf_counter()  # what was just written stays if it does
        row = _row(name, library, options)
        if options and row["verdict"] == "not built":
            _add(library, case, None)  # a game of one
            continue
        _add(library, case, {**row, "s": round(time.perf_counter() - started, 1)})
        print(case, row["verdict"], row.get("why", ""), flush=True)


def _row(name: str, library: str, options: dict[str, Any]) -> dict[str, Any]:
    try:
        env = _made(name, options)
    except Exception as error:
        return {"verdict": "not built", "why": _first_line(error)}
    row: dict[str, Any] = {}
    try:
        row = facts(env)
        report = report_env(env, num_steps=CHECKED)
        outside = leaves_space(env) if library in LONG and not env.agents else ""
    except Exception as error:
        return {**row, "verdict": "broken", "why": _first_line(error)}
    if report.findings:
        return {**row, "verdict": "broken", "why": str(report.findings[0])[:200]}
    if outside:
        return {**row, "verdict": "broken", "why": outside}
    if report.waived:
        reasons = dict.fromkeys(report.waived.values())
        return {
            **row,
            "verdict": "waived",
            "why": f"{', '.join(report.waived)} ({'; '.join(reasons)})",
        }
    mended = getattr(env.unwrapped, "mended_bounds", {})
    why = "; ".join(f"`{leaf}`: {reason}" for leaf, reason in mended.items())
    return {**row, "verdict": "mended bounds" if mended else "clean", "why": why}


def _made(name: str, options: dict[str, Any]) -> Any:
    return envrax.make(name, jit_compile=False, **({"options": options} if options else {}))


def facts(env: Any) -> dict[str, Any]:
    """Spaces, time limit, agents, and whether it has a mask of legal actions."""
    limit = env.config.max_steps
    state = jax.eval_shape(env.reset, jax.random.key(0))[1]
    return {
        "obs": _of_agents(env, env.observation_space),
        "action": _of_agents(env, env.action_space),
        "limit": "none" if limit == 2**31 - 1 else limit,
        "agents": list(env.agents),
        "mask": jax.eval_shape(env.action_mask, state) is not None,
    }


def leaves_space(env: Any) -> str:
    """What of a long run, with legal actions, is not in the observation space; empty if all is."""
    vec_env = envrax.VecEnv(env, SLOTS, final_obs=True)

    def step(carry: Any, key: Any) -> Any:
        _, state = carry
        keys = jax.random.split(key, SLOTS)
        mask = vec_env.action_mask(state)
        draw = env.action_space.sample
        actions = jax.vmap(draw)(keys) if mask is None else jax.vmap(draw)(keys, mask)
        obs, state, _, _, infos = vec_env.step(state, actions)
        return (obs, state), (obs, infos["final_obs"])

    @jax.jit
    def chunk(carry: Any, key: Any) -> Any:
        return jax.lax.scan(step, carry, jax.random.split(key, CHUNK))

    carry = vec_env.reset(jax.random.key(1))
    for key in jax.random.split(jax.random.key(2), STEPS // CHUNK):
        carry, seen = chunk(carry, key)
        each = jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[2:]), seen)
        for extreme in (np.min, np.max):
            for obs in jax.tree.map(lambda x, f=extreme: f(x, axis=0), each):
                if found := why_outside(env.observation_space, obs, "obs", rounded=True):
                    return f"in a long run: {found.expected}, got {found.got}"
    return ""


def _of_agents(env: Any, space: Any) -> str:
    """The space; that of each agent once, if they are alike."""
    each = [_brief(space[agent]) for agent in env.agents]
    return f"{len(each)} x {each[0]}" if len({*each}) == 1 else _brief(space)


def _brief(space: Any) -> str:
    children = getattr(space, "spaces", None)
    n_leaves = len(jax.tree.leaves(jax.eval_shape(space.sample, jax.random.key(0))))
    if isinstance(children, dict) and n_leaves > MOST:
        return f"{n_leaves} arrays: {', '.join(_some(children))}"
    if isinstance(children, dict):
        return "{" + ", ".join(f"{k}: {_brief(v)}" for k, v in children.items()) + "}"
    if children is not None:
        return "(" + ", ".join(map(_brief, children)) + ")"
    kind = type(space).__name__
    if kind == "Discrete":
        return f"Discrete({space.n})"
    return f"{kind} {space.dtype}{list(space.shape)}"


def _some(names: Iterable[str]) -> list[str]:
    names = list(names)
    return names if len(names) <= MOST else [*names[:MOST], "..."]


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".split("\n")[0][:200]


def _add(library: str, name: str, row: dict[str, Any] | None) -> None:
    VERDICTS.mkdir(exist_ok=True)
    rows = {**verdicts(library), name: row}
    rows = {name: row for name, row in rows.items() if row}
    verdicts_path(library).write_text(json.dumps(rows, indent=1) + "\n")
