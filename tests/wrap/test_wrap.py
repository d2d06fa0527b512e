# pyright: basic
"""`envrax.wrap` and `envrax.recognise` of objects in each protocol, without their libraries."""

from __future__ import annotations

import collections.abc
import importlib
import pickle
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import slow_but
from wrap import peers

import envrax
from envrax.testing import check_env

# What each is understood as: how episodes end, and a part of what is printed.
UNDERSTOOD: dict[str, tuple[Any, dict[str, Any], str]] = {
    "gymnax": (peers.GymnaxLike, {}, "step_env(key, state, action, params) -> obs, state, reward"),
    "six values": (peers.SixValues, {}, "terminated, truncated, info"),
    "written for gymnax 0.0.9": (
        peers.WrittenForOldGymnax,
        {"limit": "params.max_steps_in_episode"},
        "one flag; an end that the limit makes is a truncation",
    ),
    "a limit that is only read": (peers.ReadsItsLimitOnly, {}, "is_truncated(state, params)"),
    "a limit counted twice": (peers.CountsItTwice, {}, "is_truncated(state, params)"),
    "a state and an info": (peers.StateAndInfo, {}, "reset(key) -> state, info"),
    "Brax": (peers.BraxLike, {"max_steps": 7}, "every end is a termination"),
    "Jumanji": (peers.JumanjiLike, {}, "7 steps, `time_limit`"),
    "Jumanji, by branches": (peers.JumanjiByBranches, {}, "7 steps, `time_limit`"),
    "dm_env": (peers.DmEnvLike, {}, "`discount` at the last step"),
    "jaxnasium": (peers.TimeStepOnlyAfter, {}, "its own two flags"),
    "JaxMARL": (peers.JaxMarlLike, {}, "red, blue"),
    "functional": (peers.FunctionalLike, {}, "truncated: truncate(state)"),
    "legacy keys": (peers.LegacyKeys, {"legacy_keys": True}, "step(state, action) -> obs, state"),
    "free form": (peers.Anyhow, {}, "step(action, state, key) -> obs, state, reward, done"),
}


PROTOCOLS = (
    "gymnax",
    "six values",
    "Brax",
    "Jumanji",
    "dm_env",
    "JaxMARL",
    "functional",
    "free form",
)


@pytest.mark.parametrize("kind", slow_but(*PROTOCOLS, values=UNDERSTOOD))
def test_an_object_in_each_protocol(kind: str) -> None:
    """It is printed, and its episodes end at the limit of 7 by truncation, before it otherwise."""
    make, keywords, said = UNDERSTOOD[kind]
    env: Any = envrax.wrap(make(), **keywords)
    assert said in " ".join(str(env.unwrapped.reading).split())
    ends = {"terminated": 0, "truncated": 0}
    step = jax.jit(env.step)
    obs, state = env.reset(jax.random.key(0))
    for n, key in enumerate(jax.random.split(jax.random.key(1), 60)):
        action = env.action_space.sample(key, env.action_mask(state))
        obs, state, reward, done, info = step(state, action)
        assert env.observation_space.contains(jax.tree.map(np.asarray, obs))
        assert not info["truncated"] or state.step == 7
        assert not (info["truncated"] and info["terminated"]) or kind in (
            "six values",
            "a state and an info",
            "functional",
            "jaxnasium",
        )
        assert done == (info["truncated"] | info["terminated"])
        for name in ends:
            ends[name] += int(info[name])
        if done:
            obs, state = env.reset(jax.random.key(n))
    assert ends["terminated"] or kind == "JaxMARL"
    assert ends["truncated"]


CHECKED = ("six values", "Brax", "Jumanji, by branches", "JaxMARL", "legacy keys", "free form")


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(x, marks=pytest.mark.slow if x in CHECKED else pytest.mark.exhaustive)
        for x in UNDERSTOOD
    ],
)
def test_they_pass_the_checker(kind: str) -> None:
    make, keywords, _ = UNDERSTOOD[kind]
    check_env(envrax.wrap(make(), **keywords), num_steps=20)


def test_players_in_turn_are_a_world() -> None:
    env = envrax.wrap(peers.PgxLike())
    assert env.agents == ("player_0", "player_1")
    assert "in turn" in str(envrax.recognise(peers.PgxLike()))
    obs, state = env.reset(jax.random.key(0))
    for _ in range(4):
        who = int(state.inner.current_player)
        active = env.active(state)
        assert [bool(active[x]) for x in env.agents] == [who == 0, who == 1]
        assert int(obs[f"player_{who}"][1]) == 1
        obs, state, rewards, done, info = env.step(state, dict.fromkeys(env.agents, 1))
    assert bool(done) and bool(info["terminated"]) and not bool(info["truncated"])
    assert float(rewards[f"player_{who}"]) == 1.0 and float(rewards[f"player_{1 - who}"]) == -1.0


