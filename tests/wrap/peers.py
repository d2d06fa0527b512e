# pyright: basic
"""One walk on a line, as it is written in each protocol; no library is needed for it."""

from __future__ import annotations

import enum
from types import SimpleNamespace
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

LENGTH = 3.0
LIMIT = 7


class Place(NamedTuple):
    place: Any
    time: Any


class Params(NamedTuple):
    length: float = LENGTH
    max_steps_in_episode: int = LIMIT


class StepType(enum.IntEnum):
    FIRST = 0
    MID = 1
    LAST = 2


def begun(key: Any) -> Place:
    return Place(jax.random.uniform(key, (), jnp.float32, -1, 1), jnp.int32(0))


def moved(key: Any, state: Place, action: Any) -> Place:
    noise = jax.random.uniform(key, (), jnp.float32, -0.5, 0.5) if key is not None else 0.0
    return Place(state.place + 2 * action - 1 + noise, state.time + 1)


def observed(state: Place) -> Any:
    return state.place[None]


def out(state: Place, length: float = LENGTH) -> Any:
    return abs(state.place) >= length


def late(state: Place, limit: int = LIMIT) -> Any:
    return state.time >= limit


class Spaces:
    """Spaces by the attributes that libraries give them."""

    observation_space = SimpleNamespace(low=-20.0, high=20.0, shape=(1,), dtype=jnp.float32)
    action_space = SimpleNamespace(n=2, shape=(), dtype=jnp.int32)


