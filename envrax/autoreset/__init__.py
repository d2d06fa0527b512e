"""Auto-reset: the strategies to reset ended slots, and the choice between them."""

from envrax.autoreset.rule import reset, step, step_one
from envrax.autoreset.strategies import AutoReset, Compact, Select, choose

__all__ = ["AutoReset", "Compact", "Select", "choose", "reset", "step", "step_one"]
