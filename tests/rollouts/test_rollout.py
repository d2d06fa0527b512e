"""`start` and `rollout` against the loop that a user would write."""

import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from batched_fakes import OnTheHost
from fakes import CoinEnv, NestedEnv, PixelEnv, VectorConfig, VectorEnv
from flax import nnx
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from helpers import assert_trees_equal, slow_but, with_final_obs

import envrax
from envrax import MultiVecEnv, RecordEpisodeStatistics, Rollout, TimeLimit, Transition, VecEnv
from envrax.interop import from_gymnasium_vec
from envrax.testing import CountingEnv, MaskedEnv
from envrax.wrappers.vector import NormalizeReward

STEPS = 40


def policy(memory: Any, obs: Any, rng: jax.Array, *, space: Any) -> tuple[Any, Any, Any]:
    """Random actions, with a memory that depends on every step."""
    action = space.sample(rng)
    seen = sum(jnp.sum(x.astype(jnp.float32)) for x in jax.tree.leaves(obs))
    memory = jnp.where(memory > 100, 0, memory + 1)
    return action, memory, {"memory": memory, "seen": seen > 0}


def random_policy(env: Any) -> Any:
    return partial(policy, space=env.action_space)


def stack(steps: list[Any]) -> Any:
    def one(*leaves: Any) -> Any:
        return np.stack([np.asarray(x) for x in leaves])

    return jax.tree.map(one, *steps)


def by_hand(env: Any, policy: Any, rng: jax.Array, n_steps: int, memory: Any = None) -> Any:
    """The loop of a user: one step at a time, compiled where the environment can be."""
    alone = isinstance(env, envrax.JaxEnv)
    batch: Any = env if alone else with_final_obs(env)
    compiled: Callable[..., Any] = jax.jit if env.traceable else lambda f: f
    reset, step, policy = compiled(batch.reset), compiled(batch.step), jax.jit(policy)
    rng, key = jax.random.split(rng)
    obs, state = reset(key)
    steps: list[Any] = []
    for _ in range(n_steps):
        rng, key = jax.random.split(rng)
        before = jax.tree.map(np.array, obs)
        action, memory, extras = policy(memory, obs, key)
        obs, state, reward, done, info = step(state, action)
        info = dict(info)
        next_obs = jax.tree.map(np.array, obs if alone else info.pop("final_obs"))
        if alone and "terminated" not in info:
            at_limit = state.step >= env.config.max_steps
            info |= {"terminated": done & ~at_limit, "truncated": done & at_limit}
        if alone and bool(state.done):
            obs, state = reset(jax.random.split(state.rng)[0])
        flags = done, info["terminated"], info["truncated"]
        steps.append(Transition(before, action, reward, *flags, next_obs, info, extras))
    return Rollout(obs, state, memory, rng), stack(steps)


def vec_cartpole() -> Any:
    make = [lambda: gymnasium.make("CartPole-v1", max_episode_steps=12)] * 3
    return from_gymnasium_vec(SyncVectorEnv(make, autoreset_mode=AutoresetMode.SAME_STEP))


ENVS: dict[str, Callable[[], Any]] = {
    "alone": CoinEnv,
    "nested alone": NestedEnv,
    "batch": lambda: VecEnv(CoinEnv(), 3),
    "wrapped batch": lambda: VecEnv(
        envrax.NormalizeObservation(envrax.ResizeObservation(PixelEnv(), h=6, w=5)), 3
    ),
    "statistics": lambda: VecEnv(RecordEpisodeStatistics(CoinEnv()), 3, final_obs=True),
    "nested batch": lambda: VecEnv(NestedEnv(), 3),
    "member of a fleet": lambda: MultiVecEnv([VecEnv(VectorEnv(), 3)]).vec_envs[0],
}


