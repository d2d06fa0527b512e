"""The PPO example with `--checkpoint`: killed anywhere, it ends with the same parameters."""

import gc
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import ppo
import ppo_checkpoint
import pytest
from ppo_checkpoint import KEPT, Checkpoints, digest
from ppo_options import Options, parse

SIZES = ["--n-envs=4", "--n-steps=4", "--minibatches=2", "--hidden=4", "--interval=2"]
FLAGS = ["--seed=7", "--total-steps=160", *SIZES]
SAVED, _ = parse(FLAGS)  # 10 updates, in 5 calls


@pytest.fixture(autouse=True)
def standard_promotion() -> Iterator[None]:
    """Adam, as optax writes it, does not hold under strict promotion."""
    with jax.numpy_dtype_promotion("standard"):
        yield


class Cut(Exception):
    """Training stops here."""


class Cutting(Checkpoints):
    """Raises after some calls, before or after these are saved."""

    after, saved = 0, False

    def save(self, training: Any, calls: int) -> None:
        if calls < self.after or self.saved:
            super().save(training, calls)
        if calls == self.after:
            raise Cut


def trained(
    folder: Path, checkpoints: type[Checkpoints] = Checkpoints, options: Options = SAVED
) -> Any:
    return ppo.run(ppo.PPO(options), checkpoints(folder, options))


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {ppo_checkpoint.MARKER}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, ppo.Result]]:
    """A directory of a training that was not cut, and its result. To be copied."""
    folder = tmp_path_factory.mktemp("finished")
    with jax.numpy_dtype_promotion("standard"), pytest.MonkeyPatch.context() as patch:
        programs = ppo.compiled(ppo.PPO(SAVED))
        patch.setattr(ppo, "compiled", lambda _: programs)  # most of the time of a tiny training
        yield folder, trained(folder)


def require_same(found: ppo.Result, wanted: ppo.Result) -> None:
    assert digest(found.params) == digest(wanted.params)
    jax.tree.map(np.testing.assert_array_equal, tuple(found), tuple(wanted))


@pytest.mark.slow
def test_checkpoints_change_no_number(finished: tuple[Path, ppo.Result]) -> None:
    folder, result = finished
    require_same(ppo.run(ppo.PPO(SAVED)), result)
    assert names(folder) == {"6", "8", "10"} and len(names(folder)) == KEPT


@pytest.mark.slow
@pytest.mark.parametrize(("after", "saved"), [(1, False), (1, True), (3, False), (5, True)])
def test_a_training_that_was_cut_ends_as_if_it_was_not(
    after: int,
    saved: bool,
    finished: tuple[Path, ppo.Result],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Cutting, "after", after)
    monkeypatch.setattr(Cutting, "saved", saved)
    with pytest.raises(Cut):
        trained(tmp_path, Cutting)
    require_same(
        trained(tmp_path, options=replace(SAVED, fps=3)), finished[1]
    )  # the frame rate may change
    updates = 2 * (after if saved else after - 1)
    told = f"{tmp_path} has the {'finished ' * (after == 5)}training up to update {updates}\n"
    assert capsys.readouterr().out == told * (updates > 0)


