"""The public names: the module that each is in, and the signature of each."""

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import envrax
import envrax.autoreset
import envrax.multi_agent
import envrax.rollouts
import envrax.testing
import envrax.wrappers.vector
from envrax import DEFAULT_CACHE_DIR

PAGE = (Path(__file__).parents[1] / "public_names.md").read_text(encoding="utf-8")
LISTED = dict(re.findall(r"^## (.+?)\n.*?^```text\n(.+?)^```", PAGE, re.DOTALL | re.MULTILINE))
HOMES = dict(line.split(": ") for line in LISTED["Names of each module"].splitlines())
LINES = LISTED["Signatures"].splitlines()
PROPERTIES = dict(line.split(": ") for line in LISTED["Properties"].splitlines())
FACTORY = object()  # the default of a dataclass field with a `default_factory`


@pytest.mark.parametrize("home", HOMES)
def test_every_name_is_in_its_module_and_at_the_top_level(home: str) -> None:
    module = importlib.import_module(f"envrax.{home}")
    for name in HOMES[home].split():
        found = getattr(module, name)
        if home not in ("testing", "multi_agent") and name not in ("vector", "ShardedEnv"):
            assert name in envrax.__all__ and getattr(envrax, name) is found


def test_every_name_that_is_listed_exists() -> None:
    assert {"DEFAULT_CACHE_DIR", "__version__", "spaces", "wrappers"} <= {*envrax.__all__}
    assert [name for name in envrax.__all__ if not hasattr(envrax, name)] == []


@pytest.mark.parametrize(
    "module",
    [
        envrax,
        envrax.wrappers,
        envrax.wrappers.vector,
        envrax.spaces,
        envrax.multi_agent,
        envrax.rollouts,
        envrax.autoreset,
        envrax.testing,
    ],
    ids=lambda module: module.__name__,
)
def test_public_classes_and_functions_are_defined_in_public_modules(module: Any) -> None:
    public = [getattr(module, name) for name in module.__all__]
    found = [x for x in public if inspect.isclass(x) or inspect.isfunction(x)]
    assert found
    hidden = [x for x in found if any(p.startswith("_") for p in x.__module__.split("."))]
    assert hidden == []


def resolve(path: str) -> Any:
    home, *names = path.split(".")
    found: Any = importlib.import_module(f"envrax.{home}")
    for name in names:
        if not hasattr(found, name):  # a module that is imported when it is asked for
            importlib.import_module(f"{found.__name__}.{name}")
        found = getattr(found, name)
    return found


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    """Name, kind and default of each parameter, without `self`."""
    found = [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]
    return [p for p in found if p[0] != "self"]


def same_default(ours: Any, theirs: Any) -> bool:
    if theirs is FACTORY:
        return repr(ours) == "<factory>"
    if theirs in ("int32", "float32"):
        return np.dtype(ours) == theirs
    return type(ours) is type(theirs) and ours == theirs


@pytest.mark.parametrize("line", LINES)
def test_signature(line: str) -> None:
    path, arguments = line[:-1].split("(", 1)
    names = {"DEFAULT_CACHE_DIR": DEFAULT_CACHE_DIR, "FACTORY": FACTORY}
    expected = parameters(eval(f"lambda {arguments}: None", names))
    ours = parameters(resolve(path))
    added = [p for p in ours if p[0] not in {name for name, _, _ in expected}]
    promised = [p for p in ours if p not in added]
    assert [p[:2] for p in promised] == [p[:2] for p in expected]
    for (name, _, our_default), (_, _, default) in zip(promised, expected, strict=True):
        assert same_default(our_default, default), f"{name}={our_default!r}"
    for name, kind, default in added:
        assert kind is inspect.Parameter.KEYWORD_ONLY, f"{name} is more than the contract has"
        assert default is not inspect.Parameter.empty, f"{name} needs a default"


@pytest.mark.parametrize(
    ("path", "name"), [(path, name) for path, names in PROPERTIES.items() for name in names.split()]
)
def test_property(path: str, name: str) -> None:
    assert isinstance(inspect.getattr_static(resolve(path), name), property)


def test_every_public_method_of_these_classes_is_in_the_table() -> None:
    table = {line.split("(")[0] for line in LINES}
    for path in (
        "batched_env.BatchedEnv",
        "vec_env.VecEnv",
        "multi_env.MultiEnv",
        "multi_vec_env.MultiVecEnv",
        "suite.EnvSuite",
        "suite.EnvSet",
    ):
        members = inspect.getmembers_static(
            resolve(path), lambda x: inspect.isroutine(x) or isinstance(x, classmethod)
        )
        assert {f"{path}.{name}" for name, _ in members if not name.startswith("_")} <= table
