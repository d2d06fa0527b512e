"""Playing a policy: `start`, `rollout`, `episodes`, `evaluate`, `evaluate_grid`."""

from envrax.rollouts.evaluate import evaluate
from envrax.rollouts.evaluation import Evaluation
from envrax.rollouts.grid import GridEvaluation, evaluate_grid
from envrax.rollouts.numpy_episodes import Episode, episodes
from envrax.rollouts.policy_step import Rollout, Transition
from envrax.rollouts.rollout import rollout, start

__all__ = [
    "Episode",
    "Evaluation",
    "GridEvaluation",
    "Rollout",
    "Transition",
    "episodes",
    "evaluate",
    "evaluate_grid",
    "rollout",
    "start",
]
