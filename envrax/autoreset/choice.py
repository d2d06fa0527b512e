"""Choose a way to replace the slots that ended, by what a reset costs."""

from collections.abc import Iterator
from math import log2, prod, sqrt
from typing import Any, cast

import jax

from envrax._count import require_count
from envrax._keys import example_keys
from envrax.autoreset.ways import AutoReset, Compact, Select
from envrax.env import JaxEnv

# In scalar operations. A float operation on a CPU takes some 0.25 ns; these were measured there.
_DRAW = 100  # of one word of random bits, and of one new key
_COSTS = {
    "random_bits": _DRAW,
    "random_split": _DRAW,
    "random_fold_in": _DRAW,
    "threefry2x32": _DRAW,
    **dict.fromkeys(("sin", "cos", "tan", "exp", "log", "pow", "tanh", "erf_inv", "atan2"), 20),
    **dict.fromkeys(("sqrt", "rsqrt", "div", "rem"), 5),
    "pure_callback": 1_000_000,
    "io_callback": 1_000_000,
}
_UNKNOWN_LENGTH = 1000  # turns of a loop whose length nobody knows before it runs
_CHEAP = 4_000  # of one slot's reset: about a microsecond
_SMALLEST_LOOP = 100_000_000  # of a whole batch: less than that an accelerator does in one go


def choose(env: JaxEnv[Any, Any, Any, Any], num_envs: int, backend: str | None = None) -> AutoReset:
    """
    How `VecEnv` replaces the slots that ended, unless it is told.

    A function of the environment's reset as JAX traces it, of the batch and of the backend: nothing
    is timed, so that it is always the same. The results of a `VecEnv` do not depend on it.

    Parameters
    ----------
    env : JaxEnv
        The environment.
    num_envs : int
        Number of slots.
    backend : str, optional
        "cpu", "gpu" or "tpu"; JAX's default if not given.

    Returns
    -------
    AutoReset
        `Compact` with chunks that balance the cost of a turn of its loop against resets in vain;
        `Select` on an accelerator, where a small reset of all slots costs less than a loop.

    Raises
    ------
    TypeError
        If `env` is no `JaxEnv`, or `num_envs` no int.
    ValueError
        If `num_envs` is below 1.
    """
    if not isinstance(cast(Any, env), JaxEnv):
        raise TypeError(f"choose: expected a JaxEnv; got {env!r}. Pass an instance.")
    num_envs = require_count("choose: expected num_envs", num_envs)
    closed = jax.make_jaxpr(lambda rng: env.reset(jax.random.split(rng)[0]))(example_keys()[0])
    return choose_for(closed.jaxpr, num_envs, backend or jax.default_backend())


def choose_for(reset: Any, num_envs: int, backend: str) -> AutoReset:
    """`choose` for the jaxpr of one slot's reset."""
    cost = max(1.0, operations(reset))
    if backend != "cpu" and cost * num_envs < _SMALLEST_LOOP:
        return Select()
    share = max(1, num_envs // 16)
    if cost < _CHEAP:
        # A turn of the loop costs more than resets in vain. One turn does for a random policy,
        # under which a twentieth of the slots ends in a step; the small ones are for a better one.
        return Compact(share, share // 8 if share >= 64 else None)
    # With `ends` of the slots ending in a step, K at a time take `ends / K` turns, and half a chunk
    # is reset in vain: least where K is the root of `2 * ends * turn / cost`. A turn takes some
    # 6 us; a fiftieth of the slots is taken to end.
    chunk = 2 ** round(log2(max(1.0, sqrt(1000 * num_envs / cost))))
    return Compact(min(chunk, share))


def operations(jaxpr: Any) -> float:
    """
    About how many scalar operations a program takes.

    Parameters
    ----------
    jaxpr : jax.extend.core.Jaxpr
        The program.

    Returns
    -------
    float
        Of a branch, the dearest one; of a loop of unknown length, a thousand turns.
    """
    return sum(map(_operations_of, jaxpr.eqns))


def _operations_of(eqn: Any) -> float:
    name, params = eqn.primitive.name, eqn.params
    inner = [operations(jaxpr) for jaxpr in _inner(params)]
    if name == "cond":
        return max(inner)
    if inner:
        turns = {"scan": params.get("length"), "while": _UNKNOWN_LENGTH}.get(name, 1)
        return turns * sum(inner)
    size = max((prod(getattr(v.aval, "shape", ())) for v in eqn.outvars), default=1)
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        return 2.0 * size * prod(eqn.invars[0].aval.shape[axis] for axis in contracted)
    if name == "conv_general_dilated":
        return 2.0 * size * prod(eqn.invars[1].aval.shape[1:])
    if name.startswith(("reduce", "cum", "arg", "scatter", "sort")):
        size = max(prod(getattr(v.aval, "shape", ())) for v in eqn.invars)
    if name == "sort":
        return 5.0 * size * log2(size + 1)
    return float(size * _COSTS.get(name, 1))


def _inner(params: dict[str, Any]) -> Iterator[Any]:
    """The programs inside the parameters of an equation."""
    for value in params.values():
        for item in cast(Any, value) if isinstance(value, tuple | list) else (value,):
            program = getattr(item, "jaxpr", item)
            if hasattr(program, "eqns"):
                yield program
