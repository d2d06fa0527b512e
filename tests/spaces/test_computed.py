"""Spaces that `jnp` computes: where JAX traces their reader they are what they are alone."""

from functools import cached_property
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envrax
from envrax import (
    ActionWrapper,
    BatchedEnv,
    Box,
    Discrete,
    EnvConfig,
    EnvState,
    EpisodicEnv,
    MultiVecEnv,
    ObservationWrapper,
    VecEnv,
    with_config,
)
from envrax.interop import to_gymnax
from envrax.testing import check_batched_env, check_env
from envrax.wrappers import (
    DomainRandomization,
    FlattenObservation,
    FrameStackObservation,
    NormalizeObservation,
    RescaleAction,
)

KEY = jax.random.key(0)


@chex.dataclass
class State(EnvState):
    place: jax.Array


@chex.dataclass
class Config(EnvConfig):
    max_steps: int = 5
    gain: float = 2.0
    reach: float = 30.0


class Computed(EpisodicEnv[Any, Any, State, Config]):
    """Constants of `__init__` and both spaces are computed by `jnp`."""

    def __init__(self, config: Config | None = None) -> None:
        super().__init__(config)
        self.high = jnp.array([10.0, 20.0]) + self.config.reach
        self.table = jnp.arange(3)

    @property
    def observation_space(self) -> Any:
        return Box(-self.high, self.high, (2,))

    @property
    def action_space(self) -> Any:
        return Discrete(int(jnp.max(self.table)) + 1)

    def begin(self, key: jax.Array, **episode: Any) -> State:
        return State(place=jax.random.uniform(key, (2,)), **episode)

    def advance(self, state: State, action: Any) -> Any:
        place = state.place + self.config.gain * (jnp.float32(action) - 1)
        return state.replace(place=place), place[0], jnp.bool_(False)

    def observe(self, state: State) -> Any:
        return state.place


class Mixed(Computed):
    """A bound of Python and one of `jnp`; the actions are floats."""

    @property
    def observation_space(self) -> Any:
        return Box(-1000.0, jnp.float32(1000), (2,))

    @cached_property
    def action_space(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return Box(*jnp.linspace(0.0, 2.0, 2), ())


class AlreadyInInit(Computed):
    """A space of `__init__`, behind a property."""

    def __init__(self, config: Config | None = None) -> None:
        super().__init__(config)
        self.space = Box(-self.high, self.high, (2,))

    @property
    def observation_space(self) -> Any:
        return self.space


class Doubled(ObservationWrapper[Any, Any, Any, Any]):
    """A wrapper of the user, whose space `jnp` computes."""

    @property
    def observation_space(self) -> Any:
        return Box(*[2 * jnp.asarray(x) for x in self.env.observation_space.limits()], (2,))

    def observation(self, obs: Any) -> Any:
        space = self.env.observation_space  # read in the trace, by the user's hook
        return 2 * jnp.clip(obs, *space.limits())


class Reversed(ActionWrapper[Any, Any, Any, Any]):
    @property
    def action_space(self) -> Any:
        return Discrete(int(jnp.asarray(self.env.action_space.n)))

    def action(self, action: Any) -> Any:
        return self.env.action_space.n - 1 - action


class Batch(BatchedEnv[Any, Any]):
    """A batch of the user, whose spaces `jnp` computes."""

    @property
    def n_slots(self) -> int:
        return 3

    @property
    def single_observation_space(self) -> Any:
        return Box(jnp.float32(0), jnp.float32(99), ())

    @property
    def single_action_space(self) -> Any:
        return Discrete(int(jnp.int32(2)))

    def reset(self, rng: jax.Array) -> Any:
        obs = jax.random.uniform(rng, (3,))
        return obs, {"obs": obs, "rng": rng}

    def step(self, state: Any, actions: Any) -> Any:
        obs = jnp.minimum(state["obs"] + jnp.asarray(actions, jnp.float32), 99.0)
        never = jnp.zeros(3, bool)
        info = {"final_obs": obs, "terminated": never, "truncated": never}
        return obs, {**state, "obs": obs}, obs, never, info


STACKS: dict[str, Any] = {
    "plain": Computed,
    "mixed": Mixed,
    "in init": AlreadyInInit,
    "wrapped": lambda: Reversed(Doubled(Computed())),
    "flat": lambda: FlattenObservation(Doubled(Computed())),
    "stacked": lambda: FrameStackObservation(Computed(), n_stack=2),
    "rescaled": lambda: NormalizeObservation(RescaleAction(Mixed(), min_action=-1, max_action=1)),
}


@pytest.mark.parametrize("name", STACKS)
def test_every_reader_gets_the_space_that_it_has_alone(name: str) -> None:
    env = STACKS[name]()
    spaces = env.observation_space, env.action_space
    read: list[Any] = []
    jax.eval_shape(lambda: read.append((env.observation_space, env.action_space)))
    assert read == [spaces]

    batch = VecEnv(env, 2)
    assert batch.single_observation_space == spaces[0]
    begin = envrax.start(batch, KEY)
    end, steps = envrax.rollout(batch, None, begin, 6)
    assert steps.done.sum() == 2 and steps.obs.shape[:2] == (6, 2)


def test_every_tool_takes_it() -> None:
    env = Doubled(Computed())
    assert envrax.evaluate(env, None, KEY, 3).lengths.tolist() == [5, 5, 5]
    _, state = jax.jit(to_gymnax(env).reset)(KEY)
    assert state is not None
    fleet = MultiVecEnv([VecEnv(env, 2), VecEnv(Mixed(), 1)])
    assert len(fleet.reset(KEY)[0]) == 2
    check_env(env)


def test_a_batch_of_the_user() -> None:
    check_batched_env(Batch())
    steps = envrax.rollout(Batch(), None, envrax.start(Batch(), KEY), 4)[1]
    assert steps.reward.shape == (4, 3)


def test_fields_that_no_space_uses_may_be_drawn_and_traced() -> None:
    plain: Any = Computed()

    def reward(gain: Any) -> Any:
        env = with_config(plain, gain=gain)
        assert env.observation_space == plain.observation_space
        _, state = env.reset(KEY)
        return env.step(state, jnp.int32(2))[2]

    by_hand = [Computed(Config(gain=gain)) for gain in (1.0, 3.0)]
    expected = [float(env.step(env.reset(KEY)[1], 2)[2]) for env in by_hand]
    np.testing.assert_allclose(jax.jit(jax.vmap(reward))(jnp.array([1.0, 3.0])), expected)
    assert jax.grad(reward)(1.0) == jax.jit(jax.grad(reward))(1.0) == 1
    drawn = DomainRandomization(Computed(), lambda rng: {"gain": jax.random.uniform(rng)})
    assert VecEnv(drawn, 4).reset(KEY)[0].shape == (4, 2)
    check_env(drawn)


def test_a_field_that_a_space_uses_is_refused() -> None:
    with pytest.raises(TypeError, match="expected Computed to calculate with `reach`; got an env"):
        DomainRandomization(Computed(), lambda rng: {"reach": jax.random.uniform(rng)})
