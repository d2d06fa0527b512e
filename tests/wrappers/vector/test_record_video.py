"""`RecordVideo` around a batch: in compiled programs, in loops, and of simulators on the host."""

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from batched_fakes import OnTheHost
from fakes import Pair, VectorConfig, VectorEnv, VectorState
from films import Canvas, FakeEncoder, FilmEnv, file_names, frames, steps_seen
from helpers import assert_trees_equal, slow_but

import envrax
from envrax import ClipReward, VecEnv
from envrax.autoreset import Select
from envrax.interop import to_gymnasium_vec
from envrax.multi_agent import agents_as_slots
from envrax.testing import CountingEnv, RingWorld
from envrax.wrappers.vector import NormalizeObservation, RecordVideo

SHAPE = FilmEnv.shape
KEY = jax.random.key(0)


@pytest.fixture(autouse=True)
def no_ffmpeg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envrax.video.encoder.Encoder", FakeEncoder)


class EndsByAction(FilmEnv):
    """An episode ends with the action 2 too. The steps that are drawn are noted."""

    def __init__(self, max_steps: int = 99) -> None:
        super().__init__(VectorConfig(max_steps=max_steps))
        self.drawn = list[int]()

    def step(self, state: VectorState, action: Any) -> tuple[Any, ...]:
        obs, state, reward, done, _ = super().step(state, action)
        done = done | (action == 2)
        return obs, state.replace(done=done), reward, done, {}

    def render(self, state: VectorState) -> np.ndarray:
        self.drawn.append(int(state.step))
        return super().render(state)


class Placed(EndsByAction):
    """The frame encodes the place and the step."""

    def render(self, state: VectorState) -> np.ndarray:
        return np.full(SHAPE, 20 * int(state.step) + int(state.pos[0]), np.uint8)


def film(folder: Path, n: int = 3, steps: int = 3, **options: Any) -> Any:
    batch = VecEnv(FilmEnv(VectorConfig(max_steps=steps)), n, autoreset=Select())
    return RecordVideo(batch, folder, **options)


def roll(env: Any, actions: Any, rng: Any = None) -> Any:
    """A reset and these actions, in one compiled program."""

    @jax.jit
    def run(rng: jax.Array, actions: jax.Array) -> Any:
        obs, state = env.reset(rng)
        return jax.lax.scan(
            lambda s, a: (lambda out: (out[1], out))(env.step(s, a)), state, actions
        )

    return run(jax.random.key(0) if rng is None else rng, jnp.asarray(actions, jnp.int32))


def play(env: Any, n_steps: int) -> Any:
    obs, state = env.reset(jax.random.key(0))
    for _ in range(n_steps):
        obs, state, *_ = env.step(state, np.ones(env.n_slots, np.int32))
    return state


def seen_in(folder: Path) -> dict[str, list[int]]:
    return {name: steps_seen(folder / name) for name in file_names(folder)}


def test_a_compiled_scan_is_recorded_to_the_last_frame_of_every_episode(tmp_path: Path) -> None:
    """Against one environment, stepped and drawn by itself."""
    single = Placed(6)
    env = RecordVideo(VecEnv(single, 5), tmp_path, slots=[1, -1])
    actions = np.random.default_rng(1).choice(3, (40, 5), p=[0.45, 0.45, 0.1]).astype(np.int32)
    roll(env, actions)
    env.write()
    reset, step = jax.jit(single.reset), jax.jit(single.step)
    lengths: dict[int, list[int]] = {1: [], 4: []}
    for slot in (1, 4):
        _, state = reset(jax.random.split(jax.random.key(0), 5)[slot])
        expected = [single.render(state)]
        for action in actions[:, slot]:
            _, state, _, done, _ = step(state, action)
            expected.append(single.render(state))
            if done:
                name = f"slot_{slot}-episode_{len(lengths[slot]):04d}.mp4"
                np.testing.assert_array_equal(frames(tmp_path / name), expected)
                assert len(expected) == int(state.step) + 1
                lengths[slot].append(int(state.step))
                _, state = reset(jax.random.split(state.rng)[0])
                expected = [single.render(state)]
    assert len(file_names(tmp_path)) == len(lengths[1]) + len(lengths[4]) > 10
    assert len(set(lengths[1])) > 2
    env.close()


