# pyright: reportMissingImports=false
"""`in_scan`: a compiled program gives what a Python loop over the same simulator gives."""

from collections.abc import Callable
from functools import partial
from typing import Any

import envpool
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import SyncVectorEnv
from helpers import assert_trees_equal
from trainers.hosts import KEY, MAKE, draw

import envrax
from envrax.interop.host.base import HostEnv
from envrax.interop.host.envpool import from_envpool
from envrax.interop.host.gymnasium_vec import from_gymnasium_vec
from envrax.interop.host.in_scan import in_scan
from envrax.testing import check_batched_env
from envrax_classic import CartPole

pytestmark = [
    pytest.mark.trainers,
    pytest.mark.filterwarnings("ignore:.*precision lowered"),
]


def cartpole(**options: Any) -> HostEnv:
    return from_gymnasium_vec(SyncVectorEnv([MAKE["CartPole"]] * 3), **options)


def taxi() -> HostEnv:
    vector_env = SyncVectorEnv([lambda: gymnasium.make("Taxi-v4", max_episode_steps=7)] * 2)
    env = from_gymnasium_vec(vector_env, info_keys=("action_mask", "prob"))
    env.reset(KEY)  # the forms of the infos are known after it
    return env


def pool() -> HostEnv:
    made = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=3, seed=4)
    return from_envpool(made, final_obs=True)


HOSTS: dict[str, Callable[[], HostEnv]] = {
    "gymnasium": lambda: cartpole(final_obs=True),
    "dict": lambda: from_gymnasium_vec(SyncVectorEnv([MAKE["dict"]] * 2), final_obs=True),
    "infos": taxi,
    "envpool": pool,
    "ale": lambda: from_gymnasium_vec(AtariVectorEnv("breakout", 2, num_threads=1)),
}


def scanned(env: Any, rng: jax.Array, actions: Any) -> Any:
    """First observation, and what every step returned."""
    obs, state = env.reset(rng)

    def body(state: Any, row: Any) -> Any:
        obs, state, *rest = env.step(state, row)
        return state, (obs, *rest)

    state, out = jax.lax.scan(body, state, actions)
    return obs, out


def looped(env: Any, rng: jax.Array, actions: Any) -> Any:
    first, state = env.reset(rng)
    rows = []
    for row in actions:
        obs, state, *rest = env.step(state, row)
        rows.append((obs, *rest))
    return first, jax.tree.map(lambda *leaves: np.stack(leaves), *rows)


def some_actions(env: Any, n: int = 40) -> np.ndarray:
    return np.stack(list(draw(env.action_space, n)))


@pytest.mark.parametrize("name", HOSTS)
def test_a_scan_gives_what_a_loop_gives(name: str) -> None:
    env, alone = in_scan(HOSTS[name]()), HOSTS[name]()
    actions = some_actions(alone)
    assert env.traceable and (env.n_slots, env.name) == (alone.n_slots, alone.name)
    assert env.single_observation_space == alone.single_observation_space
    run: Any = jax.jit(lambda rng: scanned(env, rng, actions))
    assert_trees_equal(jax.device_get(run(KEY)), looped(alone, KEY, actions))
    # Again, by the same program; and from Python, without `jit`.
    expected = looped(alone, jax.random.key(1), actions)
    assert_trees_equal(jax.device_get(run(jax.random.key(1))), expected)
    expected = looped(alone, KEY, actions[:5])
    assert_trees_equal(jax.device_get(looped(env, KEY, actions[:5])), expected)


def test_tracing_and_compiling_call_nothing() -> None:
    host = cartpole()
    env = in_scan(host)
    actions = some_actions(env)
    jax.jit(lambda rng: scanned(env, rng, actions)).lower(KEY).compile()
    jax.eval_shape(env.reset, KEY)
    env.compile()
    fleet = envrax.MultiVecEnv([env, envrax.VecEnv(CartPole(), 2)])
    fleet.compile(progress=False)
    assert host.vector_env.envs[0].unwrapped.state is None


def test_resets_and_steps_of_two_simulators_keep_their_order() -> None:
    def program(a: Any, b: Any, rng: jax.Array, actions: Any) -> Any:
        out = []
        for key in jax.random.split(rng, 2):
            first, state = a.reset(key)
            other, theirs = b.reset(key)
            for row in actions:
                obs, state, *rest = a.step(state, row)
                seen, theirs, *others = b.step(theirs, 1 - row)
                out.append((first, other, obs, rest, seen, others))
        return out

    actions = some_actions(cartpole(), 12)
    envs = [in_scan(cartpole(final_obs=True)) for _ in range(2)]
    ours = jax.jit(lambda rng: program(*envs, rng, actions))(KEY)
    alone = [cartpole(final_obs=True) for _ in range(2)]
    assert_trees_equal(jax.device_get(ours), program(*alone, KEY, actions))


