"""`OneAgent`: the view of one agent equals the world stepped by hand."""

from functools import cache, partial
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_trees_equal, small_vec

import envrax
from envrax import (
    Box,
    Dict,
    DomainRandomization,
    MultiDiscrete,
    RecordEpisodeStatistics,
    RecordVideo,
    Space,
    evaluate,
)
from envrax.multi_agent.agent_slots import agents_as_slots
from envrax.multi_agent.one_agent import OneAgent, with_policy_state
from envrax.testing import ChaseWorld, NimWorld, check_batched_env, check_env
from envrax.testing.multi_agent_fakes import NimConfig

KEYS = jax.random.split(jax.random.key(3), 8)


def takes(policy_state: Any, obs: Any, rng: jax.Array) -> Any:
    """Bob takes `policy_state` stones more than one, and counts his moves in extras."""
    return {"bob": jnp.int32(policy_state)}, policy_state, None


def nim_by_hand(rng: jax.Array, actions: list[int], others: int, stones: int) -> list[Any]:
    """The view of alice, in a Python loop: of each of her moves stones left, reward and end."""
    env = NimWorld(NimConfig(stones=stones))
    _, key = jax.random.split(rng)
    _, state = env.reset(key)
    owed, out = 0.0, []
    for action in actions:
        alice_moved = False
        while not state.done and (not alice_moved or not env.active(state)["alice"]):
            both = {"alice": jnp.int32(action), "bob": jnp.int32(others)}
            alice_moved |= bool(env.active(state)["alice"])
            _, state, rewards, _, _ = env.step(state, both)
            owed += float(rewards["alice"])
        out.append((int(state.left), owed, bool(state.done)))
        owed = 0.0
        if state.done:
            break
    return out


@pytest.mark.parametrize(("stones", "others"), [(1, 0), (9, 1)])
def test_turns_of_others_are_played_within_a_step(stones: int, others: int) -> None:
    """Also where the world ends before the first move: the first step only reports that."""
    view = OneAgent(NimWorld(NimConfig(stones=stones)), "alice", takes, others)
    reset, step, early = jax.jit(view.reset), jax.jit(view.step), 0
    for rng in KEYS:
        obs, state = reset(rng)
        assert not state.done and state.step == 0
        early += int(state.agent_done)
        for n, (left, reward, done) in enumerate(nim_by_hand(rng, [1] * 9, others, stones)):
            obs, state, got, ended, info = step(state, 1)
            assert (int(obs[0]), float(got), bool(ended)) == (left, reward, done)
            assert bool(info["terminated"]) is done and not info["truncated"]
            assert state.step == n + 1
        assert state.done
    assert (early > 0) is (stones < 9)


def test_without_turns_it_is_one_step_of_the_world() -> None:
    def others(policy_state: Any, obs: Any, rng: jax.Array) -> Any:
        assert set(obs) == {"runner_1", "runner_2"}
        moves = jax.random.randint(rng, (2,), 0, 3, jnp.int32)
        return {"runner_1": moves[0], "runner_2": moves[1]}, policy_state + 1, None

    class Always(ChaseWorld):  # all act, also who was caught
        active = envrax.JaxEnv.active

    view, world = OneAgent(Always(), "hunter", others, 0), Always()
    _, state = view.reset(KEYS[0])
    rng, key = jax.random.split(KEYS[0])
    _, inner = world.reset(key)
    assert "while" not in str(jax.make_jaxpr(view.step)(state, jnp.float32(1)))
    for n in range(4):
        obs, state, reward, done, info = view.step(state, -2.0)
        rng, key = jax.random.split(rng)
        moves = jax.random.randint(key, (2,), 0, 3, jnp.int32)
        action = {"runner_1": moves[0], "runner_2": moves[1], "hunter": jnp.float32(-2.0)}
        seen, inner, rewards, ended, world_info = world.step(inner, action)
        assert_trees_equal((obs, reward, done), (seen["hunter"], rewards["hunter"], ended))
        assert_trees_equal(
            (state.env_state, state.rng, state.policy_state), (inner, rng, jnp.int32(n + 1))
        )
        assert "agents" in world_info and "agents" not in info


def chase(end_with_agent: bool) -> Any:
    """The hunter stays, the second runner comes; the first is at place 8 and is caught at once."""

    def others(policy_state: Any, obs: Any, rng: jax.Array) -> Any:
        return {"hunter": jnp.float32(0), "runner_2": jnp.int32(2)}, policy_state, None

    view = OneAgent(ChaseWorld(), "runner_1", others, end_with_agent=end_with_agent)
    _, state = view.reset(KEYS[0])
    place = {"runner_1": jnp.int32(8), "runner_2": jnp.int32(4), "hunter": jnp.int32(9)}
    return view, state.replace(env_state=state.env_state.replace(place=place))


