"""The PPO example on worlds of two agents: slots, statistics, actions, what it refuses."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import ppo
import pytest
from ppo_agents import AgentsPPO
from ppo_algorithm import EPISODES
from ppo_options import Options

import envrax
from envrax import Box
from envrax.interop.agents import AgentBatch, World
from envrax.interop.records import Advanced, Begun, PeerConfig

NAME = "test/Walkers-v0"
TINY = dict(env=NAME, n_steps=4, minibatches=2, hidden=4, total_steps=32)


class Walkers(World):
    """Two walk; the reward is where one is; whoever is beyond 8 ends it, or 5 steps."""

    library = "test"

    @property
    def agents(self) -> tuple[str, ...]:
        return "left", "right"

    @property
    def agent_spaces(self) -> tuple[Box, Box]:
        return Box(-np.inf, np.inf, (1, 1)), Box(0.0, 4.0, (1,))

    def build(self) -> Any:
        return object()

    def limit(self) -> int:
        return 5

    def begin(self, params: Any, rng: jax.Array) -> Begun:
        at = jnp.zeros(2, jnp.float32)
        return Begun(at[:, None, None], at)

    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> Advanced:
        at = inner + action[:, 0]
        over = jnp.any(at > 8)
        return Advanced(at[:, None, None], at, at, over, info={"rewards": at})

    def render(self, state: Any) -> np.ndarray:
        return np.full((24, 30, 3), 10 * state.step, np.uint8)


class WalkersBatch(AgentBatch):
    library, world_class = "test", Walkers


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """The environment; and Adam, as optax writes it, does not hold under strict promotion."""
    envrax.register(NAME, WalkersBatch, PeerConfig(id="Walkers"))
    with jax.numpy_dtype_promotion("standard"):
        yield
    envrax.unregister(NAME)


def test_every_agent_has_its_own_statistics() -> None:
    env = AgentsPPO.worlds(Options(env=NAME), 2)
    assert env.single_action_space == Box(-np.inf, np.inf, (1,))
    # From -1..1 to 0..4: one, three and no steps a time, and one that is clipped.
    actions = jnp.asarray([[-0.5], [0.5], [-1.0], [-7.0]], jnp.float32)

    def step(state: Any, _: None) -> Any:
        obs, state, *rest = env.step(state, actions)
        return state, (obs, *rest)

    _, (obs, rewards, dones, info) = jax.jit(
        lambda: jax.lax.scan(step, env.reset(jax.random.key(0))[1], length=5)
    )()
    steps = np.arange(1, 4)[:, None]
    np.testing.assert_array_equal(rewards[:3], steps * [1.0, 3.0, 0.0, 0.0])
    np.testing.assert_array_equal(info["final_obs"][..., 0], rewards)
    np.testing.assert_array_equal(obs[..., 0], np.where(dones, 0, rewards))
    # The first world is over when one of its agents is at 9, the second when time is up.
    ends = np.zeros((5, 4), bool)
    ends[2, :2] = ends[4, 2:] = True
    np.testing.assert_array_equal(dones, ends)
    np.testing.assert_array_equal(info["terminated"], ends & [True, True, False, False])
    np.testing.assert_array_equal(info["episode"]["r"], ends * [6.0, 18.0, 0.0, 0.0])
    np.testing.assert_array_equal(info["episode"]["l"], ends * [3, 3, 5, 5])


@pytest.mark.integration
def test_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    flags = [f"--{name.replace('_', '-')}={TINY[name]}" for name in list(TINY)[1:]]
    ppo.main([NAME, "--n-envs=4", "--no-greedy", *flags])
    said = capsys.readouterr()
    assert "before:" in said.out and "after:" in said.out and "no video" not in said.out
    folder = tmp_path / "runs" / f"{NAME}-0"
    assert [path.suffix for path in sorted(folder.iterdir())] == [".png", ".mp4"]


def test_an_evaluation_has_100_worlds() -> None:
    trainer = AgentsPPO(Options(**TINY, n_envs=4))
    state = jax.eval_shape(trainer.init, 0)
    assert jax.eval_shape(trainer.evaluate, state.params, 0).shape == (EPISODES * 2,)


@pytest.mark.parametrize("n_envs", [3, 1])
def test_half_a_world_is_refused(n_envs: int) -> None:
    with pytest.raises(SystemExit, match=f"a multiple of the 2 agents of a world; got {n_envs}"):
        ppo.main([NAME, f"--n-envs={n_envs}"])
