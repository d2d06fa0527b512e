"""An alias of `envrax.suite`."""

from envrax.suite import EnvSet, EnvSuite

__all__ = ["EnvSet", "EnvSuite"]
