# pyright: basic, reportMissingImports=false
"""craftax by name: equal to craftax stepped by hand; its achievements, limit, params, options."""

from typing import Any

import jax
import numpy as np
import pytest
from interop.by_hand import follow, make, observes, of_gymnax

CLASSIC = "craftax/Craftax-Classic-Symbolic-v1"


def test_200_steps_are_those_of_craftax(adapter: Any) -> None:
    env = make(CLASSIC, max_steps=40)
    peer, params = env.unwrapped.peer, env.unwrapped.peer.default_params

    def starve(inner: Any) -> Any:
        return inner.replace(player_health=inner.player_health * 0 - 9)

    assert follow(env, *of_gymnax(peer, params), edit=starve) == {"truncated", "terminated"}


def test_the_limit_may_be_traced_and_what_info_says_at_it(adapter: Any) -> None:
    env = make(CLASSIC, params={"max_timesteps": 1})
    assert env.config.max_steps == 1
    assert make(CLASSIC, max_steps=9).unwrapped.params.max_timesteps == 9

    def stepped(limit: Any) -> Any:
        env = make(CLASSIC, params={"max_timesteps": limit})
        _, state = env.reset(jax.random.key(0))
        inner = state.inner.replace(achievements=state.inner.achievements | True)
        return env.step(state.replace(inner=inner), 0)[-1]

    info = jax.jit(jax.vmap(stepped))(np.array([1, 2]))
    assert info["truncated"].tolist() == [True, False] and not info["terminated"].any()
    # craftax tells them when an episode ends
    assert info["Achievements/collect_coal"].tolist() == [100.0, 0.0]
    assert info["discount"][0] == 1.0


@pytest.mark.exhaustive
@pytest.mark.parametrize("id", ["Craftax-Classic-Pixels-v1", "Craftax-Pixels-v1"])
def test_images_are_a_function_of_the_state(adapter: Any, id: str) -> None:
    assert observes(make(f"craftax/{id}"))


def test_options_and_wrap(adapter: Any) -> None:
    peer = make(CLASSIC).unwrapped.peer
    static = peer.default_static_params().replace(max_zombies=1)
    small = make(CLASSIC, options={"static_env_params": static})
    mine = adapter.wrap(type(peer)(static), max_steps=50)
    assert (mine.name, mine.config.max_steps) == (small.name, 50)
    for env in (small, mine):
        state = jax.eval_shape(env.reset, jax.random.key(0))[1]
        assert state.inner.zombies.mask.shape == (1,)