@pytest.mark.parametrize("name", slow_but("alone", "statistics", values=ENVS))
def test_it_is_the_loop_of_a_user(name: str) -> None:
    env = ENVS[name]()
    chosen = random_policy(env)
    begin = envrax.start(env, jax.random.key(3), jnp.int32(5))
    at, steps = envrax.rollout(env, chosen, begin, STEPS)
    assert int(steps.done.sum()) > 3
    assert_trees_equal((at, steps), by_hand(env, chosen, jax.random.key(3), STEPS, jnp.int32(5)))
    jax.tree.map(lambda x: x.shape[0] == STEPS or pytest.fail("no axis of time"), steps)


@pytest.mark.parametrize(
    "name", slow_but("statistics", values=["alone", "statistics", "nested batch"])
)
def test_resumed_it_goes_on_to_the_bit(name: str) -> None:
    env = ENVS[name]()
    chosen = random_policy(env)
    at = envrax.start(env, jax.random.key(4), jnp.int32(0))
    end, whole = envrax.rollout(env, chosen, at, STEPS)
    middle, first = envrax.rollout(env, chosen, at, 17)
    last, second = envrax.rollout(env, chosen, middle, STEPS - 17)
    assert_trees_equal(last, end)
    assert_trees_equal(jax.tree.map(lambda *x: jnp.concatenate(x), first, second), whole)


@pytest.mark.slow
def test_on_the_host() -> None:
    """Gymnasium's CartPole, to the loop by hand, in one piece and in two."""
    env, other, third = vec_cartpole(), vec_cartpole(), vec_cartpole()
    chosen = random_policy(env)
    at, steps = envrax.rollout(env, chosen, envrax.start(env, jax.random.key(0), jnp.int32(0)), 40)
    wanted = by_hand(other, chosen, jax.random.key(0), 40, jnp.int32(0))
    for name in Transition._fields:
        assert_trees_equal(
            getattr(steps, name), jax.tree.map(jnp.asarray, getattr(wanted[1], name))
        )
    assert steps.truncated.any() and steps.terminated.any()
    assert_trees_equal(at.rng, wanted[0].rng)
    middle, first = envrax.rollout(
        third, chosen, envrax.start(third, jax.random.key(0), jnp.int32(0)), 15
    )
    _, second = envrax.rollout(third, chosen, middle, 25)
    assert_trees_equal(jax.tree.map(lambda *x: jnp.concatenate(x), first, second), steps)


def test_under_the_callers_jit_and_with_a_progress_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    env = VecEnv(CoinEnv(), 3)
    at = envrax.start(env, jax.random.key(1))
    plain = envrax.rollout(env, None, at, 45)
    assert_trees_equal(jax.jit(lambda at: envrax.rollout(env, None, at, 45))(at), plain)
    assert_trees_equal(envrax.rollout(env, None, at, 45, progress=True), plain)
    assert "45/45" in capsys.readouterr().err
    monkeypatch.setattr("sys.stderr", None)  # as in a daemon
    assert_trees_equal(envrax.rollout(env, None, at, 45, progress=True), plain)


@pytest.mark.parametrize(
    "env",
    [
        RecordEpisodeStatistics(TimeLimit(CountingEnv(), 6)),
        VecEnv(RecordEpisodeStatistics(CountingEnv()), 2, jit_compile=False),
        pytest.param(NestedEnv(), marks=pytest.mark.slow),
    ],
)
def test_what_start_returns_can_be_donated(env: Any) -> None:
    begin = envrax.start(env, jax.random.key(0))
    expected = envrax.rollout(env, None, begin, 5)
    run = jax.jit(lambda at: envrax.rollout(env, None, at, 5), donate_argnums=0)
    assert_trees_equal(run(begin), expected)


@pytest.mark.slow
def test_under_vmap() -> None:
    env = VecEnv(CoinEnv(), 3)
    seeds = jax.random.split(jax.random.key(2), 2)
    both = jax.vmap(lambda rng: envrax.rollout(env, None, envrax.start(env, rng), 10)[1])(seeds)
    for i, seed in enumerate(seeds):
        alone = envrax.rollout(env, None, envrax.start(env, seed), 10)[1]
        np.testing.assert_array_equal(both.done[i], alone.done)


