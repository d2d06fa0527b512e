"""`FrameBuffer`: samples are steps of the rollout, and all that are stored are as likely."""

import pickle
from collections import deque
from itertools import pairwise
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_trees_equal, slow_but, small_vec

import envrax
from envrax import Box, Dict, Discrete, EnvConfig, EnvState, EpisodicEnv, FrameBuffer, Transition
from envrax.classic import Catch


@chex.dataclass
class NoiseState(EnvState):
    frame: jax.Array


class Noise(EpisodicEnv[Any, Discrete, NoiseState, EnvConfig]):
    """Frames that are never alike; an episode ends by chance, or at the limit."""

    @property
    def observation_space(self) -> Any:
        return Box(0, 255, (3, 2), jnp.uint8)

    @property
    def action_space(self) -> Discrete:
        return Discrete(2)

    def begin(self, key: jax.Array, **episode: Any) -> NoiseState:
        return NoiseState(frame=jax.random.bits(key, (3, 2), jnp.uint8), **episode)

    def advance(self, state: NoiseState, action: Any) -> tuple[NoiseState, Any, Any]:
        rng, key = jax.random.split(state.rng)
        state = state.replace(rng=rng, frame=jax.random.bits(key, (3, 2), jnp.uint8))
        return state, jnp.float32(action), jax.random.bernoulli(key, 0.3)

    def observe(self, state: NoiseState) -> jax.Array:
        return state.frame


class NoiseAndStep(Noise):
    """A dict, of which one entry is to be stacked."""

    @property
    def observation_space(self) -> Any:
        return Dict(image=super().observation_space, step=Box(0, 99, (), jnp.int32))

    def observe(self, state: NoiseState) -> Any:
        return {"image": state.frame, "step": state.step}


class Lives(Noise):
    """A life is lost in every third step."""

    def step(self, state: NoiseState, action: Any) -> Any:
        obs, state, reward, done, info = super().step(state, action)
        return obs, state, reward, done, {**info, "lives": 10 - state.step // 3}


def played(env: Any, n_steps: int) -> Transition:
    """Steps of which the extras are a number of their own."""
    steps = envrax.rollout(env, None, envrax.start(env, jax.random.key(n_steps)), n_steps)[1]
    numbers = jnp.arange(steps.done.size, dtype=jnp.int32).reshape(steps.done.shape)
    return steps._replace(extras=numbers)


def part(steps: Transition, begin: int, end: int) -> Transition:
    return jax.tree.map(lambda x: x[begin:end], steps)


def stored(steps: Transition, n_frames: int, n_stack: int) -> set[int]:
    """By hand: the numbers of the steps whose frames are among the newest of their slots."""
    found: set[int] = set()
    for numbers, done in zip(np.asarray(steps.extras).T, np.asarray(steps.done).T, strict=True):
        ring = deque([-1] * n_stack, n_frames // steps.done.shape[1])
        for number, begins in zip(numbers.tolist(), [False, *done[:-1].tolist()], strict=True):
            ring.extend([-1] * n_stack if begins else [])  # no step leads to a first frame
            ring.append(number)
        found |= {*list(ring)[n_stack:]} - {-1}
    return found


add = jax.jit(FrameBuffer.add, donate_argnums=0)
sample = jax.jit(FrameBuffer.sample, static_argnums=2)


@pytest.mark.parametrize(
    "case",
    slow_but(
        (4, 3, 135, 9),
        values=[(4, 3, 135, 9), (1, 2, 41, 5), (2, 1, 30, 1), (3, 5, 1000, 3), (5, 2, 110, 100)],
    ),
)
def test_samples_are_those_of_the_rollout(case: tuple[int, int, int, int]) -> None:
    """Before and after frames are overwritten, over ends of both kinds, in pieces of any length."""
    n_stack, n_slots, n_frames, limit = case
    env = envrax.FrameStackObservation(Noise(EnvConfig(max_steps=limit)), n_stack=n_stack)
    steps = played(small_vec(env, n_slots), 60)
    assert steps.terminated.any() and (limit == 100 or steps.truncated.any())
    plain = jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[2:]), steps)
    buffer = FrameBuffer.init(part(steps, 0, 3), n_frames)
    bounds = [3, 4, 5, 12, 13, 20, 21, 22, 29, 30, 37, 44, 51, 52, 59, 60]
    for i, (begin, end) in enumerate(pairwise([0, *bounds])):
        buffer = add(buffer, part(steps, begin, end)) if i else buffer
        batch = sample(buffer, jax.random.key(end), 4000)
        assert_trees_equal(batch, jax.tree.map(lambda x: x[batch.extras], plain))  # noqa: B023
        wanted = stored(part(steps, 0, end), n_frames, n_stack)
        numbers, counts = np.unique(batch.extras, return_counts=True)
        assert {*numbers.tolist()} == wanted
        mean = 4000 / len(wanted)
        # Of as many as are equally likely, a count lies within five deviations.
        np.testing.assert_allclose(counts, mean, atol=5 * np.sqrt(mean))


