# pyright: basic, reportMissingImports=false
"""navix by name: equal to navix stepped by hand; waivers, mended bounds, frames, bad input."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from interop.by_hand import bits, equal
from interop.filming import shows_its_episode

import envrax
from envrax.interop import PeerConfig
from envrax.testing import report_env
from envrax.testing.jaxprs import reused_key

# Libraries warn when they are imported.
pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]

COMPARED = {
    "Navix-Empty-Random-5x5-v0": 20,
    "Navix-LavaGapS5-v0": 15,
    "Navix-GoToDoor-5x5-v0": 8,
    "Navix-Dynamic-Obstacles-5x5-Random-v0": 5,
}


@pytest.fixture(scope="module")
def adapter() -> Any:
    import envrax.interop.navix

    return envrax.interop.navix


def _make(adapter: Any, id: str, **fields: Any) -> Any:
    config = PeerConfig(id=id, **fields)
    return envrax.make(f"navix/{id}", config=config, jit_compile=False)


def _bare(timestep: Any) -> Any:
    return timestep.replace(observation=None, state=timestep.state.replace(cache=None))


@pytest.mark.parametrize("id", COMPARED)
def test_200_steps_are_those_of_navix(adapter: Any, id: str) -> None:
    """With the cache that navix carries on, and which ours makes again."""
    env = _make(adapter, id, max_steps=COMPARED[id])
    with jax.numpy_dtype_promotion("standard"):
        peer = adapter.navix.make(id, max_steps=COMPARED[id], disable_autoreset=True)
    reset, step = jax.jit(env.reset), jax.jit(env.step)

    @jax.jit
    def begin(rng: Any) -> Any:
        with jax.numpy_dtype_promotion("standard"):
            return peer.reset(jax.random.split(rng)[1])

    @jax.jit
    def advance(timestep: Any, action: Any) -> Any:
        with jax.numpy_dtype_promotion("standard"):
            return peer.step(timestep, action)

    ends: Counter[str] = Counter()
    rng = jax.random.key(3)
    (obs, state), hand = reset(rng), begin(rng)
    for action_key in jax.random.split(jax.random.key(4), 200):
        action = env.action_space.sample(action_key)
        obs, state, reward, done, info = step(state, action)
        hand = advance(hand, action)
        equal((obs, state.inner, reward), (hand.observation, _bare(hand), hand.reward))
        assert info["terminated"] == hand.is_termination()
        # An end by the task at the limit is both; navix calls it an end by the task.
        assert info["truncated"] == (hand.t >= peer.max_steps)
        assert done == hand.is_done()
        if done:
            ends.update(name for name in ("terminated", "truncated") if info[name])
            rng = jax.random.split(state.rng)[0]
            (obs, state), hand = reset(rng), begin(rng)
            equal((obs, state.inner), (hand.observation, _bare(hand)))
    assert ends["truncated"] and ends["terminated"], ends


@pytest.mark.parametrize("id", ["Navix-Empty-5x5-v0", "Navix-FourRooms-7x7-v0"])
def test_it_keeps_the_contract(adapter: Any, id: str) -> None:
    env = _make(adapter, id)
    report = report_env(env, num_steps=100)
    assert {finding.rule for finding in report.findings} <= set(env.waivers), report


@pytest.mark.parametrize(
    ("id", "waived"),
    [
        ("Navix-DoorKey-Random-5x5-v0", True),
        ("Navix-DoorKey-5x5-v0", False),
        ("Navix-FourRooms-7x7-v0", True),
        ("Navix-GoToDoor-5x5-v0", True),
        ("Navix-KeyCorridorS3R1-v0", True),
        ("Navix-SimpleCrossingS9N1-v0", True),
    ],
)
def test_what_is_waived_is_broken_in_navix(adapter: Any, id: str, waived: bool) -> None:
    """To be dropped once navix uses each key once."""
    env = _make(adapter, id)
    rules = {"keys_are_used_once", "calls_share_no_key"} if waived else set()
    assert set(env.unwrapped.waivers) == rules
    assert (reused_key(env.reset, jax.random.key(0)) is not None) == waived


def test_walls_are_minus_one_in_categorical_observations(adapter: Any) -> None:
    """Outside the bounds of navix. To be dropped once they are right."""
    options = {"observation_fn": adapter.observations.categorical}
    env = _make(adapter, "Navix-Empty-5x5-v0", options=options)
    obs, _ = env.reset(jax.random.key(0))
    assert obs in env.observation_space
    assert obs.min() < env.unwrapped.peer.observation_space.minimum


def test_ids_need_no_building(adapter: Any) -> None:
    names = [name for name in envrax.registered_names() if name.startswith("navix/")]
    assert len(names) == len(adapter.navix.registry()) == 83


def test_the_state_carries_no_pictures(adapter: Any) -> None:
    env = _make(adapter, "Navix-Empty-5x5-v0")
    _, state = env.reset(jax.random.key(0))
    assert sum(bits(leaf).nbytes for leaf in jax.tree.leaves(state)) < 400


def test_it_draws(adapter: Any, tmp_path: Any) -> None:
    env = _make(adapter, "Navix-DistShift1-v0")  # it is no square
    height, width, _ = env.observation_space.shape
    tile = adapter.navix.rendering.cache.TILE_SIZE
    assert shows_its_episode(env, tmp_path).shape == (height * tile, width * tile, 3)


def test_bad_input(adapter: Any) -> None:
    with pytest.raises(ValueError, match="Did you mean 'navix/Navix-Empty-5x5-v0'"):
        envrax.make("navix/Navix-Empty-5x5-v1")
    with pytest.raises(ValueError, match=r"navix/Navix-Empty-5x5-v0: .*options.*'sise'"):
        _make(adapter, "Navix-Empty-5x5-v0", options={"sise": 3})
    with pytest.raises(TypeError, match=r"expected no `params`, since the library has none"):
        _make(adapter, "Navix-Empty-5x5-v0", params={"gamma": 0.9})


def test_wrap(adapter: Any) -> None:
    with jax.numpy_dtype_promotion("standard"):
        peer = adapter.navix.make("Navix-Empty-5x5-v0", gamma=0.5)
    env = adapter.wrap(peer, max_steps=7)
    assert env.unwrapped.peer.gamma == 0.5
    assert env.config.max_steps == env.unwrapped.peer.max_steps == 7
    with pytest.raises(TypeError, match=r"navix\.wrap: expected an environment of navix"):
        adapter.wrap(object())


def test_an_environment_that_breaks_the_contract_of_navix(adapter: Any) -> None:
    with jax.numpy_dtype_promotion("standard"):
        peer = adapter.navix.make("Navix-Empty-5x5-v0")

    class Grows(type(peer)):
        def _step(self, timestep: Any, action: Any) -> Any:
            after = super()._step(timestep, action)
            return after.replace(observation=jnp.zeros((2, 2), jnp.uint8))

    fields = {name: getattr(peer, name) for name in peer.__dataclass_fields__}
    with pytest.raises(TypeError, match=r"navix/Grows: expected `obs` to keep its shape"):
        adapter.wrap(Grows(**fields)).reset(jax.random.key(0))