@pytest.mark.slow
def test_gradients_reach_the_policy() -> None:
    env = VecEnv(VectorEnv(), 2)

    def total(push: jax.Array) -> jax.Array:
        at = envrax.start(env, jax.random.key(0))
        act: Any = lambda _, obs, rng: (jnp.zeros(2, jnp.int32), None, push * obs.sum())  # noqa: E731
        return envrax.rollout(env, act, at, 7)[1].extras.sum()

    gradient = jax.grad(total)(jnp.float32(1))
    assert np.isclose(gradient, total(jnp.float32(1)))
    assert gradient != 0


@pytest.mark.parametrize("mapped", [False, True])
def test_gradients_reach_the_config_of_a_single_environment(mapped: bool) -> None:
    """Across auto-resets, which read it too; against finite differences."""
    act: Any = lambda state, obs, rng: (jnp.int32(1), state, None)  # noqa: E731

    def total(gravity: Any, rng: jax.Array) -> jax.Array:
        env = VectorEnv(VectorConfig(max_steps=3, gravity=gravity))
        steps = envrax.rollout(env, act, envrax.start(env, rng), 5)[1]
        return jnp.sum(steps.next_obs)

    def mean(gravity: Any) -> jax.Array:
        keys = jax.random.split(jax.random.key(0), 3)
        if mapped:
            return jnp.mean(jax.vmap(lambda rng: total(gravity, rng))(keys))
        return total(gravity, keys[0])

    step, at = 1e-2, jnp.float32(0.5)
    difference = (mean(at + step) - mean(at - step)) / (2 * step)
    np.testing.assert_allclose(jax.grad(mean)(at), difference, rtol=2e-2, atol=1e-3)


def test_it_compiles_once(compile_counter: Callable[..., Any]) -> None:
    env = VecEnv(CountingEnv(), 2)
    at = envrax.start(env, jax.random.key(0))

    def apply(params: jax.Array, _: Any, obs: jax.Array, rng: jax.Array) -> Any:
        return (obs[:, 1] + params.astype(jnp.int32)) % 3, None, None

    policies = [jax.tree_util.Partial(apply, jnp.float32(x)) for x in (0, 1)]
    first = envrax.rollout(env, policies[0], at, 5)[1]
    with compile_counter() as seen:
        again = envrax.rollout(env, policies[0], at, 5)[1]
        other = envrax.rollout(env, policies[1], at, 5)[1]
    assert seen.count == 0
    assert_trees_equal(again, first)
    assert not np.array_equal(other.action, first.action)


def test_a_policy_whose_attribute_is_traced() -> None:
    """Inside the caller's `jit`, where the start is a constant; traced a second time too."""

    class Agent:
        push: Any

        def act(self, state: Any, obs: jax.Array, rng: jax.Array) -> Any:
            return jnp.int32(1), state, self.push

    env, agent = CountingEnv(), Agent()
    at = envrax.start(env, jax.random.key(0))

    def total(push: jax.Array) -> Any:
        agent.push = push
        found = envrax.evaluate(env, agent.act, jax.random.key(1), 2)
        return jnp.sum(envrax.rollout(env, agent.act, at, 3)[1].extras), found.lengths

    for push in (jnp.float32(1), jnp.int32(2), jnp.ones(2)):
        np.testing.assert_allclose(jax.jit(total)(push)[0], 3 * jnp.sum(push))


class Branching(NamedTuple):
    """A policy whose Python numbers choose what it does."""

    bias: jax.Array
    is_greedy: bool
    n_actions: int

    def __call__(self, state: Any, obs: jax.Array, rng: jax.Array) -> Any:
        zeros = [jnp.int32(0)] * self.n_actions
        return zeros[0] if self.is_greedy else jnp.int32(2), state, self.bias


def test_ints_and_bools_of_a_policy_are_static(compile_counter: Any) -> None:
    env = CountingEnv()
    at = envrax.start(env, jax.random.key(0))
    for is_greedy in (True, False):
        steps = envrax.rollout(env, Branching(jnp.float32(1), is_greedy, 3), at, 2)[1]
        assert steps.action.tolist() == ([0, 0] if is_greedy else [2, 2])
        with compile_counter() as seen:
            envrax.rollout(env, Branching(jnp.float32(2), is_greedy, 3), at, 2)
        assert seen.count == 0


