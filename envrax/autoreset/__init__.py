"""Auto-reset as pure functions over a batch of environments."""

from .batch import reset, step
from .choice import choose
from .ways import AutoReset, Compact, Select

__all__ = ["AutoReset", "Compact", "Select", "choose", "reset", "step"]
