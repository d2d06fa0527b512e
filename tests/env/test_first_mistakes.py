"""What a newcomer gets wrong: each is a sentence of expected, got, and what to do."""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envrax
from envrax import (
    Box,
    ClipReward,
    Dict,
    Discrete,
    EnvConfig,
    EnvState,
    EpisodicEnv,
    FilterObservation,
    FlattenObservation,
    FrameStackObservation,
    GrayscaleObservation,
    JaxEnv,
    JitWrapper,
    MultiDiscrete,
    MultiEnv,
    MultiVecEnv,
    RecordEpisodeStatistics,
    ResizeObservation,
    RewardWrapper,
    StatefulWrapper,
    VecEnv,
    Wrapper,
    rollout,
    start,
)
from envrax.interop import from_host
from envrax.testing import ChaseWorld, CountingEnv
from envrax.wrappers import DomainRandomization, TimeAwareObservation, WrapperState
from envrax.wrappers.vector import NormalizeReward

KEY = jax.random.key(0)


class Parts(NamedTuple):
    place: Any
    image: Any


class Named(EpisodicEnv[Dict, Discrete, EnvState, EnvConfig]):
    """Its space is a `Dict`, and its observations are something else with these entries."""

    give: Any = Parts

    @property
    def observation_space(self) -> Dict:
        return Dict(image=Box(0, 255, (4, 4, 3), jnp.uint8), place=Box(-9.0, 9.0, (2,)))

    @property
    def action_space(self) -> Discrete:
        return Discrete(2)

    def begin(self, key: jax.Array, **episode: Any) -> EnvState:
        return EnvState(**episode)

    def advance(self, state: EnvState, action: Any) -> Any:
        return state, jnp.float32(1), jnp.bool_(False)

    def observe(self, state: EnvState) -> Any:
        return self.give(place=jnp.zeros(2), image=jnp.zeros((4, 4, 3), jnp.uint8))


class LacksAnEntry(Named):
    @staticmethod
    def give(place: Any, image: Any) -> Any:
        return {"place": place}


@pytest.mark.parametrize(
    ("env_class", "got"),
    [(Named, "got a Parts of length 2"), (LacksAnEntry, r"got keys \['place'\]")],
)
@pytest.mark.parametrize(
    "wrap",
    [
        FlattenObservation,
        TimeAwareObservation,
        FilterObservation(filter_keys=["place"]),
        FrameStackObservation(n_stack=2, key="image"),
        GrayscaleObservation(key="image"),
        ResizeObservation(h=2, w=2, key="image"),
        lambda env: VecEnv(env, 2),
    ],
    ids=["flatten", "time", "filter", "stack", "grayscale", "resize", "batch"],
)
def test_another_container_than_the_space(wrap: Any, env_class: Any, got: str) -> None:
    advice = r"Return what `observation_space.sample\(rng\)` looks like, or change the space."
    with pytest.raises(ValueError, match=f"expected .* to be a dict .*; {got}. {advice}"):
        wrap(env_class()).reset(KEY)


class OneReward(ChaseWorld):
    def step(self, state: Any, action: Any) -> Any:
        obs, state, reward, done, info = super().step(state, action)
        return obs, state, sum(reward.values()), done, info


class NotDecorated(EnvState):
    place: jax.Array


class ItsState(JaxEnv[Box, Discrete, EnvState, EnvConfig]):
    @property
    def observation_space(self) -> Box:
        return Box(-1.0, 1.0, ())

    @property
    def action_space(self) -> Discrete:
        return Discrete(2)

    def reset(self, rng: jax.Array) -> Any:
        common: Any = dict(rng=rng, step=jnp.int32(0), done=jnp.bool_(False))
        return jnp.float32(0), NotDecorated(place=jnp.float32(0), **common)

    def step(self, state: Any, action: Any) -> Any:
        raise AssertionError


def draw(rng: jax.Array) -> Any:
    return {"max_steps": jax.random.randint(rng, (), 2, 9)}


def vec() -> Any:
    return VecEnv(CountingEnv(), 2)


class Simulator:
    def reset(self, seed: int) -> Any:
        return np.float32(0)

    def step(self, action: Any) -> Any:
        return np.float32(0), 0.0, False, False, {}


@chex.dataclass
class WaitState(WrapperState[Any]):
    waited: Any


class Waits(StatefulWrapper[Any, Any, WaitState, Any, Any]):
    fields: Any = None

    def on_reset(self, obs: Any) -> Any:
        return obs, self.fields


class NoFields(Waits):
    fields: Any = {}  # noqa: RUF012


class OwnStep(Waits):
    fields: Any = {"waited": 0, "step": 0}  # noqa: RUF012


class Forgets(RewardWrapper[Any, Any, Any, Any]):
    def __init__(self, env: Any) -> None:
        self.factor = 2

    def reward(self, reward: Any) -> Any:
        return reward