class Noise(nnx.Module):
    """A policy with a random stream of its own."""

    def __init__(self) -> None:
        self.rngs = nnx.Rngs(0)

    def __call__(self, state: Any, obs: jax.Array, rng: jax.Array) -> Any:
        return jax.random.randint(self.rngs(), (), 0, 3, jnp.int32), state, None


class Means(nnx.Module):
    """A policy that normalises observations by running means."""

    def __init__(self) -> None:
        self.norm = nnx.BatchNorm(2, rngs=nnx.Rngs(0))

    def __call__(self, state: Any, obs: jax.Array, rng: jax.Array) -> Any:
        return jnp.int32(0), state, self.norm(obs[None].astype(jnp.float32))


@pytest.mark.parametrize("make", [Noise, Means])
def test_a_policy_that_changes_itself_is_refused(make: Any) -> None:
    env = CountingEnv()
    at = envrax.start(env, jax.random.key(0))
    with jax.numpy_dtype_promotion("standard"):
        with pytest.raises(TypeError, match=make.__name__):
            envrax.rollout(env, make(), at, 3)
        with pytest.raises(TypeError, match="policy_state"):
            envrax.evaluate(env, make(), jax.random.key(0), 3)


class Jitted(nnx.Module):
    """A policy whose method is compiled by flax, which copies all of its arrays."""

    def __init__(self) -> None:
        self.bias = nnx.Param(jnp.zeros(3))

    @nnx.jit
    def best(self) -> jax.Array:
        return jnp.argmax(self.bias[...])

    def __call__(self, state: Any, obs: jax.Array, rng: jax.Array) -> Any:
        return self.best(), state, None


def test_a_copy_of_a_policy_is_no_change() -> None:
    env = CountingEnv()
    at = envrax.start(env, jax.random.key(0))
    assert envrax.rollout(env, Jitted(), at, 3)[1].action.tolist() == [0, 0, 0]


def test_a_method_of_a_policy_that_is_a_pytree_has_its_newest_arrays() -> None:
    env, policy = CountingEnv(), Jitted()
    for best in (1, 2):
        policy.bias[...] = jnp.zeros(3).at[best].set(1)
        found = envrax.evaluate(env, policy.__call__, jax.random.key(0), 1)
        assert found.returns.tolist() == [5 * best]


def test_environments_are_freed_with_their_programs() -> None:
    refs: list[Any] = []
    for env in (CountingEnv(), VecEnv(CountingEnv(), 2), vec_cartpole()):
        envrax.rollout(env, None, envrax.start(env, jax.random.key(0)), 2)
        envrax.evaluate(env, None, jax.random.key(0), 2, max_steps=3)
        refs.append(weakref.ref(env))
    del env
    gc.collect()
    assert [ref() for ref in refs] == [None] * 3


def test_environments_are_told_apart_by_identity() -> None:
    """Whatever their `__eq__` says, and though they may have no `__hash__`."""

    class Equal(CountingEnv):
        def __eq__(self, other: object) -> bool:
            return True

    lengths = [
        envrax.evaluate(Equal(envrax.EnvConfig(max_steps=n)), None, jax.random.key(0), 1).lengths
        for n in (5, 2)
    ]
    assert [int(x[0]) for x in lengths] == [5, 2]


class Unlike:
    """A pytree node without `__eq__`, around arrays."""

    def __init__(self, x: Any, label: object) -> None:
        self.x, self.label = x, label


jax.tree_util.register_pytree_node(
    Unlike, lambda node: ((node.x,), node.label), lambda label, x: Unlike(x[0], label)
)


