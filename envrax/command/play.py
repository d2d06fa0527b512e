"""Show an environment in a window, to play it with keys or to watch a policy."""

import importlib
import os
from collections.abc import Callable
from typing import Any

from envrax.testing.find import NAMES


def arguments(add: Callable[..., Any]) -> None:
    add("id", help=NAMES)
    about = "what plays in place of the keys: a policy as `rollout` takes it, or `random`"
    add("--policy", metavar="module:function", help=about)
    about = "actions of keys, such as left=0 left+space=4 none=1, or w=0,0.7 for a Box; without "
    about += "`none` time stands still while no key is held"
    add("--keys", nargs="+", metavar="KEY=ACTION", help=about)
    add("--fps", type=int, help="steps per second (30; 10 where time stands still)")
    add("--episodes", type=int, metavar="N", help="end after so many episodes")
    about = "write a video of what was shown, an .mp4 or a .gif; with `--policy` and `--episodes` "
    about += "without a window"
    add("--record", metavar="PATH", help=about)


def run(given: Any) -> int:
    """Play the environment that the arguments name; Escape ends it."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    importlib.import_module("envrax.interop.out.play").run(given)  # it needs Gymnasium and pygame
    return 0