@pytest.mark.slow
def test_what_is_finished_is_not_trained_again(
    finished: tuple[Path, ppo.Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(finished[0], tmp_path / "again")
    monkeypatch.setattr(Checkpoints, "save", None)  # would be called
    require_same(trained(folder), finished[1])


# When it cannot read, Orbax leaves coroutines behind that complain when they are collected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.slow
@pytest.mark.parametrize("damage", ["half", "description", "values"])
def test_a_damaged_checkpoint_is_put_aside(
    damage: str, finished: tuple[Path, ppo.Result], tmp_path: Path, capsys: Any
) -> None:
    folder = shutil.copytree(finished[0], tmp_path / "damaged")
    newest = folder / "10"
    if damage == "values":  # those of another checkpoint: only the digest tells
        shutil.rmtree(newest / "training")
        shutil.copytree(folder / "8" / "training", newest / "training")
    elif damage == "description":
        shutil.rmtree(newest / "description")
    else:
        for data in (newest / "training").rglob("d/*"):
            os.truncate(data, data.stat().st_size // 2)
    require_same(trained(folder), finished[1])
    gc.collect()
    said = capsys.readouterr().out.splitlines()
    assert f"{folder / '10'} cannot be read" in said[0]
    assert said[1] == f"{folder} has the training up to update 8"
    aside = names(folder) - {"6", "8", "10"}
    assert [name.split("-")[0] for name in aside] == ["10.unreadable"]


@pytest.mark.slow
def test_without_a_readable_checkpoint_it_begins_anew(
    finished: tuple[Path, ppo.Result], tmp_path: Path
) -> None:
    folder = shutil.copytree(finished[0], tmp_path / "damaged")
    for name in names(folder):
        shutil.rmtree(folder / name / "description")
    require_same(trained(folder), finished[1])
    kept = {name for name in names(folder) if name.isdigit()}
    assert kept == {"6", "8", "10"} and len(names(folder) - kept) == 3


@pytest.mark.slow
def test_a_save_that_was_cut_short_is_no_checkpoint(
    finished: tuple[Path, ppo.Result], tmp_path: Path, capsys: Any
) -> None:
    folder = shutil.copytree(finished[0], tmp_path / "cut")
    (folder / "10").rename(folder / "10.orbax-checkpoint-tmp")
    (folder / "10.orbax-checkpoint-tmp" / "_CHECKPOINT_METADATA").unlink()
    require_same(trained(folder), finished[1])
    assert capsys.readouterr().out == f"{folder} has the training up to update 8\n"
    assert names(folder) == {"6", "8", "10"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--seed=8"], "expected seed = 7, as in the training that is saved there; got 8."),
        (["classic/Ball-v0"], "expected env = classic/CartPole-v0, as in the training"),
        (["--n-envs=8"], "expected n_envs = 4, as in the training that is saved there; got 8."),
        (["--total-steps=320"], "expected total_steps = 160, as in the training"),
        (["--interval=5"], "expected interval = 2, as in the training"),
        (["gymnasium:CartPole-v1"], "expected an environment in JAX; got gymnasium:CartPole-v1"),
    ],
)
def test_other_options_are_refused(
    flags: list[str], sentence: str, finished: tuple[Path, ppo.Result]
) -> None:
    before = names(finished[0])
    with pytest.raises(SystemExit) as told:
        ppo.main([*FLAGS, f"--checkpoint={finished[0]}", *flags])
    assert str(told.value).startswith(f"ppo.py: error: --checkpoint {finished[0]}: {sentence}")
    assert names(finished[0]) == before


def test_arrays_of_other_types_are_refused(tmp_path: Path) -> None:
    then = {"a": jnp.zeros(3), "none": jnp.zeros((0, 2)), "key": jax.random.key(1)}
    Checkpoints(tmp_path, SAVED).save(then, 1)
    found, calls = Checkpoints(tmp_path, SAVED).restore(jax.tree.map(jnp.zeros_like, then))
    assert calls == 1 and digest(found) == digest(then)
    with pytest.raises(SystemExit, match=r"expected \['a'\] = float32\[3\], .*; got float32\[4\]"):
        Checkpoints(tmp_path, SAVED).restore(then | {"a": jnp.zeros(4)})
    with pytest.raises(SystemExit, match=r"expected \['b'\] = None, .*; got int32\[\]"):
        Checkpoints(tmp_path, SAVED).restore(then | {"b": jnp.int32(0)})
    assert names(tmp_path) == {"2"}


def test_a_directory_of_another_program_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    with pytest.raises(SystemExit, match="got one with other files"):
        Checkpoints(tmp_path, SAVED)
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit, match="got one with other files"):
        Checkpoints(tmp_path / "file", SAVED)
    assert {path.name for path in tmp_path.iterdir()} == {"7", "file"}


def test_it_says_so_where_numbers_may_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Checkpoints(tmp_path, SAVED).save({"a": jnp.zeros(3)}, 1)
    monkeypatch.setattr(ppo_checkpoint, "place", lambda _: "another one")
    Checkpoints(tmp_path, SAVED).restore({"a": jnp.ones(3)})
    _, said = capsys.readouterr().out.splitlines()
    assert (
        said
        == f"it was saved on 1 cpu with JAX {jax.__version__}; on another one numbers may differ"
    )


def killed(command: list[str], folder: Path, moment: random.Random, **settings: Any) -> bool:
    """Run it; SIGKILL it at a random moment after it began another checkpoint."""
    wanted, seen = moment.randint(1, 4), names(folder)
    with subprocess.Popen(command, **settings) as process:
        while process.poll() is None:
            if len(names(folder) - seen) >= wanted:
                time.sleep(moment.uniform(0, 0.05))
                process.kill()
                return process.wait() == -signal.SIGKILL
            time.sleep(0.001)
        assert process.returncode == 0
    return False


@pytest.mark.slow
@pytest.mark.integration
def test_sigkill(tmp_path: Path) -> None:
    tiny = ["--total-steps=800", *SIZES, "--no-video"]  # 50 updates
    script = Path(ppo.__file__)
    settings: Any = {
        "cwd": tmp_path,
        "env": {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, sys.path)),
            "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        },
    }
    folders = [tmp_path / "whole", tmp_path / "killed"]
    commands = [[sys.executable, script, f"--checkpoint={name}", *tiny] for name in folders]
    subprocess.run(commands[0], check=True, **settings)
    folders[1].mkdir()
    moment = random.Random(20)
    kills = [killed(commands[1], folders[1], moment, **settings) for _ in range(3)]
    assert all(kills)
    subprocess.run(commands[1], check=True, **settings)
    assert names(folders[0]) == names(folders[1]) == {"46", "48", "50"}
    asked = parse(tiny)[0]
    like = jax.jit(ppo.PPO(asked).init)(0), np.zeros((25, 2, 2, 1), np.float32)
    (whole, calls), (pieces, also) = (Checkpoints(name, asked).restore(like) for name in folders)
    assert calls == also == 25 and digest(whole) == digest(pieces)
