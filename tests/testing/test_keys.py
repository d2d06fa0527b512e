"""The rules on PRNG keys find wrong uses of keys, and accept right ones."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import pytest
from broken_envs import faults
from broken_envs.drift import F32, Drift, DriftState
from broken_envs.keys import KeyIsUsedTwice, StepKeepsTheKey

from envrax import (
    Box,
    Dict,
    Discrete,
    EnvConfig,
    EnvState,
    EpisodicEnv,
    JitWrapper,
    VecEnv,
    Wrapper,
)
from envrax.autoreset import Compact
from envrax.multi_agent import MultiAgentEnv, OneAgent
from envrax.testing import CountingEnv, MaskedEnv, report_env


class FrameSkip(Wrapper[Any, Any, Any, Any]):
    """Repeats an action until the episode ends; `jnp.where` keeps the last state."""

    def step(self, state: Any, action: Any) -> Any:
        def repeat(carry: Any, _: None) -> Any:
            last, total = carry
            stepped = self.env.step(last[1], action)
            done = last[1].done
            kept = jax.tree.map(lambda old, new: jnp.where(done, old, new), last, stepped)
            return (kept, total + jnp.where(done, F32(0), stepped[2])), None

        first = self.env.step(state, action)
        (last, total), _ = jax.lax.scan(repeat, (first, first[2]), None, 3)
        return *last[:2], total, *last[3:]


class FrameSkipByCond(Wrapper[Any, Any, Any, Any]):
    """The same with `jax.lax.cond`."""

    def step(self, state: Any, action: Any) -> Any:
        def repeat(last: Any, _: None) -> Any:
            step = lambda: self.env.step(last[1], action)  # noqa: E731
            return jax.lax.cond(last[1].done, lambda: last, step), None

        return jax.lax.scan(repeat, self.env.step(state, action), None, 3)[0]


class UsesTheKeyOfTheState(FrameSkip):
    def step(self, state: Any, action: Any) -> Any:
        obs, new, *rest = super().step(state, action)
        return obs, new.replace(extra=jax.random.uniform(state.rng, (), F32)), *rest


class CallsOtherFunctions(Drift):
    """Uses what has jaxprs of its own: `custom_jvp`, `custom_vjp`, `checkpoint`, `while_loop`."""

    def next_extra(self, extra: Any) -> Any:
        @jax.custom_vjp
        def twice(x: Any) -> Any:
            return x * 2

        twice.defvjp(lambda x: (twice(x), None), lambda _, dy: (dy,))
        extra = jax.checkpoint(lambda x: jax.nn.relu(jnp.sin(x)))(twice(extra))
        return jax.lax.while_loop(lambda x: x < -1, lambda x: x + 1, extra)


class TakesKeysByIndex(Drift):
    """Keys of one split, in a loop and by the action; JAX's checker takes all for used."""

    def step(self, state: Any, action: Any) -> Any:
        rng, key = jax.random.split(state.rng)
        keys = jax.random.split(key, 7)
        number = lambda i, x: x + jax.random.uniform(keys[i], (), F32)  # noqa: E731
        total = jax.lax.fori_loop(3, 7, number, number(action, F32(0)))
        stepped = super().step(state.replace(rng=rng), action)
        return *stepped[:2], jnp.minimum(stepped[2], total), *stepped[3:]


class HasAKeyForEachStep(Drift):
    """Its state holds the keys of all steps."""

    def reset(self, rng: jax.Array) -> Any:
        rng, key = jax.random.split(rng)
        obs, state = super().reset(rng)
        return obs, state.replace(extra=jax.random.split(key, 6))

    def step(self, state: Any, action: Any) -> Any:
        obs, new, reward, *rest = super().step(state, action)
        noise = jax.random.uniform(state.extra[self.number(state)], (), F32)
        return obs, new.replace(extra=state.extra), reward + noise, *rest

    def number(self, state: Any) -> Any:
        return state.step


class HasOneKeyForAllSteps(HasAKeyForEachStep):
    def number(self, state: Any) -> Any:
        return state.step // 9


def test_the_fold_of_step_0_is_the_key_of_the_next_reset() -> None:
    """`key_moves_on` says so: the next reset gets the first of the two keys of a split."""
    key = jax.random.key(7)
    folded = jax.random.fold_in(key, 0)
    assert (jax.random.key_data(folded) == jax.random.key_data(jax.random.split(key)[0])).all()