def test_a_loop_writes_what_is_complete_as_it_goes(tmp_path: Path) -> None:
    """Also while another program is traced."""
    with film(tmp_path) as env:
        state = play(env, 7)
        jax.effects_barrier()
        env.step(state, [1, 1, 1])
        jax.jit(lambda x: (env.write(), x)[1])(np.float32(0))
        assert [len(seen) for seen in seen_in(tmp_path).values()] == [4, 4]
    episode = [0, 1, 2, 3]
    assert list(seen_in(tmp_path).values()) == [episode, episode, [0, 1, 2]]
    assert file_names(tmp_path)[0] == "slot_0-episode_0000.mp4"


def by_rollout(env: Any) -> Any:
    at = envrax.rollout(env, None, envrax.start(env, KEY), 3)[0]
    return lambda: envrax.rollout(env, None, at, 3)


def by_a_wrapper(env: Any) -> Any:
    state = play(NormalizeObservation(env), 4)
    return lambda: NormalizeObservation(env).step(state, [1, 1, 1])


def by_a_bridge(env: Any) -> Any:
    bridge = to_gymnasium_vec(env, autoreset_mode="NextStep")
    bridge.reset(seed=0)
    for _ in range(5):
        bridge.step(np.ones(3, np.int32))
    return lambda: bridge.step(np.ones(3, np.int32))


def by_a_fleet(env: Any) -> Any:
    fleet = envrax.MultiVecEnv([env, VecEnv(FilmEnv(), 2)])
    states = fleet.reset(KEY)[1]
    for _ in range(4):
        states = fleet.step(states, [np.ones(3, np.int32), np.ones(2, np.int32)])[1]
    return lambda: fleet.step(states, [np.ones(3, np.int32), np.ones(2, np.int32)])


@pytest.mark.parametrize(
    "plays", slow_but(by_rollout, values=[by_rollout, by_a_bridge, by_a_wrapper, by_a_fleet])
)
def test_what_is_complete_is_written_whoever_calls(plays: Any, tmp_path: Path) -> None:
    env = film(tmp_path)
    call = plays(env)
    jax.effects_barrier()
    call()
    assert list(seen_in(tmp_path).values()) == [[0, 1, 2, 3]]
    env.close()


@pytest.mark.slow
def test_a_render_may_run_a_program_fail_and_be_interrupted(tmp_path: Path) -> None:
    """Programs of others write nothing. A film that failed is lost; an interrupted one is kept."""
    other, drawn, depth = VecEnv(CountingEnv(), 2), list[int](), [0]
    errors: list[BaseException] = [ArithmeticError("nothing to see")]

    class Drawing(FilmEnv):
        def render(self, state: VectorState) -> np.ndarray:
            drawn.append(1)
            depth[0] += 1
            assert depth[0] == 1
            other.reset(KEY)
            depth[0] -= 1
            if errors:
                raise errors.pop()
            return super().render(state)

    batch = VecEnv(Drawing(VectorConfig(max_steps=1)), 2, autoreset=Select())
    env = RecordVideo(batch, tmp_path, slots=2)
    play(env, 1)
    jax.effects_barrier()
    other.reset(KEY)
    assert not drawn
    with pytest.raises(ArithmeticError, match="nothing to see"):
        env.reset(KEY)
    play(env, 1)
    errors.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        env.write()
    env.close()
    names = ["slot_0-episode_0001", "slot_1-episode_0000", "slot_1-episode_0001"]
    assert seen_in(tmp_path) == {f"{name}.mp4": [0, 1] for name in names}