def test_an_episode_ends_with_the_agent_or_with_the_world() -> None:
    for whole, steps in ((False, 1), (True, 5)):
        view, state = chase(not whole)
        _, state, reward, done, info = jax.jit(view.step)(state, 2)
        assert done and info["terminated"] and not info["truncated"] and reward == -1
        assert state.env_state.step == steps and state.env_state.done == whole


def test_masks_and_firsts_reach_the_others() -> None:
    def others(policy_state: Any, obs: Any, rng: jax.Array, mask: Any, first: Any) -> Any:
        assert set(mask) == {"bob"} and first.shape == ()
        most = jnp.sum(mask["bob"], dtype=jnp.int32) - 1
        return {"bob": most}, jnp.where(first, 0, policy_state) + 1, None

    view = OneAgent(NimWorld(NimConfig(stones=20)), "alice", others, jnp.int32(7))
    assert view.action_space == envrax.Discrete(3)
    env, lost = small_vec(view, 8), False
    _, state = env.reset(KEYS[0])
    for _ in range(12):
        _, state, reward, _, _ = env.step(state, np.zeros(8, np.int32))
        lost |= bool((reward < 0).any())  # who takes all that is left, wins
        turns = state.env_state.step  # of this episode; the policy is asked in each of them
        assert (jnp.where(turns > 0, state.policy_state, 0) == turns).all()
    assert lost


def test_auto_reset_keeps_the_opponent_and_a_new_one_compiles_nothing(compile_counter: Any) -> None:
    view = RecordEpisodeStatistics(OneAgent(NimWorld(), "alice", takes, 0))
    env = small_vec(view, 4)
    actions = np.zeros(4, np.int32)
    _, state = env.reset(KEYS[0])
    _, state, *_ = env.step(state, actions)
    for new, each in ((jnp.int32(2), [2] * 4), (jnp.arange(4) % 3, [0, 1, 2, 0])):
        state = with_policy_state(env, state, new)
        with compile_counter() as compiled:
            for _ in range(12):
                _, state, _, dones, _ = env.step(state, actions)
        assert compiled.count == 0
        assert state.env_state.policy_state.tolist() == each


class Drawn(NimWorld):
    def render(self, state: Any) -> Any:
        return np.zeros((4, 4, 3), np.uint8)


@cache
def nim() -> tuple[Any, Any]:
    """A batch of `OneAgent`, and its state."""
    env = small_vec(OneAgent(NimWorld(), "alice", takes, jnp.int32(0)), 4)
    return env, env.reset(KEYS[0])[1]


def small(dtype: Any = jnp.uint8) -> tuple[Any, Any]:
    """The same with a small number as state of the policy."""
    env, state = nim()
    return env, state.replace(policy_state=state.policy_state.astype(dtype))


def at_start() -> Any:
    return envrax.start(nim()[0], KEYS[0])


def test_a_number_that_fits_takes_the_dtype_of_the_old_state() -> None:
    for new in (255, np.int64(255), jnp.int32(255), np.full(4, 255), jnp.full(4, 255, jnp.int16)):
        state = with_policy_state(*small(), new).policy_state
        assert state.dtype == jnp.uint8 and state.tolist() == [255] * 4


@pytest.mark.parametrize(
    ("call", "error", "noun"),
    [
        (lambda: with_policy_state(*nim(), jnp.zeros(3, jnp.int32)), ValueError, "shape"),
        (lambda: with_policy_state(*nim(), 1.5), ValueError, "int32"),
        (lambda: with_policy_state(*nim(), {"w": jnp.int32(0)}), ValueError, "first one"),
        (lambda: with_policy_state(nim()[0], nim()[1].env_state, 0), TypeError, "OneAgent"),
        (lambda: with_policy_state(nim()[0], at_start(), 0), TypeError, "Rollout.*`env_state`"),
        (lambda: with_policy_state(*small(), 300), ValueError, "fit"),
        (
            lambda: with_policy_state(*small(jnp.float16), 1e5),
            ValueError,
            "numbers that fit float16",
        ),
        (lambda: with_policy_state(*small(), np.arange(-1, 3)), ValueError, "fit"),
        (lambda: with_policy_state(*small(), jnp.int32(256)), ValueError, "fit"),
        (lambda: with_policy_state(*nim(), np.int64(2**32)), ValueError, "fit"),
        (lambda: jax.jit(partial(with_policy_state, *small()))(jnp.int32(2)), ValueError, "fit"),
        (lambda: OneAgent(NimWorld(), "alise", None), ValueError, "alice"),
        (lambda: OneAgent(RecordVideo(Drawn()), "alice", None), TypeError, "trace"),
        (
            lambda: OneAgent(RecordEpisodeStatistics(NimWorld()), "alice", None),
            TypeError,
            "RecordEpisodeStatistics",
        ),
    ],
)
def test_what_is_refused(call: Any, error: Any, noun: str) -> None:
    with pytest.raises(error, match=noun):
        call()


