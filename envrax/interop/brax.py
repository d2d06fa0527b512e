# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
"""brax: `envrax.make("brax/ant")`, or `wrap(env)` for one built by hand."""

import inspect
from collections.abc import Callable
from typing import Any

from envrax._checks.names import require_known
from envrax.env import AnyEnv
from envrax.interop.out.auto_reset import Bridge
from envrax.interop.peer.library import require, suite_of, wrap_object
from envrax.interop.peer.mujoco import MujocoEnv
from envrax.interop.peer.mujoco_model import as_sample
from envrax.interop.protocol.wrapping import follows_a_protocol, wrap_by_protocol
from envrax.registry import register_suite

require("brax", "0.14", "envs")

from brax import envs  # noqa: E402

# The default of `brax.envs.create` and of brax's trainers; the environments have no limit.
EPISODE_LENGTH = 1000

# Fields of brax's own pipelines that place the bodies.
_KINEMATICS = ("link.transform", "link.joint", "dof.motion")


class BraxEnv(MujocoEnv):
    """
    An environment of brax. `options` are keywords of its class, such as `backend="positional"`.

    Observations are unbounded, actions between -1 and 1; `info` has brax's `State.metrics`, while
    `State.info` stays in `state.inner`. `done` of brax is a termination. `render` needs OpenGL.
    """

    library = "brax"
    model_attribute = "sys"

    def build(self) -> Any:
        peer = envs.get_environment(self.config.id, **self.config.options)
        if self.config.id == "fast":  # it takes any keyword
            known = set(inspect.signature(type(peer)).parameters) - {"kwargs"}
            require_known("expected `options` of", self.config.options, sorted(known))
        return peer

    def limit(self) -> int:
        return EPISODE_LENGTH

    def draw(self, inner: Any) -> Any:
        system = getattr(self.peer.unwrapped, "sys", None)
        if system is None:
            raise NotImplementedError(
                f"{self._who}.render: expected an environment with a MuJoCo model; got one "
                "without. Draw from `state.inner`."
            )
        if changed := [name for name in self.changes if name.startswith(_KINEMATICS)]:
            raise NotImplementedError(
                f"{self._who}.render: expected `params` that MuJoCo's model has as well; got "
                f"{', '.join(changed)}. Draw from `state.inner`."
            )
        pose = inner.pipeline_state
        mocap = {k: getattr(pose, k) for k in ("mocap_pos", "mocap_quat") if hasattr(pose, k)}
        return self._draw(system.mj_model, qpos=pose.q, qvel=pose.qd, **mocap)


def wrap(env: Any, params: Any = None, *, max_steps: int = 0) -> AnyEnv:
    """
    A brax environment that you built.

    Parameters
    ----------
    env : brax.envs.Env
        The environment, without brax's wrappers for training. For a result of `to_brax`, `wrap`
        returns the environment in it.
    params : System or dict, optional
        Another `sys`, or changes to that of the environment.
    max_steps : int, default 0
        Time limit; 0 takes 1000, the default of brax.

    Raises
    ------
    TypeError
        If it is not an environment of brax, or is wrapped for training.
    """
    if isinstance(env, Bridge):
        return env.configured(params, max_steps)
    if follows_a_protocol(env, envs.Env):
        return wrap_by_protocol(env, params, max_steps=max_steps)
    return wrap_object(BraxEnv, env, envs.Env, params, max_steps)


def randomizer(fn: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """
    Brax's domain randomisation as the `sample` of `DomainRandomization`.

    Parameters
    ----------
    fn : callable
        `fn(sys, rngs)`, the `randomization_fn` of brax's trainers before `rng` is bound: it returns
        a batch of systems, and a `System` of axes.
    """
    return as_sample(fn)


# Other packages register classes there, safenax under a property instead of a name.
register_suite(suite_of(BraxEnv, {x: y for x, y in envs._envs.items() if isinstance(x, str)}))
