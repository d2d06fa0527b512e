"""The suite: the list of environments and their names."""

from dataclasses import dataclass, field

from envrax import EnvSpec, EnvSuite
from envrax_classic.acrobot import Acrobot, AcrobotConfig
from envrax_classic.ball import BallConfig, BallEnv
from envrax_classic.cartpole import CartPole, CartPoleConfig
from envrax_classic.catch import Catch, CatchConfig
from envrax_classic.connect_four import ConnectFour, ConnectFourConfig
from envrax_classic.maze import Maze, MazeConfig
from envrax_classic.mountain_car import MountainCar, MountainCarConfig
from envrax_classic.pendulum import Pendulum, PendulumConfig


def _specs() -> list[EnvSpec]:
    return [
        EnvSpec("CartPole", CartPole, CartPoleConfig()),
        EnvSpec("MountainCar", MountainCar, MountainCarConfig()),
        EnvSpec("Pendulum", Pendulum, PendulumConfig()),
        EnvSpec("Acrobot", Acrobot, AcrobotConfig()),
        EnvSpec("Catch", Catch, CatchConfig()),
        EnvSpec("Ball", BallEnv, BallConfig()),
        EnvSpec("Maze", Maze, MazeConfig()),
        EnvSpec("ConnectFour", ConnectFour, ConnectFourConfig()),
    ]


@dataclass
class ClassicSuite(EnvSuite):
    """Eight small environments under `classic/`."""

    prefix: str = "classic"
    category: str = "classic"
    specs: list[EnvSpec] = field(default_factory=_specs)
