"""`MultiEnv`: different environments as one unit."""

from typing import Any

import jax

from envrax._compile import CacheDir
from envrax._fleet import Fleet, view
from envrax._fused import Group
from envrax._padding import Agents
from envrax.env import JaxEnv

AnyEnv = JaxEnv[Any, Any, Any, Any]


class _Envs(Group):
    """Equal single environments, as one batch."""

    def reset_stacked(self, rngs: jax.Array) -> Any:
        return jax.vmap(self.member.reset)(rngs)

    def step_stacked(self, states: Any, actions: Any) -> Any:
        return jax.vmap(self.member.step)(states, actions)


class MultiEnv(Fleet[AnyEnv]):
    """
    M different environments as one unit, each with one episode at a time.

    Built from a list it takes and returns lists; built from a dict, dicts with the same keys in the
    same order. It does not auto-reset: `reset_at` begins the next episode of one member.

    Members that are compiled (a `JitWrapper` in the stack) step together in one compiled call;
    those equal by value share one program. The others run as they are. Members are taken as they
    are when the fleet is built: editing the config of one afterwards is too late.

    Parameters
    ----------
    envs : list or dict of JaxEnv
        The members.

    Attributes
    ----------
    observation_spaces, action_spaces : list or dict of Space
        Of every member, in the container of the fleet.
    observation_shapes, observation_sizes, observation_dtypes : list or dict
        `shape`, `size` and `dtype` of the observation spaces.
    action_shapes, action_sizes, action_dtypes : list or dict
        The same of the action spaces.

    Raises
    ------
    ValueError
        If there are none, or one that works on the host is there twice.
    TypeError
        If `envs` is no list or dict, or holds something else.

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
    _group = _Envs
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

    @property
    def envs(self) -> Any:
        """The members, in a list or a dict."""
        return self._each(lambda env: env)

    def _agents(self) -> list[Agents]:
        return [Agents(env.observation_space, env.action_space, ()) for env in self._members]

    def _compile_member(self, member: AnyEnv, cache_dir: CacheDir) -> None:
        member.compile()

    def __repr__(self) -> str:
        shown = self._form.show(lambda i: self._members[i].name)
        return f"MultiEnv({shown}, num_envs={len(self)})"