@pytest.mark.parametrize(
    "memory",
    [jax.tree_util.Partial(max, jnp.zeros(2)), Noise(), Unlike(jnp.zeros(2), object())],
    ids=["partial", "nnx", "node"],
)
def test_a_memory_of_any_class(memory: Any) -> None:
    def act(memory: Any, obs: jax.Array, rng: jax.Array) -> Any:
        if isinstance(memory, Noise):
            return *memory(memory, obs, rng)[:2], None
        return jnp.int32(0), jax.tree.map(lambda x: x + 1, memory), None

    env = CountingEnv()
    at, first = envrax.rollout(env, act, envrax.start(env, jax.random.key(0), memory), 8)
    at, then = envrax.rollout(env, act, at, 8)
    if isinstance(memory, Noise):
        assert len({tuple(steps.action.tolist()) for steps in (first, then)}) == 2
    else:
        assert jax.tree.leaves(at.policy_state)[0].tolist() == [16, 16]


@pytest.mark.parametrize("env", [CoinEnv(), RecordEpisodeStatistics(CoinEnv())])
def test_with_the_checker_of_keys(env: Any) -> None:
    with jax.debug_key_reuse(True):
        rngs = jax.random.split(jax.random.key(0), 2)
        run: Any = lambda rng: envrax.rollout(env, None, envrax.start(env, rng), 8)[1]  # noqa: E731
        assert jax.vmap(run)(rngs).done.any()


@pytest.mark.slow
def test_a_number_in_a_policy_is_no_constant() -> None:
    """`1`, `True` and `1.0` are equal in Python, and `0.0` and `-0.0`."""
    env = VecEnv(CountingEnv(), 2)
    at = envrax.start(env, jax.random.key(0))

    def apply(x: Any, _: Any, obs: jax.Array, rng: jax.Array) -> Any:
        return jnp.zeros(2, jnp.int32), None, jnp.asarray(x)

    def extra(x: Any) -> Any:
        return envrax.rollout(env, jax.tree_util.Partial(apply, x), at, 2)[1].extras

    assert [extra(x).dtype.kind for x in (1, True, 1.0)] == ["i", "b", "f"]
    assert np.signbit(extra(-0.0)).all() and not np.signbit(extra(0.0)).any()


@pytest.mark.slow
def test_an_object_is_compiled_as_itself() -> None:
    """Whatever its `__eq__` says, and though it may have no `__hash__`."""

    @dataclass
    class Agent:
        push: Any

        def __call__(self, _: Any, obs: jax.Array, rng: jax.Array) -> Any:
            return jnp.zeros(2, jnp.int32), None, jnp.asarray(self.push)

        def act(self, state: Any, obs: jax.Array, rng: jax.Array) -> Any:
            return self(state, obs, rng)

    env = VecEnv(CountingEnv(), 2)
    at = envrax.start(env, jax.random.key(0))
    agents = [Agent(push) for push in (1, 1.0, True)]
    for policies in (agents, [agent.act for agent in agents]):
        extras = [envrax.rollout(env, policy, at, 2)[1].extras for policy in policies]
        assert [x.dtype.kind for x in extras] == ["i", "f", "b"]


class TestMasks:
    def test_random_actions_are_legal(self) -> None:
        env = VecEnv(MaskedEnv(), 4)
        at = envrax.start(env, jax.random.key(0))

        def masked(_: Any, obs: Any, rng: jax.Array, mask: Any) -> Any:
            return env.action_space.sample(rng, mask), None, mask

        steps = envrax.rollout(env, masked, at, 50)[1]
        legal = jnp.take_along_axis(steps.extras, steps.action[..., None], axis=-1)
        assert legal.all() and not steps.extras.all()
        uniform = envrax.rollout(env, None, at, 50)[1]
        assert_trees_equal(uniform.action, steps.action)

    def test_no_mask_where_all_are_legal(self) -> None:
        env = CountingEnv()

        def act(_: Any, obs: Any, rng: jax.Array, mask: Any) -> Any:
            assert mask is None
            return jnp.int32(1), None, None

        envrax.rollout(env, act, envrax.start(env, jax.random.key(0)), 3)

    @pytest.mark.slow
    def test_one_that_the_caller_bound_is_kept(self) -> None:
        def act(_: Any, obs: Any, rng: jax.Array, mask: Any) -> Any:
            return jnp.argmax(mask, axis=-1).astype(jnp.int32), None, None

        env, mine = VecEnv(MaskedEnv(), 2), jnp.zeros((2, 3), bool).at[:, 2].set(True)
        for bound in (partial(act, mask=mine), jax.tree_util.Partial(act, mask=mine)):
            steps = envrax.rollout(env, bound, envrax.start(env, jax.random.key(0)), 2)[1]
            assert (steps.action == 2).all()


