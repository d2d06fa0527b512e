"""`EnvSpec`: what to build for an environment id, and what is refused."""

import copy
import dataclasses
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast, get_args

from envrax.batched_env import BatchedEnv
from envrax.env import AnyEnv, EnvConfig, JaxEnv
from envrax.wrappers.base import Wrapper

AnyBatchedEnv = BatchedEnv[Any, Any]
Wrappers = Sequence[Callable[[Any], AnyEnv]]
OF_BATCHES = ("final_obs", "autoreset", "donate")  # options of every batch but `jit_compile`
_ID = re.compile(r"[\w.+|-]+(/[\w.+|-]+)*")


@dataclass(frozen=True)
class EnvSpec:
    """
    What to build for an id. Specs are equal by value.

    Attributes
    ----------
    name : str
        Canonical id, "BallEnv-v0"; within an `EnvSuite` the short name, "BallEnv".
    env_class : type[JaxEnv] or type[BatchedEnv]
        The environment's class; a `BatchedEnv` for one whose worlds hold several agents.
    default_config : EnvConfig
        Config of an environment for which the caller gives none.
    suite : str, default ""
        Category of the suite that it belongs to.
    wrappers : sequence of callable, default ()
        Wrappers that belong to the environment, the innermost first; kept as a tuple.

    Raises
    ------
    TypeError
        If `wrappers` is no list, or an entry cannot be called.
    """

    name: str
    env_class: type[AnyEnv] | type[AnyBatchedEnv]
    default_config: EnvConfig = field(hash=False)
    suite: str = ""
    wrappers: Wrappers = field(default=(), hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "wrappers", listed("EnvSpec", self.wrappers))

    @property
    def is_batched(self) -> bool:
        """Whether it is a `BatchedEnv`, which `make_vec` builds and `make` does not."""
        return issubclass(self.env_class, BatchedEnv)


def check(spec: EnvSpec) -> None:
    """Raise a TypeError or ValueError if the spec cannot be registered."""
    name, cls = cast(tuple[Any, Any], (spec.name, spec.env_class))
    if not isinstance(name, str):
        raise TypeError(f"register: expected a name, a str; got {name!r}.")
    if not _ID.fullmatch(name):
        raise ValueError(
            f"register: expected a name such as 'BallEnv-v0' or 'demo/BallEnv-v0'; got {name!r}. "
            "Use letters, digits, `_`, `.`, `+`, `|` and `-`, in parts separated by `/`."
        )
    if not (isinstance(cls, type) and issubclass(cls, (JaxEnv, BatchedEnv))):
        raise TypeError(
            f"register: expected a JaxEnv or BatchedEnv class for {name!r}; got {cls!r}. Pass the "
            "class, not an instance."
        )
    if issubclass(cls, Wrapper):
        raise TypeError(
            f"register: expected an environment class for {name!r}; got the wrapper "
            f"{cls.__name__}. Register the environment that it goes around, with "
            f"`wrappers=[{cls.__name__}]`."
        )
    if not isinstance(cast(Any, spec.default_config), EnvConfig):
        raise TypeError(
            f"register: expected an EnvConfig for {name!r}; got {spec.default_config!r}. Pass an "
            "instance of the environment's config class."
        )
    if spec.is_batched:
        _require_batch(cls, spec.default_config)
        refuse_wrappers("register", spec, ())
    else:
        arguments_of(cls, spec.default_config)  # refuses a class that cannot be built


def refuse_wrappers(who: str, spec: EnvSpec, wrappers: Any) -> None:
    every = (*spec.wrappers, *listed(who, () if wrappers is None else wrappers))
    if every:
        raise ValueError(
            f"{who}: expected no `wrappers` for {spec.name!r}, which holds several agents and is "
            f"no JaxEnv; got {', '.join(map(repr, every))}. Leave them out."
        )


