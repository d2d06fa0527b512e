# pyright: basic, reportMissingImports=false
"""
JAXtari: `envrax.make("jaxtari/pong")`, or `wrap(env)` for a game that you built.

Building a game reads its sprites from the directory where the library installs them, or takes
rectangles in their place.
"""

import os
import threading
import zlib
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from operator import attrgetter
from pathlib import Path, PurePath
from typing import Any, NamedTuple
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.names import require_known
from envrax._jax.keys import is_key, to_threefry
from envrax.interop.peer.base import PeerEnv
from envrax.interop.peer.containers import as_dicts
from envrax.interop.peer.library import require, suite_of
from envrax.interop.peer.spaces import from_library_space, unbounded
from envrax.interop.peer.types import PeerConfig, PeerReset, PeerStep
from envrax.registry import register_suite
from envrax.spaces import Box, Dict, Discrete, Space

jaxtari = require("jaxtari", "0.2", "core", "environment", "modification", "paths")

from jaxtari.core import GAME_MODULES, MOD_MODULES  # noqa: E402
from jaxtari.environment import JaxEnvironment  # noqa: E402
from jaxtari.modification import JaxtariModWrapper  # noqa: E402
from jaxtari.paths import (  # noqa: E402
    canonical_storage_dir,
    get_base_sprite_dir,
    ownership_or_alt_markers_present,
)

OBSERVATIONS = ("objects", "pixels", "both")
SPRITES = ("installed", "rectangles")
OWN_OPTIONS = ("observation", "sprites")
INSTALL = "Install them with `python -m jaxtari.install_sprites`"
MAX_FRAMES = 108_000
"""The time limit of Atari games, half an hour at 60 frames per second, as JAXtari has it."""

OUT_OF_BOUNDS: dict[str, tuple[str, ...]] = {
    "alien": ("enemies.y",),
    "bankheist": ("lives",),
    "beamrider": ("white_ufo_pattern_timer",),
    "berzerk": ("lives",),
    "blackjack": ("player_score",),
    "casinoblackjack": ("player_main_bet", "player_score"),
    "casinofivestudpoker": ("player_score",),
    "casinopokersolitaire": ("cursor_pos_x", "cursor_pos_y"),
    "donkeykong": ("lives",),
    "freeway": ("car.x",),
    "galaxian": ("lives",),
    "gopher": ("duck.x", "seed.y"),
    "hangman": ("cpu_score", "score"),
    "journeyescape": ("player.state",),
    "miniaturegolf": ("shot_count",),
    "seaquest": ("collected_divers", "lives"),
    "slotmachine": ("reel_symbols",),
    "upndown": ("player.x",),
    "videopinball": ("lives_lost",),
}
"""Leaves of an observation that leave the bounds of the library's space, by game."""

LIVES: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("airraid", "assault", "bankheist", "riverraid"), attrgetter("player_lives")),
    "alien": attrgetter("level.lifes"),
    "atlantis": lambda inner: inner.installations.sum(),
    "gopher": lambda inner: inner.carrots_present.sum(),
    "namethisgame": attrgetter("lives_remaining"),
    "spaceinvaders": attrgetter("player_lives"),
    "tron": attrgetter("player.lives"),
    "turmoil": attrgetter("ships"),
    "videopinball": lambda inner: 4 - inner.lives_lost,  # the ball in play is the first
}
"""The number of lives in the state, if it is not `lives`, by game."""

SPARE_LIVES = {
    *("alien", "berzerk", "frostbite", "galaxian", "montezumarevenge", "qbert", "seaquest")
}
"""Games in which JAXtari counts the lives in reserve, and ALE also the one that is played."""

ONE_LIFE = {
    *("backgammon", "basicmath", "blackjack", "casinoblackjack", "casinofivestudpoker"),
    *("casinopokersolitaire", "flagcapture", "humancannonball", "miniaturegolf", "othello"),
    *("spacewar", "surround", "videocheckers", "videochess", "videocube", "wordzapper"),
}
"""Games without lives in which ALE has one while the game runs, and 0 at its end."""


