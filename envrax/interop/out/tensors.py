# pyright: basic, reportMissingImports=false
"""JAX arrays and Torch tensors that share their memory."""

import sys
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax.batched_env import AnyBatch
from envrax.compiled_batch import layout_of
from envrax.interop.peer.library import require


@cache  # reading the version of a package takes longer than a step
def require_torch() -> Any:
    """Torch, or an error that says how to install it."""
    return require("torch", "2.0", extra="torch")


def require_tensors(who: str, batch: AnyBatch) -> None:
    """Require Torch, and a batch whose arrays can become tensors."""
    require_torch()
    if layout_of(batch) is not None:
        raise TypeError(
            f"{who}: expected a batch on one device, whose arrays can become tensors of Torch; got "
            f"{batch} on a mesh. Take JAX or NumPy arrays."
        )


def to_torch(tree: Any) -> Any:
    """Each JAX array as a tensor on the same device, without a copy where Torch allows that."""
    torch = require_torch()
    # A CPU has no stream that a tensor could wait for.
    return jax.tree.map(torch.from_dlpack, jax.block_until_ready(tree))


def from_torch(tree: Any) -> Any:
    """Each tensor as an array for `VecEnv.step`. Other leaves stay as they are."""
    # A caller with a tensor has imported Torch, of whatever version.
    torch: Any = sys.modules.get("torch")
    if torch is None or isinstance(tree, np.ndarray | jax.Array):
        return tree

    def convert(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        if x.device.type == "cpu" and x.dtype == torch.bfloat16:  # which NumPy has from JAX alone
            return np.asarray(x.detach().view(torch.int16)).view(jnp.bfloat16)
        if x.device.type == "cpu":
            return np.asarray(x.detach())
        narrow = {torch.int64: torch.int32, torch.float64: torch.float32}  # as JAX has by default
        # A copy, since a state that keeps its action would change with the tensor.
        copy = x.detach().to(narrow.get(x.dtype, x.dtype), copy=True).contiguous()
        return jax.dlpack.from_dlpack(copy)

    is_leaf = lambda x: isinstance(x, torch.Tensor)  # noqa: E731
    return jax.tree.map(convert, tree, is_leaf=is_leaf)
