"""The start of a new process: the import, and the first `reset` and `step`."""

import os
import subprocess
import sys
import tempfile
from functools import partial

from benchmarks.measure import Table, Work, compare

FIRST_CALLS = """
import sys, time
begin = time.perf_counter()
import jax, numpy, envrax, envrax_classic
imported = time.perf_counter()
env = envrax.{maker}, cache_dir=sys.argv[1])
obs, state = env.reset(jax.random.key(0))
jax.block_until_ready(env.step(state, numpy.zeros(env.action_space.shape, numpy.int32)))
end = time.perf_counter()
print(end - imported, end - begin)
"""
MAKERS = [
    f"{maker}('classic/{name}-v0'{size}"
    for maker, size in (("make", ""), ("make_vec", ", 64"))
    for name in ("CartPole", "Maze")
]


def imports(repeats: int = 15) -> list[Table]:
    """`import envrax`, against its dependencies."""
    with tempfile.TemporaryDirectory() as bytecode:
        codes = "import jax, chex", "import envrax"
        ways: dict[str, Work] = {code: partial(_output, bytecode, code) for code in codes}
        return [Table("Import, fresh process each", compare(ways, repeats), 1)]


def caches(repeats: int = 7) -> list[Table]:
    """From process start to the first step, with an empty and with a filled compile cache."""
    tables: list[Table] = []
    with tempfile.TemporaryDirectory() as bytecode:
        _output(bytecode, "import envrax_classic")
        for maker in MAKERS:
            code = FIRST_CALLS.format(maker=maker)
            alone: dict[str, list[float]] = {"cold": [], "warm": []}
            whole: dict[str, list[float]] = {"cold": [], "warm": []}
            for _ in range(repeats):
                with tempfile.TemporaryDirectory() as cache:
                    for name in alone:
                        after_import, in_all = map(float, _output(bytecode, code, cache).split())
                        alone[name].append(after_import)
                        whole[name].append(in_all)
            title = f"`{maker})`, reset and step"
            tables.append(Table(f"{title}, after the import", alone, 1))
            tables.append(Table(f"{title}, import included", whole, 1))
    return tables


def both() -> list[Table]:
    """The import, then the compile cache."""
    return [*imports(), *caches()]


def _output(bytecode: str, code: str, *arguments: str) -> str:
    """Run code in a new process and return what it prints. Bytecode is cached, as if installed."""
    environment = os.environ | {"PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True)
    return done.stdout
