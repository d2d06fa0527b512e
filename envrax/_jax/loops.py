"""Loops that run on the host where the environment does."""

from collections.abc import Callable
from typing import Any

import jax

from envrax._jax.mesh import varying_like


def while_loop(traceable: bool, goes_on: Callable[[Any], Any], step: Any, carry: Any) -> Any:
    """`jax.lax.while_loop`, or a Python loop for an environment on the host."""
    if traceable:
        return jax.lax.while_loop(goes_on, step, varying_like(carry, carry))
    while goes_on(carry):
        carry = step(carry)
    return carry
