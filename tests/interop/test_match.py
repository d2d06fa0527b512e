"""gymnax's classic environments against Gymnasium's, state by state."""

from typing import Any

import gymnasium
import numpy as np
import pytest

import envrax
from envrax.testing import match_env

STATES = {
    "CartPole-v1": ("x", "x_dot", "theta", "theta_dot"),
    "MountainCar-v0": ("position", "velocity"),
    "MountainCarContinuous-v0": ("position", "velocity"),
    "Pendulum-v1": ("theta", "theta_dot"),
    "Acrobot-v1": ("joint_angle1", "joint_angle2", "velocity_1", "velocity_2"),
}


@pytest.mark.parametrize("name", STATES)
def test_gymnax_is_gymnasium_but_for_one_wall(name: str) -> None:
    def inject(reference: Any, state: Any) -> None:
        numbers = [getattr(state.inner, x) for x in STATES[name]]
        reference.unwrapped.state = np.array(numbers, np.float64)

    reference = gymnasium.make(name, disable_env_checker=True)
    match = match_env(envrax.make(f"gymnax/{name}", jit_compile=False), reference, inject)
    is_wrong = name == "MountainCarContinuous-v0"
    assert match.ok is not is_wrong, str(match)
    differing = {check.name: check for check in match.checks if check.verdict == "differs"}
    assert ("one step" in differing) is is_wrong
    if is_wrong:  # its left wall does not stop the car
        assert "the new obs[0] is -1.2, its minimum; so in 0.0%" in differing["one step"].shared
