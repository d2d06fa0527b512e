# pyright: basic, reportMissingImports=false
"""
Packages without an adapter, through `envrax.wrap`, beside loops of their own functions.

Each package is installed apart, with `pip install --no-deps` where it pins an old JAX::

    python -m benchmarks.elsewhere nasimjax pobax

tries these two, and writes what it finds into `benchmarks/results/elsewhere.json`.
"""

import json
import os
import signal
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import envrax
from envrax.interop.containers import as_dicts
from envrax.testing import report_env

RESULTS = Path(__file__).parent / "results" / "elsewhere.json"
STEPS = 200
SECONDS = 240
"""The time that one check may take."""


class Row(NamedTuple):
    """
    An environment of a package.

    Attributes
    ----------
    name : str
        What is tried.
    setup : str
        Lines that make `peer`, and `params` if it has any.
    keywords : str
        Arguments of `wrap` after `peer`.
    reset : str
        `(obs, state)`, by its own functions, from `peer`, `params` and `key`.
    step : str
        `(obs, state, reward, done)`, also from `state` and `action`.
    """

    name: str
    setup: str
    keywords: str = ""
    reset: str = "peer.reset_env(key, params)"
    step: str = "peer.step_env(key, state, action, params)[:4]"


def bare(*packages: str) -> None:
    """Import packages without the lines of their `__init__`, where these cannot run."""
    for name in packages:
        module = sys.modules[name] = ModuleType(name)
        folders = (os.path.join(x, *name.split(".")) for x in sys.path)
        module.__path__ = [x for x in folders if os.path.isdir(x)]


def pobax(module: str, name: str) -> str:
    return (
        f"bare('pobax', 'pobax.envs', 'pobax.envs.jax')\n"
        f"from pobax.envs.jax.{module} import {name}\npeer = {name}()\n{DEFAULT}"
    )


def gymnax_like(module: str, name: str) -> str:
    return f"from {module} import {name}\npeer = {name}()\n{DEFAULT}"


DEFAULT = "params = peer.default_params"
TRUNCATED = (
    "(lambda o, s, r, d, i: (o, s, r, d | peer.is_truncated(s, params)))"
    "(*peer.step_env(key, state, action, params))"
)
BRAX = {
    "reset": "(lambda s: (s.obs, s))(peer.reset(key))",
    "step": "(lambda s: (s.obs, s, s.reward, s.done))(peer.step(state, action))",
}
IN_TURN = {
    "reset": "(lambda s: (seen(s), s))(peer.init(key))",
    "step": "(lambda s: (seen(s), s, [*s.rewards], s.terminated | s.truncated))"
    "(peer.step(state, jnp.stack([*action.values()])[state.current_player]))",
}
SEEN = "seen = lambda s: {f'player_{i}': peer.observe(s, i) for i in range(2)}"

