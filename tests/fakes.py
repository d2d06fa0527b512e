"""The environments that the tests share, each of one kind that users write."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from envrax import Box, Dict, Discrete, EnvConfig, EnvState, JaxEnv, MultiDiscrete, Tuple
from envrax.multi_agent.world import MultiAgentEnv
from envrax.testing import CountingEnv, NimWorld
from envrax.testing.fakes import FakeConfig

F32 = jnp.float32


@chex.dataclass
class VectorState(EnvState):
    pos: jax.Array


@chex.dataclass
class VectorConfig(FakeConfig):
    gravity: float = 0.5


class VectorEnv(JaxEnv[Box, Discrete, VectorState, VectorConfig]):
    """A deterministic walk of fixed length; everything is differentiable in gravity."""

    @property
    def observation_space(self) -> Box:
        return Box(-jnp.inf, jnp.inf, (3,), F32)

    @property
    def action_space(self) -> Discrete:
        return Discrete(3)

    def reset(self, rng: jax.Array) -> tuple[jax.Array, VectorState]:
        rng, key = jax.random.split(rng)
        pos = jax.random.normal(key, (3,), F32) * self.config.gravity
        state = VectorState(rng=rng, step=jnp.int32(0), done=jnp.bool_(False), pos=pos)
        return pos, state

    def step(self, state: VectorState, action: jax.Array) -> tuple[Any, ...]:
        push = jnp.asarray(action).astype(F32) - 1.0
        pos = state.pos * 0.9 + push * self.config.gravity
        step = state.step + 1
        terminated, truncated = jnp.bool_(False), step >= self.config.max_steps
        state = state.replace(pos=pos, step=step, done=terminated | truncated)
        info = {"terminated": terminated, "truncated": truncated}
        return pos, state, -jnp.sum(pos**2), state.done, info


class PixelEnv(JaxEnv[Box, Discrete, VectorState, VectorConfig]):
    """A bright bar that moves over an image."""

    shape = (12, 10, 3)

    @property
    def observation_space(self) -> Box:
        return Box(0, 255, self.shape, jnp.uint8)

    @property
    def action_space(self) -> Discrete:
        return Discrete(3)

    def _image(self, pos: jax.Array) -> jax.Array:
        column = jnp.arange(self.shape[1], dtype=jnp.int32)[None, :, None]
        tint = jnp.asarray([255, 128, 1], jnp.int32)[None, None, :]
        lit = (column == pos[None, None]).astype(jnp.int32) * tint
        return jnp.broadcast_to(lit, self.shape).astype(jnp.uint8)

    def reset(self, rng: jax.Array) -> tuple[jax.Array, VectorState]:
        rng, key = jax.random.split(rng)
        pos = jax.random.randint(key, (1,), 0, self.shape[1], jnp.int32)
        state = VectorState(rng=rng, step=jnp.int32(0), done=jnp.bool_(False), pos=pos)
        return self._image(pos), state

    def step(self, state: VectorState, action: jax.Array) -> tuple[Any, ...]:
        pos = jnp.clip(state.pos + jnp.asarray(action, jnp.int32) - 1, 0, self.shape[1] - 1)
        step = state.step + 1
        done = step >= self.config.max_steps
        state = state.replace(pos=pos, step=step, done=done)
        info = {"terminated": jnp.bool_(False), "truncated": done}
        return self._image(pos), state, pos[0].astype(F32) - 4.0, done, info

    def render(self, state: VectorState) -> np.ndarray:
        return np.asarray(self._image(state.pos)).repeat(4, 0).repeat(4, 1)


class LivesEnv(PixelEnv):
    """Says how many lives are left: one is lost in every second step."""

    def step(self, state: VectorState, action: Any) -> tuple[Any, ...]:
        *rest, info = super().step(state, action)
        return *rest, {**info, "lives": 3 - rest[1].step // 2}


@chex.dataclass
class NestedState(EnvState):
    small: jax.Array  # int8
    flag: jax.Array  # bool
    half: jax.Array  # float16
    key: jax.Array  # a key of its own
    nothing: jax.Array  # shape (0,)
    pair: tuple[jax.Array, dict[str, jax.Array]]


class NestedEnv(JaxEnv[Dict, Dict, NestedState, VectorConfig]):
    """Observations, actions and state as nested pytrees of many dtypes."""

    @property
    def observation_space(self) -> Dict:
        return Dict(
            image=Box(0, 255, (2, 2), jnp.uint8),
            both=Tuple((Discrete(7), Box(-10.0, 10.0, (2,), F32))),
        )

    @property
    def action_space(self) -> Dict:
        return Dict(move=Discrete(3), turn=MultiDiscrete((2, 3)))

    def _obs(self, state: NestedState) -> dict[str, Any]:
        image = jnp.full((2, 2), state.small.astype(jnp.uint8), jnp.uint8)
        return {"image": image, "both": (state.step % 7, state.pair[1]["x"])}

    def reset(self, rng: jax.Array) -> tuple[Any, NestedState]:
        rng, key, half_key, pair_key = jax.random.split(rng, 4)
        small = jax.random.randint(key, (), 0, 100, jnp.int32).astype(jnp.int8)
        state = NestedState(
            rng=rng,
            step=jnp.int32(0),
            done=jnp.bool_(False),
            small=small,
            flag=small > 50,
            half=jax.random.uniform(half_key, (), F32).astype(jnp.float16),
            key=jax.random.fold_in(rng, 1),
            nothing=jnp.zeros((0,), F32),
            pair=(small.astype(jnp.uint8), {"x": jax.random.uniform(pair_key, (2,), F32)}),
        )
        return self._obs(state), state

    def step(self, state: NestedState, action: dict[str, jax.Array]) -> tuple[Any, ...]:
        rng, key = jax.random.split(state.rng)
        step = state.step + 1
        turned = jnp.sum(action["turn"], dtype=jnp.int32) + action["move"]
        state = state.replace(
            rng=rng,
            step=step,
            done=step >= jax.random.randint(key, (), 2, 6, jnp.int32),
            small=jnp.clip(state.small + turned.astype(jnp.int8), 0, 100),
            flag=~state.flag,
            key=jax.random.fold_in(state.key, 2),
        )
        return self._obs(state), state, state.half.astype(F32), state.done, {"turned": turned}


@chex.dataclass
class CoinConfig(EnvConfig):
    end_rate: float = 0.2
    reset_kind: str = "plain"


@chex.dataclass
class CoinState(EnvState):
    world: jax.Array


class CoinEnv(JaxEnv[Box, Box, CoinState, CoinConfig]):
    """
    Episodes of random length, by a coin in every step.

    `reset_kind` chooses what a reset is made of: "plain" draws, an inner "loop", or floats that
    XLA may round by batch width ("normal", whose multiply-adds it contracts where it likes;
    "norm", "softmax", "matmul").
    """

    @property
    def observation_space(self) -> Box:
        return Box(-jnp.inf, jnp.inf, (4,), F32)

    @property
    def action_space(self) -> Box:
        return Box(-1.0, 1.0, (2,), F32)

    def reset(self, rng: jax.Array) -> tuple[jax.Array, CoinState]:
        rng, key = jax.random.split(rng)
        world = jax.random.uniform(key, (4,), F32) - 0.5
        match self.config.reset_kind:
            case "normal":
                world = jax.random.normal(key, (4,), F32)
            case "loop":
                world = jax.lax.while_loop(
                    lambda w: jnp.max(jnp.abs(w)) > 0.1, lambda w: w * 0.7, world
                )
            case "norm":
                world = world / jnp.linalg.norm(world)
            case "softmax":
                world = jax.nn.softmax(world)
            case "matmul":
                world = jnp.outer(world, world) @ world
            case _:
                pass
        state = CoinState(rng=rng, step=jnp.int32(0), done=jnp.bool_(False), world=world)
        return world, state

    def step(self, state: CoinState, action: jax.Array) -> tuple[Any, ...]:
        rng, key = jax.random.split(state.rng)
        world = state.world * 0.5 + jnp.tile(action, 2)
        done = jax.random.uniform(key, (), F32) < self.config.end_rate
        state = state.replace(rng=rng, step=state.step + 1, done=done, world=world)
        return world, state, world[0], done, {}


ALL = [VectorEnv, PixelEnv, NestedEnv, CoinEnv]


class ScriptEnv(JaxEnv[Any, Discrete, EnvState, EnvConfig]):
    """Plays what it is given: one observation, and a reward per step until there are no more."""

    def __init__(self, space: Any = None, obs: Any = None, rewards: Any = (1.0,)) -> None:
        super().__init__(EnvConfig(max_steps=len(rewards)))
        self.space = Box(-jnp.inf, jnp.inf, (2,), F32) if space is None else space
        self.obs = np.zeros(self.space.shape, self.space.dtype) if obs is None else obs
        self.rewards = np.asarray(rewards, np.float32)

    @property
    def observation_space(self) -> Any:
        return self.space

    @property
    def action_space(self) -> Discrete:
        return Discrete(2)

    def reset(self, rng: jax.Array) -> tuple[Any, EnvState]:
        return self.obs, EnvState(rng=rng, step=jnp.int32(0), done=jnp.bool_(False))

    def step(self, state: EnvState, action: Any) -> tuple[Any, ...]:
        reward = jnp.asarray(self.rewards)[state.step]
        done = state.step + 1 >= self.config.max_steps
        state = state.replace(step=state.step + 1, done=done)
        return self.obs, state, reward, done, {"terminated": done, "truncated": jnp.bool_(False)}


class CounterEnv(CountingEnv):
    """The package's, under a name of the tests' own."""


@chex.dataclass
class PairState(EnvState):
    of: dict[str, Any]


class Pair(MultiAgentEnv[PairState, EnvConfig]):
    """Two agents, each in an env of its own; the world ends with the first of them."""

    def __init__(self, env: Any) -> None:
        super().__init__(env.config)
        self.one = env

    @property
    def agents(self) -> tuple[str, ...]:
        return "left", "right"

    @property
    def observation_space(self) -> Dict:
        return Dict(dict.fromkeys(self.agents, self.one.observation_space))

    @property
    def action_space(self) -> Dict:
        return Dict(dict.fromkeys(self.agents, self.one.action_space))

    def reset(self, rng: jax.Array) -> tuple[Any, PairState]:
        rng, *keys = jax.random.split(rng, 3)
        begun = {agent: self.one.reset(k) for agent, k in zip(self.agents, keys, strict=True)}
        of = {agent: state for agent, (_, state) in begun.items()}
        done, step = jnp.bool_(False), jnp.int32(0)
        obs = {agent: obs for agent, (obs, _) in begun.items()}
        return obs, PairState(rng=rng, step=step, done=done, of=of)

    def step(self, state: PairState, action: Any) -> tuple[Any, ...]:
        out = {agent: self.one.step(state.of[agent], action[agent]) for agent in self.agents}
        obs, of, reward, done, info = ({x: out[x][i] for x in out} for i in range(5))
        both = {name: info["left"][name] | info["right"][name] for name in info["left"]}
        ended = done["left"] | done["right"]
        return obs, state.replace(of=of, step=state.step + 1, done=ended), reward, ended, both

    def action_mask(self, state: PairState) -> Any:
        masks = {agent: self.one.action_mask(state.of[agent]) for agent in self.agents}
        return None if masks["left"] is None else masks

    def render(self, state: PairState) -> np.ndarray:
        return self.one.render(state.of["left"])


class NamedLikeStatistics(NimWorld):
    """Nim of "l" and "r", the keys of `info["episode"]` and of an info of the world."""

    @property
    def agents(self) -> tuple[str, ...]:
        return ("l", "r")

    def step(self, state: Any, action: Any) -> Any:
        obs, state, reward, done, info = super().step(state, action)
        heap = {"l": state.left, "r": state.step}
        reward = {"l": reward["alice"], "r": reward["bob"]}
        return obs, state, reward, done, {**info, "heap": heap}
