"""`ippo.py`: which agents share a network, who moves the others, and that both kinds learn."""

from functools import partial
from typing import Any

import chex
import ippo
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envrax
from envrax.multi_agent.world import MultiAgentEnv
from envrax.testing import NimWorld
from envrax.testing.multi_agent_fakes import NimConfig

pytestmark = pytest.mark.usefixtures("standard_promotion")


@chex.dataclass
class MeetingState(envrax.EnvState):
    """Nothing but the time."""


class Meeting(MultiAgentEnv[MeetingState, envrax.EnvConfig]):
    """Agents with two, two and three actions: 1 for each that does what `guide` does."""

    @property
    def agents(self) -> tuple[str, ...]:
        return "guide", "anna", "ben"

    @property
    def observation_space(self) -> envrax.Dict:
        return envrax.Dict(dict.fromkeys(self.agents, envrax.Box(0.0, 1.0, (1,))))

    @property
    def action_space(self) -> envrax.Dict:
        two = envrax.Discrete(2)
        return envrax.Dict(guide=envrax.Discrete(3), anna=two, ben=two)

    def reset(self, rng: jax.Array) -> tuple[dict[str, Any], MeetingState]:
        state = MeetingState(rng=rng, step=jnp.int32(0), done=jnp.bool_(False))
        return dict.fromkeys(self.agents, jnp.ones(1)), state

    def step(self, state: MeetingState, action: dict[str, Any]) -> tuple[Any, ...]:
        step = state.step + 1
        state = state.replace(step=step, done=step >= self.config.max_steps)
        met = {agent: jnp.float32(action[agent] == action["guide"]) for agent in ("anna", "ben")}
        reward = {**met, "guide": (met["anna"] + met["ben"]) / 2}
        info = {"terminated": jnp.bool_(False), "truncated": state.done}
        return dict.fromkeys(self.agents, jnp.ones(1)), state, reward, state.done, info


CONFIG = envrax.EnvConfig(max_steps=4)


@pytest.mark.slow
def test_the_others_are_moved_by_their_networks(registered: Any) -> None:
    trainer = ippo.IPPO(registered(Meeting, CONFIG), 1)
    assert trainer.kinds == [["guide"], ["anna", "ben"]]
    key, obs = jax.random.key(0), jnp.ones(1)
    params = [jax.jit(network.init)(key, obs) for network in trainer.networks]
    last = max(name for name, x in params[0]["params"].items() if x["bias"].shape == (3,))
    params[0]["params"][last]["bias"] = jnp.array([0.0, 1e3, 0.0])
    slots = trainer.slots(1, params)
    _, state = slots.reset(jax.random.key(0))
    actions = np.arange(2 * ippo.N_WORLDS, dtype=np.int32) % 3 % 2
    _, _, rewards, *_ = slots.step(state, actions)
    np.testing.assert_array_equal(rewards, actions == 1)


@pytest.mark.slow
def test_unlike_agents_learn_to_meet(
    registered: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At random the return is 4 / 3. Against others that play at random it would be 2 at most."""
    monkeypatch.setattr(ippo, "N_CALLS", 3)
    ippo.main([registered(Meeting, CONFIG), "--total-steps=60000", "--seeds=2"])
    title, random, *_, last, _ = capsys.readouterr().out.splitlines()
    assert title == "mean return of guide; anna, ben"
    found = random.split(": ")[1].split("; ")
    np.testing.assert_allclose(np.float64(found), 4 / 3, atol=0.1)
    found = last.split(": ")[1].replace(";", "").split()
    assert len(found) == 4 and min(map(float, found)) > 3.8


@pytest.mark.slow
def test_agents_that_act_in_turn(registered: Any) -> None:
    """In Nim one of two slots acts in a step, and not all of its actions are legal."""
    trainer = ippo.IPPO(registered(NimWorld, NimConfig()), 1)
    [(at, opt_state)] = jax.jit(trainer.init)(jax.random.key(0))
    _, steps = envrax.rollout(trainer.slots(0, []), partial(trainer.act, 0), at, 16)
    active = np.asarray(steps.info["active"])
    np.testing.assert_array_equal(active[:, ::2], ~active[:, 1::2])
    _, _, mask = steps.extras
    assert np.take_along_axis(np.asarray(mask), np.asarray(steps.action)[..., None], axis=2).all()
    [(after, _)], _ = jax.jit(trainer.update)([(at, opt_state)], None)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(after.policy_state))
