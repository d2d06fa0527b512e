# pyright: basic
"""`envrax.wrap` and `envrax.recognise`."""

import importlib
from types import SimpleNamespace
from typing import Any

from envrax.env import AnyEnv, JaxEnv
from envrax.error import MissingPackageError
from envrax.interop.out.auto_reset import Bridge
from envrax.interop.peer.library import refuse_episode_wrappers
from envrax.interop.peer.types import NO_LIMIT, PeerConfig
from envrax.interop.protocol.protocol_env import ProtocolEnv
from envrax.interop.protocol.reader import Choices, Reading, name_of
from envrax.interop.protocol.reading import read
from envrax.libraries import adapter_for


def wrap(
    env: Any,
    params: Any = None,
    *,
    max_steps: int = 0,
    observation_space: Any = None,
    action_space: Any = None,
    reset: str | None = None,
    step: str | None = None,
    fields: dict[str, str] | None = None,
    limit: str | None = None,
    done: str | None = None,
    resets: bool | None = None,
    legacy_keys: bool = False,
) -> AnyEnv:
    """
    An environment of any JAX library.

    An object of a library with an adapter goes through the `wrap` of that library. Any other is
    read by its functions, `reset(key[, params])` and `step(key, state, action[, params])`, whose
    arguments are known by their names. `recognise` shows what is understood. Where there are two
    readings, or none, an error says which keyword decides.

    Parameters
    ----------
    env : Any
        The object; or a module; or a tuple of functions, `reset`, `step` and if needed `observe`.
    params : pytree or dict, optional
        Its parameters, or changes to `default_params`.
    max_steps : int, default 0
        Time limit; 0 takes its own.
    observation_space, action_space : Space, optional
        Spaces, where it declares none or wrong ones. Spaces of other libraries are converted.
    reset, step : str, optional
        A function's name; if needed its arguments, of `key`, `state`, `action`, `params`, and its
        results: `"step(key, state, action) -> obs, state, reward, done, info"`.
    fields : dict, optional
        Fields of a time step by role: `{"terminated": "is_over", "truncated": "timed_out"}`.
    limit : str, optional
        The field with the time limit, such as "params.step_limit"; "none" for no limit.
    done : "terminated", optional
        Says that every end is a termination.
    resets : bool, optional
        False says that `step` never begins an episode, although its end decides its state.
    legacy_keys : bool, default False
        Whether its functions take legacy keys only.

    Raises
    ------
    TypeError
        If it is not understood. The message says what is.
    """
    options = _options(
        observation_space=observation_space,
        action_space=action_space,
        reset=reset,
        step=step,
        fields=fields,
        limit=limit,
        done=done,
        resets=resets,
        legacy_keys=legacy_keys or None,
    )
    if isinstance(env, Bridge):
        return env.configured(params, max_steps)
    if isinstance(env, JaxEnv):
        raise TypeError(
            f"envrax.wrap: expected an environment of another library; got {env!r}, which is one "
            "of envrax. Use it as it is."
        )
    if not options and (library := library_of(env)):
        try:
            module = importlib.import_module(f"envrax.interop.{library}")
        except MissingPackageError:  # an older release, or a fork by its name
            return wrap_by_protocol(env, params, max_steps=max_steps)
        return module.wrap(env, params, max_steps=max_steps)
    return wrap_by_protocol(env, params, max_steps=max_steps, **options)


def wrap_by_protocol(env: Any, params: Any = None, *, max_steps: int = 0, **options: Any) -> AnyEnv:
    """An object as an environment, whatever its class; the keywords are those of `wrap`."""
    env = _as_object(env)
    refuse_episode_wrappers("envrax.wrap", env)
    id = str(getattr(env, "name", None) or name_of(env).rpartition(".")[2])
    config = PeerConfig(id=id, params=params, max_steps=max_steps, options=options)
    return ProtocolEnv(config, peer=env)


def follows_a_protocol(env: Any, kind: type) -> bool:
    """Whether an object is not of a library's base class, but has a function for a step."""
    return not isinstance(env, kind) and any(hasattr(env, x) for x in ("step", "step_env"))


def recognise(env: Any, params: Any = None, **choices: Any) -> Reading:
    """
    What `wrap` understands of an object, to print; with its parameters, without `max_steps`.

    Raises
    ------
    TypeError
        As for `wrap`.
    """
    choices = _options(**choices)
    if choices or not (library := library_of(env)):
        return read(_as_object(env), params, Choices(**choices))
    wrapped = wrap(env, params)
    if isinstance(wrapped.unwrapped, ProtocolEnv):
        return wrapped.unwrapped.reading
    limit = wrapped.config.max_steps
    facts = {
        "object": name_of(env),
        "adapter": f"envrax.interop.{library}.wrap, by its class",
        "observations": str(wrapped.observation_space),
        "actions": str(wrapped.action_space),
        "limit": "none" if limit == NO_LIMIT else f"{limit} steps",
        "agents": ", ".join(wrapped.agents) or "one",
    }
    return Reading(env, facts)


def library_of(env: Any) -> str | None:
    """
    The adapter of the library that has the first class of an object with one.

    None for an object with classes of two libraries, such as a game of jumanji in the form of
    gymnax: its functions say what it is.
    """
    modules = {cls: cls.__module__.partition(".")[0] for cls in type(env).__mro__}
    classes = [cls for cls, module in modules.items() if adapter_for(module)]
    if not classes or not all(issubclass(classes[0], cls) for cls in classes):
        return None
    return adapter_for(modules[classes[0]])


def _options(**choices: Any) -> dict[str, Any]:
    return {name: value for name, value in choices.items() if value is not None}


def _as_object(env: Any) -> Any:
    """A tuple of functions as an object."""
    if type(env) is tuple and len(env) in (2, 3) and all(map(callable, env)):
        return SimpleNamespace(**dict(zip(("reset", "step", "observe"), env, strict=False)))
    return env
