"""A policy is read at each call: nothing that it holds or closes over is frozen or kept."""

import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_trees_equal, slow_but, small_vec
from rollouts.test_rollout import vec_cartpole

import envrax
from envrax import VecEnv
from envrax.testing import CountingEnv

BATCH = small_vec(CountingEnv(), 2)
ONE = CountingEnv()
KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def at() -> Any:
    return envrax.start(BATCH, KEY)


class Agent:
    """A policy with an array that is no leaf of a pytree."""

    def __init__(self) -> None:
        self.bias = jnp.array([1.0, 0.0, 0.0])

    def act(self, state: Any, obs: jax.Array, rng: jax.Array) -> Any:
        return best(self.bias, state, obs, rng)

    def __call__(self, state: Any, obs: jax.Array, rng: jax.Array) -> Any:
        return self.act(state, obs, rng)


def best(bias: Any, state: Any, obs: Any, rng: Any) -> Any:
    return jnp.full(obs.shape[:-1], jnp.argmax(bias).astype(jnp.int32)), state, None


FORMS: dict[str, Callable[[Agent], Any]] = {
    "method": lambda agent: agent.act,
    "object": lambda agent: agent,
    "pytree": lambda agent: jax.tree_util.Partial(best, agent.bias),
    "new function": lambda agent: lambda state, obs, rng: agent.act(state, obs, rng),
    "partial": lambda agent: partial(Agent.act, agent),
}


@pytest.mark.parametrize(
    "form", slow_but("method", "object", "pytree", "new function", values=FORMS)
)
def test_arrays_are_read_at_each_call_and_compile_nothing(
    at: Any, form: str, compile_counter: Callable[..., Any]
) -> None:
    agent = Agent()

    def play() -> tuple[Any, Any]:
        policy = FORMS[form](agent)
        steps = envrax.rollout(BATCH, policy, at, 3)[1]
        return steps.action.max().item(), envrax.evaluate(ONE, policy, KEY, 2).returns.tolist()

    assert play() == (0, [0, 0])
    agent.bias = jnp.array([0.0, 0.0, 1.0])
    with compile_counter() as compiled:
        assert play() == (2, [10, 10])
    assert compiled.count == 0


@dataclass
class Holder:
    """It has an `__eq__`, and no `__hash__`."""

    x: Any

    def __call__(self, state: Any, obs: jax.Array, rng: jax.Array) -> Any:
        return shown(self.x, state, obs, rng)

    def act(self, *given: Any) -> Any:
        return self(*given)


class Branching(NamedTuple):
    """A pytree whose ints and bools are static: they choose what it does."""

    x: Any

    def __call__(self, state: Any, obs: jax.Array, rng: jax.Array) -> Any:
        assert isinstance(self.x, int | float)
        extras = jnp.asarray(self.x) if self.x else jnp.zeros_like(jnp.asarray(self.x))
        return jnp.zeros(obs.shape[:-1], jnp.int32), state, extras


def shown(x: Any, state: Any, obs: jax.Array, rng: jax.Array) -> Any:
    return jnp.zeros(obs.shape[:-1], jnp.int32), state, jnp.asarray(x)


@partial(jax.jit, static_argnames="x")
def shown_compiled(state: Any, obs: jax.Array, rng: jax.Array, *, x: Any) -> Any:
    return shown(x, state, obs, rng)


ANY = (0, 0.0, -0.0)  # equal in Python
NUMBERS: dict[str, tuple[Callable[[Any], Any], tuple[Any, ...]]] = {
    "object": (Holder, ANY),
    "pytree": (lambda x: jax.tree_util.Partial(shown, x), ANY),
    "choice": (Branching, (1, True, 0, False)),
    "method": (lambda x: Holder(x).act, ANY),
    "static": (lambda x: partial(shown_compiled, x=x), (1, True, np.int32(2))),
}


@pytest.mark.parametrize("form", slow_but("static", values=NUMBERS))
def test_a_python_number_compiles_once_for_each_value(
    form: str, compile_counter: Callable[..., Any]
) -> None:
    make, values = NUMBERS[form]
    at = envrax.start(ONE, KEY)
    for x in values:
        found = envrax.rollout(ONE, make(x), at, 2)[1].extras
        with compile_counter() as compiled:
            again = envrax.rollout(ONE, make(x), at, 2)[1].extras
        assert compiled.count == 0
        assert_trees_equal(found, again)
        assert found.dtype == jnp.asarray(x).dtype and (found == x).all()
        assert (np.signbit(found) == np.signbit(np.float32(x))).all()