class NoState(Named):
    def begin(self, key: Any, **episode: Any) -> Any:
        return episode


class SetsItsSpace(Wrapper[Any, Any, Any, Any]):
    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.action_space = Discrete(5)  # pyright: ignore[reportAttributeAccessIssue]


KEY_OR_SEED = r"reset: expected a PRNG key; got seed=3. Write `reset\(jax.random.key\(3\)\)`."
NO_KEY = r"reset: expected a PRNG key; got nothing. Write `reset\(jax.random.key\(0\)\)`."
MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "no key for an environment": (lambda: Named().reset(), f"Named.{NO_KEY}"),  # pyright: ignore
    "no key for a batch": (lambda: vec().reset(), f"VecEnv.{NO_KEY}"),
    "a state that is no EnvState": (
        lambda: NoState().reset(jax.random.key(0)),
        "NoState: expected begin to return the state alone, an EnvState; got",
    ),
    "a seed for an environment": (lambda: Named().reset(**SEED), f"Named.{KEY_OR_SEED}"),
    "a seed for a compiled one": (
        lambda: envrax.make("classic/CartPole-v0", pre_warm=False).reset(**SEED),
        f"JitWrapper.{KEY_OR_SEED}",
    ),
    "a seed for one of a library": (
        lambda: JitWrapper(CountingEnv(), pre_warm=False).reset(**SEED),
        f"JitWrapper.{KEY_OR_SEED}",
    ),
    "a seed for a wrapper": (
        lambda: ClipReward(CountingEnv()).reset(**SEED),
        f"ClipReward.{KEY_OR_SEED}",
    ),
    "a seed for a wrapper of a batch": (
        lambda: NormalizeReward(vec(), gamma=0.9).reset(**SEED),
        f"NormalizeReward.{KEY_OR_SEED}",
    ),
    "a seed for a batch": (lambda: vec().reset(**SEED), f"VecEnv.{KEY_OR_SEED}"),
    "a seed for a fleet": (lambda: MultiEnv([CountingEnv()]).reset(**SEED), KEY_OR_SEED),
    "a seed for a fleet of batches": (lambda: MultiVecEnv([vec()]).reset(**SEED), KEY_OR_SEED),
    "a seed for a simulator": (
        lambda: from_host(Simulator, 2, Box(-1.0, 1.0, ()), Discrete(2)).reset(**SEED),
        KEY_OR_SEED,
    ),
    "an int as a key": (
        lambda: Named().reset(0),  # pyright: ignore[reportArgumentType]
        r"Named.reset: expected a PRNG key; got 0. Make one with `jax.random.key\(seed\)`.",
    ),
    "Gymnasium's masks": (
        lambda: MultiDiscrete((3, 2)).sample(KEY, (np.ones(3, np.int8), np.ones(2, np.int8))),
        r"expected a mask of shape \(2, 3\), bool; got a tuple of length 2. Pad shorter rows",
    ),
    "more steps than an int32 counts": (
        lambda: rollout(CountingEnv(), None, start(CountingEnv(), KEY), 2**31),
        "rollout: expected n_steps to be at most 2147483647; got 2147483648.",
    ),
    "one reward for a world": (
        lambda: RecordEpisodeStatistics(OneReward()).step(
            RecordEpisodeStatistics(OneReward()).reset(KEY)[1], OneReward().action_space.sample(KEY)
        ),
        "OneReward: expected step to return a dict of rewards of .*; got float32",
    ),
    "a state without its decorator": (
        lambda: ItsState().reset(KEY),
        "expected NotDecorated to be a `@chex.dataclass`; got a class without it. Write",
    ),
    "no field of its own": (
        lambda: NoFields(CountingEnv()).reset(KEY),
        r"NoFields: expected on_reset to return a dict of the fields \['waited'\] of .*; got \[\]",
    ),
    "a field of the base": (
        lambda: OwnStep(CountingEnv()).reset(KEY),
        r"OwnStep: expected on_reset .*; got \['waited', 'step'\]",
    ),
    "a wrapper without its environment": (
        lambda: Forgets(CountingEnv()),
        r"Forgets: expected `__init__` to call `super\(\).__init__\(env\)`",
    ),
    "a space that is set": (
        lambda: SetsItsSpace(CountingEnv()),
        "SetsItsSpace: expected a space that is a property of the class; got Discrete",
    ),
    "two draws of one field": (
        lambda: DomainRandomization(DomainRandomization(CountingEnv(), draw), draw),
        "expected fields that no `DomainRandomization` inside of it draws; got max_steps.",
    ),
}
SEED: Any = {"seed": 3}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told(name: str) -> None:
    call, message = MISTAKES[name]
    with pytest.raises((AttributeError, TypeError, ValueError), match=message):
        call()
