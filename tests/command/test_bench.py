"""`python -m envrax bench ID`."""

import json
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from helpers import assert_trees_equal, slow_but

import envrax
from envrax import Box, Discrete, JaxEnv
from envrax.__main__ import main
from envrax.command import bench
from envrax.command.measure.compiling import Compilation, Stages
from envrax.command.measure.speed import RandomPlay, Speed, difference, measure
from envrax.testing import CountingEnv
from envrax.testing.fakes import MaskedEnv
from envrax.testing.find import find_env
from envrax.testing.multi_agent_fakes import NimWorld
from envrax.vec_env import VecEnv
from envrax.wrappers import ClipReward
from envrax.wrappers.base import layers


def speed(n: int, rate: float, **changes: Any) -> Speed:
    """`Select` is chosen; half of a step is the environment, a tenth the wrapper."""
    step = n / rate
    ways = dict.fromkeys(("Compact", "Select", "python_loop", "reset"), [step] * 3)
    layers = {"step of CountingEnv": [step / 2] * 3, "+ ClipReward": [0.6 * step] * 3}
    return Speed(n, "Select", ways, layers, 123456.0, 22.0)._replace(**changes)


@pytest.mark.slow
def test_every_way_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two repetitions of ten steps, after twenty that only warm up."""
    monkeypatch.setattr("envrax.command.measure.speed.REPEATS", 2)
    monkeypatch.setattr("envrax.command.measure.speed.SECONDS", 0.0)
    monkeypatch.setattr("envrax.command.measure.speed._how_many", lambda run: 10)
    told: list[str] = []
    found = measure(ClipReward(ClipReward(CountingEnv())), 2, told.append)
    assert [*found.layers] == ["step of CountingEnv", "+ ClipReward", "+ ClipReward (2)"]
    assert {*found.seconds} == {"Compact", "Select", "python_loop", "reset"}
    for times in (*found.seconds.values(), *found.layers.values()):
        assert len(times) == 2 and min(times) > 0
    assert found.strategy == "Compact"  # on a CPU
    assert found.episode_steps == 5.0
    assert found.bytes_per_slot
    assert told[-1] == "repetition 2 of 2"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers in place of what is measured: a million steps per second for each slot."""
    monkeypatch.setattr(bench, "measure", lambda env, n, tell: speed(n, 1e6 * n))


@pytest.mark.usefixtures("made")
def test_it_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "envrax.testing:CountingEnv", "--n", "30", "2", "30", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["id"], found["enough"]) == ("envrax.testing:CountingEnv", 30)
    assert [row["n"] for row in found["slots"]] == [2, 30]
    assert found["slots"][1]["steps_per_second"]["Select"] == pytest.approx(30e6)
    assert found["slots"][1]["parts"]["auto-reset"] == pytest.approx(0.4e-6)


