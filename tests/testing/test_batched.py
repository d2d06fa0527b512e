"""`check_batched_env`: correct batches pass, and each rule finds the batch that breaks it."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from batched_fakes import OnTheHost, Scene
from broken_envs import faults
from gymnasium.vector import AutoresetMode
from helpers import slow_but

from envrax import BatchedEnv, EnvConfig, EpisodeDiscount, ExpandDims, MultiDiscrete, VecEnv
from envrax.classic import CartPole, Pendulum
from envrax.testing import (
    ConformanceError,
    CountingEnv,
    MaskedEnv,
    RingWorld,
    check_batched_env,
    report_batched_env,
)
from envrax.wrappers.vector import BatchedWrapper, NormalizeObservation, NormalizeReward
from envrax.wrappers.vector.base import ForwardingBatch

SOUND: list[Any] = [
    lambda: OnTheHost(2),
    RingWorld,
    lambda: NormalizeObservation(VecEnv(CartPole(), 2)),
    lambda: VecEnv(MaskedEnv(), 1, final_obs=True, donate=True),
    lambda: VecEnv(EpisodeDiscount(ExpandDims(CountingEnv())), 2, jit_compile=False),
    lambda: VecEnv(EpisodeDiscount(MaskedEnv()), 2, final_obs=True),
    lambda: VecEnv(ExpandDims(MaskedEnv()), 2, final_obs=True),
]


@pytest.mark.parametrize("make", slow_but(SOUND[0], values=SOUND))
def test_sound_batches_pass(make: Any) -> None:
    check_batched_env(make(), num_steps=12)


def test_of_many_slots_some_are_drawn() -> None:
    drawn: list[int] = []

    class Counts(VecEnv[Any, Any, Any, Any]):
        def render_slot(self, state: Any, slot_idx: int = 0) -> Any:
            drawn.append(slot_idx)
            return np.zeros((4, 4, 3), np.uint8)

    assert not faults("render_slot_is_an_image", Counts(CountingEnv(), 200))
    assert drawn[0] == 0 and drawn[-1] == 199 and len(drawn) < 12


@pytest.mark.slow
def test_the_rounding_errors_that_statistics_store_are_not_compared() -> None:
    """Those of sums of hundreds: in a scan they are others."""
    check_batched_env(NormalizeReward(VecEnv(Pendulum(), 4)))


@pytest.mark.slow
def test_a_simulator_that_resets_in_the_next_step_is_found() -> None:
    report = report_batched_env(OnTheHost(2, AutoresetMode.NEXT_STEP), num_steps=80)
    assert [finding.rule for finding in report.findings] == ["next_episode_begins_at_once"]
    assert report_batched_env(OnTheHost(2), num_steps=80).ok


@pytest.mark.slow
def test_a_scene_that_clamps_its_index_is_found() -> None:
    report = report_batched_env(Scene(5), num_steps=5)
    assert [finding.rule for finding in report.findings] == ["slot_state_takes_an_index"]
    assert "an IndexError at 5 of 5 slots; got a state" in str(report)


class Counting(VecEnv[Any, Any, Any, Any]):
    """Two counting environments, in which subclasses break something."""

    edit: Any = staticmethod(lambda *returned: returned)

    def __init__(self) -> None:
        super().__init__(CountingEnv(), 2)

    def step(self, state: Any, actions: Any) -> Any:
        return self.edit(*super().step(state, actions))


class NoSlots(Counting):
    is_built = False

    def __init__(self) -> None:
        super().__init__()
        self.is_built = True

    @property
    def n_slots(self) -> int:
        return 0 if self.is_built else super().n_slots


class AnotherActionSpace(Counting):
    @property
    def action_space(self) -> Any:
        return MultiDiscrete((3, 3, 3))


class ResetGivesOne(Counting):
    def reset(self, rng: jax.Array) -> Any:
        return super().reset(rng)[0]


class StepGivesFour(Counting):
    def edit(self, *returned: Any) -> Any:
        return returned[:4]


class InfoIsShared(Counting):
    def edit(self, *returned: Any) -> Any:
        return *returned[:4], {**returned[4], "temperature": jnp.float32(1)}


class RewardIsTheMean(Counting):
    def edit(self, obs: Any, state: Any, rewards: Any, *rest: Any) -> Any:
        return obs, state, rewards.mean(), *rest


class DoneIsAny(Counting):
    def edit(self, obs: Any, state: Any, rewards: Any, dones: Any, infos: Any) -> Any:
        return obs, state, rewards, dones.any(), infos


class ObservationIsAFloat(Counting):
    def edit(self, obs: Any, *rest: Any) -> Any:
        return obs.astype(jnp.float32), *rest


class StateForgetsItsKey(Counting):
    def edit(self, obs: Any, state: Any, *rest: Any) -> Any:
        return obs, state.replace(rng=jax.random.key_data(state.rng)), *rest


class DrawsFromNumPy(Counting):
    def edit(self, obs: Any, state: Any, rewards: Any, *rest: Any) -> Any:
        return obs, state, rewards + np.float32(np.random.random()), *rest


class CountsCalls(Counting):
    calls = 0

    def edit(self, *returned: Any) -> Any:
        self.calls += 1
        return returned


class AsksATracer(Counting):
    def edit(self, *returned: Any) -> Any:
        return returned if returned[3].any() else (*returned,)


class LooksAtTheNeighbours(Counting):
    def edit(self, obs: Any, state: Any, rewards: Any, *rest: Any) -> Any:
        return obs, state, rewards - rewards[::-1], *rest


class OneKeyForAll(Counting):
    def reset(self, rng: jax.Array) -> Any:
        return jax.vmap(self.env.reset)(jnp.stack([rng, rng]))


class NeverResets(Counting):
    def step(self, state: Any, actions: Any) -> Any:
        return jax.vmap(self.env.step)(state, actions)


class FinalIsFirst(VecEnv[Any, Any, Any, Any]):
    def __init__(self) -> None:
        super().__init__(CountingEnv(), 2, final_obs=True)

    def step(self, state: Any, actions: Any) -> Any:
        *rest, infos = super().step(state, actions)
        return *rest, {**infos, "final_obs": rest[0]}


class FinalMaskIsOfTheNextEpisode(VecEnv[Any, Any, Any, Any]):
    def __init__(self) -> None:
        super().__init__(MaskedEnv(), 2, final_obs=True)

    def step(self, state: Any, actions: Any) -> Any:
        *rest, infos = super().step(state, actions)
        return *rest, {**infos, "final_mask": self.action_mask(rest[1])}


class NextStep(ForwardingBatch[Any, Any]):
    """The step after an end ignores the actions, and begins the next episode."""

    def __init__(self) -> None:
        self.env = VecEnv(CountingEnv(EnvConfig(max_steps=1)), 2)

    def reset(self, rng: jax.Array) -> Any:
        return self.env.reset(rng)

    def step(self, state: Any, actions: Any) -> Any:
        def one(state: Any, action: Any) -> Any:
            env = self.env.env
            stepped = env.step(state, action)
            nothing = jax.tree.map(jnp.zeros_like, stepped[2:])
            begun = *env.reset_after(state), *nothing
            chosen = jax.tree.map(lambda x, y: jnp.where(state.done, x, y), begun, stepped)
            return *chosen[:4], {**chosen[4], "final_obs": chosen[0]}

        return jax.vmap(one)(state, actions)


class ForgetsFinalObs(BatchedWrapper[Any, Any]):
    def info(self, infos: Any) -> Any:
        return {name: x for name, x in infos.items() if name != "final_obs"}


class OnlyObsIsChanged(BatchedWrapper[Any, Any]):
    def on_step(self, obs: Any, *rest: Any) -> Any:
        return obs + 1, *rest


class FinalObsHasAnotherShape(BatchedWrapper[Any, Any]):
    def info(self, infos: Any) -> Any:
        return {**infos, **{k: x[..., :1] for k, x in infos.items() if k == "final_obs"}}


class OnlyMasksAreSwapped(BatchedWrapper[Any, Any]):
    def action(self, actions: Any) -> Any:
        return 2 - actions

    def action_mask(self, state: Any) -> Any:
        return self.env.action_mask(state.env_state)[:, ::-1]


def around_two(wrapper: Any, env_class: Any = CountingEnv) -> Any:
    return lambda: wrapper(VecEnv(env_class(), 2))


class IndexIsClamped(Counting):
    def slot_state(self, state: Any, slot_idx: Any = 0) -> Any:
        return jax.tree.map(lambda x: x[slot_idx], state)


class ImageIsAFloat(Counting):
    def render_slot(self, state: Any, slot_idx: int = 0) -> Any:
        return np.zeros((4, 4, 3))


class ImageOfOneSlotHasAlpha(Counting):
    def render_slot(self, state: Any, slot_idx: int = 0) -> Any:
        return np.zeros((4, 4, 3 + slot_idx), np.uint8)


class WantsTypedKeys(Counting):
    def reset(self, rng: jax.Array) -> Any:
        assert jnp.issubdtype(rng.dtype, jax.dtypes.prng_key)
        return super().reset(rng)


class MaskOfOneSlot(Counting):
    def action_mask(self, state: Any) -> Any:
        return state.number[0] != jnp.arange(3, dtype=jnp.int32)


class NothingIsLegalInOneSlot(Counting):
    def action_mask(self, state: Any) -> Any:
        return jnp.stack([jnp.ones(3, jnp.bool_), jnp.full(3, state.step[1] != 2)])


BROKEN: list[tuple[Callable[[], BatchedEnv[Any, Any]], str]] = [
    (NoSlots, "batch_spaces_are_legal"),
    (AnotherActionSpace, "batch_spaces_are_legal"),
    (ResetGivesOne, "reset_returns"),
    (StepGivesFour, "step_returns"),
    (AsksATracer, "traces_under_jit"),
    (MaskOfOneSlot, "masks_fit_the_space"),
    (NothingIsLegalInOneSlot, "masks_fit_the_space"),
    (InfoIsShared, "infos_have_slots"),
    (CountsCalls, "inputs_are_left_alone"),
    (DrawsFromNumPy, "same_key_same_episode"),
    (RewardIsTheMean, "reward_is_a_float"),
    (DoneIsAny, "dones_are_flags"),
    (ObservationIsAFloat, "observations_are_in_the_space"),
    (StateForgetsItsKey, "reset_and_step_agree"),
    (LooksAtTheNeighbours, "slots_are_independent"),
    (OneKeyForAll, "slots_step_like_one"),
    (NeverResets, "ended_slots_start_again"),
    (FinalIsFirst, "ended_slots_start_again"),
    (NextStep, "next_episode_begins_at_once"),
    (around_two(ForgetsFinalObs), "final_obs_is_of_the_step"),
    (around_two(OnlyObsIsChanged), "final_obs_is_of_the_step"),
    (around_two(FinalObsHasAnotherShape), "final_obs_is_of_the_step"),
    (FinalMaskIsOfTheNextEpisode, "ended_slots_start_again"),
    (around_two(OnlyMasksAreSwapped, MaskedEnv), "final_mask_is_of_the_step"),
    (IndexIsClamped, "slot_state_takes_an_index"),
    (ImageIsAFloat, "render_slot_is_an_image"),
    (ImageOfOneSlotHasAlpha, "render_slot_is_an_image"),
    (WantsTypedKeys, "both_kinds_of_keys"),
]


QUICK = BROKEN[:2] + BROKEN[5:6] + BROKEN[14:16]


@pytest.mark.parametrize(
    ("env_class", "rule"),
    [pytest.param(*x, marks=[] if x in QUICK else [pytest.mark.slow]) for x in BROKEN],
)
def test_a_rule_of_batches_finds_what_breaks_it(env_class: Any, rule: str) -> None:
    assert faults(rule, env_class())


@pytest.mark.parametrize(
    ("env_class", "rule"),
    [
        pytest.param(*x, marks=pytest.mark.exhaustive if i % 7 else pytest.mark.slow)
        for i, x in enumerate(BROKEN)
    ],
)
def test_a_broken_batch_gets_its_one_finding(env_class: Any, rule: str) -> None:
    with pytest.raises(ConformanceError) as caught:
        check_batched_env(env_class(), num_steps=6)
    (finding,) = caught.value.report.findings
    assert finding.rule == rule
    assert f"expected {finding.expected}; got {finding.got}. {finding.fix}" in str(finding)
