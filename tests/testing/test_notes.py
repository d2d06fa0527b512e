"""What `check_env` notes without a finding: ends that look like a time limit."""

from typing import Any

import jax.numpy as jnp
import pytest

import envrax
from envrax.testing import report_env
from envrax.testing.fakes import CountingEnv
from envrax.testing.probe import Probe


class Counted(CountingEnv):
    """Every episode ends at one step, as a termination."""

    at = 4

    def step(self, state: Any, action: Any) -> Any:
        obs, state, reward, _, info = super().step(state, action)
        done = state.step >= self.at
        flags = {"terminated": done, "truncated": jnp.bool_(False)}
        return obs, state.replace(done=done), reward, done, {**info, **flags}


class Truncated(Counted):
    def step(self, state: Any, action: Any) -> Any:
        obs, state, reward, done, info = super().step(state, action)
        return obs, state, reward, done, {**info, "terminated": ~done, "truncated": done}


@pytest.mark.parametrize("make, noted", [(Counted, True), (Truncated, False)])
def test_ends_at_one_step_that_are_no_truncations(make: Any, noted: bool) -> None:
    probe = Probe(make(), 40, 0, False)
    probe.compiles = True
    assert len(probe.transitions) == 40
    notes = [*probe.notes()]
    assert any("episodes ended at step 4, and none was truncated" in x for x in notes) == noted


def test_a_limit_of_one_step() -> None:
    env = envrax.with_config(CountingEnv(), max_steps=1)
    assert "`config.max_steps` is 1" in next(Probe(env, 5, 0, False).notes())


class Endless(CountingEnv):
    def advance(self, state: Any, action: Any) -> Any:
        return state, jnp.float32(1), jnp.bool_(False)


def test_an_episode_without_an_end_is_left_alone_after_many_steps() -> None:
    """The check ran on to the limit, a thousand hours."""
    report = report_env(Endless(envrax.EnvConfig(max_steps=2**40)), num_steps=10)
    assert not report.findings
    assert any("no episode ended within 100000 steps" in note for note in report.notes)