def test_a_tuple_of_functions_and_a_module() -> None:
    env = envrax.wrap(peers.functions(), max_steps=7, action_space=envrax.Discrete(2))
    obs, state = env.reset(jax.random.key(0))
    assert obs["x"].shape == (1,) and env.config.max_steps == 7
    assert [bool(env.at_limit(state.replace(step=jnp.int32(n)))) for n in (6, 7)] == [False, True]


def test_it_is_pickled_and_configured() -> None:
    env = envrax.wrap(peers.GymnaxLike(), {"length": 9.0})
    again = pickle.loads(pickle.dumps(env))
    longer = envrax.with_config(again, max_steps=9)
    assert (again.config.max_steps, longer.config.max_steps) == (7, 9)
    assert longer.unwrapped.params == peers.Params(9.0, 9)


@pytest.mark.slow
def test_parameters_may_be_traced() -> None:
    def ends(length: Any) -> Any:
        env = envrax.wrap(peers.GymnaxLike(), {"length": length})
        state = env.reset(jax.random.key(0))[1]
        return env.step(state, 1)[-1]["terminated"]

    assert jax.jit(jax.vmap(ends))(jnp.array([0.0, 9.0])).tolist() == [True, False]


# Misleading objects.


class TwoLimits(peers.GymnaxLike):
    class Params(peers.Params):
        pass

    step_limit = 5

    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        obs, state, reward, done, info = super().step_env(key, state, action, params)
        return obs, state, reward, done | (state.time >= self.step_limit), info


class UnreadLimit(peers.GymnaxLike):
    """As in nasimjax: the inherited field is not the one that counts."""

    step_limit = 5

    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        state = peers.moved(key, state, action)
        done = peers.out(state) | (state.time >= self.step_limit)
        return peers.observed(state), state, state.place, done, {}


class Placeholder(UnreadLimit):
    """As in pobax: gymnax's base class has a limit of 1, which nothing reads."""

    default_params = peers.Params(max_steps_in_episode=1)
    step_limit = None  # type: ignore[assignment]

    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        state = peers.moved(key, state, action)
        return peers.observed(state), state, state.place, peers.out(state), {}


class SwappedResults(peers.Anyhow):
    """(state, obs) of one type."""

    def reset(self, key: Any) -> Any:
        return jnp.zeros(2), jnp.zeros(2)

    observation_space = peers.SimpleNamespace(low=0, high=9, shape=(2,), dtype=jnp.float32)

    def step(self, key: Any, state: Any, action: Any) -> Any:
        return state + action, state, 1.0, state[0] > self.horizon, {}


class ResetsInside(peers.Anyhow):
    def step(self, key: Any, state: Any, action: Any) -> Any:
        obs, after, reward, done = peers.Anyhow.step(self, action, state, key)
        return *self._maybe(done, key, obs, after), reward, done

    def _maybe(self, done: Any, key: Any, *results: Any) -> Any:
        again = {"x": jax.random.uniform(key, (1,), jnp.float32, -1, 1)}, peers.begun(key)
        return jax.tree.map(lambda a, b: jnp.where(done, a, b), again, results)


@peers.chex.dataclass
class OddStep:
    observation: Any
    reward: Any
    is_over: Any
    timed_out: Any


class FlagsByOtherNames(peers.Anyhow):
    def reset(self, key: Any) -> Any:
        return peers.begun(key)[0][None], peers.begun(key)

    def step(self, key: Any, state: Any, action: Any) -> Any:
        state = peers.moved(key, state, action)
        step = OddStep(
            observation=peers.observed(state),
            reward=state.place,
            is_over=peers.out(state),
            timed_out=peers.late(state),
        )
        return step, state

    observation_space = peers.Spaces.observation_space


class SecretlyBatched(peers.Anyhow):
    def reset(self, key: Any) -> Any:
        return jnp.zeros((4, 1)), peers.Place(jnp.zeros(4), jnp.zeros(4))

    def step(self, key: Any, state: Any, action: Any) -> Any:
        state = peers.Place(state.place + action, state.time + 1)
        return state.place[:, None], state, state.place, state.place > 3, {}

    observation_space = peers.SimpleNamespace(low=0, high=1, shape=(4, 1), dtype=jnp.float32)


class LyingSpace(peers.GymnaxLike):
    def observation_space(self, params: Any) -> Any:
        return peers.SimpleNamespace(low=0.0, high=1.0, shape=(3,), dtype=jnp.float32)


class UnexplainedEnd(peers.Anyhow):
    horizon = None  # type: ignore[assignment]

    def step(self, actions: Any, env_state: Any, rng: Any) -> Any:
        state = peers.moved(rng, env_state, actions)
        return {"x": peers.observed(state)}, state, 0.0, peers.out(state) | (state.time >= 4)


class TwoFlags(peers.Anyhow):
    """As in rl2xla: `done` and `success`."""

    def step(self, actions: Any, env_state: Any, rng: Any) -> Any:
        state = peers.moved(rng, env_state, actions)
        return state, {"x": peers.observed(state)}, state.place, peers.late(state), peers.out(state)


