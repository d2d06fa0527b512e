"""
Wrappers under Gymnasium's names against Gymnasium's own, on the same recorded inputs.

Values are equal to the bit, but where a case says otherwise: scaling is in float32 here, and in the
rounding order of NumPy there.
"""

import sys
from types import SimpleNamespace
from typing import Any

import gymnasium
import gymnasium.wrappers as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import slow_but
from replay import History, Ours, Theirs, assert_same, play_ours, play_theirs

import envrax
from envrax.interop import to_space
from envrax.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

# It says so when a float64 bound becomes one of the narrower dtype that was asked for.
pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered by casting")

VECTOR = Box([-1.0, 0.0, -3.0], [1.0, 5.0, 3.0], (3,))
IMAGE = Box(0, 255, (4, 6, 3), jnp.uint8)
MIXED = Dict(
    image=Box(0, 255, (2, 2), jnp.uint8),
    both=Tuple((Discrete(4), Box(-1.0, 1.0, (2,)))),
    grid=MultiDiscrete([[2, 3], [4, 1]]),
    flags=MultiBinary(3),
)
BOXES = Dict(a=Box(-1.0, 1.0, (2,)), b=Box(0.0, 9.0, (1, 2)))
HALF_OPEN = Box([0.0, -np.inf, -np.inf, -2.0], [np.inf, 3.0, np.inf, 2.0], (4,))


def twice(x: Any) -> Any:
    return x * np.float32(2)


def last(x: Any) -> Any:
    return x[..., -1]


# name, keywords, space of observations, and how close the values are where not to the bit
OBSERVATIONS: list[tuple[str, dict[str, Any], Any, float]] = [
    ("FlattenObservation", {}, MultiDiscrete([[2, 3], [4, 1]]), 0),
    ("FlattenObservation", {}, MultiBinary((2, 3)), 0),
    ("FlattenObservation", {}, BOXES, 0),
    ("FlattenObservation", {}, Tuple((Box(-1.0, 1.0, ()), BOXES)), 0),
    ("ReshapeObservation", {"shape": (8, 9)}, IMAGE, 0),
    ("ReshapeObservation", {"shape": (3, 1)}, VECTOR, 0),
    ("FilterObservation", {"filter_keys": ["image", "both"]}, MIXED, 0),
    ("FilterObservation", {"filter_keys": [1, 0]}, Tuple((VECTOR, Discrete(3), IMAGE)), 0),
    ("RescaleObservation", {"min_obs": -2.0, "max_obs": 7.0}, VECTOR, 1e-6),
    (
        "RescaleObservation",
        {
            "min_obs": np.array([5, -np.inf, -np.inf, 0], np.float32),
            "max_obs": np.array([np.inf, 1, np.inf, 1], np.float32),
        },
        HALF_OPEN,
        1e-6,
    ),
    ("DelayObservation", {"delay": 3}, Box(2.0, 9.0, (2,)), 0),
    ("DelayObservation", {"delay": 2}, BOXES, 0),
    ("MaxAndSkipObservation", {}, IMAGE, 1e-6),  # only the rewards, which are summed in float64
    ("MaxAndSkipObservation", {"skip": 3}, VECTOR, 1e-6),
    ("TimeAwareObservation", {"flatten": False, "dict_time_key": "when"}, BOXES, 0),
    ("TimeAwareObservation", {"flatten": False}, Tuple((VECTOR, IMAGE)), 0),
    ("TimeAwareObservation", {"flatten": False, "normalize_time": True}, VECTOR, 1e-7),
    ("TimeAwareObservation", {"normalize_time": True}, VECTOR, 1e-7),
    ("TimeAwareObservation", {}, IMAGE, 0),
    ("TransformObservation", {"func": last, "observation_space": Box(-9.0, 9.0, ())}, VECTOR, 0),
    ("TransformReward", {"func": twice}, VECTOR, 0),
]


def cases(rows: Any, slow: tuple[int, ...]) -> list[Any]:
    """The rows as parameters; those at the places `slow` are in the slow tier."""
    return [
        pytest.param(*row, id=f"{i}-{row[0]}", marks=[pytest.mark.slow] if i in slow else [])
        for i, row in enumerate(rows)
    ]


