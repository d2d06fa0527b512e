# pyright: basic
"""pgx: `envrax.make("pgx/minatar-breakout")`, or `wrap(env)` for one built by hand."""

import copy
import importlib
import io
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax.env import AnyEnv
from envrax.interop.peer.library import innermost, require, suite_of
from envrax.interop.peer.spaces import nested, unbounded
from envrax.interop.peer.turns import TurnEnv
from envrax.interop.peer.types import NO_LIMIT, PeerConfig, PeerReset, PeerState, PeerStep
from envrax.interop.protocol.wrapping import follows_a_protocol, wrap_by_protocol
from envrax.registry import register_suite
from envrax.spaces import Discrete, Space
from envrax.spaces.conform import conform

pgx = require("pgx", "2.5")

GO_OPTIONS = {"go_9x9": {"size": 9}, "go_19x19": {"size": 19}}
"""Keywords of the library's constructor, by id."""

TAKE_TURNS = {
    "animal_shogi",
    "chess",
    "connect_four",
    "gardner_chess",
    "go_19x19",
    "go_9x9",
    "hex",
    "othello",
    "shogi",
    "tic_tac_toe",
}
"""Games of two players in which no player moves twice in a row."""

MOST_MOVES = {"animal_shogi": 256, "chess": 512, "gardner_chess": 256, "shogi": 512}
"""The number of moves of both players after which pgx calls the game a tie, by id."""

ALL_PLAYERS = "all"
"""The option `player` of a world of all players."""

DPI = 96


def uniform(obs: Any, mask: jax.Array, rng: jax.Array) -> jax.Array:
    """The opponent that draws uniformly among the legal moves."""
    # One word of random bits: `Discrete.sample` also splits the key and draws two words.
    rank = jnp.cumsum(mask, dtype=jnp.int32)
    word = jax.random.bits(rng, (), jnp.uint32)
    count = rank[-1].astype(jnp.uint32)
    # The upper half of their product is below the count, which is below 2**16.
    product = (word >> 16) * count + ((word & 0xFFFF) * count >> 16)
    return jnp.argmax(rank > (product >> 16).astype(jnp.int32))


class PgxEnv(TurnEnv):
    """
    A game of pgx. `options` are keywords of its class, and `player` and `opponent`.

    With `player="all"`, a game with several players is a world, with the agents `player_0`,
    `player_1` and so on, which act in turn: `active` says whose turn it is.

    Otherwise it is an environment of one player, `player`, by default 0. The others move inside
    `reset` and `step`, until it is the player's turn or the game has ended. Each of their actions
    is `opponent(obs, mask, rng)`, with the observation of the one that moves. The reward of a step
    is the sum of the player's own rewards over all moves in it; `info["rewards"]` has the sums of
    all players. Rewards of moves in `reset` are added to the first step; until then they are in
    `state.inner.rewards`.

    The limit of moves of chess and shogi truncates. That of go, after which the board is scored as
    after two passes, terminates.

    Keys: `reset` splits its key in two, for `init` and the opponents; `step` does so for the
    player's move and the opponents. Each move of an opponent splits the second in three: the next
    key, the choice, the move.
    """

    library = "pgx"

    @property
    def player(self) -> int | None:
        """The player who steps the game; None for a game of one, and for a world of all."""
        if self.peer.num_players == 1 or self.agents:
            return None
        return self.config.options.get("player") or 0

    @property
    def agents(self) -> tuple[str, ...]:
        is_world = self.config.options.get("player") == ALL_PLAYERS
        return tuple(f"player_{i}" for i in range(self.peer.num_players)) if is_world else ()

    def build(self) -> Any:
        own = ("player", "opponent")
        options = {k: v for k, v in self.config.options.items() if k not in own}
        peer = pgx.make(self.config.id)
        if not options:
            return peer
        return type(peer)(**{**GO_OPTIONS.get(self.config.id, {}), **options})

    def limit(self) -> int:
        moves = MOST_MOVES.get(self.peer.id, NO_LIMIT)
        return moves // 2 if self.player is not None and moves < NO_LIMIT else moves

    def spaces(self) -> tuple[Space, Space]:
        if self.peer.id in MOST_MOVES and self.config.max_steps > self.limit():
            raise ValueError(
                f"{self._who}: expected `max_steps` of at most {self.limit()}, where pgx itself "
                f"ends the game; got {self.config.max_steps}."
            )
        player = self.config.options.get("player")
        n = self.peer.num_players
        legal = [None, *range(n), *[ALL_PLAYERS] * (n > 1)]
        if player not in legal:
            raise ValueError(
                f"{self._who}: expected `player` among {', '.join(map(repr, legal))}; got "
                f"{player!r}."
            )
        opponent = self.config.options.get("opponent")
        if opponent is not None and (self.agents or not callable(opponent)):
            raise TypeError(
                f"{self._who}: expected `opponent` to be a function of (obs, mask, rng), or None "
                f'with `player="all"`; got {opponent!r}. `envrax.multi_agent.OneAgent` plays a '
                "world against a policy."
            )
        types = self._reset_types(jax.random.key(0))
        n_actions = types.inner.legal_action_mask.shape[0]
        return nested(unbounded, types.obs), Discrete(n_actions)

    def begin(self, params: Any, rng: jax.Array) -> PeerReset:
        if self.player is None:
            return PeerReset(*self._observe(self._init(rng)))
        key, opponents_key = jax.random.split(rng)
        inner = self._move_opponents(self._init(key), opponents_key)
        return PeerReset(*self._observe(inner))

    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> PeerStep:
        if self.player is None:
            inner = self._game.step(inner, action, rng)
            return PeerStep(*self._observe(inner), inner.rewards, inner.terminated, inner.truncated)
        key, opponents_key = jax.random.split(rng)
        pending_rewards = inner.rewards
        inner = self._game.step(inner, action, key)
        inner = inner.replace(rewards=pending_rewards + inner.rewards)
        inner = self._move_opponents(inner, opponents_key)
        rewards = inner.rewards
        inner = inner.replace(rewards=jnp.zeros_like(rewards))
        return PeerStep(
            *self._observe(inner),
            rewards[self.player],
            inner.terminated,
            inner.truncated,
            {"rewards": rewards},
        )

    def _init(self, rng: jax.Array) -> Any:
        """The first state. Of chess, it counts as a position that stood on the board once."""
        inner = self.peer.init(rng)
        if self.peer.id != "chess":
            return inner
        # pgx keeps a constant hash, which is none of the tables that this release of JAX draws.
        rules: Any = importlib.import_module("pgx._src.games.chess")
        hashes = inner._x.hash_history.at[0].set(rules._zobrist_hash(inner._x))
        return inner.replace(_x=inner._x._replace(hash_history=hashes))

    def current_player(self, inner: Any) -> jax.Array | None:
        return inner.current_player if self.agents else None

    def action_mask(self, state: PeerState) -> Any:
        return self._masks(state.inner.legal_action_mask, state.inner)

    def draw(self, inner: Any) -> Any:
        obs = self.peer.observe(inner)  # MinAtar draws its observation
        return _image(self._who, inner.replace(observation=obs).to_svg())

    @cached_property
    def _game(self) -> Any:
        """`peer`, in which the limit of moves truncates; pgx calls it a termination."""
        game = copy.copy(self.peer)
        if type(game).__module__ == f"pgx.{game.id}" and game.id in MOST_MOVES:
            game._step = partial(_step_and_truncate, self.peer)
        return game

    def _observe(self, inner: Any) -> tuple[Any, Any]:
        """
        The player's observation, or those of all players; and the state without its observation.

        At the end it may be another player's turn, whose observation is the one in pgx's state.
        """

        def observation(player: int) -> Any:
            return jax.lax.stop_gradient(self.peer._observe(inner, jnp.int32(player)))

        if self.agents:
            obs: Any = {x: observation(i) for i, x in enumerate(self.agents)}
        else:
            obs = inner.observation if self.player is None else observation(self.player)
        return obs, inner.replace(observation=None)

    def _move_opponents(self, inner: Any, rng: jax.Array) -> Any:
        """Let the other players move, and add all rewards to `inner.rewards`."""
        opponent = self.config.options.get("opponent") or uniform

        def is_opponents_turn(carry: Any) -> jax.Array:
            inner, _ = carry
            ended = inner.terminated | inner.truncated
            return ~ended & (inner.current_player != self.player)

        def move(carry: Any) -> Any:
            inner, rng = carry
            rng, choice, key = jax.random.split(rng, 3)
            mask = inner.legal_action_mask
            action = opponent(inner.observation, mask, choice)
            action = conform(Discrete(mask.shape[0]), action, f"{self._who}: opponent", "action")
            moved = self._game.step(inner, action, key)
            return moved.replace(rewards=inner.rewards + moved.rewards), rng

        carry = inner, rng
        if self.peer.id not in TAKE_TURNS:
            return jax.lax.while_loop(is_opponents_turn, move, carry)[0]
        # Without a loop: a GPU asks the host in each round whether there is another.
        moves = is_opponents_turn(carry)
        moved, _ = move(carry)
        return jax.tree.map(partial(jnp.where, moves), moved, inner)


