"""
Classic control and four small games for `envrax`.

Importing the package registers its suite: `envrax.make("classic/CartPole-v0")`.
"""

from envrax.classic.acrobot import Acrobot, AcrobotConfig, AcrobotState
from envrax.classic.ball import BallConfig, BallEnv, BallState
from envrax.classic.cartpole import CartPole, CartPoleConfig, CartPoleState
from envrax.classic.catch import Catch, CatchConfig, CatchState
from envrax.classic.connect_four import ConnectFour, ConnectFourConfig, ConnectFourState
from envrax.classic.maze import Maze, MazeConfig, MazeState
from envrax.classic.mountain_car import MountainCar, MountainCarConfig, MountainCarState
from envrax.classic.pendulum import Pendulum, PendulumConfig, PendulumState
from envrax.classic.suite import ClassicSuite
from envrax.registry import register_suite

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