@pytest.mark.slow
def test_numbers_go_on_after_existing_files(tmp_path: Path) -> None:
    (tmp_path / "slot_0-episode_0004.mp4").write_bytes(b"kept")
    with film(tmp_path) as env:
        play(env, 1)
        play(env, 3)
    assert file_names(tmp_path) == [f"slot_0-episode_{i:04d}.mp4" for i in (4, 5, 6)]
    cut_short = tmp_path / "slot_0-episode_0005.mp4"
    assert steps_seen(cut_short) == [0, 1]  # by the second reset, and kept


@pytest.mark.slow
def test_a_grid_shows_the_same_step_of_all_slots(tmp_path: Path) -> None:
    batch = VecEnv(Placed(9), 8)
    env = RecordVideo(batch, tmp_path, grid=(1, 2), slots=[0, 7], labels=["", 9.8])
    actions = np.ones((4, 8), np.int32)
    actions[1, 7] = 2
    roll(env, actions)
    env.close()
    [name] = file_names(tmp_path)
    assert name == "grid_0000.mp4"
    raw = np.frombuffer((tmp_path / name).read_bytes(), np.uint8)
    height, width, _ = SHAPE
    pictures = raw.reshape(-1, height, 2 * width + 2, 3)
    assert (pictures[:, :, width : width + 2] == 128).all()
    left, right = pictures[:, 0, 0, 0] // 20, pictures[:, 0, width + 2, 0] // 20
    assert left.tolist() == [0, 1, 2, 3, 4]
    assert right.tolist() == [0, 1, 2, 1, 2]  # an episode ended in the second step
    assert [len(np.unique(half)) > 1 for half in np.split(pictures[1], [width], axis=1)] == [0, 1]


@pytest.mark.slow
def test_what_the_batch_returns_is_as_without_and_frozen_nothing_is_recorded(
    tmp_path: Path,
) -> None:
    plain = VecEnv(FilmEnv(VectorConfig(max_steps=3)), 3)
    actions = np.ones((7, 3), np.int32)
    inner, (obs, _, *rest) = roll(plain, actions)
    frozen, recorded = film(tmp_path, frozen=True), film(tmp_path)
    for env, records in ((frozen, False), (recorded, True)):
        with env:
            state, (seen, _, *others) = roll(env, actions)
        assert_trees_equal((state.env_state, seen, others), (inner, obs, rest))
        program = str(jax.make_jaxpr(env.step)(state, jnp.zeros(3, jnp.int32)))
        assert ("callback" in program) == records == bool(file_names(tmp_path))
    rngs = jax.random.split(jax.random.key(0), 2)
    states = jax.vmap(frozen.reset)(rngs)[1]
    assert_trees_equal(states.env_state, jax.vmap(plain.reset)(rngs)[1])
    with pytest.raises(ValueError, match="vmap"):  # JAX's own message
        jax.vmap(recorded.step)(states, jnp.zeros((2, 3), jnp.int32))


@pytest.mark.slow
def test_a_copy_records_by_itself(tmp_path: Path) -> None:
    with film(tmp_path) as env:
        state = play(env, 1)
        for other in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
            other.close()
        env.step(state, [1, 1, 1])
    assert list(seen_in(tmp_path).values()) == [[0, 1, 2]]


def test_what_is_not_closed_is_written_at_the_end(run_python: Any) -> None:
    said = run_python(
        """
        import atexit, os, sys
        atexit.register(lambda: print(sorted(os.listdir("films"))))
        import jax
        from fakes import VectorConfig
        from films import FilmEnv
        from envrax import VecEnv
        from envrax.wrappers.vector import RecordVideo
        env = RecordVideo(VecEnv(FilmEnv(VectorConfig(max_steps=2)), 2), "films")
        obs, state = env.reset(jax.random.key(0))
        for _ in range(3):
            obs, state, *_ = env.step(state, [1, 1])
        """
    )
    assert said == "['slot_0-episode_0000.mp4', 'slot_0-episode_0001.mp4']\n"


