"""
Whether the step of every id can be lowered for CUDA and for TPU. Neither is needed for it.

    python -m benchmarks lowers                     all libraries
    python -m benchmarks lowers gymnax pgx          these

Results go to `benchmarks/results/lowers/LIBRARY.json` as they come; ids that are there already are
not lowered again, unless `--again` is given. `python -m benchmarks pages` writes them into the
cards of the ids.
"""

import time
from typing import Any

import jax

from benchmarks import files
from benchmarks.libraries import built, first_line, visit_each
from envrax import make_vec

PLATFORMS = "cuda", "tpu"
SLOTS = 64


def main() -> None:
    visit_each("lowers", __doc__, lower_library, lambda name: files.write(f"lowers/{name}", {}))


def lower_library(library: str, end: float) -> None:
    """Lower what can be built of a library and has no result yet."""
    for id in built(library):
        if id in rows(library) or time.monotonic() > end:
            continue
        _add(library, id, dict.fromkeys(PLATFORMS, "the process ended"))  # stays if it does
        try:
            row = lowered(id)
        except Exception as error:
            row = dict.fromkeys(PLATFORMS, first_line(error))
        _add(library, id, row)
        print(id, row, flush=True)


def lowered(id: str) -> dict[str, str]:
    """By platform, "yes" or the error."""
    env: Any = make_vec(id, SLOTS, pre_warm=False, cache_dir=None, jit_compile=False)
    state = jax.eval_shape(env.reset, jax.random.key(0))[1]
    actions = jax.eval_shape(env.action_space.sample, jax.random.key(0))
    traced = jax.jit(lambda *args: env.step(*args)).trace(state, actions)
    row: dict[str, str] = {}
    for platform in PLATFORMS:
        try:
            traced.lower(lowering_platforms=(platform,))
            row[platform] = "yes"
        except Exception as error:
            row[platform] = first_line(error)
    return row


def rows(library: str) -> dict[str, dict[str, str]]:
    """What was found so far, by id."""
    return files.read(f"lowers/{library}").get("lowers", {})


def _add(library: str, id: str, row: dict[str, str]) -> None:
    files.write(f"lowers/{library}", {}, lowers={**rows(library), id: row})
