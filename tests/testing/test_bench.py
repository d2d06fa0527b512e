"""`python -m envrax bench ID`."""

import json
from typing import Any

import jax
import pytest
from helpers import assert_trees_equal

from envrax.__main__ import main
from envrax.testing import CountingEnv, bench
from envrax.testing.fakes import MaskedEnv
from envrax.testing.multi_agent_fakes import NimWorld
from envrax.testing.speed import RandomPlay, Speed, measure, ticks
from envrax.vec_env import VecEnv


def speed(n: int, rate: float, episode_steps: float | None = 22.0) -> Speed:
    ways = dict.fromkeys(("Compact", "Select", "no_reset", "python_loop"), [n / rate] * 3)
    ways["no_reset"] = [n / rate / 2, n / rate / 4, n / rate / 8]
    return Speed(n, "Select", 1.0, ways, 123456.0, episode_steps)


@pytest.mark.slow
def test_every_way_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two repetitions of ten steps, after twenty that only warm up."""
    monkeypatch.setattr("envrax.testing.speed.REPEATS", 2)
    monkeypatch.setattr("envrax.testing.speed.SECONDS", 0.0)
    monkeypatch.setattr("envrax.testing.speed._steps_in", lambda seconds, play: 10)
    calls: list[None] = []
    found = measure(CountingEnv(), 2, lambda: calls.append(None))
    assert {*found.seconds} == {"Compact", "Select", "no_reset", "python_loop"}
    assert all(len(times) == 2 and min(times) > 0 for times in found.seconds.values())
    assert found.strategy == "Compact"  # on a CPU
    assert found.episode_steps == 5.0
    assert found.bytes_per_slot and found.compile_seconds > 0
    assert len(calls) == ticks()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers in place of what is measured: a million steps per second for each slot."""
    monkeypatch.setattr(bench, "measure", lambda env, n, tick: speed(n, 1e6 * n))


@pytest.mark.usefixtures("made")
def test_it_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "envrax.testing:CountingEnv", "--n", "30", "2", "30", "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["id"], found["enough"]) == ("envrax.testing:CountingEnv", 30)
    assert [row["n"] for row in found["slots"]] == [2, 30]
    assert found["slots"][1]["steps_per_second"]["Select"] == pytest.approx(30e6)
    assert "N = 30" in err


@pytest.mark.usefixtures("made")
def test_it_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "envrax.testing:CountingEnv"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("envrax.testing:CountingEnv on cpu, JAX ")
    numbers = [line.split()[0] for line in out.splitlines() if line[:1] == " " and "*" in line]
    assert numbers == ["64", "1,024", "8,192"]
    assert max(map(len, out.splitlines())) <= 80


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


def test_numbers_of_a_row_are_medians() -> None:
    found = speed(1_000_000, 123.4e9)
    assert found.reset_cost == pytest.approx(3.0)
    assert found.per_second() == pytest.approx(123.4e9)
    assert bench.row(found).split()[2:6] == ["1.23e+05", "*1.23e+05", "4.94e+05", "1.23e+05"]
    assert len(bench.row(found)) == 80
    assert "-" in bench.row(found._replace(bytes_per_slot=None)).split()


@pytest.mark.parametrize(
    ("rates", "n", "said"),
    [
        ([1.0, 7.0, 7.5], 128, "N = 128 has 90 %"),
        ([1.0, 7.0, 9.0], 256, "N = 256, the largest, is the fastest"),
        ([9.0, 7.0, 5.0], 64, "N = 64 has 90 %"),
    ],
)
def test_more_slots_pay_until_nine_tenths_of_the_most(
    rates: list[float], n: int, said: str
) -> None:
    speeds = [speed(64 * 2**i, rate) for i, rate in enumerate(rates)]
    assert bench.enough(speeds) == n
    assert bench.verdict(speeds).startswith(said)
    assert "take 22 steps" in bench.verdict(speeds)
    assert "no reset is timed" in bench.verdict([x._replace(episode_steps=None) for x in speeds])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["NoSuchEnv-v0"], "Unknown environment"),
        (["envrax.testing:CountingEnv", "--n", "0"], "expected num_envs"),
        (["envrax.testing.fakes:RingWorld"], "expected a JaxEnv"),
    ],
)
def test_it_refuses(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["bench", *arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
