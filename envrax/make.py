"""The factories `make`, `make_vec`, `make_multi` and `make_multi_vec`."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, cast

from jax.sharding import Mesh

from envrax._fleet.container import Container
from envrax._jax.cache import DEFAULT_CACHE_DIR, CacheDir, compile_cache_of_build
from envrax.autoreset import AutoReset
from envrax.config import configured, require_given
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
    Build a registered environment with its wrappers and a `JitWrapper`.

    Parameters
    ----------
    name : str
        A registered name; see `get_spec`.
    config : EnvConfig, optional
        Replaces the registered config. An instance of a parent class replaces only the fields of
        that class.
    wrappers : sequence of callable, optional
        Applied after the registered wrappers, the innermost first. An entry is a wrapper class, a
        factory such as `ResizeObservation(h=84, w=84)`, or any function from env to env.
    jit_compile : bool, default True
        Compile `reset` and `step`. If a wrapper runs on the host, such as `RecordVideo`, only the
        part inside it is compiled. False compiles nothing, for debugging.
    pre_warm, cache_dir
        Whether to compile now, and which persistent compile cache to use; see `BatchedEnv.compile`.
    **fields
        Fields of the config to change, such as `max_steps=200`.

    Raises
    ------
    ValueError
        If the name is not registered.
    MissingPackageError
        If the suite of the environment needs a package that is not installed.
    TypeError
        If the config does not fit or lacks a field, or an entry of `wrappers` does not return a
        `JaxEnv`.

    Examples
    --------
    >>> env = make("classic/CartPole-v0", wrappers=[FrameStackObservation(n_stack=2)])
    >>> obs, state = env.reset(jax.random.key(0))
    >>> obs.shape
    (4, 2)
    """
    with _cache_of_build(jit_compile and pre_warm, cache_dir):
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
        Devices over which the slots are sharded, along the first axis of the mesh; see `shard`.
    name, config, wrappers, jit_compile, pre_warm, cache_dir, **fields
        As for `make`.

    Raises
    ------
    ValueError, TypeError, RuntimeError
        As for `make`; or if `n_envs` is not an integer, is below 1 or does not fit `mesh`; or if a
        wrapper cannot be traced, such as `RecordVideo`.

    Examples
    --------
    >>> env = make_vec("classic/CartPole-v0", n_envs=8, pre_warm=False)
    >>> obs, state = env.reset(jax.random.key(0))
    >>> obs.shape
    (8, 4)
    """
    with _cache_of_build(jit_compile and pre_warm, cache_dir):
        env = _build(make_vec, name, config, wrappers, jit_compile, cache_dir, fields, n_envs)
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
    Build several different environments as one `MultiEnv`.

    Parameters
    ----------
    names : list or dict
        Registered names, each built by `make`, or environments. Equal names share one environment,
        unless it runs on the host.
    wrappers, jit_compile, pre_warm, cache_dir, **fields
        As for `make`, for every name, but `pre_warm` is False by default. With environments instead
        of names, only `pre_warm` is allowed.

    Raises
    ------
    ValueError, TypeError
        As for `make`; or if `names` is empty or mixes names and environments, or if environments
        are passed with keywords other than `pre_warm`.

    Examples
    --------
    >>> make_multi(["classic/CartPole-v0", "classic/Catch-v0"])
    MultiEnv([CartPole, Catch], num_envs=2)
    """
    options = dict(wrappers=wrappers, jit_compile=jit_compile, cache_dir=cache_dir)
    with _cache_of_build(jit_compile and pre_warm, cache_dir):
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
    Build copies of several different environments as one `MultiVecEnv`.

    Parameters
    ----------
    names : list or dict
        Registered names, each built by `make_vec`, or `BatchedEnv`s. Equal names share one batch,
        as for `make_multi`.
    n_envs : int, optional
        Number of copies of each name; required with names.
    wrappers, jit_compile, pre_warm, cache_dir, final_obs, autoreset, donate, **fields
        As for `make_vec`, for every name, but `pre_warm` is False by default. With batches instead
        of names, only `pre_warm` is allowed.

    Raises
    ------
    ValueError, TypeError
        As for `make_multi` and `make_vec`; or if `n_envs` is missing with names.

    Examples
    --------
    >>> make_multi_vec(["classic/CartPole-v0", "classic/Catch-v0"], n_envs=8)
    MultiVecEnv([CartPole×8, Catch×8], total=16)
    """
    options: dict[str, Any] = dict(n_envs=n_envs, wrappers=wrappers, jit_compile=jit_compile)
    options |= dict(cache_dir=cache_dir, final_obs=final_obs, autoreset=autoreset, donate=donate)
    with _cache_of_build(jit_compile and pre_warm, cache_dir):
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
    n_envs: Any = None,
) -> AnyEnv:
    """The environment and its wrappers, with a `JitWrapper` inside any that runs on the host."""
    who = factory.__name__
    _require_name(who, name, n_envs)
    spec = get_spec(name)
    if not isinstance(wrappers, Sequence | None) or isinstance(wrappers, str):
        raise TypeError(
            f"{who}: expected `wrappers` to be a list; got {wrappers!r}. Put it into a list."
        )
    env_class: Any = spec.env_class
    given = configured(factory, spec.default_config, config, fields)
    env = env_class(given)
    require_given(who, env_class, env, given, fields)
    jits = jit_compile and env.traceable
    for wrapper in (*spec.wrappers, *(cast(Any, wrappers) or ())):
        wrapped: Any = wrapper(env) if callable(wrapper) else None
        if not isinstance(wrapped, JaxEnv):
            raise TypeError(
                f"{who}: expected every entry of `wrappers` to take and return a JaxEnv; got "
                f"{wrapper!r}. List wrapper classes, or call them with keywords only."
            )
        if jits and not wrapped.traceable:
            # Wrapped again, because `wrapper` may have stored `env`.
            wrapped = cast(Any, wrapper)(JitWrapper(env, cache_dir, pre_warm=False))
            jits = False
        env = cast(Any, wrapped)
    return JitWrapper(env, cache_dir, pre_warm=False) if jits else env


def _cache_of_build(compiles: bool, cache_dir: CacheDir) -> AbstractContextManager[None]:
    """What a library compiles while it builds goes where the environment's programs go."""
    return compile_cache_of_build(cache_dir) if compiles else nullcontext()


