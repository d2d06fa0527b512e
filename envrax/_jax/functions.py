"""A function of the user as an argument of a compiled program, which keeps nothing of it."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from types import FunctionType, MethodType
from typing import Any, cast
from weakref import WeakKeyDictionary, ref

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun

from envrax._jax.dead_code import arguments_read
from envrax._jax.jaxprs import WITH_DERIVATIVE_RULES, origin
from envrax._jax.returned import strip_weak_type
from envrax._jax.types import leaf_type, same_types

_SCALARS = np.generic | float | complex
_ARRAYS = jax.Array | np.ndarray | _SCALARS
Static = tuple[Any, tuple[Any, ...]]


def split(tree: Any) -> tuple[list[Any], Static]:
    """The arrays and floats of a pytree, with None in place of other leaves; and all the rest."""
    leaves, structure = cast(Any, jax.tree.flatten(tree))
    arrays: list[Any] = []
    others: list[Any] = []
    for x in leaves:
        is_array = isinstance(x, _ARRAYS)
        arrays.append(x if is_array else None)
        others.append(None if is_array else (type(x), x))  # 1 and True are equal
    return arrays, (structure, tuple(others))


def join(arrays: list[Any], static: Static) -> Any:
    """The pytree that `split` took apart, with these arrays."""
    structure, others = static
    pairs = zip(arrays, others, strict=True)
    return structure.unflatten([other[1] if x is None else x for x, other in pairs])


@cache
def _class_of_jit() -> Any:
    return type(jax.jit(lambda: None))


def _call_of(x: Any) -> Any:
    """`__call__` as its class defines it; None if there is none."""
    return next((vars(c)["__call__"] for c in type(x).__mro__ if "__call__" in vars(c)), None)


@partial(
    jax.tree_util.register_dataclass, data_fields=["arrays"], meta_fields=["_function", "_static"]
)
@dataclass(eq=False)
class Jitted:
    """
    A function that the user compiled with `jax.jit`, and the arguments bound to it.

    It is traced once for its types, as JAX does. The bound arrays are arguments of the program.
    """

    arrays: list[Any]
    _function: Any  # a weak reference
    _static: Static

    @property
    def function(self) -> Any:
        """What the user compiled."""
        return self._function()

    @property
    def bound(self) -> Callable[..., Any]:
        """The function with its bound arguments."""
        args, kwargs = join(self.arrays, self._static)
        return partial(self.function, *args, **kwargs)

    def __call__(self, *given: Any) -> Any:
        return self.bound(*given)


def as_jitted(function: Any) -> Jitted | None:
    """
    What the user compiled with `jax.jit`, if a function is that, or only binds arguments to it.

    A partial binds arguments, a bound method its object, and so does an object whose `__call__` is
    compiled. None also if a float or a NumPy scalar is bound: it may be a static argument.
    """
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    while not isinstance(function, _class_of_jit()):
        if isinstance(function, partial):
            args = *function.args, *args
            kwargs = {**function.keywords, **kwargs}
            function = cast(Any, function.func)
        elif isinstance(function, MethodType):
            args = function.__self__, *args
            function = function.__func__
        elif isinstance(_call_of(function), _class_of_jit()):
            args = function, *args
            function = _call_of(function)
        else:
            return None
    if any([isinstance(x, _SCALARS) for x in jax.tree.leaves((args, kwargs))]):
        return None
    arrays, static = split((args, kwargs))
    return Jitted(arrays, ref(function), static)


class _Same:
    """An object that is equal only to itself, and kept, so that no other one gets its `id`."""

    def __init__(self, x: Any) -> None:
        self._x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._x is other._x

    def __hash__(self) -> int:
        return id(self._x)


class ProgramKey:
    """
    A jaxpr as a value: equal to that of another jaxpr only if both compute the same.

    Its own constants count as inputs. Of the constants of a `jit` within, NumPy arrays, which can
    be edited, compare by value, and all others by identity. Functions that it calls on the host
    compare by `==`, or by their code if they close over nothing. Rules for derivatives, which are
    new in every trace, do not count.

    Parameters
    ----------
    program : jax.extend.core.Jaxpr
        The program, without its constants.
    """

    __slots__ = "_hash", "_key"

    def __init__(self, program: Any) -> None:
        # Each variable by the number of its definition, and each literal by its value.
        numbers = dict[Any, int]()
        key: list[Any] = []
        for x in (*program.constvars, *program.invars):
            numbers[x] = len(numbers)
            key.append(x.aval)
        for eqn in program.eqns:
            key += (eqn.primitive, eqn.ctx)
            for x in eqn.invars:
                key.append(_literal(x) if isinstance(x, Literal) else numbers[x])
            has_rules = eqn.primitive in WITH_DERIVATIVE_RULES
            params: Any = {"": eqn.params["call_jaxpr"]} if has_rules else eqn.params
            for name, x in params.items():
                items = cast(Any, x if type(x) is tuple else (x,))
                is_plain = _PLAIN.issuperset(map(type, items))
                key += (name, tuple(map(type, items)), x) if is_plain else (name, _key(x))
            for x in eqn.outvars:
                numbers[x] = len(numbers)
                key.append(x.aval)
        for x in program.outvars:
            key.append(_literal(x) if isinstance(x, Literal) else numbers[x])
        self._key = len(program.constvars), key
        self._hash = hash((len(key), *[eqn.primitive for eqn in program.eqns]))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ProgramKey) and self._key == other._key)

    def __hash__(self) -> int:
        return self._hash


def _literal(x: Literal) -> tuple[Any, bytes]:
    return x.aval, np.asarray(x.val).tobytes()


_PLAIN = frozenset((int, bool, str, type(None)))  # compare by `==` within a type

# Of the programs within programs: JAX caches those of `jit`, so that most occur again.
_KEYS = WeakKeyDictionary[Any, ProgramKey]()


def _key_within(program: Any) -> ProgramKey:
    found = _KEYS.get(program)
    if found is None:
        found = _KEYS[program] = ProgramKey(program)
    return found


def _key(x: Any) -> Any:
    """A parameter of an equation as a value."""
    if isinstance(x, dict):
        return tuple([(name, _key(value)) for name, value in cast(Any, x).items()])
    if isinstance(x, tuple | list):
        return cast(Any, type(cast(Any, x))), tuple([_key(item) for item in cast(Any, x)])
    if hasattr(getattr(x, "jaxpr", x), "eqns"):
        constants = [_constant(constant) for constant in getattr(x, "consts", ())]
        return _key_within(getattr(x, "jaxpr", x)), tuple(constants)
    if isinstance(x, FunctionType) and (not x.__closure__ or _is_of_jax(x)):
        # JAX makes a new function around a callback in every trace, and the user perhaps a lambda.
        cells = [_key(cell.cell_contents) for cell in x.__closure__ or ()]
        defaults = _key((x.__defaults__, x.__kwdefaults__))
        return x.__code__, _Same(x.__globals__), defaults, tuple(cells)
    if dataclasses.is_dataclass(x) and _is_of_jax(type(x)):  # of `pure_callback`
        fields = [_key(getattr(x, field.name)) for field in dataclasses.fields(x)]
        return type(x), tuple(fields)
    if isinstance(x, float):
        return x.hex()
    try:
        hash(x)
    except TypeError:
        return _Same(x)
    return cast(Any, type(x)), x


def _is_of_jax(x: Any) -> bool:
    return (x.__module__ or "").startswith("jax.")  # None for code that was given to `exec`


def _constant(x: Any) -> Any:
    return (x.dtype, x.shape, x.tobytes()) if isinstance(x, np.ndarray) else _Same(x)


class _TracedProgram:
    """What a function computes from its arrays, constants and inputs; equal if it is the same."""

    def __init__(self, jaxpr: Any, outputs: Any, inputs: Any) -> None:
        self.jaxpr = jaxpr
        self.outputs = outputs  # the structures of both, without arrays
        self.inputs = inputs
        self._key = outputs, ProgramKey(jaxpr)
        self._hash = hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _TracedProgram) and self._key == other._key

    def __hash__(self) -> int:
        return self._hash


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["arrays", "constants"],
    meta_fields=["program", "who"],
)
@dataclass(eq=False)
class Traced:
    """
    A function as it is at this call: a pytree of all arrays that it holds or closes over.

    A compiled program that takes it keeps none of these arrays, and no function of the user.
    """

    arrays: list[Any]
    constants: list[Any]
    program: _TracedProgram
    who: str

    def __call__(self, *given: Any) -> Any:
        if not same_types(given, self.inputs):
            raise TypeError(
                f"{self.who}: expected inputs of the same types in every step; got "
                f"{jax.tree.map(leaf_type, self.inputs)} in the first and "
                f"{jax.tree.map(leaf_type, given)} in a later one."
            )
        function = cast(Any, jaxpr_as_fun)(ClosedJaxpr(self.program.jaxpr, self.constants))
        answer = function(*jax.tree.leaves((self.arrays, *given)))
        return self.program.outputs.unflatten(strip_weak_type(answer))  # literals are no arrays

    @property
    def inputs(self) -> Any:
        """The types of what it takes, beside its arrays."""
        invars = self.program.jaxpr.invars[len(jax.tree.leaves(self.arrays)) :]
        return self.program.inputs.unflatten([x.aval for x in invars])

    @property
    def outputs(self) -> Any:
        """The types of what it returns."""
        return self.program.outputs.unflatten([x.aval for x in self.program.jaxpr.outvars])

    def reads(self) -> list[bool]:
        """Whether it uses each leaf of its inputs."""
        read = arguments_read(ClosedJaxpr(self.program.jaxpr, self.constants))
        return read[len(jax.tree.leaves(self.arrays)) :]

    def copies(self) -> Any:
        """For each output the number of the leaf of its inputs that it is a copy of, or -1."""
        program = self.program.jaxpr
        inputs = program.invars[len(jax.tree.leaves(self.arrays)) :]
        numbers = {id(x): i for i, x in enumerate(inputs)}
        sources = [numbers.get(id(origin(program, x)), -1) for x in program.outvars]
        return self.program.outputs.unflatten(sources)


def trace(
    function: Callable[..., Any], arrays: list[Any], given: Any, who: str, name: str, hint: str
) -> Traced:
    """
    What `function(arrays, *given)` computes now.

    Parameters
    ----------
    function : callable
        The function, which may close over arrays.
    arrays : list
        Its first argument.
    given : tuple of pytree
        Its other arguments, or their types.
    who, name, hint : str
        What it is for, what it is, and where it should keep values, for messages.
    """
    try:
        traced, types = jax.make_jaxpr(function, return_shape=True)(arrays, *given)
        for x in traced.consts:
            if isinstance(x, Tracer):
                jnp.copy(x)  # an error, if its trace has ended
    except jax.errors.UnexpectedTracerError as error:
        raise TypeError(
            f"{who}: expected a function that keeps no array of a call; got {name}, which uses one "
            f"that JAX traced in an earlier call. {hint}"
        ) from error
    jaxpr = _without_constants(traced)
    program = _TracedProgram(jaxpr, jax.tree.flatten(types)[1], jax.tree.flatten(given)[1])
    return Traced(arrays, traced.consts, program, who)


def _without_constants(program: Any) -> Any:
    """The jaxpr of a closed one, which keeps none of its arrays; since JAX 0.12 it is one class."""
    jaxpr = program.jaxpr
    return jaxpr.with_consts([None] * len(program.consts)) if jaxpr is program else jaxpr
