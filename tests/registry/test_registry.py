"""The registry: what is registered, refused, found and handed out as a copy."""

import copy
import dataclasses
import pickle
import threading
from dataclasses import dataclass
from typing import Any

import chex
import pytest
from fakes import CounterEnv, PixelEnv, VectorConfig, VectorEnv

from envrax import (
    ClipReward,
    EnvConfig,
    EnvSet,
    EnvSpec,
    EnvSuite,
    FrameStackObservation,
    get_spec,
    make,
    register,
    register_suite,
    registered_names,
    unregister,
)

pytestmark = pytest.mark.usefixtures("clean_registry")


@chex.dataclass
class Held(VectorConfig):
    held: Any = None


def specs(*names: str) -> list[EnvSpec]:
    return [EnvSpec(name, CounterEnv, VectorConfig()) for name in names]


def test_empty_after_import(run_python: Any) -> None:
    assert run_python("import envrax; print(envrax.registered_names())").strip() == "[]"


def test_spec_is_frozen_and_its_suite_is_optional() -> None:
    spec = EnvSpec("A-v0", CounterEnv, VectorConfig())
    assert (spec.suite, spec.wrappers) == ("", ())
    assert EnvSpec("A-v0", CounterEnv, VectorConfig(), "s").suite == "s"
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.name = "B-v0"  # pyright: ignore[reportAttributeAccessIssue]


@dataclass
class Unhashable:
    def __call__(self, env: Any) -> Any:
        return env


def test_specs_are_equal_by_value_and_can_be_hashed() -> None:
    def spec(steps: int, n_stack: int) -> EnvSpec:
        wrappers = [ClipReward, FrameStackObservation(n_stack=n_stack), Unhashable()]
        return EnvSpec("A-v0", CounterEnv, VectorConfig(max_steps=steps), "", wrappers)

    assert spec(3, 2) == spec(3, 2) != spec(4, 2) and spec(3, 2) != spec(3, 4)
    assert len({spec(3, 2), spec(3, 2), spec(4, 2)}) == 2
    register("A-v0", CounterEnv, VectorConfig())
    assert hash(get_spec("A-v0")) == hash(get_spec("A-v0"))


@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_specs_suites_and_sets_survive_a_copy(twin_of: Any) -> None:
    spec = EnvSpec("A-v0", CounterEnv, VectorConfig(max_steps=7), "s")
    twin = twin_of(spec)
    assert twin == spec and twin.default_config is not spec.default_config
    suite = EnvSuite(prefix="demo", category="Demo", specs=[spec])
    both = EnvSet(suite, EnvSuite(prefix="other", category="Other", specs=[spec]))
    assert twin_of(suite).all_names() == suite.all_names() == ["demo/A-v0-v0"]
    assert twin_of(both).all_names() == both.all_names()


def test_register_get_and_unregister() -> None:
    register("Zed-v0", CounterEnv, VectorConfig(max_steps=9), suite="games")
    register("Abe-v0", VectorEnv, EnvConfig())
    assert [n for n in registered_names() if n in ("Zed-v0", "Abe-v0")] == ["Abe-v0", "Zed-v0"]
    assert registered_names() == sorted(registered_names())
    expected = EnvSpec("Zed-v0", CounterEnv, VectorConfig(max_steps=9), "games")
    assert get_spec("Zed-v0") == expected
    unregister("Zed-v0")
    assert "Zed-v0" not in registered_names()
    with pytest.raises(ValueError, match="Unknown environment 'Zed-v0'"):
        get_spec("Zed-v0")
    register("Zed-v0", VectorEnv, VectorConfig())  # a name that was taken off is free


def test_a_duplicate() -> None:
    register("Abe-v0", CounterEnv, VectorConfig(max_steps=1))
    with pytest.raises(ValueError, match=r"'Abe-v0' is already registered.*unregister"):
        register("Abe-v0", VectorEnv, VectorConfig())
    assert get_spec("Abe-v0").env_class is CounterEnv


