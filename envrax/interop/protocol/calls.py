# pyright: basic
"""The functions of a library's object: the meaning of each argument, by its name."""

import dataclasses
import inspect
import re
from collections.abc import Collection
from typing import Any

from envrax.interop.protocol.refusal import Refusal

ROLES = {
    "key": "key rng rng_key prng_key random_key prng rngs seed_key",
    "state": "state env_state timestep time_step game_state",
    "action": "action actions act",
    "params": "params env_params config env_config",
    "next_state": "next_state new_state",
    "agent": "player player_id player_idx agent agent_id",
}
"""What an argument means, and the names of parameters that mean it."""

IS_BATCH = (
    ". If the object is a batch of its own: pass the one environment in it, and make a batch with "
    "`VecEnv`"
)
_BATCHES = ("keys", "num_envs", "n_envs", "batch_size")

_MEANING = {name: role for role, names in ROLES.items() for name in names.split()}


@dataclasses.dataclass(frozen=True)
class Call:
    """
    A function of an object, and the meaning of its arguments.

    Attributes
    ----------
    name : str
        Its name in the object.
    arguments : tuple of (str, str)
        The role of each argument, and its name where it is passed as a keyword, else "".
    """

    name: str = ""
    arguments: tuple[tuple[str, str], ...] = ()

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(role for role, _ in self.arguments)

    def __call__(self, env: Any, values: dict[str, Any]) -> Any:
        """Call it on an object, with the values of roles; those that it does not take are left."""
        args = [values[role] for role, keyword in self.arguments if not keyword]
        keywords = {keyword: values[role] for role, keyword in self.arguments if keyword}
        return getattr(env, self.name)(*args, **keywords)

    def __str__(self) -> str:
        written = [f"{keyword}={role}" if keyword else role for role, keyword in self.arguments]
        return f"{self.name}({', '.join(written)})"


@dataclasses.dataclass(frozen=True)
class Written:
    """A function as a user writes it: `"step(key, state, action) -> obs, state, reward, done"`."""

    name: str
    arguments: tuple[tuple[str, str], ...] | None
    results: tuple[str, ...] | None

    @classmethod
    def parse(cls, text: str) -> "Written":
        """
        Read the name of a function, the roles of its arguments, and those of its results.

        Raises
        ------
        Refusal
            If it is something else.
        """
        match = re.fullmatch(r"\s*(\w+)\s*(?:\(([^)]*)\))?\s*(?:->\s*(.*))?", str(text))
        if match is None:
            raise Refusal(
                "expected a function as in 'step(key, state, action) -> obs, state, reward, done'; "
                f"got {text!r}"
            )
        name, arguments, results = match.groups()
        return cls(
            name,
            None if arguments is None else tuple(map(_argument, _words(arguments))),
            None if results is None else tuple(_words(results)),
        )


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _argument(word: str) -> tuple[str, str]:
    keyword, _, role = word.rpartition("=")
    if role not in ROLES:
        raise Refusal(f"expected arguments among {', '.join(ROLES)}; got {role!r}")
    return role, keyword


def roles_of(env: Any, name: str) -> list[str]:
    """What the arguments of a function mean, by their names; "" for one that is unknown."""
    names = inspect.signature(getattr(env, name)).parameters
    return [_MEANING.get(x.strip("_"), "") for x in names]


def bind(env: Any, name: str, known: Collection[str]) -> Call:
    """
    Give each argument of a function its meaning, by its name.

    Parameters
    ----------
    env : Any
        The object.
    name : str
        The name of its function.
    known : collection of str
        The roles that have a value. An optional argument of another role is left out.

    Raises
    ------
    Refusal
        If an argument without a default has no known name.
    """
    arguments: list[tuple[str, str]] = []
    by_keyword = False
    for parameter in inspect.signature(getattr(env, name)).parameters.values():
        role = _MEANING.get(parameter.name.strip("_"), "")
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if role in known and role not in (x for x, _ in arguments):
            by_keyword |= parameter.kind is parameter.KEYWORD_ONLY
            arguments.append((role, parameter.name if by_keyword else ""))
        elif parameter.default is not parameter.empty:
            by_keyword = True
        else:
            raise Refusal(
                f"the argument `{parameter.name}` of `{name}` has "
                + ("no value" if role else "no known name")
                + f'. {name}="{name}(...)" with the arguments in order, of {", ".join(ROLES)}, '
                f"says what they mean{IS_BATCH if parameter.name in _BATCHES else ''}"
            )
    return Call(name, tuple(arguments))
