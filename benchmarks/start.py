"""The start of a new process: the import, and the first `reset` and `step`."""

import os
import subprocess
import sys
from functools import partial
from tempfile import TemporaryDirectory

from benchmarks.measure import Table, Work, available, compare

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

PEER_CALLS = {
    "gymnax": """
import jax, gymnax
env, params = gymnax.make("CartPole-v1")
obs, state = env.reset(jax.random.key(0), params)
jax.block_until_ready(env.step(jax.random.key(1), state, 0, params))
""",
    "envrax": """
import sys, jax, envrax
env = envrax.make("gymnax/CartPole-v1", cache_dir=sys.argv[1] if sys.argv[1:] else None)
obs, state = env.reset(jax.random.key(0))
jax.block_until_ready(env.step(state, 0))
""",
    "only the imports: gymnax": "import jax, gymnax",
    "only the imports: envrax": "import jax, envrax",
}


def imports(repeats: int = 15) -> list[Table]:
    """`import envrax`, against its dependencies."""
    with TemporaryDirectory() as bytecode:
        codes = "import jax, chex", "import envrax"
        ways: dict[str, Work] = {code: partial(_output, bytecode, code) for code in codes}
        return [Table("Import, fresh process each", compare(ways, repeats), 1)]


def caches(repeats: int = 7) -> list[Table]:
    """From process start to the first step, with an empty and with a filled compile cache."""
    tables: list[Table] = []
    with TemporaryDirectory() as bytecode:
        _output(bytecode, "import envrax_classic")
        for maker in MAKERS:
            code = FIRST_CALLS.format(maker=maker)
            alone: dict[str, list[float]] = {"cold": [], "warm": []}
            whole: dict[str, list[float]] = {"cold": [], "warm": []}
            for _ in range(repeats):
                with TemporaryDirectory() as cache:
                    for name in alone:
                        after_import, in_all = map(float, _output(bytecode, code, cache).split())
                        alone[name].append(after_import)
                        whole[name].append(in_all)
            title = f"`{maker})`, reset and step"
            tables.append(Table(f"{title}, after the import", alone, 1))
            tables.append(Table(f"{title}, import included", whole, 1))
    return tables


def peers(repeats: int = 7) -> list[Table]:
    """An environment of gymnax from process start to its first step, by envrax and by gymnax."""
    tables: list[Table] = []
    with TemporaryDirectory() as bytecode, TemporaryDirectory() as cache:
        for peer, code in available({"gymnax": PEER_CALLS["gymnax"]}):
            ways: dict[str, Work] = {
                "envrax, with a filled compile cache": partial(
                    _output, bytecode, PEER_CALLS["envrax"], cache
                ),
                "envrax, without a compile cache": partial(_output, bytecode, PEER_CALLS["envrax"]),
                f"{peer} itself": partial(_output, bytecode, code),
            }
            for name in ("only the imports: gymnax", "only the imports: envrax"):
                ways[name] = partial(_output, bytecode, PEER_CALLS[name])
            title = "`gymnax/CartPole-v1`, from process start to the first step"
            tables.append(Table(title, compare(ways, repeats), 1))
    return tables


def both() -> list[Table]:
    """The import, then the compile cache, then another library's environment."""
    return [*imports(), *caches(), *peers()]


def _output(bytecode: str, code: str, *arguments: str) -> str:
    """Run code in a new process and return what it prints. Bytecode is cached, as if installed."""
    environment = os.environ | {"PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True)
    return done.stdout