ROWS = {
    "alem-env": [
        Row(
            "AlemCoopSymbolicEnv",
            "from alem.alem_coop.envs.alem_symbolic_env import AlemCoopSymbolicEnv\n"
            "peer = AlemCoopSymbolicEnv(num_agents=2)",
            "max_steps=10_000",
            "peer.reset(key)",
            "(lambda o, s, r, d, i: (o, s, r, d['__all__']))(*peer.step_env(key, state, action))",
        )
    ],
    "floxs": [
        Row(
            name,
            f"from floxs.{module}.env import {name}\npeer = {name}()",
            "",
            "(lambda s, t: (t.observation, s))(*peer.reset(key))",
            "(lambda s, t: (t.observation, s, sum(x.sum() for x in jax.tree.leaves(t.reward)),"
            " t.last()))(*peer.step(state, action))",
        )
        for module, name in (("flock", "Flock"), ("predator_prey", "PredatorPrey"))
    ],
    "jax-envelope": [
        Row(
            "gymnax::CartPole-v1",
            "from envelope.adapters.gymnax_envelope import GymnaxEnvelope\n"
            "peer = GymnaxEnvelope.from_name('CartPole-v1')",
            "",
            "(lambda s, i: (i.obs, s))(*peer.init(key))",
            "(lambda s, i: (i.obs, s, i.reward, i.terminated))(*peer.step(state, action))",
        )
    ],
    "jaxarc": [
        Row(
            "Mini",
            "from jaxarc import JaxArcConfig\nfrom jaxarc.registration import make\n"
            "peer, params = make('Mini', config=JaxArcConfig())",
            "params, legacy_keys=True",
            "(lambda s, t: (t.observation, s))(*peer.reset(key, params))",
            "(lambda s, t: (t.observation, s, t.reward, t.last()))"
            "(*peer.step(state, action, params))",
        )
    ],
    "jaxgcrl": [
        Row(
            "Reacher",
            "bare('jaxgcrl', 'jaxgcrl.envs')\n"
            "from jaxgcrl.envs.reacher import Reacher\npeer = Reacher()",
            **BRAX,
        )
    ],
    "jaxnasium": [
        Row(
            name,
            f"import jaxnasium\npeer = jaxnasium.envs.{name}()",
            "",
            "peer.reset_env(key)",
            "(lambda t, s: (t.observation, s, t.reward, t.terminated | t.truncated))"
            "(*peer.step_env(key, state, action))",
        )
        for name in ("CartPole", "Pendulum")
    ],
    "lerax": [
        Row(
            "CartPole",
            "from lerax.env.classic_control import CartPole\npeer = CartPole()",
            "reset='initial', step='transition'",
            "(lambda s: (peer.observation(s, key=key), s))"
            "(peer.initial(key=jax.random.split(key, 3)[0]))",
            "(lambda s: (peer.observation(s, key=key), s,"
            " peer.reward(state, action, s, key=key), peer.terminal(s, key=key)))"
            "(peer.transition(state, action, key=key))",
        )
    ],
    "ludax": [
        Row(
            game,
            "import os, ludax\nfrom ludax.environment import LudaxEnvironment\n"
            "path = os.path.join(os.path.dirname(ludax.__file__), 'games')\n"
            f"peer = LudaxEnvironment(game_path=path + '/{game}.ldx')\n{SEEN}",
            "resets=False",
            **IN_TURN,
        )
        for game in ("tic_tac_toe", "connect_four")
    ],
    "lynnx": [
        Row(
            "FlappyBirdEnv",
            "from lynnx.envs.flappy_bird.flappy_bird_env import FlappyBirdEnv\n"
            "peer = FlappyBirdEnv()",
            "",
            "(lambda s, i: (peer.get_obs(key, s), s))(*peer.reset(jax.random.split(key)[0]))",
            "(lambda s, r, d, t, i: (peer.get_obs(key, s), s, r, d))"
            "(*peer.step(jax.random.split(key)[0], state, action))",
        )
    ],
    "matrax": [
        Row(
            "Penalty-0-stateless-v0",
            "import matrax\npeer = matrax.make('Penalty-0-stateless-v0')",
            "",
            "(lambda s, t: (t.observation, s))(*peer.reset(key))",
            "(lambda s, t: (t.observation, s, t.reward.sum(), t.last()))(*peer.step(state, action))",
        )
    ],
    "nasimjax": [
        Row(
            "tiny",
            "from nasimjax.envs.environment import NASimEnvJAX\n"
            "from nasimjax.scenarios import make_benchmark_scenario\n"
            f"peer = NASimEnvJAX(make_benchmark_scenario('tiny'))\n{DEFAULT}",
        ),
        Row(
            "generated",
            "from nasimjax.envs.generated_environment import ProcGenNASimJaxEnv\n"
            f"peer = ProcGenNASimJaxEnv(jax.random.key(0))\n{DEFAULT}",
        ),
    ],
    "plane-env": [
        Row(
            "Airplane2D",
            gymnax_like("plane_env.env_jax", "Airplane2D"),
            "limit='params.max_steps_in_episode'",
        )
    ],
    "pobax": [
        Row("TMaze", pobax("tmaze", "TMaze"), "done='terminated'"),
        Row("SimpleChain", pobax("simple_chain", "SimpleChain"), "done='terminated'"),
        Row("Battleship", pobax("battleship", "Battleship"), "done='terminated'"),
        Row("PocMan", pobax("pocman", "PocMan"), "done='terminated'"),
    ],
    "qenvs": [
        Row(
            "qubit/StateTransfer-v0",
            "import qenvs\npeer = qenvs.make('qubit/StateTransfer-v0')\n"
            "n, bound = peer.action_dim, peer.action_bound",
            "action_space=envrax.Box(-bound, bound, (n,))",
            "(lambda s, t: (t.observation, s))(*peer.reset(key))",
            "(lambda s, t: (t.observation, s, t.reward, t.done))(*peer.step(state, action))",
        )
    ],
    "rl2xla": [
        Row(
            "jax_env",
            "import rl2xla.jax_env as peer",
            "action_space=envrax.Box(-1.0, 1.0, (2,)), max_steps=100,"
            " step='step(state, action) -> state, reward, done, success'",
            "(lambda s: (peer.get_obs(s), s))(peer.reset(key))",
            "(lambda s, r, d, _: (peer.get_obs(s), s, r, d))(*peer.step(state, action))",
        )
    ],
    "safenax": [
        Row("FrozenLakeV1", gymnax_like("safenax", "FrozenLakeV1"), step=TRUNCATED),
        Row("EcoAntV2", "from safenax import EcoAntV2\npeer = EcoAntV2()", **BRAX),
    ],
    "target-gym": [
        Row(name, gymnax_like("target_gym", name), step=TRUNCATED)
        for name in ("Airplane2D", "Reactor", "CSTR", "GridBattery")
    ],
    "vamos-rl": [
        Row(
            "CartPoleEnv",
            "from vamos.environments.classic_control.cartpole import CartPoleEnv\n"
            "peer, params = CartPoleEnv.new()",
            "params",
            "(lambda t, s: (t.obs, s))(*peer.reset(params, key))",
            "(lambda t, s: (t.obs, s, t.reward, t.termination | t.truncation))"
            "(*peer.step(state, action, params, key))",
        )
    ],
}


