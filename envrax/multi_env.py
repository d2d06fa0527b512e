"""`MultiEnv`: different environments as one unit."""

from collections.abc import Callable
from functools import partial
from typing import Any

from envrax._fleet.fleet import Fleet
from envrax._fleet.members import view
from envrax._jax.cache import CacheDir, Compilation
from envrax._jax.returned import returned_arrays
from envrax.autoreset.slot import checked_reset
from envrax.env import AnyEnv, EnvState, JaxEnv
from envrax.spaces import Space
from envrax.wrappers.jit import compilation


class MultiEnv(Fleet):
    """
    M different environments as one unit, each with one episode at a time.

    Built from a list it takes and returns lists; built from a dict, dicts with the same keys in the
    same order. It does not auto-reset: `reset_at` begins the next episode of one member.

    Members that are compiled (a `JitWrapper` in the stack) step together in one compiled call. The
    other members are called one by one.

    Parameters
    ----------
    envs : list or dict of JaxEnv
        The members.

    Attributes
    ----------
    observation_spaces, action_spaces : list or dict of Space
        The spaces of the members, in a list or dict like the one given.
    observation_shapes, observation_sizes, observation_dtypes : list or dict
        `shape`, `size` and `dtype` of the observation spaces.
    action_shapes, action_sizes, action_dtypes : list or dict
        The same of the action spaces.

    Raises
    ------
    ValueError
        If there is no member, or one that runs on the host occurs twice.
    TypeError
        If `envs` is not a list or dict, or an entry is not a `JaxEnv`.

    Examples
    --------
    >>> from envrax.testing import CountingEnv, ImageEnv
    >>> fleet = MultiEnv({"count": CountingEnv(), "look": ImageEnv()})
    >>> obs, states = fleet.reset(jax.random.key(0))
    >>> {key: x.shape for key, x in obs.items()}
    {'count': (2,), 'look': (12, 10, 3)}
    >>> obs["look"], states["look"] = fleet.reset_at("look", jax.random.key(1))
    """

    _kind = JaxEnv
    _empty = "MultiEnv requires at least one environment."
    _bar = "Compiling envs"

    observation_spaces = view("observation_space")
    action_spaces = view("action_space")
    observation_shapes = view("observation_space.shape")
    action_shapes = view("action_space.shape")
    observation_sizes = view("observation_space.size")
    action_sizes = view("action_space.size")
    observation_dtypes = view("observation_space.dtype")
    action_dtypes = view("action_space.dtype")

    def __init__(self, envs: list[Any] | dict[Any, Any]) -> None:
        super().__init__(envs)

    def _spaces(self, member: AnyEnv) -> tuple[Space, Space]:
        return member.action_space, member.observation_space

    def _compilation(self, member: AnyEnv) -> Compilation | None:
        return compilation(member)

    def _functions(self, member: AnyEnv) -> tuple[Callable[..., Any], Callable[..., Any]]:
        return partial(checked_reset, member), partial(_checked_step, member)

    def _compile_member(self, member: AnyEnv, cache_dir: CacheDir) -> None:
        member.compile()

    def __repr__(self) -> str:
        shown = self._container.show(env.name for env in self._members)
        return f"MultiEnv({shown}, num_envs={len(self)})"


def _checked_step(env: AnyEnv, state: Any, action: Any) -> Any:
    returned = env.step(state, action)
    return returned_arrays(type(env).__name__, "step", returned, EnvState)
