"""`action_mask` goes through wrappers, batches and fleets, and is that of the next episode."""

from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CoinEnv, VectorEnv
from helpers import random_actions, slow_but
from wrapper_rows import NO_MASKS, ROWS

from envrax import (
    ActionWrapper,
    AtariPreprocessing,
    Discrete,
    FrameStackObservation,
    JitWrapper,
    MultiEnv,
    MultiVecEnv,
    RecordEpisodeStatistics,
    VecEnv,
    Wrapper,
)
from envrax.autoreset import Compact, Select
from envrax.testing import CountingEnv, ImageEnv, MaskedEnv, RingWorld

SLOTS = 3


def mask_of(state: Any) -> jax.Array:
    """A mask that no two states share, from what every state in a stack has."""
    bits = jax.random.bits(jax.random.fold_in(state.rng, state.step), (12,), jnp.uint8)
    return bits > 100


@cache
def masked(env_class: Any) -> Any:
    """The class, with a mask."""
    return type(env_class)(
        f"Masked{env_class.__name__}",
        (env_class,),
        {"action_mask": lambda self, state: mask_of(state)},
    )


@pytest.mark.parametrize(
    "row",
    slow_but(
        *("Wrapper", "RecordVideo", "images", "episodes"),
        values=[row for row in ROWS if row not in NO_MASKS],
    ),
)
def test_every_wrapper_hands_it_through(
    row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wrap, (env_class, *_) = ROWS[row]
    env = wrap(masked(env_class)())
    _, state = env.reset(jax.random.key(0))
    _, after, *_ = env.step(state, env.action_space.sample(jax.random.key(1)))
    for now in (state, after):
        np.testing.assert_array_equal(env.action_mask(now), mask_of(now))
        np.testing.assert_array_equal(jax.jit(env.action_mask)(now), mask_of(now))
    plain = wrap(env_class())
    assert plain.action_mask(state) is None and jax.jit(plain.action_mask)(state) is None


@pytest.mark.parametrize("row", slow_but("RepeatAction", "StickyAction", values=sorted(NO_MASKS)))
def test_one_that_cannot_keep_it_says_so(row: str) -> None:
    wrap, (env_class, *_) = ROWS[row]
    env = wrap(masked(env_class)())
    _, state = jax.eval_shape(env.reset, jax.random.key(0))
    with pytest.raises(NotImplementedError, match="action_mask"):
        jax.eval_shape(env.action_mask, state)
    assert jax.eval_shape(wrap(env_class()).action_mask, state) is None


def test_no_ops_of_a_reset_may_be_illegal() -> None:
    env = AtariPreprocessing(masked(ImageEnv)(), noop_max=2, frame_skip=1, screen_size=8)
    _, state = jax.eval_shape(env.reset, jax.random.key(0))
    with pytest.raises(NotImplementedError, match="NoopReset"):
        jax.eval_shape(env.action_mask, state)


def stack(env: Any) -> Any:
    return RecordEpisodeStatistics(FrameStackObservation(JitWrapper(env, pre_warm=False)))


@pytest.mark.parametrize(
    "options",
    slow_but(
        dict(),
        values=[
            dict(),
            dict(jit_compile=False),
            dict(donate=True),
            dict(autoreset=Compact()),
            dict(autoreset=Select(), final_obs=True),
        ],
    ),
    ids=str,
)
def test_a_batch_has_that_of_each_slot_and_of_the_next_episode(options: Any) -> None:
    batch = VecEnv(stack(masked(CoinEnv)()), SLOTS, **options)
    _, state = batch.reset(jax.random.key(0))
    begun = jax.vmap(batch.env.reset)(jax.random.split(jax.random.key(0), SLOTS))[1]
    np.testing.assert_array_equal(batch.action_mask(state), jax.vmap(mask_of)(begun))
    ended = 0
    step = jax.jit(lambda *at: jax.vmap(batch.env.step)(*at)[1])
    reset = jax.jit(jax.vmap(lambda rng: batch.env.reset(jax.random.split(rng)[0])[1]))
    mask_of_each = jax.jit(jax.vmap(mask_of))
    for action in random_actions(batch.action_space, (8,)):
        before = jax.tree.map(jnp.copy, state)
        _, state, _, done, _ = batch.step(state, action)
        masks = batch.action_mask(state)
        assert masks.shape == (SLOTS, 12) and masks.dtype == jnp.bool_
        alone = step(before, action)
        masks_of = [np.asarray(mask_of_each(x)) for x in (reset(alone.rng), alone)]
        expected = np.where(np.asarray(done)[:, None], *masks_of)
        np.testing.assert_array_equal(masks, expected)
        ended += int(done.sum())
    assert ended > 2


def test_a_donated_state_has_none() -> None:
    batch = VecEnv(MaskedEnv(), 2, donate=True)
    _, state = batch.reset(jax.random.key(0))
    batch.step(state, jnp.zeros(2, jnp.int32))
    with pytest.raises((RuntimeError, ValueError), match="deleted"):
        batch.action_mask(state)


def test_batches_without_any() -> None:
    for batch in (VecEnv(CountingEnv(), 2), VecEnv(stack(CountingEnv()), 2), RingWorld()):
        _, state = batch.reset(jax.random.key(0))
        assert batch.action_mask(state) is None


def test_a_fleet_has_a_container_of_them() -> None:
    rng = jax.random.key(0)
    one = MultiEnv({"b": MaskedEnv(), "a": VectorEnv()})
    _, states = one.reset(rng)
    masks = one.action_masks(states)
    np.testing.assert_array_equal(masks["b"], MaskedEnv().action_mask(states["b"]))
    assert tuple(masks) == ("b", "a") and masks["a"] is None

    many = MultiVecEnv([VecEnv(MaskedEnv(), SLOTS), RingWorld()])
    _, states = many.reset(rng)
    for t in range(6):  # the limit is five
        mask, none = many.action_masks(states)
        assert none is None
        np.testing.assert_array_equal(mask, jax.vmap(MaskedEnv().action_mask)(states[0]))
        action = Discrete(3).batch(SLOTS).sample(jax.random.key(t), mask)
        _, states, _, _, infos = many.step(states, [action, many.action_spaces[1].sample(rng)])
        assert not infos[0]["terminated"].any()


class Mirror(ActionWrapper[Any, Discrete, Any, Any]):
    """Actions the other way round, without a word on the mask."""

    @property
    def action_space(self) -> Discrete:
        return Discrete(3)

    def action(self, action: Any) -> Any:
        return 2 - action


class MirrorToo(Wrapper[Any, Any, Any, Any]):
    """The same by the hook of any wrapper."""

    def action(self, action: Any) -> Any:
        return 2 - action


class MirroredMask(Mirror):
    def action_mask(self, state: Any) -> Any:
        return self.env.action_mask(state)[::-1]


def test_a_wrapper_of_actions_has_to_say_what_becomes_of_it() -> None:
    _, state = MaskedEnv().reset(jax.random.key(0))
    for wrapper in (Mirror, MirrorToo):
        with pytest.raises(NotImplementedError, match="action_mask"):
            wrapper(MaskedEnv()).action_mask(state)
    assert Mirror(CountingEnv()).action_mask(state) is None
    mirrored = Wrapper(MirroredMask(MaskedEnv()))
    inner = MaskedEnv().action_mask(state)
    np.testing.assert_array_equal(mirrored.action_mask(state), inner[::-1])
