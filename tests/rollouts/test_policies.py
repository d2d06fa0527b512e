"""A policy is read at each call: nothing that it holds or closes over is frozen or kept."""

import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from helpers import assert_trees_equal

import envrax
from envrax import VecEnv
from envrax.interop import from_gymnasium_vec
from envrax.testing import CountingEnv, MaskedEnv

BATCH = VecEnv(CountingEnv(), 2)
ONE = CountingEnv()


def on_the_host() -> Any:
    cartpole = [lambda: gymnasium.make("CartPole-v1")] * 2
    return from_gymnasium_vec(SyncVectorEnv(cartpole, autoreset_mode=AutoresetMode.SAME_STEP))


class Agent:
    """A policy with an array and a number, neither of which is a leaf of a pytree."""

    def __init__(self) -> None:
        self.bias = jnp.array([1.0, 0.0, 0.0])
        self.scale = 1.0

    def act(self, state: Any, obs: jax.Array, rng: jax.Array) -> Any:
        action = jnp.argmax(self.bias).astype(jnp.int32)
        return jnp.full(obs.shape[:-1], action), state, self.bias * self.scale

    def __call__(self, state: Any, obs: jax.Array, rng: jax.Array) -> Any:
        return self.act(state, obs, rng)

    @staticmethod
    def constant(action: int, state: Any, obs: jax.Array, rng: jax.Array) -> Any:
        return jnp.full(obs.shape[:-1], action, jnp.int32), state, None


FORMS: dict[str, Callable[[Agent], Any]] = {
    "method": lambda agent: agent.act,
    "object": lambda agent: agent,
    "partial": lambda agent: partial(Agent.act, agent),
    "lambda": lambda agent: lambda *given: agent.act(*given),
    "closure": lambda agent: lambda state, obs, rng: agent.act(state, obs, rng),
}


@pytest.mark.parametrize("form", FORMS)
def test_arrays_are_read_at_each_call_and_compile_nothing(
    form: str, compile_counter: Callable[..., Any]
) -> None:
    agent = Agent()
    at = envrax.start(BATCH, jax.random.key(0))

    def play() -> tuple[Any, Any, Any]:
        policy = FORMS[form](agent)
        steps = envrax.rollout(BATCH, policy, at, 3)[1]
        found = envrax.evaluate(BATCH, policy, jax.random.key(0), 2).returns
        one = envrax.evaluate(ONE, policy, jax.random.key(0), 2).returns
        return steps.action.max().item(), found.tolist(), one.tolist()

    assert play() == (0, [0, 0], [0, 0])
    new = jnp.array([0.0, 0.0, 1.0])
    agent.bias = new
    with compile_counter() as compiled:
        assert play() == (2, [10, 10], [10, 10])
    assert compiled.count == 0


def test_a_python_number_compiles_once_for_each_value(compile_counter: Callable[..., Any]) -> None:
    agent = Agent()
    at = envrax.start(BATCH, jax.random.key(0))
    for scale in (1.0, 2.0):
        agent.scale = scale
        assert envrax.rollout(BATCH, agent.act, at, 3)[1].extras.max() == scale
        with compile_counter() as compiled:
            assert envrax.rollout(BATCH, agent.act, at, 3)[1].extras.max() == scale
        assert compiled.count == 0


def test_a_new_function_of_the_same_code_compiles_nothing(
    compile_counter: Callable[..., Any],
) -> None:
    at = envrax.start(BATCH, jax.random.key(0))

    def play(bias: Any) -> Any:
        policy = lambda state, obs, rng: (jnp.full(2, jnp.argmax(bias), jnp.int32), state, None)  # noqa: E731
        return envrax.rollout(BATCH, policy, at, 3)[1].action.max().item()

    assert play(jnp.array([0.0, 1.0])) == 1
    with compile_counter() as compiled:
        assert [play(jnp.array(x)) for x in ([1.0, 0.0], [0.0, 1.0])] == [0, 1]
    assert compiled.count == 0


def test_nothing_of_a_policy_is_kept() -> None:
    at = envrax.start(BATCH, jax.random.key(0))
    kept: list[weakref.ref[Any]] = []

    def play(i: int) -> None:
        agent = Agent()
        agent.bias = jax.nn.relu(agent.bias) + i
        policy = FORMS["closure"](agent)
        envrax.rollout(BATCH, policy, at, 3)
        envrax.evaluate(ONE, policy, jax.random.key(0), 2)
        kept.extend(map(weakref.ref, (agent, policy, agent.bias)))

    for i in range(3):
        play(i)
    gc.collect()
    assert [ref() for ref in kept] == [None] * len(kept)