def test_nothing_of_a_call_is_kept(at: Any) -> None:
    """Not the policy, nor its arrays or its state; and no program of a function of the user."""
    kept: list[weakref.ref[Any]] = []

    def play(i: int) -> None:
        agent = Agent()
        agent.bias = jax.nn.relu(agent.bias) + i
        memory = jnp.arange(5.0) + i
        policy = FORMS["new function"](agent)
        envrax.rollout(BATCH, policy, at._replace(policy_state=memory), 3)
        envrax.evaluate(ONE, policy, KEY, 2)
        kept.extend(map(weakref.ref, (agent, policy, agent.bias, memory)))

    def play_compiled() -> None:
        policy = jax.jit(lambda state, obs, rng: (jnp.zeros(2, jnp.int32), state, None))
        collect = jax.jit(lambda step: step.reward)
        envrax.rollout(BATCH, policy, at, 3, collect=collect)
        envrax.evaluate(BATCH, policy, KEY, 3)
        kept.extend(map(weakref.ref, (policy, collect)))

    for i in range(3):
        play(i)
    play_compiled()
    gc.collect()
    assert [ref() for ref in kept] == [None] * len(kept)


def test_an_array_that_numpy_changes_in_place(at: Any) -> None:
    bias = np.array([1.0, 0.0, 0.0], np.float32)
    act = lambda *given: best(jnp.asarray(bias), *given)  # noqa: E731
    assert envrax.rollout(BATCH, act, at, 3)[1].action.max() == 0
    bias[2] = 2.0
    assert envrax.rollout(BATCH, act, at, 3)[1].action.max() == 2


@pytest.mark.slow
def test_on_the_host_too() -> None:
    agent, env = Agent(), vec_cartpole()
    for action in (0, 1):
        agent.bias = jnp.zeros(3).at[action].set(1.0)
        assert (envrax.rollout(env, agent.act, envrax.start(env, KEY), 3)[1].action == action).all()
        found = envrax.evaluate(env, agent, KEY, 2)
        constant = jax.tree_util.Partial(best, agent.bias)
        assert_trees_equal(found, envrax.evaluate(env, constant, KEY, 2))


def test_in_grids_too() -> None:
    agent = Agent()
    for action in (0, 2):
        agent.bias = jnp.zeros(3).at[action].set(1.0)
        found = envrax.evaluate_grid(ONE, agent, KEY, {"max_steps": [2, 6]}, 1)
        assert found.returns.tolist() == [[2 * action], [6 * action]]


def test_a_policy_that_closes_over_what_is_differentiated() -> None:
    at = envrax.start(ONE, KEY)

    def total(push: jax.Array) -> jax.Array:
        policy = lambda state, obs, rng: (jnp.int32(1), state, push * obs.sum().astype(jnp.float32))  # noqa: E731
        return envrax.rollout(ONE, policy, at, 3)[1].extras.sum()

    pushes = np.arange(3, dtype=np.float32)
    value, slope = jax.vmap(jax.value_and_grad(total))(pushes)
    assert_trees_equal(value, np.asarray(slope) * pushes)
    assert slope.all()


def test_a_policy_whose_attribute_is_traced() -> None:
    """Inside the caller's `jit`, where the start is a constant; traced a second time too."""
    agent, at = Holder(None), envrax.start(ONE, KEY)

    def total(push: jax.Array) -> Any:
        agent.x = push
        found = envrax.evaluate(ONE, agent.act, KEY, 2)
        return jnp.sum(envrax.rollout(ONE, agent.act, at, 3)[1].extras), found.lengths

    for push in (np.float32(1), np.ones(2, np.int32)):
        np.testing.assert_allclose(jax.jit(total)(push)[0], 3 * np.sum(push))


def test_a_policy_that_keeps_a_traced_value(at: Any) -> None:
    class Keeps:
        last: Any = 0

        def __call__(self, state: Any, obs: jax.Array, rng: jax.Array) -> Any:
            self.last = self.last + obs.sum()
            return jnp.zeros(2, jnp.int32), state, self.last

    policy = Keeps()
    envrax.rollout(BATCH, policy, at, 2)
    with pytest.raises(TypeError, match="Keeps, which uses one that JAX traced"):
        envrax.rollout(BATCH, policy, at, 2)


@pytest.mark.parametrize("make", [lambda: BATCH, lambda: ONE, vec_cartpole])
def test_a_policy_state_of_another_type(make: Any) -> None:
    env = make()

    def act(state: Any, obs: jax.Array, rng: jax.Array) -> Any:
        return jnp.zeros(obs.shape[:-1], jnp.int32), state.astype(jnp.float32), None

    at = envrax.start(env, KEY, jnp.int32(0))
    with pytest.raises(TypeError, match=r"policy_state int32\[\].*float32\[\]"):
        envrax.rollout(env, act, at, 2)


