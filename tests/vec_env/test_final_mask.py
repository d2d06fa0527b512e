"""`final_mask`: the mask of the state before the reset, through all that is around a batch."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_trees_equal, random_actions, slow_but, small_vec, with_final_obs
from jax.sharding import AxisType

import envrax
from envrax import RecordEpisodeStatistics, RepeatAction, VecEnv, shard
from envrax.autoreset import Compact, Select
from envrax.testing import CountingEnv, MaskedEnv
from envrax.wrappers.vector import BatchedWrapper, NormalizeObservation, NormalizeReward

KEY = jax.random.key(0)
N = 4
STEPS = 12


def steps_of(batch: Any, actions: Any) -> Any:
    """The state before each step, the action, and what the step returned."""
    _, state = batch.reset(KEY)
    for action in actions:
        before = jax.tree.map(jnp.copy, state)
        returned = batch.step(state, action)
        state = returned[1]
        yield before, action, returned


@cache
def batch_of(name: str) -> Any:
    return VecEnv(MaskedEnv(), N, final_obs=True, **OPTIONS[name])


def final_masks(batch: Any, inner: Any = lambda state: state) -> list[Any]:
    """Those of a run with random actions, compared with the environment stepped by itself."""
    env: Any = batch.unwrapped
    mask_after = jax.jit(jax.vmap(lambda *at: env.action_mask(env.step(*at)[1])))
    found: list[Any] = []
    ended = 0
    actions = random_actions(batch.action_space, (STEPS,))
    for before, action, (*_, dones, infos) in steps_of(batch, actions):
        assert_trees_equal(infos["final_mask"], mask_after(inner(before), action))
        found.append(infos["final_mask"])
        ended += int(dones.sum())
    assert ended > N
    return found


OPTIONS: dict[str, Any] = {
    "plain": dict(autoreset=Select()),
    "off": dict(autoreset=False),
    "compact": dict(autoreset=Compact(), donate=True),
}


@pytest.mark.parametrize("name", slow_but("plain", "off", values=OPTIONS))
def test_it_is_the_mask_of_the_state_before_the_reset(name: str) -> None:
    final_masks(batch_of(name))


def infos_of(batch: Any) -> Any:
    """Their shapes, which compiles nothing."""
    state = jax.eval_shape(batch.reset, KEY)[1]
    return jax.eval_shape(batch.step, state, jnp.zeros(N, jnp.int32))[4]


def test_infos_are_those_of_the_environment_without_it() -> None:
    for batch in (VecEnv(MaskedEnv(), N), VecEnv(CountingEnv(), N, final_obs=True)):
        assert "final_mask" not in infos_of(batch)


class Always(CountingEnv):
    """A mask that does not depend on the state."""

    def action_mask(self, state: Any) -> Any:
        return np.array([True, False, True])


@pytest.mark.slow
def test_on_a_mesh() -> None:
    mesh = jax.make_mesh((1,), ("slots",), axis_types=(AxisType.Explicit,))
    alone = final_masks(batch_of("plain"))
    batch: Any = shard(small_vec(MaskedEnv(), N), mesh)
    steps = steps_of(with_final_obs(batch), random_actions(batch.action_space, (STEPS,)))
    assert_trees_equal([infos["final_mask"] for *_, (*_, infos) in steps], alone)
    constant = shard(small_vec(Always(), N, final_obs=True), mesh)
    infos = constant.step(constant.reset(KEY)[1], np.zeros(N, np.int32))[4]
    assert infos["final_mask"].tolist() == [[True, False, True]] * N
    assert infos["final_mask"].sharding.spec[0] == "slots"


class Swapped(BatchedWrapper[Any, Any]):
    """Actions the other way round, and no word about masks."""

    def action(self, actions: Any) -> Any:
        return 2 - actions


class SwappedMasks(Swapped):
    def action_mask(self, state: Any) -> Any:
        return self.env.action_mask(state.env_state)[:, ::-1]

    def info(self, infos: Any) -> Any:
        return {**infos, "final_mask": infos["final_mask"][:, ::-1]}


@pytest.mark.slow
def test_through_wrappers_around_the_batch() -> None:
    batch = VecEnv(RecordEpisodeStatistics(MaskedEnv()), N, final_obs=True)
    wrapped = NormalizeReward(NormalizeObservation(batch))
    final_masks(wrapped, lambda state: state.env_state.env_state.env_state)
    actions = random_actions(batch.action_space, (STEPS,))
    swapped = steps_of(SwappedMasks(batch), 2 - actions)
    for one, other in zip(steps_of(batch, actions), swapped, strict=True):
        mine, theirs = one[2][4]["final_mask"], other[2][4]["final_mask"]
        assert_trees_equal(mine, theirs[:, ::-1])
    refused = next(steps_of(Swapped(batch), actions))[2][4]
    assert "final_obs" in refused and "final_mask" not in refused


def test_wrappers_that_cannot_keep_a_mask_have_none() -> None:
    """They refuse to give one, and do all else as before."""
    env = RepeatAction(MaskedEnv(), num_repeats=2)
    infos = infos_of(VecEnv(env, N, final_obs=True))
    assert "final_obs" in infos and "final_mask" not in infos
    act: Any = lambda state, obs, rng: (jnp.int32(0), None, None)  # noqa: E731
    steps = jax.eval_shape(lambda: envrax.rollout(env, act, envrax.start(env, KEY), 3)[1])
    assert "final_mask" not in steps.info


def test_an_info_of_that_name_is_refused() -> None:
    class Taken(MaskedEnv):
        def step(self, state: Any, action: Any) -> Any:
            *rest, info = super().step(state, action)
            return *rest, {**info, "final_mask": rest[3]}

    with pytest.raises(ValueError, match="without 'final_mask', which it adds"):
        infos_of(VecEnv(Taken(), N, final_obs=True))
