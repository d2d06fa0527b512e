"""How many programs a fleet is, when they are compiled, and that nothing is compiled twice."""

import io
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from batched_fakes import OnTheHost, Scene
from fakes import CounterEnv, PixelEnv
from helpers import slow_but

from envrax import JitWrapper, MultiEnv, MultiVecEnv, RecordVideo, VecEnv


def jitted(env: Any, **kwargs: Any) -> Any:
    return JitWrapper(env, pre_warm=False, **kwargs)


def use_all(multi: Any, rng: jax.Array) -> None:
    """Every one of the four calls, on every member."""
    _, states = multi.reset(rng)
    actions = [np.zeros(space.shape, space.dtype) for space in multi.action_spaces]
    multi.step(states, actions)
    for i, action in enumerate(actions):
        _, state = multi.reset_at(i, rng)
        multi.step_at(i, state, action)


FLEETS = {
    "unequal": lambda: MultiEnv([jitted(CounterEnv()), jitted(PixelEnv())]),
    "vec": lambda: MultiVecEnv([VecEnv(CounterEnv(), 3), VecEnv(CounterEnv(), 3)]),
    "host": lambda: MultiVecEnv([VecEnv(CounterEnv(), 3), OnTheHost(2)]),
}


@pytest.mark.parametrize("name", slow_but("unequal", values=FLEETS))
def test_after_compile_nothing_is_compiled(name: str, compile_counter: Any) -> None:
    multi = FLEETS[name]()
    multi.compile(progress=False)
    key = jax.random.key(7)
    if name == "host":
        OnTheHost(2).reset(key)  # what its own reset compiles: a draw from the key
    with compile_counter() as compiled:
        use_all(multi, key)
        multi.compile(progress=False)
    assert compiled.count == 0


@pytest.mark.parametrize("progress", [True, False])
def test_the_bar_is_seen_unless_it_is_not_wanted(progress: bool, capfd: Any) -> None:
    MultiEnv([jitted(CounterEnv())]).compile(progress=progress)
    assert ("Compiling envs: 100%" in capfd.readouterr().err) is progress


def test_without_stderr_there_is_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a daemon, which may also close it."""
    closed = io.StringIO()
    closed.close()
    multi = MultiEnv([jitted(CounterEnv())])
    for stream in (closed, None):
        monkeypatch.setattr("sys.stderr", stream)
        multi.compile()


def test_uncompiled_members_run_as_they_are() -> None:
    seen: list[Any] = []

    class Looking(CounterEnv):
        def step(self, state: Any, action: Any) -> Any:
            seen.append(isinstance(state.step, jax.core.Tracer))
            return super().step(state, action)

    multi = MultiEnv([Looking(), jitted(Looking()), Looking()])
    multi.compile(progress=False)
    seen.clear()
    _, states = multi.reset(jax.random.key(0))
    multi.step(states, [0, 1, 2])
    assert seen == [False, False]


def test_a_fleet_that_nobody_compiled_shows_no_bar(capfd: Any) -> None:
    MultiEnv([CounterEnv()]).compile()
    MultiVecEnv([VecEnv(CounterEnv(), 2, jit_compile=False)]).compile()
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_compile_reaches_the_part_of_a_host_side_stack_that_can_be_compiled(
    tmp_path: Path, compile_counter: Any
) -> None:
    inside, key = jitted(PixelEnv()), jax.random.key(0)
    multi = MultiEnv([RecordVideo(inside, output_dir=tmp_path)])
    multi.compile(progress=False)
    with compile_counter() as compiled:
        inside.reset(key)
    assert compiled.count == 0
    multi.close()


@pytest.mark.parametrize(
    "vec", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["single", "vec"]
)
def test_the_cache_is_the_one_that_the_members_name(
    vec: bool, tmp_path: Path, monkeypatch: Any, compile_counter: Any
) -> None:
    monkeypatch.setenv("ENVRAX_CACHE_DIR", str(tmp_path / "default"))

    def fleet(*places: Path) -> Any:
        envs = [jitted(CounterEnv(), cache_dir=place) for place in places]
        return MultiVecEnv([VecEnv(env, 2) for env in envs]) if vec else MultiEnv(envs)

    with compile_counter() as cache:
        fleet(tmp_path / "mine", tmp_path / "mine").compile(progress=False)
    assert cache.misses > 0
    assert {path.name for path in tmp_path.iterdir()} == {"mine"}


def test_the_compile_of_a_members_own_class_is_called() -> None:
    seen: list[Any] = []

    class WithCompile(Scene):
        def compile(self, cache_dir: Any = None) -> None:
            seen.append(cache_dir)

    MultiVecEnv([WithCompile(2)]).compile(progress=False)
    assert len(seen) == 1