def test_a_policy_state_that_can_be_called_is_not_the_same_for_all_members() -> None:
    fleet = envrax.MultiVecEnv([BATCH, VecEnv(CountingEnv(), 3)])
    memory = jax.tree_util.Partial(max, jnp.zeros(2))
    with pytest.raises(TypeError, match="policy_state in a list or dict"):
        envrax.start(fleet, KEY, memory)
    assert len(envrax.start(fleet, KEY, [memory, memory]).policy_state) == 2


def test_a_policy_may_answer_with_constants() -> None:
    def act(state: Any, obs: Any, rng: jax.Array) -> Any:
        return np.int32(2), state, {"numpy": np.zeros(2), "number": 1.5, "true": True}

    for form in (act, jax.jit(act)):
        steps = envrax.rollout(ONE, form, envrax.start(ONE, KEY), 3)[1]
        assert steps.action.tolist() == [2, 2, 2]
        assert steps.extras["number"].dtype == np.float32 and steps.extras["true"].all()


# What the user compiled -------------------------------------------------------------------------


@jax.jit
def compiled_best(params: Any, state: Any, obs: jax.Array, rng: jax.Array) -> Any:
    return best(params, state, obs, rng)


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
        return best(self.params, state, obs, rng)


BOUND: dict[str, Callable[[Any], Any]] = {
    "Partial": lambda params: jax.tree_util.Partial(compiled_best, params),
    "partial": lambda params: partial(compiled_best, params),
    "method": lambda params: JittedTree(params).act,
}


GRID = {"max_steps": [5]}
PLAY: dict[str, Callable[[Any], Any]] = {
    "rollout": lambda policy: envrax.rollout(BATCH, policy, envrax.start(BATCH, KEY), 5)[1].reward,
    "evaluate": lambda policy: envrax.evaluate(BATCH, policy, KEY, 3).returns,
    "evaluate one": lambda policy: envrax.evaluate(ONE, policy, KEY, 3).returns,
    "as a rollout": lambda policy: envrax.evaluate(BATCH, policy, KEY, 3, as_rollout=True).returns,
    "grid": lambda policy: envrax.evaluate_grid(ONE, policy, KEY, GRID, 3).returns,
}


@pytest.mark.parametrize(
    ("form", "play"),
    [*((form, "rollout") for form in BOUND), *(("Partial", play) for play in [*PLAY][1:])],
)
def test_a_compiled_policy_is_traced_once_and_its_arrays_are_arguments(
    form: str, play: str, compile_counter: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = [PLAY[play](partial(best, jnp.eye(3)[action])) for action in range(3)]
    PLAY[play](BOUND[form](jnp.eye(3)[1]))
    monkeypatch.setattr(jax, "make_jaxpr", None)  # nothing is traced any more
    with compile_counter() as counted:
        found = [PLAY[play](BOUND[form](jnp.eye(3)[action])) for action in range(3)]
    assert counted.count == 0
    assert_trees_equal(found, plain)


def test_what_a_compiled_policy_closes_over_stays_as_jax_traced_it(at: Any) -> None:
    agent = JittedAgent()
    for action in (0, 2):
        agent.bias = jnp.eye(3)[action]
        assert (envrax.rollout(BATCH, agent, at, 3)[1].action == 0).all()
        assert (agent(None, jnp.zeros((2, 2)), None)[0] == 0).all()
        assert (envrax.rollout(BATCH, agent.act, at, 3)[1].action == action).all()


@pytest.mark.parametrize(
    ("policy", "collect", "message"),
    [
        (3, None, "expected a function `policy"),
        (jnp.ones(2), None, r"got Array\(\[1., 1.\]"),
        (lambda s, o, r: (jnp.zeros(2, jnp.int32), s, {"a": "b"}), None, "got 'b' at `extras.a`"),
        (None, lambda step: {"a": "b"}, "got 'b' at `kept.a`"),
    ],
)
def test_what_is_no_function_or_no_number_is_named(
    at: Any, policy: Any, collect: Any, message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        envrax.rollout(BATCH, policy, at, 3, collect=collect)


@pytest.mark.parametrize("action", [[0, 1, 2], (0, 1, 2), np.array([0, 1, 2], np.int8)])
def test_actions_are_kept_as_they_are_stepped(action: Any) -> None:
    """A list of one number for each slot is no pytree of three."""
    env = VecEnv(CountingEnv(), 3)
    position = envrax.start(env, jax.random.key(0))
    _, steps = envrax.rollout(env, lambda memory, *_: (action, memory, None), position, 4)
    assert isinstance(steps.action, jax.Array) and steps.action.shape == (4, 3)
    assert steps.action[0].tolist() == steps.reward[0].tolist() == [0, 1, 2]
