"""Wrappers that skip frames draw only those that they keep."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_trees_equal

import envrax
from envrax import AtariPreprocessing
from envrax.testing import ImageEnv
from envrax.testing.fakes import FakeConfig, FakeState
from envrax.wrappers import MaxAndSkipObservation, RepeatAction, Wrapper
from envrax.wrappers.atari import NoopReset

SHAPE = 12, 10, 3


class Drawn(ImageEnv):
    """Images that the host draws, and counts."""

    def __init__(self, max_steps: int = 50) -> None:
        super().__init__(FakeConfig(max_steps=max_steps))
        self.drawn = list[int]()

    def observe(self, state: Any) -> jax.Array:
        return self.draw(state.step)

    def draw(self, step: jax.Array) -> jax.Array:
        def on_host(step: Any) -> np.ndarray:
            self.drawn.append(int(step))
            return np.random.default_rng(int(step)).integers(0, 256, SHAPE).astype(np.uint8)

        image = jax.ShapeDtypeStruct(SHAPE, np.uint8)
        return jax.pure_callback(on_host, image, step, vmap_method="sequential")

    def reset(self, rng: jax.Array) -> tuple[Any, Any]:
        zero = jnp.int32(0)  # drawn from no key: quick to compile
        state = FakeState(rng=rng, step=zero, done=jnp.bool_(False), number=zero)
        return self.observe(state), state

    def advance(self, state: Any, action: Any) -> Any:
        return state, jnp.float32(1), False

    def step(self, state: Any, action: Any) -> Any:
        *rest, info = super().step(state, action)
        return *rest, {**info, "lives": jnp.int32(3)}

    def taken(self) -> list[int]:
        """The steps that were drawn since the last call, in order."""
        jax.effects_barrier()
        drawn, self.drawn = sorted(self.drawn), []
        return drawn


def called(env: Drawn, function: Any, *args: Any) -> tuple[Any, list[int]]:
    program = jax.jit(function).lower(*args).compile()
    env.taken()
    return jax.block_until_ready(program(*args)), env.taken()


@pytest.mark.parametrize("limit", [50, 7])
def test_the_last_two_frames_of_a_step(limit: int) -> None:
    env = Drawn(limit)
    skipped = MaxAndSkipObservation(env, 4)
    _, state = jax.jit(skipped.reset)(jax.random.key(0))
    (_, state, *_), drawn = called(env, skipped.step, state, 0)
    assert drawn == [3, 4]
    (obs, state, reward, done, _), drawn = called(env, skipped.step, state, 0)
    last = min(8, limit)
    assert drawn == [last - 1, last]
    frames = [np.asarray(env.draw(jnp.int32(at))) for at in drawn]
    np.testing.assert_array_equal(obs, np.maximum(*frames))
    assert (int(state.step), float(reward), bool(done)) == (last, last - 4, last == limit)


def test_the_last_frame_of_a_repeated_action() -> None:
    env = Drawn()
    repeated = RepeatAction(env, 3)
    _, state = jax.jit(repeated.reset)(jax.random.key(0))
    assert called(env, repeated.step, state, 0)[1] == [3]


class Stepped(Wrapper[Any, Any, Any, Any]):
    """A wrapper that may change the observations of a step, so that it has no `observe`."""

    def step(self, state: Any, action: Any) -> Any:
        return super().step(state, action)


def test_without_observe_each_frame_is_drawn() -> None:
    env = Drawn()
    skipped = MaxAndSkipObservation(Stepped(env), 4)
    _, state = jax.jit(skipped.reset)(jax.random.key(0))
    (obs, *_), drawn = called(env, skipped.step, state, 0)
    assert drawn == [1, 2, 3, 4]
    assert_trees_equal(obs, jax.jit(MaxAndSkipObservation(env, 4).step)(state, 0)[0])


def test_the_last_frame_of_the_no_ops() -> None:
    env = Drawn()
    atari = AtariPreprocessing(env, terminal_on_life_loss=True, screen_size=(5, 6))
    (_, state), drawn = called(env, atari.reset, jax.random.key(1))
    assert drawn == [int(state.env_state.noops)] and drawn > [1]
    (_, state, *_), then = called(env, atari.step, state, 0)
    assert then == [drawn[0] + 3, drawn[0] + 4]


def test_a_batch_draws_two_frames_of_each_slot() -> None:
    env = Drawn()
    batch = envrax.VecEnv(AtariPreprocessing(env, noop_max=0, screen_size=(5, 6)), 3)
    _, state = batch.reset(jax.random.key(0))
    obs, states, *_ = batch.step(state, jnp.zeros(3, jnp.int32))
    env.taken()
    jax.block_until_ready(batch.step(states, jnp.zeros(3, jnp.int32)))
    drawn = [at for at in env.taken() if at]  # a new episode, which no slot begins here, is step 0
    assert drawn == [7, 7, 7, 8, 8, 8]


def test_frames_are_those_of_a_loop_on_the_host() -> None:
    """Without tracing, each step is computed whole."""

    class OnHost(Drawn):
        @property
        def traceable(self) -> bool:
            return False

    def play(env: Any) -> list[Any]:
        jit = jax.jit if env.traceable else lambda method: method
        seen, step = [jit(env.reset)(jax.random.key(3))], jit(env.step)
        for action in (0, 1, 2, 1):
            seen.append(step(seen[-1][1], jnp.int32(action)))
        return seen

    traced, on_host = (MaxAndSkipObservation(NoopReset(kind(9), 3), 4) for kind in (Drawn, OnHost))
    for ours, theirs in zip(play(traced), play(on_host), strict=True):
        assert_trees_equal(ours[0], theirs[0])
        assert_trees_equal(ours[2:], theirs[2:])
