# pyright: basic
"""Which results of a step are computed from its end: those of a step that resets itself."""

import functools
import itertools
from typing import Any, NamedTuple

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


class _Label(NamedTuple):
    """The flags that a value is, those that it is computed from, and whether it is a constant."""

    is_flag: frozenset[int] = frozenset()
    reads: frozenset[int] = frozenset()
    is_constant: bool = False

    def joined(self, other: "_Label") -> "_Label":
        is_constant = self.is_constant and other.is_constant
        return _Label(self.is_flag | other.is_flag, self.reads | other.reads, is_constant)

    @property
    def all(self) -> frozenset[int]:
        return self.is_flag | self.reads


_INPUT = _Label()
_CONSTANT = _Label(is_constant=True)


def computed_from_flags(closed: Any, n_flags: int) -> list[bool]:
    """
    Whether each result of a program is computed from one of its first results.

    A result that is the flag itself, in any dtype, is not computed from it.

    Parameters
    ----------
    closed : ClosedJaxpr
        The program.
    n_flags : int
        The number of its first results that are flags.

    Returns
    -------
    list of bool
        One for each result after the flags.
    """
    jaxpr = closed.jaxpr
    labels = _Labeller().run(jaxpr, [_INPUT] * len(jaxpr.invars))
    flags = frozenset[int]().union(*(x.is_flag for x in labels[:n_flags]))
    return [bool(x.reads & flags) for x in labels[n_flags:]]


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
        reads = frozenset[int]().union(*(x.all for x in inputs))
        is_constant = all(x.is_constant for x in inputs)
        return [_Label(self.number(x.aval), reads, is_constant) for x in eqn.outvars]

    def number(self, aval: Any) -> frozenset[int]:
        is_flag = str(getattr(aval, "dtype", "")) == "bool" and aval.size == 1
        return frozenset([next(self.numbers)] if is_flag else [])

    def choice(self, by: _Label, options: Any) -> _Label:
        """A value that a flag chooses. Where it chooses among constants, it is the flag."""
        chosen = functools.reduce(_Label.joined, options)
        return by if chosen.is_constant else _Label(chosen.is_flag, chosen.reads | by.all)

    def loop(self, body: Any, inputs: list[_Label], n_consts: int, n_carry: int = -1) -> Any:
        consts, rest = inputs[:n_consts], inputs[n_consts:]
        n_carry = len(rest) if n_carry < 0 else n_carry
        carry, xs = rest[:n_carry], rest[n_carry:]
        outs = carry
        for _ in range(2):  # what one round computes, the next one reads
            outs = self.run(body, [*consts, *carry, *xs])
            carry = [a.joined(b) for a, b in zip(carry, outs[:n_carry], strict=True)]
        return [*carry, *outs[n_carry:]]
