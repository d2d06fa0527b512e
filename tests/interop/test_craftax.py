# pyright: basic, reportMissingImports=false
"""craftax by name: equal to craftax stepped by hand; its achievements, limit, images, refusals."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from interop.by_hand import follow, keeps_the_contract
from interop.filming import shows_its_episode

import envrax
from envrax.interop import PeerConfig

# Libraries warn when they are imported.
pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]

CLASSIC = "Craftax-Classic-Symbolic-v1"


@pytest.fixture(scope="module")
def adapter() -> Any:
    import envrax.interop.craftax

    return envrax.interop.craftax


def _make(id: str, **fields: Any) -> Any:
    return envrax.make(f"craftax/{id}", jit_compile=False, **fields)


@pytest.mark.parametrize(
    "id",
    [
        *(CLASSIC, "Craftax-Classic-Pixels-v1"),
        *(pytest.param(f"Craftax-{x}-v1", marks=pytest.mark.slow) for x in ("Symbolic", "Pixels")),
    ],
)
def test_200_steps_are_those_of_craftax(adapter: Any, id: str) -> None:
    env = _make(id, max_steps=40)
    peer, params = env.unwrapped.peer, env.unwrapped.peer.default_params

    def begin(key: Any) -> Any:
        return peer.reset_env(key, params)

    def advance(key: Any, inner: Any, action: Any) -> Any:
        return peer.step_env(key, inner, action, params)[:4]

    def starve(inner: Any) -> Any:
        return inner.replace(player_health=inner.player_health * 0 - 9)

    ends = follow(env, begin, advance, edit=starve)
    assert ends["truncated"] and ends["terminated"]


def test_it_keeps_the_contract(adapter: Any) -> None:
    keeps_the_contract(_make(CLASSIC), num_steps=50)


def test_the_limit_and_what_info_says_at_it(adapter: Any) -> None:
    assert len(envrax.load_suite("craftax")) == 4
    env = _make(CLASSIC, params={"max_timesteps": 1})
    assert env.config.max_steps == 1
    assert _make(CLASSIC, max_steps=9).unwrapped.params.max_timesteps == 9
    _, state = jax.jit(env.reset)(jax.random.key(0))
    inner = state.inner.replace(achievements=state.inner.achievements | True)
    *_, info = jax.jit(env.step)(state.replace(inner=inner), 0)
    assert info["truncated"] and not info["terminated"]
    assert info["Achievements/collect_coal"] == 100.0  # craftax tells them when an episode ends
    assert info["discount"] == 1.0


def test_params_may_be_traced(adapter: Any) -> None:
    def ends(limit: Any) -> Any:
        env = adapter.CraftaxEnv(PeerConfig(id=CLASSIC, params={"max_timesteps": limit}))
        info = env.step(env.reset(jax.random.key(0))[1], 0)[-1]
        return info["truncated"], info["terminated"]

    truncated, terminated = jax.jit(jax.vmap(ends))(np.array([1, 2]))
    assert truncated.tolist() == [True, False] and not terminated.any()


def test_it_draws(adapter: Any, tmp_path: Any) -> None:
    shows_its_episode(_make(CLASSIC), tmp_path)


def test_what_is_refused(adapter: Any) -> None:
    with pytest.raises(ValueError, match=CLASSIC):
        _make("Craftax-Classic-Symbolic-v2")
    with pytest.raises(ValueError, match=f"{CLASSIC}: expected craftax .*'wind'"):
        _make(CLASSIC, options={"wind": 1})
    with pytest.raises(TypeError, match="`params` of max_timesteps"):
        _make(CLASSIC, params={"wind": 1})
    with pytest.raises(TypeError, match="expected an environment of craftax"):
        adapter.wrap(object())


def test_options_and_wrap(adapter: Any) -> None:
    peer = _make(CLASSIC).unwrapped.peer
    static = peer.default_static_params().replace(max_zombies=1)
    small = _make(CLASSIC, options={"static_env_params": static})
    mine = adapter.wrap(type(peer)(static), max_steps=50)
    assert (mine.name, mine.config.max_steps) == (CLASSIC, 50)
    for env in (small, mine):
        state = jax.eval_shape(env.reset, jax.random.key(0))[1]
        assert state.inner.zombies.mask.shape == (1,)
