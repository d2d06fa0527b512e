# pyright: reportMissingImports=false
"""Brax and MuJoCo Playground, against Gymnasium's MuJoCo."""

from typing import Any

import numpy as np

from benchmarks.ports.port import Port, gymnasium_port


def put_pendulum(reference: Any, state: Any) -> None:
    inner = state.inner.pipeline_state
    reference.unwrapped.set_state(np.asarray(inner.q, np.float64), np.asarray(inner.qd, np.float64))


def scaled(action: Any) -> Any:
    return 3 * np.asarray(action)


CAUSE = (
    "the physics is similar: it integrates with Euler's method, not RK4 (with Euler's in the "
    "original too, the median error of the position after one step falls from 0.0099 to 0.0003); "
    "the last step is rewarded with 1, not 0; actions are in [-1, 1], not in [-3, 3]"
)
PENDULUM = gymnasium_port(
    "brax/inverted_pendulum", "InvertedPendulum-v5", CAUSE, inject=put_pendulum, act=scaled
)
CONTROL = Port(
    "playground/CartpoleBalance",
    "DeepMind Control's cartpole",
    "dm_control",
    cause="its original takes no Gymnasium calls; nobody has written the class around it yet",
)
PORTS = {"brax": [PENDULUM], "playground": [CONTROL]}
