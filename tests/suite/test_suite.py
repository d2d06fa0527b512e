"""`EnvSuite` and `EnvSet`: names, membership, parts, and what must be installed."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from fakes import CounterEnv, VectorConfig

from envrax import (
    EnvSet,
    EnvSpec,
    EnvSuite,
    MissingPackageError,
    get_spec,
    register,
    register_suite,
    unregister,
)

pytestmark = pytest.mark.usefixtures("clean_registry")


def specs(*names: str) -> list[EnvSpec]:
    return [EnvSpec(name, CounterEnv, VectorConfig()) for name in names]


class Plain(EnvSuite):
    """Pinned by plain class attributes."""

    prefix = "demo"
    category = "Demo"
    version = "v2"
    required_packages = ["json", "os.path"]  # noqa: RUF012 - as users write it
    specs = specs("One", "Two", "Three")


@dataclass
class AsFields(EnvSuite):
    """Pinned by dataclass fields."""

    prefix: str = "demo"
    category: str = "Demo"
    version: str = "v2"
    required_packages: list[str] = field(default_factory=lambda: ["json", "os.path"])
    specs: list[EnvSpec] = field(default_factory=lambda: specs("One", "Two", "Three"))


class PlainOfFields(AsFields):
    """Plain class attributes on top of dataclass fields."""

    version = "v3"


@dataclass
class FieldsOfPlain(Plain):
    """Dataclass fields on top of plain class attributes, and one of its own."""

    version: str = "v3"
    extra: int = 7


V2 = ["demo/One-v2", "demo/Two-v2", "demo/Three-v2"]
V3 = ["demo/One-v3", "demo/Two-v3", "demo/Three-v3"]
SUITES: list[tuple[Any, list[str]]] = [
    (Plain, V2),
    (AsFields, V2),
    (PlainOfFields, V3),
    (FieldsOfPlain, V3),
]


@pytest.mark.parametrize(("cls", "names"), SUITES)
def test_a_suite_however_it_pins_its_fields(cls: Any, names: list[str]) -> None:
    suite = cls()
    assert suite.envs == ["One", "Two", "Three"]
    assert suite.n_envs == len(suite) == 3
    assert list(suite) == suite.all_names() == names
    assert suite.all_names("v9") == ["demo/One-v9", "demo/Two-v9", "demo/Three-v9"]
    assert suite.all_names(version="v9")[0] == suite.get_name("One", version="v9") == "demo/One-v9"
    assert suite.get_name("One") == names[0]
    assert suite.check() == {"json": True, "os.path": True}
    assert suite.is_available()


@pytest.mark.parametrize(("cls", "names"), SUITES)
def test_every_name_that_iteration_gives_is_in_the_suite(cls: Any, names: list[str]) -> None:
    suite = cls()
    assert all(name in suite for name in suite)
    assert "One" in suite
    for absent in ("Four", "demo/One-v9", "demo/One", "One-v2x", "", 3, None):
        assert absent not in suite


@pytest.mark.parametrize(("cls", "names"), SUITES)
def test_an_index_or_a_slice_is_a_suite_of_the_same_class(cls: Any, names: list[str]) -> None:
    suite = cls()
    for part, expected in (
        (suite[0], names[:1]),
        (suite[-1], names[-1:]),
        (suite[1:], names[1:]),
        (suite[::-2], names[::-2]),
        (suite[3:], []),
    ):
        assert type(part) is cls
        assert list(part) == expected
        assert (part.prefix, part.category, part.version) == ("demo", "Demo", suite.version)
        assert part.required_packages == ["json", "os.path"]
    with pytest.raises(IndexError):
        suite[3]
    assert list(suite) == names


@pytest.mark.parametrize("cls", [cls for cls, _ in SUITES])
def test_a_field_given_wins_over_one_pinned(cls: Any) -> None:
    assert list(cls(version="v7", specs=specs("Four"))) == ["demo/Four-v7"]
    # Also where what is given is the default of `EnvSuite`, or of a class in between.
    for version in ("v0", "v2"):
        assert cls(version=version).version == cls("demo", "Demo", version).version == version
    bare = cls(prefix="", category="", required_packages=[], specs=[])
    assert (bare.prefix, bare.category, bare.required_packages, bare.specs) == ("", "", [], [])
    assert cls("other").all_names()[0].startswith("other/One-")


@pytest.mark.parametrize("cls", [cls for cls, _ in SUITES])
def test_instances_share_nothing_that_can_change(cls: Any) -> None:
    for other in (cls(), cls()[1:]):
        other.specs[-1].default_config.max_steps = 99
        other.specs.pop()
        other.required_packages.append("nothing")
    assert cls().envs == ["One", "Two", "Three"]
    assert cls().specs[2].default_config.max_steps == 5
    assert cls().required_packages == ["json", "os.path"]
    given = specs("One")
    suite = EnvSuite("demo", specs=given)
    given.pop().default_config.max_steps = 99
    assert suite.specs[0].default_config.max_steps == 5


def test_without_a_prefix_or_a_version_the_marks_between_go_too() -> None:
    assert EnvSuite().get_name("Ball") == "Ball-v0"
    assert EnvSuite(version="").get_name("Ball") == "Ball"
    assert EnvSuite("demo", version="").get_name("Ball") == "demo/Ball"


def test_check_knows_missing_and_dotted_packages() -> None:
    names = ["json", "os.path", "missing_pkg", "missing_pkg.sub", "json.missing", "json.decoder.x"]
    suite = EnvSuite(required_packages=names)
    assert list(suite.check().values()) == [True, True, False, False, False, False]
    assert list(suite.check()) == names
    assert not suite.is_available()
    assert EnvSuite().is_available() and EnvSuite().check() == {}


def test_a_set_of_suites() -> None:
    one, two = Plain(), EnvSuite("other", "Other", specs=specs("Six"))
    both = EnvSet(one, two)
    assert EnvSet(one, one, two).env_categories() == {"Demo": 6, "Other": 1}
    assert both.suites == [one, two]
    assert both.n_envs == len(both) == 4
    assert list(both) == both.all_names() == [*V2, "other/Six-v0"]
    assert both.all_names("v9") == [*one.all_names("v9"), "other/Six-v9"]
    assert both.env_categories() == {"Demo": 3, "Other": 1}
    assert repr(both) == "EnvSet([Plain, EnvSuite], total=4)"
    assert len(EnvSet()) == 0


def test_adding_a_set_or_a_suite() -> None:
    one, two, three = Plain(), EnvSuite("b", "B", specs=specs("X")), EnvSuite("c", specs=specs("Y"))
    start = EnvSet(one)
    assert (start + EnvSet(two, three)).suites == [one, two, three]
    assert (start + two).suites == [one, two]
    assert start.suites == [one]


def test_verify_packages_names_every_suite_and_package() -> None:
    arcade = EnvSuite("arc", "Games", required_packages=["no_such_a", "json"])
    board = EnvSuite("brd", "Games", required_packages=["no_such_b.sub"])
    EnvSet(Plain()).verify_packages()
    with pytest.raises(MissingPackageError) as error:
        EnvSet(arcade, Plain(), board).verify_packages()
    message = str(error.value)
    assert all(part in message for part in ("arc", "brd", "no_such_a", "no_such_b.sub"))
    assert "json" not in message and "Plain" not in message


def test_from_names_keeps_the_order_and_the_packages() -> None:
    register_suite(Plain())
    register_suite(AsFields(prefix="other", category="Other", required_packages=["no_such"]))
    register("Lonely-v5", CounterEnv, VectorConfig())
    register("x/y/Deep-v1", CounterEnv, VectorConfig(), suite="Deep")
    register("Bare", CounterEnv, VectorConfig(), suite="Deep")
    names = [
        *("demo/Two-v2", "demo/One-v2"),
        *("other/One-v2", "other/Three-v2"),
        *("demo/Three-v2", "Lonely-v5", "x/y/Deep-v1", "Bare"),
    ]
    rebuilt = EnvSet.from_names(iter(names))
    assert rebuilt.all_names() == list(rebuilt) == names
    runs = [(type(s), s.category, len(s), s.required_packages) for s in rebuilt.suites[:3]]
    assert runs == [
        (Plain, "Demo", 2, ["json", "os.path"]),
        (AsFields, "Other", 2, ["no_such"]),
        (Plain, "Demo", 1, ["json", "os.path"]),
    ]
    with pytest.raises(MissingPackageError, match="no_such"):
        rebuilt.verify_packages()
    assert list(EnvSet.from_names([])) == []


def test_from_names_gives_specs_that_can_be_registered_again() -> None:
    register_suite(Plain(), version="v8")
    [suite] = EnvSet.from_names(["demo/Two-v8", "demo/One-v8"]).suites
    assert (suite.envs, suite.version) == (["Two", "One"], "v8")
    unregister("demo/Two-v8")
    unregister("demo/One-v8")
    register_suite(suite)
    assert get_spec("demo/Two-v8").suite == "Demo"


def test_a_suite_may_name_its_environments_by_a_rule_of_its_own() -> None:
    class Stems(Plain):
        def get_name(self, name: str, version: str | None = None) -> str:
            return f"{name.lower()}::SCORE@{version or 'v3'}"

    register_suite(Stems())
    assert get_spec("two::SCORE@v3").suite == "Demo"
    assert Stems().all_names() == ["one::SCORE@v3", "two::SCORE@v3", "three::SCORE@v3"]
