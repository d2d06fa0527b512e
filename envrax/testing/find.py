"""An environment by the name that the command line gets."""

import ast
import importlib
from collections.abc import Callable, Sequence
from typing import Any, cast

from envrax.batched_env import BatchedEnv
from envrax.env import JaxEnv
from envrax.make import make


def find_env(name: str, wrappers: Sequence[str] = ()) -> Any:
    """
    The environment that a name refers to, in wrappers.

    Parameters
    ----------
    name : str
        An id, or `module:attribute`: an environment, or a class or function that builds one.
    wrappers : sequence of str
        The innermost first: a wrapper of envrax or `module:Wrapper`, also with keywords, such as
        "FrameStackObservation(n_stack=4)".
    """
    env = _find_bare(name)
    for wrapper in wrappers:
        env = _find_wrapper(wrapper)(env)
    return env


def _find_wrapper(text: str) -> Callable[[Any], Any]:
    name, called, arguments = text.partition("(")
    module, _, attribute = name.rpartition(":")
    wrapper: Any = getattr(importlib.import_module(module or "envrax"), attribute)
    if not called:
        return wrapper
    call = cast(Any, ast.parse(f"wrapper({arguments}", mode="eval").body)
    return wrapper(**{keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords})


def _find_bare(name: str) -> Any:
    module, colon, attribute = name.partition(":")
    if not colon or not attribute.isidentifier():  # the module registers "module:Name-v0"
        try:
            return make(name, jit_compile=False)
        except ValueError as error:
            hint = "Write `module:Name-v0`, whose module registers it, or `module:EnvClass`."
            raise ValueError(f"{error} {hint}") from None
    found: Any = getattr(importlib.import_module(module), attribute)
    known = JaxEnv, BatchedEnv
    env = cast(Any, found if isinstance(found, known) else found())
    if not isinstance(env, known):
        raise TypeError(
            f"expected {name} to be a JaxEnv or a BatchedEnv, its class, or a function that builds "
            f"one; got {env!r}."
        )
    return cast(Any, env)
