"""Objects that users built and give to `wrap`: what is refused, in sentences."""

from typing import Any


def require_methods(library: str, env: Any, *names: str) -> None:
    """
    Refuse an object that is no environment of the library.

    Parameters
    ----------
    library : str
        The module of envrax that the object was given to.
    env : Any
        The object.
    *names : str
        Attributes that every environment of the library has.

    Raises
    ------
    TypeError
        If one is missing.
    """
    if missing := [name for name in names if not hasattr(env, name)]:
        raise TypeError(
            f"envrax.interop.{library}.wrap: expected an environment of {library}, with "
            f"{', '.join(names)}; got {env!r}, without {', '.join(missing)}. Pass the object that "
            "the library's own constructor returns."
        )


def require_bare(library: str, env: Any, wrappers: tuple[type, ...]) -> None:
    """
    Refuse an environment in wrappers that end, begin or batch episodes by themselves.

    Parameters
    ----------
    library : str
        The module of envrax that the object was given to.
    env : Any
        The object; a wrapper has what it wraps in `env`.
    wrappers : tuple of type
        The wrappers to refuse.

    Raises
    ------
    TypeError
        If there is one at any depth.
    """
    while env is not None:
        if isinstance(env, wrappers):
            raise TypeError(
                f"envrax.interop.{library}.wrap: expected an environment without {library}'s "
                f"wrappers for training; got a {type(env).__name__}. Pass what it wraps, the time "
                "limit as `max_steps`, and make a batch with `VecEnv`."
            )
        env = getattr(env, "env", None)


def require_unwrapped(library: str, env: Any) -> None:
    """
    Refuse an environment in a wrapper, of which an adapter would call what lies inside.

    Parameters
    ----------
    library : str
        The module of envrax that the object was given to.
    env : Any
        The object; a wrapper has what it wraps in `_env`.

    Raises
    ------
    TypeError
        If it is one.
    """
    if "_env" in vars(env):
        raise TypeError(
            f"envrax.interop.{library}.wrap: expected an environment in no wrapper; got a "
            f"{type(env).__name__}. Pass what it wraps, and write the wrapper for envrax."
        )
