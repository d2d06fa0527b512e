# pyright: basic, reportMissingImports=false
"""octax by name: equal to octax stepped by hand; its options, levels, objects of users."""

from typing import Any

import jax
import numpy as np
import pytest
from interop.by_hand import called, follow, make

from envrax.spaces import Discrete, MultiBinary

# Games, with an edit halfway that brings about an end, as the game itself would.
COMPARED: dict[str, dict[str, Any]] = {
    "brix": {"V": {14: 0}},
    "pong": {},
    "target_shooter1": {"V": {3: 1}},
}


@pytest.mark.parametrize("id", COMPARED)
def test_200_steps_are_those_of_octax(adapter: Any, id: str) -> None:
    env = make(f"octax/{id}", max_steps=70)
    peer, _ = called(adapter.environments.create_environment, id)

    def begin(key: Any) -> Any:
        inner, obs, _ = peer.reset(key)
        return obs, inner

    def advance(key: Any, inner: Any, action: Any) -> Any:
        inner, obs, reward, terminated, _, info = peer.step(inner, action)
        return obs, inner, reward, {"terminated": terminated, "score": info["score"]}

    def edit(inner: Any) -> Any:
        registers = inner.V
        for place, value in COMPARED[id].get("V", {}).items():
            registers = registers.at[place].set(value)
        return inner.replace(V=registers)

    ends = follow(env, begin, advance, edit=edit)
    assert ends == {"truncated", *["terminated"] * bool(COMPARED[id])}


def test_options_and_limit(adapter: Any) -> None:
    env = make("octax/pong", options={"frame_skip": 2, "max_num_steps_per_episodes": 9})
    assert env.observation_space == MultiBinary((2, 64, 32), np.bool_)
    assert env.action_space == Discrete(3) and env.config.max_steps == 9
    assert make("octax/pong").config.max_steps == 4500
    longer = make("octax/pong", max_steps=3, options={"max_num_steps_per_episodes": 2})
    _, state = longer.reset(jax.random.key(0))
    ends = []
    for _ in range(3):
        _, state, _, done, _ = longer.step(state, 0)
        ends.append(bool(done))
    assert ends == [False, False, True]


def test_wrap_and_render(adapter: Any) -> None:
    options = {"color_scheme": "amber", "render_scale": 2}
    peer, _ = called(adapter.environments.create_environment, "tetris", **options)
    env = adapter.wrap(peer, max_steps=5)
    assert env.config.max_steps == 5 and env.name.startswith("Tetris")
    _, state = env.reset(jax.random.key(0))
    image = env.render(state)
    assert image.shape == (64, 128, 3) and image.dtype == np.uint8
    shown = image[::2, ::2].any(axis=-1).T
    np.testing.assert_array_equal(shown, state.inner.display)
    assert shown.any()
