"""What the examples learn: each is run as a user would, and the numbers that it prints are kept."""

import re
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import Values

EXAMPLES = Path(__file__).parents[1] / "examples"
NUMBER = r"(-?\d+(?:\.\d+)?)"
SEEDS = 0, 1, 2
SMALL = ("--total-steps", "100000", "--entropy-weight", "0.01")
PPO = {
    "classic/CartPole-v0": (),
    "classic/Acrobot-v0": (),
    "classic/Pendulum-v0": (),
    "classic/Catch-v0": (),
    "classic/Ball-v0": (),
    "classic/ConnectFour-v0": (),
    "navix/Navix-Empty-5x5-v0": SMALL,
    "xminigrid/MiniGrid-Empty-5x5": SMALL,
    "jumanji/Snake-v1": ("--entropy-weight", "0.03"),
}
GAMES = "MPE_simple_spread_v3", "MPE_simple_speaker_listener_v4"


def ppo() -> list[Values]:
    """The mean return before and after training, by id."""
    rows = {id: _returns("ppo.py", id, *options) for id, options in PPO.items()}
    return [Values("PPO, mean return of 100 episodes", rows)]


def dqn() -> list[Values]:
    """DQN on MountainCar, and on pixels."""
    rows = {name: _returns("dqn.py", f"classic/{name}-v0") for name in ("MountainCar", "Catch")}
    return [Values("DQN, mean return of 100 episodes", rows)]


def fleet() -> list[Values]:
    """One policy for three environments."""
    printed, _ = _run("multi_task.py")
    found = re.findall(rf"(\S+)-v0 +\| +{NUMBER} +\| +{NUMBER}", printed)
    rows = {name: {"before": float(a), "after": float(b)} for name, a, b in found}
    return [Values("One policy, mean return", rows)]


def self_play() -> list[Values]:
    """Connect Four after training by self-play, in percent of the games."""
    tables: dict[str, dict[str, dict[str, float]]] = {}
    for seed in SEEDS:
        pattern = rf"against (.+): won {NUMBER}%, drawn {NUMBER}%, lost {NUMBER}%"
        for rival, *shares in re.findall(pattern, _run("self_play.py", "--seed", str(seed))[0]):
            numbers = dict(zip(("won", "drawn", "lost"), map(float, shares), strict=True))
            tables.setdefault(rival, {})[f"seed {seed}"] = numbers
    return [Values(f"Connect Four against {rival}", rows) for rival, rows in tables.items()]


def agents() -> list[Values]:
    """Independent PPO: the return of an agent of each kind, by steps and seed."""
    tables: list[Values] = []
    for game in GAMES:
        printed, _ = _run("ippo.py", f"jaxmarl/{game}")
        random = re.findall(NUMBER, re.findall("random play: (.*)", printed)[0])
        rows = {f"kind {i}, random play": {"return": float(x)} for i, x in enumerate(random)}
        for steps, means in re.findall(r"([\d,]+) steps: (.*)", printed):
            for i, seeds in enumerate(means.split("; ")):
                found = {f"seed {seed}": float(x) for seed, x in enumerate(seeds.split())}
                rows[f"kind {i}, {steps} steps"] = found
        tables.append(Values(game, rows))
    return tables


def mazes() -> list[Values]:
    """Prioritised level replay: percent of unknown mazes that are solved, over three seeds."""
    rows: dict[str, dict[str, float]] = {}
    printed, _ = _run("plr.py")
    pattern = rf"(.+): {NUMBER}% \({NUMBER}% to {NUMBER}%\) of (\w+) mazes"
    for name, *shares, kind in re.findall(pattern, printed):
        numbers = zip(("mean", "min", "max"), map(float, shares), strict=True)
        rows[f"{kind}, {name}"] = dict(numbers)
    return [Values("mazes solved, %", rows)]


def _returns(script: str, *options: str) -> dict[str, float]:
    printed, seconds = _run(script, *options)
    before, after = re.findall(rf"episodes: .*?{NUMBER} -> {NUMBER}", printed)[0]
    return {"before": float(before), "after": float(after), "s": seconds}


def _run(script: str, *options: str) -> tuple[str, float]:
    """What an example prints, and the seconds that it takes, in an empty working directory."""
    command = [sys.executable, str(EXAMPLES / script), *options]
    with TemporaryDirectory() as empty:
        begin = time.perf_counter()
        done = subprocess.run(command, check=True, cwd=empty, stdout=subprocess.PIPE, text=True)
        seconds = time.perf_counter() - begin
    print(done.stdout, flush=True)
    return done.stdout, seconds
