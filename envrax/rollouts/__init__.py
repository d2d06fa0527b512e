"""Playing a policy: `start`, `rollout`, `evaluate`, `evaluate_grid`."""

from envrax.rollouts.evaluate import Evaluation, evaluate
from envrax.rollouts.grid import GridEvaluation, evaluate_grid
from envrax.rollouts.policy_step import Rollout, Transition
from envrax.rollouts.rollout import rollout, start

__all__ = [
    "Evaluation",
    "GridEvaluation",
    "Rollout",
    "Transition",
    "evaluate",
    "evaluate_grid",
    "rollout",
    "start",
]
