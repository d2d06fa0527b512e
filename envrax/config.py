"""The configs of environments: built, widened, and copied with some fields changed."""

import copy
import dataclasses
import inspect
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.counts import require_limit
from envrax._checks.names import require_known
from envrax._jax.at_once import computed_at_once
from envrax._jax.returned import strip_weak_type
from envrax._jax.types import is_traced
from envrax.spaces.base import canonical, kind

ObjectT = TypeVar("ObjectT")
_CONTAINERS = {dict, OrderedDict, defaultdict, Counter, list, deque, set, bytearray}
_DTYPES: dict[type, Any] = {bool: np.bool_, int: np.int32, float: np.float32}


class FieldError(TypeError):
    """A config has no such field, the value does not fit it, or the config cannot be changed."""


@dataclass_transform(kw_only_default=True, field_specifiers=(dataclasses.field,))
class Replaceable:
    """The base of states and configs: tells type checkers what `@chex.dataclass` does."""

    if TYPE_CHECKING:

        def replace(self, **changes: Any) -> Self:
            """A copy with the named fields changed."""
            ...


class Config(Replaceable):
    """
    The base of `EnvConfig`: it cannot be edited once an environment has it.

    A copy, also by `replace`, can be edited until another environment has it.
    """

    __slots__ = ("_frozen",)  # in no `__dict__`, which chex takes for the fields
    _least_limit: ClassVar[int] = 1  # the smallest legal `max_steps`

    def __setattr__(self, name: str, value: Any) -> None:
        self._require_not_frozen(name)
        if name == "max_steps":
            who = f"{type(self).__name__}: expected {name}"
            value = require_limit(who, value, self._least_limit)
        field = self.__dataclass_fields__.get(name)
        if type(value) is int and field and field.type in (float, "float"):
            value = float(value)  # 10 for a float field means 10.0
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        self._require_not_frozen(name)
        object.__delattr__(self, name)

    def _require_not_frozen(self, name: str) -> None:
        if getattr(self, "_frozen", False):
            raise dataclasses.FrozenInstanceError(
                f"{type(self).__name__}: expected the config of an environment to stay as it is, "
                f"since compiled programs keep its values; got a new `{name}`. Build another "
                f"environment with `envrax.with_config(env, {name}=...)`, or another config with "
                f"`config.replace({name}=...)`."
            )

    def in_place_of(self, registered: Any) -> Self:
        """
        The config that a factory uses when the caller passes this one instead of the registered.

        Raises
        ------
        ValueError
            If the config belongs to another environment; only some subclasses know that.
        """
        return self


def freeze(config: ObjectT) -> ObjectT:
    """
    Freeze a config, and return it for an environment: from now on, nobody can edit it.

    Its NumPy arrays become read-only copies. If it has dicts, lists or dataclasses, the returned
    config is a copy with others: through the caller's config, those could still be edited.
    """
    fields = {name: _rebuild(_read_only, x) for name, x in vars(config).items()}
    _set_fields(config, {**fields, "_frozen": True})
    has_containers = any(_copy_containers(x) is not x for x in fields.values())
    return frozen_copy(config) if has_containers else config


def frozen_copy(config: ObjectT, changes: dict[str, Any] | None = None) -> ObjectT:
    """A copy of a config, frozen, with some fields changed, and with containers of its own."""
    copied = _copy_containers(config)
    _set_fields(copied, changes or {})
    return copied


def editable_copy(config: ObjectT) -> ObjectT:
    """A copy of a config that can be edited, with containers and arrays of its own. Functions and \
other objects are the same ones."""
    return copy.copy(_rebuild(_own_array, config))  # which is not frozen


def _set_fields(config: Any, fields: dict[str, Any]) -> None:
    """Set attributes of a config, frozen or not."""
    for name, value in fields.items():
        object.__setattr__(config, name, value)


def _copy_containers(x: Any) -> Any:
    """The same leaves in new dicts, lists and other containers; a leaf itself."""
    return _rebuild(lambda leaf: leaf, x)


