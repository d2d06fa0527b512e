"""`action_mask` goes through wrappers, batches and fleets, and is that of the next episode."""

from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CoinEnv
from helpers import slow_but
from wrapper_rows import NO_MASKS, ROWS

import envrax
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
    "row", slow_but(*("images", "episodes"), values=[row for row in ROWS if row not in NO_MASKS])
)
def test_every_wrapper_hands_it_through(
    row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wrap, (env_class, *_) = ROWS[row]
    env, bare = wrap(masked(env_class)()), wrap(env_class())

    def run(rng: jax.Array) -> Any:
        _, state = env.reset(rng)
        _, after, *_ = env.step(state, env.action_space.sample(rng))
        assert bare.action_mask(state) is None
        return [(env.action_mask(now), mask_of(now)) for now in (state, after)]

    for mask, expected in (jax.jit(run) if env.traceable else run)(jax.random.key(0)):
        np.testing.assert_array_equal(mask, expected)


@pytest.mark.parametrize("row", sorted(NO_MASKS))
def test_one_that_cannot_keep_it_says_so(row: str) -> None:
    wrap, (env_class, *_) = ROWS[row]
    env = wrap(masked(env_class)())
    _, state = jax.eval_shape(env.reset, jax.random.key(0))
    with pytest.raises(NotImplementedError, match="action_mask"):
        jax.eval_shape(env.action_mask, state)
    assert jax.eval_shape(wrap(env_class()).action_mask, state) is None


def test_no_ops_of_a_reset_may_be_illegal() -> None:
    env = envrax.AtariPreprocessing(masked(ImageEnv)(), noop_max=2, frame_skip=1, screen_size=8)
    _, state = jax.eval_shape(env.reset, jax.random.key(0))
    with pytest.raises(NotImplementedError, match="NoopReset"):
        jax.eval_shape(env.action_mask, state)


def test_a_batch_has_that_of_each_slot_and_of_the_next_episode() -> None:
    batch = envrax.VecEnv(masked(CoinEnv)(), SLOTS, donate=True)
    _, state = batch.reset(jax.random.key(0))

    @jax.jit
    @jax.vmap
    def expected(state: Any, action: Any) -> Any:
        _, alone, _, done, _ = batch.env.step(state, action)
        begun = batch.env.reset(jax.random.split(alone.rng)[0])[1]
        return jnp.where(done, mask_of(begun), mask_of(alone))

    ended, given = 0, state
    for action in np.random.default_rng(0).uniform(-1, 1, (12, SLOTS, 2)).astype(np.float32):
        wanted = np.asarray(expected(state, action))
        _, state, _, done, _ = batch.step(state, action)
        masks = batch.action_mask(state)
        assert masks.shape == (SLOTS, 12) and masks.dtype == jnp.bool_
        np.testing.assert_array_equal(masks, wanted)
        ended += int(done.sum())
    assert ended > 2
    with pytest.raises((RuntimeError, ValueError), match="deleted"):
        batch.action_mask(given)


def test_batches_without_any() -> None:
    stack = envrax.RecordEpisodeStatistics(envrax.JitWrapper(CountingEnv(), pre_warm=False))
    for batch in (envrax.VecEnv(stack, 2), RingWorld()):
        _, state = jax.eval_shape(batch.reset, jax.random.key(0))
        assert jax.eval_shape(batch.action_mask, state) is None


def test_a_fleet_has_a_container_of_them() -> None:
    envs = {"b": MaskedEnv(), "a": CountingEnv()}
    batches = {name: envrax.VecEnv(env, SLOTS) for name, env in envs.items()}
    for fleet, expected in (
        (envrax.MultiEnv(envs), MaskedEnv().action_mask),
        (envrax.MultiVecEnv(batches), batches["b"].action_mask),
    ):
        _, states = fleet.reset(jax.random.key(0))
        masks = fleet.action_masks(states)
        np.testing.assert_array_equal(masks["b"], expected(states["b"]))
        assert tuple(masks) == ("b", "a") and masks["a"] is None


class Mirror(envrax.ActionWrapper[Any, envrax.Discrete, Any, Any]):
    """Actions the other way round, without a word on the mask."""

    @property
    def action_space(self) -> envrax.Discrete:
        return envrax.Discrete(3)

    def action(self, action: Any) -> Any:
        return 2 - action


class MirrorToo(envrax.Wrapper[Any, Any, Any, Any]):
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
    mirrored = envrax.Wrapper(MirroredMask(MaskedEnv()))
    inner = MaskedEnv().action_mask(state)
    np.testing.assert_array_equal(mirrored.action_mask(state), inner[::-1])
