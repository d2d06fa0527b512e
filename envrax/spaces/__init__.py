"""Spaces: the sets that observations and actions come from."""

from envrax.spaces.base import Space
from envrax.spaces.base import kind as kind
from envrax.spaces.box import Box
from envrax.spaces.composite import Dict, Tuple
from envrax.spaces.conform import conform as conform
from envrax.spaces.discrete import Discrete, MultiBinary, MultiDiscrete
from envrax.spaces.flattening import flatten as flatten
from envrax.spaces.flattening import unflatten as unflatten

__all__ = ["Box", "Dict", "Discrete", "MultiBinary", "MultiDiscrete", "Space", "Tuple"]
