"""Jumanji and Brax: their environments as `JaxEnv`s, against their own auto-reset."""

import importlib
from abc import abstractmethod
from typing import Any

import chex
import jax
import jax.numpy as jnp

from benchmarks.measure import Table, Work, available, compare
from benchmarks.rollout import in_scan, of_vec_env
from envrax import Box, Dict, Discrete, EnvConfig, EnvState, JaxEnv, MultiBinary, VecEnv
from envrax.autoreset import Select
from envrax_classic import Maze

EVERY_SLOT = "the same, every slot reset on every step"
CELLS, MAZE_STEPS = 9, 200  # cells along a side; steps of an episode
BRAX_STEPS, FORCES = 1000, 5  # steps of an episode; forces that actions choose from


@chex.dataclass
class AdapterState(EnvState):
    inner: Any


class Adapter(JaxEnv[Any, Discrete, Any, EnvConfig]):
    """An environment of another library, without its own auto-reset."""

    @abstractmethod
    def begin(self, key: jax.Array) -> tuple[Any, Any]:
        """The first observation, and the library's state."""

    @abstractmethod
    def advance(self, inner: Any, action: Any) -> tuple[Any, Any, jax.Array, jax.Array]:
        """The next observation, the library's state, the reward, and whether the episode ended."""

    def reset(self, rng: jax.Array) -> tuple[Any, Any]:
        rng, key = jax.random.split(rng)
        obs, inner = self.begin(key)
        state = AdapterState(rng=rng, step=jnp.int32(0), done=jnp.bool_(False), inner=inner)
        return obs, state

    def step(self, state: Any, action: Any) -> tuple[Any, ...]:
        obs, inner, reward, ended = self.advance(state.inner, action)
        # The library may put a Python constant, of another dtype, into its state.
        inner = jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), inner, state.inner)
        step = state.step + 1
        done = ended | (step >= self.config.max_steps)
        return obs, state.replace(step=step, done=done, inner=inner), reward, done, {}


class JumanjiMaze(Adapter):
    """Its map has no outer wall: two tiles less along a side than the suite's `Maze`."""

    def __init__(self) -> None:
        super().__init__(EnvConfig(max_steps=MAZE_STEPS))
        self.inner = _jumanji_maze()

    @property
    def observation_space(self) -> Dict:
        return Dict(
            walls=MultiBinary(self.inner.shape, jnp.bool_),
            action_mask=MultiBinary(4, jnp.bool_),
            places=Box(0, max(self.inner.shape) - 1, (4,), jnp.int32),
            step_count=Discrete(MAZE_STEPS + 1),
        )

    @property
    def action_space(self) -> Discrete:
        return Discrete(4)

    def begin(self, key: jax.Array) -> tuple[Any, Any]:
        inner, timestep = self.inner.reset(key)
        return _seen(timestep.observation), inner

    def advance(self, inner: Any, action: Any) -> tuple[Any, Any, jax.Array, jax.Array]:
        inner, timestep = self.inner.step(inner, action)
        return _seen(timestep.observation), inner, timestep.reward, timestep.last()


class Brax(Adapter):
    """Every joint gets the same force, one of `FORCES` levels."""

    def __init__(self, name: str, backend: str) -> None:
        super().__init__(EnvConfig(max_steps=BRAX_STEPS))
        self.inner = importlib.import_module("brax.envs").get_environment(name, backend=backend)

    @property
    def observation_space(self) -> Box:
        obs, _ = jax.eval_shape(self.reset, jax.random.key(0))
        return Box(-jnp.inf, jnp.inf, obs.shape)

    @property
    def action_space(self) -> Discrete:
        return Discrete(FORCES)

    def begin(self, key: jax.Array) -> tuple[Any, Any]:
        inner = self.inner.reset(key)
        return inner.obs, inner

    def advance(self, inner: Any, action: Any) -> tuple[Any, Any, jax.Array, jax.Array]:
        copy = jax.tree.map(lambda x: x, inner)  # Brax changes the dicts of a state in place
        inner = self.inner.step(copy, _force(action, self.inner.action_size))
        return inner.obs, inner, jnp.float32(inner.reward), inner.done > 0


