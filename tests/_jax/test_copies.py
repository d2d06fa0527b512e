"""An array of NumPy may be written to again as soon as a call has returned, whatever still runs."""

import dataclasses
from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import written_again

import envrax
from envrax import Box, EnvConfig, EnvState, JaxEnv, JitWrapper, MultiEnv, MultiVecEnv, VecEnv
from envrax._jax.copies import StateCopies
from envrax.multi_agent import OneAgent, with_policy_state
from envrax.testing import NimWorld
from envrax.wrappers.vector import NormalizeReward

N = 64
KEY = jax.random.key(0)


@chex.dataclass
class EchoState(EnvState):
    x: jax.Array


@chex.dataclass
class EchoConfig(EnvConfig):
    scale: Any = 1.0


class Echo(JaxEnv[Box, Box, EchoState, EchoConfig]):
    """The observation is the last action, times the sum of the scale."""

    @property
    def observation_space(self) -> Box:
        return Box(-jnp.inf, jnp.inf, (16,))

    @property
    def action_space(self) -> Box:
        return Box(-jnp.inf, jnp.inf, (16,))

    def reset(self, rng: jax.Array) -> tuple[jax.Array, EchoState]:
        x = jnp.zeros(16, jnp.float32)
        return x, EchoState(rng=rng, step=jnp.int32(0), done=jnp.bool_(False), x=x)

    def step(self, state: EchoState, action: jax.Array) -> tuple[Any, ...]:
        x = jnp.asarray(action) * jnp.sum(jnp.asarray(self.config.scale, jnp.float32))
        state = state.replace(x=x + 0 * state.x, step=state.step + 1)
        return state.x, state, jnp.sum(state.x), state.done, {}


def test_jax_reads_an_array_after_the_call() -> None:
    """If this fails, JAX copies, and the tests below show nothing."""
    assert written_again(jax.jit(lambda x: x + 0), np.zeros(64, np.float32))[0] == 7


def last_obs(env: Any, state: Any) -> Callable[[Any], Any]:
    return lambda actions: env.step(state, actions)[0]


ONES = np.ones((N, 16), np.float32)
MEMORY = np.ones(16, np.float32)


Doors = dict[str, tuple[Callable[[Any], Any], Any, Any]]  # the call, its arrays, its result


def common_doors() -> Doors:
    batch = VecEnv(Echo(), N)
    _, states = batch.reset(KEY)
    stepped = batch.step(states, ONES)
    as_numpy = jax.tree.map(np.asarray, states.replace(rng=None))

    def with_state(state: Any) -> Any:
        return batch.step(state.replace(rng=states.rng), ONES * 0)[1].step

    def begun(mask: Any) -> Any:
        return batch.reset_where(mask, stepped[0], stepped[1])[0]

    def played(memory: Any) -> Any:
        begin = envrax.start(batch, KEY)._replace(policy_state=memory)
        return envrax.rollout(batch, remembered, begin, 2)[1].action[:, 0]

    return {
        "VecEnv": (last_obs(batch, states), ONES, ONES),
        "the state": (with_state, as_numpy, np.ones(N, np.int32)),
        "a mask": (begun, np.ones(N, np.bool_), ONES * 0),
        "policy_state": (played, MEMORY, np.ones((2, 16))),
    }


