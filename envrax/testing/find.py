"""An environment by the name that the command line gets."""

import importlib
from typing import Any, cast

from envrax.batched_env import BatchedEnv
from envrax.env import JaxEnv
from envrax.make import make


def find_env(name: str) -> Any:
    """The environment that a name refers to, built if the name is that of a class or function."""
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
