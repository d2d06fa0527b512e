"""`RecordVideo` around a batch: which episodes, from which step on, for how many steps."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import VectorConfig, VectorState
from films import FakeEncoder, FilmEnv, file_names, steps_seen

from envrax import VecEnv
from envrax.autoreset import Select
from envrax.wrappers.vector import RecordVideo

KEY = jax.random.key(0)


@pytest.fixture(autouse=True)
def no_ffmpeg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envrax.video.encoder.Encoder", FakeEncoder)


class EndsByAction(FilmEnv):
    """An episode ends with the action 2. The steps that are drawn are noted."""

    def __init__(self) -> None:
        super().__init__(VectorConfig(max_steps=99))
        self.drawn = list[int]()

    def render(self, state: VectorState) -> np.ndarray:
        self.drawn.append(int(state.step))
        return super().render(state)

    def step(self, state: VectorState, action: Any) -> tuple[Any, ...]:
        obs, state, reward, _, _ = super().step(state, action)
        done = jnp.asarray(action) == 2
        return obs, state.replace(done=done), reward, done, {}


def recorder(folder: Path, n: int = 1, **options: Any) -> Any:
    return RecordVideo(VecEnv(EndsByAction(), n, autoreset=Select()), folder, **options)


def program(env: Any) -> Any:
    @jax.jit
    def run(actions: jax.Array) -> Any:
        state = env.reset(KEY)[1]
        return jax.lax.scan(lambda state, action: env.step(state, action)[1:3], state, actions)[1]

    return lambda actions: run(np.asarray(actions, np.int32))


def compiled(env: Any, actions: Any) -> None:
    program(env)(actions)


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
        yield pytest.param(case, compiled, marks=[] if first else pytest.mark.slow)
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
    compiled(env, actions_of(3, 5))
    env.close()
    assert file_names(tmp_path) == ["grid_0000.mp4", "grid_0001.mp4"]
    raw = (tmp_path / "grid_0000.mp4").read_bytes()
    shown = np.frombuffer(raw, np.uint8).reshape(4, 16, -1, 3)[:, 0, [0, -1], 0] // FilmEnv.grey
    assert shown.tolist() == [[2, 3], [3, 4], [1, 5], [2, 1]]


@pytest.mark.parametrize(
    ("options", "error", "noun"),
    [
        ({"length": -1}, ValueError, "length"),
        ({"length": 2.5}, TypeError, "length"),
        ({"step_trigger": 100}, TypeError, "step_trigger"),
    ],
)
def test_options_that_are_refused(tmp_path: Path, options: Any, error: Any, noun: str) -> None:
    with pytest.raises(error, match=noun):
        recorder(tmp_path, **options)
