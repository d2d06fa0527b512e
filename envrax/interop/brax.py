# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
"""brax: `envrax.make("brax/ant")`, or `wrap(env)` for one built by hand."""

from typing import Any

import jax
import numpy as np

from envrax.interop.base import PeerEnv
from envrax.interop.convert import box, nested, unbounded
from envrax.interop.custom import require_bare, require_methods
from envrax.interop.forms import as_dicts
from envrax.interop.frames import draw
from envrax.interop.library import require, suite_of
from envrax.interop.records import Advanced, Begun, PeerConfig, PeerState
from envrax.registry import register_suite
from envrax.spaces import Space

require("brax", "0.14")

from brax import envs  # noqa: E402
from brax.envs.wrappers import training  # noqa: E402

# brax sets the limit from outside: it is the default of `brax.envs.create` and of its trainers.
EPISODE_LENGTH = 1000

# Ids that some releases of JAX cannot trace, and the reason.
FAULTS = {
    "swimmer": "brax's fluid model calls `jnp.clip(a_min=...)`, which newer JAX refuses; install "
    "an older one, such as 0.9"
}

_LEAK = (
    "brax's generalized pipeline solves its constraints by jaxopt, which compiles a line search "
    "over traced values and keeps it"
)

# These do what PeerEnv and VecEnv do, and report the end of an episode in another way.
_TRAINING = (
    training.EpisodeWrapper,
    training.AutoResetWrapper,
    training.VmapWrapper,
    training.DomainRandomizationVmapWrapper,
)


class BraxEnv(PeerEnv):
    """
    An environment of brax. `options` are keywords of its class, such as `backend="positional"`.

    Observations are unbounded, actions between -1 and 1; `info` has brax's `State.metrics`, while
    `State.info` stays in `state.inner`. `done` of brax is a termination. `render` needs OpenGL.
    """

    library = "brax"

    def build(self) -> Any:
        env = envs.get_environment(self.config.id, **self.config.options)
        if reason := FAULTS.get(self.config.id):
            try:
                jax.eval_shape(env.reset, jax.random.key(0))
            except TypeError as error:
                raise TypeError(f"{error}: {reason}") from error
        return env

    def limit(self) -> int:
        return EPISODE_LENGTH

    def spaces(self) -> tuple[Space, Space]:
        acted = jax.ShapeDtypeStruct((self.peer.action_size,), np.float32)
        return nested(unbounded, self.observed), box(-1, 1, acted)

    @property
    def waivers(self) -> dict[str, str]:
        at = self._typed_begin(jax.random.key(0)).inner.pipeline_state
        return {"no_tracer_leaks": _LEAK} if getattr(at, "con_jac", np.zeros(0)).shape[0] else {}

    def begin(self, params: Any, rng: jax.Array) -> Begun:
        inner = self.peer.reset(rng)
        return Begun(as_dicts(inner.obs), inner)

    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> Advanced:
        inner = self.peer.step(inner, action)
        info = dict(inner.metrics)
        return Advanced(as_dicts(inner.obs), inner, inner.reward, inner.done, info=info)

    def render(self, state: PeerState) -> np.ndarray:
        system = getattr(self.peer.unwrapped, "sys", None)
        if system is None:
            raise NotImplementedError(
                f"{self._who}.render: expected an environment with a MuJoCo model; this one has "
                "none. Draw what you need from `state.inner`."
            )
        at = state.inner.pipeline_state
        mocap = {k: getattr(at, k) for k in ("mocap_pos", "mocap_quat") if hasattr(at, k)}
        return draw(self._who, system.mj_model, qpos=at.q, qvel=at.qd, **mocap)


def wrap(env: Any, params: Any = None, *, max_steps: int = 0) -> BraxEnv:
    """
    A brax environment that you built.

    Parameters
    ----------
    env : brax.envs.Env
        The environment, without brax's wrappers for training.
    params : None
        brax has no parameters.
    max_steps : int, default 0
        Time limit; 0 takes 1000, the default of brax.

    Raises
    ------
    TypeError
        If it is no environment of brax, or is wrapped for training.
    """
    require_methods("brax", env, "reset", "step", "action_size", "unwrapped")
    require_bare("brax", env, _TRAINING)
    config = PeerConfig(id=type(env.unwrapped).__name__, params=params, max_steps=max_steps)
    return BraxEnv(config, peer=env)


register_suite(suite_of(BraxEnv, envs._envs))
