"""`reset_after`: what lasts longer than an episode, in a slot of its own, at no cost to others."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CoinConfig, CoinEnv, VectorConfig, VectorEnv
from helpers import assert_trees_close, assert_trees_equal, slow_but
from reset_after_envs import CountEpisodes, CountState
from wrapper_rows import ROWS

from envrax import JitWrapper, RecordEpisodeStatistics, VecEnv, Wrapper, rollout
from envrax import start as begin
from envrax.autoreset import Compact, Select, choose
from envrax.env import carries_over

F32 = jnp.float32
STRATEGIES = [Compact(2), Select()]


def count() -> Any:
    return CountEpisodes(CoinEnv(CoinConfig(end_rate=0.4)))


def ones(*shape: int) -> jax.Array:
    return jnp.ones((*shape, 2), F32)


def by_hand(env: Any, rngs: jax.Array, n_steps: int) -> Any:
    """Each slot in a loop of its own, in Python."""
    reset, step, after = jax.jit(env.reset), jax.jit(env.step), jax.jit(env.reset_after)
    for rng in rngs:
        obs, state = reset(rng)
        for _ in range(n_steps):
            obs, state, *_ = step(state, ones())
            if bool(state.done):
                obs, state = after(state)
        yield obs, state


def test_a_slot_keeps_what_reset_after_keeps() -> None:
    n, rng = 8, jax.random.key(0)
    vec_env = VecEnv(count(), n, autoreset=STRATEGIES[0])
    obs, state = vec_env.reset(rng)
    for _ in range(12):
        obs, state, *_ = vec_env.step(state, ones(n))
    assert int(state.episodes.min()) >= 2 and len(set(state.episodes.tolist())) > 1
    np.testing.assert_array_equal(state.table[:, 0], np.full(n, 12))
    for slot, alone in enumerate(by_hand(count(), jax.random.split(rng, n), 12)):
        ours = jax.tree.map(lambda x, i=slot: x[i], (obs, state))
        assert_trees_close(ours, alone, rtol=1e-6)


class NextIsAnInteger(CountEpisodes):
    """Begins every episode but the first with another dtype."""

    def reset_after(self, state: CountState) -> Any:
        obs, new = super().reset_after(state)
        return obs.astype(jnp.int32), new


@pytest.mark.parametrize("wrap", [Wrapper, RecordEpisodeStatistics])
def test_a_reset_after_with_other_types_is_named(wrap: Any) -> None:
    env = wrap(NextIsAnInteger(CoinEnv()))
    vec_env = VecEnv(env, 2)
    _, state = jax.eval_shape(vec_env.reset, jax.random.key(0))
    with pytest.raises(TypeError, match=r"reset_after and step .*`obs`.* from reset_after"):
        jax.eval_shape(vec_env.step, state, ones(2))


@pytest.mark.slow
def test_strategies_agree_under_vmap() -> None:
    def run(strategy: Any) -> Any:
        vec_env = VecEnv(count(), 4, autoreset=strategy)

        def play(rng: jax.Array) -> Any:
            state = vec_env.reset(rng)[1]
            return jax.lax.fori_loop(0, 6, lambda _, s: vec_env.step(s, ones(4))[1], state)

        return jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(3), 2))

    compact, select = map(run, STRATEGIES)
    assert compact.episodes.max() > 1
    assert_trees_equal(compact, select)


def test_a_rollout_of_one_environment() -> None:
    at, _ = rollout(count(), lambda *_: (ones(), None, ()), begin(count(), jax.random.key(1)), 20)
    assert int(at.env_state.episodes) > 1


def test_what_lasts_is_said_of_every_wrapped_environment() -> None:
    for row, (wrap, env_classes) in ROWS.items():
        if row != "EpisodicLife":  # which goes on with the game
            assert not carries_over(wrap(env_classes[0]())), row
        if CoinEnv in env_classes and row != "StartStates":  # which begins episodes itself
            assert carries_over(wrap(count())), row


@pytest.mark.parametrize("row", ["MaxAndSkipObservation", "gymnasium", "episodes"])
def test_wrappers_hand_it_on(row: str) -> None:
    """The last two are stacks of most of them."""
    env = ROWS[row][0](count())

    @jax.jit
    def third_episode(rng: jax.Array) -> jax.Array:
        state = env.reset(rng)[1]
        _, state = env.reset_after(env.reset_after(state)[1])
        while not isinstance(state, CountState):
            state = state.env_state
        return state.episodes

    assert third_episode(jax.random.key(0)) == 3


# Those that override it, and a stack of those that do not.
BEGINNING = ["StartStates", "AtariPreprocessing", "DomainRandomization", "RecordVideo", "episodes"]


@pytest.mark.parametrize("row", slow_but("StartStates", values=BEGINNING))
def test_by_default_it_is_a_reset_with_the_first_half_of_the_key(row: str) -> None:
    wrap, (env_class, *_) = ROWS[row]
    env = wrap(env_class())
    compiled: Any = jax.jit if env.traceable else lambda f: f
    reset, reset_after = compiled(env.reset), compiled(env.reset_after)
    state = reset(jax.random.key(0))[1]
    assert_trees_equal(reset_after(state), reset(jax.random.split(state.rng)[0]))


class Doubled(Wrapper[Any, Any, Any, Any]):
    """A wrapper that changes `reset` itself, as users of version 0.1 may have written."""

    def reset(self, rng: jax.Array) -> Any:
        obs, state = super().reset(rng)
        return jax.tree.map(lambda x: x * 2, obs), state


def test_a_wrapper_with_its_own_reset_alone_is_reset_by_it() -> None:
    env = JitWrapper(Doubled(CoinEnv()), pre_warm=False)
    state = env.reset(jax.random.key(0))[1]
    assert_trees_equal(env.reset_after(state), env.reset(jax.random.split(state.rng)[0]))
    env = Doubled(count())
    with pytest.raises(NotImplementedError, match=r"Doubled\.reset_after"):
        jax.eval_shape(lambda rng: env.reset_after(env.reset(rng)[1]), jax.random.key(0))


class Unused(CoinEnv):
    """Computes with leaves of the old state what nothing depends on, in a `jit` too."""

    def reset_after(self, state: Any) -> Any:
        _, last, *_ = self.step(state, ones())
        _ = jax.jit(lambda x: x.world + x.step.astype(F32))(state)
        return self.reset(jax.random.split(last.rng)[0])


def test_what_is_computed_for_nothing_does_no_harm() -> None:
    vec_env = VecEnv(Unused(CoinConfig(end_rate=1.0)), 4, autoreset=STRATEGIES[0])
    _, state = vec_env.reset(jax.random.key(0))
    obs, *_ = vec_env.step(state, ones(4))
    env: Any = vec_env.env
    after = jax.jit(jax.vmap(lambda state: env.reset_after(env.step(state, ones())[1])[0]))
    assert_trees_equal(obs, after(state))


class DriftingGravity(VectorEnv):
    """The next episode begins where the last one was; differentiable through all episodes."""

    def reset_after(self, state: Any) -> Any:
        obs, first = super().reset_after(state)
        pos = first.pos + 0.5 * state.pos
        return obs + 0.5 * state.pos, first.replace(pos=pos)


def test_gradients_go_through_it() -> None:
    def loss(strategy: Any, scale: jax.Array) -> jax.Array:
        env = DriftingGravity(VectorConfig(max_steps=2, gravity=scale))
        vec_env = VecEnv(env, 4, autoreset=strategy)
        _, state = vec_env.reset(jax.random.key(0))

        def body(state: Any, _: Any) -> Any:
            stepped = vec_env.step(state, jnp.ones(4, jnp.int32))
            return stepped[1], stepped[2]

        return jnp.sum(jax.lax.scan(body, state, length=5)[1])

    grads = [jax.jit(jax.grad(lambda x, s=s: loss(s, x)))(F32(0.7)) for s in STRATEGIES]
    np.testing.assert_allclose(grads[0], grads[1], rtol=1e-5)
    assert abs(float(grads[0])) > 0.1


def test_choose_reads_it() -> None:
    class Costly(CoinEnv):
        def reset_after(self, state: Any) -> Any:
            obs, first = self.reset(jax.random.split(state.rng)[1])
            return jax.lax.fori_loop(0, 9, lambda i, x: x + 0, obs), first

    assert choose(CoinEnv(), 64, "gpu") == Select()
    assert isinstance(choose(Costly(), 64, "gpu"), Compact)


def test_a_jit_wrapper_compiles_it_once() -> None:
    traces: list[None] = []

    class Counted(CountEpisodes):
        def reset_after(self, state: Any) -> Any:
            traces.append(None)
            return super().reset_after(state)

    env = JitWrapper(Counted(CoinEnv()), pre_warm=False)
    _, state = env.reset(jax.random.key(0))
    for _ in range(3):
        _, state = env.reset_after(state)
    assert int(state.episodes) == 4 and len(traces) == 1
