"""The factories: from a registered name to an environment that is ready to step."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from envrax._compile import DEFAULT_CACHE_DIR, CacheDir
from envrax._container import Container
from envrax._count import require_count
from envrax.autoreset import AutoReset
from envrax.env import EnvConfig, JaxEnv
from envrax.multi_env import MultiEnv
from envrax.multi_vec_env import MultiVecEnv
from envrax.registry import get_spec
from envrax.vec_env import VecEnv
from envrax.wrappers import JitWrapper, Wrapper

AnyEnv = JaxEnv[Any, Any, Any, Any]
Wrappers = Sequence[Callable[[Any], AnyEnv]]


def make(
    name: str,
    *,
    config: EnvConfig | None = None,
    wrappers: Wrappers | None = None,
    jit_compile: bool = True,
    pre_warm: bool = True,
    cache_dir: CacheDir = DEFAULT_CACHE_DIR,
) -> AnyEnv:
    """
    Build a registered environment.

    Parameters
    ----------
    name : str
        A registered name.
    config : EnvConfig, optional
        In place of the registered default.
    wrappers : sequence of callable, optional
        The innermost first: wrapper classes, `ResizeObservation(h=84, w=84)`, or any function from
        env to env.
    jit_compile : bool, default True
        Compile `reset` and `step`; False compiles nothing, for debugging. Beneath a wrapper that
        works on the host, such as `RecordVideo`, what can be traced is compiled.
    pre_warm : bool, default True
        Compile now, and not on the first call.
    cache_dir : path-like or None
        Persistent compile cache of the warm-up; see `BatchedEnv.compile`.

    Returns
    -------
    JaxEnv
        The environment in its wrappers, in a `JitWrapper`.

    Raises
    ------
    ValueError
        If the name is not registered.
    TypeError
        If the config does not fit, or an entry of `wrappers` makes no `JaxEnv`.

    Examples
    --------
    >>> import envrax_classic
    >>> env = make("classic/CartPole-v0", wrappers=[FrameStackObservation(n_stack=2)])
    >>> obs, state = env.reset(jax.random.key(0))
    >>> obs.shape
    (4, 2)
    """
    env = _compose("make", name, config, wrappers)
    return _compiled(env, cache_dir, pre_warm) if jit_compile else env


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
) -> VecEnv[Any, Any, Any, Any]:
    """
    Build `n_envs` copies of a registered environment, stepped together with auto-reset.

    Parameters
    ----------
    n_envs : int
        Number of copies, at least 1.
    final_obs, autoreset, donate
        As for `VecEnv`.
    name, config, wrappers, jit_compile, pre_warm, cache_dir
        As for `make`.

    Returns
    -------
    VecEnv
        Around the environment in its wrappers.

    Raises
    ------
    ValueError
        If the name is not registered, or `n_envs` is below 1.
    TypeError
        As for `make`.
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
    env = _compose("make_vec", name, config, wrappers)
    n_envs = require_count("make_vec: expected n_envs", n_envs)
    if jit_compile and env.traceable:
        env = JitWrapper(env, cache_dir, pre_warm=False)
    vec_env = VecEnv(
        env,
        n_envs,
        jit_compile=jit_compile,
        final_obs=final_obs,
        autoreset=autoreset,
        donate=donate,
    )
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
) -> MultiEnv:
    """
    Build different environments as one unit.

    Parameters
    ----------
    names : list or dict
        Registered names, each built as by `make`; or ready environments, used as they are.
    wrappers, jit_compile, cache_dir
        As for `make`, for every name.
    pre_warm : bool, default False
        Compile now, and not on the first call.

    Returns
    -------
    MultiEnv
        A list or a dict of environments, as `names` is.

    Raises
    ------
    ValueError
        If a name is not registered, there are none, or `wrappers` come with ready environments.
    TypeError
        As for `make`; or if names are mixed with environments, or something is neither.

    Examples
    --------
    >>> import envrax_classic
    >>> make_multi(["classic/CartPole-v0", "classic/Catch-v0"])
    MultiEnv([CartPole, Catch], num_envs=2)
    """
    form, entries = Container.of(names, "make_multi", "names or JaxEnvs")
    if _are_names("make_multi", entries, wrappers=wrappers):
        entries = [
            make(
                name,
                wrappers=wrappers,
                jit_compile=jit_compile,
                pre_warm=False,
                cache_dir=cache_dir,
            )
            for name in entries
        ]
    multi_env = MultiEnv(form.build(entries))
    if pre_warm:
        multi_env.compile()
    return multi_env