@pytest.mark.usefixtures("made")
def test_it_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """The parts add up to a step, and no bar is drawn where no terminal is."""
    assert main(["bench", "envrax.testing:CountingEnv"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    device = jax.devices()[0].device_kind
    assert out.startswith(f"envrax.testing:CountingEnv on {device}, JAX ")
    assert max(map(len, out.splitlines())) <= 80
    rows = {line[:33].strip(): line[33:].split() for line in out.splitlines()}
    assert rows["ns a slot"] == ["N", "=", "64", "N", "=", "1,024", "N", "=", "8,192"]
    assert rows["= a step"] == ["15.6", "0.977", "0.122"]
    parts = "step of CountingEnv", "+ ClipReward", "+ auto-reset, Select"
    assert [rows[part][0] for part in parts] == ["7.81", "1.56", "6.25"]
    assert rows["M steps/s in a scan"] == ["64", "1,024", "8,192"]
    assert rows["bytes a slot"][0] == "123,456"
    assert "%" not in out and "+ all that is ~0" not in rows


def test_what_is_within_the_spread_is_no_difference() -> None:
    quiet, loud = [5.0, 5.1, 5.2, 5.1, 5.0], [5.1, 9.0, 5.3, 2.0, 5.2]
    assert difference(quiet, [4.0] * 5) == pytest.approx(1.1)
    assert difference([4.0] * 5, quiet) == pytest.approx(-1.1)
    assert difference(quiet, loud) is None
    assert difference(loud, [0.1] * 5) == pytest.approx(5.1)
    drift = [1.0, 2.0, 3.0, 4.0, 5.0]  # of the machine, which is the same for both
    assert difference([x + 1 for x in drift], drift) == pytest.approx(1.0)
    same = speed(64, 1.0, layers={"step of CountingEnv": [64.0] * 3})
    assert dict(same.parts()) == {"step of CountingEnv": 64.0, "auto-reset": None}
    assert "~0" in "".join(bench.table([same]))
    layers = {"step of CountingEnv": [33.0] * 3, "+ ClipReward": [1.0, 99.0, 60.0]}
    rows = [
        line[33:].strip()
        for line in bench.table(
            [
                speed(
                    64,
                    64 / 70e-9,
                    layers={name: [1e-9 * x for x in times] for name, times in layers.items()},
                )
            ]
        )
    ]
    assert rows[1:6] == [*(f"{x / 64:.3g}" if x else "~0" for x in (33, 0, 0, 37, 70))]
    assert "-" in [*bench.table([same._replace(bytes_per_slot=None)])][-1].split()


@pytest.mark.slow
@pytest.mark.parametrize("cls", [CountingEnv, MaskedEnv, NimWorld])
def test_the_loop_and_the_scan_do_the_same_work(cls: Any) -> None:
    """To the last bit, so that their times can be compared."""
    env = VecEnv(cls(), 3)
    play = RandomPlay(env)
    from_python = play.in_python(play.in_python(play.start, 4), 3)
    in_scan = jax.jit(lambda carry: play.in_scan(carry, env.step, 7))(play.start)
    assert_trees_equal(from_python[:4], in_scan[:4])
    assert in_scan.ended > 0 and in_scan.steps == 7


@pytest.mark.parametrize(
    ("compact", "said"),
    [
        ([0.5, 0.5, 0.5], "`autoreset=Compact()`: 2.0 times as fast with N = 64, here"),
        ([0.95, 0.95, 0.95], ""),  # no more than a tenth
        ([0.1, 0.5, 2.0], ""),  # within the spread
        ([2.0, 2.0, 2.0], ""),
    ],
)
def test_another_strategy_is_advised_where_it_is_faster(compact: list[float], said: str) -> None:
    found = speed(64, 64.0)
    found.seconds["Compact"] = compact
    assert [*bench.advice([found])] == [said] * bool(said)


@pytest.mark.parametrize(
    ("rates", "n", "said"),
    [
        ([1.0, 7.0, 7.5], 128, "`n_envs=128`: more slots pay nothing in a scan"),
        ([1.0, 7.0, 9.0], 256, "`--n 1024`: N = 256 is the fastest in a scan; more may pay"),
        ([9.0, 7.0, 5.0], 64, "`n_envs=64`: more slots pay nothing in a scan"),
    ],
)
def test_more_slots_pay_until_nine_tenths_of_the_most(
    rates: list[float], n: int, said: str
) -> None:
    speeds = [speed(64 * 2**i, rate) for i, rate in enumerate(rates)]
    assert bench.enough(speeds) == n
    said = said.replace("in a scan", "in a scan or from Python")
    assert [*bench.advice(speeds)] == [said]
    assert "take 22 steps" in bench.about_episodes(speeds)
    without = [x._replace(episode_steps=None) for x in speeds]
    assert "no auto-reset is timed" in bench.about_episodes(without)


def test_more_slots_pay_for_longer_from_python() -> None:
    speeds = [speed(64, 9.0), speed(128, 9.0), speed(256, 9.0)]
    for x, rate in zip(speeds, (1.0, 3.0, 7.0), strict=True):
        x.seconds["python_loop"] = [x.n / rate] * 3
    assert [*bench.advice(speeds)] == [
        "`n_envs=64`: more slots pay nothing in a scan",
        "`--n 1024`: N = 256 is the fastest from Python; more may pay",
    ]


def test_within_the_spread_there_is_no_advice() -> None:
    few, many = speed(64, 6.0), speed(128, 9.0)
    few.seconds["Select"] = [64 / 20, 64 / 6, 64 / 5]
    assert bench.enough([few, many]) is None
    assert [*bench.advice([few, many])] == [
        "No advice on slots in a scan: repetitions differ more. Is the machine busy?",
        "`--n 512`: N = 128 is the fastest from Python; more may pay",
    ]
    few.layers["step of CountingEnv"] = [99.0] * 3
    assert dict(few.parts())["auto-reset"] is None  # no part costs less than nothing


def test_stages_inside_others_count_once() -> None:
    """A trace of three seconds has one of a second in it, and a program has both stages."""
    now = [0.0]
    stages = Stages(lambda: now[0])
    ends = [
        (2.0, 1.0, "jaxpr_trace"),
        (4.0, 3.0, "jaxpr_trace"),
        (4.5, 0.5, "jaxpr_to_mlir_module"),
    ]
    for at, seconds, name in [*ends, (6.0, 1.5, "backend_compile"), (9.0, 3.0, "other")]:
        now[0] = at
        stages.on_duration(f"/jax/core/compile/{name}_duration", seconds)
    for name in ("cache_hits", "cache_hits", "cache_misses", "other"):
        stages.on_event(f"/jax/compilation_cache/{name}")
    expected = {"trace": 3.0, "lower": 0.5, "xla": 1.5, "hits": 2, "misses": 1}
    assert stages.found == expected


def test_first_calls_are_a_table() -> None:
    first = Compilation("make_vec", False, 1.0, 0.5, 0.25, 2.0, 0.25, 0, 2, "cpu")
    again = first._replace(again=True, xla=0.125, hits=2, misses=0)
    head, *rows = bench.compile_table([first, again])
    assert head.split()[:6] == ["seconds", "start", "trace", "lower", "XLA", "rest"]
    assert " ".join(rows[0].split()) == "make_vec 1.00 0.50 0.25 2.00 0.25 4.00 0 of 2"
    assert rows[1].split()[-4:] == ["2.12", "2", "of", "2"]
    assert max(map(len, (head, *rows))) <= 80


@pytest.mark.integration
def test_first_calls_in_new_processes(capsys: pytest.CaptureFixture[str]) -> None:
    """A second process finds all programs in the cache of the first one."""
    name = "envrax.testing:CountingEnv"
    assert main(["bench", name, "--n", "2", "--wrappers", "ClipReward", "--compile", "--json"]) == 0
    calls = json.loads(capsys.readouterr().out)["calls"]
    assert [row["call"] for row in calls[::2]] == ["make_vec", "rollout", "evaluate"]
    for first, again in zip(calls[::2], calls[1::2], strict=True):
        assert (first["again"], again["again"]) == (False, True)
        assert first["hits"] == again["misses"] == 0
        assert first["misses"] == again["hits"] > 0
        assert all(first[stage] > 0 for stage in ("trace", "lower", "xla"))


def test_wrappers_by_name() -> None:
    wrappers = ["ClipReward", "FrameStackObservation(n_stack=3)", "envrax.wrappers:ClipReward"]
    env = find_env("envrax.testing:CountingEnv", wrappers)
    assert [type(layer).__name__ for layer in layers(env)][:2] == [
        "ClipReward",
        "FrameStackObservation",
    ]
    assert env.env.n_stack == 3


class Lake:
    """An environment of no library."""

    observation_space = Box(0.0, 1.0, (2,))
    action_space = Discrete(2)

    def __init__(self, size: int = 4) -> None:
        self.params = {"size": size}

    def reset(self, key: Any) -> Any:
        return jnp.zeros(2), jnp.int32(0)

    def step(self, key: Any, state: Any, action: Any) -> Any:
        state += action
        terminated = state > self.params["size"]
        return jnp.zeros(2), state, jnp.float32(1), terminated, jnp.bool_(False), {}


lake = Lake()
counting = CountingEnv()
catch_8 = partial(envrax.make, "classic/Catch-v0", rows=8)


NAMES = ("Lake", "lake", "Lake(size=9)", "catch_8", "counting")


@pytest.mark.parametrize("name", slow_but("Lake(size=9)", "counting", values=NAMES))
def test_all_commands_read_an_object_in_one_way(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An environment, what makes one, or an object of another library, perhaps with keywords."""
    name = f"command.test_bench:{name}"
    env = find_env(name)
    assert isinstance(env, JaxEnv)
    assert main(["show", name]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"actions {env.action_space}" in shown
    assert "catch_8" not in name or "rows=8" in shown
    assert "counting" in name or main(["check", name, "--num-steps", "1"]) == 0


def test_an_id_takes_the_keywords_of_make(capsys: pytest.CaptureFixture[str]) -> None:
    name = "classic/Catch-v0(rows=6, max_steps=7)"
    for env in (find_env(name), find_env(f"envrax.classic:{name}")):
        assert (env.config.rows, env.config.max_steps) == (6, 7)
    assert main(["show", name]) == 0
    assert "rows=6" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["NoSuchEnv-v0"], "Unknown environment"),
        (["envrax.testing:CountingEnv", "--n", "0"], "expected num_envs"),
        (["envrax.testing.fakes:RingWorld"], "expected a JaxEnv"),
        (["envrax.testing:CountingEnv", "--wrappers", "NoSuchWrapper"], "NoSuchWrapper"),
        (["envrax.testing:CountingEnv", "--wrappers", "ClipReward(1)"], "values by keyword"),
        (
            ["envrax.testing:CountingEnv", "--wrappers", "vector.NormalizeObservation"],
            "wrappers of `envrax.wrappers.vector` outside",
        ),
        (["command.test_bench:lake(size=3)"], "after a class or a function"),
        pytest.param(
            ["NoSuchEnv-v0", "--compile"], "Unknown environment", marks=pytest.mark.integration
        ),
    ],
)
def test_it_refuses(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["bench", *arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