class Stateful(peers.Anyhow):
    def __init__(self) -> None:
        self.time = 0

    def step(self, actions: Any, env_state: Any, rng: Any) -> Any:
        self.time = self.time + 1
        return peers.Anyhow.step(self, actions, env_state, rng)


class KeepsItsState(peers.Spaces):
    def reset(self, seed: Any = None) -> Any:
        return 0.0, {}

    def step(self, action: Any) -> Any:
        return 0.0, 0.0, False, False, {}


class InitInside(peers.PgxLike):
    def step(self, state: Any, action: Any, key: Any = None) -> Any:
        after = super().step(state, action, key)
        return jax.tree.map(lambda a, b: jnp.where(after.terminated, a, b), self.init(key), after)


class SeesOneView(peers.PgxLike):
    """As in mahjax: `observe` shows what the player sees whose turn it is."""

    def observe(self, state: Any) -> Any:  # type: ignore[override]
        return state.stones[None]


REFUSED: dict[Any, tuple[str, Any]] = {
    TwoLimits: (
        "two time limits that ends read, .* = 7 and .* = 5",
        {"limit": "none", "max_steps": 5},
    ),
    SwappedResults: (
        "two candidates for the state",
        {
            "reset": "reset(key) -> state, obs",
            "step": "step(key, state, action) -> state, obs, reward, done, info",
            "limit": "horizon",  # one array holds the place and the time
        },
    ),
    ResetsInside: ("`step` may reset itself: its end resets .place, .time", {}),
    InitInside: ("`step` may reset itself", {}),
    FlagsByOtherNames: (
        "no end of an episode",
        {"fields": {"terminated": "is_over", "truncated": "timed_out"}},
    ),
    SecretlyBatched: ("a batch of its own", {}),
    peers.BatchedLike: ("argument `num_envs` of `reset` has no known name", {}),
    SeesOneView: ("`observe\\(state\\)` takes no player", {}),
    peers.WrittenForOldGymnax: ("has no attribute 'tick'", {}),
    LyingSpace: (
        "its space of observations does not fit",
        {"observation_space": envrax.Box(-20.0, 20.0, (1,))},
    ),
    UnexplainedEnd: ("an end of an episode that nothing explains", {"max_steps": 4}),
    TwoFlags: (
        "`step` returns Place",
        {"step": "step(action, state, key) -> state, obs, reward, done, success", "max_steps": 7},
    ),
    Stateful: ("a stateful object: tracing its functions changed time", {}),
    KeepsItsState: ("takes no state", {}),
}


@pytest.mark.parametrize("peer", REFUSED)
def test_what_misleads_is_refused(peer: Any) -> None:
    """The error says what is understood, gives an adapter, and names a keyword that decides."""
    message, keywords = REFUSED[peer]
    with pytest.raises(TypeError, match=message):
        envrax.wrap(peer())
    if keywords:
        env = envrax.wrap(peer(), **keywords)
        _, state = env.reset(jax.random.key(0))
        assert env.observation_space.contains(env.step(state, 1)[0])


def test_the_limit_that_counts() -> None:
    """A field that `done` does not read is not the limit, nor is gymnax's placeholder of 1."""
    assert envrax.wrap(UnreadLimit()).config.max_steps == 5
    with pytest.raises(TypeError, match="nothing explains"):
        envrax.wrap(Placeholder())
    assert envrax.wrap(Placeholder(), done="terminated").config.max_steps == 2**31 - 1


class KeepsItsParams(peers.GymnaxLike):
    """As in jaxarc: what it is given for each call, it has as an attribute too."""

    def __init__(self) -> None:
        self.params = self.default_params


class ItsOwnParams(peers.JumanjiLike):
    """Its limit is in its own parameters, which its functions are not given."""

    def __init__(self) -> None:
        self.params = peers.SimpleNamespace(time_limit=7)

    time_limit = property(lambda self: self.params.time_limit)  # type: ignore[assignment]


def test_params_of_an_object_and_params_of_a_call() -> None:
    given = envrax.recognise(KeepsItsParams()).limit
    assert (given.place, given.in_params) == ("params.max_steps_in_episode", "max_steps_in_episode")
    own = envrax.recognise(ItsOwnParams()).limit
    assert (own.steps, own.place, own.in_params) == (7, "params.time_limit", "")


class Frames(peers.GymnaxLike):
    """A limit of frames, of which a step takes four."""

    default_params = peers.Params(100.0, 10)

    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        obs, state, reward, done, info = super().step_env(key, state, action, params)
        state = state._replace(time=state.time + 3)
        return obs, state, reward, done | peers.late(state, params.max_steps_in_episode), info


class Small(peers.JumanjiLike):
    time_limit = np.uint8(7)


# Fields with the name of a limit, whatever they are.


class APlace(peers.GymnaxLike):
    """`horizon` is where the line ends."""

    default_params = peers.Params(3.0, 0)
    horizon = 3

    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        obs, state, reward, _, info = super().step_env(key, state, action, params)
        return obs, state, reward, abs(state.place) >= self.horizon, info


