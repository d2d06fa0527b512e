# pyright: reportMissingImports=false
"""Board games of Pgx, against OpenSpiel."""

import json
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import envrax
from benchmarks.ports.port import Port


def first_legal(obs: Any, mask: jax.Array, rng: jax.Array) -> jax.Array:
    """The opponent on both sides: it plays the first legal move."""
    return jnp.argmax(mask).astype(jnp.int32)


def any_legal(obs: Any, mask: jax.Array, rng: jax.Array) -> jax.Array:
    return jax.random.categorical(rng, jnp.where(mask, 0.0, -jnp.inf)).astype(jnp.int32)


class Turns:
    """
    A game of OpenSpiel for the player who begins or answers, by chance; then the opponent moves.

    Its observation is Pgx's: own stones and the opponent's, on the last axis.
    """

    def __init__(self, name: str) -> None:
        import pyspiel

        self.game = pyspiel.load_game(name)
        self.random = np.random.default_rng(0)

    def reset(self, seed: int | None = None) -> Any:
        if seed is not None:
            self.random = np.random.default_rng(seed)
        self.state = self.game.new_initial_state()
        self.seat = int(self.random.integers(2))
        self.answer()
        return self.observe(), {}

    def step(self, action: int) -> Any:
        self.state.apply_action(action)
        self.answer()
        ends = self.state.is_terminal()
        return self.observe(), self.state.returns()[self.seat], ends, False, {}

    def answer(self) -> None:
        while not self.state.is_terminal() and self.state.current_player() != self.seat:
            self.state.apply_action(min(self.state.legal_actions()))

    def observe(self) -> np.ndarray:
        stones = self.stones()
        return np.stack([stones == self.seat, stones == 1 - self.seat], axis=-1)

    def stones(self) -> np.ndarray:
        """0 and 1 for the stones of who begins and of the other, -1 for none; the top row first."""
        rows = str(self.state).split()
        return np.array([["xo".find(x) for x in row] for row in rows])


def inject(reference: Turns, state: Any) -> None:
    """The board of a running game in which the player is to move, who began or not."""
    x = state.inner._x
    reference.seat = int(x.color)
    shape = reference.stones().shape
    signs = np.array(["x", "o", "."])[x.board.reshape(shape)]
    board = signs.ravel().tolist() if len(shape) == 2 and shape[0] == 3 else signs[::-1].tolist()
    given = {"board": board, "current_player": "xo"[reference.seat]}
    given.update({"is_terminal": False, "winner": ""} if shape[0] == 6 else {})
    reference.state = reference.game.new_initial_state(json.dumps(given))


def boards(id: str, _env: Any) -> Any:
    """Boards nearly full: two random players leave out the moves that end the game."""
    env = envrax.make(id, options={"opponent": any_legal}, jit_compile=False)

    def move(state: Any, rng: jax.Array) -> Any:
        action = env.action_space.sample(rng, env.action_mask(state))
        _, moved, _, done, _ = env.step(state, action)
        return jax.tree.map(lambda before, after: jnp.where(done, before, after), state, moved)

    moves = jax.jit(jax.vmap(move))
    states = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), N_GAMES))[1]
    played = [states]
    for rng in jax.random.split(jax.random.key(1), N_MOVES):
        states = moves(states, jax.random.split(rng, N_GAMES))
        played.append(states)
    return jax.tree.map(lambda *x: jnp.concatenate(x), *played[-10:])


def board(name: str) -> Port:
    make = partial(Turns, name)
    options = {"opponent": first_legal}
    how = {"inject": inject}
    id, original = f"pgx/{name}", f"OpenSpiel's {name}"
    full = partial(boards, id)
    return Port(id, original, "open_spiel", make, how, options=options, tables=full)


N_GAMES, N_MOVES = 60, 40
TILES = "nobody has written yet what puts a board into the original"
NO_BOARD = "OpenSpiel cannot be set to a position of this game"
PORTS = {
    "pgx": [
        board("tic_tac_toe"),
        board("connect_four"),
        Port("pgx/othello", "OpenSpiel's othello", "open_spiel", cause=NO_BOARD),
        Port("pgx/2048", "OpenSpiel's 2048", "open_spiel", cause=TILES),
    ],
    "jumanji": [Port("jumanji/Game2048-v1", "OpenSpiel's 2048", "open_spiel", cause=TILES)],
    "xminigrid": [
        Port(
            "xminigrid/MiniGrid-Empty-8x8",
            "MiniGrid-Empty-8x8-v0",
            "minigrid",
            cause="tiles and colours have codes of its own; nobody has written the mapping yet",
        )
    ],
}