# One run a film


def steps(env: Any, state: Any, n_steps: int) -> Any:
    for _ in range(n_steps):
        state = env.step(state, np.ones(env.n_slots, np.int32))[1]
    return state


@pytest.mark.parametrize("grid", [None, pytest.param((1, 1), marks=pytest.mark.slow)])
def test_runs_in_turn_share_no_film(tmp_path: Path, grid: Any) -> None:
    """Also where all slots end at once, so that a grid cannot tell a reset by the steps."""
    env = film(tmp_path, n=1, steps=4, grid=grid)
    twin = RecordVideo(env.env, tmp_path, frozen=True)
    state = steps(env, env.reset(jax.random.key(0))[1], 2)
    env.reset(jax.random.key(5))  # a stray one
    state = steps(env, state, 1)
    steps(env, env.reset(jax.random.key(0))[1], 2)  # an evaluation, with the same key
    state = steps(env, state, 1)
    other = steps(env, env.reset(jax.random.key(0))[1], 1)
    state = steps(env, steps(twin, state, 1), 1)
    env.close()
    assert len(other.env_state.step) == 1
    seen = [[0, 1, 2, 3], [0, 1, 2], [3, 4], [0, 1], [1, 2]]
    assert list(seen_in(tmp_path).values()) == seen


@pytest.mark.slow
def test_a_grid_goes_on_only_from_where_all_of_its_slots_were(tmp_path: Path) -> None:
    env = film(tmp_path, n=1, steps=2, grid=(1, 1))
    first = steps(env, env.reset(jax.random.key(0))[1], 2)  # both begin their second episode
    second = steps(env, env.reset(jax.random.key(1))[1], 2)
    steps(env, first, 1)
    steps(env, second, 1)
    env.close()
    assert list(seen_in(tmp_path).values()) == [[0, 1, 2], [0, 1, 2], [0, 1], [0, 1]]


@pytest.mark.slow
def test_each_slot_goes_on_by_itself(tmp_path: Path) -> None:
    env = film(tmp_path, n=2, steps=9, slots=2)
    state = steps(env, env.reset(jax.random.key(0))[1], 2)
    step = state.env_state.step.at[1].set(5)
    state = state.replace(env_state=state.env_state.replace(step=step))
    steps(env, state, 1)
    env.close()
    assert list(seen_in(tmp_path).values()) == [[0, 1, 2, 3], [0, 1, 2], [5, 6]]


# Frames


@pytest.mark.slow
def test_an_environment_that_draws_on_one_canvas(tmp_path: Path) -> None:
    class Grey(Canvas):
        def render(self, state: VectorState) -> np.ndarray:
            self.canvas[:] = np.uint32(jax.random.bits(state.rng)) % 200
            return self.canvas

    batch = VecEnv(Grey(VectorConfig(max_steps=9)), 2)
    greys = []
    with RecordVideo(batch, tmp_path, grid=(1, 2)) as env:
        state = env.reset(jax.random.key(0))[1]
        for _ in range(2):
            pictures = [env.render_slot(state, i) for i in range(2)]
            greys.append([int(picture[0, 0, 0]) for picture in pictures])
            state = env.step(state, [1, 1])[1]
    assert greys[0][0] != greys[0][1]
    raw = np.frombuffer((tmp_path / "grid_0000.mp4").read_bytes(), np.uint8)
    assert raw.reshape(-1, SHAPE[0], 2 * SHAPE[1] + 2, 3)[:2, 0, [0, -1], 0].tolist() == greys


# Which episodes, from which step on, for how many steps


def recorder(folder: Path, n: int = 1, **options: Any) -> Any:
    return RecordVideo(VecEnv(EndsByAction(), n, autoreset=Select()), folder, **options)


def program(env: Any) -> Any:
    @jax.jit
    def run(actions: jax.Array) -> Any:
        state = env.reset(KEY)[1]
        return jax.lax.scan(lambda state, action: env.step(state, action)[1:3], state, actions)[1]

    return lambda actions: run(np.asarray(actions, np.int32))