def difference(row: Row, names: dict[str, Any], env: Any) -> str:
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
        obs, after, reward, done = eval(row.step, values)
        done = jnp.reshape(jnp.asarray(done), ()).astype(bool)
        begun = eval(row.reset, {**names, "key": jax.random.split(again)[1]})[1]
        chosen = jax.tree.map(lambda a, b: jnp.where(done, a, b).astype(b.dtype), begun, after)
        return chosen, (obs, reward, done)

    key = jax.random.PRNGKey(0) if "legacy_keys" in row.keywords else jax.random.key(0)
    keys = jax.random.split(key, STEPS)
    first = jax.jit(env.reset)(key)[1]
    _, played = jax.jit(lambda s: jax.lax.scan(ours, (s, key), keys))(first)
    state = eval(row.reset, {**names, "key": jax.random.split(key)[1]})[1]
    state = jax.tree.map(jnp.asarray, state)
    with jax.numpy_dtype_promotion("standard"):
        _, own = jax.jit(lambda s: jax.lax.scan(theirs, s, played[:3]))(state)
    pairs = zip(
        jax.tree.leaves(as_dicts(played[3:])), jax.tree.leaves(as_dicts(own)), strict=True
    )
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


def try_row(package: str, row: Row) -> dict[str, Any]:
    """All that is found of an environment."""
    names: dict[str, Any] = {"jax": jax, "jnp": jnp, "envrax": envrax, "bare": bare, "params": None}
    exec(row.setup, names)
    line = f"envrax.wrap(peer, {row.keywords})".replace(", )", ")")
    start = time.perf_counter()
    env = eval(line, names)
    seconds = time.perf_counter() - start
    reading = getattr(env.unwrapped, "reading", None)
    found = {
        "version": version(package),
        "jax": jax.__version__,
        "line": line,
        "seconds": round(seconds, 1),
        "recognised": str(reading or env).splitlines(),
    }
    print(package, row.name, found["line"], *found["recognised"], sep="\n    ", flush=True)
    found["own loop"] = difference(row, names, env)
    print("    own loop:", found["own loop"], flush=True)
    found["check"] = verdict(env)
    print("    check:", found["check"], flush=True)
    return found


def main(packages: list[str]) -> None:
    """Try packages, and keep what is found."""
    warnings.simplefilter("ignore")
    for package in packages or ROWS:
        for row in ROWS[package]:
            found = try_row(package, row)
            results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
            results[f"{package}: {row.name}"] = found
            RESULTS.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
