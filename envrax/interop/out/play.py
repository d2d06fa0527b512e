# pyright: basic, reportMissingImports=false
"""`python -m envrax play ID`: an environment in a window, by Gymnasium's own `play`."""

import importlib
import os
import warnings
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.counts import require_count
from envrax._checks.packages import how_to_install, is_installed
from envrax.error import MissingPackageError
from envrax.interop.out.gymnasium import to_gymnasium
from envrax.interop.out.rendering import can_render
from envrax.interop.peer.library import require
from envrax.rollouts.policy import AnyPolicy, read_policy
from envrax.rollouts.rollout import Rollout, act
from envrax.spaces import Box, Discrete, Space
from envrax.testing.find import find_env
from envrax.video.frames import save_video

require("gymnasium", "1.2", extra="play")
if not is_installed("pygame"):
    raise MissingPackageError(
        "envrax.interop.out.play: expected pygame, for the window; got none. Install it with "
        f"{how_to_install('play')}."
    )

import gymnasium  # noqa: E402
import pygame  # noqa: E402

with warnings.catch_warnings():  # of a plot that is not used here
    warnings.simplefilter("ignore")
    from gymnasium.utils.play import play as gymnasium_play

WINDOW = 480  # pixels of the longer side of the window, about
FPS = 30
_DRIVER = "SDL_VIDEODRIVER"
FPS_STANDING = 10  # so that a key that is touched is one step
NONE = "none"
_ARROWS = {2: ("left", "right"), 3: ("left", "down", "right"), 4: ("up", "down", "left", "right")}
_CHARACTERS = "0123456789abcdefghijklmnopqrstuvwxyz"

Keys = dict[str, Any]  # the action of each key, such as "left", of "left+up", and of "none"


def default_keys(space: Space) -> Keys:
    """Characters and arrows for a `Discrete`, arrows for the first two axes of a `Box`."""
    if isinstance(space, Discrete) and space.n <= len(_CHARACTERS):
        keys = [*_CHARACTERS[: space.n]], _ARROWS.get(int(space.n), ())
        return {key: action for names in keys for action, key in enumerate(names)}
    if isinstance(space, Box) and np.issubdtype(space.dtype, np.floating):
        return dict(_keys_of_axes(space))
    raise TypeError(
        f"play: expected a Discrete of up to {len(_CHARACTERS)} actions or a Box of floats; got "
        f"{space}. Name the keys, as in `--keys left=0 right=1`."
    )


def _keys_of_axes(space: Box) -> Iterator[tuple[str, Any]]:
    """An axis is at a bound while its arrow is held, at 1 or -1 where there is no bound."""
    low, high = (np.broadcast_to(x, space.shape).ravel() for x in (space.low, space.high))
    neutral = np.clip(np.zeros(low.size), low, high)
    low, high = np.where(np.isfinite(low), low, -1), np.where(np.isfinite(high), high, 1)
    axes = [("left", "right"), ("down", "up")][: low.size]
    for held in product(*[("", *axis) for axis in axes]):
        action = neutral.copy()
        for i, key in enumerate(held):
            if key:
                action[i] = low[i] if key == axes[i][0] else high[i]
        name = "+".join(filter(None, held)) or NONE
        yield name, action.reshape(space.shape).astype(space.dtype)


def parse_keys(space: Any, texts: Iterable[str]) -> Keys:
    """The keys in texts such as "left=0", "left+space=4", "none=0" and "w=0,0.7,0"."""
    keys: Keys = {}
    for text in texts:
        name, _, value = text.rpartition("=")
        try:
            numbers = [float(x) for x in value.split(",")]
            keys[name] = np.array(numbers).astype(space.dtype).reshape(space.shape)
        except (AttributeError, TypeError, ValueError):
            raise ValueError(
                f"play: expected keys such as left=0, left+space=4 or w=0,0.7,0, for actions in "
                f"{space}; got {text!r}."
            ) from None
    return keys


def _codes(names: str) -> tuple[int, ...]:
    """The codes of keys, such as those of "left+up"."""
    found = []
    for name in names.split("+"):
        found.append(getattr(pygame, f"K_{name if len(name) == 1 else name.upper()}", None))
        if found[-1] is None:
            raise ValueError(
                "play: expected a key such as a, 1, left, space or return, as pygame has it in "
                f"K_LEFT, or none; got {name!r}."
            )
    return tuple(found)


def find_policy(name: str) -> Any:
    """The policy that "module:function" names; None for "random"."""
    module, colon, attribute = name.partition(":")
    if name != "random" and not colon:
        raise ValueError(f"play: expected a policy as module:function, or random; got {name!r}.")
    return getattr(importlib.import_module(module), attribute) if colon else None


