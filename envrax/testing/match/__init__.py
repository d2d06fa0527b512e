"""`match_env`: is an environment the same as a reference that is no JAX environment?"""

from envrax.testing.match.match import match_env
from envrax.testing.match.report import Case, Check, Match

__all__ = ["Case", "Check", "Match", "match_env"]