class _Counter(NamedTuple):
    """A counter of the state that ends a game, and the number of frames after which it does."""

    field: str
    frames: Callable[[Any], int]


COUNTERS = {
    "skiing": _Counter("step_count", lambda consts: consts.max_steps),
    "surround": _Counter(
        "time", lambda consts: consts.MAX_STEPS * max(consts.MOVE_EVERY_N_STEPS, 1)
    ),
}
"""Time limits that JAXtari adds to a game, by game."""


class JaxtariEnv(PeerEnv):
    """
    An Atari game of JAXtari. A step is one frame.

    `options` are `observation`, `sprites` and keywords of `jaxtari.make`, such as `mods`.
    `observation` is "objects" (the default), nested dicts of the library's fields; "pixels", the
    image, uint8 RGB; or "both", a dict of the two. `sprites` is "installed" (the default), those
    that JAXtari downloads, or "rectangles", for games whose rules read no sprites.

    `info` is that of the library, with the number of `lives` as ALE counts them: with the one that
    is played, 0 at the end of the game. In a game without lives it is 1 until then, or always 0, as
    in ALE.
    """

    library = "jaxtari"

    def build(self) -> Any:
        id = self.config.id
        options = {k: x for k, x in self.config.options.items() if k not in OWN_OPTIONS}
        mods = options.get("mods")
        if mods and id not in MOD_MODULES:  # JAXtari only warns
            raise ValueError(f"{self._who}: expected no `mods`: the game has none; got {mods!r}.")
        if isinstance(mods, str):
            raise ValueError(f"{self._who}: expected a list of `mods`; got {mods!r}.")
        sprites = self.config.options.get("sprites", SPRITES[0])
        who = f"{self._who}: expected the option `sprites` to be one of"
        require_known(who, [sprites], SPRITES, error=ValueError)
        if sprites == "rectangles":
            return self._build_of_rectangles(options)
        if not ownership_or_alt_markers_present():
            raise ValueError(self._no_sprites(f"none in {canonical_storage_dir()}"))
        try:
            return jaxtari.make(id, **options)
        except FileNotFoundError as error:
            raise ValueError(self._no_sprites(f"no file {error.filename}")) from error

    def _build_of_rectangles(self, options: dict[str, Any]) -> Any:
        if self.config.id in RULES_READ_SPRITES:
            raise ValueError(
                f"{self._who}: expected the sprites of JAXtari, since the rules of the game read "
                f"them; got the option `sprites` of 'rectangles'. {INSTALL}."
            )
        if options.get("mods"):
            raise ValueError(
                f"{self._who}: expected no `mods` with the option `sprites` of 'rectangles', since "
                f"mods may read sprites; got {options['mods']!r}. {INSTALL}."
            )
        # The library would ask for the sprites that are not needed.
        unchecked = patch.object(jaxtari.core, "check_ownership", lambda: None)
        with rectangles(Path(get_base_sprite_dir())), unchecked:
            return jaxtari.make(self.config.id, **options)

    def _no_sprites(self, got: str) -> str:
        advice = ""
        if self.config.id not in RULES_READ_SPRITES:
            advice = ', or draw without them by `options={"sprites": "rectangles"}`'
        return f"{self._who}: expected the sprites of JAXtari; got {got}. {INSTALL}{advice}."

    def limit(self) -> int:
        counter = COUNTERS.get(self.config.id)
        return MAX_FRAMES if counter is None else int(counter.frames(self.peer.consts))

    def spaces(self) -> tuple[Space, Space]:
        if self.config.id in COUNTERS and self.config.max_steps > self.limit():
            raise ValueError(
                f"{self._who}: expected `max_steps` of at most {self.limit()}, where JAXtari "
                f"itself ends the game; got {self.config.max_steps}."
            )
        who = f"{self._who}: expected the option `observation` to be one of"
        require_known(who, [self._observation], OBSERVATIONS, error=ValueError)
        return self._space_of(self.observed), Discrete(int(self.peer.action_space().n))

    def _space_of(self, types: Any) -> Space:
        if self._observation == "pixels":
            return _image(types)
        objects = self.peer.observation_space()
        wrong = OUT_OF_BOUNDS.get(self.config.id, ())
        if self._observation == "objects":
            return _space(objects, types, wrong)
        image = _image(types["pixels"])
        return Dict({"objects": _space(objects, types["objects"], wrong), "pixels": image})

    @property
    def mended_bounds(self) -> dict[str, str]:
        names = () if self._observation == "pixels" else OUT_OF_BOUNDS.get(self.config.id, ())
        before = "obs.objects." if self._observation == "both" else "obs."
        return {f"{before}{name}": "it leaves the library's bounds" for name in names}

    def begin(self, params: Any, rng: jax.Array) -> PeerReset:
        # Some games take only a key of the old kind.
        rng = to_threefry(rng)
        objects, inner = self.peer.reset(jax.random.key_data(rng) if is_key(rng) else rng)
        return PeerReset(self._observe(objects, inner), inner)

    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> PeerStep:
        objects, inner, reward, done, info = self.peer.step(inner, action)
        terminated = done & self._is_over(inner)
        info = {**as_dicts(info), "lives": self._lives(inner, terminated)}
        truncated = done & ~terminated
        obs = self._observe(objects, inner)
        return PeerStep(obs, inner, reward, terminated, truncated, info)

    def observation(self, params: Any, inner: Any) -> Any:
        return self._draw(inner) if self._observation == "pixels" else None

    def _is_over(self, inner: Any) -> Any:
        """Whether a game that ends has ended by its rules, and not by JAXtari's time limit."""
        counter = COUNTERS.get(self.config.id)
        if counter is None:
            return True
        start = jnp.zeros_like(getattr(inner, counter.field))
        return self.peer._get_done(inner.replace(**{counter.field: start}))

    def _lives(self, inner: Any, terminated: Any) -> jax.Array:
        id = self.config.id
        lives = LIVES[id](inner) if id in LIVES else getattr(inner, "lives", int(id in ONE_LIFE))
        lives = jnp.reshape(jnp.asarray(lives, jnp.int32), ())
        if id in SPARE_LIVES:
            lives += 1
        if id in SPARE_LIVES or id in ONE_LIFE:
            lives = jnp.where(terminated, 0, lives)
        return jnp.maximum(lives, 0)

    def draw(self, inner: Any) -> Any:
        return self._draw(inner)

    @cached_property
    def _draw(self) -> Any:
        return jax.jit(lambda inner: self.peer.render(inner).astype(jnp.uint8))

    @property
    def _observation(self) -> str:
        return self.config.options.get("observation", OBSERVATIONS[0])

    def _observe(self, objects: Any, inner: Any) -> Any:
        if self._observation == "objects":
            return as_dicts(objects)
        pixels = self._draw(inner)
        both = {"objects": as_dicts(objects), "pixels": pixels}
        return both if self._observation == "both" else pixels


