# pyright: basic
"""pgx: `envrax.make("pgx/minatar-breakout")`, or `wrap(env)` for one built by hand."""

import importlib
import io
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax.interop.base import PeerEnv
from envrax.interop.convert import nested, unbounded
from envrax.interop.library import innermost, require, suite_of
from envrax.interop.records import Advanced, Begun, PeerConfig, PeerState
from envrax.registry import register_suite
from envrax.spaces import Discrete, Space
from envrax.spaces.conform import conform

pgx = require("pgx", "2.5")

GO = {"go_9x9": {"size": 9}, "go_19x19": {"size": 19}}
"""Keywords of the library's constructor, by id."""

DPI = 96


def uniform(obs: Any, mask: jax.Array, rng: jax.Array) -> jax.Array:
    """The opponent that draws uniformly among the legal moves."""
    # One word of random bits: `Discrete.sample` also splits the key and draws two.
    rank = jnp.cumsum(mask, dtype=jnp.int32)
    word, count = jax.random.bits(rng, (), jnp.uint32), rank[-1].astype(jnp.uint32)
    # The upper half of their product is below the count, which is below 2**16.
    product = (word >> 16) * count + ((word & 0xFFFF) * count >> 16)
    return jnp.argmax(rank > (product >> 16).astype(jnp.int32))


class PgxEnv(PeerEnv):
    """
    A game of pgx. `options` are keywords of its class, and `player` and `opponent`.

    A game with several players is seen by one of them, `player`, by default 0. The others move
    inside `reset` and `step`, until it is the player's turn or the game is over: for each,
    `opponent(obs, mask, rng)` chooses an action from that one's observation. The reward of a step
    is the player's own, over all moves in it; `info["rewards"]` has those of all. Rewards of moves
    in `reset` are added to the first step; until then they are in `state.inner.rewards`.

    Keys: `reset` splits its key in two, for `init` and the opponents; `step` likewise, for the
    player's move and the opponents. Each move of an opponent splits the latter in three: the next
    key, the choice, the move.
    """

    library = "pgx"

    @property
    def player(self) -> int | None:
        """The player whose view it is; None for a game of one."""
        if self.peer.num_players == 1:
            return None
        return self.config.options.get("player") or 0

    def build(self) -> Any:
        view = "player", "opponent"
        options = {k: v for k, v in self.config.options.items() if k not in view}
        peer = pgx.make(self.config.id)
        return type(peer)(**{**GO.get(self.config.id, {}), **options}) if options else peer

    def spaces(self) -> tuple[Space, Space]:
        player, n = self.config.options.get("player"), self.peer.num_players
        if player is not None and player not in range(n):
            raise ValueError(
                f"{self._who}: expected `player` to be below {n}, the number of players; got "
                f"{player!r}. Pass one of {', '.join(map(str, range(n)))}, or None."
            )
        opponent = self.config.options.get("opponent")
        if opponent is not None and not callable(opponent):
            raise TypeError(
                f"{self._who}: expected `opponent` to be a function of (obs, mask, rng); got "
                f"{opponent!r}. Pass one that returns an action, or None."
            )
        begun = self._typed_begin(jax.random.key(0))
        return nested(unbounded, begun.obs), Discrete(begun.inner.legal_action_mask.shape[0])

    def begin(self, params: Any, rng: jax.Array) -> Begun:
        if self.player is None:
            inner = self.peer.init(rng)
            return Begun(inner.observation, inner)
        key, others = jax.random.split(rng)
        inner = self._others_move(self.peer.init(key), others)
        return Begun(self._seen(inner), inner)

    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> Advanced:
        if self.player is None:
            inner = self.peer.step(inner, action, rng)
            ends = inner.terminated, inner.truncated
            return Advanced(inner.observation, inner, inner.rewards, *ends)
        key, others = jax.random.split(rng)
        owed = inner.rewards
        inner = self.peer.step(inner, action, key)
        inner = self._others_move(inner.replace(rewards=owed + inner.rewards), others)
        rewards, ends = inner.rewards, (inner.terminated, inner.truncated)
        inner = inner.replace(rewards=jnp.zeros_like(rewards))
        info = {"rewards": rewards}
        return Advanced(self._seen(inner), inner, rewards[self.player], *ends, info)

    def action_mask(self, state: PeerState) -> Any:
        return state.inner.legal_action_mask

    def render(self, state: PeerState) -> np.ndarray:
        with jax.numpy_dtype_promotion("standard"):
            return _image(self._who, state.inner.to_svg())

    def _seen(self, inner: Any) -> jax.Array:
        """The player's observation, also at the end, when it may be another's turn."""
        return jax.lax.stop_gradient(self.peer._observe(inner, jnp.int32(self.player)))

    def _others_move(self, inner: Any, rng: jax.Array) -> Any:
        """Let the others move, and add all rewards to `inner.rewards`."""
        opponent = self.config.options.get("opponent") or uniform

        def waits(carry: Any) -> jax.Array:
            inner, _ = carry
            over = inner.terminated | inner.truncated
            return ~over & (inner.current_player != self.player)

        def move(carry: Any) -> Any:
            inner, rng = carry
            rng, choice, key = jax.random.split(rng, 3)
            mask = inner.legal_action_mask
            action = opponent(inner.observation, mask, choice)
            action = conform(Discrete(mask.shape[0]), action, f"{self._who}: opponent", "action")
            moved = self.peer.step(inner, action, key)
            return moved.replace(rewards=inner.rewards + moved.rewards), rng

        return jax.lax.while_loop(waits, move, (inner, rng))[0]


def _image(who: str, svg: str) -> np.ndarray:
    """The image of an SVG drawing, on white, in fonts of the system or those of matplotlib."""
    try:
        names = "resvg_py", "PIL.Image", "matplotlib"
        resvg, image, matplotlib = map(importlib.import_module, names)
    except ImportError as error:
        raise NotImplementedError(
            f"{who}.render: expected packages that turn SVG into an image; got an error: {error}. "
            "Install them with `pip install resvg-py pillow matplotlib`."
        ) from error
    fonts: dict[str, Any] = dict(
        font_dirs=[f"{matplotlib.get_data_path()}/fonts/ttf"],
        font_family="DejaVu Sans",
        sans_serif_family="DejaVu Sans",
        serif_family="DejaVu Serif",
        monospace_family="DejaVu Sans Mono",
    )
    png = resvg.svg_to_bytes(svg_string=svg, background="white", dpi=DPI, **fonts)
    return np.array(image.open(io.BytesIO(bytes(png))).convert("RGB"))


def wrap(
    env: Any,
    params: Any = None,
    *,
    max_steps: int = 0,
    player: int | None = None,
    opponent: Any = None,
) -> PgxEnv:
    """
    A pgx game that you built.

    Parameters
    ----------
    env : pgx.Env
        The game, without a wrapper that resets it.
    params : None
        pgx has no parameters.
    max_steps : int, default 0
        Time limit, in steps of the player; 0 for none.
    player : int, optional
        Whose view it is, in a game of several; 0 if not given.
    opponent : callable, optional
        `(obs, mask, rng) -> action`, for the others; by default uniform among the legal moves.

    Raises
    ------
    TypeError
        If `env` is not such a game.
    """
    innermost("pgx", env, pgx.Env)
    options = {"player": player, "opponent": opponent}
    options = {name: value for name, value in options.items() if value is not None}
    config = PeerConfig(id=env.id, params=params, max_steps=max_steps, options=options)
    return PgxEnv(config, peer=env)


register_suite(suite_of(PgxEnv, pgx.available_envs()))
