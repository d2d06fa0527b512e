"""From a spec to an environment in its wrappers, or to a batch."""

from collections.abc import Callable
from typing import Any, cast

from envrax._config import widened, with_fields
from envrax._spec import (
    OF_BATCHES,
    AnyBatchedEnv,
    EnvSpec,
    arguments_of,
    listed,
    refuse_entry,
    refuse_wrappers,
)
from envrax.env import AnyEnv, EnvConfig, JaxEnv

# Of the factories, for the message about a keyword that is neither one of them nor a field.
_KEYWORDS = ("config", "wrappers", "jit_compile", "pre_warm", "cache_dir")


def build(
    who: str,
    spec: EnvSpec,
    config: EnvConfig | None,
    wrappers: Any,
    fields: dict[str, Any],
    compiled: Callable[[AnyEnv], AnyEnv] | None,
) -> AnyEnv:
    """
    The environment of a spec, in its own wrappers and in more.

    Parameters
    ----------
    who : str
        The caller, for messages.
    spec : EnvSpec
        What to build; its config is used as it is, not copied.
    config : EnvConfig, optional
        In place of the spec's config. One of a parent class is widened from it.
    wrappers : sequence of callable, optional
        Around those of the spec, the innermost first.
    fields : dict
        Fields of the config to change.
    compiled : callable, optional
        The wrapper that compiles. It goes around everything, or, where a wrapper works on the host,
        around what lies beneath that one.
    """
    if spec.is_batched:
        raise ValueError(
            f"{who}: expected the id of an environment with one agent; got {spec.name!r}, which "
            "holds several agents: use `make_vec`."
        )
    every = (*spec.wrappers, *listed(who, () if wrappers is None else wrappers))
    arguments = arguments_of(spec.env_class, _config(who, spec, config, fields))
    env: AnyEnv = cast(Any, spec.env_class)(*arguments.args, **arguments.kwargs)
    for wrapper in every:
        outer = _wrapped(who, wrapper, env)
        if compiled and env.traceable and not outer.traceable:
            # Its constructor may keep the environment it got, so it is called again.
            outer = _wrapped(who, wrapper, compiled(env))
        env = outer
    return compiled(env) if compiled and env.traceable else env


def build_batch(
    who: str,
    spec: EnvSpec,
    n_envs: int,
    config: EnvConfig | None,
    wrappers: Any,
    fields: dict[str, Any],
    options: dict[str, Any],
) -> AnyBatchedEnv:
    """
    The batch of a spec whose class is a `BatchedEnv`.

    Parameters
    ----------
    n_envs : int
        Number of worlds.
    options : dict
        Keywords of the class, those that `make_vec` and `VecEnv` share.
    who, spec, config, wrappers, fields
        As for `build`.

    Raises
    ------
    ValueError
        If there are wrappers: they go around a `JaxEnv`.
    """
    refuse_wrappers(who, spec, wrappers)
    return cast(Any, spec.env_class)(_config(who, spec, config, fields), n_envs, **options)


def _config(who: str, spec: EnvSpec, config: Any, fields: dict[str, Any]) -> Any:
    config = widened(config, spec.default_config)
    keywords = [*_KEYWORDS, *(("n_envs", *OF_BATCHES) if "vec" in who else ())]
    config = with_fields(who, keywords, config, fields)
    # What is no config is refused by the environment.
    return config.in_place_of(spec.default_config) if isinstance(config, EnvConfig) else config


def _wrapped(who: str, wrapper: Callable[[Any], Any], env: AnyEnv) -> AnyEnv:
    outer = wrapper(env)
    if not isinstance(outer, JaxEnv):
        refuse_entry(who, wrapper)
    return cast(AnyEnv, outer)