class AGoalToo(peers.Anyhow):
    """It counts its limit, and makes a goal of it."""

    def step(self, actions: Any, env_state: Any, rng: Any) -> Any:
        obs, state, reward, done = super().step(actions, env_state, rng)
        return obs, state, reward, done | (state.place > self.horizon // 2)


class MovingGoal(peers.Anyhow):
    """Its goal moves after half of the time."""

    def step(self, actions: Any, env_state: Any, rng: Any) -> Any:
        obs, state, reward, done = super().step(actions, env_state, rng)
        goal = jnp.where(state.time < self.horizon // 2, 50.0, -50.0)
        return obs, state, reward, done | (state.place == goal)


class DoorOpens(peers.Anyhow):
    """Its door opens in the second half, which a flag of the counter alone says."""

    def step(self, actions: Any, env_state: Any, rng: Any) -> Any:
        obs, state, reward, done = super().step(actions, env_state, rng)
        return obs, state, reward, done | ((state.place > 1) & (state.time > self.horizon // 2))


class Alive(peers.Anyhow):
    """Its flag says that the episode goes on."""

    def step(self, actions: Any, env_state: Any, rng: Any) -> Any:
        *rest, done = super().step(actions, env_state, rng)
        return *rest, ~done


class DrawnClock(peers.Anyhow):
    """Its clock begins somewhere."""

    def reset(self, rng: Any) -> Any:
        obs, state = super().reset(rng)
        return obs, state._replace(time=jax.random.randint(rng, (), 0, 3))


class Seconds(peers.Anyhow):
    """A limit of seconds, of which a step takes a quarter."""

    time_limit = 1.5
    horizon = None  # type: ignore[assignment]

    def reset(self, rng: Any) -> Any:
        obs, state = super().reset(rng)
        return obs, state._replace(time=jnp.float32(0))

    def step(self, actions: Any, env_state: Any, rng: Any) -> Any:
        state = peers.moved(rng, env_state, actions)._replace(time=env_state.time + 0.25)
        late = jax.lax.cond(state.time >= self.time_limit, lambda: True, lambda: False)
        return {"x": peers.observed(state)}, state, state.place, peers.out(state) | late


class FromZero(peers.Anyhow):
    """It ends one step after its limit."""

    def step(self, actions: Any, env_state: Any, rng: Any) -> Any:
        state = peers.moved(rng, env_state, actions)
        late = env_state.time >= self.horizon
        return {"x": peers.observed(state)}, state, state.place, peers.out(state) | late


@pytest.mark.parametrize("peer", [APlace, AGoalToo, MovingGoal, DoorOpens, Alive, DrawnClock])
def test_a_field_with_the_name_of_a_limit(peer: Any) -> None:
    with pytest.raises(TypeError, match=r"more than a counter of steps is compared.*limit='none'"):
        envrax.wrap(peer())


def test_such_a_field_is_named_or_there_is_no_limit() -> None:
    ways: list[Any] = [{"limit": "horizon"}, {"limit": "none", "done": "terminated"}]
    for keywords in ways:
        assert envrax.wrap(APlace(), **keywords).config.max_steps == 2**31 - 1
    assert "not counted in steps" in str(envrax.recognise(APlace(), limit="horizon"))
    assert envrax.wrap(APlace(), limit="horizon", max_steps=7).config.max_steps == 7


class EightBits(peers.Anyhow):
    def reset(self, rng: Any) -> Any:
        obs, state = super().reset(rng)
        return obs, state._replace(time=jnp.uint8(0))


class AsLists(peers.Anyhow):
    """Its ends are in an array, of which any one ends the episode."""

    def step(self, actions: Any, env_state: Any, rng: Any) -> Any:
        obs, state, reward, _ = super().step(actions, env_state, rng)
        return (
            obs,
            state,
            reward,
            jnp.array([peers.out(state), peers.late(state, self.horizon)]).any(),
        )


COUNTED = [(Seconds, 6), (FromZero, 8), (Frames, 3), (EightBits, 7), (AsLists, 7), (Small, 7)]


@pytest.mark.parametrize(("peer", "n_steps"), COUNTED)
def test_a_limit_is_counted_in_steps(peer: Any, n_steps: int) -> None:
    """Whatever its field counts, and of whatever type."""
    env = envrax.wrap(peer())
    assert env.config.max_steps == n_steps
    _, state = env.reset(jax.random.key(1))
    for i in range(n_steps):
        _, state, *_, info = env.step(state, i % 2)
        assert info["truncated"] == (i + 1 == n_steps) and not info["terminated"]


class CountsDown(peers.TimeStepOnlyAfter):
    """Its limit is in the state from a reset on, and its one flag counts it."""

    def reset_env(self, key: Any) -> Any:
        obs, state = super().reset_env(key)
        return obs, state._replace(time=jnp.int32(self.max_steps))

    def step_env(self, key: Any, state: Any, action: Any) -> Any:
        state = peers.moved(key, state, action)._replace(time=state.time - 1)
        over = peers.out(state) | (state.time == 0)
        return Over(observation=peers.observed(state), reward=state.place, terminated=over), state


class Over(NamedTuple):
    observation: Any
    reward: Any
    terminated: Any


def test_a_termination_that_comes_at_a_certain_step_is_asked_about() -> None:
    """Its limit is under any name, or none: the count of steps makes an end."""
    with pytest.raises(TypeError, match="one comes at step 7 whatever happens"):
        envrax.wrap(CountsDown())
    assert envrax.wrap(CountsDown(), done="terminated").config.max_steps == 2**31 - 1
    for max_steps in (7, 9):
        env = envrax.wrap(CountsDown(), max_steps=max_steps)
        _, state = env.reset(jax.random.key(0))
        for i in range(7):
            _, state, _, done, info = env.step(state, i % 2)
        assert done and info["truncated"] == (max_steps == 7) != info["terminated"]


class DrawsItsTime(CountsDown):
    """Its time to go is drawn."""

    def reset_env(self, key: Any) -> Any:
        step, state = super().reset_env(key)
        return step, state._replace(time=jax.random.randint(key, (), 5, self.max_steps))


def test_a_declared_limit_that_no_end_reads() -> None:
    with pytest.raises(TypeError, match="`max_steps` = 7, which no end is seen to read"):
        envrax.wrap(DrawsItsTime())
    assert envrax.wrap(DrawsItsTime(), limit="none").config.max_steps == 2**31 - 1


class UnnamedLimit(peers.Anyhow):
    def step(self, actions: Any, env_state: Any, rng: Any) -> Any:
        state = peers.moved(rng, env_state, actions)
        return {"x": peers.observed(state)}, state, state.place, state.time >= 9


class WithSuccess(UnnamedLimit):
    """Its last value is no truncation."""

    def step(self, actions: Any, env_state: Any, rng: Any) -> Any:
        return *super().step(actions, env_state, rng), env_state.place > 0


class CountedFirst(UnnamedLimit):
    def step(self, actions: Any, env_state: Any, rng: Any) -> Any:
        return *super().step(actions, env_state, rng), jnp.bool_(False)


class WithCost(UnnamedLimit):
    """Its cost is a bool, where a termination would be."""

    def step(self, actions: Any, env_state: Any, rng: Any) -> Any:
        obs, state, reward, late = super().step(actions, env_state, rng)
        return obs, state, reward, state.place > 1, late | peers.out(state), {}


class TwoFlagsUnnamedLimit(UnnamedLimit):
    def step(self, actions: Any, env_state: Any, rng: Any) -> Any:
        obs, state, reward, late = super().step(actions, env_state, rng)
        return obs, state, reward, peers.out(state), late


def test_a_limit_under_any_name_is_counted() -> None:
    env = envrax.wrap(TwoFlagsUnnamedLimit())
    assert env.config.max_steps == 9
    with pytest.raises(TypeError, match="own limit, 9 steps, as counted; got 10"):
        envrax.with_config(env, max_steps=10)


class OneRewardOfTwo(peers.PgxLike):
    action_space = peers.SimpleNamespace(n=2)

    def init(self, key: Any) -> Any:
        return super().init(key).replace(rewards=jnp.float32(0))

    def step(self, state: Any, action: Any, key: Any = None) -> Any:
        after = super().step(state, action, key)
        return after.replace(rewards=after.rewards[0])


class ByAnotherFlag(peers.Anyhow):
    """It begins again where its end is, by a comparison of its own."""

    def step(self, actions: Any, env_state: Any, rng: Any) -> Any:
        obs, state, reward, done = super().step(actions, env_state, rng)
        again = jnp.abs(state.place) + 0.0 > 2.99
        fresh = peers.begun(rng)
        state = jax.tree.map(lambda a, b: jnp.where(again, a, b), fresh, state)
        return obs, state, reward, done


class OfOneState(peers.FunctionalLike):
    def reward(self, state: Any, action: Any) -> Any:  # type: ignore[override]
        return state.place


class InPlace(peers.Anyhow):
    def __init__(self) -> None:
        self.count = np.zeros(1, np.int32)

    def step(self, actions: Any, env_state: Any, rng: Any) -> Any:
        self.count += 1
        return super().step(actions, env_state, rng)


@pytest.mark.slow
def test_other_parameters_make_another_limit() -> None:
    class Ticks(peers.GymnaxLike):
        default_params: Any = {"tick": 1, "max_steps": 8}  # noqa: RUF012

        def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
            state = peers.moved(key, state, action)._replace(time=state.time + params["tick"])
            late = state.time >= params["max_steps"]
            return peers.observed(state), state, state.place, late, {}

    env = envrax.wrap(Ticks())
    four = envrax.with_config(env, params={"tick": 2})
    assert (env.config.max_steps, four.config.max_steps) == (8, 4)
    with pytest.raises(TypeError, match="at most the object's own limit, 3 steps"):
        envrax.with_config(envrax.with_config(env, max_steps=6), params={"tick": 2})

    @jax.jit
    def length(tick: Any) -> Any:
        state = envrax.with_config(env, params={"tick": tick}).reset(jax.random.key(0))[1]
        return jax.lax.while_loop(
            lambda x: ~x.done,
            lambda x: envrax.with_config(env, params={"tick": tick}).step(x, 1)[1],
            state,
        ).step

    assert [int(length(x)) for x in (1, 2, 4)] == [8, 4, 2]


class Out(NamedTuple):
    """All that a reset or a step returns, in one."""

    obs: Any
    state: Any
    reward: Any
    done: Any


class OneForAll(peers.Anyhow):
    observation_space = peers.Spaces.observation_space  # type: ignore[assignment]

    def reset(self, rng: Any) -> Any:
        obs, state = super().reset(rng)
        return Out(obs["x"], state, jnp.float32(0), jnp.bool_(False))

    def step(self, actions: Any, env_state: Any, rng: Any) -> Any:
        obs, state, reward, done = super().step(actions, env_state, rng)
        return Out(obs["x"], state, reward, done)


def test_a_named_tuple_of_all_results() -> None:
    """Its field is the state that a step takes, or all of it is: the user says which."""
    with pytest.raises(TypeError, match=r"two candidates for the state.*\{'state': 'state'\}"):
        envrax.wrap(OneForAll())
    env = envrax.wrap(OneForAll(), fields={"state": "state"})
    same = envrax.wrap(peers.Anyhow())
    state, other = env.reset(jax.random.key(0))[1], same.reset(jax.random.key(0))[1]
    for i in range(7):
        obs, state, *rest = env.step(state, i % 2)
        expected, other, *others = same.step(other, i % 2)
        assert obs == expected["x"] and rest[:2] == others[:2]


def test_functions_beside_a_step_that_resets_are_named() -> None:
    class Inside(ResetsInside):
        def _move(self, state: Any, action: Any, key: Any) -> Any:
            return peers.Anyhow.step(self, action, state, key)

    with pytest.raises(TypeError, match="step='_move' takes `_move`"):
        envrax.wrap(Inside())
    assert envrax.wrap(Inside(), step="_move").config.max_steps == peers.LIMIT


class KeepsAList(peers.Anyhow):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def reset(self, rng: Any) -> Any:
        self.seen.append(rng)
        return super().reset(rng)


class CountsOnItself(peers.Anyhow):
    """The count begins as an attribute of the class."""

    laps = 0

    def reset(self, rng: Any) -> Any:
        self.laps += 1
        return super().reset(rng)


class CountsFromReset(peers.Anyhow):
    def reset(self, rng: Any) -> Any:
        self.time = 0
        return super().reset(rng)

    def step(self, actions: Any, env_state: Any, rng: Any) -> Any:
        self.time += 1
        return super().step(actions, env_state, rng)


class DrawsItsGoal(peers.Anyhow):
    def reset(self, rng: Any) -> Any:
        self.goal = jax.random.uniform(rng)
        return super().reset(rng)


class FillsACache(peers.Anyhow):
    """What is computed once is no state."""

    @cached_property
    def table(self) -> Any:
        return np.arange(3)

    def reset(self, rng: Any) -> Any:
        self.size = np.float32(self.table.size)
        self.shape = (self.table.size * 1000, "a")
        return super().reset(rng)


def test_a_cache_is_no_state() -> None:
    assert envrax.wrap(FillsACache()).name == "FillsACache"


class UnknownCap(peers.JumanjiLike):
    """A limit under a name of its own, with a discount of 0."""

    time_limit = None  # type: ignore[assignment]
    cap = 5

    def step(self, state: Any, action: Any) -> Any:
        state = peers.moved(None, state, action)
        last = state.time >= self.cap
        kind = jnp.where(last, peers.StepType.LAST, peers.StepType.MID)
        return self._both(state, kind, 1.0 - last, state.place)


class OneReward(peers.JaxMarlLike):
    def step_env(self, key: Any, state: Any, actions: Any) -> Any:
        obs, state, _, dones, info = super().step_env(key, state, actions)
        return obs, state, jnp.float32(1), dones, info


class SecondOfTwoArrays(peers.Anyhow):
    """The state is the first of two arrays of unequal shapes."""

    observation_space = None  # type: ignore[assignment]

    def reset(self, rng: Any) -> Any:
        return jnp.zeros(3), jnp.zeros(2)

    def step(self, actions: Any, env_state: Any, rng: Any) -> Any:
        state = env_state + 1
        return state, state[:2], state[2], state[2] > 3


@pytest.mark.parametrize(
    ("peer", "said"),
    [
        (KeepsAList, "a stateful object: tracing its functions changed seen"),
        (InPlace, "a stateful object: tracing its functions changed count"),
        (CountsOnItself, "a stateful object: tracing its functions changed laps"),
        (CountsFromReset, "a stateful object: tracing its functions changed time"),
        (DrawsItsGoal, "a stateful object: tracing its functions changed goal"),
        (ByAnotherFlag, "`step` may reset itself"),
        (OfOneState, r"`reward\(state, action\)` takes one state"),
        (UnknownCap, "max_steps=5 says that the flag counts 5 steps, as its program does"),
        (UnnamedLimit, "max_steps=9 says that the flag counts 9 steps, as its program does"),
        (WithSuccess, "the last flag of `step` does not follow from the count of steps"),
        (WithCost, "the last flag of `step` does not follow from the count of steps"),
        (CountedFirst, "the termination of `step` counts the time limit"),
        (OneRewardOfTwo, "one number for a reward: whose is it"),
        (OneReward, "not one for each agent"),
        (SecondOfTwoArrays, "observations of float32.3. and float32.2."),
    ],
)
def test_more_that_misleads_is_refused(peer: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        envrax.wrap(peer())


def test_a_mask_of_integers_is_not_taken_for_bools() -> None:
    class Moves(peers.GymnaxLike):
        def action_mask(self, state: Any) -> Any:
            return jnp.arange(2)  # the legal moves

    env: Any = envrax.wrap(Moves())
    assert env.action_mask(env.reset(jax.random.key(0))[1]) is None
    assert "no mask" in env.unwrapped.reading.facts["mask"]


def test_wrong_keywords() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"limit": "stepz"}, "expected `limit` to name a field"),
        ({"done": "ended"}, "expected `done` to be 'terminated'"),
        ({"step": "step(kee)"}, "expected arguments among key"),
        ({"step": "7 steps"}, "expected a function as in"),
        ({"fields": {"terminate": "x"}}, "expected `fields` of obs"),
    ]
    for keywords, said in wrong:
        with pytest.raises(TypeError, match=said):
            envrax.wrap(peers.JumanjiLike(), **keywords)
    with pytest.raises(TypeError, match="an environment of another library"):
        envrax.wrap(envrax.wrap(peers.Anyhow()))
    with pytest.raises(TypeError, match="Pass an instance"):
        envrax.wrap(peers.Anyhow)
    with pytest.raises(
        TypeError, match="expected `max_steps` of at most the object's own limit, 7"
    ):
        envrax.wrap(peers.JumanjiLike(), max_steps=8)
    assert envrax.wrap(peers.JumanjiLike(), max_steps=2).config.max_steps == 2


class Won(NamedTuple):
    won: Any


class Mapping(collections.abc.Mapping):
    """A mapping that is no dict, as a `FrozenDict` of flax."""

    def __init__(self, **entries: Any) -> None:
        self.entries = entries

    def __getitem__(self, name: str) -> Any:
        return self.entries[name]

    def __iter__(self) -> Any:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


jax.tree_util.register_pytree_node(
    Mapping,
    lambda x: ([*x.entries.values()], tuple(x.entries)),
    lambda names, values: Mapping(**dict(zip(names, values, strict=True))),
)


@peers.chex.dataclass
class WonInDataclass:
    won: Any


INFOS: dict[str, tuple[Any, Any]] = {
    "a dict": (dict, {"won": True}),
    "a mapping": (Mapping, {"won": True}),
    "a mapping in a named tuple": (lambda won: Won(Mapping(x=won)), {"won": {"x": True}}),
    "a named tuple": (Won, {"won": True}),
    "a dataclass": (WonInDataclass, {"won": True}),
    "an empty dict": (lambda won: {}, {}),
    "an empty mapping": (lambda won: Mapping(), {}),
    "an empty tuple": (lambda won: (), {}),
    "None": (lambda won: None, {}),
}


@pytest.mark.parametrize("kind", INFOS)
def test_an_info_in_any_container_with_names(kind: str) -> None:
    """It becomes a dict, as of a step and of a time step."""
    make, expected = INFOS[kind]

    class Tells(peers.GymnaxLike):
        def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
            *results, _ = super().step_env(key, state, action, params)
            return *results, make(won=jnp.bool_(True))

    class TellsInStep(peers.TimeStepOnlyAfter):
        def step_env(self, key: Any, state: Any, action: Any) -> Any:
            step, state = super().step_env(key, state, action)
            return step.replace(info=make(won=jnp.bool_(True))), state

    for peer in (Tells, TellsInStep):
        env = envrax.wrap(peer())
        info = env.step(env.reset(jax.random.key(0))[1], 1)[-1]
        flags = {"terminated": False, "truncated": False}
        assert jax.tree.map(bool, info) == {**expected, **flags}


class OneEndOfAll(peers.JaxMarlLike):
    """Its agents have no ends of their own."""

    def step_env(self, key: Any, state: Any, actions: Any) -> Any:
        obs, state, rewards, dones, info = super().step_env(key, state, actions)
        return obs, state, rewards, {"__all__": dones["__all__"]}, info


class InMappings(peers.JaxMarlLike):
    def reset(self, key: Any) -> Any:
        obs, state = super().reset(key)
        return Mapping(**obs), state

    def step_env(self, key: Any, state: Any, actions: Any) -> Any:
        obs, state, rewards, dones, info = super().step_env(key, state, actions)
        return Mapping(**obs), state, Mapping(**rewards), Mapping(**dones), info


@pytest.mark.parametrize(("peer", "has_dones"), [(OneEndOfAll, False), (InMappings, True)])
def test_a_world_plays_as_the_same_in_the_usual_form(peer: Any, has_dones: bool) -> None:
    env, same = envrax.wrap(peer()), envrax.wrap(peers.JaxMarlLike())
    state, other = env.reset(jax.random.key(3))[1], same.reset(jax.random.key(3))[1]
    for i in range(peers.LIMIT):
        action = {"red": i % 2, "blue": 1}
        obs, state, *rest, info = env.step(state, action)
        expected, other, *others, told = same.step(other, action)
        assert ("dones" in info) == has_dones
        told = told if has_dones else {x: told[x] for x in told if x != "dones"}
        jax.tree.map(np.testing.assert_array_equal, (obs, rest, info), (expected, others, told))
    assert state.done


# What careful users hand over.


class FloatDone(peers.GymnaxLike):
    """As code of Brax and of PyTorch has it."""

    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        obs, state, reward, done, info = super().step_env(key, state, action, params)
        return obs, state, reward, done.astype(jnp.float32), info


class TakesAConfig(peers.GymnaxLike):
    default_params = None  # type: ignore[assignment]
    observation_space: Any = peers.Spaces.observation_space
    action_space: Any = peers.Spaces.action_space

    def reset_env(self, key: Any, config: Any) -> Any:
        return super().reset_env(key, config)

    def step_env(self, key: Any, state: Any, action: Any, config: Any) -> Any:
        return super().step_env(key, state, action, config)


class ShortNames(peers.GymnaxLike):
    """Its bounds are read: an array without any would not be one of them."""

    observation_space = action_space = None  # type: ignore[assignment]
    obs_space, act_space = peers.Spaces.observation_space, peers.Spaces.action_space


class OneClassOfSpaces(peers.GymnaxLike):
    """A class for all kinds of spaces: what one has not is None."""

    observation_space = peers.SimpleNamespace(  # type: ignore[assignment]
        low=-20.0, high=20.0, shape=(1,), dtype=jnp.float32, n=None, nvec=None, spaces=None
    )
    action_space = peers.SimpleNamespace(  # type: ignore[assignment]
        low=None, high=None, shape=None, dtype=None, n=2, nvec=None, spaces=None
    )


class BringsItsParams(peers.GymnaxLike):
    """The defaults are those of its base class, which its functions cannot read."""

    default_params = object()  # type: ignore[assignment]


class AsksForDefaults(peers.GymnaxLike):
    """As in vamos: `make` gives the parameters, and the defaults take arguments."""

    def default_params(self, n_agents: int) -> Any:  # type: ignore[override]
        raise AssertionError


@pytest.mark.parametrize(
    ("peer", "params"),
    [
        (FloatDone, None),
        (TakesAConfig, peers.Params()),
        (ShortNames, None),
        (OneClassOfSpaces, None),
        (BringsItsParams, peers.Params()),
        (AsksForDefaults, peers.Params()),
    ],
)
def test_it_plays_as_the_same_object_in_the_usual_form(peer: Any, params: Any) -> None:
    env, same = envrax.wrap(peer(), params), envrax.wrap(peers.GymnaxLike())
    assert env.observation_space == same.observation_space
    assert env.action_space == same.action_space and env.config.max_steps == peers.LIMIT
    state, other = env.reset(jax.random.key(3))[1], same.reset(jax.random.key(3))[1]
    for i in range(peers.LIMIT):
        obs, state, *rest = env.step(state, i % 2)
        expected, other, *others = same.step(other, i % 2)
        jax.tree.map(np.testing.assert_array_equal, (obs, rest), (expected, others))
        if state.done:
            break


class Discounts(FloatDone):
    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        obs, state, reward, done, info = super().step_env(key, state, action, params)
        return obs, state, reward, 1 - done, info


class ManyKeys(peers.GymnaxLike):
    def reset_env(self, key: Any, params: Any) -> Any:
        return jax.vmap(super().reset_env, (0, None))(key, params)


@pytest.mark.parametrize(
    ("peer", "said"),
    [
        (Discounts, r"`done` is float32\[\] at its place .* not one bool"),
        (ManyKeys, r"takes several keys. If the object is a batch .* `VecEnv`"),
        (peers.BatchedLike, r"`num_envs` .* If the object is a batch .* `VecEnv`"),
        (AsksForDefaults, r"take arguments, n_agents. `params` gives the parameters"),
    ],
)
def test_what_is_missing_is_named(peer: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        envrax.wrap(peer())


def test_an_older_release_is_read_by_its_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here nobody has gymnax, so that its adapter raises what it does beside an old one."""
    monkeypatch.setattr(peers.GymnaxLike, "__module__", "gymnax.old")
    with pytest.raises(envrax.MissingPackageError):
        importlib.import_module("envrax.interop.gymnax")
    env: Any = envrax.wrap(peers.GymnaxLike())
    assert env.unwrapped.library == "wrap" and env.config.max_steps == peers.LIMIT
