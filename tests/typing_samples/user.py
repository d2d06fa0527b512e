"""
A user's file: an env, wrappers, fleets, a suite and a loop.

Strict checking finds nothing in it, and it runs on an installed package without anything else.
"""

from typing import Any, Generic, TypeVar

import chex  # pyright: ignore[reportMissingTypeStubs]
import jax
import jax.numpy as jnp
import numpy as np

from envrax import (
    ActionWrapper,
    Box,
    ClipReward,
    Discrete,
    EnvConfig,
    EnvSet,
    EnvSpec,
    EnvState,
    EnvSuite,
    FrameStackObservation,
    GrayscaleObservation,
    JaxEnv,
    JitWrapper,
    NormalizeObservation,
    ObservationWrapper,
    RecordEpisodeStatistics,
    RecordVideo,
    ResizeObservation,
    RewardWrapper,
    StatefulWrapper,
    VecEnv,
    Wrapper,
    make,
    make_multi,
    make_multi_vec,
    make_vec,
    register,
    register_suite,
)
from envrax.env import ActSpaceT, ConfigT, ObsSpaceT, StateT
from envrax.wrappers import WrapperState

Info = dict[str, Any]
InnerStateT = TypeVar("InnerStateT", bound=EnvState)


@chex.dataclass  # pyright: ignore[reportUnknownMemberType]
class BallState(EnvState):
    pos: jax.Array


@chex.dataclass  # pyright: ignore[reportUnknownMemberType]
class BallConfig(EnvConfig):
    speed: float = 0.1


class BallEnv(JaxEnv[Box, Discrete, BallState, BallConfig]):
    @property
    def observation_space(self) -> Box:
        return Box(0, 255, (8, 8, 3), jnp.uint8)

    @property
    def action_space(self) -> Discrete:
        return Discrete(4)

    def reset(self, rng: jax.Array) -> tuple[jax.Array, BallState]:
        state = BallState(rng=rng, step=jnp.int32(0), done=jnp.bool_(False), pos=jnp.float32(0.5))
        return self.draw(state), state

    def step(
        self, state: BallState, action: jax.Array
    ) -> tuple[jax.Array, BallState, jax.Array, jax.Array, Info]:
        step = state.step + 1
        done = step >= self.config.max_steps
        state = state.replace(pos=state.pos + self.config.speed * action, step=step, done=done)
        return self.draw(state), state, state.pos, done, {}

    def draw(self, state: BallState) -> jax.Array:
        return jnp.broadcast_to(state.pos, (8, 8, 3)).astype(jnp.uint8)

    def render(self, state: BallState) -> np.ndarray:
        return np.asarray(self.draw(state))


class DemoSuite(EnvSuite):
    prefix = "demo"
    category = "Demo"
    specs = [EnvSpec("Ball", BallEnv, BallConfig())]


class Inverted(ObservationWrapper[Box, ActSpaceT, StateT, ConfigT]):
    @property
    def observation_space(self) -> Box:
        return Box(0, 255, (8, 8, 3), jnp.uint8)

    def observation(self, obs: jax.Array) -> jax.Array:
        return 255 - obs


class Turned(ActionWrapper[ObsSpaceT, Discrete, StateT, ConfigT]):
    @property
    def action_space(self) -> Discrete:
        return Discrete(4)

    def action(self, action: jax.Array) -> jax.Array:
        return 3 - action


class Scaled(RewardWrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    def __init__(
        self, env: JaxEnv[ObsSpaceT, ActSpaceT, StateT, ConfigT], factor: float = 2.0
    ) -> None:
        super().__init__(env)
        self.factor = factor

    def reward(self, reward: jax.Array) -> jax.Array:
        return self.factor * reward


class Tagged(Wrapper[ObsSpaceT, ActSpaceT, StateT, ConfigT]):
    def info(self, info: Info) -> Info:
        return {**info, "tag": jnp.int32(1)}


@chex.dataclass  # pyright: ignore[reportUnknownMemberType]
class CountState(WrapperState[InnerStateT]):
    count: jax.Array


class Count(
    StatefulWrapper[ObsSpaceT, ActSpaceT, CountState[InnerStateT], ConfigT, InnerStateT],
    Generic[ObsSpaceT, ActSpaceT, InnerStateT, ConfigT],
):
    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        return obs, {"count": jnp.int32(0)}

    def on_step(
        self,
        obs: Any,
        state: CountState[InnerStateT],
        reward: jax.Array,
        done: jax.Array,
        info: Info,
    ) -> tuple[Any, CountState[InnerStateT], jax.Array, jax.Array, Info]:
        return obs, state.replace(count=state.count + 1), reward, done, info


def every_tenth(episode: int) -> bool:
    return episode % 10 == 0


register("Ball-v0", BallEnv, BallConfig(speed=0.2))
register("Ball-v1", BallEnv, EnvConfig(max_steps=500))

IMAGE = [GrayscaleObservation, ResizeObservation(h=84, w=84), FrameStackObservation(n_stack=4)]
made = make(
    "Ball-v0",
    wrappers=[
        *IMAGE,
        NormalizeObservation,
        ClipReward,
        Scaled(factor=0.5),
        RecordVideo(fps=30, episode_trigger=every_tenth),
        lambda env: RecordEpisodeStatistics(env),
    ],
)
made_vec = make_vec("Ball-v0", n_envs=8, wrappers=[JitWrapper(pre_warm=False)])

env = Count(Tagged(Turned(Inverted(BallEnv()))))
vec_env = VecEnv(env, num_envs=8, final_obs=True)


def run(rng: jax.Array) -> jax.Array:
    _, state = vec_env.reset(rng)
    total = jnp.float32(0)
    for _ in range(10):
        rng, key = jax.random.split(rng)
        actions = vec_env.action_space.sample(key)
        _, state, rewards, _, _ = vec_env.step(state, actions)
        total = total + rewards.sum()
    return total + state.count.sum() + state.env_state.pos.sum()


def train() -> int:
    """A loop in Python; episodes have 50 steps."""
    env = make("Ball-v0", max_steps=50)
    rng = jax.random.key(0)
    _, state = env.reset(rng)
    episodes = 0
    for _ in range(120):
        rng, key = jax.random.split(rng)
        _, state, _, done, _ = env.step(state, env.action_space.sample(key))
        if done:
            _, state = env.reset(key)
            episodes += 1
    return episodes


def step_fleets(rng: jax.Array) -> None:
    multi = make_multi(["Ball-v0", "Ball-v1"])
    multi.compile()
    _, states = multi.reset(rng)
    multi.step(states, [space.sample(rng) for space in multi.action_spaces])
    multi.reset_at(1, rng)
    fast = make_multi_vec({"fast": "Ball-v0", "slow": "Ball-v1"}, n_envs=8)
    _, many = fast.reset(rng)
    actions = {name: space.sample(rng) for name, space in fast.action_spaces.items()}
    rewards = fast.step(many, actions)[2]
    assert list(rewards) == ["fast", "slow"]


if __name__ == "__main__":
    register_suite(DemoSuite())
    assert list(EnvSet(DemoSuite())) == ["demo/Ball-v0"]
    by_hand = FrameStackObservation(ResizeObservation(GrayscaleObservation(BallEnv()), h=84, w=84))
    obs, _ = make("demo/Ball-v0", wrappers=[*IMAGE, ClipReward]).reset(jax.random.key(0))
    assert (by_hand.reset(jax.random.key(0))[0] == obs).all()
    assert train() == 2
    step_fleets(jax.random.key(0))
    print("total reward:", float(run(jax.random.key(0))))