@pytest.mark.slow
def test_gradients_pass_through_a_view_without_turns() -> None:
    class Pulls(ChaseWorld):
        active = envrax.JaxEnv.active

        def step(self, state: Any, action: Any) -> Any:
            obs, state, reward, done, info = super().step(state, action)
            return obs, state, {**reward, "hunter": jnp.square(action["hunter"])}, done, info

    view = OneAgent(Pulls(), "hunter", None)
    state = jax.jit(view.reset)(KEYS[0])[1]
    assert jax.jit(jax.grad(lambda action: view.step(state, action)[2]))(jnp.float32(1.5)) == 3.0


@pytest.mark.slow
def test_gradients_through_turns_are_those_forward() -> None:
    """`jax.grad` does not work through a loop of unknown length, as the page says."""

    class Priced(NimWorld):
        @property
        def action_space(self) -> Dict:
            return Dict(dict.fromkeys(self.agents, envrax.Box(0.0, 2.0, ())))

        def step(self, state: Any, action: Any) -> Any:
            whole = jax.tree.map(lambda x: x.astype(jnp.int32), action)
            obs, state, reward, done, info = super().step(state, whole)
            return obs, state, {**reward, "alice": jnp.square(action["alice"])}, done, info

        action_mask = envrax.JaxEnv.action_mask

    view = OneAgent(Priced(), "alice", lambda ps, obs, rng: ({"bob": jnp.float32(1)}, ps, None))
    _, state = view.reset(KEYS[0])

    def reward(action: jax.Array) -> jax.Array:
        return view.step(state, action)[2]

    action = jnp.float32(1.5)
    value, slope = jax.jit(partial(jax.jvp, reward))((action,), (jnp.float32(1),))
    assert slope == 2 * value / action > 0
    with pytest.raises(ValueError, match="Reverse-mode"):
        jax.grad(reward)(action)


def test_an_agent_alone_is_played_like_the_world() -> None:
    """Returns of `evaluate` by agent are those of the views, where policies draw nothing."""
    policy: Any = lambda _, obs, rng: (jax.tree.map(lambda x: x[..., 0] % 3, obs), None, None)  # noqa: E731
    others: Any = lambda _, obs, rng: ({"bob": obs["bob"][0] % 3}, None, None)  # noqa: E731
    whole = evaluate(NimWorld(), policy, KEYS[0], 64)
    alone = evaluate(OneAgent(NimWorld(), "alice", others), policy, KEYS[1], 64)
    assert set(np.unique(whole.returns["alice"])) == set(np.unique(alone.returns)) == {-1.0, 1.0}
    np.testing.assert_array_equal(whole.returns["alice"], -whole.returns["bob"])


@pytest.mark.slow
def test_the_checker_finds_nothing() -> None:
    check_env(OneAgent(NimWorld(), "alice", None))  # its own key is not that of the world
    chase = ChaseWorld()
    alike = [x for x in chase.agents if x != "hunter"]
    check_batched_env(agents_as_slots(small_vec(chase, 2), alike))


@pytest.mark.slow
def test_where_all_is_over_before_the_first_move_any_action_is_legal() -> None:
    class Strict(NimWorld):  # nothing is legal in a state that has ended
        def action_mask(self, state: Any) -> Any:
            return dict.fromkeys(self.agents, jnp.arange(3, dtype=jnp.int32) < state.left)

    view = OneAgent(Strict(NimConfig(stones=1)), "alice", None)
    _, state = small_vec(view, 8).reset(KEYS[0])
    assert state.agent_done.any() and not state.agent_done.all()
    assert jax.vmap(view.action_mask)(state).any(axis=1).all()


