# pyright: basic, reportMissingImports=false
"""
Ids of envrax in Gymnasium's registry, for programs that call `gymnasium.make`.

Importing this module registers `envrax/Make-v0`, which takes any id by its keyword `name`, and the
ids of all installed suites, where Gymnasium allows them. No library is imported for that. An id of
Gymnasium has one slash: `gymnax/CartPole-v1` becomes `envrax/gymnax.CartPole-v1`.
"""

import contextlib
import re
import sys
from typing import Any

from envrax.interop.out.gymnasium import to_gymnasium
from envrax.interop.out.gymnasium_spec import played_limit
from envrax.interop.out.gymnasium_vec import to_gymnasium_vec
from envrax.interop.peer.library import require
from envrax.make import make, make_vec
from envrax.registry import installed_ids, registered_names
from envrax.suite import load_suite
from envrax.wrappers import TimeLimit

require("gymnasium", "1.2", extra="gymnasium")

import gymnasium  # noqa: E402
from gymnasium.vector import AutoresetMode  # noqa: E402

# The first `reset` compiles what is used. JAX must not start before: Gymnasium makes an environment
# in the process that it then forks.
_NOT_COMPILED = {"pre_warm": False}


def register(*prefixes: str) -> list[str]:
    """
    Register ids of envrax in Gymnasium, for `gymnasium.make` and `gymnasium.make_vec`.

    Keywords of `gymnasium.make` go to `envrax.make`, those of `gymnasium.make_vec` to
    `envrax.make_vec`, except `wrappers`, which Gymnasium applies itself. `render_mode`, `array`
    and `autoreset_mode` go to `to_gymnasium` and `to_gymnasium_vec`. `max_episode_steps` is a
    `TimeLimit`; where it is more than the limit of the environment, it is `max_steps` of the
    config, unless that is given. With -1 the limit of the environment stays.

    Parameters
    ----------
    *prefixes : str
        Suites to load, as for `envrax.load_suite`. Without any, all ids that are registered in
        envrax.

    Returns
    -------
    list of str
        The ids in Gymnasium.

    Raises
    ------
    ValueError
        If a prefix is unknown, or an id is taken or not allowed by Gymnasium.
    MissingPackageError
        If its library is not installed.
    """
    names = [name for prefix in prefixes for name in load_suite(prefix)]
    return [_register(name) for name in (names if prefixes else registered_names())]


def gymnasium_id(name: str) -> str:
    """The id in Gymnasium of an id of envrax."""
    return "envrax/" + re.sub(r"[^\w.-]", ".", name)


def _make(name: str, render_mode: str | None = None, **fields: Any) -> gymnasium.Env:
    fields = {**_NOT_COMPILED, **fields}
    env = make(name, **fields)
    limit = _limit_of_gymnasium_make()
    if _is_longer(limit, env) and "max_steps" not in fields:
        env = make(name, max_steps=limit, **fields)
    return to_gymnasium(env, render_mode=render_mode)


def _limit_of_gymnasium_make() -> int | None:
    """The `max_episode_steps` of the call of `gymnasium.make` that makes this environment."""
    # It is an argument of `make`, or in the spec. Gymnasium gives it to its `TimeLimit` only.
    caller = sys._getframe(2)
    if caller.f_code is not gymnasium.make.__code__:
        return None
    given = caller.f_locals.get("max_episode_steps")
    spec = caller.f_locals.get("env_spec")
    return getattr(spec, "max_episode_steps", None) if given is None else given


def _is_longer(limit: int | None, env: Any) -> bool:
    """Whether the environment, or the batch, would end episodes before this limit."""
    played = played_limit(env)
    return limit is not None and played is not None and limit > played


def _make_vec(
    name: str,
    num_envs: int = 1,
    render_mode: str | None = None,
    array: Any = "numpy",
    autoreset_mode: Any = AutoresetMode.SAME_STEP,
    max_episode_steps: int | None = None,
    **fields: Any,
) -> gymnasium.vector.VectorEnv:
    fields = {**_NOT_COMPILED, **fields}
    batched_env = make_vec(name, num_envs, **fields)
    if _is_longer(max_episode_steps, batched_env):
        fields.setdefault("max_steps", max_episode_steps)
        batched_env = make_vec(name, num_envs, **fields)
    elif max_episode_steps not in (None, -1, played_limit(batched_env)):
        # `gymnasium.make` applies it itself, by a `TimeLimit` of Gymnasium.
        limit = TimeLimit(max_steps=max_episode_steps)
        batched_env = make_vec(name, num_envs, wrappers=[limit], **fields)
    return to_gymnasium_vec(
        batched_env, autoreset_mode=autoreset_mode, array=array, render_mode=render_mode
    )


def _register(name: str) -> str:
    id = gymnasium_id(name)
    known = gymnasium.registry.get(id)
    if known is not None and known.kwargs != {"name": name}:
        raise ValueError(
            "gymnasium_registration.register: expected ids that Gymnasium does not have yet; "
            f"got {name}, whose id {id} is taken by {known.kwargs or known.entry_point}. "
            "Rename it."
        )
    if known is None:
        _add(id, {"name": name})
    return id


def _add(id: str, kwargs: dict[str, Any]) -> None:
    try:
        gymnasium.register(
            id,
            entry_point=f"{__name__}:_make",
            vector_entry_point=f"{__name__}:_make_vec",
            kwargs=kwargs,
        )
    except gymnasium.error.Error as error:
        raise ValueError(
            f"gymnasium_registration.register: expected an id that Gymnasium takes; got {id}: "
            f"{error}. Use `envrax/Make-v0` with `name=`."
        ) from error


if "envrax/Make-v0" not in gymnasium.registry:
    _add("envrax/Make-v0", {})
for _name in installed_ids():
    with contextlib.suppress(ValueError):  # `envrax/Make-v0` still makes such an id
        _register(_name)
