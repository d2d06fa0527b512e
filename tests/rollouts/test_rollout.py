"""`start` and `rollout` against the loop that a user would write."""

import gc
import io
import weakref
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from batched_fakes import OnTheHost
from fakes import CoinEnv, NestedEnv, VectorConfig, VectorEnv
from flax import nnx
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from helpers import assert_trees_equal, slow_but, small_vec, with_final_obs

import envrax
from envrax import RecordEpisodeStatistics, Rollout, TimeLimit, Transition, VecEnv
from envrax.interop import from_gymnasium_vec
from envrax.testing import CountingEnv, MaskedEnv
from envrax.wrappers.vector import NormalizeReward

STEPS = 40
KEY = jax.random.key(0)


def policy(memory: Any, obs: Any, rng: jax.Array, *, space: Any) -> tuple[Any, Any, Any]:
    """Random actions, with a memory that depends on every step."""
    action = space.sample(rng)
    seen = sum(jnp.sum(x.astype(jnp.float32)) for x in jax.tree.leaves(obs))
    memory = jnp.where(memory > 100, 0, memory + 1)
    return action, memory, {"memory": memory, "seen": seen > 0}


def by_hand(env: Any, policy: Any, rng: jax.Array, memory: Any) -> Any:
    """The loop of a user: one step at a time, compiled where the environment can be."""
    alone = isinstance(env, envrax.JaxEnv)
    batch: Any = env if alone else with_final_obs(env)
    compiled: Callable[..., Any] = jax.jit if env.traceable else lambda f: f
    reset, step, policy = compiled(batch.reset), compiled(batch.step), jax.jit(policy)
    rng, key = jax.random.split(rng)
    obs, state = reset(key)
    steps: list[Any] = []
    for _ in range(STEPS):
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
    stacked = jax.tree.map(lambda *x: np.stack([*map(np.asarray, x)]), *steps)
    return Rollout(obs, state, memory, rng), stacked


def vec_cartpole() -> Any:
    make = [lambda: gymnasium.make("CartPole-v1", max_episode_steps=12)] * 3
    return from_gymnasium_vec(SyncVectorEnv(make, autoreset_mode=AutoresetMode.SAME_STEP))


ENVS: dict[str, Callable[[], Any]] = {
    "alone": CoinEnv,
    "nested alone": NestedEnv,
    "statistics": lambda: VecEnv(RecordEpisodeStatistics(CoinEnv()), 3, final_obs=True),
    "nested batch": lambda: VecEnv(NestedEnv(), 3),
    "on the host": vec_cartpole,
}


