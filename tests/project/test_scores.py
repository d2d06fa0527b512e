"""What can be learned: verdicts, resumption, the check, and a short training of each kind."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envrax
from benchmarks import evidence, files, gallery, learners, scores, scores_page, tasks
from benchmarks.libraries import verdicts
from benchmarks.tasks import TASKS, Task
from envrax.libraries.cards import _measured as lines_of
from envrax.libraries.cards import bars as bars_of

CARTPOLE = next(task for task in TASKS if task.id == "classic/CartPole-v0")
CATCH = next(task for task in TASKS if task.id == "classic/Catch-v0")


@pytest.fixture
def standard_promotion() -> Iterator[None]:
    """Adam, as optax writes it, does not hold under strict promotion."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in place of `benchmarks/results`."""
    read, write = files.read, files.write

    def write_there(name: str, tables: Any, **more: Any) -> None:
        write(name, tables, tmp_path, **more)

    monkeypatch.setattr(files, "read", lambda name: read(name, tmp_path))
    monkeypatch.setattr(files, "write", write_there)
    return tmp_path


def row(random: float, trained: float, half: float = 0.0) -> dict[str, Any]:
    return {"random": random, "random ±": half, "trained": trained, "trained ±": half}


@pytest.mark.parametrize(
    ("found", "known", "verdict"),
    [
        (row(20.0, 480.0, 5.0), 475.0, "solved"),
        (row(20.0, 475.0, 5.0), 475.0, "solved"),
        (row(20.0, 474.0, 5.0), 475.0, "learns"),
        (row(20.0, 480.0, 5.0), None, "learns"),
        (row(20.0, 31.0, 5.0), None, "learns"),
        (row(20.0, 30.0, 5.0), None, "does not learn"),
        (row(20.0, 10.0, 1.0), None, "does not learn"),
        (row(1.0, 1.0), 1.0, "does not learn"),  # random play solves it
    ],
)
def test_it_learns_if_the_intervals_do_not_touch_and_is_solved_at_a_known_score(
    found: dict[str, Any], known: float | None, verdict: str
) -> None:
    assert scores.verdict_of(found, known) == verdict


@pytest.mark.parametrize("n", [0, 1, 2, 20, 21, 500])
def test_a_curve_keeps_its_ends(n: int) -> None:
    curve = [(i, float(i)) for i in range(n)]
    thin = scores._thinned(curve)
    assert len(thin) == len({*thin}) == min(n, 20) and thin == sorted(thin)
    assert (thin[:1], thin[-1:]) == (curve[:1], curve[-1:])


def test_a_spread_is_half_of_the_interval_of_the_mean() -> None:
    returns = np.random.default_rng(0).normal(3.0, 2.0, 400)
    found = scores._spread("random", returns)
    low, high = found["random"] - found["random ±"], found["random"] + found["random ±"]
    assert low < 3.0 < high and found["random ±"] == pytest.approx(1.96 * 2.0 / 20, rel=0.1)
    assert found["random std"] == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize(("now", "ok"), [(120.0, True), (110.0, True), (109.0, False)])
def test_a_check_wants_a_third_of_the_gain(now: float, ok: bool) -> None:
    assert scores.keeps(row(100.0, 130.0), row(0.0, now)) == ok


