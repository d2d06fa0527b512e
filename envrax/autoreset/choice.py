"""Choose how the slots that ended are reset, by what a reset computes."""

from collections.abc import Iterator
from functools import partial
from math import prod
from typing import Any, cast

import jax
from jax.extend.core import Var

from envrax._checks import require_count
from envrax._jax.keys import key_types
from envrax.autoreset.slot import next_episode, reset_slot
from envrax.autoreset.strategies import AutoReset, Compact, Select
from envrax.env import AnyEnv, JaxEnv

# Resets of common environments lie far from it, on either side: CartPole's computes 60 numbers,
# that of a grid with a fixed start 10 to 30, those of generated worlds 4,000 to millions. MinAtar's
# Breakout, with 1,700 or 2,000, takes twice as long as it need if it counts as expensive.
_EXPENSIVE = 3000
_UNKNOWN_LENGTH = 1000


def choose(env: AnyEnv, num_envs: int, backend: str | None = None) -> AutoReset:
    """
    How `VecEnv` resets the slots that ended, unless it is told.

    It depends on one question: is a reset expensive? It is if it computes more than 3000 numbers:
    the elements of all arrays that the reset of one slot computes from its last state, which is its
    key unless `JaxEnv.reset_after` is overridden, once for every
    iteration of a loop. A `while` loop counts as 1000 iterations, and a call to the host is always
    expensive.

    | | CPU | GPU, TPU |
    |---|---|---|
    | cheap | `Compact`: 1/16 of the slots at a time, the last ones 1/128 | `Select` |
    | expensive | `Compact`: 1/128 of the slots at a time | `Compact`: 1/16 of them at a time |

    Nothing is timed, so that the same environment, batch and backend give the same choice. The
    results of a `VecEnv` do not depend on it, but for the rounding that `Compact` describes.

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
        `Compact` or `Select`.

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
    _, state = jax.eval_shape(partial(reset_slot, env), key_types()[0])
    closed = jax.make_jaxpr(partial(next_episode, env))(state)
    return _choose(closed.jaxpr, num_envs, backend or jax.default_backend())


class Choice:
    """
    The strategy of one batch: the given one, else one that is chosen when it is first needed.

    Parameters
    ----------
    env : JaxEnv
        The environment.
    num_envs : int
        Number of slots.
    given : AutoReset, optional
        What the user asked for.
    """

    def __init__(self, env: AnyEnv, num_envs: int, given: AutoReset | None = None) -> None:
        self.env, self.num_envs, self._strategy = env, num_envs, given

    def strategy(self, jaxpr: Any = None) -> AutoReset:
        """The strategy; `jaxpr` is the reset of one slot, traced here if it is not given."""
        if self._strategy is None and jaxpr is None:
            self._strategy = choose(self.env, self.num_envs)
        elif self._strategy is None:
            self._strategy = _choose(jaxpr, self.num_envs, jax.default_backend())
        return self._strategy


def _choose(reset: Any, num_envs: int, backend: str) -> AutoReset:
    """`choose` for the jaxpr of one slot's reset."""
    large, small = (max(1, num_envs // parts) for parts in (16, 128))
    is_expensive = numbers_computed(reset) > _EXPENSIVE
    if backend != "cpu":
        # A reset takes a GPU as long for one slot as for many: it is worth the loop of `Compact`
        # only where a step without it saves much.
        return Compact(large) if is_expensive else Select()
    if is_expensive:
        return Compact(small)
    # Under a random policy a twentieth of the slots ends in a step, which is one iteration of the
    # loop. Under a better one fewer do, and a small batch of resets is enough. It is a second copy
    # of the reset to compile, which a small batch does not earn back.
    return Compact(large, small if num_envs >= 1024 else None)


def numbers_computed(jaxpr: Any) -> int:
    """
    How many numbers a program computes from its arguments: the elements of all such results.

    What depends on no argument is left out: XLA computes it once, for all slots together.

    Parameters
    ----------
    jaxpr : jax.extend.core.Jaxpr
        The program.

    Returns
    -------
    int
        Of branches, the largest; of a loop, one iteration times their number, which is taken to be
        1000 where it is unknown. A call to the host counts as a million.
    """
    return _count(jaxpr, [True] * len(jaxpr.invars))[0]


def _count(jaxpr: Any, given: list[bool]) -> tuple[int, list[bool]]:
    """The numbers computed from the arguments that are given, and which results depend on them."""
    depends = {v for v, is_given in zip(jaxpr.invars, given, strict=True) if is_given}

    def does(v: Any) -> bool:
        return isinstance(v, Var) and v in depends

    total = 0
    for eqn in jaxpr.eqns:
        arguments, results = [*map(does, eqn.invars)], [True] * len(eqn.outvars)
        programs = list(_inner(eqn.params))
        if eqn.primitive.name in ("jit", "pjit"):
            numbers, results = _count(programs[0], arguments)
        elif any(arguments) or eqn.primitive.name.endswith("callback"):
            numbers = _numbers_of(eqn, programs)
        else:
            continue
        total += numbers
        depends.update(v for v, result in zip(eqn.outvars, results, strict=True) if result)
    return total, [*map(does, jaxpr.outvars)]


def _numbers_of(eqn: Any, programs: list[Any]) -> int:
    name, params = eqn.primitive.name, eqn.params
    inner = [numbers_computed(program) for program in programs]
    if name == "cond":
        return max(inner)
    if inner:
        iterations = {"scan": params.get("length"), "while": _UNKNOWN_LENGTH}.get(name, 1)
        return iterations * sum(inner)
    if name.endswith("callback"):
        return 1_000_000
    return sum(prod(getattr(v.aval, "shape", ())) for v in eqn.outvars)


def _inner(params: dict[str, Any]) -> Iterator[Any]:
    """The programs inside the parameters of an operation."""
    for value in params.values():
        for item in cast(Any, value) if isinstance(value, tuple | list) else (value,):
            program = getattr(item, "jaxpr", item)
            if hasattr(program, "eqns"):
                yield program