@pytest.mark.parametrize("name", slow_but("alone", "statistics", values=ENVS))
def test_it_is_the_loop_of_a_user(name: str) -> None:
    """To the bit, and the second half goes on where the first ended."""
    env = ENVS[name]()
    chosen = partial(policy, space=env.action_space)
    end, wanted = by_hand(env, chosen, jax.random.key(3), jnp.int32(5))
    on_host = name == "on the host"
    env = ENVS[name]() if on_host else env
    at = envrax.start(env, jax.random.key(3), jnp.int32(5))
    at, first = envrax.rollout(env, chosen, at, STEPS // 2)
    at, second = envrax.rollout(env, chosen, at, STEPS // 2)
    assert_trees_equal(jax.tree.map(lambda *x: np.concatenate(x), first, second), wanted)
    # The state of a simulator has the number of its call.
    assert_trees_equal(*((at.rng, end.rng) if on_host else (at, end)))
    assert int(wanted.done.sum()) > 3


COINS = small_vec(CoinEnv(), 3)


@cache
def coins() -> Any:
    """The start, the end and the steps of a rollout that several tests compare with."""
    at = envrax.start(COINS, KEY)
    return at, *envrax.rollout(COINS, None, at, 30)


def test_under_the_callers_jit_and_with_a_progress_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    at, *plain = coins()
    assert_trees_equal([*jax.jit(lambda at: envrax.rollout(COINS, None, at, 30))(at)], plain)
    assert_trees_equal([*envrax.rollout(COINS, None, at, 30, progress=True)], plain)
    assert "30/30" in capsys.readouterr().err
    closed = io.StringIO()
    closed.close()
    for stream in (closed, None):  # as in a daemon
        monkeypatch.setattr("sys.stderr", stream)
        envrax.rollout(COINS, None, at, 30, progress=True)


@pytest.mark.parametrize(
    "env",
    [
        RecordEpisodeStatistics(TimeLimit(CountingEnv(), 6)),
        VecEnv(RecordEpisodeStatistics(CountingEnv()), 2, jit_compile=False),
    ],
)
def test_what_start_returns_can_be_donated(env: Any) -> None:
    """No two of its arrays share memory."""
    copy = jax.jit(lambda at: jax.tree.map(jnp.copy, at), donate_argnums=0)
    assert_trees_equal(copy(envrax.start(env, KEY)), envrax.start(env, KEY))


@pytest.mark.slow
def test_under_vmap_with_the_checker_of_keys() -> None:
    env = RecordEpisodeStatistics(CoinEnv())
    rngs = jax.random.split(KEY, 2)
    run: Any = lambda rng: envrax.rollout(env, None, envrax.start(env, rng), 8)[1]  # noqa: E731
    with jax.debug_key_reuse(True):
        done = np.asarray(jax.jit(jax.vmap(run))(rngs).done)
    assert done.any() and (done[0] != done[1]).any()


def test_gradients_reach_the_config_of_a_single_environment() -> None:
    """Across auto-resets, which read it too; against finite differences."""
    act: Any = lambda state, obs, rng: (jnp.int32(1), state, None)  # noqa: E731

    def total(gravity: Any, rng: jax.Array) -> jax.Array:
        env = VectorEnv(VectorConfig(max_steps=3, gravity=gravity))
        steps = envrax.rollout(env, act, envrax.start(env, rng), 5)[1]
        return jnp.sum(steps.next_obs)

    @jax.jit
    @jax.value_and_grad
    def mean(gravity: Any) -> jax.Array:
        return jnp.mean(jax.vmap(lambda rng: total(gravity, rng))(jax.random.split(KEY, 3)))

    step, at = 1e-2, 0.5
    above, below = (float(mean(x)[0]) for x in (at + step, at - step))
    difference = (above - below) / (2 * step)
    np.testing.assert_allclose(mean(at)[1], difference, rtol=2e-2, atol=1e-3)


class Noise(nnx.Module):
    """A policy with a random stream of its own."""

    def __init__(self) -> None:
        self.rngs = nnx.Rngs(0)

    def __call__(self, state: Any, obs: jax.Array, rng: jax.Array) -> Any:
        return jax.random.randint(self.rngs(), (), 0, 3, jnp.int32), state, None


def test_a_policy_that_changes_itself_is_refused() -> None:
    env = CountingEnv()
    with pytest.raises(TypeError, match="Noise"):
        envrax.rollout(env, Noise(), envrax.start(env, KEY), 3)
    with pytest.raises(TypeError, match="policy_state"):
        envrax.evaluate(env, Noise(), KEY, 3)


class Jitted(nnx.Module):
    """A policy whose method is compiled by flax, which copies all of its arrays."""

    def __init__(self) -> None:
        self.bias = nnx.Param(jnp.zeros(3))

    @nnx.jit
    def best(self) -> jax.Array:
        return jnp.argmax(self.bias[...])

    def __call__(self, state: Any, obs: jax.Array, rng: jax.Array) -> Any:
        return self.best(), state, None


def test_a_copy_of_a_policy_is_no_change_and_a_method_of_it_has_its_newest_arrays() -> None:
    env, policy = CountingEnv(), Jitted()
    assert not envrax.rollout(env, policy, envrax.start(env, KEY), 3)[1].action.any()
    for best in (1, 2):
        policy.bias[...] = jnp.zeros(3).at[best].set(1)
        found = envrax.evaluate(env, policy.__call__, KEY, 1)
        assert found.returns.tolist() == [5 * best]


@pytest.mark.slow
def test_environments_are_freed_with_their_programs() -> None:
    one, host = CountingEnv(), vec_cartpole()
    off = VecEnv(CountingEnv(), 2, autoreset=False)
    for env in (off, host):
        envrax.rollout(env, None, envrax.start(env, KEY), 2)
    for env in (one, host):
        envrax.evaluate(env, None, KEY, 2, max_steps=3)
    refs = [*map(weakref.ref, (one, off, host))]
    del env, one, off, host
    gc.collect()
    assert [ref() for ref in refs] == [None] * 3


def test_environments_are_told_apart_by_identity() -> None:
    """Whatever their `__eq__` says, and though they may have no `__hash__`."""

    class Equal(CountingEnv):
        def __eq__(self, other: object) -> bool:
            return True

    envs = [Equal(envrax.EnvConfig(max_steps=n)) for n in (5, 2)]
    assert [int(envrax.evaluate(env, None, KEY, 1).lengths[0]) for env in envs] == [5, 2]


class Unlike:
    """A pytree node without `__eq__`, around arrays."""

    def __init__(self, x: Any, label: object) -> None:
        self.x, self.label = x, label


jax.tree_util.register_pytree_node(
    Unlike, lambda node: ((node.x,), node.label), lambda label, x: Unlike(x[0], label)
)


@pytest.mark.parametrize("memory", [Noise(), Unlike(jnp.zeros(2), object())], ids=["nnx", "node"])
def test_a_memory_of_any_class(memory: Any) -> None:
    def act(memory: Any, obs: jax.Array, rng: jax.Array) -> Any:
        if isinstance(memory, Noise):
            return *memory(memory, obs, rng)[:2], None
        return jnp.int32(0), jax.tree.map(lambda x: x + 1, memory), None

    env = CountingEnv()
    at, first = envrax.rollout(env, act, envrax.start(env, KEY, memory), 8)
    at, then = envrax.rollout(env, act, at, 8)
    if isinstance(memory, Noise):
        assert len({tuple(steps.action.tolist()) for steps in (first, then)}) == 2
    else:
        assert jax.tree.leaves(at.policy_state)[0].tolist() == [16, 16]


# Masks ------------------------------------------------------------------------------------------


MASKED = MaskedEnv()


@pytest.mark.parametrize("env", [MASKED, small_vec(MASKED, 3)])
def test_random_actions_are_legal_and_the_final_mask_is_that_of_next_obs(env: Any) -> None:
    def masked(_: Any, obs: Any, rng: jax.Array, mask: Any) -> Any:
        return env.action_space.sample(rng, mask), None, mask

    at = envrax.start(env, KEY)
    steps = jax.device_get(envrax.rollout(env, masked, at, 20)[1])
    mask, action = steps.extras, steps.action
    assert np.take_along_axis(mask, action[..., None], axis=-1).all() and not mask.all()
    # An action may not be repeated, and the observation has the last one.
    assert_trees_equal(steps.info["final_mask"], np.arange(3) != action[..., None])
    assert steps.done.any()
    if env is MASKED:
        assert_trees_equal(envrax.rollout(env, None, at, 20)[1].action, steps.action)


def test_no_mask_where_all_are_legal() -> None:
    env = CountingEnv()

    def act(_: Any, obs: Any, rng: jax.Array, mask: Any) -> Any:
        assert mask is None
        return jnp.int32(1), None, None

    jax.eval_shape(lambda: envrax.rollout(env, act, envrax.start(env, KEY), 3))


def test_a_mask_is_given_to_a_keyword_unless_the_caller_bound_one() -> None:
    def act(*given: Any, mask: Any) -> Any:
        return jnp.argmax(mask, axis=-1).astype(jnp.int32), given[0], mask

    at, mine = envrax.start(MASKED, KEY), jnp.array([False, False, True])
    assert not envrax.rollout(MASKED, act, at, 2)[1].terminated.any()
    for bound in (partial(act, mask=mine), jax.tree_util.Partial(act, mask=mine)):
        assert (envrax.rollout(MASKED, bound, at, 2)[1].action == 2).all()


@pytest.mark.slow
def test_who_does_not_keep_the_final_mask_does_not_compute_it() -> None:
    class Sorts(CountingEnv):
        def action_mask(self, state: Any) -> Any:
            return jnp.sort(state.number * jnp.arange(7, 10, dtype=jnp.int32)) % 5 > 1

    def sorts(env: Any, run: Any, **options: Any) -> bool:
        run = partial(run, env, first, **options)
        return " sort(" in str(jax.jit(run).lower(envrax.start(env, KEY)).compile().as_text())

    def play(env: Any, policy: Any, at: Any, **options: Any) -> Any:
        return envrax.rollout(env, policy, at, 2, **options)

    def first(_: Any, obs: Any, rng: Any) -> Any:
        return jnp.zeros(obs.shape[:-1], jnp.int32), None, None

    one, batch = Sorts(), small_vec(Sorts(), 2)
    assert sorts(batch, play)
    for env in (one, batch):
        assert not sorts(env, play, collect=lambda step: step.next_obs)
    evaluate = partial(envrax.evaluate, batch, first, n_episodes=2)
    assert " sort[" not in str(jax.make_jaxpr(evaluate)(KEY))


def test_evaluations_have_no_final_mask() -> None:
    env = NormalizeReward(VecEnv(MaskedEnv(), 2))
    found = jax.eval_shape(lambda rng: envrax.evaluate(env, None, rng, 2), KEY)
    assert sorted(found.info) == ["terminated", "truncated"]


# Where episodes begin ---------------------------------------------------------------------------


def test_first_is_true_where_episodes_begin() -> None:
    sample = COINS.action_space.sample

    def recurrent(age: Any, obs: Any, rng: jax.Array, first: jax.Array) -> Any:
        age = jnp.where(first, 0, age + 1)
        return sample(rng), age, (first, age)

    at = coins()[0]._replace(policy_state=np.full(3, 77, np.int32))
    steps = jax.device_get(envrax.rollout(COINS, recurrent, at, STEPS)[1])
    first, age = steps.extras
    assert first[0].all() and np.array_equal(first[1:], steps.done[:-1])
    assert age.max() < 77 and np.array_equal(age == 0, first)


# Refusals ---------------------------------------------------------------------------------------


@cache
def begun(env: Any) -> Any:
    return envrax.start(env, KEY, jnp.int32(0))


def played(env: Any, act: Any = None, begin: Any = None, n_steps: int = 3) -> Any:
    return envrax.rollout(env, act, begun(begin or env), n_steps)


def alone(state: Any, obs: Any, rng: Any) -> Any:
    """Returns only actions; those of three slots would look like a triple."""
    return jnp.zeros(4, jnp.int32)


def dropping(state: Any, obs: Any, rng: Any) -> Any:
    return jnp.int32(0), None, None


def asking(state: Any, obs: Any, rng: Any, first: Any) -> Any:
    return None, None, None


def short(obs: Any) -> Any:
    return obs


ONE, FOUR, EIGHT = CountingEnv(), *(small_vec(CountingEnv(), n) for n in (4, 8))


@pytest.mark.parametrize(
    ("call", "error", "noun"),
    [
        (lambda: envrax.start(ONE, jax.random.split(KEY)), ValueError, "PRNG key"),
        (lambda: envrax.rollout(ONE, None, KEY, 3), TypeError, "Rollout"),  # type: ignore[arg-type]
        (lambda: envrax.with_config(FOUR, max_steps=3), TypeError, "JaxEnv"),  # type: ignore[type-var]
        (lambda: played(ONE, begin=FOUR), TypeError, "bool"),
        (lambda: played(FOUR, begin=ONE), ValueError, "axis 0"),
        (lambda: played(FOUR, begin=EIGHT), ValueError, "4 slots"),
        (lambda: played(ONE, n_steps=0), ValueError, "n_steps"),
        (lambda: played(FOUR, alone), TypeError, "extras"),
        (lambda: played(ONE, dropping), TypeError, "None"),
        (lambda: played(OnTheHost(2)), TypeError, "final_obs"),
        (lambda: played(OnTheHost(2), asking), TypeError, "first"),
        (lambda: played(VecEnv(envrax.EpisodeDiscount(ONE), 2)), TypeError, "`done`"),
        (lambda: played(FOUR, short), TypeError, "policy_state, obs, rng"),
        (lambda: envrax.evaluate(FOUR, short, KEY, 5), TypeError, "policy_state, obs, rng"),
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
        info = {"final_obs": self.buffer}
        return self.buffer, (), np.ones(self.n_slots, np.float32), ends, info


def test_memory_that_a_simulator_writes_over() -> None:
    env = Reused(2)
    end, steps = envrax.rollout(env, None, envrax.start(env, KEY), 4)
    assert steps.obs[:, 0, 0].tolist() == [0, 1, 2, 3]
    assert steps.next_obs[:, 0, 0].tolist() == [1, 2, 3, 4]
    again = envrax.rollout(env, None, end, 1)[1]
    assert end.obs[0, 0] == again.obs[0, 0, 0] == 4
