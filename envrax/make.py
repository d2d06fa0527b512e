"""The factories: from a registered name to an environment that is ready to step."""

from collections.abc import Callable
from typing import Any, cast

from jax.sharding import Mesh

from envrax._build import build, build_batch
from envrax._checks import require_count
from envrax._fleet.container import Container
from envrax._jax.cache import DEFAULT_CACHE_DIR, CacheDir
from envrax._spec import AnyEnv, Wrappers
from envrax.autoreset import AutoReset
from envrax.env import EnvConfig
from envrax.multi_env import MultiEnv
from envrax.multi_vec_env import MultiVecEnv
from envrax.registry import get_spec
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
        A registered name, which may need an import first; see `get_spec`.
    config : EnvConfig, optional
        In place of the registered one. One of a parent class is widened: its fields are kept, the
        others come from the registered config.
    wrappers : sequence of callable, optional
        Applied after those registered with the environment, the innermost first: wrapper classes,
        `ResizeObservation(h=84, w=84)`, or any function from env to env.
    jit_compile : bool, default True
        Compile `reset` and `step`; False compiles nothing, for debugging. Beneath a wrapper that
        works on the host, such as `RecordVideo`, what can be traced is compiled.
    pre_warm : bool, default True
        Compile now, and not on the first call.
    cache_dir : path-like or None
        Persistent compile cache of the warm-up; see `BatchedEnv.compile`.
    **fields
        Fields of the config to change, such as `max_steps=200`.

    Raises
    ------
    ValueError
        If the name is not registered, or is that of worlds with several agents.
    MissingPackageError
        If its suite needs a package that is not installed.
    TypeError
        If the config does not fit or has no such field, or an entry of `wrappers` makes no
        `JaxEnv`.

    Examples
    --------
    >>> import envrax_classic
    >>> env = make("classic/CartPole-v0", wrappers=[FrameStackObservation(n_stack=2)])
    >>> obs, state = env.reset(jax.random.key(0))
    >>> obs.shape
    (4, 2)
    """
    compiled = JitWrapper(cache_dir=cache_dir, pre_warm=False) if jit_compile else None
    env = build("make", get_spec(name), config, wrappers, fields, compiled)
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

    An environment whose worlds hold several agents is a `BatchedEnv` of its own: `n_envs` worlds,
    and a slot for each agent. It takes no wrappers.

    Parameters
    ----------
    n_envs : int
        Number of copies, at least 1.
    final_obs, autoreset, donate
        As for `VecEnv`.
    mesh : jax.sharding.Mesh, optional
        Devices over which the slots are spread, along its first axis; see `shard`, which then makes
        what is returned.
    name, config, wrappers, jit_compile, pre_warm, cache_dir, **fields
        As for `make`.

    Raises
    ------
    ValueError, TypeError
        As for `make`; or if `n_envs` is below 1 or no integer, wrappers cannot go around it, or it
        cannot be spread over `mesh`.
    RuntimeError
        If a wrapper cannot be traced, such as `RecordVideo`.

    Examples
    --------
    >>> import envrax_classic
    >>> env = make_vec("classic/CartPole-v0", n_envs=8, pre_warm=False)
    >>> obs, state = env.reset(jax.random.key(0))
    >>> obs.shape
    (8, 4)
    """
    spec, n_envs = get_spec(name), require_count("make_vec: expected n_envs", n_envs)
    options: dict[str, Any] = dict(
        jit_compile=jit_compile, final_obs=final_obs, autoreset=autoreset, donate=donate
    )
    if spec.is_batched:
        batch = build_batch("make_vec", spec, n_envs, config, wrappers, fields, options)
        vec_env = cast(VecEnv[Any, Any, Any, Any], batch)
    else:
        compiled = JitWrapper(cache_dir=cache_dir, pre_warm=False) if jit_compile else None
        env = build("make_vec", spec, config, wrappers, fields, compiled)
        vec_env = VecEnv(env, n_envs, **options)
    if mesh is not None:
        vec_env = cast(VecEnv[Any, Any, Any, Any], shard(vec_env, mesh))
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
        Registered names, each built as by `make`; or ready environments, used as they are.
    wrappers, jit_compile, cache_dir, **fields
        As for `make`, for every name; not with ready environments.
    pre_warm : bool, default False
        As for `make`.

    Raises
    ------
    ValueError, TypeError
        As for `make`; or if there are no names, something is neither name nor environment, or
        environments come with names or with options for names.

    Examples
    --------
    >>> import envrax_classic
    >>> make_multi(["classic/CartPole-v0", "classic/Catch-v0"])
    MultiEnv([CartPole, Catch], num_envs=2)
    """
    options: dict[str, Any] = dict(wrappers=wrappers, jit_compile=jit_compile, cache_dir=cache_dir)
    options |= fields
    return _fleet(MultiEnv, "make_multi", names, make, options, pre_warm)


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
        Registered names, each built as by `make_vec`; or ready `BatchedEnv`s, used as they are.
    n_envs : int, optional
        Number of copies of each name; required with names.
    wrappers, jit_compile, cache_dir, final_obs, autoreset, donate, **fields
        As for `make_vec`, for every name; not with ready environments.
    pre_warm : bool, default False
        Compile now, and not on the first call.

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
    options: dict[str, Any] = dict(
        n_envs=n_envs,
        wrappers=wrappers,
        jit_compile=jit_compile,
        cache_dir=cache_dir,
        final_obs=final_obs,
        autoreset=autoreset,
        donate=donate,
        **fields,
    )
    return _fleet(MultiVecEnv, "make_multi_vec", names, make_vec, options, pre_warm)


def _fleet(
    fleet: Callable[[Any], Any],
    who: str,
    names: Any,
    of_name: Callable[..., Any],
    options: dict[str, Any],
    pre_warm: bool,
) -> Any:
    """A fleet from names, each built by `of_name` with the options, or from ready environments."""
    container, members = Container.of(names, who, "names or environments")
    others = [member for member in members if not isinstance(member, str)]
    n_names = len(members) - len(others)
    if n_names and others:
        raise TypeError(
            f"{who}: expected names alone or environments alone; got {n_names} of {len(members)} "
            f"as names, and {others[0]!r}. Make the others first, with `make` or `make_vec`."
        )
    defaults = dict(jit_compile=True, cache_dir=DEFAULT_CACHE_DIR, final_obs=False, donate=False)
    given = [name for name, value in options.items() if value is not defaults.get(name)]
    if others and given:
        raise ValueError(
            f"{who}: expected {' and '.join(given)} with names only; got ready environments, which "
            "are used as they are. Leave it out, or pass names."
        )
    if n_names and options.get("n_envs", 1) is None:
        raise ValueError(
            f"{who}: expected n_envs, the number of copies of each name; got none. Pass "
            "`n_envs=64`."
        )
    if n_names:
        members = [of_name(name, pre_warm=False, **options) for name in members]
    made = fleet(container.build(members))
    if pre_warm:
        made.compile()
    return made
