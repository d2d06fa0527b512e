"""The hyper-parameters of `ppo.py`, presets for some environments, and the command line."""

import argparse
import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import envrax

HOST = "gymnasium:"  # before the id of an environment of Gymnasium


@dataclass(frozen=True)
class Options:
    """The environment and the hyper-parameters. Every field is a command-line option."""

    env: str = "classic/CartPole-v0"
    seed: int = 0
    total_steps: int = 1_000_000  # of all slots together
    n_envs: int = 64
    n_steps: int = 32  # per slot between two updates
    epochs: int = 4
    minibatches: int = 8
    learning_rate: float = 1e-3  # falls to 0
    max_grad_norm: float = 0.5
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy_weight: float = 0.0
    value_weight: float = 0.5
    reward_scale: float = 1.0
    hidden: int = 64
    greedy: bool = True  # in evaluations and the video: the likeliest action, not a drawn one
    fps: int = 30  # of the video
    interval: int = 0  # updates in one call of the compiled program; 0: a twentieth of all

    def __post_init__(self) -> None:
        if self.interval < 0:
            raise ValueError(f"expected an interval of 0 updates or more; got {self.interval}.")
        if self.batch_size % self.minibatches:
            raise ValueError(
                "expected n_envs * n_steps to be a multiple of minibatches; got "
                f"{self.n_envs} * {self.n_steps} and {self.minibatches}."
            )

    @property
    def batch_size(self) -> int:
        """Steps between two updates, of all slots together."""
        return self.n_envs * self.n_steps

    @property
    def updates_per_call(self) -> int:
        """Updates in one call of the compiled program; about twenty calls make up the training."""
        return self.interval or math.ceil(self.total_steps / self.batch_size / 20)

    @property
    def n_calls(self) -> int:
        return math.ceil(self.total_steps / self.batch_size / self.updates_per_call)

    @property
    def n_descents(self) -> int:
        """Gradient steps in the whole run."""
        return self.n_calls * self.updates_per_call * self.epochs * self.minibatches


PRESETS: dict[str, dict[str, Any]] = {
    "classic/CartPole-v0": dict(
        total_steps=300_000, learning_rate=2e-3, gamma=0.98, gae_lambda=0.98
    ),
    "classic/Acrobot-v0": dict(total_steps=500_000),
    "classic/Pendulum-v0": dict(total_steps=1_500_000, gamma=0.95, reward_scale=0.1),
    "classic/Catch-v0": dict(total_steps=100_000, entropy_weight=0.01, fps=6),
    "classic/Ball-v0": dict(total_steps=300_000, fps=10),
    "classic/MountainCar-v0": dict(
        total_steps=600_000, n_envs=16, n_steps=16, minibatches=4, gae_lambda=0.98, reward_scale=0.1
    ),
    "classic/Maze-v0": dict(
        total_steps=1_200_000,
        n_envs=128,
        n_steps=128,
        minibatches=16,
        entropy_weight=0.02,
        hidden=128,
        greedy=False,
        fps=10,
    ),
    "classic/ConnectFour-v0": dict(total_steps=500_000, entropy_weight=0.01, fps=2),
    "gymnax/Breakout-MinAtar": dict(
        total_steps=1_200_000,
        n_envs=128,
        n_steps=64,
        minibatches=16,
        learning_rate=3e-3,
        gamma=0.995,
        entropy_weight=0.01,
        hidden=128,
        fps=10,
    ),
    "brax/inverted_pendulum": dict(total_steps=300_000, reward_scale=0.1),
    "jumanji/Snake-v1": dict(total_steps=500_000, entropy_weight=0.03, greedy=False, fps=8),
    "navix/Navix-Empty-5x5-v0": dict(total_steps=100_000, entropy_weight=0.01, fps=6),
    "craftax/Craftax-Classic-Symbolic-v1": dict(
        total_steps=700_000, n_envs=128, n_steps=64, entropy_weight=0.01, greedy=False, fps=6
    ),
    "pgx/minatar-breakout": dict(n_envs=128, entropy_weight=0.01, fps=10),
    "xminigrid/MiniGrid-Empty-5x5": dict(total_steps=100_000, entropy_weight=0.01, fps=6),
    "kinetix/s/h4_thrust_aim": dict(total_steps=300_000, entropy_weight=0.01, fps=15),
    "playground/CartpoleBalance": dict(total_steps=200_000, reward_scale=0.1),
    "jaxmarl/MPE_simple_spread_v3": dict(n_envs=96, minibatches=12, fps=6),
    "gymnasium:ALE/Breakout-v5": dict(
        total_steps=20_000, n_envs=16, learning_rate=5e-4, entropy_weight=0.01, greedy=False
    ),
}


def add_flags(parser: argparse.ArgumentParser, preset: dict[str, Any]) -> None:
    """Add an option for every field of `Options` except the environment."""
    for field in fields(Options)[1:]:
        kind: Any = field.type
        flag = f"--{field.name.replace('_', '-')}"
        default = preset.get(field.name, field.default)
        if kind is bool:
            on_or_off = argparse.BooleanOptionalAction
            parser.add_argument(flag, action=on_or_off, help=f"({default})")
        else:
            parser.add_argument(flag, type=kind, metavar=kind.__name__, help=f"({default})")


class Run(NamedTuple):
    """How it is trained, and what is written beside the learning curve."""

    video: bool = True
    checkpoint: Path | None = None  # the directory
    mesh: bool = False


def parse(arguments: Sequence[str] | None = None) -> tuple[Options, Run]:
    """
    Read the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        In place of the arguments of the process.

    Returns
    -------
    options : Options
        Defaults are those of `PRESETS`, else those of `Options`.
    run : Run
    """
    parser = argparse.ArgumentParser(
        usage="ppo.py [env] [options]",
        description="Train PPO on any environment that envrax knows by name.",
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("env", nargs="?", default=Options.env, help="its name")
    parser.add_argument(
        "--import",
        dest="package",
        default="envrax",
        help="a package that registers it, where its prefix does not tell",
    )
    parser.add_argument("--no-video", dest="video", action="store_false", default=True)
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="DIR",
        default=None,
        help="save the training there after every call, and go on from what is saved there",
    )
    parser.add_argument(
        "--mesh", action="store_true", default=False, help="spread the slots over all devices"
    )
    add_flags(parser, {})
    given = vars(parser.parse_args(arguments))
    package = given.pop("package")
    run = Run(**{name: given.pop(name) for name in Run._fields})
    try:
        importlib.import_module(package)
        if not given["env"].startswith(HOST):
            envrax.get_spec(given["env"])
        return Options(**{**PRESETS.get(given["env"], {}), **given}), run
    except (ImportError, ValueError) as error:
        parser.error(str(error))
