"""Check an environment against the contract."""

from envrax.testing.__main__ import arguments, run

__all__ = ["arguments", "run"]
