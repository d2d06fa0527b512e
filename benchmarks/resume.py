"""
SIGKILL at random moments: what the example PPO, run with `--checkpoint`, goes on from.

    python -m benchmarks resume
"""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "examples"))

import jax
import numpy as np
import ppo
import ppo_checkpoint
from ppo_checkpoint import Checkpoints, digest
from ppo_options import parse

FLAGS = ["--total-steps=800000", "--interval=8", "--no-video"]
OPTIONS = parse(FLAGS)[0]


class Told(Checkpoints):
    """Prints a line when a phase begins: its name, and the updates done by then."""

    def restore(self, training: Any) -> tuple[Any, int]:
        training, calls = super().restore(training)
        self.tell("train", calls)
        return training, calls

    def save(self, training: Any, calls: int) -> None:
        self.tell("save", calls)
        super().save(training, calls)
        self.tell("train" if calls < OPTIONS.n_calls else "evaluate", calls)

    def tell(self, phase: str, calls: int) -> None:
        print(phase, calls * OPTIONS.interval, flush=True)


@dataclass
class Life:
    """What is known of a process."""

    seconds: float
    killed: bool
    phase: str  # in the end
    done: int  # updates, those of the call under way included
    resumed: int | None  # from this update; None if it did not come to that


@dataclass(frozen=True)
class Kills:
    """The processes of some trainings, each of which is killed until it is over."""

    seconds: float  # of a process that is not killed
    trainings: list[list[Life]]
    same: list[bool]  # whether the end of a training is that of the one that was not killed

    def markdown(self) -> str:
        o, rows, losses = OPTIONS, list[str](), list[int]()
        for number, lives in enumerate(self.trainings, 1):
            for i, life in enumerate(lives[:-1]):  # the last one was not killed
                resumed = next(x.resumed for x in lives[i + 1 :] if x.resumed is not None)
                losses.append(max(0, life.done - resumed))
                row = number, len(losses), f"{life.seconds:.2f}", life.phase, resumed, losses[-1]
                rows.append("| " + " | ".join(map(str, row)) + " |")
        return "\n".join(
            [
                f"### PPO on {o.env}, {o.n_calls} calls of {o.interval} updates",
                "",
                "| training | kill | second | in | resumed from update | updates lost |",
                "|---|---|---|---|---|---|",
                *rows,
                "",
                f"Not killed, a process takes {self.seconds:.1f} s.",
                f"The most updates lost: {max(losses)}; a call has {o.interval}.",
                f"Equal to the bit to the one that was not killed: {sum(self.same)} of the "
                f"{len(self.same)} trainings, in parameters, optimiser, environments and curve.",
            ]
        )


def sigkill(n_kills: int = 20, seed: int = 0) -> list[Kills]:
    """
    Kill a training until it is over, then another one, until there were enough kills.

    The moments are uniform over the time that a process takes which is not killed.
    """
    moments, trainings, same = random.Random(seed), list[list[Life]](), list[bool]()
    with TemporaryDirectory() as scratch:
        root = Path(scratch)
        _live(root, "cache", until=None)  # fills the compile cache
        whole = _live(root, "whole", until=None)
        while n_kills > 0:
            folder, lives = f"killed-{len(trainings)}", list[Life]()
            while not lives or lives[-1].killed:
                until = moments.uniform(0, whole.seconds) if n_kills else None
                lives.append(_live(root, folder, until))
                n_kills -= lives[-1].killed
                print(lives[-1], flush=True)
            trainings.append(lives)
            same.append(_end(root / folder) == _end(root / "whole"))
    return [Kills(whole.seconds, trainings, same)]


def _live(root: Path, folder: str, until: float | None) -> Life:
    """Run a process, and kill it after `until` seconds, unless it is over by then."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, sys.path)),
        "PYTHONUNBUFFERED": "1",
        "JAX_COMPILATION_CACHE_DIR": str(root / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    command = [sys.executable, __file__, f"--checkpoint={root / folder}", *FLAGS]
    begin = time.perf_counter()
    with (root / "told").open("w") as told, (root / "errors").open("w") as errors:
        process = subprocess.Popen(command, cwd=root, env=environment, stdout=told, stderr=errors)
        try:
            status = process.wait(until)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
    seconds = time.perf_counter() - begin
    if status not in (0, -signal.SIGKILL):
        raise RuntimeError(f"{command} failed; it said: {(root / 'errors').read_text()}")
    phase, done, resumed = "imports", 0, None
    for line in (root / "told").read_text().splitlines():
        first, *_, last = line.split()
        if first == "PPO":
            phase = "compile"
        elif first in ("train", "save", "evaluate"):
            phase, done = first, int(last)
            resumed = done if resumed is None else resumed
    done += OPTIONS.interval * (phase == "train")
    return Life(seconds, status != 0, phase, done, resumed)


def _end(folder: Path) -> str:
    """The digest of the training that is saved last, when it is over."""
    o = OPTIONS
    history = np.zeros((o.n_calls, o.updates_per_call, 2, 1), np.float32)
    training = jax.jit(ppo.PPO(o).init)(o.seed), history
    training, calls = Checkpoints(folder, o).restore(training)
    return digest(training) if calls == o.n_calls else "not finished"


if __name__ == "__main__":
    ppo_checkpoint.Checkpoints = Told
    ppo.main(sys.argv[1:])
