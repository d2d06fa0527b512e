"""Spaces: the sets that observations and actions come from."""

from .base import Space
from .base import kind as kind
from .box import Box
from .composite import Dict, Tuple
from .conform import conform as conform
from .discrete import Discrete, MultiBinary, MultiDiscrete

__all__ = ["Box", "Dict", "Discrete", "MultiBinary", "MultiDiscrete", "Space", "Tuple"]
