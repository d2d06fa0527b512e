"""
Classic control and four small games for `envrax`.

Importing the package registers its suite: `envrax.make("classic/CartPole-v0")`.
"""

from envrax import register_suite
from envrax_classic.acrobot import Acrobot, AcrobotConfig, AcrobotState
from envrax_classic.ball import BallConfig, BallEnv, BallState
from envrax_classic.cartpole import CartPole, CartPoleConfig, CartPoleState
from envrax_classic.catch import Catch, CatchConfig, CatchState
from envrax_classic.connect_four import ConnectFour, ConnectFourConfig, ConnectFourState
from envrax_classic.maze import Maze, MazeConfig, MazeState
from envrax_classic.mountain_car import MountainCar, MountainCarConfig, MountainCarState
from envrax_classic.pendulum import Pendulum, PendulumConfig, PendulumState
from envrax_classic.suite import ClassicSuite

__all__ = [
    "Acrobot",
    "AcrobotConfig",
    "AcrobotState",
    "BallConfig",
    "BallEnv",
    "BallState",
    "CartPole",
    "CartPoleConfig",
    "CartPoleState",
    "Catch",
    "CatchConfig",
    "CatchState",
    "ClassicSuite",
    "ConnectFour",
    "ConnectFourConfig",
    "ConnectFourState",
    "Maze",
    "MazeConfig",
    "MazeState",
    "MountainCar",
    "MountainCarConfig",
    "MountainCarState",
    "Pendulum",
    "PendulumConfig",
    "PendulumState",
]

register_suite(ClassicSuite())