@pytest.mark.parametrize(
    "cls", [CounterEnv(), VectorConfig, "CounterEnv", None, lambda config: None]
)
def test_a_class_that_is_no_env(cls: Any) -> None:
    with pytest.raises(TypeError, match="expected a JaxEnv or BatchedEnv class for 'Abe-v0'; got"):
        register("Abe-v0", cls, VectorConfig())
    assert "Abe-v0" not in registered_names()


@pytest.mark.parametrize("config", [None, VectorConfig, {"max_steps": 3}, 3])
def test_a_config_that_is_no_config(config: Any) -> None:
    with pytest.raises(TypeError, match="expected an EnvConfig for 'Abe-v0'; got"):
        register("Abe-v0", CounterEnv, config)
    assert "Abe-v0" not in registered_names()


@pytest.mark.parametrize("name", [None, 3])
def test_a_name_that_is_no_str(name: Any) -> None:
    with pytest.raises(TypeError, match="expected a name, a str; got"):
        register(name, CounterEnv, VectorConfig())


ILLEGAL = ["", " ", "bad name", "Ball\n", "/Ball", "demo/", "a//b", "a:Ball-v0", "a,b", "Ball!"]


@pytest.mark.parametrize("name", ILLEGAL)
def test_a_name_that_is_no_id(name: str) -> None:
    with pytest.raises(ValueError, match=r"register: expected a name such as .*'demo/BallEnv-v0'"):
        register(name, CounterEnv, VectorConfig())
    if name:
        with pytest.raises(ValueError, match="register: expected a name such as"):
            register_suite(EnvSuite("demo", specs=specs(f"{name}/ ")))


def test_ids_of_other_libraries_are_legal() -> None:
    ids = "Navix-Empty-5x5-v0 playground/CartpoleBalance xminigrid/MiniGrid-Empty-5x5 brax/ant"
    for name in [*ids.split(), "kinetix/l/h17_unicycle", "pgx/2048", "a/b+c.json", "x/Größe-v1"]:
        register(name, CounterEnv, VectorConfig())
        assert make(name, jit_compile=False).name == "CounterEnv"


@pytest.mark.parametrize(
    ("typo", "meant"), [("CartPole-v0", "classic2/CartPole-v0"), ("mountain-v0", "Mountain-v0")]
)
def test_an_unknown_name_offers_close_matches_and_all_names(typo: str, meant: str) -> None:
    register("classic2/CartPole-v0", CounterEnv, VectorConfig())
    register("Mountain-v0", CounterEnv, VectorConfig())
    for look_up in (get_spec, unregister, make):
        with pytest.raises(ValueError, match=f"Unknown environment '{typo}'") as error:
            look_up(typo)
        hint, available = str(error.value).split("Available:")
        assert "Did you mean" in hint and repr(meant) in hint
        assert "classic2/CartPole-v0" in available and "Mountain-v0" in available


@pytest.mark.parametrize("name", [["Abe-v0"], CounterEnv, None, 3])
def test_something_that_is_no_name(name: Any) -> None:
    with pytest.raises(ValueError, match=r"Unknown environment .*Available: "):
        get_spec(name)


def test_an_unknown_name_without_a_close_match_or_any_name(run_python: Any) -> None:
    register("Mountain-v0", CounterEnv, VectorConfig())
    with pytest.raises(ValueError, match=r"Unknown environment 'qqq'. Available: .*Mountain-v0"):
        get_spec("qqq")
    code = "import envrax\ntry:\n  envrax.make('X-v0')\nexcept ValueError as e: print(e)"
    assert "import the package that registers it" in run_python(code)


def test_an_unknown_prefix_says_to_import_or_install() -> None:
    register("classic2/CartPole-v0", CounterEnv, VectorConfig())
    for name, prefix in [("demo/a/Ball-v0", "demo"), ("clasic2/CartPole-v0", "clasic2")]:
        with pytest.raises(ValueError, match=f"No suite with the prefix '{prefix}' is.*install it"):
            make(name)
    for name in ("classic2/CartPoel-v0", "CartPole-v0"):
        with pytest.raises(ValueError) as error:
            make(name)
        assert "No suite" not in str(error.value) and "Did you mean" in str(error.value)