class TestFinalMasks:
    """`info["final_mask"]` of a Transition is the mask of the state of `next_obs`."""

    @pytest.mark.parametrize("wrap", [lambda env: env, lambda env: VecEnv(env, 3)])
    def test_it_is_that_of_next_obs(self, wrap: Any) -> None:
        env = wrap(MaskedEnv())
        steps = envrax.rollout(env, None, envrax.start(env, jax.random.key(0)), 20)[1]
        # An action may not be repeated, and the observation has the last one.
        wanted = jnp.arange(3) != steps.action[..., None]
        assert_trees_equal(steps.info["final_mask"], wanted)
        assert steps.done.any()

    def test_without_masks_there_is_none(self) -> None:
        env = VecEnv(CountingEnv(), 3)
        steps = envrax.rollout(env, None, envrax.start(env, jax.random.key(0)), 2)[1]
        assert sorted(steps.info) == ["terminated", "truncated"]

    def test_who_does_not_keep_it_does_not_compute_it(self) -> None:
        class Sorts(CountingEnv):
            def action_mask(self, state: Any) -> Any:
                return jnp.sort(state.number * jnp.arange(7, 10, dtype=jnp.int32)) % 5 > 1

        def sorts(run: Any) -> bool:
            at = envrax.start(env, jax.random.key(0))
            return " sort(" in str(jax.jit(run).lower(at).compile().as_text())

        def play(at: Any, **options: Any) -> Any:
            return envrax.rollout(env, first, at, 2, **options)

        def first(_: Any, obs: Any, rng: Any) -> Any:
            return jnp.zeros(obs.shape[:-1], jnp.int32), None, None

        for env in (Sorts(), VecEnv(Sorts(), 2)):
            assert sorts(play)
            assert not sorts(lambda at: play(at, collect=lambda step: step.next_obs))
            assert not sorts(lambda at: envrax.evaluate(env, first, at.rng, 2))  # noqa: B023

    def test_evaluations_have_none(self) -> None:
        for env in (VecEnv(MaskedEnv(), 2), NormalizeReward(VecEnv(MaskedEnv(), 2))):
            found = envrax.evaluate(env, None, jax.random.key(0), 2)
            assert sorted(found.info) == ["terminated", "truncated"]


class TestFirst:
    @pytest.mark.parametrize(
        "name", slow_but("statistics", values=["alone", "batch", "statistics"])
    )
    def test_it_tells_where_episodes_begin(self, name: str) -> None:
        env = ENVS[name]()
        sample = env.action_space.sample

        def recurrent(age: Any, obs: Any, rng: jax.Array, first: jax.Array) -> Any:
            age = jnp.where(first, 0, age + 1)
            return sample(rng), age, (first, age)

        shape = () if name == "alone" else (3,)
        at = envrax.start(env, jax.random.key(0), jnp.full(shape, 77, jnp.int32))
        steps = envrax.rollout(env, recurrent, at, STEPS)[1]
        first, age = steps.extras
        assert first[0].all() and np.array_equal(first[1:], steps.done[:-1])
        assert age.max() < 77 and np.array_equal(age == 0, first)

    def test_where_no_step_is_counted_it_is_refused(self) -> None:
        env = OnTheHost(2)
        act: Any = lambda state, obs, rng, first: (None, None, None)  # noqa: E731
        at = envrax.start(env, jax.random.key(0))
        with pytest.raises(TypeError, match="first"):
            envrax.rollout(env, act, at, 3)


def played(env: Any, act: Any = None, begin: Any = None, n_steps: int = 3) -> Any:
    begin = env if begin is None else begin
    return envrax.rollout(env, act, envrax.start(begin, jax.random.key(0), jnp.int32(0)), n_steps)


