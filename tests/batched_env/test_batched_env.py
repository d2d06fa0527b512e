"""`BatchedEnv`: a subclass that works on the host needs five members, and gets the rest."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from envrax import BatchedEnv, Box, Discrete, MultiDiscrete


class HostEnv(BatchedEnv[Box, Discrete]):
    """NumPy on the host, with a state that JAX knows nothing of."""

    n_slots = 3  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]

    @property
    def single_observation_space(self) -> Box:
        return Box(0.0, 1.0, (2,))

    @property
    def single_action_space(self) -> Discrete:
        return Discrete(4)

    @property
    def traceable(self) -> bool:
        return False

    def reset(self, rng: jax.Array) -> tuple[Any, Any]:
        return np.zeros((3, 2), np.float32), ["opaque"] * 3

    def step(self, state: Any, actions: Any) -> tuple[Any, ...]:
        assert state == ["opaque"] * 3
        zeros = np.zeros(3, np.float32)
        return np.ones((3, 2), np.float32), state, zeros, zeros.astype(bool), {}


def test_cannot_be_built_without_its_five_members() -> None:
    with pytest.raises(TypeError, match="abstract"):
        BatchedEnv()  # pyright: ignore[reportAbstractUsage]
    members = {"n_slots", "single_observation_space", "single_action_space", "reset", "step"}
    assert BatchedEnv.__abstractmethods__ == members


def test_defaults() -> None:
    env = HostEnv()
    assert env.name == "HostEnv"
    assert env.observation_space == Box(0.0, 1.0, (2,)).batch(3)
    assert env.action_space == MultiDiscrete((4, 4, 4))
    assert BatchedEnv.traceable.fget(env) is True  # pyright: ignore[reportOptionalCall]
    assert env.traceable is False
    obs, state = env.reset(jax.random.key(0))
    assert env.observation_space.contains(obs)
    assert env.observation_space.contains(env.step(state, [0, 1, 2])[0])


@pytest.mark.parametrize("member", ["slot_state", "render_slot"])
def test_what_a_subclass_may_leave_out_says_so(member: str) -> None:
    with pytest.raises(NotImplementedError, match=rf"HostEnv\.{member}"):
        getattr(HostEnv(), member)(["opaque"] * 3, 1)


def test_compile_does_nothing(tmp_path: Path, compile_counter: Any) -> None:
    with compile_counter() as compiled:
        HostEnv().compile()
        HostEnv().compile(cache_dir=tmp_path / "cache")
    assert compiled.count == 0
    assert not list(tmp_path.iterdir())