def _rebuild(change: Callable[[Any], Any], x: Any) -> Any:
    """
    Changed leaves in new containers, also in dicts whose keys cannot be sorted. Configs are frozen.

    A dataclass that is compared by value is a container; one with `eq=False` is a leaf.
    """
    if type(x) in _CONTAINERS:
        copied = copy.copy(x)
        if isinstance(x, dict):
            for name, value in cast(dict[Any, Any], x).items():
                copied[name] = _rebuild(change, value)
        elif isinstance(x, list | deque):
            for i, value in enumerate(cast(list[Any], x)):
                copied[i] = _rebuild(change, value)
        return copied
    fields = value_fields(x)
    if fields is not None:
        copied = copy.copy(x)
        _set_fields(copied, {name: _rebuild(change, value) for name, value in fields.items()})
        if isinstance(x, Config):
            _set_fields(copied, {"_frozen": True})
        return copied
    if jax.tree_util.all_leaves([x]):
        return change(x)
    return jax.tree.map(partial(_rebuild, change), x, is_leaf=lambda child: child is not x)


def value_fields(x: Any) -> dict[str, Any] | None:
    """What a config, or a dataclass that is compared by value and no pytree, holds; else None."""
    cls = cast(type[Any], type(x))
    is_value = dataclasses.is_dataclass(cls) and cls.__eq__ is not object.__eq__
    if not isinstance(x, Config) and not (is_value and jax.tree_util.all_leaves([x])):
        return None
    names = getattr(x, "__dict__", None) or x.__dataclass_fields__  # which has `__slots__`
    return {name: getattr(x, name) for name in names}


def _own_array(x: Any) -> Any:
    return cast(Any, x).copy() if isinstance(x, np.ndarray) else x


def _read_only(x: Any) -> Any:
    copied = _own_array(x)  # also where it is read-only: it may be a view
    if copied is not x:
        copied.flags.writeable = False
    return copied


def tells_undecorated(cls: type[ObjectT]) -> type[ObjectT]:
    """Let a subclass without its decorator, which inherits this `__init__`, be told so."""
    init: Any = cls.__init__

    @wraps(init)
    def checked(self: Any, *args: Any, **fields: Any) -> None:
        require_decorated(type(self).__name__, type(self))
        init(self, *args, **fields)

    cast(Any, cls).__init__ = checked
    return cls


def require_decorated(who: str, cls: type | None) -> None:
    """Raise a TypeError for a state or config class without its decorator: it has no fields."""
    if cls and "__dataclass_fields__" not in vars(cls) and inspect.get_annotations(cls):
        raise TypeError(
            f"{who}: expected {cls.__name__} to be a `@chex.dataclass`; got a class without it. "
            "Write `@chex.dataclass` above it."
        )


def resolve_config(who: str, pinned: type | None, base: type, config: Any) -> Any:
    """
    The config of a new environment.

    Parameters
    ----------
    who : str
        The environment's class, for messages.
    pinned : type or None
        The config class that it pins.
    base : type
        `EnvConfig`, of which every config is an instance.
    config : Any
        The caller's config: None builds the pinned class, an instance of it is kept, one of a
        parent class is widened.

    Raises
    ------
    TypeError
        If None is given and nothing is pinned, if the config is of another class, or if a field
        that has no default gets no value.
    """
    expected = pinned or base
    if config is None and pinned is None:
        raise TypeError(
            f"{who} does not name a concrete config class, so no config can be built. "
            "Pass `config=...`, or name the class: `JaxEnv[Box, Discrete, MyState, MyConfig]`."
        )
    if config is None:
        return expected()
    if isinstance(config, expected):
        return config
    if isinstance(config, base) and issubclass(expected, type(config)):
        return expected(**_values(config, expected))
    got = f"the class {config.__name__}" if isinstance(config, type) else type(config).__name__
    if got == expected.__name__:
        got = f"an older class of that name, as when a cell runs again; define {who} again too"
    raise TypeError(
        f"{who}: expected a config of class {expected.__name__}; got {got}. Pass an instance of "
        f"{expected.__name__}."
    )


def lost_config(who: str, cls: type) -> FieldError:
    """The error for a class whose environments would not have the config that they are given."""
    return FieldError(
        f"{who}: expected `{cls.__name__}.__init__` to pass its config on; got an environment "
        "without it. Let it take `config=None` first, and call `super().__init__(config)`."
    )


