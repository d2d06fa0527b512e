"""Hand-written policies for `envrax.classic`, from a state to an action."""

import math
from collections import deque
from typing import Any

import numpy as np

from envrax.classic.connect_four import connected

CART_PERIOD = 240  # steps in which the cart goes to and fro once


def cart_pole(state: Any) -> int:
    """Feedback on the whole state, towards a goal that changes sides: balance alone is dull."""
    goal = 1.0 if state.step % CART_PERIOD < CART_PERIOD / 2 else -1.0
    away = state.position - goal
    return int(2 * away + 3 * state.velocity + 25 * state.angle + 5 * state.spin > 0)


def mountain_car(state: Any) -> int:
    """Push the way the car rolls."""
    return 2 if state.velocity >= 0 else 0


def pendulum(state: Any) -> np.ndarray:
    """Add or take energy until it is that of standing upright, then hold."""
    tilt, speed = math.remainder(state.angle, 2 * math.pi), float(state.speed)
    if abs(tilt) < 0.4 and abs(speed) < 3:
        torque = -10 * tilt - 3 * speed
    else:
        torque = math.copysign(15 * (1 - math.cos(tilt)) - speed**2 / 2, speed)
    return np.array([np.clip(torque, -2, 2)], np.float32)


def acrobot(state: Any) -> int:
    """Turn the elbow against the swing of the shoulder, which feeds it."""
    return 2 if state.speed_1 < 0 else 0


def catch(state: Any) -> int:
    """Move to the ball's column."""
    return 1 + int(np.sign(state.ball_column - state.paddle))


def ball(state: Any) -> int:
    """Close the larger of the two gaps."""
    gap = np.asarray(state.target - state.ball)
    axis = int(np.argmax(np.abs(gap)))
    return 2 * axis + int(gap[axis] > 0)


def maze(state: Any) -> int:
    """The first move of the shortest path, found breadth first from the goal."""
    walls, here = np.asarray(state.walls), (int(state.row), int(state.column))
    goal = len(walls) - 2
    queue = deque([(goal, goal)])
    seen = set(queue)
    while queue:
        row, column = queue.popleft()
        # A search from the goal walks every move backwards: action 0, up, comes from below.
        for action, (down, right) in enumerate([(1, 0), (-1, 0), (0, 1), (0, -1)]):
            before = (row + 2 * down, column + 2 * right)
            if not walls[row + down, column + right] and before not in seen:
                if before == here:
                    return action
                seen.add(before)
                queue.append(before)
    raise ValueError(f"expected a maze with a way to its goal; got none from {here}.")


def connect_four(state: Any) -> int:
    """Win if it can, else stop the other from it, else play near the middle."""
    board = np.asarray(state.board)
    legal = [column for column in (3, 2, 4, 1, 5, 0, 6) if board[0, column] == 0]
    for stone in (1, -1):
        for column in legal:
            after = board.copy()
            after[np.flatnonzero(board[:, column] == 0)[-1], column] = stone
            if connected(after == stone):
                return column
    return legal[0]
