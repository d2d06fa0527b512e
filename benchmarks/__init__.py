"""Side-by-side measurements: `python -m benchmarks --help`."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "examples"))  # some train with an example
