"""What a new user types first, snippet by snippet, in a plain script that needs the core alone.

Run it from anywhere with `python section8.py`: it works in a temporary directory and says how many
snippets ran. Started with `compile-again`, it is the second process of the last snippet.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import chex
import jax
import jax.numpy as jnp

import envrax
from envrax import (
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
    ResizeObservation,
    VecEnv,
    make,
    make_multi,
    make_multi_vec,
    make_vec,
    register,
)

SCRIPT = str(Path(__file__).resolve())


@chex.dataclass
class BallState(EnvState):
    ball: jax.Array
    goal: jax.Array


@chex.dataclass
class BallConfig(EnvConfig):
    max_steps: int = 200
    speed: float = 0.1


class BallEnv(JaxEnv[Box, Discrete, BallState, BallConfig]):
    """Roll a ball to a goal in the unit square."""

    @property
    def observation_space(self) -> Box:
        return Box(low=0.0, high=1.0, shape=(4,))

    @property
    def action_space(self) -> Discrete:
        return Discrete(4)

    def reset(self, rng):
        rng, ball_rng, goal_rng = jax.random.split(rng, 3)
        state = BallState(
            rng=rng,
            step=jnp.int32(0),
            done=jnp.bool_(False),
            ball=jax.random.uniform(ball_rng, (2,)),
            goal=jax.random.uniform(goal_rng, (2,)),
        )
        return self._observe(state), state

    def step(self, state, action):
        moves = jnp.array([[-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]])
        ball = jnp.clip(state.ball + self.config.speed * moves[action], 0.0, 1.0)
        distance = jnp.linalg.norm(ball - state.goal)
        step = state.step + 1
        done = (distance < self.config.speed) | (step >= self.config.max_steps)
        state = state.replace(ball=ball, step=step, done=done)
        return self._observe(state), state, -distance, done, {"distance": distance}

    def _observe(self, state):
        return jnp.concatenate([state.ball, state.goal])


class ScreenEnv(JaxEnv[Box, Discrete, BallState, BallConfig]):
    """The ball again, seen as a colour image."""

    @property
    def observation_space(self) -> Box:
        return Box(low=0, high=255, shape=(40, 30, 3), dtype=jnp.uint8)

    @property
    def action_space(self) -> Discrete:
        return Discrete(4)

    def reset(self, rng):
        _, state = BallEnv(self.config).reset(rng)
        return self._draw(state), state

    def step(self, state, action):
        _, state, reward, done, info = BallEnv(self.config).step(state, action)
        return self._draw(state), state, reward, done, info

    def _draw(self, state):
        row, column = (state.ball * jnp.array([39.0, 29.0])).astype(jnp.int32)
        return jnp.zeros((40, 30, 3), jnp.uint8).at[row, column].set(255)


def define_and_step():
    env = BallEnv()
    obs, state = env.reset(jax.random.key(0))
    obs, state, reward, done, info = env.step(state, env.action_space.sample(jax.random.key(1)))
    assert env.observation_space.contains(obs)
    assert state.step == 1
    assert reward == -info["distance"]
    assert not done


def vectorise():
    vec_env = VecEnv(BallEnv(), num_envs=512)
    obs, states = vec_env.reset(jax.random.PRNGKey(0))
    actions = vec_env.action_space.sample(jax.random.PRNGKey(1))
    obs, states, rewards, dones, infos = vec_env.step(states, actions)
    assert obs.shape == (512, 4)
    assert rewards.shape == dones.shape == infos["distance"].shape == (512,)
    assert vec_env.slot_state(states, 3).ball.shape == (2,)


def register_and_make():
    register("BallEnv-v0", BallEnv, BallConfig(max_steps=50))
    assert envrax.registered_names() == ["BallEnv-v0"]

    env = make("BallEnv-v0")
    obs, state = env.reset(jax.random.key(0))
    obs, state, reward, done, info = env.step(state, jnp.int32(2))
    assert env.config.max_steps == 50
    assert env.name == "BallEnv"

    env = make("BallEnv-v0", wrappers=[NormalizeObservation, ClipReward])
    obs, state = env.reset(jax.random.key(0))
    obs, state, reward, done, info = env.step(state, jnp.int32(2))
    assert obs.dtype == jnp.float32
    assert reward == -1.0

    register("SlowBallEnv-v0", BallEnv, EnvConfig(max_steps=500))
    assert make("SlowBallEnv-v0", jit_compile=False).config == BallConfig(max_steps=500)


def make_a_vector_env():
    vec_env = make_vec("BallEnv-v0", n_envs=64)
    obs, states = vec_env.reset(jax.random.key(0))
    actions = vec_env.action_space.sample(jax.random.key(1))
    for _ in range(60):  # over the time limit of 50: slots have begun anew
        obs, states, rewards, dones, infos = vec_env.step(states, actions)
    assert obs.shape == (64, 4)
    assert (states.step < 50).all()


def train_in_a_python_loop():
    env = make("BallEnv-v0")
    rng, reset_rng = jax.random.split(jax.random.key(0))
    obs, state = env.reset(reset_rng)
    episodes = 0
    for _ in range(120):
        rng, action_rng = jax.random.split(rng)
        obs, state, reward, done, info = env.step(state, env.action_space.sample(action_rng))
        if done:
            rng, reset_rng = jax.random.split(rng)
            obs, state = env.reset(reset_rng)
            episodes += 1
    assert episodes >= 2


def make_a_fleet():
    names = ["BallEnv-v0", "SlowBallEnv-v0", "BallEnv-v0"]
    multi = make_multi(names)
    multi.compile()
    obs, states = multi.reset(jax.random.key(0))
    actions = [space.sample(jax.random.key(1)) for space in multi.action_spaces]
    obs, states, rewards, dones, infos = multi.step(states, actions)
    assert [type(part) for part in (obs, states, rewards, dones, infos)] == [list] * 5
    for i, done in enumerate(dones):
        if done:
            obs[i], states[i] = multi.reset_at(i, jax.random.key(i))
    assert multi.env_keys == ["BallEnv_0", "BallEnv_1", "BallEnv_2"]
    assert repr(multi) == "MultiEnv([BallEnv, BallEnv, BallEnv], num_envs=3)"


def make_a_fleet_of_vector_envs():
    names = {"fast": "BallEnv-v0", "slow": "SlowBallEnv-v0"}
    multi = make_multi_vec(names, n_envs=64)
    obs, states = multi.reset(jax.random.key(0))
    actions = {k: space.sample(jax.random.key(1)) for k, space in multi.action_spaces.items()}
    obs, states, rewards, dones, infos = multi.step(states, actions)
    assert list(rewards) == ["fast", "slow"] and rewards["slow"].shape == (64,)
    assert multi.total_envs == 128


def compile_by_hand():
    env = JitWrapper(BallEnv(), pre_warm=False)
    env.compile()
    obs, state = env.reset(jax.random.key(0))
    obs, state, reward, done, info = env.step(state, jnp.int32(0))
    assert state.step == 1


SUITE_PACKAGE = """
from __main__ import BallConfig, BallEnv, ScreenEnv
from envrax import EnvSpec, EnvSuite, register_suite


