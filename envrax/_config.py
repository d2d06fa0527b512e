"""The config of an environment: built, kept or widened. The decorators that classes need."""

import dataclasses
import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

import jax

from envrax._checks import refuse_unknown, suggestion


class FieldsByKeyword:
    """The base of `EnvConfig`: refuses what chex cannot build a config from, in a sentence."""

    if TYPE_CHECKING:  # chex adds it at run time and ships no type information

        def replace(self, **changes: Any) -> Self:
            """A copy with the named fields changed."""
            ...

    else:

        def __new__(cls, *args, **fields):
            builder = next(base for base in cls.__mro__ if "__init__" in vars(base))
            if "__getitem__" in vars(builder):  # `@chex.dataclass` wrote that `__init__`
                _refuse_positional(cls, args, fields)
                refuse_unknown(cls.__name__, fields, cls.__dataclass_fields__)
            return super().__new__(cls)


def _refuse_positional(cls: Any, args: tuple[Any, ...], fields: dict[str, Any]) -> None:
    # A dict or pairs, alone, are legal: chex makes copies in this way.
    pairs = len(args) == 1 and isinstance(args[0], Iterable) and not isinstance(args[0], str)
    if args and (fields or not pairs):
        given = zip(_settable(cls), args, strict=False)
        named = ", ".join(f"{name}={x!r}" for name, x in given)
        raise TypeError(
            f"{cls.__name__}: expected fields by keyword; got {', '.join(map(repr, args))}. Pass "
            f"fields by keyword: `{cls.__name__}({named})`."
        )


def require_decorated(env_class: type, kind: str, pinned: type | None) -> None:
    """
    Refuse a state or config class without its decorator: its fields would be lost.

    Parameters
    ----------
    env_class : type
        The environment's class, for the message.
    kind : str
        "state", which must be a pytree too, or "config".
    pinned : type or None
        The class that the environment pins; None passes.

    Raises
    ------
    TypeError
        If the decorator is missing, or a state has that of `dataclasses`.
    """
    if pinned is None:
        return
    if "__dataclass_fields__" not in vars(pinned):
        # A config that adds no field needs no decorator.
        whole = kind == "config" and not inspect.get_annotations(pinned)
        got = "a class without it"
    else:
        whole = kind == "config" or _is_pytree(pinned)
        got = "a `@dataclasses.dataclass`, which is no pytree"
    if not whole:
        raise TypeError(
            f"{env_class.__name__}: expected its {kind} {pinned.__name__} to be a "
            f"`@chex.dataclass`; got {got}. Write `@chex.dataclass` above it."
        )


def _is_pytree(cls: type) -> bool:
    # In `__main__` chex registers a class when the first object is made.
    return "from_tuple" in vars(cls) or not jax.tree_util.all_leaves([object.__new__(cls)])


def resolve_config(env_class: type, pinned: type | None, base: type, config: Any) -> Any:
    """
    The config of a new environment.

    Parameters
    ----------
    env_class : type
        The environment's class, for messages.
    pinned : type or None
        The config class that it pins.
    base : type
        `EnvConfig`, of which every config is an instance.
    config : Any
        What the caller gave: None builds the pinned class, an instance of it is kept, one of a
        parent class is widened.

    Raises
    ------
    TypeError
        If None is given and nothing is pinned, if the config is of another class, or if a field
        that has no default gets no value.
    """
    who, expected = env_class.__name__, pinned or base
    if config is None:
        if pinned is None:
            raise TypeError(
                f"{who} does not pin a concrete type for its config, so that none can be built. "
                "Pass `config=...`, or name the class: `JaxEnv[Box, Discrete, MyState, MyConfig]`."
            )
        return _build(who, pinned, {})
    if isinstance(config, expected):
        return config
    if isinstance(config, base) and issubclass(expected, type(config)):
        return _build(who, expected, _values(config))
    got = f"the class {config.__name__}" if isinstance(config, type) else type(config).__name__
    raise TypeError(
        f"{who}: expected a config of class {expected.__name__}; got {got}. Pass an instance of "
        f"{expected.__name__}."
    )


def widened(config: Any, default: Any) -> Any:
    """`default` if there is no config, or with the fields of one of a parent class; else that."""
    if config is None:
        return default
    if not isinstance(config, FieldsByKeyword) or type(config) not in type(default).__mro__[1:]:
        return config
    settable = _settable(type(default))
    given = {name: x for name, x in _values(config).items() if name in settable}
    return dataclasses.replace(default, **given)


def with_fields(who: str, keywords: Iterable[str], config: Any, fields: dict[str, Any]) -> Any:
    """
    The config with some fields changed, as keywords of a factory name them.

    Raises
    ------
    TypeError
        If the config has no such field.
    """
    if not fields or not hasattr(
        config, "__dataclass_fields__"
    ):  # what is no config is refused later
        return config
    known = [*_values(config), *keywords]
    if unknown := [name for name in fields if name not in _values(config)]:
        raise TypeError(
            f"{who}: expected the keywords {', '.join(keywords)} or the fields of "
            f"{type(config).__name__} {', '.join(_values(config))}; got {', '.join(unknown)}. "
            f"{suggestion(unknown, known)}"
        )
    return dataclasses.replace(config, **fields)


def _settable(config_class: Any) -> "dict[str, dataclasses.Field[Any]]":
    """The fields that may be given; computed ones are left out."""
    return {field.name: field for field in dataclasses.fields(config_class) if field.init}


def _values(config: Any) -> dict[str, Any]:
    return {name: getattr(config, name) for name in _settable(type(config))}


def _build(who: str, config_class: type, given: dict[str, Any]) -> Any:
    missing = [
        name
        for name, field in _settable(config_class).items()
        if name not in given and field.default is field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise TypeError(
            f"{who}: expected a config of class {config_class.__name__} with a value for each "
            f"required field; got none for {', '.join(missing)}. Pass a full "
            f"{config_class.__name__}."
        )
    return config_class(**given)