class GymnaxLike:
    """gymnax: five values; `step` resets itself, `step_env` does not."""

    default_params = Params()

    def observation_space(self, params: Any) -> Any:
        return Spaces.observation_space

    def action_space(self, params: Any) -> Any:
        return Spaces.action_space

    def reset_env(self, key: Any, params: Any) -> Any:
        state = begun(key)
        return observed(state), state

    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        state = moved(key, state, action)
        done = out(state, params.length) | late(state, params.max_steps_in_episode)
        return observed(state), state, state.place, done, {"far": state.place}

    def reset(self, key: Any, params: Any) -> Any:
        return self.reset_env(key, params)

    def step(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        stepped = self.step_env(key, state, action, params)
        again = self.reset_env(key, params)
        return jax.tree.map(lambda a, b: jnp.where(stepped[3], a, b), again, stepped[:2])


class WrittenForOldGymnax(GymnaxLike):
    """It inherits a function of newer versions, which its state does not suit."""

    def is_truncated(self, state: Any, params: Any) -> Any:
        return state.tick >= params.max_steps_in_episode


class SixValues(GymnaxLike):
    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        obs, state, reward, _, info = super().step_env(key, state, action, params)
        ends = out(state, params.length), late(state, params.max_steps_in_episode)
        return obs, state, reward, *ends, info


class ReadsItsLimitOnly(GymnaxLike):
    """As in target-gym: `done` reads the limit, and `is_truncated` ends episodes."""

    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        state = moved(key, state, action)
        in_time = state.time <= params.max_steps_in_episode
        return observed(state), state, state.place, out(state, params.length) & in_time, {}

    def is_truncated(self, state: Any, params: Any) -> Any:
        return late(state, params.max_steps_in_episode)


class CountsItTwice(GymnaxLike):
    """As in safenax: `done` counts the limit, and so does the function that it inherits."""

    def is_truncated(self, state: Any, params: Any) -> Any:
        return late(state, params.max_steps_in_episode)


class StateAndInfo(Spaces):
    """As in lynnx: a reset returns an empty info beside the state."""

    def reset(self, key: Any) -> Any:
        return begun(key), {}

    def step(self, key: Any, state: Any, action: Any) -> Any:
        state = moved(key, state, action)
        return state, state.place, out(state), late(state), {}

    def get_obs(self, key: Any, state: Any) -> Any:
        return observed(state)


@chex.dataclass
class BraxState:
    pipeline_state: Any
    obs: Any
    reward: Any
    done: Any
    metrics: Any
    info: Any


class BraxLike:
    """Brax: one object for both; `done` is a float, and no limit counts in it."""

    action_size = 1
    observation_size = 1

    def reset(self, rng: Any) -> Any:
        rng, key = jax.random.split(rng)
        place = begun(key)
        zero = jnp.float32(0)
        info = {"rng": rng}
        return BraxState(
            pipeline_state=place, obs=observed(place), reward=zero, done=zero, metrics={}, info=info
        )

    def step(self, state: Any, action: Any) -> Any:
        rng, key = jax.random.split(state.info["rng"])
        place = moved(key, state.pipeline_state, (action[0] + 1) / 2)
        state.info["rng"] = rng
        return state.replace(
            pipeline_state=place,
            obs=observed(place),
            reward=place.place,
            done=out(place).astype(jnp.float32),
        )


@chex.dataclass
class TimeStep:
    step_type: Any
    reward: Any
    discount: Any
    observation: Any
    extras: Any


class JumanjiLike:
    """Jumanji: (state, time step); its limit has a discount of 0."""

    time_limit = LIMIT
    observation_spec = SimpleNamespace(minimum=-20.0, maximum=20.0, shape=(1,), dtype=jnp.float32)
    action_spec = SimpleNamespace(num_values=2, shape=(), dtype=jnp.int32)
    state_first = True

    def reset(self, key: Any) -> Any:
        state = begun(key)
        return self._both(state, StepType.FIRST, jnp.float32(1), jnp.float32(0))

    def step(self, state: Any, action: Any) -> Any:
        state = moved(None, state, action)
        last = out(state) | (state.time >= self.time_limit)
        kind = jnp.where(last, StepType.LAST, StepType.MID)
        return self._both(state, kind, 1.0 - last, state.place)

    def _both(self, state: Any, kind: Any, discount: Any, reward: Any) -> Any:
        step = TimeStep(
            step_type=jnp.int8(kind),
            reward=reward,
            discount=discount,
            observation=observed(state),
            extras={},
        )
        return (state, step) if self.state_first else (step, state)


class JumanjiByBranches(JumanjiLike):
    """As in Jumanji's own games: `cond` makes the time step."""

    def step(self, state: Any, action: Any) -> Any:
        state = moved(None, state, action)
        last = out(state) | (state.time >= self.time_limit)

        def ended() -> Any:
            return self._both(state, StepType.LAST, jnp.float32(0), state.place)

        def goes_on() -> Any:
            return self._both(state, StepType.MID, jnp.float32(1), state.place)

        return jax.lax.cond(last, ended, goes_on)


class DmEnvLike(JumanjiLike):
    """The time step first, as in a functional dm_env."""

    state_first = False


@chex.dataclass
class Pair:
    """A time step of jaxnasium, with flags of its own."""

    observation: Any
    reward: Any
    terminated: Any
    truncated: Any
    info: Any


class TimeStepOnlyAfter(Spaces):
    """jaxnasium: (obs, state) at reset, (time step, state) after a step."""

    max_steps = LIMIT

    def reset_env(self, key: Any) -> Any:
        state = begun(key)
        return observed(state), state

    def step_env(self, key: Any, state: Any, action: Any) -> Any:
        state = moved(key, state, action)
        step = Pair(
            observation=observed(state),
            reward=state.place,
            terminated=out(state),
            truncated=late(state, self.max_steps),
            info={},
        )
        return step, state


@chex.dataclass
class GameState:
    current_player: Any
    rewards: Any
    terminated: Any
    truncated: Any
    legal_action_mask: Any
    stones: Any


class PgxLike:
    """pgx: two players take one or two of seven stones in turn; who takes the last one wins."""

    def init(self, key: Any) -> Any:
        return GameState(
            current_player=jax.random.randint(key, (), 0, 2),
            rewards=jnp.zeros(2, jnp.float32),
            terminated=jnp.bool_(False),
            truncated=jnp.bool_(False),
            legal_action_mask=jnp.ones(2, jnp.bool_),
            stones=jnp.int32(7),
        )

    def step(self, state: Any, action: Any, key: Any = None) -> Any:
        stones = jnp.maximum(state.stones - action - 1, 0)
        won = stones == 0
        player = state.current_player
        return state.replace(
            stones=stones,
            current_player=1 - player,
            terminated=won,
            rewards=jnp.where(won, jnp.where(jnp.arange(2) == player, 1.0, -1.0), 0.0),
            legal_action_mask=jnp.stack([jnp.bool_(True), (stones > 1) | won]),
        )

    def reset(self, state: Any, key: Any) -> Any:
        """As in jax-envelope: it keeps a part of the state."""
        return state.replace(stones=self.init(key).stones)

    def observe(self, state: Any, player_id: Any) -> Any:
        return jnp.stack([state.stones, (state.current_player == player_id).astype(jnp.int32)])


class JaxMarlLike:
    """JaxMARL: dicts by agent; `dones["__all__"]` counts the limit."""

    agents = ["red", "blue"]  # noqa: RUF012
    max_steps = LIMIT

    def observation_space(self, agent: str) -> Any:
        return Spaces.observation_space

    def action_space(self, agent: str) -> Any:
        return Spaces.action_space

    def reset(self, key: Any) -> Any:
        places = [begun(k) for k in jax.random.split(key)]
        state = dict(zip(self.agents, places, strict=True))
        return {x: observed(place) for x, place in state.items()}, state

    def step_env(self, key: Any, state: Any, actions: Any) -> Any:
        keys = dict(zip(self.agents, jax.random.split(key), strict=True))
        state = {x: moved(keys[x], state[x], actions[x]) for x in self.agents}
        dones = {x: out(place) for x, place in state.items()}
        dones["__all__"] = (dones["red"] & dones["blue"]) | late(state["red"], self.max_steps)
        obs = {x: observed(place) for x, place in state.items()}
        rewards = {x: place.place for x, place in state.items()}
        return obs, state, rewards, dones, {}

    def step(self, key: Any, state: Any, actions: Any) -> Any:
        return self.reset(key), self.step_env(key, state, actions)


class FunctionalLike(Spaces):
    """Gymnasium's functional API, as lerax has it: keys by keyword."""

    def initial(self, *, key: Any) -> Any:
        return begun(key)

    def transition(self, state: Any, action: Any, *, key: Any) -> Any:
        return moved(key, state, action)

    def observation(self, state: Any, *, key: Any) -> Any:
        return observed(state)

    def reward(self, state: Any, action: Any, next_state: Any, *, key: Any) -> Any:
        return next_state.place - state.place

    def terminal(self, state: Any, *, key: Any) -> Any:
        return out(state)

    def truncate(self, state: Any) -> Any:
        return late(state)


class BatchedLike(Spaces):
    """gfnx: a batch of its own, masks of what is invalid, no keys."""

    class Params(NamedTuple):
        goal: int = 3

    default_params = Params()
    observation_space = SimpleNamespace(low=0, high=9, shape=(1,), dtype=jnp.int32)

    def reset(self, num_envs: int, env_params: Any) -> Any:
        state = Place(jnp.zeros(num_envs, jnp.int32), jnp.zeros(num_envs, jnp.int32))
        return state.place[:, None], state

    def step(self, state: Any, action: Any, env_params: Any) -> Any:
        state = Place(state.place + action, state.time + 1)
        done = state.place >= env_params.goal
        return state.place[:, None], state, done.astype(jnp.float32), done, {}

    def get_invalid_mask(self, state: Any, env_params: Any) -> Any:
        return jnp.stack([state.place < 0, state.place >= env_params.goal], axis=-1)


class LegacyKeys(Spaces):
    """It takes legacy keys only, and its state holds one."""

    max_steps = LIMIT

    def reset(self, key: Any) -> Any:
        if key.dtype != jnp.uint32:
            raise TypeError(f"Cannot interpret '{key.dtype}' as a data type")
        return begun(key).place[None], (begun(key), key)

    def step(self, state: Any, action: Any) -> Any:
        place, key = state
        key, own = jax.random.split(key)
        place = moved(own, place, action)
        done = out(place) | (place.time >= self.max_steps)
        return observed(place), (place, key), place.place, done, {}


class Anyhow(Spaces):
    """The free form: four values, and arguments in an order of its own."""

    horizon = LIMIT

    def reset(self, rng: Any) -> Any:
        state = begun(rng)
        return {"x": observed(state)}, state

    def step(self, actions: Any, env_state: Any, rng: Any) -> Any:
        state = moved(rng, env_state, actions)
        done = out(state) | (state.time >= self.horizon)
        return {"x": observed(state)}, state, state.place, done

    observation_space = SimpleNamespace(spaces={"x": Spaces.observation_space})


def functions() -> Any:
    """A tuple of functions."""
    walk = Anyhow()
    return walk.reset, walk.step