def other_doors() -> Doors:
    env = Echo()
    batch = VecEnv(env, N)
    eager = VecEnv(env, N, jit_compile=False)
    _, states = batch.reset(KEY)
    _, one_state = env.reset(KEY)
    jitted = JitWrapper(env, None, pre_warm=False)
    fleet = MultiVecEnv([batch, VecEnv(env, N)])
    _, fleet_states = fleet.reset(KEY)
    pair = MultiEnv([env, jitted])
    _, pair_states = pair.reset(KEY)
    around = NormalizeReward(batch)
    _, around_states = around.reset(KEY)
    mesh = jax.make_mesh((1,), ("slots",), axis_types=(jax.sharding.AxisType.Auto,))
    sharded = envrax.shard(batch, mesh)
    _, sharded_states = sharded.reset(KEY)
    mask = np.ones(N, np.bool_)
    stepped = batch.step(states, ONES)
    starts = jax.vmap(env.reset)(jax.random.split(KEY, N))

    against = OneAgent(NimWorld(), "alice", idle, np.zeros(16, np.float32))
    _, against_state = against.reset(KEY)

    def begun_at(start: Any) -> Any:
        state = starts[1].replace(x=start)
        return batch.reset_where(mask, stepped[0], stepped[1], starts=(start, state))[0]

    def started(memory: Any) -> Any:
        return envrax.start(batch, KEY, memory).policy_state

    def closed_over(weights: Any) -> Any:
        policy = lambda state, obs, rng: (obs * 0 + weights, state, None)  # noqa: E731
        return envrax.rollout(batch, policy, envrax.start(batch, KEY), 2)[1].action[:, 0]

    def held(weights: Any) -> Any:
        policy = jax.tree_util.Partial(
            lambda w, state, obs, rng: (obs * 0 + w, state, None), weights
        )
        return envrax.rollout(batch, policy, envrax.start(batch, KEY), 2)[1].action[:, 0]

    def jitted_and_held(weights: Any) -> Any:
        policy = jax.tree_util.Partial(jitted_added, weights)
        return envrax.rollout(batch, policy, envrax.start(batch, KEY), 2)[1].action[:, 0]

    def converted(weights: Any) -> Any:
        policy = lambda state, obs, rng: (obs * 0 + jnp.asarray(weights), state, None)  # noqa: E731
        return envrax.rollout(batch, policy, envrax.start(batch, KEY), 2)[1].action[:, 0]

    def collected(weights: Any) -> Any:
        begin = envrax.start(batch, KEY)
        return envrax.rollout(batch, None, begin, 2, collect=lambda t: t.reward[0] * 0 + weights)[1]

    def put(memory: Any) -> Any:
        return with_policy_state(against, against_state, memory).policy_state

    def evaluated(memory: Any) -> Any:
        found = envrax.evaluate(batch, remembered, KEY, 2, policy_state=memory, max_steps=1)
        return found.returns

    def configured(scale: Any) -> Any:
        changed = Echo(EchoConfig(scale=scale))
        return last_obs(VecEnv(changed, N), states)(ONES)

    def rebuilt(scale: Any) -> Any:
        changed = envrax.with_config(Echo(EchoConfig(scale=np.ones(16, np.float32))), scale=scale)
        return last_obs(VecEnv(changed, N), states)(ONES)

    return {
        "VecEnv, eager": (last_obs(eager, states), ONES, ONES),
        "a list of arrays": (lambda x: last_obs(batch, states)(list(x)), ONES, ONES),
        "JitWrapper": (last_obs(jitted, one_state), MEMORY, MEMORY),
        "MultiVecEnv": (lambda x: fleet.step(fleet_states, x)[0], [ONES, ONES], [ONES, ONES]),
        "MultiEnv": (lambda x: pair.step(pair_states, x)[0], [MEMORY] * 2, [MEMORY] * 2),
        "step_at": (lambda x: pair.step_at(0, pair_states[0], x)[0], MEMORY, MEMORY),
        "a wrapper around a batch": (last_obs(around, around_states), ONES, ONES),
        "a mesh": (last_obs(sharded, sharded_states), ONES, ONES),
        "obs": (lambda x: batch.reset_where(~mask, x, states)[0], ONES, ONES),
        "starts": (begun_at, ONES, ONES),
        "policy_state of start": (started, MEMORY, MEMORY),
        "policy_state of opponents": (put, MEMORY, MEMORY),
        "policy_state of evaluate": (evaluated, MEMORY, np.full(2, 16)),
        "closed over by a policy": (closed_over, MEMORY, np.ones((2, 16))),
        "converted by a policy": (converted, MEMORY, np.ones((2, 16))),
        "held by a policy": (held, MEMORY, np.ones((2, 16))),
        "held by a jitted policy": (jitted_and_held, MEMORY, np.ones((2, 16))),
        "closed over by collect": (collected, MEMORY, np.ones((2, 16))),
        "a config": (configured, MEMORY, ONES * 16),
        "with_config": (rebuilt, MEMORY, ONES * 16),
    }


def idle(memory: Any, obs: Any, rng: Any) -> Any:
    return {"bob": jnp.int32(0)}, memory, None


def remembered(memory: Any, obs: Any, rng: Any) -> Any:
    return obs * 0 + memory, memory, None


def added(weights: Any, state: Any, obs: Any, rng: Any) -> Any:
    return obs * 0 + weights, state, None


jitted_added = jax.jit(added)


@pytest.mark.parametrize("doors", [common_doors, pytest.param(other_doors, marks=pytest.mark.slow)])
def test_what_is_written_later_is_not_read(doors: Callable[[], Doors]) -> None:
    wrong: list[str] = []
    for name, (call, arrays, expected) in doors().items():
        found = written_again(call, arrays, False if name == "a mask" else 7)
        pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
        if not all([np.array_equal(x, y) for x, y in pairs]):
            wrong.append(name)
    assert not wrong


@jax.tree_util.register_dataclass
@dataclasses.dataclass(slots=True)
class Slots:
    z: Any


@chex.dataclass
class AroundSlots(EnvState):
    inner: Slots


@chex.dataclass
class WithMore(EchoState):
    more: Any


def test_each_leaf_of_a_state_is_looked_at() -> None:
    """Also in a dataclass without `__dict__`, and in a class with more fields than the first."""
    zero, array = jnp.int32(0), np.zeros(3)
    first = dict(rng=KEY, step=zero, done=jnp.bool_(False))
    copies = StateCopies()
    copies(AroundSlots(inner=Slots(z=zero), **first))
    assert copies(AroundSlots(inner=Slots(z=array), **first)).inner.z is not array
    copies = StateCopies()
    copies(EchoState(x=zero, **first))
    state = EchoState(x=zero, **first)
    assert copies(state) is state
    assert copies(WithMore(x=zero, more=array, **first)).more is not array


def test_the_key_of_a_fleet_is_copied() -> None:
    fleet = MultiVecEnv([VecEnv(Echo(), 2)])
    raw = np.asarray(jax.random.PRNGKey(5))
    found = written_again(lambda rng: envrax.start(fleet, rng).rng, raw)
    chex.assert_trees_all_equal(found, jax.device_get(envrax.start(fleet, raw).rng))
