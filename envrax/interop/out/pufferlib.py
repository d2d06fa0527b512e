# pyright: basic, reportMissingImports=false
"""`to_pufferlib`: a batch as a native environment of PufferLib."""

from typing import Any

import numpy as np

from envrax.batched_env import AnyBatch
from envrax.interop.out.batches import require_batch
from envrax.interop.out.host_loop import HostLoop, StepResult
from envrax.interop.out.infos import has_ended, is_episode
from envrax.interop.peer.library import require
from envrax.spaces import Box, Discrete, MultiDiscrete, Space

PufferEnv: Any = require("pufferlib", "3.0", package="pufferlib-core", has="PufferEnv").PufferEnv

from envrax.interop.gymnasium_spaces import to_space  # noqa: E402  # needs Gymnasium

_WHO = "to_pufferlib"


class PufferBatch(PufferEnv):
    """A batch of envrax as a `PufferEnv`; made by `to_pufferlib`."""

    render_mode = "rgb_array"

    def __init__(
        self, batched_env: AnyBatch, buf: Any, seed: int | None, truncation_ends: bool
    ) -> None:
        require_batch(_WHO, batched_env)
        self._loop = HostLoop(batched_env, _WHO)
        _require_native(batched_env.single_observation_space, batched_env.single_action_space)
        self.batched_env = batched_env
        self.num_agents = batched_env.n_slots
        self.single_observation_space = to_space(batched_env.single_observation_space)
        self.single_action_space = to_space(batched_env.single_action_space)
        super().__init__(buf)  # the buffers
        self._seed = self._loop.checked_seed(seed, "")
        self._truncation_ends = truncation_ends

    def reset(self, seed: int | None = None) -> tuple[Any, list[dict[str, Any]]]:
        """Begin an episode in every slot: the observations, and no infos."""
        result = self._loop.reset(self._seed if seed is None else seed)
        self._seed = None
        self._returns = np.zeros(self.num_agents)
        self._lengths = np.zeros(self.num_agents, int)
        none = np.zeros(self.num_agents, bool)
        self._write(result._replace(reward=0, terminated=none, truncated=none))
        return self.observations, []

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, list[dict[str, Any]]]:
        """Take one step in every slot: the buffers, and a dict of each episode that ended."""
        result = self._loop.step(actions)
        self._write(result)
        infos = self._episodes(result)
        return self.observations, self.rewards, self.terminals, self.truncations, infos

    def render(self) -> Any:
        """An image of the first slot."""
        return np.array(self.batched_env.render_slot(self._loop.state))

    def close(self) -> None:
        """Close the batch."""
        self.batched_env.close()

    def _write(self, result: StepResult) -> None:
        """Fill the buffers, which PufferLib reads."""
        self.observations[:] = result.obs
        self.rewards[:] = result.reward
        self.terminals[:] = result.terminated | (result.truncated & self._truncation_ends)
        self.truncations[:] = result.truncated
        self.masks[:] = True

    def _episodes(self, result: StepResult) -> list[dict[str, Any]]:
        done = result.terminated | result.truncated
        self._returns += result.reward
        self._lengths += 1
        episode = result.info.get("episode")
        if not is_episode("episode", episode):
            episode = {"r": self._returns, "l": self._lengths}
        infos = [
            {"episode_return": float(episode["r"][i]), "episode_length": int(episode["l"][i])}
            for i in np.flatnonzero(has_ended(episode, done))
        ]
        self._returns[done] = 0
        self._lengths[done] = 0
        return infos


def to_pufferlib(
    batched_env: AnyBatch,
    *,
    buf: Any = None,
    seed: int | None = None,
    truncation_ends: bool = False,
) -> PufferBatch:
    """
    A batch of environments as a native `PufferEnv` of PufferLib: every slot is one of its agents.

    The buffers `observations`, `rewards`, `terminals`, `truncations` and `masks` are written in
    place. A slot whose episode ended begins the next one in the same step; its last observation is
    not shown. `masks` are True, since each slot has an observation in every step; they are not
    those of legal actions, for which PufferLib has no place.

    With `functools.partial(to_pufferlib, batched_env)` as the creator of `pufferlib.vector.make`,
    the vector layer passes `buf` and `seed`.

    Parameters
    ----------
    batched_env : BatchedEnv
        The batch, such as `make_vec(id, n)`; of a world, `agents_as_slots(batch)`.
    buf : dict, optional
        Arrays of PufferLib to write into; by default new ones.
    seed : int, optional
        The seed of the first reset, if that gets none. A seed sets `rng = jax.random.key(seed)`;
        every reset does `rng, key = jax.random.split(rng)` and uses `key` for all slots.
    truncation_ends : bool, default False
        Whether a truncation is a terminal as well. PufferLib's trainer reads `terminals` alone, and
        otherwise takes the next episode for a part of the truncated one.

    Returns
    -------
    pufferlib.PufferEnv
        The infos of a step are a list with a dict for each episode that ended, `episode_return` and
        `episode_length`: those of `RecordEpisodeStatistics` where there is one.

    Raises
    ------
    TypeError
        If it is not a `BatchedEnv`, observations are not in a `Box`, or actions not in a
        `Discrete`, a `MultiDiscrete` with one axis, or a `Box`.
    """
    return PufferBatch(batched_env, buf, seed, truncation_ends)


def _require_native(obs_space: Space, action_space: Space) -> None:
    """Raise a TypeError for spaces that a native environment of PufferLib does not have."""
    if not isinstance(obs_space, Box):
        raise TypeError(
            f"{_WHO}: expected observations in a Box; got {obs_space!r}. Put `FlattenObservation` "
            "around the environment, or emulate them: `GymnasiumPufferEnv(to_gymnasium(env))`."
        )
    is_one_axis = isinstance(action_space, MultiDiscrete) and len(action_space.shape) == 1
    if not isinstance(action_space, Discrete | Box) and not is_one_axis:
        raise TypeError(
            f"{_WHO}: expected actions in a Discrete, a MultiDiscrete with one axis or a Box; got "
            f"{action_space!r}. Make them of one of these with a `TransformAction`."
        )