def _require_batch(cls: type, config: EnvConfig) -> None:
    """Refuse a `BatchedEnv` class that `make_vec` cannot build."""
    options = dict.fromkeys(OF_BATCHES)
    try:
        inspect.signature(cls).bind(config, 1, jit_compile=True, **options)
    except TypeError:
        raise TypeError(
            f"register: expected {cls.__name__} to be built by `{cls.__name__}(config, n_envs, *, "
            f"jit_compile, {', '.join(options)})`; got {cls.__name__}{inspect.signature(cls)}. "
            "Register a subclass that takes these."
        ) from None


def copied(spec: EnvSpec) -> EnvSpec:
    """The same spec with a config of its own; a TypeError if that cannot be copied."""
    config = spec.default_config
    try:
        return dataclasses.replace(spec, default_config=copy.deepcopy(config))
    except Exception as error:
        raise TypeError(
            f"EnvSpec {spec.name!r}: expected a config that can be copied; got a "
            f"{type(config).__name__} with {_uncopyable(config)}: {error}. Keep such a value out "
            "of the config, and make it in the environment."
        ) from error


def listed(who: str, wrappers: Any) -> Wrappers:
    """A list of wrappers as a tuple; a TypeError if it is none, or an entry cannot be called."""
    if not isinstance(wrappers, Sequence) or isinstance(wrappers, str):
        raise TypeError(
            f"{who}: expected `wrappers` to be a list; got {wrappers!r}. Put it into a list."
        )
    for wrapper in cast(Sequence[Any], wrappers):
        if not callable(wrapper):
            refuse_entry(who, wrapper)
    return tuple(cast(Wrappers, wrappers))


def refuse_entry(who: str, wrapper: Any) -> NoReturn:
    raise TypeError(
        f"{who}: expected every entry of `wrappers` to make a JaxEnv from a JaxEnv; got "
        f"{wrapper!r}. List wrapper classes, or call them with keywords only."
    )


def _uncopyable(config: Any) -> str:
    for known in dataclasses.fields(config) if dataclasses.is_dataclass(config) else ():
        try:
            copy.deepcopy(getattr(config, known.name))
        except Exception:
            return f"the field `{known.name}`"
    return "something in it"


def arguments_of(env_class: type, config: EnvConfig) -> inspect.BoundArguments:
    """
    The arguments with which a registered class is built from a config alone.

    The config goes to the parameter called `config`; else to the one annotated with a config
    class; else to the only one without a default; else to the only one there is.
    """
    signature = _signature(env_class)
    parameters = signature.parameters.values()
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    choices = [
        [p for p in named if p.name == "config"],
        [p for p in named if _takes_config(p.annotation)],
        [p for p in named if p.default is p.empty],
        [p for p in parameters if p.kind is p.VAR_KEYWORD],
        [p for p in parameters if p.kind is not p.VAR_KEYWORD],
    ]
    chosen = next(filter(None, choices), [])
    shown = f"{env_class.__name__}{inspect.signature(env_class)}"
    if len(chosen) != 1:
        raise TypeError(
            f"register: expected {env_class.__name__} to have one parameter for its config; got "
            f"{shown}. Call that parameter `config`."
        )
    [parameter] = chosen
    keyword = "config" if parameter.kind is parameter.VAR_KEYWORD else parameter.name
    by_position = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL)
    try:
        return signature.bind(config) if by_position else signature.bind(**{keyword: config})
    except TypeError:
        raise TypeError(
            f"register: expected {env_class.__name__} to be built from a config alone; got "
            f"{shown}. Register a subclass that gives the rest."
        ) from None


def _signature(cls: type) -> inspect.Signature:
    try:
        return inspect.signature(cls, eval_str=True)
    except Exception:  # an annotation may name what only type checkers see
        return inspect.signature(cls)


def _takes_config(annotation: Any) -> bool:
    """Whether an annotation is a config class, alone, in a union or as the bound of a TypeVar."""
    parts = [getattr(part, "__bound__", part) for part in (annotation, *get_args(annotation))]
    return any(isinstance(part, type) and issubclass(part, EnvConfig) for part in parts)
