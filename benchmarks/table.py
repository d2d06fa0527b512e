"""
Check every environment of the libraries in `envrax.interop`, and write the table of the docs.

    python -m benchmarks table                     all libraries
    python -m benchmarks table gymnax pgx          these
    python -m benchmarks table --page              the page, from the verdicts so far

A process of its own checks each library. Verdicts go to `benchmarks/verdicts/LIBRARY.json` as they
come; ids that are there already are not checked again, unless `--again` is given.
"""

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

import envrax
from benchmarks import ids, lowers, scores_page
from benchmarks.libraries import LIBRARIES, VERDICTS, verdicts, verdicts_path, visit_each
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
PAGE = Path(__file__).parents[1] / "docs/libraries/table.md"
SPEEDS = {
    "compile, s": "compile",
    "steps/s, 64 slots": "64",
    "steps/s, 1,024 slots": "1024",
    "bytes a slot": "bytes",
}
HEAD = """---
hide: [toc]
---

# All environments of other libraries

Made by `python -m benchmarks table`, which builds each one and runs `check_env` on it.
*Clean*: every rule of the conformance kit is kept. *Mended bounds*: so too, with bounds of the
library's space corrected. *Waived*: the library itself breaks the rules named. An id that is not
built says why. The step of each id that is built was lowered for CUDA and TPU
(`python -m benchmarks lowers`); where that failed, the last column says so. Rows *as a world* were
not lowered; they are built with `options={"agents": "all"}` (Jumanji) or
`options={"player": "all"}` (Pgx). Games of JAXtari are built with rectangles in place of its
sprites. [The gallery](gallery.md) has pictures of the others.

The figures are those of `python -m benchmarks ids`, with the
[versions](../built/benchmarks.md#figures) of its files, in CPU time on one core: the seconds to the
first steps of 64 slots, which is compilation for the most part; the steps of all slots together in
a second, in a scan with auto-reset and random legal actions, the best of five, or of as many as fit
into eight seconds; the state of a slot. Worlds, JAXtari and POPGym Arcade have no figures, nor has
[`brax/swimmer`](brax.md), which does not step on this JAX. *Learned* is the mean return of random
play, then after training: [what can be learned](scores.md) says how.
"""


def main() -> None:
    visit_each("table", __doc__, check_library, lambda name: verdicts_path(name).unlink(True))
    PAGE.write_text("\n".join(page()) + "\n")


def check_library(library: str, end: float) -> None:
    """Add the verdict on every id of a library that has none yet."""
    names = list(envrax.load_suite(library))
    every = [(name, name, dict[str, Any]()) for name in names]
    if library in WORLDS:
        every += [(f"{name} as a world", name, WORLDS[library]) for name in names]
    for case, name, options in every:
        if case in verdicts(library) or time.monotonic() > end:
            continue
        _add(library, case, {"verdict": "stopped", "why": "the process that checked it ended"})
        started = time.perf_counter()  # what was just written stays if it does
        row = _row(name, library, options)
        if options and row["verdict"] == "not built":
            _add(library, case, None)  # a game of one
            continue
        _add(library, case, {**row, "s": round(time.perf_counter() - started, 1)})
        print(case, row["verdict"], row.get("why", ""), flush=True)


def page() -> Iterator[str]:
    """The lines of the page."""
    yield HEAD
    every = {library: verdicts(library) for library in LIBRARIES}
    kinds = ["clean", "mended bounds", "waived", "broken", "not built"]
    if any(row["verdict"] == "stopped" for rows in every.values() for row in rows.values()):
        kinds.append("stopped")
    yield "| library | rows | " + " | ".join(kinds) + " |"
    yield "|---" * (2 + len(kinds)) + "|"
    for library, rows in every.items():
        counts = Counter(row["verdict"] for row in rows.values())
        yield f"| {library} | {len(rows)} | " + " | ".join(str(counts[k]) for k in kinds) + " |"
    for library, rows in every.items():
        if rows:
            yield f"\n## {library}\n"
            heads = *SPEEDS, "learned", "verdict"
            yield "| id | observations | actions | limit | " + " | ".join(heads) + " |"
            yield "|---" * (4 + len(heads)) + "|"
        speeds = ids.rows(library)
        for name, row in sorted(rows.items()):
            cells = [row.get(key, "") for key in ("obs", "action", "limit")]
            figures = speeds.get(name, {})
            cells += [_short(figures[x]) if x in figures else "" for x in SPEEDS.values()]
            cells.append(scores_page.cell(name))
            # Errors begin with their class and the id, which stand in the row already.
            before, _, after = row.get("why", "").partition(f"Error: {name}: ")
            why = f": {after or before}" if before else ""
            shown = " | ".join(str(cell).replace("|", "\\|") for cell in cells)
            verdict = f"{row['verdict']}{why}{not_lowered(library, name)}".replace("|", " ")
            yield f"| `{name}` | {shown} | {verdict} |"


def not_lowered(library: str, name: str) -> str:
    """For which platforms a step was not lowered, and why."""
    row = lowers.rows(library).get(name, {})
    failed = {platform: why for platform, why in row.items() if why != "yes"}
    whys = dict.fromkeys(failed.values())
    return "".join(f"; not lowered for {' and '.join(failed)}: {why}" for why in whys)


def _short(x: float) -> str:
    """A number of three digits, such as 3.1, 4,430, 26 k or 1.2 M."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if x >= 10_000 and x >= size:
            return f"{x / size:.3g} {unit}"
    return f"{x:,.10g}"


def _row(name: str, library: str, options: dict[str, Any]) -> dict[str, Any]:
    try:
        env = envrax.make(name, jit_compile=False, options=options)
    except Exception as error:
        return {"verdict": "not built", "why": _first_line(error)}
    limit = env.config.max_steps
    row: dict[str, Any] = {
        "obs": _of_agents(env, env.observation_space),
        "action": _of_agents(env, env.action_space),
        "limit": "none" if limit == 2**31 - 1 else limit,
    }
    try:
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
