"""The start of a new process: the import, the time until the first step, and what is compiled."""

import json
import os
import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from tempfile import TemporaryDirectory

from benchmarks.measure import ROUNDS, Table, Values, Work, compare

# Prints the seconds from `import envrax` to the end of the code, and how many programs were made.
FRAME = """
import json, time
import jax
programs = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, *_, **__: "backend_compile" in event and programs.append(event)
)
begin = time.perf_counter()
import envrax
import jax.numpy as jnp
from envrax.classic import CartPole
N = 64
{code}
jax.block_until_ready(last)
print(json.dumps([time.perf_counter() - begin, len(programs)]))
"""
ONE = """
obs, state = reset(jax.random.key(0))
last = step(state, jnp.int32(0))
"""
MANY = """
obs, state = reset(jax.random.key(0))
last = step(state, jnp.zeros(N, jnp.int32))
"""
LOOP = """
def body(state, rng):
    obs, state, reward, done, info = step(state, jax.random.randint(rng, (N,), 0, 2))
    return state, (obs, reward)

@jax.jit
def train(rng):
    return jax.lax.scan(body, reset(rng)[1], jax.random.split(rng, 100))

last = train(jax.random.key(0))
"""
BY_HAND = """
env = CartPole()

def reset(rng):
    return jax.vmap(env.reset)(jax.random.split(rng, N))

def step(state, actions):
    def one(state, action):
        obs, after, reward, done, info = env.step(state, action)
        first_obs, first = env.reset(after.rng)
        either = lambda new, old: jnp.where(done, new, old)
        obs, after = jax.tree.map(either, (first_obs, first), (obs, after))
        return obs, after, reward, done, info

    return jax.vmap(one)(state, actions)
"""
MAKE_VEC = "env = envrax.make_vec('classic/CartPole-v0', N{})\nreset, step = env.reset, env.step\n"
WAYS = {
    "`make`": {
        "by hand": "env = CartPole()\nreset, step = jax.jit(env.reset), jax.jit(env.step)" + ONE,
        "envrax": "env = envrax.make('classic/CartPole-v0')\nreset, step = env.reset, env.step"
        + ONE,
    },
    "`make_vec`": {
        "by hand": BY_HAND + "reset, step = jax.jit(reset), jax.jit(step)" + MANY,
        "envrax": MAKE_VEC.format("") + MANY,
    },
    "a loop of your own": {
        "by hand": BY_HAND + LOOP,
        "envrax, `pre_warm=False`": MAKE_VEC.format(", pre_warm=False") + LOOP,
        "envrax, compiled ahead as well": MAKE_VEC.format("") + LOOP,
    },
}
# Prints the CPU seconds of a process, its programs, and those that it did not find in the cache.
COUNTED = """
import json, time
import jax
programs, hits = [], []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, *_, **__: "backend_compile" in event and programs.append(event)
)
jax.monitoring.register_event_listener(
    lambda event, **_: event.endswith("/cache_hits") and hits.append(event)
)
key = jax.random.key(0)
programs.clear()
hits.clear()
{code}
print(json.dumps([time.process_time(), len(programs), len(programs) - len(hits)]))
"""
PLAYED = """
import envrax
env = envrax.make_vec("{id}", 4)
envrax.rollout(env, None, envrax.start(env, key), 5)
jax.block_until_ready(envrax.evaluate(env, None, key, 4, max_steps=20))
"""
JUMANJI = """
import jumanji
env = jumanji.make("Maze-v0")
reset, step = jax.vmap(env.reset), jax.vmap(env.step)

@jax.jit
def play(state, keys):
    def one(state, key):
        actions = jax.random.randint(key, (4,), 0, 4)
        return step(state, actions)
    return jax.lax.scan(one, state, keys)

state, _ = jax.jit(reset)(jax.random.split(key, 4))
jax.block_until_ready([play(state, jax.random.split(key, n)) for n in (5, 20)])
"""
SECOND = {
    "classic/CartPole-v0": ("", PLAYED.format(id="classic/CartPole-v0")),
    "gymnax/CartPole-v1": ("gymnax", PLAYED.format(id="gymnax/CartPole-v1")),
    "jumanji/Maze-v0": ("jumanji", PLAYED.format(id="jumanji/Maze-v0")),
    "jumanji's Maze alone, JAX's cache": ("jumanji", JUMANJI),
}


def start() -> list[Table | Values]:
    """The import; the first step, and a second process, with an empty and a filled cache."""
    with TemporaryDirectory() as bytecode:
        return [*_imports(bytecode), _second_processes(bytecode), *_first_steps(bytecode)]


def _second_processes(bytecode: str) -> Values:
    rows = dict[str, dict[str, float]]()
    for name, (package, code) in SECOND.items():
        if package and not find_spec(package):
            continue
        with TemporaryDirectory() as cache:
            kept = {"cache": cache} if code is JUMANJI else {"ours": cache}
            for which in ("first", "second"):
                printed = _output(bytecode, COUNTED.format(code=code), **kept)
                seconds, made, compiled = json.loads(printed.splitlines()[-1])
                found = {"CPU s": seconds, "programs": made, "compiled": compiled}
                rows[f"{name}, {which}"] = found
    return Values("make_vec, rollout, evaluate: the first and the second process", rows)


def _imports(bytecode: str) -> list[Table]:
    codes = "import jax, chex", "import envrax"
    ways: dict[str, Work] = {code: partial(_output, bytecode, code) for code in codes}
    return [Table("Import, fresh process each", compare(ways), 1)]


def _first_steps(bytecode: str) -> list[Table | Values]:
    tables = list[Table | Values]()
    programs = dict[str, dict[str, float]]()
    for title, codes in WAYS.items():
        times = {kind: {way: list[float]() for way in codes} for kind in ("cold", "warm")}
        for turn in range(ROUNDS):
            for way, code in list(codes.items())[:: -1 if turn % 2 else 1]:
                with TemporaryDirectory() as cache:
                    for kind in times:
                        run = _output(bytecode, FRAME.format(code=code), cache)
                        seconds, made = json.loads(run)
                        times[kind][way].append(seconds)
                        programs[f"{title}: {way}"] = {"programs": made}
        tables += [Table(f"{title}, {kind}", found, 1) for kind, found in times.items()]
    return [*tables, Values("programs until the first step", programs)]


def _output(bytecode: str, code: str, cache: str | None = None, ours: str | None = None) -> str:
    """
    Run code in a new process and return what it prints.

    Bytecode is cached, as if installed. `cache` is JAX's compile cache, in which all programs are
    kept, and `ours` is that of `make`; without one it is empty.
    """
    with TemporaryDirectory() as empty:
        environment = os.environ | {"PYTHONPYCACHEPREFIX": bytecode}
        environment["ENVRAX_CACHE_DIR"] = ours or empty
        environment["PYTHONPATH"] = os.pathsep.join(sys.path)
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        if cache:
            environment["JAX_COMPILATION_CACHE_DIR"] = cache
            environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
            environment["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
        command = [sys.executable, "-c", code]
        done = subprocess.run(
            command, check=True, env=environment, stdout=subprocess.PIPE, text=True
        )
    return done.stdout
