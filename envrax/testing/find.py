"""An environment by the name that the command line gets."""

import ast
import importlib
import pkgutil
from collections.abc import Callable, Sequence
from typing import Any, cast

from envrax.batched_env import BatchedEnv
from envrax.env import JaxEnv
from envrax.make import make
from envrax.registry import get_spec

NAMES = (
    "an id, `module:prefix/Name-v0` or `module:object`: an environment of any library, or a class "
    "or function that makes one; with keywords: "
    """'jaxtari/pong(options={"sprites": "rectangles"})'"""
)
_ENVS = JaxEnv, BatchedEnv


def find_env(name: str, wrappers: Sequence[str] = ()) -> Any:
    """
    The environment that a name refers to, in wrappers.

    Parameters
    ----------
    name : str
        An id, or `module:attribute` as `find_object` reads it; an object of another library goes
        through `envrax.wrap`.
    wrappers : sequence of str
        The innermost first: a wrapper of envrax or `module:Wrapper`, also with keywords, such as
        "FrameStackObservation(n_stack=4)".
    """
    found = find_object(name)
    wrap: Any = cast(Any, importlib.import_module("envrax")).wrap
    env: Any = cast(Any, found) if isinstance(found, _ENVS) else wrap(found)
    for wrapper in wrappers:
        env = _find_wrapper(wrapper)(env)
    return env


def find_object(name: str) -> Any:
    """
    The environment that an id or `module:attribute` refers to, or the object of another library.

    A class, or a function without an environment's functions, is called. Keywords follow in
    parentheses: "jaxtari/pong(options={'sprites': 'rectangles'})" has those of `make`,
    "my_module:MyEnv(size=3)" those of the class or function.
    """
    by_id = not is_object(name)
    name, keywords = with_keywords(name)
    if by_id:
        try:
            get_spec(name)
        except ValueError as error:
            hint = "Write `module:Name-v0`, whose module registers it, or `module:EnvClass`."
            raise ValueError(f"{error} {hint}") from None
        return make(name, jit_compile=False, **keywords)
    found: Any = pkgutil.resolve_name(name)
    is_env = any(hasattr(found, x) for x in ("step", "step_env"))
    if isinstance(found, type) or (callable(found) and not is_env):
        return found(**keywords)
    if keywords:
        raise TypeError(
            f"expected keywords after a class or a function; got {keywords} after {name}, which is "
            f"{found!r}. Leave them out."
        )
    return found


def is_object(name: str) -> bool:
    """Whether a name is `module:attribute`, and no id."""
    module, _, attribute = name.partition("(")[0].rpartition(":")
    return bool(module) and attribute.replace(".", "").isidentifier()


def with_keywords(text: str) -> tuple[str, dict[str, Any]]:
    """A name, and the keywords in the parentheses after it."""
    name, is_called, arguments = text.partition("(")
    if not is_called:
        return name, {}
    try:
        call = cast(Any, ast.parse(f"name({arguments}", mode="eval").body)
        given = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (AttributeError, SyntaxError, ValueError):
        call, given = None, {}
    if call is None or call.args or None in given:
        raise ValueError(
            f"expected values by keyword after {name}, such as {name}(max_steps=9, options="
            f"{{'size': 3}}); got {text!r}."
        )
    return name, given


def _find_wrapper(text: str) -> Callable[[Any], Any]:
    name, keywords = with_keywords(text)
    room = "" if ":" in name else "envrax.wrappers." if "." in name else "envrax."
    wrapper: Any = pkgutil.resolve_name(room + name)
    return wrapper(**keywords) if keywords else wrapper