def alone(state: Any, obs: Any, rng: Any) -> Any:
    """Returns only actions; those of three slots look like a triple."""
    return jnp.zeros(3, jnp.int32)


def forgetful(state: Any, obs: Any, rng: Any) -> Any:
    return jnp.int32(0), state.astype(float), None


def dropping(state: Any, obs: Any, rng: Any) -> Any:
    return jnp.int32(0), None, None


ONE, FOUR, EIGHT = CountingEnv(), VecEnv(CountingEnv(), 4), VecEnv(CountingEnv(), 8)


@pytest.mark.parametrize(
    ("call", "error", "noun"),
    [
        (lambda: envrax.start(ONE, jax.random.split(jax.random.key(0))), ValueError, "PRNG key"),
        (lambda: envrax.rollout(ONE, None, jax.random.key(0), 3), TypeError, "Rollout"),  # type: ignore[arg-type]
        (lambda: envrax.with_config(FOUR, max_steps=3), TypeError, "JaxEnv"),  # type: ignore[type-var]
        (lambda: played(ONE, begin=FOUR), TypeError, "bool"),
        (lambda: played(FOUR, begin=ONE), ValueError, "axis 0"),
        (lambda: played(FOUR, begin=EIGHT), ValueError, "4 slots"),
        (lambda: played(ONE, n_steps=0), ValueError, "n_steps"),
        (lambda: played(VecEnv(ONE, 3), alone), TypeError, "extras"),
        (lambda: played(ONE, forgetful), TypeError, "policy_state"),
        (lambda: played(ONE, dropping), TypeError, "None"),
        (lambda: played(OnTheHost(2)), TypeError, "final_obs"),
        (lambda: played(VecEnv(envrax.EpisodeDiscount(ONE), 2)), TypeError, "`done`"),
    ],
)
def test_what_is_refused(call: Any, error: Any, noun: str) -> None:
    with pytest.raises(error, match=noun):
        call()


class Reused(OnTheHost):
    """A simulator that writes every observation into the same memory."""

    def reset(self, rng: jax.Array) -> tuple[Any, Any]:
        self.buffer, self.time = np.zeros((self.n_slots, 4), np.float32), 0
        return self.buffer, ()

    def step(self, state: Any, actions: Any) -> tuple[Any, ...]:
        np.asarray(actions)
        self.time += 1
        self.buffer[:] = self.time
        ends = np.zeros(self.n_slots, bool)
        return self.buffer, (), np.ones(self.n_slots, np.float32), ends, self.info()

    def info(self) -> dict[str, Any]:
        return {"final_obs": self.buffer}


def test_memory_that_a_simulator_writes_over() -> None:
    env = Reused(2)
    end, steps = envrax.rollout(env, None, envrax.start(env, jax.random.key(0)), 4)
    assert steps.obs[:, 0, 0].tolist() == [0, 1, 2, 3]
    assert steps.next_obs[:, 0, 0].tolist() == [1, 2, 3, 4]
    again = envrax.rollout(env, None, end, 1)[1]
    assert end.obs[0, 0] == again.obs[0, 0, 0] == 4


def test_a_mask_may_be_a_keyword_alone() -> None:
    def lowest(*given: Any, mask: Any) -> Any:
        return jnp.argmax(mask), given[0], None

    env = MaskedEnv()
    _, steps = envrax.rollout(env, lowest, envrax.start(env, jax.random.key(0)), 4)
    assert not steps.terminated.any()


@pytest.mark.parametrize("play", [envrax.rollout, envrax.evaluate])
def test_a_policy_with_too_few_parameters(play: Any) -> None:
    env = VecEnv(CountingEnv(), 2)
    rng = jax.random.key(0)
    at = {envrax.rollout: envrax.start(env, rng), envrax.evaluate: rng}[play]

    def policy(obs: Any) -> Any:
        return obs

    with pytest.raises(TypeError, match="policy_state, obs, rng"):
        play(env, policy, at, 5)