def _image(type_: Any) -> Space:
    return Box(0, 255, type_.shape, jnp.uint8)


def _space(space: Any, types: Any, wrong: tuple[str, ...], name: str = "") -> Space:
    """The library's space of objects, without the bounds of the leaves that are `wrong`."""
    if isinstance(types, dict):
        parts = {k: (space.spaces[k], x, f"{name}.{k}" if name else k) for k, x in types.items()}
        return Dict({k: _space(part, x, wrong, path) for k, (part, x, path) in parts.items()})
    return unbounded(types) if name in wrong else from_library_space(space, types, exact=False)


RULES_READ_SPRITES = {
    *("alien", "asterix", "bankheist", "gravitar", "hauntedhouse", "miniaturegolf"),
    *("montezumarevenge", "tron", "venture"),
}
"""Games whose rules take walls or sizes from sprites: with rectangles, they are other games."""

SCREEN = (210, 160)
SPRITE = (8, 8)
SIZES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("word*/bg/*", "seaquest/bg/*"), SCREEN),
    **dict.fromkeys(("qbert/freeze*", "qbert/win_animation/*"), SCREEN),
    "enduro/misc/flags*": (2, *SPRITE),
    "enduro/digits/*_array*": (128, 8),  # a drum of digits
    "videochess/background*": SCREEN[::-1],
    "wizardofwor/background*": (86, 128),
}
"""Heights and widths that are not those of `rectangle`, by patterns of the path."""
COLOURS: dict[str, tuple[int, ...]] = {"gopher/*_dug*": (223, 183, 85)}
"""Colours that a game looks up, by patterns of the path."""
LISTED = ("up_n_down/roads/road.npy", "up_n_down/background/background.npy")
"""Files in directories that a game lists."""