class Screen(gymnasium.Wrapper):
    """
    What Gymnasium's `play` steps and draws: it counts, plays a policy, and keeps what it showed.

    Parameters
    ----------
    env : JaxEnv
        The environment; it must implement `render`.
    policy : policy, optional
        What chooses in place of the keys.
    films : bool
        Whether all pictures are kept.
    n_episodes : int, optional
        The end of so many episodes is that of the play.
    """

    def __init__(
        self,
        env: Any,
        policy: AnyPolicy | None = None,
        films: bool = False,
        n_episodes: int | None = None,
    ) -> None:
        if not can_render(env):
            raise TypeError(
                f"play: expected an environment that implements render; got {env}. Define "
                "`render(state)`, which returns an image."
            )
        self._played = to_gymnasium(env, render_mode="rgb_array")
        super().__init__(self._played)
        self.frames: list[Any] = []
        self._policy, self._films, self._n_episodes = policy, films, n_episodes
        self._rng = jax.random.key(0)
        self._last: Any = None
        self._episode = self._length = 0
        self._return = 0.0

    def reset(self, **kwargs: Any) -> Any:
        obs, info = super().reset(**kwargs)
        if self._length or not self._episode:
            self._episode += 1
        elif self.frames:  # no step was taken since the last reset
            self.frames.pop()
        self._length, self._return = 0, 0.0
        self._last = obs, 0.0, False, False, info
        self._show()
        return obs, info

    def step(self, action: Any) -> Any:
        if self._policy is not None:
            action = self._choose(self._policy)
        if action is None:  # time stands still
            return self._last
        self._last = super().step(action)
        _, reward, terminated, truncated, _ = self._last
        self._length += 1
        self._return += reward
        self._show()
        if terminated or truncated:
            print(f"episode {self._episode}: return {self._return:g}, length {self._length}")
        return self._last

    @property
    def is_over(self) -> bool:
        """Whether all episodes have ended."""
        ended = self._last[2] or self._last[3]
        return ended and self._n_episodes == self._episode

    def render(self) -> Any:
        if self.is_over:  # Gymnasium draws, then reads the events
            pygame.event.post(pygame.event.Event(pygame.QUIT))
        return self.frames[-1]

    @property
    def zoom(self) -> int:
        """How many pixels a pixel becomes, in each direction, so that it is a whole number."""
        return max(1, round(WINDOW / max(self.frames[-1].shape[:2])))

    def film(self) -> Iterator[np.ndarray]:
        """What was shown."""
        for frame in self.frames:
            yield frame.repeat(self.zoom, axis=0).repeat(self.zoom, axis=1)

    def _choose(self, policy: AnyPolicy) -> Any:
        obs = jax.tree.map(jnp.asarray, self._last[0])
        at = Rollout(obs, self._played.state, None, self._rng)
        env = self._played.jax_env
        self._rng, action, *_ = act(env, policy, at, not env.traceable)
        return action

    def _show(self) -> None:
        if not self._films:
            self.frames.clear()
        self.frames.append(super().render())
        name = self._played.jax_env.name  # the end of a title is lost in a narrow window
        pygame.display.set_caption(f"return {self._return:g} | length {self._length} | {name}")


def play(screen: Screen, keys: Keys, record: str | None = None, fps: int = FPS) -> None:
    """
    Show an environment in a window, until that is closed or all episodes have ended.

    Parameters
    ----------
    screen : Screen
        The environment.
    keys : dict
        The actions of keys; without one of "none", time stands still while no key is held.
    record : str, optional
        The file of a video.
    fps : int
        Steps per second.

    Raises
    ------
    RuntimeError
        If there is no display.
    """
    _require_display()
    codes = {_codes(names): keys[names] for names in keys if names != NONE}
    screen.reset()
    if record:
        save_video(record, screen.film(), fps)  # a path that is wrong shows before the play
    try:
        gymnasium_play(screen, keys_to_action=codes, noop=keys.get(NONE), fps=fps, zoom=screen.zoom)
    except KeyboardInterrupt:  # ends the play as Escape does
        pygame.quit()
    if record:
        save_video(record, screen.film(), fps)


def play_unseen(screen: Screen, record: str, fps: int = FPS) -> None:
    """Play all episodes by the policy without a window, for a video."""
    screen.reset()
    save_video(record, screen.film(), fps)
    while not screen.is_over:
        _, _, terminated, truncated, _ = screen.step(None)
        if (terminated or truncated) and not screen.is_over:
            screen.reset()
    save_video(record, screen.film(), fps)


def _require_display() -> None:
    # SDL draws into memory where it finds no display; a user may ask for that.
    pygame.display.init()
    if pygame.display.get_driver() in ("dummy", "offscreen") and not os.environ.get(_DRIVER):
        raise RuntimeError(
            "play: expected a display, for the window; got none. A policy plays without a window "
            "with `--episodes 3 --record FILE`, such as `--policy random`; "
            "`envrax.wrappers.vector.RecordVideo` films the slots of a batch."
        )


def run(given: Any) -> None:
    """What `python -m envrax play` does with its arguments."""
    env = find_env(given.id)
    policy = read_policy(env, find_policy(given.policy))[0] if given.policy else None
    n = given.episodes
    n = None if n is None else require_count("play: expected --episodes", n)
    screen = Screen(env, policy, films=bool(given.record), n_episodes=n)
    if policy and n and given.record:
        play_unseen(screen, given.record, given.fps or FPS)
        return
    space = env.action_space
    keys = {} if policy else parse_keys(space, given.keys) if given.keys else default_keys(space)
    if keys:
        print(*[f"{names}: {action}" for names, action in keys.items()], sep=", ")
    stands = keys and NONE not in keys
    play(screen, keys, given.record, given.fps or (FPS_STANDING if stands else FPS))
