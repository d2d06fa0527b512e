# pyright: basic
"""pgx: `envrax.make("pgx/minatar-breakout")`, or `wrap(env)` for one built by hand."""

import importlib
import io
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax.agent_values import by_agent
from envrax.interop.base import PeerEnv
from envrax.interop.convert import nested, unbounded
from envrax.interop.library import innermost, require, suite_of
from envrax.interop.records import Advanced, Begun, PeerConfig, PeerState
from envrax.registry import register_suite
from envrax.spaces import Dict, Discrete, Space
from envrax.spaces.conform import conform

pgx = require("pgx", "2.5")

GO = {"go_9x9": {"size": 9}, "go_19x19": {"size": 19}}
"""Keywords of the library's constructor, by id."""

ALL = "all"
"""The option `player` of a world of all players."""

DPI = 96


def uniform(obs: Any, mask: jax.Array, rng: jax.Array) -> jax.Array:
    """The opponent that draws uniformly among the legal moves."""
    # One word of random bits: `Discrete.sample` also splits the key and draws two.
    rank = jnp.cumsum(mask, dtype=jnp.int32)
    word = jax.random.bits(rng, (), jnp.uint32)
    count = rank[-1].astype(jnp.uint32)
    # The upper half of their product is below the count, which is below 2**16.
    product = (word >> 16) * count + ((word & 0xFFFF) * count >> 16)
    return jnp.argmax(rank > (product >> 16).astype(jnp.int32))


class PgxEnv(PeerEnv):
    """
    A game of pgx. `options` are keywords of its class, and `player` and `opponent`.

    With `player="all"`, a game with several players is a world, with the agents `player_0`,
    `player_1` and so on, which act in turn: `active` tells whose it is.

    Otherwise it is seen by one of them, `player`, by default 0. The others move
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
        """The player whose view it is; None for a game of one, and for a world of all."""
        if self.peer.num_players == 1 or self.agents:
            return None
        return self.config.options.get("player") or 0

    @property
    def agents(self) -> tuple[str, ...]:
        are_agents = self.config.options.get("player") == ALL
        return tuple(f"player_{i}" for i in range(self.peer.num_players)) if are_agents else ()

    def build(self) -> Any:
        view = "player", "opponent"
        options = {k: v for k, v in self.config.options.items() if k not in view}
        peer = pgx.make(self.config.id)
        return type(peer)(**{**GO.get(self.config.id, {}), **options}) if options else peer

    def spaces(self) -> tuple[Space, Space]:
        player = self.config.options.get("player")
        n = self.peer.num_players
        legal = [None, *range(n), *[ALL] * (n > 1)]
        if player not in legal:
            raise ValueError(
                f"{self._who}: expected `player` among {', '.join(map(repr, legal))}; got "
                f"{player!r}."
            )
        opponent = self.config.options.get("opponent")
        if opponent is not None and (self.agents or not callable(opponent)):
            raise TypeError(
                f"{self._who}: expected `opponent` to be a function of (obs, mask, rng), and none "
                f'with `player="all"`; got {opponent!r}. `envrax.multi_agent.OneAgent` plays a '
                "world against a policy."
            )
        begun = self._typed_begin(jax.random.key(0))
        acted = Discrete(begun.inner.legal_action_mask.shape[0])
        whole = Dict(by_agent(self, acted)) if self.agents else acted
        return nested(unbounded, begun.obs), whole

    def begin(self, params: Any, rng: jax.Array) -> Begun:
        if self.player is None:
            return Begun(*self._seen(self.peer.init(rng)))
        key, others = jax.random.split(rng)
        return Begun(*self._seen(self._others_move(self.peer.init(key), others)))

    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> Advanced:
        if self.player is None:
            if self.agents:
                action = jnp.stack([action[x] for x in self.agents])[inner.current_player]
            inner = self.peer.step(inner, action, rng)
            rewards: Any = inner.rewards
            if self.agents:
                rewards = {x: rewards[i] for i, x in enumerate(self.agents)}
            return Advanced(*self._seen(inner), rewards, inner.terminated, inner.truncated)
        key, others = jax.random.split(rng)
        owed = inner.rewards
        inner = self.peer.step(inner, action, key)
        inner = self._others_move(inner.replace(rewards=owed + inner.rewards), others)
        rewards, ends = inner.rewards, (inner.terminated, inner.truncated)
        inner = inner.replace(rewards=jnp.zeros_like(rewards))
        info = {"rewards": rewards}
        return Advanced(*self._seen(inner), rewards[self.player], *ends, info)

    def active(self, state: PeerState) -> dict[str, jax.Array]:
        return {x: state.inner.current_player == i for i, x in enumerate(self.agents)}

    def action_mask(self, state: PeerState) -> Any:
        mask = state.inner.legal_action_mask
        return {x: mask | ~acts for x, acts in self.active(state).items()} or mask

    def render(self, state: PeerState) -> np.ndarray:
        with jax.numpy_dtype_promotion("standard"):
            obs = self.peer.observe(state.inner)  # what MinAtar draws
            return _image(self._who, state.inner.replace(observation=obs).to_svg())

    def _seen(self, inner: Any) -> tuple[Any, Any]:
        """
        The player's observation, also at the end, when it may be another's turn, or all of them;
        and the state to keep, without the observation that pgx stores in it.
        """

        def seen(player: int) -> Any:
            return jax.lax.stop_gradient(self.peer._observe(inner, jnp.int32(player)))

        if self.agents:
            obs: Any = {x: seen(i) for i, x in enumerate(self.agents)}
        else:
            obs = inner.observation if self.player is None else seen(self.player)
        return obs, inner.replace(observation=None)

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
    player: int | str | None = None,
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
    player : int or "all", optional
        Whose view it is, in a game of several; 0 if not given. "all" makes a world.
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
