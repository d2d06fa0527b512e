"""Auto-reset: pure functions over slots, and the strategies to reset those that ended."""

from envrax.autoreset.rule import reset, step, step_one
from envrax.autoreset.strategies import AutoReset, Compact, Select, choose

__all__ = ["AutoReset", "Compact", "Select", "choose", "reset", "step", "step_one"]
