"""Playing a policy: `start`, `rollout`, `episodes`, `FrameBuffer`, `evaluate`, `evaluate_grid`."""

from envrax.rollouts.episodes import Episode, episodes
from envrax.rollouts.evaluate import evaluate
from envrax.rollouts.frames import FrameBuffer
from envrax.rollouts.grid import GridEvaluation, evaluate_grid
from envrax.rollouts.results import Evaluation
from envrax.rollouts.rollout import Rollout, Transition, rollout, start

__all__ = [
    "Episode",
    "Evaluation",
    "FrameBuffer",
    "GridEvaluation",
    "Rollout",
    "Transition",
    "episodes",
    "evaluate",
    "evaluate_grid",
    "rollout",
    "start",
]
