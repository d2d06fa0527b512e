"""`python -m envrax.testing`."""

from pathlib import Path

import pytest

from envrax.testing.__main__ import main
from envrax.testing.rules import ENV_RULES


@pytest.mark.slow
def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["broken_envs.drift:Drift", "--num-steps", "8", "--gradients"]) == 0
    kept = f"Drift(DriftConfig(max_steps=6)): {len(ENV_RULES)} rules kept, 0 broken, 0 skipped.\n"
    assert capsys.readouterr().out == kept
    broken = ["broken_envs.spaces:SpaceIsAnInt", "broken_envs.returns:StepGivesFour"]
    assert main([*broken, "--num-envs=2"]) == 1
    said = capsys.readouterr().out
    assert "returns one; got 3" in said and "got a tuple of length 4" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_such_module:Env"], "No module named"),
        (["NoSuchEnv-v0"], "Unknown environment"),
        (["builtins:dict"], "envrax.wrap"),
        (["envrax.testing:CountingEnv(5)"], "expected values by keyword after envrax.testing"),
        (["envrax.testing:CountingEnv(size=5)"], "'size'"),
        (["classic/Catch-v0(row=9)"], "Did you mean rows?"),
        (["envrax.testing:CountingEnv", "--num-steps=-3"], "at least 1"),
    ],
)
def test_command_line_refuses(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["leaves:Env"], ["--import", "leaves", "Leaves-v0"]])
def test_a_module_that_exits_is_no_success(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "leaves.py").write_text("import sys; sys.exit(0)")
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "SystemExit: 0" in capsys.readouterr().err