class Paths(Space):
    """A space with masks of a form of its own."""

    shape, dtype = (2,), np.dtype(np.int32)

    def sample(self, rng: jax.Array, mask: Any = None) -> Any:
        return jax.random.randint(rng, (2,), 0, 2, jnp.int32)

    def contains(self, x: Any) -> Any:
        return Box(0, 1, (2,), jnp.int32).contains(x)

    def batch(self, n: int) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("space", "legal", "over"),
    [
        (MultiDiscrete((2, 3)), [[True, False, False]] * 2, [[True, True, False], [True] * 3]),
        (Paths(), [True, False], [True, True]),
    ],
)
def test_where_an_episode_is_over_a_mask_keeps_its_padding(
    space: Any, legal: Any, over: Any
) -> None:
    class Masked(ChaseWorld):
        action_space: Any = Dict(dict.fromkeys(ChaseWorld().agents, space))

        def action_mask(self, state: Any) -> Any:
            return dict.fromkeys(self.agents, jnp.array(legal))

    view = OneAgent(Masked(), "hunter", None)
    _, state = view.reset(KEYS[0])
    assert view.action_mask(state).tolist() == legal
    assert view.action_mask(state.replace(agent_done=jnp.bool_(True))).tolist() == over


def test_turns_are_those_of_the_fields_that_were_drawn() -> None:
    @chex.dataclass
    class ShiftConfig(NimConfig):
        shift: int = 0

    class Shifted(NimWorld):
        def active(self, state: Any) -> Any:
            turn = (state.turn + self.config.shift) % 2
            return {agent: turn == i for i, agent in enumerate(self.agents)}

    env = DomainRandomization(Shifted(ShiftConfig()), lambda rng: {"shift": jnp.int32(1)})
    _, state = env.reset(KEYS[0])
    expected = Shifted(ShiftConfig(shift=1)).active(state.env_state)
    assert_trees_equal(env.active(state), expected)


def test_opponents_outlive_a_donated_state() -> None:
    env = small_vec(OneAgent(NimWorld(), "alice", takes, 0), 4, donate=True)
    mine = jnp.zeros(4, jnp.int32)
    state = with_policy_state(env, nim()[0].reset(KEYS[0])[1], mine)
    env.step(state, np.zeros(4, np.int32))
    assert mine.tolist() == [0] * 4


@pytest.mark.slow
def test_a_world_that_is_over_before_the_first_move_takes_no_further_step() -> None:
    env = small_vec(OneAgent(NimWorld(NimConfig(stones=1)), "alice", takes, 0), 8, final_obs=True)
    _, state = env.reset(KEYS[0])
    early = state.agent_done
    assert early.any() and not early.all()
    _, after, reward, done, _ = jax.jit(jax.vmap(env.env.step))(state, jnp.zeros(8, jnp.int32))
    assert done.all() and (reward == jnp.where(early, -1.0, 1.0)).all()
    assert after.env_state.step.tolist() == [1] * 8
    unchanged = jax.tree.map(lambda x: x[early], (state, after.replace(step=state.step)))
    for name in ("rng", "env_state", "policy_state", "last_obs", "last_info"):
        assert_trees_equal(*[getattr(x, name) for x in unchanged])


def draws(policy_state: Any, obs: Any, rng: jax.Array) -> Any:
    """Bob draws with a key of his own."""
    policy_state, key = jax.random.split(policy_state)
    return {"bob": jax.random.randint(key, (), 0, 3, jnp.int32)}, policy_state, None


@pytest.mark.slow
def test_the_others_may_keep_a_key() -> None:
    with jax.debug_key_reuse(True):
        env = small_vec(OneAgent(NimWorld(), "alice", draws, jax.random.key(1)), 4)
        _, state = env.reset(KEYS[0])
        for new in (jax.random.key(5), jax.random.split(jax.random.key(6), 4)):
            data = np.broadcast_to(jax.random.key_data(new), (4, 2))
            state = with_policy_state(env, state, new)
            np.testing.assert_array_equal(jax.random.key_data(state.policy_state), data)
            for _ in range(6):
                _, state, *_ = env.step(state, jnp.zeros(4, jnp.int32))
            assert (jax.random.key_data(state.policy_state) != data).all()
    rbg = jax.random.key(0, impl="rbg")
    with pytest.raises(ValueError, match=r"key<fry>.*key<rbg>"):
        with_policy_state(env, state, rbg)


def test_one_agent_may_wait_for_a_world_alone() -> None:
    """A world of one agent, which acts in every second step."""

    class Alone(NimWorld):
        @property
        def agents(self) -> tuple[str, ...]:
            return ("alice",)

        def step(self, state: Any, action: Any) -> Any:
            obs, state, reward, done, info = super().step(state, action)
            return obs, state, {"alice": reward["alice"]}, done, info

    view = OneAgent(Alone(), "alice", None)
    _, state = view.reset(KEYS[0])
    steps = int(state.env_state.step)
    assert state.env_state.turn == 0 and steps < 2
    _, state, _, done, _ = view.step(state, 0)
    assert state.env_state.turn == 0 and state.env_state.step == steps + 2 and not done
