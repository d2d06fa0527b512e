"""Auto-reset as pure functions over environments."""

from envrax.autoreset.rule import reset, step, step_one
from envrax.autoreset.strategies import AutoReset, Compact, Select, choose

__all__ = ["AutoReset", "Compact", "Select", "choose", "reset", "step", "step_one"]