def test_members_of_a_fleet_keep_their_own_simulators() -> None:
    fleet = envrax.MultiVecEnv([in_scan(cartpole()), in_scan(cartpole())])
    alone = envrax.MultiVecEnv([cartpole(), cartpole()])
    fleet.compile(progress=False)
    (obs, states), (seen, theirs) = fleet.reset(KEY), alone.reset(KEY)
    for row in some_actions(cartpole(), 30):
        obs, states, *rest = fleet.step(states, [row, 1 - row])
        seen, theirs, *others = alone.step(theirs, [row, 1 - row])
        assert_trees_equal(jax.device_get([obs, rest]), [seen, others])


def test_a_state_used_twice_is_refused_by_the_simulator() -> None:
    env = in_scan(cartpole())

    @jax.jit
    def twice(rng: jax.Array) -> Any:
        _, state = env.reset(rng)
        env.step(state, jnp.zeros(3, np.int32))
        return env.step(state, jnp.zeros(3, np.int32))[2]

    with pytest.raises(jax.errors.JaxRuntimeError, match="state of the last step"):
        jax.block_until_ready(twice(KEY))
    actions = some_actions(env, 5)  # it goes on after a reset
    ours = jax.jit(lambda rng: scanned(env, rng, actions))(KEY)
    assert_trees_equal(jax.device_get(ours), looped(cartpole(), KEY, actions))


def test_python_and_a_program_may_take_turns() -> None:
    host = cartpole()
    env, alone = in_scan(host), cartpole()
    (_, state), (_, theirs) = host.reset(KEY), alone.reset(KEY)
    for t, row in enumerate(some_actions(env, 10)):
        obs, state, *rest = (jax.jit(env.step) if t % 2 else host.step)(state, row)
        seen, theirs, *others = alone.step(theirs, row)
        assert_trees_equal(jax.device_get([obs, rest]), [seen, others])


def test_final_obs_may_be_added_later() -> None:
    host, alone = cartpole(), cartpole(final_obs=True)
    later = host.with_final_obs()
    assert later.with_final_obs() is later and not host.final_obs
    actions = some_actions(host)
    expected = looped(alone, KEY, actions)
    assert_trees_equal(looped(later, KEY, actions), expected)
    env = in_scan(host).with_final_obs()
    ours = jax.jit(lambda rng: scanned(env, rng, actions))(KEY)
    assert_trees_equal(jax.device_get(ours), expected)
    # There is one simulator: a step of the one makes the states of the other old.
    _, state = later.reset(KEY)
    _, newer, *_ = host.step(state, actions[0])
    with pytest.raises(RuntimeError, match="step 0"):
        later.step(state, actions[0])
    later.step(newer, actions[0])


def test_transforms_that_need_another_simulator_are_refused() -> None:
    make = partial(gymnasium.make, "Pendulum-v1")
    env = in_scan(from_gymnasium_vec(SyncVectorEnv([make] * 2)))
    _, state = env.reset(KEY)

    def reward(force: Any) -> Any:
        return env.step(state, jnp.broadcast_to(force, (2, 1)))[2].sum()

    for wrap in (lambda f: f, jax.jit):
        with pytest.raises(ValueError, match="JVP"):  # JAX's own message, as for `vmap`
            wrap(jax.grad(reward))(0.5)
        with pytest.raises(ValueError, match="vmap"):
            jax.vmap(wrap(env.reset))(jax.random.split(KEY, 2))
        with pytest.raises(ValueError, match="vmap"):
            jax.vmap(wrap(reward))(jnp.ones(3))
    slope = jax.grad(lambda force: reward(jax.lax.stop_gradient(force)) * force)(0.5)
    assert np.isfinite(slope) and slope != 0


def test_what_it_does_not_take_is_refused() -> None:
    with pytest.raises(TypeError, match="from_gymnasium_vec"):
        in_scan(envrax.VecEnv(CartPole(), 2))
    with pytest.raises(RuntimeError, match="infos prob"):
        in_scan(cartpole(info_keys=("prob",)))


def test_the_contract_holds_but_for_what_is_waived() -> None:
    check_batched_env(in_scan(cartpole(final_obs=True)), num_steps=10)
