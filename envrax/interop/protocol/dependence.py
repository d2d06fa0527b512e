# pyright: basic
"""Which parts of a state the end of a step begins anew: those of a step that resets itself."""

import functools
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from envrax._jax.jaxprs import called_program, interpret, scan_sizes, selects

_SAME = {
    "broadcast_in_dim",
    "convert_element_type",
    "copy",
    "device_put",
    "eq",
    "expand_dims",
    "ge",
    "gt",
    "le",
    "lt",
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

_OF_FLAGS = {
    "add",
    "and",
    "concatenate",
    "max",
    "min",
    "mul",
    "or",
    "reduce_and",
    "reduce_max",
    "reduce_or",
    "sub",
}
"""Operations that make of flags a value that counts as each of them: `out | late`."""

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
    number : int
        Equal for equal values: the place of an input, or one of the same operation on the same
        values. -1 if it is not known.
    """

    is_flag: frozenset[int] = frozenset()
    reads: frozenset[int] = frozenset()
    forgets: frozenset[int] = frozenset()
    is_old: bool = False
    is_constant: bool = False
    number: int = -1

    def joined(self, other: "_Label") -> "_Label":
        return _Label(
            self.is_flag | other.is_flag,
            self.reads | other.reads,
            self.forgets | other.forgets,
            self.is_old | other.is_old,
            self.is_constant and other.is_constant,
            self.number if self.number == other.number else -1,
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
    `where(done, player, other)` does not. A flag other than the end is taken for it if by that
    flag all parts that change forget the episode, and they are more than one.

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
    known = [_Label(number=i) for i in range(n)]
    after = _Labeller(n).run(jaxpr, known)[n_flags:]
    stays = {i for i, x in enumerate(after, first_state) if x.number == i}
    old = [i not in stays and not may_be_key(x.aval) for i, x in enumerate(jaxpr.invars)]
    labels = _Labeller(n).run(jaxpr, [_Label(is_old=x, number=i) for i, x in enumerate(old)])
    ends = functools.reduce(_Label.joined, labels[:n_flags], _CONSTANT)
    is_unknown = not (ends.is_flag or ends.is_constant)  # computed from no flag
    anew = [is_unknown or bool(x.forgets & ends.is_flag) for x in labels[n_flags:]]
    moves = old[first_state : first_state + len(anew)]
    forgets = [x.forgets for x, is_one in zip(labels[n_flags:], moves, strict=True) if is_one]
    if len(forgets) > 1 and functools.reduce(frozenset[int].intersection, forgets):
        anew = moves
    return [
        x and not may_be_key(v.aval) for x, v in zip(anew, jaxpr.outvars[n_flags:], strict=True)
    ]


def may_be_key(aval: Any) -> bool:
    """Whether a value is a key, or keys, of either kind."""
    legacy = str(aval.dtype) == "uint32" and aval.shape[-1:] == (2,)
    return legacy or jnp.issubdtype(aval.dtype, jax.dtypes.prng_key)


class _Labeller:
    """Walks through a program of `n` inputs. Its bool scalars are flags, known by a number."""

    def __init__(self, n: int) -> None:
        self.numbers: dict[Any, int] = {}
        self.next_number = itertools.count(n)

    def run(self, jaxpr: Any, inputs: list[_Label]) -> list[_Label]:
        def constant(*value: Any) -> _Label:
            return _CONSTANT._replace(number=self.number(*value))

        def literal(x: Any) -> _Label:
            return constant("literal", str(x.val), str(x.aval))

        consts = [constant(id(x)) for x in getattr(jaxpr, "jaxpr", jaxpr).constvars]
        return interpret(jaxpr, inputs, self.results, literal, consts)

    def results(self, eqn: Any, inputs: list[_Label]) -> list[_Label]:
        name, params = eqn.primitive.name, eqn.params
        if name == "cond":
            branches = [self.run(branch, inputs[1:]) for branch in params["branches"]]
            return [self.choice(inputs[0], options) for options in zip(*branches, strict=True)]
        if selects(eqn):
            return [self.choice(inputs[0], inputs[1:])]
        if name == "while":
            n, n_body = params["cond_nconsts"], params["body_nconsts"]
            before = inputs[n + n_body :]
            once = self.run(params["body_jaxpr"], inputs[n:])
            after = self.loop(params["body_jaxpr"], inputs[n:], n_body)
            goes_on = self.run(params["cond_jaxpr"], [*inputs[:n], *before])[0]
            return [self.choice(goes_on, x) for x in zip(before, once, after, strict=True)]
        if name == "scan":
            return self.loop(params["jaxpr"], inputs, *scan_sizes(eqn))
        if (program := called_program(eqn)) is not None:
            return self.run(program, inputs)
        varying = [x for x in inputs if not x.is_constant]
        if len(varying) == 1 and varying[0].is_flag and name in _SAME:
            return varying * len(eqn.outvars)
        seen = functools.reduce(_Label.joined, inputs, _CONSTANT)
        of_flags = name in _OF_FLAGS and bool(varying) and all(x.is_flag for x in varying)
        forgets = frozenset() if of_flags or name in _ADDS else seen.is_flag
        values = tuple(x.number for x in inputs)
        results: list[_Label] = []
        for i, out in enumerate(eqn.outvars):
            number = -1 if -1 in values else self.number(name, str(params), values, i)
            is_flag = str(getattr(out.aval, "dtype", "")) == "bool" and out.aval.size == 1
            number = number if number >= 0 else next(self.next_number)
            own = frozenset([number] if is_flag else [])
            results.append(
                _Label(
                    is_flag=own | seen.is_flag if of_flags else own,
                    reads=seen.all,
                    forgets=seen.forgets | forgets,
                    # What comes from a key is new, whatever the key comes from.
                    is_old=seen.is_old and not name.startswith(("random_", "threefry")),
                    is_constant=seen.is_constant,
                    number=number,
                )
            )
        return results

    def number(self, *value: Any) -> int:
        if value not in self.numbers:
            self.numbers[value] = next(self.next_number)
        return self.numbers[value]

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