def both(name: str, keywords: dict[str, Any], history: History) -> tuple[Any, Any]:
    """Our wrapper around our env and theirs around theirs; time limits for those that want one."""
    theirs, ours = Theirs(history), Ours(history)
    their_keywords = dict(keywords)
    for key in ("observation_space", "action_space"):
        if key in keywords:
            their_keywords[key] = to_space(keywords[key])
    if name == "TimeAwareObservation":
        theirs, ours = gym.TimeLimit(theirs, 9), envrax.TimeLimit(ours, 9)
    return getattr(envrax, name)(ours, **keywords), getattr(gym, name)(theirs, **their_keywords)


@pytest.mark.parametrize(
    ("name", "keywords", "space", "rtol"), cases(OBSERVATIONS, slow=(2, 4, 7, 10, 13, 14, 15, 17))
)
def test_observations(name: str, keywords: dict[str, Any], space: Any, rtol: float) -> None:
    ours, theirs = both(name, keywords, History(space))
    peer = theirs.observation_space
    of_choices = peer.dtype == np.int64  # which they have outside of JAX
    if of_choices:
        peer = gymnasium.spaces.Box(peer.low, peer.high, dtype=np.int32)
    assert to_space(ours.observation_space) == peer
    actions = [i % 3 for i in range(3 if "Skip" in name else 12)]
    our_obs, our_rest, *_ = play_ours(ours, actions)
    their_obs, their_rest = play_theirs(theirs, actions)
    for a, b in zip(our_obs, their_obs, strict=True):
        assert_same(a, b, rtol, dtypes=not of_choices)
    np.testing.assert_allclose(np.array(our_rest, float), np.array(their_rest, float), rtol)


@pytest.mark.parametrize(
    ("space", "dtype"),
    [
        (IMAGE, jnp.float32),
        (VECTOR, jnp.float16),
        (Box(-5.0, 9.0, (2,)), jnp.int32),
        (Discrete(5), jnp.float32),
        (MultiBinary((2, 2)), jnp.float32),
        (MultiDiscrete([3, 4]), jnp.int8),
    ],
    ids=str,
)
def test_dtypes(space: Any, dtype: Any) -> None:
    history = History(space)
    ours = envrax.DtypeObservation(Ours(history), dtype)
    theirs = gym.DtypeObservation(Theirs(history), dtype=np.dtype(dtype).type)
    if isinstance(space, Discrete):  # Gymnasium 1.3 has one value too many
        assert ours.observation_space == Box(0, space.n - 1, (), dtype)
    elif isinstance(space, MultiDiscrete):
        assert ours.observation_space == MultiDiscrete(space.nvec, dtype)
    else:
        assert to_space(ours.observation_space) == theirs.observation_space
    for a, b in zip(play_ours(ours, [0] * 5)[0], play_theirs(theirs, [0] * 5)[0], strict=True):
        assert_same(a, b)


def test_a_space_of_many_dtypes_is_flattened_to_float32() -> None:
    """Where Gymnasium has float64."""
    for name, keywords, space in [
        ("FlattenObservation", {}, MIXED),
        ("TimeAwareObservation", {}, VECTOR),
    ]:
        ours, theirs = both(name, keywords, History(space))
        assert ours.observation_space.dtype == np.float32
        assert theirs.observation_space.dtype == np.float64
        for bound in ("low", "high"):
            assert_same(
                getattr(ours.observation_space, bound),
                getattr(theirs.observation_space, bound),
                dtypes=False,
            )
        played = play_ours(ours, [0] * 12)[0], play_theirs(theirs, [0] * 12)[0]
        for a, b in zip(*played, strict=True):
            assert_same(a, b, dtypes=False)


