"""A function of the user as an argument of compiled programs, which then keep nothing of it."""

from collections.abc import Callable
from functools import cache, partial
from types import MethodType
from typing import Any, cast
from weakref import ref

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from envrax._jax.dead_code import arguments_read
from envrax._jax.jaxprs import origin
from envrax._jax.program_key import ProgramKey
from envrax._jax.types import leaf_type, same_types, strip_weak_type

_ARRAYS = jax.Array | np.ndarray | np.generic | float | complex
Static = tuple[Any, tuple[Any, ...]]


def split(tree: Any) -> tuple[list[Any], Static]:
    """The leaves of a pytree that are arrays or floats, None for the others; and the rest."""
    leaves, structure = cast(Any, jax.tree.flatten(tree))
    arrays = [x if isinstance(x, _ARRAYS) else None for x in leaves]
    return arrays, (structure, tuple([None if isinstance(x, _ARRAYS) else x for x in leaves]))


def join(arrays: list[Any], static: Static) -> Any:
    """The pytree that `split` took apart, with these arrays."""
    structure, others = static
    pairs = zip(arrays, others, strict=True)
    return structure.unflatten([other if x is None else x for x, other in pairs])


@cache
def _class_of_jit() -> Any:
    return type(jax.jit(lambda: None))


def _call_of(x: Any) -> Any:
    """`__call__` as its class defines it; None if there is none."""
    return next((vars(c)["__call__"] for c in type(x).__mro__ if "__call__" in vars(c)), None)


@partial(
    jax.tree_util.register_dataclass, data_fields=["arrays"], meta_fields=["_function", "_static"]
)
class Jitted:
    """
    A function that the user compiled with `jax.jit`, and the arguments bound to it.

    It is traced once for its types, as JAX does. The bound arrays are arguments of the program.
    """

    def __init__(self, arrays: list[Any], _function: Any, _static: Static) -> None:
        self.arrays = arrays
        self._function = _function  # a weak reference
        self._static = _static

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
    compiled.
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
    arrays, static = split((args, kwargs))
    return Jitted(arrays, ref(function), static)


class _Program:
    """What a function computes from its arrays, constants and inputs; equal if it is the same."""

    def __init__(self, jaxpr: Any, outputs: Any, inputs: Any) -> None:
        self.jaxpr = jaxpr
        self.outputs = outputs
        self.inputs = inputs
        self._key = outputs, ProgramKey(jaxpr)
        self._hash = hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Program) and self._key == other._key

    def __hash__(self) -> int:
        return self._hash


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["arrays", "constants"],
    meta_fields=["program", "who"],
)
class Traced:
    """
    A function as it is at this call: a pytree of all arrays that it holds or closes over.

    A compiled program that takes it keeps none of these arrays, and no function of the user.
    """

    def __init__(self, arrays: list[Any], constants: list[Any], program: _Program, who: str):
        self.arrays = arrays
        self.constants = constants
        self.program = program
        self.who = who

    def __call__(self, *given: Any) -> Any:
        if not same_types(given, self.program.inputs):
            raise TypeError(
                f"{self.who}: expected inputs of the same types in every step; got "
                f"{jax.tree.map(leaf_type, self.program.inputs)} in the first and "
                f"{jax.tree.map(leaf_type, given)} in a later one."
            )
        function = cast(Any, jaxpr_as_fun)(ClosedJaxpr(self.program.jaxpr, self.constants))
        answer = function(*jax.tree.leaves((self.arrays, *given)))
        return self.program.outputs.unflatten(strip_weak_type(answer))  # literals are no arrays

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
    function: Callable[..., Any], arrays: list[Any], given: Any, who: str, name: str
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
    who, name : str
        What it is for, and what it is, for messages.
    """
    try:
        traced, types = jax.make_jaxpr(function, return_shape=True)(arrays, *given)
        for x in traced.consts:
            if isinstance(x, Tracer):
                jnp.copy(x)  # an error, if its trace has ended
    except jax.errors.UnexpectedTracerError as error:
        raise TypeError(
            f"rollout, evaluate: expected a function that keeps no array of a call; got {who} "
            f"{name}, which uses one that JAX traced in an earlier call. Keep what a later step "
            "needs in `policy_state`."
        ) from error
    program = _Program(traced.jaxpr, jax.tree.structure(types), given)
    return Traced(arrays, traced.consts, program, who)