def reuse(env: Any) -> list[Any]:
    return [*faults("keys_are_used_once", env), *faults("calls_share_no_key", env)]


@pytest.mark.parametrize(
    "env",
    [
        pytest.param(FrameSkipByCond(Drift()), id="cond"),
        pytest.param(FrameSkip(CallsOtherFunctions()), id="where", marks=pytest.mark.slow),
    ],
)
def test_a_frame_skip_uses_no_key_twice(env: Any) -> None:
    assert not reuse(env)


@pytest.mark.parametrize(
    "env",
    [
        pytest.param(FrameSkip(KeyIsUsedTwice()), marks=pytest.mark.slow),
        FrameSkip(StepKeepsTheKey()),
        FrameSkipByCond(StepKeepsTheKey()),
        UsesTheKeyOfTheState(Drift()),
        pytest.param(
            FrameSkip(JitWrapper(KeyIsUsedTwice(), pre_warm=False)), marks=pytest.mark.slow
        ),
    ],
    ids=["reset", "where", "cond", "wrapper", "jit"],
)
def test_reuse_in_and_around_a_frame_skip_is_found(env: Any) -> None:
    assert reuse(env)


@pytest.mark.parametrize("env_class", [TakesKeysByIndex, HasAKeyForEachStep])
def test_keys_of_an_array_are_used_one_by_one(env_class: Any) -> None:
    assert not reuse(env_class())


def test_a_key_that_every_step_takes_from_an_array_is_found() -> None:
    (fault,) = reuse(HasOneKeyForAllSteps())
    assert fault.rule == "calls_share_no_key" and "an earlier call drew from" in fault.got


class StartsAtOnePlace(Drift):
    """A reset without a random number is legal, and so is a table of them that is made once."""

    def __init__(self) -> None:
        super().__init__()
        self.places = jax.random.uniform(jax.random.key(3), (4, 2), F32)

    def reset(self, rng: jax.Array) -> Any:
        _, state = super().reset(rng)
        state.place = self.places[0]
        return self.observe(state), state


class DrawsInALoop(Drift):
    """The key of a loop begins as a constant, and nothing is drawn before it is mixed."""

    def step(self, state: DriftState, action: Any) -> Any:
        return super().step(state.replace(extra=state.place[0]), action)

    def next_extra(self, extra: Any) -> Any:
        def body(key: Any, i: Any) -> Any:
            key = jax.random.fold_in(key, i)
            return key, jax.random.uniform(key, (), F32)

        numbers = jax.lax.convert_element_type(extra, jnp.int32) + jnp.arange(3, dtype=jnp.int32)
        return jnp.sum(jax.lax.scan(body, jax.random.key(3), numbers)[1])


@pytest.mark.parametrize("env_class", [CountingEnv, StartsAtOnePlace, DrawsInALoop])
def test_draws_that_depend_on_the_key_or_on_none_are_legal(env_class: Any) -> None:
    assert not faults("draws_depend_on_the_key", env_class())


class ShowsItsKey(CountingEnv):
    """Its steps draw nothing, and keep the key, which its infos show."""

    def info(self, state: Any) -> Any:
        return {"key": jax.random.key_data(state.rng)}


def test_a_result_may_be_a_copy_of_the_key() -> None:
    assert not faults("key_moves_on", ShowsItsKey())


class LevelsOfASeed(Drift):
    """The page on start states: a key that must stay is kept as data."""

    def reset(self, rng: jax.Array) -> Any:
        rng, seed = jax.random.split(rng)
        obs, state = super().reset(rng)
        return obs, state.replace(extra=jax.random.key_data(seed))

    def step(self, state: DriftState, action: Any) -> Any:
        obs, new, reward, *rest = super().step(state, action)
        level = jax.random.uniform(jax.random.wrap_key_data(state.extra), (8,), F32)
        return obs, new, reward + level[state.step % 8], *rest


def test_a_seed_that_is_kept_as_data_gives_the_same_level_again() -> None:
    for rule in ("calls_share_no_key", "draws_depend_on_the_key", "keys_are_used_once"):
        assert not faults(rule, LevelsOfASeed())


class MasksOfAFixedKey(MaskedEnv):
    def action_mask(self, state: Any) -> Any:
        key = jax.random.fold_in(jax.random.key(3), state.step)
        return jax.random.bernoulli(key, 0.5, (3,)).at[0].set(True)