PLANE = Box([-1.0, 0.0], [1.0, 4.0], (2,))
ACTIONS: list[tuple[str, dict[str, Any], Any, Any, float]] = [
    ("ClipAction", {}, PLANE, np.float32([[-3, 9], [0.5, 1], [np.inf, -np.inf]]), 0),
    (
        "RescaleAction",
        {"min_action": -1.0, "max_action": 1.0},
        PLANE,
        np.float32([[-1, 1], [1, -1], [0.3, 0.7], [0, 0], [2, -3]]),
        1e-6,
    ),
    (
        "RescaleAction",
        {
            "min_action": np.array([5, -np.inf, -np.inf, 0], np.float32),
            "max_action": np.array([np.inf, 1, np.inf, 1], np.float32),
        },
        HALF_OPEN,
        np.float32([[6, -4, 1e6, 0.25], [5, 1, -3, 1]]),
        1e-6,
    ),
    ("DiscretizeAction", {"bins": (2, 5)}, PLANE, np.arange(10), 1e-6),
    ("DiscretizeAction", {"bins": 4}, Box(-2.0, 2.0, (1,)), np.arange(4), 1e-6),
    (
        "DiscretizeAction",
        {"bins": (2, 5), "multidiscrete": True},
        PLANE,
        np.int32([[0, 0], [1, 4], [0, 3]]),
        1e-6,
    ),
    ("TransformAction", {"func": twice, "action_space": PLANE}, PLANE, np.ones((2, 2)), 0),
]


@pytest.mark.parametrize(
    ("name", "keywords", "space", "actions", "rtol"), cases(ACTIONS, slow=(4, 6))
)
def test_actions(
    name: str, keywords: dict[str, Any], space: Any, actions: Any, rtol: float
) -> None:
    ours, theirs = both(name, keywords, History(VECTOR, space))
    our_space, their_space = ours.action_space, theirs.action_space
    if isinstance(our_space, Box):
        assert to_space(our_space) == their_space
    else:  # our integers have 32 bits, and those of Gymnasium 64
        assert type(to_space(our_space)) is type(their_space)
        counts = [getattr(x, "nvec", getattr(x, "n", 0)) for x in (our_space, their_space)]
        np.testing.assert_array_equal(*counts)
    actions = actions.astype(np.float32 if actions.dtype.kind == "f" else np.int32)
    infos = play_ours(ours, list(actions))[2]
    play_theirs(theirs, list(actions))
    for info, taken in zip(infos, theirs.unwrapped.taken, strict=True):
        assert_same(info["taken"], taken.astype(np.float32), rtol)


def test_a_scalar_action_is_discretized() -> None:
    env = envrax.DiscretizeAction(Ours(History(VECTOR, Box(-2.0, 2.0, ()))), 4)
    assert jax.jit(jax.vmap(env.action))(np.arange(4)).tolist() == [-1.5, -0.5, 0.5, 1.5]


# Time limits


@pytest.mark.parametrize(
    ("max_steps", "ends"),
    [
        (5, {}),
        (5, {5: "terminated"}),
        (5, {5: "terminated, truncated"}),
        (12, {5: "truncated"}),
        pytest.param(1, {5: "terminated"}, marks=pytest.mark.slow),
        pytest.param(12, {}, marks=pytest.mark.slow),
    ],
)
def test_time_limits(max_steps: int, ends: dict[int, str]) -> None:
    history = History(VECTOR, ends=ends)
    ours, theirs = (
        envrax.TimeLimit(Ours(history), max_steps),
        gym.TimeLimit(Theirs(history), max_steps),
    )
    ours, theirs = play_ours(ours, [0] * 12)[1], play_theirs(theirs, [0] * 12)[1]
    np.testing.assert_array_equal(np.array(ours, float), np.array(theirs, float))
    assert len(ours) == min(max_steps, 5 if ends else 12)


# Steps of several steps


@pytest.mark.parametrize(
    "ends", slow_but({5: "truncated"}, values=[{}, {5: "truncated"}, {6: "terminated"}])
)
def test_repeated_actions(ends: dict[int, str]) -> None:
    history = History(VECTOR, ends=ends)
    ours, theirs = envrax.RepeatAction(Ours(history), 3), gym.RepeatAction(Theirs(history), 3)
    our_obs, our_rest, _, state = play_ours(ours, [0, 1, 2, 1])
    their_obs, their_rest = play_theirs(theirs, [0, 1, 2, 1])
    assert_same(our_obs, their_obs)
    np.testing.assert_allclose(np.array(our_rest, float), np.array(their_rest, float), 1e-6)
    assert int(state.step) == theirs.unwrapped.at == (*ends, 12)[0]