def test_a_check_fails_for_a_fall_and_for_a_missing_result(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scores.add(CARTPOLE, row(20.0, 500.0))
    monkeypatch.setattr(scores, "learned", lambda task, seconds, seeds: row(20.0, 100.0))
    assert scores.check([CARTPOLE, CATCH], 1.0) == 2
    printed = capsys.readouterr().out
    assert "CartPole-v0: FAILED: 100.0, where the result is 500.0, random play 20.0" in printed
    assert "Catch-v0: FAILED: there is no result" in printed
    monkeypatch.setattr(scores, "learned", lambda task, seconds, seeds: row(20.0, 400.0))
    assert scores.check([CARTPOLE], 1.0) == 0


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[str]:
    """The ids that `python -m benchmarks scores ARGUMENTS` starts a process for."""
    started = list[str]()
    monkeypatch.setattr("subprocess.run", lambda command: started.append(command[4]))
    monkeypatch.setattr(sys, "argv", ["scores", *arguments])
    scores.main()
    return started


def test_what_has_a_result_is_not_learned_again(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = [task.id for task in TASKS if task.library == "classic"]
    assert run(monkeypatch, "classic") == every
    scores.add(CARTPOLE, row(20.0, 500.0))
    scores.add(CATCH, {"failed": "ValueError"})
    assert {*every} - {*run(monkeypatch, "classic")} == {CARTPOLE.id, CATCH.id}
    assert run(monkeypatch, "classic", "--again") == every
    assert run(monkeypatch, CARTPOLE.id) == []
    with pytest.raises(SystemExit, match="expected ids"):
        run(monkeypatch, "classic/CartPol-v0")


def test_a_process_that_ends_leaves_a_reason(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(scores, "learned", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(monkeypatch, CARTPOLE.id, "--child")
    [found] = json.loads((results / "scores/classic.json").read_text())["scores"]
    assert found == {"id": CARTPOLE.id, "failed": "the process ended"}
    assert [*scores.every_row()] == []


def test_verdicts_follow_the_table_of_tasks(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores.add(CARTPOLE, row(20.0, 480.0))
    scores.add(CATCH, row(-0.6, -0.6))
    monkeypatch.setattr(tasks, "WHY", {})
    monkeypatch.setattr(scores, "WHY", {CATCH.id: "the ball is invisible"})
    path = results / "scores/classic.json"
    path.write_text(path.read_text().replace('"machine": "', '"machine": "another, '))
    scores.judge()
    assert json.loads(path.read_text())["machine"].startswith("another, ")
    solved, failed = scores.every_row()
    assert (solved["verdict"], solved["known"]) == ("solved", 475)
    assert (failed["verdict"], failed["why"]) == ("does not learn", "the ball is invisible")


@pytest.mark.parametrize(
    ("returns", "bars"),
    [([], ""), ([3.0, 3.0], "▁"), ([0.0, 7.0, 8.0], "▁▇█"), ([0.0, *[1.0] * 99], "▁" + "█" * 11)],
)
def test_a_curve_is_a_row_of_bars(returns: list[float], bars: str) -> None:
    assert bars_of(returns) == bars


@pytest.mark.usefixtures("results")
def test_the_cards_have_the_scores() -> None:
    more: dict[str, Any] = {"algorithm": "PPO", "curves": [{"2048": 20.0, "4096": 40.0}]}
    more |= {"steps": [4096], "cpu": [20.2], "versions": {"envrax": "0.1.0"}}
    scores.add(CARTPOLE, {**row(20.25, 1480.0, 1.0), **more})
    seen = {"network": "a small convolution", "seconds": 60.0}
    scores.add(CATCH, {**row(-0.6, -0.6, 0.2), **more, **seen})
    scores.judge()
    counts = "\n".join(scores_page.counts())
    assert "| classic | 2 | 1 | 0 | 1 |" in counts and "| all | 2 | 1 | 0 | 1 |" in counts
    _, _, unlearned = scores_page.unlearned()
    assert f"| `{CATCH.id}` | -0.6\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.2 |" in unlearned
    rows = dict(evidence.every())
    card = dict(lines_of(rows[CARTPOLE.id]))
    told = "solved: 20.25 ± 1 at random, 1,480 ± 1 after 4,096 steps of PPO; known: 475, "
    assert card["learned"] == told + CARTPOLE.source
    assert card["curve"] == "▁█ from 2,048 to 4,096 steps"
    of_catch = dict(lines_of(rows[CATCH.id]))["learned"]
    assert "4,096 steps of PPO with a small convolution, 60 CPU seconds; known: 1" in of_catch
    assert dict(lines_of(rows["classic/Maze-v0"]))["learned"] == "not tried"


@pytest.mark.usefixtures("results", "standard_promotion")
def test_the_gallery_plays_the_trained_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy that always pushes to the right lets the pole fall within 20 steps."""
    learner = learners.PPO(CARTPOLE)
    params = jax.tree.map(
        lambda x: np.zeros(x.shape, x.dtype), learner.params(jax.eval_shape(learner.init, 0))
    )
    params["params"]["Dense_5"]["bias"] = np.float32([-50.0, 50.0])
    monkeypatch.setattr(scores, "PARAMS", tmp_path)
    envrax.save(scores.params_path(CARTPOLE.id), params)
    played = list[Any]()
    monkeypatch.setattr(gallery, "_frames", lambda *given: played.append(given))
    gallery.trained(CARTPOLE.id)
    [(env, act, steps, stride)] = played
    assert (steps, stride) == (gallery.TRAINED_FRAMES, 1)
    obs, state = jax.jit(env.reset)(jax.random.key(0))
    act = jax.jit(act)
    assert [int(act(state, obs, rng)) for rng in jax.random.split(jax.random.key(1), 5)] == [1] * 5


def test_the_tasks_are_ids_that_can_be_built_of_every_library() -> None:
    ids = [task.id for task in TASKS]
    counts = Counter(task.library for task in TASKS)
    assert len({*ids}) == len(ids) >= 60 and min(counts.values()) >= 3 and len(counts) == 13
    for task in TASKS:
        if task.library != "classic":
            assert verdicts(task.library)[task.id]["verdict"] not in ("not built", "stopped"), task
    assert len({*tasks.CHECKED}) == 8 and {*tasks.CHECKED} <= {*ids}
    assert {*tasks.WHY} <= {*ids}


@pytest.mark.usefixtures("standard_promotion")
def test_uniform_play_and_the_policy_are_one_program() -> None:
    learner = learners.PPO(Task("classic/ConnectFour-v0"))
    state = jax.eval_shape(learner.init, 0)
    params = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), learner.params(state))
    rngs, mask = jax.random.split(jax.random.key(0), 500), np.arange(7) % 2 == 0
    params["params"]["Dense_5"]["bias"] = np.float32(50 * (np.arange(7) == 2))
    obs = np.zeros(learner.env.observation_space.shape)

    policy = jax.jit(
        lambda state: jax.vmap(lambda rng: learner.policy(state, obs, rng, mask)[0])(rngs)
    )

    def drawn(is_uniform: bool) -> Any:
        state = params, jnp.bool_(is_uniform)
        return np.asarray(policy(state))

    assert {*drawn(True).tolist()} == {0, 2, 4, 6} and {*drawn(False).tolist()} == {2}


@pytest.mark.parametrize(("shape", "n"), [((20, 10, 3), 1), ((4, 64, 32), 2), ((130, 110, 3), 5)])
def test_the_convolution_sees_channels_last_and_means_of_squares(
    shape: tuple[int, ...], n: int
) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    shown = envrax.Box(0, 255, shape, np.uint8)
    catch: Any = envrax.make("classic/Catch-v0", jit_compile=False)
    env, network = learners.image(
        envrax.TransformObservation(catch, lambda _: pixels, observation_space=shown)
    )
    obs = np.asarray(env.reset(jax.random.key(0))[0])
    last = pixels.transpose(1, 2, 0) if shape[0] == 4 else pixels
    height, width, _ = last.shape
    assert obs.shape == env.observation_space.shape == (height // n, width // n, last.shape[-1])
    for i, j in ((0, 0), (3, 2), (height // n - 1, width // n - 1)):
        square = last[n * i : n * i + n, n * j : n * j + n]
        np.testing.assert_allclose(obs[i, j], square.mean((0, 1)), rtol=1e-5)
    assert env.observation_space.contains(obs)
    assert network == "a small convolution" + (n > 1) * f" of the image, {n} times smaller"


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_the_convolution_learns_catch_and_the_row_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_setaffinity", lambda *_: None)
    found = scores.learned(Task(CATCH.id, images=True), 8.0, [0])
    assert found["verdict"] == "learns" and found["trained"] > found["random"] + 0.3
    assert found["network"] == "a small convolution"


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_ppo_learns_cartpole_and_the_row_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_setaffinity", lambda *_: None)
    found = scores.learned(CARTPOLE, 4.0, [0], tmp_path / "params.npz")
    assert found["verdict"] in ("learns", "solved") and found["trained"] > 5 * found["random"]
    assert 15 < found["random"] < 30  # uniform play ends after about 22 steps
    assert len(found["steps"]) == len(found["curves"]) == len(found["cpu"]) == 1
    for steps, cpu, curve in zip(found["steps"], found["cpu"], found["curves"], strict=True):
        assert steps % 2048 == 0 and 4.0 <= cpu < 8.0
        assert [*curve] == sorted(curve) and 0.5 * steps < max(curve) <= steps
    assert (tmp_path / "params.npz").exists()
    assert json.loads(json.dumps(found))["known"] == 475


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_dqn_is_trained_too() -> None:
    task = next(task for task in TASKS if task.algorithm == "DQN")
    learner = learners.DQN(task)
    [found] = learners.train(learner, [0], 1.0)
    assert found.steps > learner.dqn.options.first_steps
    returns = learner.evaluate(found.params, uniform=True)
    assert returns.shape == (100,) and (returns == -200).all()
