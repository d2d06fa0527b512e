"""The abstract methods of an environment, and its defaults."""

import functools
from typing import Any

import pytest
from config.test_config import Open
from fakes import VectorEnv

from envrax import EnvConfig, JaxEnv
from envrax._checks.marks import adds
from envrax.testing import CountingEnv


@pytest.mark.parametrize("missing", ["observation_space", "action_space", "reset", "step"])
def test_four_things_are_abstract(missing: str) -> None:
    body = {name: vars(Open)[name] for name in JaxEnv.__abstractmethods__ if name != missing}
    cls = type("Partial", (JaxEnv,), body)
    with pytest.raises(TypeError, match=rf"Partial.*abstract.*{missing}"):
        cls(EnvConfig())
    assert len(body) == 3


def test_defaults_of_a_base_env(compile_counter: Any) -> None:
    env = VectorEnv()
    assert env.name == "VectorEnv"
    assert env.unwrapped is env
    assert env.traceable is True
    assert repr(env) == "VectorEnv(VectorConfig(max_steps=5, gravity=0.5))"
    with compile_counter() as compiled:
        assert env.compile() is None
    assert compiled.count == 0


def test_what_a_decorator_copies_is_no_mark() -> None:
    class Logged(CountingEnv):
        reset_after: Any = functools.wraps(JaxEnv.reset_after)(lambda env, state: state)

    assert adds(Logged().reset_after) and not adds(CountingEnv().reset_after)