def looped(env: Any, actions: Any) -> None:
    state = env.reset(KEY)[1]
    for action in actions:
        state = env.step(state, np.asarray(action, np.int32))[1]


def actions_of(*lengths: int) -> list[list[int]]:
    """For each slot, episodes of this number of steps, again and again; 18 steps."""
    return [[2 if (t + 1) % length == 0 else 1 for length in lengths] for t in range(18)]


# The steps in the frames of each file, where each episode of slot 0 has three steps: the states
# after the steps 1, 2, 3, ... are 1, 2, 3, 1, 2, 3, ... steps old.
CASES: dict[str, tuple[dict[str, Any], dict[int, list[int]]]] = {
    "some episodes": (
        {"episode_trigger": lambda n: n in (1, 4)},
        {1: [0, 1, 2, 3], 4: [0, 1, 2, 3]},
    ),
    "from some steps": ({"step_trigger": lambda n: n in (2, 7)}, {0: [2, 3], 2: [1, 2, 3]}),
    "from the step that ends an episode": ({"step_trigger": lambda n: n == 6}, {2: [0, 1, 2, 3]}),
    "a fixed length from some steps": (
        {"step_trigger": lambda n: n in (2, 4, 7), "length": 4},
        {0: [2, 3, 1, 2, 3], 2: [1, 2, 3, 1, 2]},
    ),
    "a fixed length from some episodes": (
        {"episode_trigger": lambda n: n in (1, 2), "length": 7},
        {1: [0, 1, 2, 3, 1, 2, 3, 1]},
    ),
    "the first steps of all": ({"length": 2}, {n: [0, 1, 2] for n in range(6)}),
    "both triggers": (
        {"episode_trigger": lambda n: n == 5, "step_trigger": lambda n: n in (1, 17), "length": 0},
        {0: [1, 2, 3], 5: [0, 1, 2, 3]},
    ),
}


def cases() -> Iterator[Any]:
    """Each case in a compiled program, and one also in a loop."""
    for case in CASES:
        first = case == "a fixed length from some steps"
        yield pytest.param(case, roll, marks=[] if first else pytest.mark.slow)
        yield pytest.param(
            case, looped, marks=pytest.mark.slow if first else pytest.mark.exhaustive
        )


@pytest.mark.parametrize(("case", "run"), [*cases()])
def test_what_is_recorded(case: str, run: Any, tmp_path: Path) -> None:
    options, expected = CASES[case]
    env = recorder(tmp_path, **options)
    run(env, actions_of(3))
    env.close()
    seen = {name: steps_seen(tmp_path / name) for name in file_names(tmp_path)}
    assert seen == {f"slot_0-episode_{n:04d}.mp4": steps for n, steps in expected.items()}
    assert env.env.env.drawn == [step for steps in expected.values() for step in steps]


def test_episodes_are_counted_in_each_slot(tmp_path: Path) -> None:
    broken: list[int] = []

    def third(number: int) -> bool:
        if broken:
            raise ArithmeticError(f"no {number}")
        return number == 2

    env = recorder(tmp_path, n=3, slots=[0, 2], episode_trigger=third)
    run = program(env)
    run(actions_of(2, 1, 5))
    env.write()
    seen = {name: steps_seen(tmp_path / name) for name in file_names(tmp_path)}
    assert seen == {
        "slot_0-episode_0002.mp4": [0, 1, 2],
        "slot_2-episode_0002.mp4": [0, 1, 2, 3, 4, 5],
    }
    run(actions_of(1, 1, 1))  # its first step begins another episode
    env.close()
    assert len(file_names(tmp_path)) == 2
    broken.append(1)
    with pytest.raises(Exception, match="no 27"):  # of the trigger
        run(actions_of(1, 1, 1))
        jax.effects_barrier()


