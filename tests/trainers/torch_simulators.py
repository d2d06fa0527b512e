# pyright: basic, reportMissingImports=false
"""Small simulators of Torch tensors, in the forms in which libraries speak rsl_rl's protocol."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

LIMIT = 7


class Balls:
    """
    A ball on a line in each slot, pushed by the action, that falls off at 1.

    As mjlab does, it writes its rewards and ends into buffers, resets the slots that ended in the
    step, and has `time_outs` of all slots, with both ends at once told as a time-out.
    """

    num_actions = 2
    max_episode_length = LIMIT
    cfg = SimpleNamespace(auto_reset=True)

    def __init__(self, n: int = 4) -> None:
        self.num_envs = n
        self.device = torch.device("cpu")
        self._generator = torch.Generator()
        self._generator.manual_seed(0)
        self.place = torch.zeros(n, 2)
        self.episode_length_buf = torch.zeros(n, dtype=torch.int64)
        self.fell = self.reset_terminated = torch.zeros(n, dtype=torch.bool)
        self.rewards = torch.zeros(n)
        self.extras: dict[str, Any] = {"log": {}, "time_outs": torch.zeros(n, dtype=torch.bool)}
        self.is_closed = False
        self._begin(torch.arange(n))

    def seed(self, seed: int) -> None:
        self._generator.manual_seed(seed)

    def close(self) -> None:
        self.is_closed = True

    def _begin(self, ids: Any) -> None:
        drawn = torch.rand(self.num_envs, 2, generator=self._generator) - 0.5
        self.place[ids] = drawn[ids]
        self.episode_length_buf[ids] = 0

    def observed(self) -> Any:
        return {"policy": self.place, "clock": self.episode_length_buf.clone()[:, None]}

    def get_observations(self) -> Any:
        return self.observed()

    def reset(self) -> Any:
        self._begin(torch.arange(self.num_envs))
        return self.observed(), {}

    def _move(self, actions: Any) -> Any:
        assert actions.shape == (self.num_envs, 2) and actions.dtype == torch.float32
        actions.clip_(-1.0, 1.0)  # in place, as some do
        self.place += 0.3 * actions
        self.episode_length_buf += 1
        self.rewards[:] = -self.place.abs().sum(dim=1)
        self.fell[:] = self.place[:, 0].abs() > 1.0
        self.extras["time_outs"][:] = self.episode_length_buf >= LIMIT
        return (self.fell | self.extras["time_outs"]).long()

    def after(self, dones: Any) -> None:
        self._begin(dones.nonzero()[:, 0])

    def step(self, actions: Any) -> Any:
        dones = self._move(actions)
        self.after(dones)
        return self.observed(), self.rewards, dones, self.extras


class OneTensor(Balls):
    """One tensor, and no word on terminations beside the limit; a `reset` of observations alone."""

    def __init__(self, n: int = 4) -> None:
        super().__init__(n)
        del self.reset_terminated

    def observed(self) -> Any:
        return self.place

    def reset(self) -> Any:
        return super().reset()[0]


class FiveValues(Balls):
    """As legged_gym: privileged observations, and `time_outs` that stay from the last end."""

    def get_observations(self) -> Any:
        return self.place

    def get_privileged_observations(self) -> Any:
        return self.place * 2

    def step(self, actions: Any) -> Any:
        before = self.extras["time_outs"].clone()
        dones = self._move(actions)
        if not dones.any():
            self.extras["time_outs"][:] = before
        self.after(dones)
        return self.place, self.place * 2, self.rewards, dones, self.extras


class Partial(Balls):
    """As mjlab with `auto_reset=False`: the caller resets the slots that ended."""

    cfg = SimpleNamespace(auto_reset=False)

    def reset(self, env_ids: Any = None) -> Any:
        self._begin(torch.arange(self.num_envs) if env_ids is None else env_ids)
        return self.observed(), {}

    def after(self, dones: Any) -> None:
        pass


class FinalObs(Balls):
    """As Isaac Lab with `compute_final_obs`: rows of slots that ended, which are not cleared."""

    cfg = SimpleNamespace(auto_reset=True, compute_final_obs=True)

    def after(self, dones: Any) -> None:
        if dones.any():
            last = {name: x.clone() for name, x in self.observed().items()}
            last["policy"][dones == 0] = np.nan
            self.extras["final_obs"] = last
        super().after(dones)


class ResetsLater:
    """
    As IsaacGymEnvs' Cartpole: the step after an end resets the slot, and ignores the action.

    That step pays the reward of the start. `reset` resets nothing, and every slot begins in the
    first step. Starts are drawn by the slot and the number of its episode.
    """

    num_actions = 2
    max_episode_length = LIMIT

    def __init__(self, n: int = 4) -> None:
        self.num_envs = n
        self.place, self.obs_buf = torch.zeros(n, 2), torch.zeros(n, 2)
        self.rew_buf = torch.zeros(n)
        self.progress_buf = torch.zeros(n, dtype=torch.int64)
        self.reset_buf = torch.ones(n, dtype=torch.int64)
        self.n_begun = torch.zeros(n, dtype=torch.int64)

    def reset_idx(self, ids: Any) -> None:
        for i in ids.tolist():
            drawn = np.random.default_rng((i, int(self.n_begun[i]))).uniform(-0.5, 0.5, 2)
            self.place[i] = torch.tensor(drawn)
        self.n_begun[ids] += 1
        self.reset_buf[ids] = 0
        self.progress_buf[ids] = 0

    def compute_observations(self) -> None:
        self.obs_buf[:] = self.place

    def reset(self) -> Any:
        return {"obs": self.obs_buf.clamp(-5, 5)}

    def step(self, actions: Any) -> Any:
        self.place += 0.3 * actions.clamp(-1, 1)
        self.progress_buf += 1
        self.reset_idx(self.reset_buf.nonzero()[:, 0])
        self.compute_observations()
        self.rew_buf[:] = 1 - self.place.abs().sum(dim=1)
        late = self.progress_buf >= LIMIT
        self.reset_buf[:] = (self.place[:, 0].abs() > 1.0) | late
        extras = {"time_outs": late & (self.reset_buf != 0)}
        return self.reset(), self.rew_buf, self.reset_buf.clone(), extras


def reset_slots(simulator: Any) -> Any:
    """What the page says for IsaacGymEnvs."""

    def reset(ids: Any) -> Any:
        simulator.reset_idx(ids)
        simulator.compute_observations()
        return simulator.reset()

    return reset


class AsGymnasium(Balls):
    """No wrapper for rsl_rl, but five values as Gymnasium has them."""

    def step(self, actions: Any) -> Any:
        obs, rewards, _, extras = super().step(actions)
        return obs, rewards, self.fell.clone(), extras["time_outs"].clone(), {}
