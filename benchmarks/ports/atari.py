# pyright: reportMissingImports=false
"""
JAXtari's games against ALE's, by rewards and ends alone.

Both sides repeat each action for four frames, up to 1,000 frames. Their observations are left out:
the library's objects are not in ALE, and images would compare sprites.
"""

from functools import partial
from typing import Any

from benchmarks.ports.port import Port, made

FRAMES = 1000  # of an episode
REPEATS = 4
GAMES = {"pong": "Pong", "breakout": "Breakout", "boxing": "Boxing"}


def original(game: str) -> Any:
    import ale_py
    import gymnasium
    import numpy as np

    gymnasium.register_envs(ale_py)
    options = {"repeat_action_probability": 0.0, "max_num_frames_per_episode": FRAMES}
    env = made(f"ALE/{game}-v5", frameskip=REPEATS, **options)
    nothing = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    return gymnasium.wrappers.TransformObservation(env, _nothing, nothing)


def _nothing(obs: Any) -> Any:
    import numpy as np

    return np.zeros(1, np.float32)


def hidden(env: Any) -> Any:
    """The same, without what is observed."""
    import jax.numpy as jnp

    import envrax

    env = envrax.RepeatAction(envrax.with_config(env, max_steps=FRAMES), REPEATS)
    space = envrax.Box(0, 1, (1,))
    return envrax.TransformObservation(env, lambda obs: jnp.zeros(1, jnp.float32), space)


PORTS = {
    "jaxtari": [
        Port(
            f"jaxtari/{id}",
            f"ALE's {game}, rewards and ends",
            "ale-py",
            partial(original, game),
            {"n_resets": 300},
            wrappers=(hidden,),
        )
        for id, game in GAMES.items()
    ]
}