def jumanji(sizes: tuple[int, ...] = (64, 1024), repeats: int = 5) -> list[Table]:
    """Jumanji's Maze with both auto-resets, and the suite's Maze of the same size and limit."""
    tables: list[Table] = []
    for name, make in available({"Jumanji, its own auto-reset": _jumanji_own}):
        for n in sizes:
            steps = max(25, 12_800 // n)
            ways = {
                "envrax, Jumanji's Maze": _jumanji_ours(n, steps),
                EVERY_SLOT: _jumanji_ours(n, steps, Select()),
                name: make(n, steps),
                "envrax, the suite's Maze (other rules and generator)": _suite_maze(n, steps),
            }
            title = f"Maze of {CELLS} x {CELLS} cells, {MAZE_STEPS} steps, N = {n}, rollout"
            tables.append(Table(title, compare(ways, repeats), steps))
    return tables


def brax(
    sizes: tuple[int, ...] = (64, 1024),
    name: str = "inverted_pendulum",
    backend: str = "generalized",
    steps: int = 100,
    repeats: int = 5,
) -> list[Table]:
    """The same physics: Brax returns to a slot's first state, envrax draws a new one."""
    tables: list[Table] = []
    for peer, make in available({"Brax, back to the first state (not exact)": _brax_own}):
        for n in sizes:
            env = Brax(name, backend)
            ways = {
                "envrax": of_vec_env(VecEnv(env, n), FORCES, steps),
                EVERY_SLOT: of_vec_env(VecEnv(env, n, autoreset=Select()), FORCES, steps),
                peer: make(name, backend, n, steps),
            }
            title = f"Brax's {name}, {backend}, N = {n}, rollout"
            tables.append(Table(title, compare(ways, repeats), steps))
    return tables


def _jumanji_maze() -> Any:
    side = 2 * CELLS - 1
    maze = importlib.import_module("jumanji.environments.routing.maze.generator")
    return importlib.import_module("jumanji").make(
        "Maze-v0", generator=maze.RandomGenerator(side, side), time_limit=MAZE_STEPS
    )


def _seen(observation: Any) -> dict[str, jax.Array]:
    """Jumanji's observation, its two positions in one array."""
    places = jnp.stack([*observation.agent_position, *observation.target_position])
    return {
        "walls": observation.walls,
        "action_mask": observation.action_mask,
        "places": places.astype(jnp.int32),
        "step_count": observation.step_count,
    }


def _ages(num_envs: int) -> jax.Array:
    """Different ages: slots that start together would all be truncated in the same step."""
    return jnp.arange(num_envs, dtype=jnp.int32) * MAZE_STEPS // num_envs


def _jumanji_ours(num_envs: int, steps: int, autoreset: Any = None) -> Work:
    vec_env = VecEnv(JumanjiMaze(), num_envs, autoreset=autoreset)
    _, start = vec_env.reset(jax.random.key(0))
    ages = _ages(num_envs)
    start = start.replace(step=ages, inner=start.inner.replace(step_count=ages))
    return of_vec_env(vec_env, 4, steps, start)


def _suite_maze(num_envs: int, steps: int) -> Work:
    """Other rules than Jumanji's: a move is two tiles, and the observation is an image."""
    vec_env = VecEnv(Maze(Maze().config.replace(size=CELLS, max_steps=MAZE_STEPS)), num_envs)
    _, start = vec_env.reset(jax.random.key(0))
    return of_vec_env(vec_env, 4, steps, start.replace(step=_ages(num_envs)))


def _jumanji_own(num_envs: int, steps: int) -> Work:
    wrappers = importlib.import_module("jumanji.wrappers")
    env = wrappers.VmapWrapper(wrappers.AutoResetWrapper(_jumanji_maze()))
    keys = jax.random.split(jax.random.key(0), num_envs)

    def begin() -> Any:
        return env.reset(keys)[0].replace(step_count=_ages(num_envs))

    def step(state: Any, actions: Any, rng: jax.Array) -> Any:
        state, timestep = env.step(state, actions)
        return state, (timestep.observation, timestep.reward, timestep.last())

    return in_scan(jax.jit(begin)(), step, num_envs, 4, steps)


def _brax_own(name: str, backend: str, num_envs: int, steps: int) -> Work:
    env = importlib.import_module("brax.envs").create(
        name, episode_length=BRAX_STEPS, batch_size=num_envs, backend=backend
    )

    def begin() -> Any:
        return env.reset(jax.random.key(0))

    def step(state: Any, actions: Any, rng: jax.Array) -> Any:
        state = env.step(state, jax.vmap(_force, (0, None))(actions, env.action_size))
        return state, (state.obs, state.reward, state.done)

    return in_scan(jax.jit(begin)(), step, num_envs, FORCES, steps)


def _force(action: Any, n_joints: int) -> jax.Array:
    """The force of a level, from -1 to 1, on every joint."""
    return jnp.full(n_joints, 2 * action / (FORCES - 1) - 1, jnp.float32)
