# pyright: reportMissingImports=false
"""CartPole, MountainCar, Acrobot and Pendulum, compared with Gymnasium's and EnvPool's."""

from functools import partial
from typing import Any

import numpy as np

from benchmarks.ports.port import Port, gymnasium_port, put_array

OWN = {
    "CartPole": ("position", "velocity", "angle", "spin"),
    "MountainCar": ("position", "velocity"),
    "Acrobot": ("angle_1", "angle_2", "speed_1", "speed_2"),
    "Pendulum": ("angle", "speed"),
}
VERSIONS = {"CartPole": "v1", "MountainCar": "v0", "Acrobot": "v1", "Pendulum": "v1"}
GYMNAX = {
    "CartPole-v1": ("x", "x_dot", "theta", "theta_dot"),
    "MountainCar-v0": ("position", "velocity"),
    "MountainCarContinuous-v0": ("position", "velocity"),
    "Acrobot-v1": ("joint_angle1", "joint_angle2", "velocity_1", "velocity_2"),
    "Pendulum-v1": ("theta", "theta_dot"),
}
FUNCTIONAL = {"phys2d/CartPole-v1": "CartPole-v1", "phys2d/Pendulum-v0": "Pendulum-v1"}
CAUSES = {
    "MountainCarContinuous-v0": "its left wall does not stop the car: the velocity stays as it was",
    "phys2d/Pendulum-v0": "observations have no bounds",
    "phys2d/CartPole-v1": "its `polemass_length` is a sum, 0.6, not a product, 0.05",
}


def put_whole(reference: Any, state: Any) -> None:
    """Our state, an array, as the original's."""
    reference.unwrapped.state = np.array(state.inner, np.float64)


def pool(id: str) -> Any:
    import envpool

    return envpool.make_gymnasium(id, num_envs=1)


def pooled(id: str, original: str) -> Port:
    cause = CAUSES.get(id.partition("/")[2], "")
    return Port(id, f"EnvPool's {original}", "envpool", partial(pool, original), cause=cause)


PORTS = {
    "classic": [
        *(
            gymnasium_port(f"classic/{x}-v0", f"{x}-{VERSIONS[x]}", inject=put_array(*names))
            for x, names in OWN.items()
        ),
        *(pooled(f"classic/{x}-v0", f"{x}-{VERSIONS[x]}") for x in OWN),
    ],
    "gymnax": [
        *(
            gymnasium_port(f"gymnax/{x}", x, CAUSES.get(x, ""), inject=put_array(*names))
            for x, names in GYMNAX.items()
        ),
        pooled("gymnax/MountainCarContinuous-v0", "MountainCarContinuous-v0"),
    ],
    "gymnasium": [
        gymnasium_port(f"gymnasium/{x}", original, CAUSES.get(x, ""), inject=put_whole)
        for x, original in FUNCTIONAL.items()
    ],
}
