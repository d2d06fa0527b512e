"""Environments of other libraries: one module a library, and the base to write another one."""

from envrax.interop.base import PeerEnv
from envrax.interop.convert import box, nested, unbounded
from envrax.interop.forms import as_dicts
from envrax.interop.library import require, suite_of
from envrax.interop.records import NO_LIMIT, Advanced, Begun, PeerConfig, PeerState

__all__ = [
    "NO_LIMIT",
    "Advanced",
    "Begun",
    "PeerConfig",
    "PeerEnv",
    "PeerState",
    "as_dicts",
    "box",
    "nested",
    "require",
    "suite_of",
    "unbounded",
]
