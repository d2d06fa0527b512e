"""Whether there is a terminal, or a file, to show progress on."""

import sys


def can_show_progress() -> bool:
    """Whether `sys.stderr` takes text: a daemon may have none, or have closed it."""
    return sys.stderr is not None and not getattr(sys.stderr, "closed", False)  # pyright: ignore[reportUnnecessaryComparison]