def require_given(who: str, cls: Any, env: Any, given: Any, fields: Iterable[str]) -> None:
    """
    Raise a TypeError unless an environment has the config with which its class was called.

    `__init__` may pass on another config, derived of it, with the same values of some fields.
    """
    if env._given_config is given:
        return
    default = next(iter(inspect.signature(cls).parameters.values())).default
    takes_config = default is None or isinstance(default, Config)
    takes_config |= default is inspect.Parameter.empty
    is_held = all(same_values(getattr(env.config, x, None), getattr(given, x)) for x in fields)
    if env._given_config is None or not takes_config or not is_held:
        raise lost_config(who, cls)


def same_values(a: Any, b: Any) -> bool:
    """
    Whether two configs, or values in them, are equal; two traced ones count as equal.

    `==` has no answer for arrays in them.
    """
    if jax.tree.structure(a) != jax.tree.structure(b):
        return False
    return all(map(_same_leaf, jax.tree.leaves(a), jax.tree.leaves(b)))


def _same_leaf(a: Any, b: Any) -> bool:
    fields = value_fields(a)
    if fields is not None and type(a) is type(b):
        return same_values(fields, value_fields(b))
    return (is_traced(a) and is_traced(b)) or np.array_equal(a, b)


def configured(factory: Any, default: Any, config: Any, fields: dict[str, Any]) -> Any:
    """
    The config that a factory uses: the caller's or the default, with some fields changed.

    Parameters
    ----------
    factory : callable
        The factory, for messages.
    default : EnvConfig
        The registered config, which completes one of a parent class.
    config : EnvConfig or None
        The caller's.
    fields : dict
        The fields to change.

    Raises
    ------
    TypeError
        If the config has no such field.
    """
    config = default if config is None else config
    if not isinstance(cast(object, config), Config):
        return config  # which the environment refuses
    if type(config) in type(default).__mro__[1:]:
        config = dataclasses.replace(default, **_values(config, default))
    if fields:
        _, *keywords, _ = inspect.signature(factory).parameters  # between the id and `**fields`
        expected = (
            f"{factory.__name__}: expected the keywords {', '.join(keywords)} or the fields of "
            f"{type(config).__name__}"
        )
        got = "an unexpected keyword argument '{}'"  # Python's words, which TorchRL looks for
        require_known(expected, fields, _values(config, config), keywords, got=got)
        _require_declared(factory.__name__, config, fields)
        config = dataclasses.replace(config, **fields)
    return config.in_place_of(default)


def _values(config: Any, of: Any) -> dict[str, Any]:
    """The values of the fields of a config that the constructor of `of` takes."""
    settable = (field.name for field in dataclasses.fields(of) if field.init)
    return {name: getattr(config, name) for name in settable if name in config.__dataclass_fields__}


def rebuilt(env: ObjectT, fields: dict[str, Any]) -> ObjectT:
    """
    Call the class of an environment again, with some fields of its config changed.

    Raises
    ------
    FieldError
        If a field is unknown, an array does not fit it, a constructor argument would be lost, or
        results of a `__post_init__` would be stale.
    """
    cls = cast(Any, type(env))
    config = cast(Any, env).config
    who = f"with_config of {cls.__name__}"
    signature = inspect.signature(cls)
    if [p.kind for p in signature.parameters.values()] != [inspect.Parameter.POSITIONAL_OR_KEYWORD]:
        raise FieldError(
            f"{who}: expected a class whose `__init__` takes only a config; got "
            f"{cls.__name__}{signature}. Make the other parameters fields of the config."
        )
    if hasattr(type(config), "__post_init__"):
        raise FieldError(
            f"{who}: expected a config without `__post_init__`, whose results may stay as they "
            f"are; got {type(config).__name__}. Compute them in `__init__` of the environment."
        )
    require_known(f"{who}: expected fields of", fields, _values(config, config), error=FieldError)
    _require_declared(who, config, fields)
    changed: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        if field.name in fields:
            in_force = getattr(config, field.name)
            changed[field.name] = conformed(who, field.name, fields[field.name], in_force)
    given = dataclasses.replace(config, **changed)
    with computed_at_once():  # constants that `__init__` computes, of which a space may be made
        new = cls(given)
    require_given(who, cls, new, given, changed)
    if new._given_config is not given:  # `__init__` derives one: of a derived one, the same
        with computed_at_once():
            again = cls(config)
        known = [x for x, value in _values(config, config).items() if not is_traced(value)]
        require_given(who, cls, again, config, known)
    return new


