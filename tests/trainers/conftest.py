"""The libraries warn when they are imported."""

import importlib
import warnings
from contextlib import suppress

with warnings.catch_warnings(), suppress(ImportError):
    warnings.simplefilter("ignore")
    for name in ("sbx", "skrl.agents.torch", "tianshou.data", "torchrl.collectors"):
        importlib.import_module(name)
