"""What counts as rounding when two results are compared."""

import numpy as np
import pytest

from envrax.testing.pytrees import value_differences


def _differ(a: list[float], b: list[float], **options: bool) -> bool:
    trees = ({"x": np.array(v, np.float32)} for v in (a, b))
    return any(True for _ in value_differences(*trees, **options))


@pytest.mark.parametrize(
    ("a", "b", "differ"),
    [
        ([1.0, 2.0], [1.00005, 2.0], False),
        ([1.0, 2.0], [1.001, 2.0], True),
        # The rest of a sum whose terms are of the size of its neighbour.
        ([4e-5, 300.0], [8e-5, 300.0], False),
        ([4e-5, 3.0], [8e-5, 3.0], True),
        ([4e-3, 300.0], [8e-3, 300.0], True),
        ([4e-5, np.inf], [8e-5, np.inf], True),
        ([1.0, np.nan], [1.0, np.nan], False),
        ([1.0, np.nan], [1.0, 0.0], True),
    ],
)
def test_floats_may_differ_by_rounding(a: list[float], b: list[float], differ: bool) -> None:
    assert _differ(a, b) == differ
    assert _differ(a, b, exact=True) == (not np.array_equal(a, b, equal_nan=True))