@pytest.mark.parametrize("compiled", [False, True])
def test_pieces_that_do_not_follow_one_another_are_kept_whole(compiled: bool) -> None:
    """Of two rollouts, backwards, and with a gap."""
    env = small_vec(envrax.FrameStackObservation(Noise(EnvConfig(max_steps=9)), n_stack=3), 2)
    steps = jax.tree.map(lambda *x: jnp.concatenate(x), played(env, 30), played(env, 31))
    numbers = jnp.arange(steps.done.size, dtype=jnp.int32).reshape(steps.done.shape)
    steps = steps._replace(extras=numbers)
    plain = jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[2:]), steps)
    buffer = FrameBuffer.init(part(steps, 0, 5), 2000)
    for begin in (30, 35, 8, 50, 55, 9):
        piece = part(steps, begin, begin + 5)
        buffer = add(buffer, piece) if compiled else buffer.add(piece)
    batch = sample(buffer, jax.random.key(0), 2000)
    assert_trees_equal(batch, jax.tree.map(lambda x: x[batch.extras], plain))
    assert len(np.unique(batch.extras)) == 2 * 31  # four of 35 rows stand in it twice


def test_it_fills_in_a_scan_and_under_vmap() -> None:
    """The buffer is the same, however the steps are divided, and for each seed as alone."""
    env = small_vec(envrax.FrameStackObservation(Noise(EnvConfig(max_steps=6)), n_stack=3), 2)

    def run(rng: jax.Array) -> Any:
        at, steps = envrax.rollout(env, None, envrax.start(env, rng), 2)

        def step(carry: Any, _: None) -> Any:
            at, buffer = carry
            at, steps = envrax.rollout(env, None, at, 1)
            return (at, buffer.add(steps)), steps

        carry = at, FrameBuffer.init(steps, 60)
        (_, buffer), more = jax.lax.scan(step, carry, length=30)
        more = jax.tree.map(lambda x: x[:, 0], more)
        return buffer, buffer.sample(rng, 5), steps, more

    keys = jax.random.split(jax.random.key(0), 2)
    seeds = jax.jit(jax.vmap(run))(keys)
    for i, key in enumerate(keys):
        buffer, batch, steps, more = jax.jit(run)(key)
        assert_trees_equal(jax.tree.map(lambda x: x[i], seeds), (buffer, batch, steps, more))  # noqa: B023
    pieces = FrameBuffer.init(steps, 60)
    for begin in range(0, 30, 5):
        pieces = add(pieces, part(more, begin, begin + 5))
    assert_trees_equal(pieces, buffer)


def test_an_entry_of_a_dict_and_one_environment() -> None:
    env = envrax.FrameStackObservation(NoiseAndStep(EnvConfig(max_steps=6)), key="image")
    steps = played(env, 30)
    buffer = FrameBuffer.init(steps, 160, key="image")
    batch = buffer.sample(jax.random.key(0), 50)
    assert_trees_equal(batch, jax.tree.map(lambda x: x[batch.extras], steps))
    assert buffer.frames.shape == (160, 1, 3, 2)


@pytest.mark.parametrize("wrapper", ["EpisodicLife", "StartStates"])
def test_an_episode_may_begin_with_any_stack(wrapper: str) -> None:
    """As where a game goes on after a lost life, or begins in a state that was kept."""
    env: Any = envrax.FrameStackObservation(Lives(EnvConfig(max_steps=9)), n_stack=3)
    if wrapper == "EpisodicLife":
        env = envrax.EpisodicLife(env)
    else:
        obs, state, *_ = env.step(env.reset(jax.random.key(1))[1], 0)
        env = envrax.StartStates(env, lambda rng: (obs, state))
    steps = played(small_vec(env, 2), 40)
    first = np.asarray(steps.obs)[1:][np.asarray(steps.done)[:-1]]
    assert (first[..., 0] != first[..., -1]).any()
    buffer = add(FrameBuffer.init(part(steps, 0, 3), 1000), part(steps, 3, 40))
    plain = jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[2:]), steps)
    batch = sample(buffer, jax.random.key(0), 500)
    assert_trees_equal(batch, jax.tree.map(lambda x: x[batch.extras], plain))