def _step_and_truncate(game: Any, state: Any, action: Any, key: Any) -> Any:
    """`game._step`, in which the limit of moves truncates the game, unless it has ended there."""
    if hasattr(state, "_x"):  # chess and shogi
        rules = getattr(game, "game", None) or game._game
        moved = game._step(state, action, key)
        ended = rules.is_terminal(moved._x._replace(step_count=jnp.int32(0)))
        return moved.replace(terminated=ended, truncated=moved.terminated & ~ended)
    # The module's function has all rules but the limit.
    moved = importlib.import_module(f"pgx.{game.id}")._step(state, action)
    at_limit = moved._step_count >= MOST_MOVES[game.id]
    return moved.replace(truncated=at_limit & ~moved.terminated)


def _image(who: str, svg: str) -> np.ndarray:
    """An SVG drawing as an image, on white, with fonts of the system or those of matplotlib."""
    try:
        resvg: Any = importlib.import_module("resvg_py")
        image: Any = importlib.import_module("PIL.Image")
        matplotlib: Any = importlib.import_module("matplotlib")
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
    player: int | str | None = None,
    opponent: Any = None,
) -> AnyEnv:
    """
    A pgx game that you built.

    Parameters
    ----------
    env : pgx.Env
        The game, without a wrapper that resets it.
    params : None
        pgx has no parameters.
    max_steps : int, default 0
        Time limit, in steps of the player; 0 for no limit.
    player : int or "all", optional
        The player who steps a game of several; 0 if not given. "all" makes a world.
    opponent : callable, optional
        `(obs, mask, rng) -> action` of the other players; by default uniform among the legal moves.

    Raises
    ------
    TypeError
        If `env` is not such a game.
    """
    if follows_a_protocol(env, pgx.Env):
        return wrap_by_protocol(env, params, max_steps=max_steps)
    innermost("pgx", env, pgx.Env)
    options = {"player": player, "opponent": opponent}
    options = {name: value for name, value in options.items() if value is not None}
    config = PeerConfig(id=env.id, params=params, max_steps=max_steps, options=options)
    return PgxEnv(config, peer=env)


register_suite(suite_of(PgxEnv, pgx.available_envs()))