def test_configs_are_copied_on_the_way_in_and_out() -> None:
    given = VectorConfig(max_steps=3)
    register("Abe-v0", CounterEnv, given)
    given.max_steps = 99
    assert get_spec("Abe-v0").default_config.max_steps == 3
    get_spec("Abe-v0").default_config.max_steps = 99
    one, two = make("Abe-v0", jit_compile=False), make("Abe-v0", jit_compile=False)
    one.config.max_steps = 99
    assert two.config.max_steps == get_spec("Abe-v0").default_config.max_steps == 3


@pytest.mark.parametrize(
    "call",
    [
        lambda spec: register(spec.name, spec.env_class, spec.default_config),
        lambda spec: register_suite(EnvSuite("demo", specs=[spec])),
    ],
)
def test_a_config_that_cannot_be_copied(call: Any) -> None:
    before = registered_names()
    spec = EnvSpec("Ball-v0", CounterEnv, Held(held=threading))
    with pytest.raises(TypeError, match=r"EnvSpec 'Ball-v0': .* a Held with the field `held`: c"):
        call(spec)
    spec.default_config.held, spec.default_config.more = None, threading  # pyright: ignore
    with pytest.raises(TypeError, match=r"a Held with something in it: cannot pickle 'module'"):
        call(spec)
    assert registered_names() == before


def test_configs_of_a_suite_are_copied_too() -> None:
    shared = VectorConfig(max_steps=3)
    both = [EnvSpec(name, CounterEnv, shared) for name in ("One", "Two")]
    register_suite(EnvSuite("abe", "Abe", specs=both))
    make("abe/One-v0", jit_compile=False).config.max_steps = 99
    get_spec("abe/One-v0").default_config.max_steps = 99
    shared.max_steps = 77
    assert get_spec("abe/One-v0").default_config.max_steps == 3
    assert get_spec("abe/Two-v0").default_config.max_steps == 3


def test_register_suite_names_and_tags_every_spec() -> None:
    suite = EnvSuite("abe", "Abe's games", "v3", specs=specs("One", "Two"))
    register_suite(suite)
    register_suite(suite, version="v4")
    for version in ("v3", "v4"):
        for name in ("One", "Two"):
            spec = get_spec(f"abe/{name}-{version}")
            assert spec == EnvSpec(
                f"abe/{name}-{version}", CounterEnv, VectorConfig(), "Abe's games"
            )
    assert [spec.name for spec in suite.specs] == ["One", "Two"]


REFUSED: list[tuple[list[EnvSpec], type[Exception], str]] = [
    (specs("New", "Taken"), ValueError, "'abe/Taken-v0' is already registered"),
    (
        specs("New", "New"),
        ValueError,
        "each environment once; got 'abe/New-v0' twice in",
    ),
    (specs("New", "a b"), ValueError, "'abe/a b-v0'"),
    ([*specs("New"), EnvSpec("Bad", EnvConfig, EnvConfig())], TypeError, "BatchedEnv class"),  # type: ignore
    ([*specs("New"), EnvSpec("Bad", PixelEnv, None)], TypeError, "EnvConfig"),  # type: ignore
]


@pytest.mark.parametrize(("members", "kind", "message"), REFUSED)
def test_a_suite_is_registered_as_a_whole_or_not_at_all(
    members: list[EnvSpec], kind: Any, message: str
) -> None:
    register("abe/Taken-v0", VectorEnv, VectorConfig())
    before = registered_names()
    with pytest.raises(kind, match=message):
        register_suite(EnvSuite("abe", "Abe", specs=members))
    assert registered_names() == before
    assert get_spec("abe/Taken-v0").env_class is VectorEnv


def test_a_suite_without_a_prefix_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a suite with a prefix; got EnvSuite .*`prefix = \"de"):
        register_suite(EnvSuite(specs=specs("New")))
    assert "New-v0" not in registered_names()


def test_threads_register_each_name_once() -> None:
    names = [f"Thread{i}-v0" for i in range(50)]
    won: list[str] = []
    start = threading.Barrier(4)

    def work() -> None:
        start.wait()
        for name in names:
            try:
                register(name, CounterEnv, VectorConfig())
                won.append(name)
            except ValueError:
                assert name in registered_names()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == sorted(names)
    assert set(names) <= set(registered_names())