def make_multi_vec(
    names: Any,
    n_envs: int | None = None,
    *,
    wrappers: Wrappers | None = None,
    jit_compile: bool = True,
    pre_warm: bool = False,
    cache_dir: CacheDir = DEFAULT_CACHE_DIR,
    final_obs: bool = False,
) -> MultiVecEnv:
    """
    Build copies of different environments as one unit.

    Parameters
    ----------
    names : list or dict
        Registered names, each built as by `make_vec`; or ready `BatchedEnv`s, used as they are.
    n_envs : int, optional
        Number of copies of each name; required with names.
    wrappers, jit_compile, cache_dir, final_obs
        As for `make_vec`, for every name.
    pre_warm : bool, default False
        Compile now, and not on the first call.

    Returns
    -------
    MultiVecEnv
        A list or a dict of batched environments, as `names` is.

    Raises
    ------
    ValueError
        If a name is not registered, there are none, `n_envs` is missing with names or below 1, or
        `n_envs`, `wrappers` or `final_obs` come with ready environments.
    TypeError
        As for `make_vec`; or if names are mixed with environments, or something is neither.

    Examples
    --------
    >>> import envrax_classic
    >>> make_multi_vec(["classic/CartPole-v0", "classic/Catch-v0"], n_envs=8)
    MultiVecEnv([CartPole×8, Catch×8], total=16)
    """
    form, entries = Container.of(names, "make_multi_vec", "names or BatchedEnvs")
    if _are_names(
        "make_multi_vec", entries, n_envs=n_envs, wrappers=wrappers, final_obs=final_obs or None
    ):
        if n_envs is None:
            raise ValueError(
                "make_multi_vec: expected n_envs, the number of copies of each name; got none. "
                "Pass `n_envs=64`."
            )
        entries = [
            make_vec(
                name,
                n_envs,
                wrappers=wrappers,
                jit_compile=jit_compile,
                pre_warm=False,
                cache_dir=cache_dir,
                final_obs=final_obs,
            )
            for name in entries
        ]
    multi_vec_env = MultiVecEnv(form.build(entries))
    if pre_warm:
        multi_vec_env.compile()
    return multi_vec_env


def _are_names(who: str, entries: list[Any], **for_names: Any) -> bool:
    """Whether a fleet is to be built from names, or is given ready made."""
    n_names = sum(isinstance(entry, str) for entry in entries)
    if 0 < n_names < len(entries):
        other = next(entry for entry in entries if not isinstance(entry, str))
        raise TypeError(
            f"{who}: expected names alone or environments alone; got {n_names} of {len(entries)} "
            f"as names, and {other!r}. Make the others first, with `make` or `make_vec`."
        )
    given = [name for name, value in for_names.items() if value is not None]
    if entries and not n_names and given:
        raise ValueError(
            f"{who}: expected {' and '.join(given)} with names only; got ready environments, which "
            "are used as they are. Leave it out, or pass names."
        )
    return bool(n_names)


def _compose(who: str, name: str, config: EnvConfig | None, wrappers: Wrappers | None) -> AnyEnv:
    spec = get_spec(name)
    env = spec.build(config)
    for wrapper in _sequence(who, wrappers):
        wrapped: Any = wrapper(env) if callable(wrapper) else None
        if not isinstance(wrapped, JaxEnv):
            raise TypeError(
                f"{who}: expected every entry of `wrappers` to make a JaxEnv from a JaxEnv; got "
                f"{wrapper!r}. List wrapper classes, or call them with keywords only."
            )
        env = cast(AnyEnv, wrapped)
    return env


def _sequence(who: str, wrappers: Any) -> Sequence[Any]:
    if wrappers is None:
        return ()
    if not isinstance(wrappers, Sequence) or isinstance(wrappers, str):
        raise TypeError(
            f"{who}: expected `wrappers` to be a list; got {wrappers!r}. Put it into a list."
        )
    return cast(Sequence[Any], wrappers)


def _compiled(env: AnyEnv, cache_dir: CacheDir, pre_warm: bool) -> AnyEnv:
    """Compile a stack as far up as it can be traced."""
    if env.traceable:
        return JitWrapper(env, cache_dir, pre_warm=pre_warm)
    if isinstance(env, Wrapper):
        env.env = _compiled(env.env, cache_dir, pre_warm)
    return env