def test_a_grid_of_fixed_length_begins_at_a_step(tmp_path: Path) -> None:
    env = recorder(tmp_path, n=2, grid=(1, 2), step_trigger=lambda n: n % 8 == 0, length=3)
    roll(env, actions_of(3, 5))
    env.close()
    assert file_names(tmp_path) == ["grid_0000.mp4", "grid_0001.mp4"]
    raw = (tmp_path / "grid_0000.mp4").read_bytes()
    shown = np.frombuffer(raw, np.uint8).reshape(4, 16, -1, 3)[:, 0, [0, -1], 0] // FilmEnv.grey
    assert shown.tolist() == [[2, 3], [3, 4], [1, 5], [2, 1]]


# A batch that is no `VecEnv`


class DrawnHost(OnTheHost):
    def reset(self, rng: jax.Array) -> tuple[Any, Any]:
        self.age, self.drawn = np.zeros(self.n_slots, int), 0
        return super().reset(rng)

    def step(self, state: Any, actions: Any) -> tuple[Any, ...]:
        out = super().step(state, actions)
        self.age = np.where(out[3], 0, self.age + 1)
        return out

    def render_slot(self, state: Any, slot_idx: int = 0) -> np.ndarray:
        assert state == "held by Gymnasium"
        self.drawn += 1
        return np.full(SHAPE, self.age[slot_idx], np.uint8)


def test_a_frame_that_cannot_be_drawn_loses_no_step_of_a_simulator(tmp_path: Path) -> None:
    class Broken(DrawnHost):
        def render_slot(self, state: Any, slot_idx: int = 0) -> np.ndarray:
            if self.age[slot_idx] == 2:
                raise ArithmeticError("nothing to see")
            return super().render_slot(state, slot_idx)

    env = RecordVideo(Broken(1), tmp_path)
    _, state = env.reset(jax.random.key(0))
    for _ in range(3):
        _, state, *_ = env.step(state, np.ones(1, np.int32))
    assert env.unwrapped is None and env.env.steps == 3
    with pytest.raises(ArithmeticError, match="nothing to see"):
        env.close()
    assert not list(tmp_path.iterdir())


def test_a_simulator_on_the_host_has_no_last_frame(tmp_path: Path) -> None:
    ends: list[int] = []
    with RecordVideo(NormalizeObservation(DrawnHost(2)), tmp_path, slots=[1]) as env:
        _, state = env.reset(jax.random.key(0))
        for t in range(40):
            _, state, _, dones, _ = env.step(state, [1, 0])
            ends += [t + 1] if dones[1] else []
    lengths = np.diff([0, *ends, 40 + 1])  # the last one was cut short: all its frames are there
    seen = [frames(tmp_path / name)[:, 0, 0, 0].tolist() for name in file_names(tmp_path)]
    assert len(ends) > 1 and seen == [list(range(n)) for n in lengths]


def test_a_simulator_on_the_host_is_drawn_only_while_it_is_recorded(tmp_path: Path) -> None:
    simulator = DrawnHost(1)
    env = RecordVideo(simulator, tmp_path, step_trigger=lambda n: n == 5, length=30)
    state = env.reset(KEY)[1]
    ages = []
    for _ in range(60):
        _, state, *_ = env.step(state, [1])
        ages.append(int(simulator.age[0]))
    assert simulator.drawn == 31 and 0 in ages[5:35]
    env.close()
    (name,) = file_names(tmp_path)
    assert frames(tmp_path / name)[:, 0, 0, 0].tolist() == ages[4:35]


def test_simulators_that_draw_on_one_canvas(tmp_path: Path) -> None:
    canvas = np.zeros(SHAPE, np.uint8)

    class Painter(DrawnHost):
        def render_slot(self, state: Any, slot_idx: int = 0) -> np.ndarray:
            canvas[:] = super().render_slot(state, slot_idx) + 100 * slot_idx
            return canvas

    with RecordVideo(Painter(2), tmp_path, slots=2) as env:
        state = env.reset(jax.random.key(0))[1]
        env.reset(jax.random.key(0))  # a stray one
        env.step(state, [1, 0])
    seen = [frames(tmp_path / name)[0, 0, 0, 0] for name in file_names(tmp_path)]
    assert seen == [0, 100]


