"""
Environments of other libraries, and those of envrax for other trainers.

One module a library, and `PeerEnv` to write another one. The functions that bridge to a trainer, or
to a simulator on the host, import that library when they are first asked for.
"""

import importlib
from typing import TYPE_CHECKING, Any

from envrax.interop.base import PeerEnv
from envrax.interop.convert import box, nested, unbounded
from envrax.interop.forms import as_dicts
from envrax.interop.library import require, suite_of
from envrax.interop.records import NO_LIMIT, Advanced, Begun, PeerConfig, PeerState

if TYPE_CHECKING:
    from envrax.interop.host.envpool import from_envpool
    from envrax.interop.host.gymnasium_vec import from_gymnasium_vec
    from envrax.interop.host.in_scan import in_scan
    from envrax.interop.out.dm import to_dm_env
    from envrax.interop.out.gymnasium import to_gymnasium, to_gymnasium_vec
    from envrax.interop.out.sb3 import to_sb3
    from envrax.interop.spaces import from_space, to_space

__all__ = [
    "NO_LIMIT",
    "Advanced",
    "Begun",
    "PeerConfig",
    "PeerEnv",
    "PeerState",
    "as_dicts",
    "box",
    "from_envpool",
    "from_gymnasium_vec",
    "from_space",
    "in_scan",
    "nested",
    "require",
    "suite_of",
    "to_dm_env",
    "to_gymnasium",
    "to_gymnasium_vec",
    "to_sb3",
    "to_space",
    "unbounded",
]

_BRIDGES = {
    "from_envpool": "host.envpool",
    "from_gymnasium_vec": "host.gymnasium_vec",
    "from_space": "spaces",
    "in_scan": "host.in_scan",
    "to_dm_env": "out.dm",
    "to_gymnasium": "out.gymnasium",
    "to_gymnasium_vec": "out.gymnasium",
    "to_sb3": "out.sb3",
    "to_space": "spaces",
}


def __getattr__(name: str) -> Any:
    if name not in _BRIDGES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_BRIDGES[name]}"), name)
