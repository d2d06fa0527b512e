# pyright: basic
"""Which parts of a state the end of a step begins anew: those of a step that resets itself."""

import functools
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Literal

_SAME = {
    "broadcast_in_dim",
    "convert_element_type",
    "copy",
    "device_put",
    "eq",
    "expand_dims",
    "ne",
    "not",
    "reshape",
    "slice",
    "squeeze",
    "stop_gradient",
    "sub",
    "xor",
}
"""Operations whose result is a flag, or its opposite, where their one argument is a flag."""

_ADDS = {"add", "add_any", "sub"}
"""Operations whose result forgets none of its arguments: `wins + done`."""


class _Label(NamedTuple):
    """
    What a value is computed from.

    Attributes
    ----------
    is_flag : frozenset of int
        The flags that it is.
    reads : frozenset of int
        The flags that it is computed from.
    forgets : frozenset of int
        The flags that can make it a value without anything of the episode before.
    is_old : bool
        Whether it is computed from the episode before: the state and the action.
    is_constant : bool
        Whether it is a constant.
    source : int
        The input that it is; -1 for another value.
    """

    is_flag: frozenset[int] = frozenset()
    reads: frozenset[int] = frozenset()
    forgets: frozenset[int] = frozenset()
    is_old: bool = False
    is_constant: bool = False
    source: int = -1

    def joined(self, other: "_Label") -> "_Label":
        return _Label(
            self.is_flag | other.is_flag,
            self.reads | other.reads,
            self.forgets | other.forgets,
            self.is_old | other.is_old,
            self.is_constant and other.is_constant,
            self.source if self.source == other.source else -1,
        )

    @property
    def all(self) -> frozenset[int]:
        return self.is_flag | self.reads


_CONSTANT = _Label(is_constant=True)


def begins_anew(closed: Any, n_flags: int, first_state: int) -> list[bool]:
    """
    Whether the end of a step makes each part of its state forget the episode before.

    A key, and a part of the state that a step leaves as it is, do not belong to one episode. So
    `where(done, fresh, moved)` forgets, if `fresh` comes from a key or from a level that stays.
    `where(done, player, other)` does not.

    Parameters
    ----------
    closed : ClosedJaxpr
        The program. Its results are flags, then the state.
    n_flags : int
        The number of flags.
    first_state : int
        The first input that is a part of the state; the others follow in the order of the results.

    Returns
    -------
    list of bool
        One for each part of the state.
    """
    jaxpr = closed.jaxpr
    n = len(jaxpr.invars)
    known = [_Label(source=i) for i in range(n)]
    stays = {
        i
        for i, x in enumerate(_Labeller().run(jaxpr, known)[n_flags:], first_state)
        if x.source == i
    }
    old = [i not in stays and not is_key(x.aval) for i, x in enumerate(jaxpr.invars)]
    labels = _Labeller().run(jaxpr, [_Label(is_old=x) for x in old])
    flags = frozenset[int]().union(*(x.is_flag for x in labels[:n_flags]))
    return [bool(x.forgets & flags) for x in labels[n_flags:]]


def is_key(aval: Any) -> bool:
    """Whether a value is a key, or keys, of either kind."""
    legacy = str(aval.dtype) == "uint32" and aval.shape[-1:] == (2,)
    return legacy or jnp.issubdtype(aval.dtype, jax.dtypes.prng_key)


class _Labeller:
    """Walks through a program, and gives each of its flags, which are bool scalars, a number."""

    def __init__(self) -> None:
        self.numbers = itertools.count()

    def run(self, jaxpr: Any, inputs: list[_Label]) -> list[_Label]:
        jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
        known = dict(zip(jaxpr.invars, inputs, strict=True))

        def label(x: Any) -> _Label:
            return _CONSTANT if isinstance(x, Literal) else known.get(x, _CONSTANT)

        for eqn in jaxpr.eqns:
            known.update(
                zip(eqn.outvars, self.results(eqn, [*map(label, eqn.invars)]), strict=True)
            )
        return [*map(label, jaxpr.outvars)]

    def results(self, eqn: Any, inputs: list[_Label]) -> list[_Label]:
        name, params = eqn.primitive.name, eqn.params
        if name == "cond":
            branches = [self.run(branch, inputs[1:]) for branch in params["branches"]]
            return [self.choice(inputs[0], options) for options in zip(*branches, strict=True)]
        if name == "select_n":
            return [self.choice(inputs[0], inputs[1:])]
        if name == "while":
            n = params["cond_nconsts"]
            return self.loop(params["body_jaxpr"], inputs[n:], params["body_nconsts"])
        if name == "scan":
            return self.loop(params["jaxpr"], inputs, params["num_consts"], params["num_carry"])
        for inner in (params.get(x) for x in ("jaxpr", "call_jaxpr", "fun_jaxpr")):
            jaxpr = getattr(inner, "jaxpr", inner)
            if jaxpr is not None and len(jaxpr.invars) == len(inputs):
                return self.run(jaxpr, inputs)
        varying = [x for x in inputs if not x.is_constant]
        if len(varying) == 1 and varying[0].is_flag and name in _SAME:
            return varying * len(eqn.outvars)
        seen = functools.reduce(_Label.joined, inputs, _CONSTANT)
        forgets = frozenset() if name in _ADDS else seen.is_flag
        return [
            _Label(
                self.number(x.aval), seen.all, seen.forgets | forgets, seen.is_old, seen.is_constant
            )
            for x in eqn.outvars
        ]

    def number(self, aval: Any) -> frozenset[int]:
        is_flag = str(getattr(aval, "dtype", "")) == "bool" and aval.size == 1
        return frozenset([next(self.numbers)] if is_flag else [])

    def choice(self, by: _Label, options: Any) -> _Label:
        """A value that a flag chooses. Where it chooses among constants, it is the flag."""
        chosen = functools.reduce(_Label.joined, options)
        if chosen.is_constant:
            return by
        forgets = chosen.forgets | by.forgets
        if not all(x.is_old for x in options):
            forgets |= by.all
        return chosen._replace(reads=chosen.reads | by.all, forgets=forgets)

    def loop(self, body: Any, inputs: list[_Label], n_consts: int, n_carry: int = -1) -> Any:
        consts, rest = inputs[:n_consts], inputs[n_consts:]
        n_carry = len(rest) if n_carry < 0 else n_carry
        carry, xs = rest[:n_carry], rest[n_carry:]
        outs = carry
        for _ in range(2):  # what one round computes, the next one reads
            outs = self.run(body, [*consts, *carry, *xs])
            carry = [a.joined(b) for a, b in zip(carry, outs[:n_carry], strict=True)]
        return [*carry, *outs[n_carry:]]