def test_it_samples_with_64_bits() -> None:
    with jax.enable_x64(True):
        steps = played(envrax.FrameStackObservation(Noise(EnvConfig(max_steps=6))), 6)
        batch = FrameBuffer.init(steps, 100).sample(jax.random.key(0), 50)
        assert_trees_equal(batch, jax.tree.map(lambda x: x[batch.extras], steps))


def test_what_cannot_be_kept_is_refused() -> None:
    stacked = envrax.FrameStackObservation(Noise(EnvConfig(max_steps=6)))
    steps, entry = played(stacked, 6), played(NoiseAndStep(EnvConfig(max_steps=6)), 6)
    slots = played(small_vec(stacked, 6), 6)
    cases: list[tuple[Any, type[Exception], str]] = [
        ((steps.obs, 50), TypeError, "FrameBuffer: expected a Transition"),
        ((entry, 50), TypeError, "one stacked array; got dict. Pass `key`"),
        ((played(Catch(), 6), 50), ValueError, r"got some of shape \(20, 10, 3\)"),
        ((steps, 33), ValueError, "at least 34 frames for each slot, .* got 33. Raise"),
        ((steps, 1), ValueError, "at least 34 frames"),
        ((steps, 1.5), TypeError, "n_frames to be an int"),
        ((jax.tree.map(lambda x: x[::-1], steps), 50), ValueError, "each row continues the one"),
        ((jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), slots), 80), ValueError, "axes time and"),
    ]
    for given, error, message in cases:
        with pytest.raises(error, match=message):
            FrameBuffer.init(*given)
    for named, key in ((steps, "x"), (entry, "x")):
        with pytest.raises(ValueError, match=r"an entry 'x', the `key`; got .* Correct `key`"):
            FrameBuffer.init(named, 50, key=key)
    with pytest.raises(ValueError, match=r"got 0. Raise `n_frames` to 204, or add"):
        FrameBuffer.init(slots, 5)


def test_steps_of_another_kind_are_refused_by_the_name_of_what_differs() -> None:
    stacked = envrax.FrameStackObservation(Noise(EnvConfig(max_steps=6)))
    steps = played(stacked, 6)
    buffer = FrameBuffer.init(steps, 50)
    half = steps._replace(obs=steps.obs.astype("float16"), next_obs=steps.next_obs)
    wider = envrax.FrameStackObservation(Noise(EnvConfig(max_steps=6)), n_stack=5)
    cases: list[tuple[Any, str]] = [
        (half, "obs"),
        (played(wider, 6), "obs"),
        (played(small_vec(stacked, 6), 6), "obs"),
        (steps._replace(info=None), "info"),
        (steps._replace(reward=steps.reward.astype("int32")), "reward"),
    ]
    for given, name in cases:
        for add_them in (FrameBuffer.add, jax.jit(FrameBuffer.add)):
            with pytest.raises(TypeError, match=f"expected `{name}` as in `init`, at each time"):
                add_them(buffer, given)
    with pytest.raises(TypeError, match=r"FrameBuffer.sample: expected a PRNG key; got 0"):
        buffer.sample(0, 8)  # pyright: ignore


@pytest.mark.parametrize("given", [((1000,), {}), ((), {"n_frames": 1000})])
def test_the_class_names_init(given: Any) -> None:
    with pytest.raises(
        TypeError, match=r"FrameBuffer: expected `FrameBuffer.init\(steps, n_frames"
    ):
        FrameBuffer(*given[0], **given[1])


def test_its_repr_is_one_short_line() -> None:
    steps = played(envrax.FrameStackObservation(Noise(EnvConfig(max_steps=6)), n_stack=3), 6)
    buffer = FrameBuffer.init(steps, 100)
    shown = "FrameBuffer(frames=uint8[100, 1, 3, 2], n_stack=3, key=None)"
    assert repr(buffer) == repr(pickle.loads(pickle.dumps(buffer))) == shown
    assert repr(jax.tree.map(lambda _: None, buffer)) == shown.replace(
        "uint8[100, 1, 3, 2]", "None"
    )
