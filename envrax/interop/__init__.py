"""
Adapters of other environment libraries, and bridges to other trainers.

One module for each library, and `PeerEnv` to write an adapter. The functions that bridge to a
trainer, or to a simulator on the host, import its library on first access.
"""

import importlib
from typing import TYPE_CHECKING, Any

from envrax.interop.peer.base import PeerEnv
from envrax.interop.peer.containers import as_dicts
from envrax.interop.peer.library import require, suite_of
from envrax.interop.peer.spaces import box, nested, unbounded
from envrax.interop.peer.turns import TurnEnv
from envrax.interop.peer.types import NO_LIMIT, PeerConfig, PeerReset, PeerState, PeerStep

if TYPE_CHECKING:
    from envrax.interop.gymnasium_spaces import from_space as from_space
    from envrax.interop.gymnasium_spaces import to_space as to_space
    from envrax.interop.host.envpool import from_envpool as from_envpool
    from envrax.interop.host.gymnasium_vec import from_gymnasium_vec as from_gymnasium_vec
    from envrax.interop.host.rsl_rl import from_rsl_rl as from_rsl_rl
    from envrax.interop.host.single import from_host as from_host
    from envrax.interop.out.brax import brax_training_wrap as brax_training_wrap
    from envrax.interop.out.brax import to_brax as to_brax
    from envrax.interop.out.dm_env import to_dm_env as to_dm_env
    from envrax.interop.out.gymnasium import to_gymnasium as to_gymnasium
    from envrax.interop.out.gymnasium_vec import to_gymnasium_vec as to_gymnasium_vec
    from envrax.interop.out.gymnax import to_gymnax as to_gymnax
    from envrax.interop.out.minari import to_minari as to_minari
    from envrax.interop.out.pettingzoo import to_pettingzoo as to_pettingzoo
    from envrax.interop.out.pufferlib import to_pufferlib as to_pufferlib
    from envrax.interop.out.rsl_rl import to_rsl_rl as to_rsl_rl
    from envrax.interop.out.sb3 import to_sb3 as to_sb3
    from envrax.interop.out.stoa import to_stoa as to_stoa

__all__ = [
    "NO_LIMIT",
    "PeerConfig",
    "PeerEnv",
    "PeerReset",
    "PeerState",
    "PeerStep",
    "TurnEnv",
    "as_dicts",
    "box",
    "nested",
    "require",
    "suite_of",
    "unbounded",
]

# Not in `__all__`: `import *` would import all of these libraries.
_BRIDGES = {
    "brax_training_wrap": "out.brax",
    "from_envpool": "host.envpool",
    "from_gymnasium_vec": "host.gymnasium_vec",
    "from_host": "host.single",
    "from_rsl_rl": "host.rsl_rl",
    "from_space": "gymnasium_spaces",
    "to_brax": "out.brax",
    "to_dm_env": "out.dm_env",
    "to_gymnasium": "out.gymnasium",
    "to_gymnasium_vec": "out.gymnasium_vec",
    "to_gymnax": "out.gymnax",
    "to_minari": "out.minari",
    "to_pettingzoo": "out.pettingzoo",
    "to_pufferlib": "out.pufferlib",
    "to_rsl_rl": "out.rsl_rl",
    "to_sb3": "out.sb3",
    "to_stoa": "out.stoa",
    "to_space": "gymnasium_spaces",
}


def __getattr__(name: str) -> Any:
    if name not in _BRIDGES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_BRIDGES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_BRIDGES})