def test_a_state_of_another_batch_is_refused_before_it_is_drawn(tmp_path: Path) -> None:
    with RecordVideo(DrawnHost(2), tmp_path) as env, pytest.raises(TypeError, match="Pass that"):
        env.step("held by Gymnasium", [1, 0])


def test_frozen_a_simulator_is_not_drawn(tmp_path: Path) -> None:
    with RecordVideo(DrawnHost(2), tmp_path, frozen=True) as env:
        play(env, 30)
    assert not file_names(tmp_path)


class DrawnRing(RingWorld):
    def render_slot(self, state: Any, slot_idx: int = 0) -> np.ndarray:
        return np.full(SHAPE, 40 * int(state.age[slot_idx]), np.uint8)


def test_another_batch_is_recorded_from_python_only(tmp_path: Path) -> None:
    env = RecordVideo(DrawnRing(), tmp_path)
    first = env.reset(KEY)[1]
    second = env.reset(jax.random.key(1))[1]
    still = np.zeros(6, np.int32)
    first = env.step(first, still)[1]
    second = env.step(second, still)[1]
    env.step(first, still)
    for attempt in (lambda: jax.jit(env.reset)(KEY), lambda: roll(env, [[1] * 6])):
        with pytest.raises(RuntimeError, match="VecEnv"):
            attempt()
    env.close()
    assert [len(seen) for seen in seen_in(tmp_path).values()] == [2, 2, 2]  # runs share no film


# Refusals


@pytest.mark.parametrize(
    ("options", "noun"),
    [
        ({"slots": 4}, "slots"),
        ({"slots": [0, -4]}, "slots"),
        ({"grid": (1, 2), "slots": 3}, "grid"),
        ({"grid": (0, 2)}, "rows"),
        ({"grid": (1, 2), "labels": ["one"]}, "labels"),
        ({"labels": ["one"]}, "labels"),
        ({"fps": 0}, "fps"),
        ({"length": -1}, "length"),
        ({"length": 2.5}, "length"),
        ({"step_trigger": 100}, "step_trigger"),
    ],
)
def test_options_that_are_refused(tmp_path: Path, options: Any, noun: str) -> None:
    with pytest.raises((TypeError, ValueError), match=noun):
        film(tmp_path, **options)


def test_the_devices_of_several_processes_are_refused_unless_frozen(tmp_path: Path) -> None:
    far = VecEnv(FilmEnv(), 3)
    far.layout = SimpleNamespace(is_fully_addressable=False)
    assert RecordVideo(far, tmp_path, frozen=True).frozen
    for attempt in (lambda: RecordVideo(far, tmp_path), lambda: film(tmp_path).around(far)):
        with pytest.raises(ValueError, match="process"):
            attempt()


def test_a_batch_that_does_not_draw_is_refused(tmp_path: Path) -> None:
    for env in (VecEnv(ClipReward(VectorEnv()), 2), RingWorld(), NormalizeObservation(RingWorld())):
        with pytest.raises(TypeError, match="renders"):
            RecordVideo(env, tmp_path)


@pytest.mark.slow
def test_slots_that_are_agents_are_refused(tmp_path: Path) -> None:
    worlds = VecEnv(Pair(FilmEnv()), 2)
    with pytest.raises(TypeError, match="agents_as_slots"):
        RecordVideo(agents_as_slots(worlds), tmp_path)
    recorder = RecordVideo(worlds, tmp_path, slots=2)
    env = agents_as_slots(recorder)
    state = env.reset(jax.random.key(0))[1]
    env.step(state, np.zeros(env.n_slots, np.int32))
    env.close()
    assert list(seen_in(tmp_path).values()) == [[0, 1]] * 2
