"""Auto-reset as pure functions over a batch of environments."""

from envrax.autoreset.batch import reset, step
from envrax.autoreset.choice import choose
from envrax.autoreset.strategies import AutoReset, Compact, Select

__all__ = ["AutoReset", "Compact", "Select", "choose", "reset", "step"]