def test_an_array_that_numpy_changes_in_place() -> None:
    bias = np.array([1.0, 0.0, 0.0], np.float32)
    at = envrax.start(BATCH, jax.random.key(0))

    def act(state: Any, obs: jax.Array, rng: jax.Array) -> Any:
        return jnp.full(2, jnp.argmax(jnp.asarray(bias)), jnp.int32), state, None

    assert envrax.rollout(BATCH, act, at, 3)[1].action.max() == 0
    bias[2] = 2.0
    assert envrax.rollout(BATCH, act, at, 3)[1].action.max() == 2


def test_on_the_host_too() -> None:
    agent = Agent()
    env = on_the_host()
    for best in (0, 1):
        agent.bias = jnp.zeros(3).at[best].set(1.0)
        at = envrax.start(env, jax.random.key(0))
        assert (envrax.rollout(env, agent.act, at, 3)[1].action == best).all()
        found = envrax.evaluate(env, agent, jax.random.key(0), 2)
        constant = jax.tree_util.Partial(Agent.constant, best)
        assert_trees_equal(found, envrax.evaluate(env, constant, jax.random.key(0), 2))


def test_grids_and_masks_too(compile_counter: Callable[..., Any]) -> None:
    agent = Agent()
    for best in (0, 2):
        agent.bias = jnp.zeros(3).at[best].set(1.0)
        grid = {"max_steps": [2, 6]}
        found = envrax.evaluate_grid(ONE, agent, jax.random.key(0), grid, 1)
        assert found.returns.tolist() == [[2 * best], [6 * best]]

    weights = jnp.arange(3.0)

    def masked(state: Any, obs: Any, rng: jax.Array, mask: jax.Array, first: jax.Array) -> Any:
        action = jnp.argmax(jnp.where(mask, weights, -9.0), axis=-1).astype(jnp.int32)
        return action, state, first

    env = VecEnv(MaskedEnv(), 2)
    at = envrax.start(env, jax.random.key(0))
    highest = envrax.rollout(env, masked, at, 4)[1]
    weights = -weights
    with compile_counter() as compiled:
        lowest = envrax.rollout(env, masked, at, 4)[1]
    assert compiled.count == 0
    assert (highest.action >= lowest.action).all() and (highest.action > lowest.action).any()
    assert highest.extras[0].all()


def test_a_policy_that_closes_over_what_is_differentiated() -> None:
    at = envrax.start(ONE, jax.random.key(0))

    def total(push: jax.Array) -> jax.Array:
        policy = lambda state, obs, rng: (jnp.int32(1), state, push * obs.sum().astype(jnp.float32))  # noqa: E731
        return envrax.rollout(ONE, policy, at, 3)[1].extras.sum()

    assert jax.grad(total)(jnp.float32(2)) == total(jnp.float32(1))
    assert_trees_equal(
        jax.vmap(total)(jnp.arange(3.0)), jnp.stack([total(x) for x in jnp.arange(3.0)])
    )


def test_a_policy_that_keeps_a_traced_value() -> None:
    class Keeps:
        last: Any = 0

        def __call__(self, state: Any, obs: jax.Array, rng: jax.Array) -> Any:
            self.last = self.last + obs.sum()
            return jnp.zeros(2, jnp.int32), state, self.last

    policy = Keeps()
    at = envrax.start(BATCH, jax.random.key(0))
    envrax.rollout(BATCH, policy, at, 2)
    with pytest.raises(TypeError, match="Keeps, which uses one that JAX traced"):
        envrax.rollout(BATCH, policy, at, 2)


@pytest.mark.parametrize("make", [lambda: BATCH, lambda: ONE, on_the_host])
def test_a_policy_state_of_another_type(make: Any) -> None:
    env = make()

    def act(state: Any, obs: jax.Array, rng: jax.Array) -> Any:
        return (
            jnp.zeros(obs.shape[:-1], jnp.int32),
            state.astype(jnp.float32) * jnp.float32(2),
            None,
        )

    at = envrax.start(env, jax.random.key(0), jnp.int32(0))
    with pytest.raises(TypeError, match=r"policy_state int32\[\].*float32\[\]"):
        envrax.rollout(env, act, at, 2)


def test_a_policy_state_that_can_be_called_is_not_the_same_for_all_members() -> None:
    fleet = envrax.MultiVecEnv([BATCH, VecEnv(CountingEnv(), 3)])
    memory = jax.tree_util.Partial(max, jnp.zeros(2))
    with pytest.raises(TypeError, match="policy_state in a list or dict"):
        envrax.start(fleet, jax.random.key(0), memory)
    memories = envrax.start(fleet, jax.random.key(0), [memory, memory]).policy_state
    assert len(memories) == 2


