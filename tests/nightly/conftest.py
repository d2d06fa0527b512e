"""The libraries warn when they are imported, and Ray starts processes."""

import importlib
import os
import warnings
from contextlib import suppress

os.environ.setdefault("RAY_AUTH_MODE", "disabled")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for name in ("ray.rllib.algorithms.ppo", "agilerl.algorithms", "mjlab.tasks", "mjlab.rl"):
        with suppress(ImportError):
            importlib.import_module(name)
