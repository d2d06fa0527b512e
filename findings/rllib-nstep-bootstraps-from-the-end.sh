#!/usr/bin/env bash
# What: n-step transitions (n_step=3) of a terminated episode of five steps, from the two episode buffers.
# Version: ray 2.60.0 with torch 2.13.0 and gymnasium 1.2.2, Python 3.11.
# Expected: the sums of the last n - 1 steps are shorter, and all sums that reach the end are terminated, so that
#   nothing is bootstrapped.
# Seen: in EpisodeReplayBuffer only the step whose sum ends exactly at the end is terminated. The last two have
#   the right sum and the terminal observation, terminated False and n_step 3: DQN and SAC add gamma^3 times the
#   value of the terminal observation. PrioritizedEpisodeReplayBuffer, their default, never samples these two: the
#   value of the states next to the end is not trained.
# Output:
#   step, reward, next observation, terminated, n_step
#   EpisodeReplayBuffer: [(0, 1.75, 3, False, 3), (1, 1.75, 4, False, 3), (2, 1.75, 5, True, 3), (3, 1.5, 5, False, 3), (4, 1.0, 5, False, 3)]
#   PrioritizedEpisodeReplayBuffer: [(0, 1.75, 3, False, 3), (1, 1.75, 4, False, 3), (2, 1.75, 5, True, 3)]
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
"${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet "ray[rllib]==2.60.0" torch==2.13.0 gymnasium==1.2.2
venv/bin/python - 2>warnings <<'PY'
import numpy as np
from gymnasium.spaces import Box, Discrete
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.replay_buffers.episode_replay_buffer import EpisodeReplayBuffer
from ray.rllib.utils.replay_buffers.prioritized_episode_buffer import PrioritizedEpisodeReplayBuffer


def stored(buffer, **options):
    episode = SingleAgentEpisode(observation_space=Box(0, 9, (1,)), action_space=Discrete(2))
    episode.add_env_reset(np.zeros(1, np.float32))
    for t in range(1, 6):
        episode.add_env_step(np.full(1, t, np.float32), 0, 1.0, terminated=t == 5)
    buffer.add([episode.to_numpy()])
    rows = set()
    for x in buffer.sample(500, n_step=3, gamma=0.5, **options):
        first, last = (int(x.get_observations(t)[0]) for t in (0, -1))
        n_step = int(np.ravel(x.get_extra_model_outputs("n_step"))[0])
        rows.add((first, float(x.get_rewards(0)), last, bool(x.is_terminated), n_step))
    return sorted(rows)


print("step, reward, next observation, terminated, n_step")
rows = stored(EpisodeReplayBuffer(capacity=100), sample_episodes=True)
print("EpisodeReplayBuffer:", rows)
prioritized = stored(PrioritizedEpisodeReplayBuffer(capacity=100), beta=0.4)
print("PrioritizedEpisodeReplayBuffer:", prioritized)
assert rows[2:] == [(2, 1.75, 5, True, 3), (3, 1.5, 5, False, 3), (4, 1.0, 5, False, 3)], "it changed"
assert prioritized == rows[:3], "it changed: the last two steps are sampled"
PY