def _require_declared(who: str, config: Any, fields: dict[str, Any]) -> None:
    """
    Raise a FieldError for a text where a number is declared, a float where an int is, or a dict in
    place of a dataclass.

    Python takes "False" for true. A dict may be meant as changes, or as the whole.
    """
    for field in dataclasses.fields(config):
        declared = getattr(field.type, "__name__", field.type)
        value, in_force = fields.get(field.name), getattr(config, field.name)
        wanted = cast(type[Any], type(in_force))
        if isinstance(value, dict) and dataclasses.is_dataclass(wanted) and declared != "Any":
            changes = ", ".join(f"{name}=..." for name in cast(dict[Any, Any], value))
            raise FieldError(
                f"{who}: expected `{field.name}` to be of type {wanted.__name__}; got the dict "
                f"{value!r:.80}. Pass `dataclasses.replace(config.{field.name}, {changes})`."
            )
        is_text = isinstance(value, str) and declared in ("bool", "int", "float")
        if is_text or (declared == "int" and isinstance(value, (float, np.floating))):
            got = f"the text {value!r}" if is_text else str(cast(Any, value))
            raise FieldError(
                f"{who}: expected `{field.name}` to be of type {declared}; got {got}. Convert it."
            )


def conformed(who: str, name: str, value: Any, in_force: Any) -> Any:
    """
    The new value of a field, with JAX arrays cast to the dtype of the value they replace.

    A Python bool, int or float counts as bool, int32 or float32. A value without JAX arrays is
    returned unchanged, and so is one that replaces None. A dict that replaces a dict changes the
    entries that it names.

    Raises
    ------
    FieldError
        If it has another structure, shape or kind of numbers, or a dict has no such entry.
    """
    if all(isinstance(x, dict) for x in (value, in_force)) and in_force:
        require_known(f"{who}: expected `{name}` of", value, in_force, error=FieldError)
        merged = copy.copy(in_force)  # of the same class
        for key, x in value.items():
            merged[key] = conformed(who, f"{name}.{key}", x, in_force[key])
        return merged
    leaves, structure = cast(Any, jax.tree.flatten(value))
    if in_force is None or not any(isinstance(x, jax.Array) for x in leaves):
        return value
    if structure != jax.tree.structure(in_force):
        raise FieldError(
            f"{who}: expected `{name}` structured as {in_force!r}; got {structure}. Give it the "
            "same structure."
        )
    return jax.tree.map(partial(_number, who, name), value, in_force)


def _number(who: str, name: str, x: Any, in_force: Any) -> Any:
    """An array that replaces a number or an array, in its dtype."""
    if not isinstance(x, jax.Array):
        return x
    dtype = _DTYPES.get(type(in_force), getattr(in_force, "dtype", None))
    wanted = "static value" if dtype is None else kind(dtype)
    fits = kind(x.dtype) == wanted or (kind(x.dtype), wanted) == ("integer", "float")
    expected = f"of kind {wanted}"
    if wanted == "integer" and kind(x.dtype) == "integer":
        fits = x.aval.weak_type or np.can_cast(x.dtype, canonical(dtype))  # or it wraps around
        expected = f"of a dtype within {canonical(dtype)}"
    if not fits or x.shape != np.shape(in_force):
        cast_it = "Cast it" if dtype is None else f"Cast it to {canonical(dtype)}"
        shape = f" of shape {np.shape(in_force)}" if np.shape(in_force) else ""
        raise FieldError(
            f"{who}: expected `{name}` to be {expected}{shape}, as its value {in_force!r}; got "
            f"{x.dtype}{list(x.shape)}. {cast_it}, or leave it out."
        )
    return strip_weak_type(jnp.asarray(x, canonical(dtype)))
