# pyright: basic
"""Facts about single environments of jumanji: wrong bounds, agents, limits, broken rules."""

import jax.numpy as jnp

MENDED = {
    "Snake": {"step_count": (0, None, "it reaches the time limit, which the spec leaves out")},
    "TSP": {"position": (-1, None, "it is -1 before the first city, where the spec says 0")},
}
"""Bounds of the library's specs that are wrong, by class and key: (low, high, reason)."""

AGENTS = {
    "Cleaner": ("agents_locations", "action_mask"),
    "Connector": ("action_mask",),
    "LevelBasedForaging": ("agents_view", "action_mask"),
    "MultiCVRP": ("vehicles", "action_mask"),
    "RobotWarehouse": ("agents_view", "action_mask"),
    "SearchAndRescue": ("searcher_views", "positions"),
}
"""Games of several agents: the entries of an observation with a row for each agent, by class."""

FIXED_LIMITS = {
    "FlatPack": lambda peer: peer.num_blocks,
    "MultiCVRP": lambda peer: 2 * peer._num_customers,
}
"""The number of steps after which a game ends that has no option `time_limit`, by class."""

FINISHED = {
    "FlatPack": lambda inner: inner.placed_blocks.all(),
    "MultiCVRP": lambda inner: (
        (inner.nodes.demands.sum() == 0) & (inner.vehicles.positions == 0).all()
    ),
    "SearchAndRescue": lambda inner: jnp.all(inner.targets.found),
}
"""Whether the task is done, by class, where the library's end does not distinguish the limit."""

_KEY_TWICE = "jumanji uses a key twice: "
_IN_GENERATOR = dict.fromkeys(
    ["keys_are_used_once", "calls_share_no_key"],
    _KEY_TWICE + "at reset, in the generator of problems",
)
WAIVERS: dict[str, dict[str, str]] = {
    "FlatPack": _IN_GENERATOR,
    "MMST": _IN_GENERATOR,
    "PacMan": dict.fromkeys(_IN_GENERATOR, _KEY_TWICE + "in a step, where the ghosts move"),
    "Tetris": {"calls_share_no_key": _KEY_TWICE + "its state keeps a key that reset has used"},
}
"""Rules of `check_env` that the library breaks, by class: {rule: reason}."""
