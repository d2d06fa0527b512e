# pyright: basic, reportMissingImports=false
"""octax, games of CHIP-8: `envrax.make("octax/brix")`, or `wrap(env)` for one built by hand."""

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax

from envrax.interop.peer.base import PeerEnv
from envrax.interop.peer.library import innermost, require, suite_of
from envrax.interop.peer.spaces import box
from envrax.interop.peer.types import PeerConfig, PeerReset, PeerStep
from envrax.registry import register_suite
from envrax.spaces import Discrete, Space

require("octax", "0.1.1", "environments", "rendering")

environments: Any = importlib.import_module("octax.environments")
rendering: Any = importlib.import_module("octax.rendering")


class OctaxEnv(PeerEnv):
    """
    A game of octax. `options` are keywords of `create_environment`, such as `frame_skip`.

    An observation is the last `frame_skip` frames, as octax has them: 64 columns of 32 pixels. The
    last action presses no key. Every episode begins alike; only the key differs. `info` has the
    `score`, whose changes are the rewards.
    """

    library = "octax"

    def build(self) -> Any:
        return environments.create_environment(self.config.id, **self.config.options)[0]

    def limit(self) -> int:
        return self.peer.max_num_steps_per_episodes

    def spaces(self) -> tuple[Space, Space]:
        return box(0, 1, self.observed), Discrete(self.peer.num_actions)

    def begin(self, params: Any, rng: jax.Array) -> PeerReset:
        inner, obs, _ = self.peer.reset(rng)
        return PeerReset(obs, inner)

    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> PeerStep:
        inner, obs, reward, terminated, _, info = self.peer.step(inner, action)
        return PeerStep(obs, inner, reward, terminated, info=info)

    def draw(self, inner: Any) -> Any:
        colors = rendering.create_color_scheme(self.peer.color_scheme)
        return rendering.chip8_display_to_rgb(inner.display, self.peer.render_scale, *colors)


def games() -> Iterator[str]:
    """The games, and of a game with levels each level that octax can load."""
    roms = Path(environments.get_rom_path("Airplane.ch8")).parent
    for _, name, _ in pkgutil.iter_modules(environments.__path__):
        if hasattr(importlib.import_module(f"{environments.__name__}.{name}"), "rom_file"):
            yield name
            continue
        levels = (path.stem.removeprefix(name) for path in roms.glob(f"{name}*.ch8"))
        yield from (f"{name}{level}" for level in levels if level.isdigit())


def wrap(env: Any, params: Any = None, *, max_steps: int = 0) -> OctaxEnv:
    """
    A game of octax that you built.

    Parameters
    ----------
    env : octax.env.OctaxEnv
        The game.
    params : None
        octax has no parameters besides the arguments of its constructor.
    max_steps : int, default 0
        Time limit; 0 takes that of `env`.

    Raises
    ------
    TypeError
        If it is not a game of octax.
    """
    innermost("octax", env, environments.OctaxEnv)
    config = PeerConfig(id=Path(env.rom_path).stem, params=params, max_steps=max_steps)
    return OctaxEnv(config, peer=env)


register_suite(suite_of(OctaxEnv, sorted(games())))
