"""Every public name is documented, and the examples in docstrings are true."""

import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import jax
import pytest

import envrax
import envrax.testing

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(envrax.__path__, "envrax.")
    if not module.name.endswith("__main__")
)
# What an example may use without an import, as the reference says.
NAMES = {"jax": jax, **{name: getattr(envrax, name) for name in envrax.__all__}}


def examples() -> Iterator[Any]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    for name in MODULES:
        try:
            module = importlib.import_module(name)
        except envrax.MissingPackageError:  # an adapter, whose library is not installed here
            assert name.startswith("envrax.interop.")
            continue
        names = {**vars(module), **NAMES}
        yield from (test for test in finder.find(module, name, globs=names) if test.examples)


def tier(example: doctest.DocTest) -> list[Any]:
    """Those of spaces run by default; most others make and compile environments."""
    return [] if example.name.startswith("envrax.spaces.") else [pytest.mark.integration]


@pytest.mark.usefixtures("clean_registry")
@pytest.mark.parametrize("example", [pytest.param(e, marks=tier(e), id=e.name) for e in examples()])
def test_an_example_gives_what_it_shows(example: doctest.DocTest) -> None:
    said: list[str] = []
    with jax.numpy_dtype_promotion("standard"):
        failed, tried = doctest.DocTestRunner().run(example, out=said.append)
    assert tried and not failed, "".join(said)


def public() -> Iterator[tuple[str, Any]]:
    """The public names, and the public methods and properties of those that are classes."""
    for module in (envrax, envrax.autoreset, envrax.testing):
        for name in module.__all__:
            value = getattr(module, name)
            if not (callable(value) or inspect.ismodule(value)):
                continue
            yield name, value
            if inspect.isclass(value):
                for member in vars(value):
                    if not member.startswith("_"):
                        yield f"{name}.{member}", inspect.getattr_static(value, member)


def test_every_public_name_is_documented() -> None:
    speaking = {
        name: value
        for name, value in public()
        if inspect.isdatadescriptor(value)
        or inspect.ismodule(value)
        or getattr(value, "__module__", "").startswith("envrax")  # chex gives states methods too
    }
    assert len(speaking) > 150
    assert not [name for name, value in speaking.items() if not inspect.getdoc(value)]
