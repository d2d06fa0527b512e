"""`self_play.py`: whom a slot faces, what a change of opponents compiles, and that it learns."""

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import self_play

import envrax
from envrax.multi_agent.one_agent import with_policy_state
from envrax.testing import NimWorld
from envrax.testing.multi_agent_fakes import NimConfig

pytestmark = pytest.mark.usefixtures("standard_promotion")


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in dict(N_ENVS=4, N_STEPS=8, N_UPDATES=1, MINIBATCHES=2).items():
        monkeypatch.setattr(self_play, name, value)


@cache
def untrained() -> Any:
    init = jax.jit(self_play.SelfPlay(NimWorld(), 1).network.init)
    return jax.device_get(init(jax.random.key(0), jnp.zeros(1), jnp.bool_(True)))


def always(action: int) -> Any:
    """Parameters with which the network takes one action."""
    params = copy.deepcopy(untrained())
    params["params"]["Dense_2"]["bias"][1 + action] = 1e3
    return params


@pytest.mark.slow
def test_the_index_of_a_slot_is_its_opponent() -> None:
    """In Nim, some take one stone, others take three; the agent takes one."""
    game = self_play.SelfPlay(NimWorld(), 1)
    seat, _ = game.seats(always(0), always(2))
    env: Any = envrax.VecEnv(seat, 16)
    before, state = env.reset(jax.random.key(0))
    before = np.asarray(before)
    assert len(np.unique(before)) == 2  # either side begins
    index = np.arange(16) % 2
    after, *_ = env.step(with_policy_state(env, state, index), jnp.zeros(16, jnp.int32))
    np.testing.assert_array_equal((before - np.asarray(after))[:, 0], np.where(index, 4, 2))


@pytest.mark.slow
def test_games_are_counted_from_both_seats() -> None:
    """With two stones, who takes two wins in either seat; by ones, the second player wins."""
    game = self_play.SelfPlay(NimWorld(NimConfig(stones=2)), 1)
    one, two, rng = always(0), always(1), jax.random.key(0)
    np.testing.assert_array_equal(game.play(two, one, rng, 50), [1, 0, 0])
    np.testing.assert_array_equal(game.play(one, two, rng, 50), [0, 0, 1])
    np.testing.assert_array_equal(game.play(one, one, rng, 50), [0.5, 0, 0.5])


@pytest.mark.slow
def test_other_opponents_compile_nothing(tiny: None, compile_counter: Callable[[], Any]) -> None:
    game, rng = self_play.SelfPlay(NimWorld(), 2), jax.random.key(0)

    def once(seed: int) -> list[Any]:
        history = self_play.run(game, seed, 2)
        game.play(history[2], history[seed], rng, 4)
        return history

    first = once(0)
    with compile_counter() as compiled:
        second = once(1)
    assert compiled.count == 0
    assert jax.tree.all(jax.tree.map(lambda x, y: np.any(x != y), first[2], second[2]))


@pytest.mark.slow
def test_nim_is_learned(
    registered: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who begins with five stones can win, and the other wins 8 of 9 against uniform play."""
    for name, value in dict(N_ENVS=32, N_STEPS=16, N_UPDATES=24).items():
        monkeypatch.setattr(self_play, name, value)
    self_play.main([registered(NimWorld, NimConfig(stones=5)), "--calls=3"])
    _, *lines = capsys.readouterr().out.split("against ")
    uniform, itself = (float(line.split("won ")[1].split("%")[0]) for line in lines)
    assert uniform == pytest.approx(100 * (1 + 8 / 9) / 2, abs=2)
    assert itself == pytest.approx(50, abs=5)
