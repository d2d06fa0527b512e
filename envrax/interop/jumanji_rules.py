"""What is special about some environments of jumanji: wrong bounds, agents, broken rules."""

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
"""Games of several agents: what of an observation has a row for each agent, by class."""

GRAPHS = "GraphColoring", "MMST"
"""Classes that draw in the unit square, for which matplotlib finds wrong limits."""

_REUSED = "jumanji uses a key twice: "
_GENERATOR = dict.fromkeys(
    ["keys_are_used_once", "calls_share_no_key"], _REUSED + "at reset, in the generator of problems"
)
_GHOSTS = dict.fromkeys(_GENERATOR, _REUSED + "in a step, where the ghosts move")
WAIVERS: dict[str, dict[str, str]] = {
    "FlatPack": _GENERATOR,
    "MMST": _GENERATOR,
    "PacMan": _GHOSTS,
    "Tetris": {"calls_share_no_key": _REUSED + "its state keeps a key that reset has used"},
}
"""Rules of `check_env` that the library breaks, by class: {rule: reason}."""