class DemoSuite(EnvSuite):
    prefix = "demo"
    category = "Demo"
    specs = [EnvSpec("Ball", BallEnv, BallConfig()), EnvSpec("Screen", ScreenEnv, BallConfig())]


register_suite(DemoSuite())
"""


def write_a_suite_package():
    Path("demo_suite.py").write_text(SUITE_PACKAGE)
    sys.path.insert(0, os.getcwd())
    from demo_suite import DemoSuite  # pyright: ignore[reportMissingImports]

    assert list(DemoSuite()) == ["demo/Ball-v0", "demo/Screen-v0"]
    assert "Ball" in DemoSuite() and "demo/Ball-v0" in DemoSuite()
    env = make("demo/Screen-v0", jit_compile=False)
    obs, state = env.reset(jax.random.key(0))
    assert obs.shape == env.observation_space.shape


class A(EnvSuite):
    prefix = "a"
    category = "A"
    required_packages = ["jax"]
    specs = [EnvSpec("Ball", BallEnv, BallConfig())]


class B(EnvSuite):
    prefix = "b"
    category = "B"
    version = "v1"
    required_packages = ["no_such_package"]
    specs = [EnvSpec("Ball", BallEnv, BallConfig()), EnvSpec("Screen", ScreenEnv, BallConfig())]


def join_suites():
    env_set = EnvSet(A(), B())
    assert env_set.all_names() == ["a/Ball-v0", "b/Ball-v1", "b/Screen-v1"]
    assert len(env_set) == env_set.n_envs == 3
    try:
        env_set.verify_packages()
    except envrax.MissingPackageError as error:
        assert "no_such_package" in str(error)
    else:
        raise AssertionError("a missing package went unnoticed")


def look_at_images():
    register("ScreenEnv-v0", ScreenEnv, BallConfig())
    wrappers = [
        GrayscaleObservation,
        ResizeObservation(h=84, w=84),
        FrameStackObservation(n_stack=4),
        ClipReward,
    ]
    env = make("ScreenEnv-v0", wrappers=wrappers)
    obs, state = env.reset(jax.random.key(0))
    obs, state, reward, done, info = env.step(state, jnp.int32(0))
    assert obs.shape == (84, 84, 4) and obs.dtype == jnp.uint8
    assert reward == -1.0

    by_hand = GrayscaleObservation(ScreenEnv())
    by_hand = ResizeObservation(by_hand, h=84, w=84)
    by_hand = FrameStackObservation(by_hand, n_stack=4)
    first, state = by_hand.reset(jax.random.key(0))
    second, state, reward, done, info = by_hand.step(state, jnp.int32(0))
    assert second.shape == by_hand.observation_space.shape == (84, 84, 4)
    assert (second == obs).all()


def compile_events():
    """Compile the vector env and return (cache hits, cache misses)."""
    events = []

    def listen(event, **_):
        events.append(event)

    jax.monitoring.register_event_listener(listen)
    vec_env = VecEnv(BallEnv(), num_envs=8)
    vec_env.compile()
    jax.monitoring.unregister_event_listener(listen)
    obs, states = vec_env.reset(jax.random.key(0))
    vec_env.step(states, vec_env.action_space.sample(jax.random.key(1)))
    kinds = ["/jax/compilation_cache/cache_hits", "/jax/compilation_cache/cache_misses"]
    return tuple(events.count(kind) for kind in kinds)


def compile_in_two_processes():
    command = [sys.executable, SCRIPT, "compile-again"]
    environment = {**os.environ, "ENVRAX_CACHE_DIR": "compile_again"}
    hits, misses = zip(
        *(map(int, subprocess.check_output(command, env=environment).split()) for _ in range(2)),
        strict=True,
    )
    assert hits[0] == misses[1] == 0
    assert hits[1] == misses[0] > 0


SNIPPETS = [
    define_and_step,
    vectorise,
    register_and_make,
    make_a_vector_env,
    train_in_a_python_loop,
    make_a_fleet,
    make_a_fleet_of_vector_envs,
    compile_by_hand,
    write_a_suite_package,
    join_suites,
    look_at_images,
    compile_in_two_processes,
]


def main():
    if sys.argv[1:] == ["compile-again"]:
        print(*compile_events())
        return
    assert envrax.registered_names() == []
    with tempfile.TemporaryDirectory() as directory:
        os.environ["ENVRAX_CACHE_DIR"] = str(Path(directory, "cache"))
        os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)
        before = os.getcwd()
        os.chdir(directory)
        for snippet in SNIPPETS:
            snippet()
        os.chdir(before)
    print(f"section 8: {len(SNIPPETS)} snippets ran as typed.")


if __name__ == "__main__":
    main()