def test_a_policy_may_answer_with_constants() -> None:
    def act(state: Any, obs: Any, rng: jax.Array) -> Any:
        return np.int32(2), state, {"numpy": np.zeros(2), "number": 1.5, "true": True}

    for form in (act, jax.jit(act)):
        steps = envrax.rollout(ONE, form, envrax.start(ONE, jax.random.key(0)), 3)[1]
        assert steps.action.tolist() == [2, 2, 2]
        assert steps.extras["number"].dtype == np.float32 and steps.extras["true"].all()


# What the user compiled -------------------------------------------------------------------------


@partial(jax.jit, static_argnames="eps")
def compiled(params: Any, state: Any, obs: jax.Array, rng: jax.Array, *, eps: Any = 0) -> Any:
    best = jnp.argmax(params).astype(jnp.int32)
    return jnp.full(obs.shape[:-1], best), state, jnp.asarray(eps)


class JittedAgent(Agent):
    @partial(jax.jit, static_argnums=0)
    def __call__(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, state: Any, obs: jax.Array, rng: jax.Array
    ) -> Any:
        return self.act(state, obs, rng)


@partial(jax.tree_util.register_dataclass, data_fields=["params"], meta_fields=[])
@dataclass
class JittedTree:
    params: jax.Array

    @jax.jit
    def act(self, state: Any, obs: jax.Array, rng: jax.Array) -> Any:
        return compiled(self.params, state, obs, rng)


BOUND: dict[str, Callable[[Any], Any]] = {
    "Partial": lambda params: jax.tree_util.Partial(compiled, params),
    "partial": lambda params: partial(compiled, params, eps=1),
    "method": lambda params: JittedTree(params).act,
}


@pytest.mark.parametrize("form", BOUND)
def test_a_compiled_policy_is_traced_once_and_its_arrays_are_arguments(
    form: str, compile_counter: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    at = envrax.start(BATCH, jax.random.key(0))

    def play(best: int) -> int:
        policy = BOUND[form](jnp.eye(3)[best])
        return envrax.rollout(BATCH, policy, at, 3)[1].action.max().item()

    assert play(1) == 1
    monkeypatch.setattr(jax, "make_jaxpr", None)  # nothing is traced any more
    with compile_counter() as counted:
        assert [play(0), play(2)] == [0, 2]
    assert counted.count == 0


def test_what_a_compiled_policy_closes_over_stays_as_jax_traced_it() -> None:
    agent = JittedAgent()
    at = envrax.start(BATCH, jax.random.key(0))
    for best in (0, 2):
        agent.bias = jnp.eye(3)[best]
        assert (envrax.rollout(BATCH, agent, at, 3)[1].action == 0).all()
        assert (agent(None, jnp.zeros((2, 2)), None)[0] == 0).all()
        assert (envrax.rollout(BATCH, agent.act, at, 3)[1].action == best).all()


@pytest.mark.parametrize("values", [(1, True, 0, False), (0.5, 1.5), (np.int32(2), np.int32(1))])
def test_bound_values_that_jax_takes_as_static(values: Any) -> None:
    at = envrax.start(BATCH, jax.random.key(0))
    for eps in values:
        policy = partial(compiled, jnp.eye(3)[1], eps=eps)
        extras = envrax.rollout(BATCH, policy, at, 3)[1].extras
        assert extras.dtype == jnp.asarray(eps).dtype and (extras == eps).all()


def test_a_program_is_freed_with_the_function_that_the_user_compiled() -> None:
    at = envrax.start(BATCH, jax.random.key(0))
    policy = jax.jit(lambda state, obs, rng: (jnp.zeros(2, jnp.int32), state, None))
    kept = jax.jit(lambda step: step.reward)
    envrax.rollout(BATCH, policy, at, 3, collect=kept)
    refs = [weakref.ref(policy), weakref.ref(kept)]
    del policy, kept
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_no_array_of_a_call_is_kept() -> None:
    memory = jnp.arange(5.0)
    at = envrax.start(BATCH, jax.random.key(0))._replace(policy_state=memory)
    policy: Any = lambda state, obs, rng: (jnp.zeros(2, jnp.int32), state, None)  # noqa: E731
    envrax.rollout(BATCH, policy, at, 3)
    kept = weakref.ref(memory)
    del memory, at
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize(
    ("policy", "collect", "message"),
    [
        (3, None, "expected a function `policy"),
        (jnp.ones(2), None, r"got Array\(\[1., 1.\]"),
        (lambda s, o, r: (jnp.zeros(2, jnp.int32), s, {"a": "b"}), None, "got 'b' at `extras.a`"),
        (None, lambda step: {"a": "b"}, "got 'b' at `kept.a`"),
    ],
)
def test_what_is_no_function_or_no_number_is_named(policy: Any, collect: Any, message: str) -> None:
    at = envrax.start(BATCH, jax.random.key(0))
    with pytest.raises(TypeError, match=message):
        envrax.rollout(BATCH, policy, at, 3, collect=collect)
