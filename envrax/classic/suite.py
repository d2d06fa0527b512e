"""The suite: the list of environments and their names."""

from dataclasses import dataclass, field

from envrax.classic.acrobot import Acrobot, AcrobotConfig
from envrax.classic.ball import BallConfig, BallEnv
from envrax.classic.cartpole import CartPole, CartPoleConfig
from envrax.classic.catch import Catch, CatchConfig
from envrax.classic.connect_four import ConnectFour, ConnectFourConfig
from envrax.classic.maze import Maze, MazeConfig
from envrax.classic.mountain_car import MountainCar, MountainCarConfig
from envrax.classic.pendulum import Pendulum, PendulumConfig
from envrax.registry import EnvSpec
from envrax.suite import EnvSuite


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