@pytest.mark.parametrize("end", slow_but(4, 5, values=[3, 4, 5]))
def test_the_maximum_is_over_frames_of_this_step(end: int) -> None:
    """Gymnasium's takes older ones if an episode ends within the skip, which ours does not."""
    history = History(IMAGE, ends={end: "terminated"})
    ours = envrax.MaxAndSkipObservation(Ours(history))
    seen, rest, _, state = play_ours(ours, [0, 0])
    first = 4 * ((end - 1) // 4)
    frames = history.obs[max(first + 1, end - 1) : end + 1]
    np.testing.assert_array_equal(seen[-1], frames.max(axis=0))
    np.testing.assert_allclose(rest[-1][0], history.rewards[first + 1 : end + 1].sum(), 1e-5)
    assert int(state.step) == end
    if end % 4 == 0:
        theirs = play_theirs(gym.MaxAndSkipObservation(Theirs(history)), [0, 0])[0]
        assert_same(seen, theirs)


def test_sticky_actions_are_the_last_or_the_new_one() -> None:
    p, steps = 0.25, 300
    history = History(Discrete(2), Discrete(1000), steps)
    actions = np.arange(1, steps + 1)
    infos = play_ours(envrax.StickyAction(Ours(history), p), actions)[2]
    taken = np.array([int(info["taken"]) for info in infos])
    assert taken[0] == 1  # the first one is never stuck
    stuck = taken[1:] != actions[1:]
    np.testing.assert_array_equal(taken[1:], np.where(stuck, taken[:-1], actions[1:]))
    assert abs(stuck.mean() - p) < 0.09  # three standard deviations
    theirs = gym.StickyAction(Theirs(history), p)
    play_theirs(theirs, list(actions))
    they = np.array(theirs.unwrapped.taken)
    held = they[1:] != actions[1:]
    np.testing.assert_array_equal(they[1:], np.where(held, they[:-1], actions[1:]))
    assert abs(held.mean() - stuck.mean()) < 0.13


# Atari


class Emulator(Theirs):
    """The history as a game of ALE."""

    _frameskip = 1

    def __init__(self, history: History) -> None:
        super().__init__(history)
        grey = envrax.GrayscaleObservation(Ours(history)).observation
        self.grey = np.asarray(jax.jit(jax.vmap(grey))(history.obs))

    @property
    def ale(self) -> Any:
        def copy_to(buffer: Any, image: Any) -> None:
            buffer[...] = image

        return SimpleNamespace(
            lives=lambda: int(self.history.lives[self.at]),
            getScreenGrayscale=lambda buffer: copy_to(buffer, self.grey[self.at]),
            getScreenRGB=lambda buffer: copy_to(buffer, self.history.frame(self.at)),
        )

    def get_action_meanings(self) -> list[str]:
        return ["NOOP", "LEFT", "RIGHT"]


@pytest.mark.parametrize(
    "keywords",
    slow_but(
        {"frame_skip": 2, "terminal_on_life_loss": True},
        {"noop_max": 1},
        values=[
            {"grayscale_obs": False, "frame_skip": 1},
            {"grayscale_newaxis": True, "scale_obs": True},
            {"frame_skip": 2, "terminal_on_life_loss": True},
            {"noop_max": 1},
        ],
    ),
    ids=str,
)
def test_atari(keywords: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    # OpenCV is not installed for the tests. At the same size its resize changes nothing.
    same_size = SimpleNamespace(resize=lambda image, *_, **__: image, INTER_AREA=None)
    monkeypatch.setitem(sys.modules, "cv2", same_size)  # pyright: ignore[reportArgumentType]
    history = History(IMAGE, steps=40)
    keywords = {"noop_max": 0, "screen_size": (6, 4), **keywords}
    ours = envrax.AtariPreprocessing(Ours(history), **keywords)
    theirs = gym.AtariPreprocessing(Emulator(history), **keywords)
    assert to_space(ours.observation_space) == theirs.observation_space
    our_obs, our_rest, *_ = play_ours(ours, [1, 2] * 4)
    their_obs, their_rest = play_theirs(theirs, [1, 2] * 4)
    assert len(our_obs) == len(their_obs) == (3 if "terminal_on_life_loss" in keywords else 9)
    # The image of the step that ends an episode is an older one with Gymnasium.
    until = -1 if our_rest[-1][1] else None
    for a, b in zip(our_obs[:until], their_obs[:until], strict=True):
        assert_same(a, b)
    np.testing.assert_allclose(np.array(our_rest, float), np.array(their_rest, float), 1e-5)
