"""The kit plays legal actions if there is a mask; without one it plays as before."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from broken_envs import faults
from broken_envs.drift import Drift
from broken_envs.masks import MaskIsTooShort

from envrax import (
    Box,
    Dict,
    Discrete,
    JitWrapper,
    MultiDiscrete,
    RecordEpisodeStatistics,
    RecordVideo,
    Tuple,
    VecEnv,
)
from envrax.testing import CountingEnv, MaskedEnv, NestedEnv
from envrax.testing.batched_probe import BatchedProbe
from envrax.testing.fakes import FakeConfig
from envrax.testing.masks import why_unfit
from envrax.testing.mismatch import why_outside
from envrax.testing.probe import Probe


def probe_of(env: Any, num_steps: int, *, compiles: bool) -> Probe:
    batched = hasattr(env, "n_slots")
    probe = BatchedProbe(env, num_steps, 0) if batched else Probe(env, num_steps, 0, False)
    probe.compiles = compiles
    return probe


WRAPPED: list[Any] = [
    (lambda env: RecordEpisodeStatistics(JitWrapper(env, pre_warm=False)), True),
    (lambda env: VecEnv(env, 3), True),
    (lambda env: VecEnv(env, 3), False),
    (lambda env: VecEnv(env, 3, donate=True), True),
]


@pytest.mark.parametrize(
    ("wrap", "compiles"),
    [*WRAPPED[:2], *(pytest.param(*x, marks=pytest.mark.slow) for x in WRAPPED[2:])],
)
def test_all_actions_are_legal(wrap: Any, compiles: bool) -> None:
    probe = probe_of(wrap(MaskedEnv()), 40, compiles=compiles)
    assert len(probe.transitions) == (40 if compiles else 4)
    assert not any(np.any(t.info["terminated"]) for t in probe.transitions)
    actions = np.stack([t.action for t in probe.transitions])
    assert set(actions.ravel().tolist()) == {0, 1, 2} or not compiles
    for compiled, plain in zip(probe.transitions, probe.uncompiled, strict=False):
        np.testing.assert_array_equal(compiled.action, plain.action)


def test_the_long_run_to_an_end_is_legal_too() -> None:
    probe = probe_of(MaskedEnv(FakeConfig(max_steps=300)), 2, compiles=True)
    *_, last = probe.transitions
    assert int(last.state.step) == 300 and bool(last.info["truncated"])
    assert not bool(last.info["terminated"])


def test_on_the_host(tmp_path: Path) -> None:
    env = RecordVideo(MaskedEnv(), tmp_path, episode_trigger=lambda _: False)
    probe = Probe(env, 12, 0, False)
    assert not any(np.any(t.info["terminated"]) for t in probe.transitions)
    assert not faults("masks_fit_the_space", env)


class NestedMasks(NestedEnv):
    """Of the first action the parity of the number is illegal; the second is free."""

    def action_mask(self, state: Any) -> Any:
        return jnp.arange(3, dtype=jnp.int32) != state.number % 2, None


class PaddedMasks(NestedEnv):
    def action_mask(self, state: Any) -> Any:
        odd = state.number % 2 == 1
        third = [jnp.bool_(False), odd, jnp.bool_(True)]
        return None, jnp.stack([jnp.array([True, False, False]), jnp.stack(third)])


@pytest.mark.slow
@pytest.mark.parametrize("batched", [False, True])
def test_masks_of_nested_spaces(batched: bool) -> None:
    def check(env: Any) -> Any:
        env = VecEnv(env, 3) if batched else env
        assert not faults("masks_fit_the_space", env, num_steps=12)
        return probe_of(env, 12, compiles=True).transitions

    for t in check(NestedMasks()):
        assert not np.any(np.asarray(t.action[0]) == np.asarray(t.before.number) % 2)
    for t in check(PaddedMasks()):
        first, second = np.moveaxis(np.asarray(t.action[1]), -1, 0)
        assert not first.any() and second.all()


class Forgetful(CountingEnv):
    """Has no mask after a step."""

    traceable = False  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def action_mask(self, state: Any) -> Any:
        return jnp.ones(3, jnp.bool_) if state.step == 0 else None


def test_a_mask_that_comes_and_goes_is_found() -> None:
    (fault,) = faults("masks_fit_the_space", Forgetful())
    assert fault.expected == "`mask` as at reset, bool[3]" and fault.got == "no such leaf"


def test_a_mask_that_cannot_be_used_leaves_all_actions_as_they_are() -> None:
    probe = probe_of(MaskIsTooShort(), 6, compiles=True)
    assert probe.has_masks and probe.mask(probe.at_reset[1]) is None
    np.testing.assert_array_equal([t.action for t in probe.transitions], probe.actions)

    class Raises(Drift):
        def action_mask(self, state: Any) -> Any:
            raise NotImplementedError("not yet")

    (fault,) = faults("masks_fit_the_space", Raises())
    assert fault.got == "NotImplementedError: not yet"
    assert not faults("step_returns", Raises())


NESTED = Dict(a=Tuple((Discrete(2), Box(0.0, 1.0, ()))), b=MultiDiscrete((2, 3)))
A, B = np.ones(2, bool), np.ones((2, 3), bool)


@pytest.mark.parametrize(
    ("mask", "path", "got"),
    [
        ({"a": None}, "mask", "keys ['a']"),
        (A, "mask", "bool[2]"),
        ({"a": [A], "b": B}, "mask.a", "a list of length 1"),
        ({"a": (A, A), "b": None}, "mask.a.1", "bool[2]"),
        ({"a": (A, None), "b": A}, "mask.b", "bool[2]"),
        ({"a": ([True, True], None), "b": B}, "mask.a.0", "a list"),
    ],
)
def test_the_leaf_that_does_not_fit_is_named(mask: Any, path: str, got: str) -> None:
    unfit = why_unfit(NESTED, mask)
    assert unfit is not None and (unfit.path, unfit.got) == (path, got)


def test_masks_that_fit() -> None:
    for mask in (None, {"a": None, "b": None}, {"a": (A, None), "b": B}):
        assert why_unfit(NESTED, mask) is None
    masks = {"a": (np.ones((4, 2), bool), None), "b": np.ones((4, 2, 3), bool)}
    assert why_unfit(NESTED.batch(4), masks) is None


# Bounds up to rounding


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 0.0), (0.5, 2.0), (-100.0, np.inf)])
def test_a_float_may_miss_a_bound_by_rounding(dtype: Any, low: float, high: float) -> None:
    space, eps = Box(low, high, (2,), dtype), float(jnp.finfo(dtype).eps)
    unit = abs(low or high) * eps
    for units, inside in ((3.0, True), (20.0, False)):
        x = jnp.asarray([low - units * unit, low], dtype)
        assert not space.contains(x)
        assert (why_outside(space, x, "obs", rounded=True) is None) == inside
        assert why_outside(space, x, "obs") is not None
    if np.isfinite(high):
        x = jnp.asarray([high, high + 3 * abs(high or low) * eps], dtype)
        assert not space.contains(x) and why_outside(space, x, "obs", rounded=True) is None


def test_rounding_excuses_neither_integers_nor_nan_nor_a_bound_of_zero_alone() -> None:
    outside = [
        (Box(0, 100_000_000, (), jnp.int32), jnp.int32(-1)),
        (Box(0.0, 1.0, ()), jnp.float32(np.nan)),
        (Box(0.0, np.inf, ()), jnp.float32(-1e-8)),
        (Box(0.0, 1.0, (2,)), jnp.asarray([0.5, -1e-5])),
        (Discrete(3), jnp.int32(3)),
        (Box(0.0, 1e9, ()), jnp.float32(-1e-3)),  # the other bound does not widen what is allowed
        (Box(-1e9, 0.0, ()), jnp.float32(1e-3)),
    ]
    for space, x in outside:
        assert why_outside(space, x, "obs", rounded=True) is not None
    nested = Dict(place=Tuple((Box(0.0, [1.0, 8.0], (2,)),)))
    x = {"place": (jnp.asarray([-1.5e-8, 8.000001]),)}
    assert why_outside(nested, x, "obs", rounded=True) is None
    assert why_outside(nested, x, "obs") is not None


class JustBelow(Drift):
    """As gymnax's UmbrellaChain: compiled, `1 - time / 10` is -1.5e-8 at the end."""

    @property
    def observation_space(self) -> Any:
        return Box(0.0, 1.0, ())

    def observe(self, state: Any) -> Any:
        return jnp.where(state.done, jnp.float32(-1.5e-8), jnp.float32(0.5))


def test_an_observation_may_miss_a_bound_by_rounding() -> None:
    assert not faults("observations_are_in_the_space", JustBelow())
