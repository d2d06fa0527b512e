"""The factories: from a registered name to an environment that is ready to step."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from envrax._compile import DEFAULT_CACHE_DIR, CacheDir
from envrax.env import EnvConfig, JaxEnv
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
) -> VecEnv[Any, Any, Any, Any]:
    """
    Build `n_envs` copies of a registered environment, stepped together with auto-reset.

    Parameters
    ----------
    n_envs : int
        Number of copies, at least 1.
    final_obs : bool, default False
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
    """
    env = _compose("make_vec", name, config, wrappers)
    if jit_compile and env.traceable:
        env = JitWrapper(env, cache_dir, pre_warm=False)
    vec_env = VecEnv(env, n_envs, jit_compile=jit_compile, final_obs=final_obs)
    if pre_warm:
        vec_env.compile(cache_dir)
    return vec_env


def _compose(who: str, name: str, config: EnvConfig | None, wrappers: Wrappers | None) -> AnyEnv:
    spec = get_spec(name)
    env = spec.env_class(spec.default_config if config is None else config)
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
