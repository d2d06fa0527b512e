"""`python -m envrax NAME --help` of each command, without any extra."""

import pkgutil
import sys

import pytest

from envrax import command
from envrax.__main__ import main

NAMES = [x.name for x in pkgutil.iter_modules(command.__path__) if not x.ispkg]


@pytest.mark.parametrize("name", NAMES)
def test_help_needs_no_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `play`, whose module asks for Gymnasium and pygame."""
    for package in ("gymnasium", "pygame"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
