# pyright: basic, reportMissingImports=false
"""`DomainRandomization` of other libraries' parameters, against environments built with them."""

import copy
import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_trees_close
from interop.by_hand import make
from interop.out.test_drawn_entries import Pond

import envrax
from envrax import DomainRandomization, VecEnv, evaluate_grid, with_config
from envrax.interop import PeerConfig


def drawn_length(rng: Any) -> Any:
    return {"params": {"length": jax.random.uniform(rng, (), jnp.float32, 0.3, 1.0)}}


def test_drawn_params_equal_those_given() -> None:
    id = "gymnax/CartPole-v1"
    env = DomainRandomization(make(id), drawn_length)
    _, states = VecEnv(env, 3).reset(jax.random.key(0))
    assert len(np.unique(states.fields["params"]["length"])) == 3
    obs, state = jax.jit(env.reset)(jax.random.key(5))
    static = make(id, params=state.fields["params"])
    seen, separate = jax.jit(static.reset)(jax.random.split(jax.random.key(5))[0])
    step, step_separate = jax.jit(env.step), jax.jit(static.step)
    for key in jax.random.split(jax.random.key(1), 10):
        action = env.action_space.sample(key)
        obs, state, *rest = step(state, action)
        seen, separate, *rest_separate = step_separate(separate, action)
        returned = obs, state.env_state.inner, rest
        assert_trees_close(returned, (seen, separate.inner, rest_separate), rtol=1e-4, atol=1e-5)


def test_changes_apply_to_the_current_params() -> None:
    env = make("gymnax/CartPole-v1", params={"gravity": 5.0}, max_steps=20)
    changed = with_config(env, params={"length": 1})
    assert changed.params.gravity == 5.0 and changed.params.length == 1.0
    assert changed.config.max_steps == 20 and changed.peer is env.peer
    assert env.params.length == 0.5
    again = with_config(changed, max_steps=7, params={"gravity": 9.0})
    assert (again.params.length, again.params.gravity) == (1.0, 9.0)
    assert again.config.max_steps == again.params.max_steps_in_episode == 7


def test_max_steps_if_given_is_the_limit() -> None:
    """In `make`, `wrap` and `with_config`, whatever the params say, before or after."""
    id, params = "gymnax/CartPole-v1", {"max_steps_in_episode": 9}
    plain, given = make(id), make(id, max_steps=6)
    built = importlib.import_module("envrax.interop.gymnax").wrap(plain.peer, max_steps=6)
    for env in (
        make(id, max_steps=6, params=params),
        with_config(plain, max_steps=6, params=params),
        *(with_config(x, params=params) for x in (given, built, copy.deepcopy(given))),
        with_config(with_config(plain, params=params), max_steps=6),
        with_config(with_config(given, options={}), params=params),
    ):
        assert env.config.max_steps == env.params.max_steps_in_episode == 6
    for env in (with_config(plain, params=params), with_config(given, max_steps=0, params=params)):
        assert env.config.max_steps == env.params.max_steps_in_episode == 9


def test_the_limit_of_an_adapter_may_be_traced() -> None:
    def n_steps(hops: Any) -> Any:
        env = Pond(PeerConfig(params={"max_hops": hops}))
        return envrax.evaluate(env, None, jax.random.key(0), 1).lengths[0]

    assert jax.jit(jax.vmap(n_steps))(jnp.array([2, 5])).tolist() == [2, 5]
    grid = evaluate_grid(
        Pond(PeerConfig()), None, jax.random.key(0), {"params.max_hops": [3, 4]}, 2
    )
    assert grid.lengths.tolist() == [[3, 3], [4, 4]]
    assert with_config(Pond(PeerConfig(max_steps=7)), params={"max_hops": 9}).config.max_steps == 7


def test_a_drawn_limit_is_the_library_s_own() -> None:
    def sample(rng: Any) -> Any:
        return {"params": {"max_steps_in_episode": jax.random.randint(rng, (), 3, 9)}}

    env = VecEnv(DomainRandomization(make("gymnax/Pendulum-v1"), sample), 6)
    _, state = env.reset(jax.random.key(0))
    for _ in range(20):
        limit, at = state.fields["params"]["max_steps_in_episode"], state.step
        _, state, _, done, _ = env.step(state, jnp.zeros((6, 1)))
        np.testing.assert_array_equal(done, at + 1 >= limit)


def test_loops_without_jit_compile_the_library_once(compile_counter: Any) -> None:
    env = DomainRandomization(make("gymnax/CartPole-v1"), drawn_length)
    _, state = env.reset(jax.random.key(0))
    _, state, *_ = env.step(state, 0)
    _, other = env.reset(jax.random.key(1))
    with compile_counter() as compiled:
        env.step(state, 1)
        env.step(other, 1)
    assert compiled.count == 0


@pytest.mark.parametrize(
    ("id", "fields", "message"),
    [
        ("gymnax/CartPole-v1", {"params": {"lenght": 1.0}}, "length"),
        ("gymnax/CartPole-v1", {"params": {"x_threshold": 2.0}}, "params.x_threshold"),
        ("gymnax/Pendulum-v1", {"params": {"max_torque": 1.0}}, "params.max_torque"),
        ("gymnax/CartPole-v1", {"max_steps": 9}, "max_steps"),
        ("xminigrid/MiniGrid-Empty-5x5", {"params": {"height": 9}}, "params.height"),
        ("brax/fast", {"params": {"mass": 9.0}}, "mass"),
    ],
)
def test_errors(id: str, fields: Any, message: str) -> None:
    env = make(id)
    with pytest.raises(TypeError, match=message):
        DomainRandomization(env, lambda rng: fields)