_LOCK = threading.RLock()


def rectangle(file: PurePath) -> np.ndarray:
    """An image of one colour, by the path of its file: of the whole screen, or of a sprite."""
    of_screen = any(word in file.stem.lower() for word in ("background", "bg", "level"))
    size = _first_match(file, SIZES, SCREEN if of_screen else SPRITE)
    by_name = tuple(zlib.crc32(file.stem.encode()).to_bytes(4, "big")[:3])
    colour = _first_match(file, COLOURS, by_name)
    return np.tile(np.array([*colour, 255], np.uint8), (*size, 1))


def _first_match(
    file: PurePath, choices: dict[str, tuple[int, ...]], default: tuple[int, ...]
) -> tuple[int, ...]:
    """The value of the first pattern that the path matches."""
    return next((value for pattern, value in choices.items() if file.match(pattern)), default)


@contextmanager
def rectangles(
    sprites: Path, draw: Callable[[PurePath], np.ndarray] = rectangle
) -> Generator[None]:
    """
    Have this thread read a rectangle from each file in a directory `sprites`, which need not exist.

    JAXtari reads its sprites while it builds a game, with the functions that are replaced here for
    as long. They do what they did for all other files, and for other threads.
    """
    thread = threading.get_ident()

    def place(path: Any) -> PurePath | None:
        """Where a path lies in the directory, if it is one of a sprite there."""
        is_path = isinstance(path, str | Path) and threading.get_ident() == thread
        if is_path and Path(path).is_relative_to(sprites):
            return Path(path).relative_to(sprites)
        return None

    def replaced(module: Any, name: str, answer: Callable[[PurePath], Any]) -> Any:
        own = getattr(module, name)

        def function(*args: Any, **keywords: Any) -> Any:
            at = place(args[0]) if args else None
            return own(*args, **keywords) if at is None else answer(at)

        return patch.object(module, name, function)

    def listed(at: PurePath) -> list[str]:
        return [file.name for file in map(PurePath, LISTED) if file.parent == at]

    with _LOCK, ExitStack() as stack:
        for module, name, answer in (
            (np, "load", draw),
            (jnp, "load", lambda at: jnp.asarray(draw(at))),
            (os.path, "exists", lambda at: at.suffix == ".npy"),
            (os, "listdir", listed),
        ):
            stack.enter_context(replaced(module, name, answer))
        yield


def wrap(
    env: Any, params: Any = None, *, max_steps: int = 0, observation: str = "objects"
) -> JaxtariEnv:
    """
    A game of JAXtari that you built.

    Parameters
    ----------
    env : JaxEnvironment
        What `jaxtari.make` returns, without a wrapper of the library.
    params : None
        JAXtari has no parameters.
    max_steps : int, default 0
        Time limit in frames; 0 takes 108,000.
    observation : str, default "objects"
        As in `options`: "objects", "pixels" or "both".

    Raises
    ------
    TypeError
        If it is not a game of JAXtari.
    ValueError
        If there is no such `observation`.
    """
    if not isinstance(env, JaxEnvironment | JaxtariModWrapper):
        raise TypeError(
            f"envrax.interop.jaxtari.wrap: expected a game of JAXtari; got {env!r}. Pass what "
            "`jaxtari.make` returns, without the library's wrappers."
        )
    game: Any = env
    while "_env" in vars(game):  # of mods
        game = game._env
    modules = [x.__module__ for x in type(game).__mro__]
    ids = (id for id, module in GAME_MODULES.items() if module in modules)
    id = next(ids, type(game).__name__)
    options = {"observation": observation}
    config = PeerConfig(id=id, params=params, max_steps=max_steps, options=options)
    return JaxtariEnv(config, peer=env)


register_suite(suite_of(JaxtariEnv, GAME_MODULES))