def _require_name(who: str, name: Any, n_envs: Any) -> None:
    """Raise a TypeError for an environment, or its class, in place of a name."""
    cls: Any = name if isinstance(name, type) else type(name)
    if issubclass(cls, JaxEnv):
        made = f"{cls.__name__}()"
        instead = f"JitWrapper({made})" if n_envs is None else f"VecEnv({made}, {n_envs})"
        got = f"the class {cls.__name__}" if cls is name else f"an environment, {name!r}"
        raise TypeError(
            f"{who}: expected the name of a registered environment; got {got}. Write `{instead}`."
        )


def _members(factory: Any, build: Any, names: Any, options: Any, fields: Any) -> Any:
    """The members of a fleet: the environments in `names`, or one built for each name."""
    who = factory.__name__
    parameters = inspect.signature(factory).parameters
    container, members = Container.of(names, who, "names or environments")
    envs = [member for member in members if not isinstance(member, str)]
    keywords = [name for name, value in options.items() if value is not parameters[name].default]
    keywords += fields
    if not envs and options.get("n_envs", 1) is None:
        raise ValueError(f"{who}: expected n_envs, the number of copies; got None. Pass an int.")
    if not envs:
        members = _build_members(members, partial(build, pre_warm=False, **options, **fields))
    elif len(envs) < len(members):
        raise TypeError(
            f"{who}: expected only names or only environments; got {envs[0]!r} among names. Build "
            "the others first, with `make` or `make_vec`."
        )
    elif keywords:
        raise ValueError(
            f"{who}: expected names with {' and '.join(keywords)}; got environments, which are "
            "used as they are. Leave it out, or pass names."
        )
    return container.build(members)


def _build_members(names: list[str], build: Callable[[str], Any]) -> Iterator[Any]:
    """The environment of each name. Equal names share one, unless it runs on the host."""
    built: dict[str, Any] = {}
    for name in names:
        if name not in built or not built[name].traceable:
            built[name] = build(name)
        yield built[name]
