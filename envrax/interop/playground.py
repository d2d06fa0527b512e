# pyright: basic, reportMissingImports=false
"""MuJoCo Playground: `envrax.make("playground/CartpoleBalance")`, or `wrap(env)`."""

import copy
from collections.abc import Callable
from typing import Any

from envrax.interop.peer.library import key_used_twice, require, suite_of, wrap_object
from envrax.interop.peer.mujoco import MujocoEnv
from envrax.interop.peer.mujoco_model import as_sample
from envrax.interop.peer.types import NO_LIMIT
from envrax.registry import register_suite

require("mujoco_playground", "0.2", "_src.mjx_env", package="playground", extra="playground")

from mujoco_playground import MjxEnv, locomotion, manipulation, registry  # noqa: E402
from mujoco_playground._src.mjx_env import MENAGERIE_PATH  # noqa: E402

# Building one of these clones mujoco_menagerie, unless it is there.
NEED_ASSETS = frozenset((*locomotion.ALL_ENVS, *manipulation.ALL_ENVS))

WAIVERS = {
    "cartpole": key_used_twice("playground splits the key given to `reset` twice"),
    "cheetah": {"vmap_agrees": "playground resets by 200 steps of physics, which amplify rounding"},
    "finger": key_used_twice("playground draws the joints and the spinner from one key"),
}
"""Modules of playground that break rules of the conformance checks: the rules, and why."""


class PlaygroundEnv(MujocoEnv):
    """
    An environment of MuJoCo Playground. `options` are keywords of `registry.load`.

    The physics runs on `impl="jax"`, unless `options={"config_overrides": {"impl": "warp"}}`, since
    Warp's data shares arrays between the worlds of a batch. Observations are unbounded, actions
    between -1 and 1; `info` has `State.metrics`, while `State.info` stays in `state.inner`. `done`
    of Playground is a termination; `episode_length` of the config truncates. `render` needs OpenGL.
    """

    library = "playground"
    model_attribute = "_mjx_model"

    def build(self) -> Any:
        id = self.config.id
        if id in NEED_ASSETS and not MENAGERIE_PATH.exists():
            raise FileNotFoundError(
                f"{id} needs models that are not part of playground, which would `git clone` "
                f"deepmind/mujoco_menagerie from GitHub to {MENAGERIE_PATH}. Clone it there, at "
                "the commit `mujoco_playground._src.mjx_env.MENAGERIE_COMMIT_SHA`"
            )
        options = copy.deepcopy(self.config.options)
        default = registry.get_default_config(id)
        overrides = options.get("config_overrides") or {}
        if "config" not in options and "impl" in default:
            overrides = {"impl": "jax", **overrides}
        if self.config.max_steps and "episode_length" in default:  # some observe the time left
            overrides = {**overrides, "episode_length": self.config.max_steps}
        return registry.load(id, **{**options, "config_overrides": overrides})

    def limit(self) -> int:
        return int(self.peer.unwrapped._config.get("episode_length", NO_LIMIT))

    @property
    def waivers(self) -> dict[str, str]:
        module = type(self.peer.unwrapped).__module__.rpartition(".")[2]
        return WAIVERS.get(module, {})

    def draw(self, inner: Any) -> Any:
        names = ("qpos", "qvel", "mocap_pos", "mocap_quat", "xfrc_applied")
        fields = {name: getattr(inner.data, name) for name in names}
        return self._draw(self.peer.mj_model, **fields)


def wrap(env: Any, params: Any = None, *, max_steps: int = 0) -> PlaygroundEnv:
    """
    An environment of MuJoCo Playground that you built.

    Parameters
    ----------
    env : mujoco_playground.MjxEnv
        The environment, without the library's wrappers for training.
    params : mjx.Model or dict, optional
        Another model, or changes to that of the environment.
    max_steps : int, default 0
        Time limit; 0 takes `episode_length` of its config.

    Raises
    ------
    TypeError
        If it is not an environment of Playground, or is wrapped for training.
    """
    return wrap_object(PlaygroundEnv, env, MjxEnv, params, max_steps)


def randomizer(id: str) -> Callable[..., dict[str, Any]]:
    """
    Playground's own domain randomisation as the `sample` of `DomainRandomization`.

    Parameters
    ----------
    id : str
        The id of the environment.

    Raises
    ------
    ValueError
        If `registry.get_domain_randomizer` has no randomiser for it.
    """
    function = registry.get_domain_randomizer(id.removeprefix("playground/"))
    if function is None:
        raise ValueError(
            f"envrax.interop.playground.randomizer: expected an id for which playground has a "
            f"randomiser; got {id!r}. Write a `sample`, for `DomainRandomization`."
        )
    return as_sample(function)


register_suite(suite_of(PlaygroundEnv, registry.ALL_ENVS))
