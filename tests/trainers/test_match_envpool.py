# pyright: reportMissingImports=false
"""`match_env` against pools of EnvPool, into which no state can be put."""

from typing import Any

import envpool
import jax.numpy as jnp
import pytest

from envrax import classic
from envrax.testing import match_env

pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered")


class HalfRewardCartPole(classic.CartPole):
    """Its rewards are halved."""

    def advance(self, state: Any, action: Any) -> Any:
        new, reward, terminated = super().advance(state, action)
        return new, 0.5 * reward, terminated


class UprightCartPole(classic.CartPole):
    """It begins upright."""

    def begin(self, key: Any, **episode: Any) -> Any:
        state = super().begin(key, **episode)
        return state.replace(angle=jnp.zeros_like(state.angle))


def match(env: Any) -> Any:
    pool = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=1, seed=4)
    return match_env(env, pool, n_resets=300)


def test_the_same_environment_is_not_refuted_and_no_more() -> None:
    found = match(classic.CartPole())
    assert found.ok is None, str(found)
    verdicts = {check.name: check.verdict for check in found.checks}
    assert verdicts["spaces"] == "equal"
    assert verdicts["starts"] == verdicts["episodes"] == "alike"
    assert verdicts["one step"] == verdicts["ends"] == "skipped"
    assert "not refuted; `inject` or `extract` would tell more" in str(found)


@pytest.mark.parametrize("port", [HalfRewardCartPole, UprightCartPole])
def test_what_shows_in_starts_and_episodes_is_found(port: type[Any]) -> None:
    found = match(port())
    assert found.ok is False, str(found)
