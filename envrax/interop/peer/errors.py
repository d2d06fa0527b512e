"""Errors that a library raises, quoted in a sentence of envrax."""

from collections.abc import Generator
from contextlib import contextmanager

import jax

from envrax.interop.peer.types import PeerConfig
from envrax.spaces.base import canonical


@contextmanager
def quote_errors(
    who: str, library: str, task: str, config: PeerConfig, kind: type[Exception]
) -> Generator[None]:
    """
    Run code of a library with standard dtype promotion, and quote its errors.

    Parameters
    ----------
    who : str
        The environment, for the message.
    library : str
        The name of the library.
    task : str
        What the library is asked to do, such as "build it".
    config : PeerConfig
        The config of the environment. The message advises to check the fields that it sets.
    kind : type
        The class of the error to raise.
    """
    try:
        with jax.numpy_dtype_promotion("standard"):
            yield
    except Exception as error:
        # An error of envrax, or of JAX's key checker.
        if str(error).startswith(who) or isinstance(error, jax.errors.KeyReuseError):
            raise
        got = f"{type(error).__name__}: {error}".rstrip(".: ")
        is_set = {"params": config.params is not None, "options": bool(config.options)}
        fields = " and ".join(f"`{name}`" for name, it_is in is_set.items() if it_is)
        check = f"Check {fields or 'the environment'}.{x64_advice()}"
        raise kind(f"{who}: expected {library} to {task}; got {got}. {check}") from error


def x64_advice() -> str:
    """Advice for an error of a library, where `jax_enable_x64` is set."""
    return " (Without `jax_enable_x64` it may work.)" if canonical(float).itemsize > 4 else ""
