# pyright: reportMissingImports=false
"""`python -m envrax play ID`, with a display that nobody sees."""

import os

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # before pygame reads it

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import jax.numpy as jnp
import numpy as np
import pygame
import pytest

import envrax
from envrax import spaces
from envrax.__main__ import main
from envrax.classic import Pendulum
from envrax.interop.out import play
from envrax.testing import CountingEnv

Script = Callable[..., list[str]]


class NoPicture(CountingEnv):
    render = envrax.JaxEnv.render


class TwoNumbers(CountingEnv):
    action_space: Any = spaces.MultiDiscrete([2, 3])


def third(policy_state: Any, obs: Any, rng: Any) -> Any:
    """A policy."""
    return jnp.int32(2), policy_state, None


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """`script("left", "")`: the key that is held in each picture. Returns the titles, later."""
    titles: list[str] = []

    def begin(*keys: str) -> list[str]:
        def pictures() -> Iterator[None]:
            before = ""
            for key in keys:
                for kind, name in ((pygame.KEYUP, before), (pygame.KEYDOWN, key)):
                    if name:
                        code = pygame.key.key_code(name)
                        pygame.event.post(pygame.event.Event(kind, key=code))
                before = key
                yield
                titles.append(pygame.display.get_caption()[0])
            while True:
                pygame.event.post(pygame.event.Event(pygame.QUIT))
                yield

        shown = pictures()
        # Gymnasium reads the events of a picture, flips, and waits.
        monkeypatch.setattr(pygame.display, "flip", lambda: next(shown))
        return titles

    return begin


def test_keys_are_actions(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    """A reward of `CountingEnv` is the action; time stands still while no key is held."""
    titles = script("1", "", "", "right", "right", "down", "left", "", "")
    assert main(["play", "envrax.testing:CountingEnv", "--fps", "1000"]) == 0
    out = capsys.readouterr().out
    assert "right: 2" in out
    assert "episode 1: return 6, length 5" in out
    assert titles[-1] == "return 0 | length 0 | CountingEnv"
    assert "return 1 | length 1 | CountingEnv" in titles


def test_keys_of_ones_own(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    """`none` is the action while no key is held, or another one."""
    script("space", "space", "", "left", "")
    keys = ["--keys", "space=2", "none=1", "--fps", "1000"]
    assert main(["play", "envrax.testing:CountingEnv", *keys]) == 0
    assert "episode 1: return 7, length 5" in capsys.readouterr().out


@pytest.mark.parametrize("policy", ["trainers.test_play:third", "random"])
def test_a_policy_plays(policy: str, script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    script(*[""] * 6)
    assert main(["play", "envrax.testing:CountingEnv", "--policy", policy, "--fps", "1000"]) == 0
    out = capsys.readouterr().out
    assert "length 5" in out
    assert policy == "random" or "episode 1: return 10," in out


def test_a_film_has_every_state_once(script: Script, tmp_path: Path) -> None:
    """The first one, and one for each step, in the size of the window."""
    script("1", "1", "", "")
    path = tmp_path / "play.gif"
    arguments = ["--record", str(path), "--fps", "50"]
    assert main(["play", "envrax.testing:CountingEnv", *arguments]) == 0
    frames = imageio.imread(path)
    assert 440 <= max(frames.shape[1:3]) <= 520
    assert len(frames) == 3


def test_it_ends_after_the_last_episode(capsys: pytest.CaptureFixture[str]) -> None:
    """In a window that nobody closes."""
    arguments = ["--policy", "random", "--episodes", "2", "--fps", "1000"]
    assert main(["play", "envrax.testing:CountingEnv", *arguments]) == 0
    assert capsys.readouterr().out.count("length 5") == 2


def test_without_a_display(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Only a policy can play, for a film with an end."""
    monkeypatch.delenv("SDL_VIDEODRIVER")  # pygame keeps the driver of the tests
    arguments = ["play", "envrax.testing:CountingEnv", "--policy", "random", "--episodes", "2"]
    with pytest.raises(SystemExit):
        main(arguments)
    assert "play: expected a display, for the window; got none." in capsys.readouterr().err
    path = tmp_path / "play.gif"
    assert main([*arguments, "--record", str(path)]) == 0
    assert len(imageio.imread(path)) == 2 * (1 + 5)


def test_two_axes_of_a_box() -> None:
    keys = play.default_keys(spaces.Box(-2.0, jnp.array([3.0, jnp.inf, 5.0]), (3,)))
    assert len(keys) == 9
    np.testing.assert_array_equal(keys["none"], [0, 0, 0])
    np.testing.assert_array_equal(keys["right"], [3, 0, 0])
    np.testing.assert_array_equal(keys["left+up"], [-2, 1, 0])
    np.testing.assert_array_equal(play.default_keys(Pendulum().action_space)["left"], [-2])


def test_each_action_of_a_discrete_has_a_character() -> None:
    assert play.default_keys(spaces.Discrete(18))["h"] == 17
    assert play.default_keys(spaces.Discrete(4))["right"] == 3


def test_keys_of_a_box_from_texts() -> None:
    keys = play.parse_keys(spaces.Box(-1.0, 1.0, (2,)), ["left+space=0,-0.5", "==1,1"])
    np.testing.assert_array_equal(keys["left+space"], [0, -0.5])
    np.testing.assert_array_equal(keys["="], [1, 1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trainers.test_play:NoPicture"], "expected an environment that implements render"),
        (["trainers.test_play:TwoNumbers"], "MultiDiscrete((2, 3)). Name the keys"),
        (["envrax.testing:CountingEnv", "--keys", "up=x"], "got 'up=x'"),
        (["envrax.testing:CountingEnv", "--keys", "blue=1"], "got 'blue'"),
        (["envrax.testing:CountingEnv", "--keys", "up=7"], "Action 7 is not a valid action"),
        (["envrax.testing:CountingEnv", "--record", "film.txt"], "ends in .mp4 or .gif"),
        (["envrax.testing:CountingEnv", "--policy", "clever"], "module:function, or random"),
        (["envrax.testing:CountingEnv", "--episodes", "0"], "--episodes to be at least 1; got 0"),
        (["NoSuchEnv-v0"], "Unknown environment"),
    ],
)
def test_it_refuses(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], script: Script
) -> None:
    script()
    with pytest.raises(SystemExit) as stopped:
        main(["play", *arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