def test_masks_are_drawn_from_keys_of_the_episode_too() -> None:
    found = faults("draws_depend_on_the_key", MasksOfAFixedKey())
    assert "MasksOfAFixedKey.action_mask" in [fault.where for fault in found]


@chex.dataclass
class BatchState(EnvState):
    slots: Any
    noise: Any


class StepsABatch(EpisodicEnv[Box, Discrete, BatchState, EnvConfig]):
    """Its slots are reset two at a time, from keys without the axis of an outer batch."""

    batch = VecEnv(CountingEnv(), 4, autoreset=Compact(2))

    @property
    def observation_space(self) -> Box:
        return Box(0, 1000, (4, 2), jnp.int32)

    @property
    def action_space(self) -> Discrete:
        return Discrete(3)

    def begin(self, key: Any, **episode: Any) -> BatchState:
        return BatchState(slots=self.batch.reset(key)[1], noise=F32(0), **episode)

    def advance(self, state: BatchState, action: Any) -> Any:
        actions = jnp.full(4, action, jnp.int32)
        _, slots, rewards, *_ = self.batch.step(state.slots, actions)
        return state.replace(slots=slots, noise=self.noise()), rewards.sum(), jnp.bool_(False)

    def observe(self, state: BatchState) -> Any:
        return jax.vmap(self.batch.env.observe)(state.slots)

    def noise(self) -> Any:
        return F32(0)


class AddsNoiseOfAFixedKey(StepsABatch):
    def noise(self) -> Any:
        return jax.random.uniform(jax.random.key(3), (), F32)


def test_slots_that_are_reset_in_chunks_draw_from_keys_of_their_own() -> None:
    assert not faults("draws_depend_on_the_key", StepsABatch(EnvConfig(max_steps=20)))
    (fault,) = faults("draws_depend_on_the_key", AddsNoiseOfAFixedKey(EnvConfig(max_steps=20)))
    assert fault.where == "AddsNoiseOfAFixedKey.step"


class Relay(EpisodicEnv[Dict, Dict, EnvState, EnvConfig], MultiAgentEnv[EnvState, EnvConfig]):
    """Two agents in turn, with random rewards."""

    @property
    def agents(self) -> tuple[str, ...]:
        return "a", "b"

    @property
    def observation_space(self) -> Dict:
        return Dict(dict.fromkeys(self.agents, Discrete(99)))

    @property
    def action_space(self) -> Dict:
        return Dict(dict.fromkeys(self.agents, Discrete(2)))

    def begin(self, key: Any, **episode: Any) -> EnvState:
        return EnvState(**episode)

    def advance(self, state: EnvState, action: Any) -> Any:
        rng, key = jax.random.split(state.rng)
        reward = jax.random.normal(key, (), F32)
        return state.replace(rng=rng), {"a": reward, "b": -reward}, jnp.bool_(False)

    def active(self, state: EnvState) -> Any:
        return {"a": state.step % 3 < 2, "b": state.step % 3 == 2}

    def observe(self, state: EnvState) -> Any:
        return dict.fromkeys(self.agents, state.step)


def test_the_key_of_one_agent_stays_where_no_other_draws() -> None:
    """Its state has a key of its own; that of the world moves on."""
    env = OneAgent(Relay(EnvConfig(max_steps=6)), "a", None)
    assert not faults("key_moves_on", env)


class LevelsFromAFixedKey(Drift):
    def reset(self, rng: jax.Array) -> Any:
        keys = jax.random.split(jax.random.key(3), 2)
        _, places = jax.lax.scan(lambda c, k: (c, jax.random.uniform(k, (2,), F32)), None, keys)
        _, state = super().reset(rng)
        return self.observe(state), DriftState(**{**vars(state), "place": places[0]})


def test_a_fixed_key_is_found_inside_a_loop() -> None:
    (fault,) = faults("draws_depend_on_the_key", LevelsFromAFixedKey())
    assert fault.where == "LevelsFromAFixedKey.reset"


def test_a_check_draws_as_a_batch_does_where_rbg_is_the_default() -> None:
    """Under `vmap`, JAX draws from an rbg key for all slots at once."""
    with jax.default_prng_impl("rbg"):
        report_env(CountingEnv(), num_steps=4).raise_if_any()
