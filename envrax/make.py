"""The factories: build registered environments, wrapped, compiled and batched."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, cast

from jax.sharding import Mesh

from envrax._checks.counts import require_count
from envrax._fleet.container import Container
from envrax._jax.cache import DEFAULT_CACHE_DIR, CacheDir
from envrax.autoreset import AutoReset
from envrax.config import configured
from envrax.env import AnyEnv, EnvConfig, JaxEnv
from envrax.multi_env import MultiEnv
from envrax.multi_vec_env import MultiVecEnv
from envrax.registry import Wrappers, get_spec
from envrax.sharding import shard
from envrax.vec_env import VecEnv
from envrax.wrappers import JitWrapper


def make(
    name: str,
    *,
    config: EnvConfig | None = None,
    wrappers: Wrappers | None = None,
    jit_compile: bool = True,
    pre_warm: bool = True,
    cache_dir: CacheDir = DEFAULT_CACHE_DIR,
    **fields: Any,
) -> AnyEnv:
    """
    Build a registered environment, in its wrappers and a `JitWrapper`.

    Parameters
    ----------
    name : str
        A registered name; see `get_spec`.
    config : EnvConfig, optional
        Replaces the registered one; an instance of a parent class changes only its own fields.
    wrappers : sequence of callable, optional
        Applied after those registered with the environment, the innermost first: wrapper classes,
        `ResizeObservation(h=84, w=84)`, or any function from env to env.
    jit_compile : bool, default True
        Compile `reset` and `step`, or the part beneath a wrapper that runs on the host, such as
        `RecordVideo`. False compiles nothing, for debugging.
    pre_warm, cache_dir
        Whether to compile now, and in which persistent compile cache; see `BatchedEnv.compile`.
    **fields
        Fields of the config to change, such as `max_steps=200`.

    Raises
    ------
    ValueError
        If the name is not registered.
    MissingPackageError
        If its suite needs a package that is not installed.
    TypeError
        If the config does not fit or lacks a field, or an entry of `wrappers` makes no `JaxEnv`.

    Examples
    --------
    >>> import envrax_classic
    >>> env = make("classic/CartPole-v0", wrappers=[FrameStackObservation(n_stack=2)])
    >>> obs, state = env.reset(jax.random.key(0))
    >>> obs.shape
    (4, 2)
    """
    env = _build(make, name, config, wrappers, jit_compile, cache_dir, fields)
    if jit_compile and pre_warm:
        env.compile()
    return env


def make_vec(
    name: str,
    n_envs: int,
    *,
    config: EnvConfig | None = None,
    wrappers: Wrappers | None = None,
    jit_compile: bool = True,
    pre_warm: bool = True,
    cache_dir: CacheDir = DEFAULT_CACHE_DIR,
    final_obs: bool = False,
    autoreset: AutoReset | None = None,
    donate: bool = False,
    mesh: Mesh | None = None,
    **fields: Any,
) -> VecEnv[Any, Any, Any, Any]:
    """
    Build `n_envs` copies of a registered environment, stepped together with auto-reset.

    Parameters
    ----------
    n_envs : int
        Number of copies, at least 1.
    final_obs, autoreset, donate
        As for `VecEnv`.
    mesh : jax.sharding.Mesh, optional
        Devices over which the slots are spread, along its first axis; see `shard`.
    name, config, wrappers, jit_compile, pre_warm, cache_dir, **fields
        As for `make`.

    Raises
    ------
    ValueError, TypeError, RuntimeError
        As for `make`; or if `n_envs` is below 1 or no integer, or does not fit `mesh`; or if a
        wrapper cannot be traced, such as `RecordVideo`.

    Examples
    --------
    >>> import envrax_classic
    >>> env = make_vec("classic/CartPole-v0", n_envs=8, pre_warm=False)
    >>> obs, state = env.reset(jax.random.key(0))
    >>> obs.shape
    (8, 4)
    """
    n_envs = require_count("make_vec: expected n_envs", n_envs)
    env = _build(make_vec, name, config, wrappers, jit_compile, cache_dir, fields)
    options: dict[str, Any] = dict(jit_compile=jit_compile, final_obs=final_obs)
    options |= dict(autoreset=autoreset, donate=donate)
    vec_env: Any = VecEnv(env, n_envs, **options)
    if mesh is not None:
        vec_env = shard(vec_env, mesh)
    if pre_warm:
        vec_env.compile(cache_dir)
    return vec_env


def make_multi(
    names: Any,
    *,
    wrappers: Wrappers | None = None,
    jit_compile: bool = True,
    pre_warm: bool = False,
    cache_dir: CacheDir = DEFAULT_CACHE_DIR,
    **fields: Any,
) -> MultiEnv:
    """
    Build different environments as one unit.

    Parameters
    ----------
    names : list or dict
        Registered names, each built by `make`, or ready environments. Equal names share one
        environment, unless it runs on the host.
    wrappers, jit_compile, pre_warm, cache_dir, **fields
        As for `make`, for every name; with ready environments only `pre_warm` (default False).

    Raises
    ------
    ValueError, TypeError
        As for `make`; or if `names` is empty or mixed, or environments come with options for names.

    Examples
    --------
    >>> import envrax_classic
    >>> make_multi(["classic/CartPole-v0", "classic/Catch-v0"])
    MultiEnv([CartPole, Catch], num_envs=2)
    """
    options = dict(wrappers=wrappers, jit_compile=jit_compile, cache_dir=cache_dir)
    fleet = MultiEnv(_members(make_multi, make, names, options, fields))
    if pre_warm:
        fleet.compile()
    return fleet


def make_multi_vec(
    names: Any,
    n_envs: int | None = None,
    *,
    wrappers: Wrappers | None = None,
    jit_compile: bool = True,
    pre_warm: bool = False,
    cache_dir: CacheDir = DEFAULT_CACHE_DIR,
    final_obs: bool = False,
    autoreset: AutoReset | None = None,
    donate: bool = False,
    **fields: Any,
) -> MultiVecEnv:
    """
    Build copies of different environments as one unit.

    Parameters
    ----------
    names : list or dict
        Registered names, each built by `make_vec`, or ready `BatchedEnv`s. Equal names share one,
        as for `make_multi`.
    n_envs : int, optional
        Number of copies of each name; required with names.
    wrappers, jit_compile, pre_warm, cache_dir, final_obs, autoreset, donate, **fields
        As for `make_vec`, for every name; with ready environments only `pre_warm` (default False).

    Raises
    ------
    ValueError, TypeError
        As for `make_multi` and `make_vec`; or if `n_envs` is missing with names.

    Examples
    --------
    >>> import envrax_classic
    >>> make_multi_vec(["classic/CartPole-v0", "classic/Catch-v0"], n_envs=8)
    MultiVecEnv([CartPole×8, Catch×8], total=16)
    """
    options: dict[str, Any] = dict(n_envs=n_envs, wrappers=wrappers, jit_compile=jit_compile)
    options |= dict(cache_dir=cache_dir, final_obs=final_obs, autoreset=autoreset, donate=donate)
    fleet = MultiVecEnv(_members(make_multi_vec, make_vec, names, options, fields))
    if pre_warm:
        fleet.compile()
    return fleet


def _build(
    factory: Any,
    name: str,
    config: Any,
    wrappers: Any,
    jit_compile: bool,
    cache_dir: CacheDir,
    fields: dict[str, Any],
) -> AnyEnv:
    """An environment in its wrappers, with a `JitWrapper` beneath any that runs on the host."""
    who = factory.__name__
    spec = get_spec(name)
    if not isinstance(wrappers, Sequence | None) or isinstance(wrappers, str):
        raise TypeError(
            f"{who}: expected `wrappers` to be a list; got {wrappers!r}. Put it into a list."
        )
    env_class: Any = spec.env_class
    env = env_class(configured(factory, spec.default_config, config, fields))
    compiled: Any = None
    if jit_compile and env.traceable:
        compiled = JitWrapper(cache_dir=cache_dir, pre_warm=False)
    for wrapper in (*spec.wrappers, *(cast(Any, wrappers) or ())):
        outer: Any = wrapper(env) if callable(wrapper) else None
        if not isinstance(outer, JaxEnv):
            raise TypeError(
                f"{who}: expected every entry of `wrappers` to make a JaxEnv from a JaxEnv; got "
                f"{wrapper!r}. List wrapper classes, or call them with keywords only."
            )
        if compiled and not outer.traceable:
            outer = wrapper(compiled(env))  # not put beneath: `wrapper` may have kept `env`
            compiled = None
        env = cast(Any, outer)
    return compiled(env) if compiled else env


def _members(factory: Any, of_name: Any, names: Any, options: Any, fields: Any) -> Any:
    """The members of a fleet: ready environments, or one built by `of_name` for each name."""
    who, defaults = factory.__name__, inspect.signature(factory).parameters
    container, members = Container.of(names, who, "names or environments")
    ready = [member for member in members if not isinstance(member, str)]
    given = [name for name, value in options.items() if value is not defaults[name].default]
    given += fields
    if not ready and options.get("n_envs", 1) is None:
        raise ValueError(f"{who}: expected n_envs, the number of copies; got none. Pass one.")
    if not ready:
        members = _built(members, partial(of_name, pre_warm=False, **options, **fields))
    elif len(ready) < len(members):
        raise TypeError(
            f"{who}: expected names alone or environments alone; got {ready[0]!r} among names. "
            "Make the others first, with `make` or `make_vec`."
        )
    elif given:
        raise ValueError(
            f"{who}: expected {' and '.join(given)} with names only; got ready environments, which "
            "are used as they are. Leave it out, or pass names."
        )
    return container.build(members)


def _built(names: list[str], build: Callable[[str], Any]) -> Iterator[Any]:
    """The environment of each name; equal names share one, unless it runs on the host."""
    built: dict[str, Any] = {}
    for name in names:
        if name not in built or not built[name].traceable:
            built[name] = build(name)
        yield built[name]
