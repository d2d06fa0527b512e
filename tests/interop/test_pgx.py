# pyright: basic, reportMissingImports=false
"""pgx by name: equal to pgx stepped by hand; the view of one player; refusals."""

import importlib
import sys
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from interop.by_hand import by_hand, equal, follow, make

import envrax


def unseen(inner: Any) -> Any:
    """The state of pgx as an environment keeps it: the observation is returned beside it."""
    return inner.replace(observation=None)


def test_200_steps_are_those_of_pgx(adapter: Any) -> None:
    env = make("pgx/2048", max_steps=25)
    peer = env.unwrapped.peer

    def begin(key: Any) -> Any:
        inner = peer.init(key)
        return inner.observation, unseen(inner)

    def advance(key: Any, inner: Any, action: Any) -> Any:
        inner = peer.step(inner, action, key)
        ended = {"terminated": inner.terminated}
        return inner.observation, unseen(inner), inner.rewards[0], ended

    # Later on moves of any kind, so that games of 2048 are lost, too.
    ends = follow(env, begin, advance, masked=lambda n: n < 100)
    assert ends == {"terminated", "truncated"}


@pytest.mark.parametrize("id", ["tic_tac_toe", "connect_four"])
def test_200_steps_of_all_players_are_those_of_pgx(adapter: Any, id: str) -> None:
    world = make(f"pgx/{id}", options={"player": "all"}, max_steps=8)
    peer, names = world.unwrapped.peer, world.agents
    assert names == ("player_0", "player_1")

    def seen(inner: Any) -> Any:
        return {x: peer.observe(inner, jnp.int32(i)) for i, x in enumerate(names)}

    def begin(key: Any) -> Any:
        inner = peer.init(key)
        return seen(inner), unseen(inner)

    def advance(key: Any, inner: Any, action: Any) -> Any:
        first = inner.current_player == 0
        inner = peer.step(inner, jnp.where(first, action["player_0"], action["player_1"]), key)
        rewards = {x: inner.rewards[i] for i, x in enumerate(names)}
        active = {x: inner.current_player == i for i, x in enumerate(names)}
        info = {"terminated": inner.terminated, "active": active}
        return seen(inner), unseen(inner), rewards, info

    # Half of the moves may be illegal, which loses a game.
    ends = follow(world, begin, advance, masked=lambda n: n % 2 == 1)
    assert ends == {"terminated", "truncated"}
    state = jax.jit(world.reset)(jax.random.key(0))[1]
    waits = names[1 - int(state.inner.current_player)]
    assert world.action_mask(state)[waits].all()  # what it chooses is ignored


class ByHand:
    """A game of pgx, played move by move by `player` against uniform opponents."""

    def __init__(self, adapter: Any, env: Any, player: int) -> None:
        peer = env.unwrapped.peer
        self.init, self.move, self.player = by_hand(peer.init), by_hand(peer.step), player
        self.observe = by_hand(lambda inner: peer._observe(inner, jnp.int32(player)))
        self.uniform = adapter.uniform

    def reset(self, rng: Any) -> None:
        key, others = jax.random.split(jax.random.split(rng)[1])
        self.inner, self.owed = self.init(key), 0.0
        self.others_move(others)

    def step(self, rng: Any, action: Any) -> Any:
        key, others = jax.random.split(jax.random.split(rng)[1])
        self.inner = self.move(self.inner, action, key)
        self.owed += self.inner.rewards
        self.others_move(others)
        rewards, self.owed = self.owed, 0.0
        return rewards

    def others_move(self, rng: Any) -> None:
        while not self.inner.terminated and self.inner.current_player != self.player:
            rng, choice, key = jax.random.split(rng, 3)
            mask = self.inner.legal_action_mask
            action = self.uniform(self.inner.observation, mask, choice)
            self.inner = self.move(self.inner, action, key)
            self.owed += self.inner.rewards


@pytest.mark.parametrize(("id", "player"), [("tic_tac_toe", 1), ("leduc_holdem", 0)])
def test_200_steps_of_a_view_are_those_of_pgx(adapter: Any, id: str, player: int) -> None:
    env = make(f"pgx/{id}", options={"player": player}, max_steps=3)
    reset, step, hand = jax.jit(env.reset), jax.jit(env.step), ByHand(adapter, env, player)
    ends: Counter[str] = Counter()

    def same(obs: Any, inner: Any) -> None:
        equal(obs, hand.observe(hand.inner))
        equal(inner, unseen(hand.inner).replace(rewards=inner.rewards))

    rng = jax.random.key(3)
    obs, state = reset(rng)
    hand.reset(rng)
    for key in jax.random.split(jax.random.key(4), 200):
        assert state.inner.current_player == player
        action = env.action_space.sample(key, env.action_mask(state))
        rewards = hand.step(state.rng, action)
        obs, state, reward, done, info = step(state, action)
        same(obs, state.inner)
        equal((info["rewards"], reward), (rewards, rewards[player]))
        assert not state.inner.rewards.any()
        assert info["terminated"] == hand.inner.terminated
        assert bool(info["truncated"]) is (int(state.step) == env.config.max_steps)
        if done:
            ends.update(name for name in ("terminated", "truncated") if info[name])
            rng = jax.random.split(state.rng)[0]
            obs, state = reset(rng)
            hand.reset(rng)
            same(obs, state.inner)
    assert {*ends} == {"terminated", "truncated"}


@pytest.mark.parametrize("id", ["tic_tac_toe", "connect_four", "hex"])
def test_a_game_in_turns_is_the_same_without_a_loop(
    adapter: Any, id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the loop over moves of opponents, which other games need."""
    found: list[Any] = []
    for games in (adapter.TAKE_TURNS, set()):
        monkeypatch.setattr(adapter, "TAKE_TURNS", games)
        env = envrax.VecEnv(make(f"pgx/{id}", options={"player": 1}), 3)
        start = envrax.start(env, jax.random.key(0))
        found.append(envrax.rollout(env, None, start, 60))
        assert ("while" in str(jax.make_jaxpr(env.env.step)(*first(env)))) is not bool(games)
    equal(*found)


def first(env: Any) -> Any:
    """A state, and an action, of one slot."""
    state = env.env.reset(jax.random.key(0))[1]
    return state, jnp.argmax(state.inner.legal_action_mask)


def test_in_games_in_turns_no_player_moves_twice(adapter: Any) -> None:
    for id in sorted(adapter.TAKE_TURNS):
        assert takes_turns(adapter, adapter.pgx.make(id)), id


def takes_turns(adapter: Any, peer: Any) -> bool:
    def move(inner: Any, key: Any) -> Any:
        action = adapter.uniform(None, inner.legal_action_mask, key)
        moved = peer.step(inner, action, key)
        return moved, moved.terminated | (moved.current_player == 1 - inner.current_player)

    @jax.jit
    def play(keys: Any) -> Any:
        return jax.lax.scan(move, peer.init(keys[0]), keys)[1].all()

    with jax.numpy_dtype_promotion("standard"):
        return bool(play(jax.random.split(jax.random.key(0), 100)))


def test_letters_are_drawn(adapter: Any) -> None:
    text = '<text x="10" y="40" font-size="30" font-family="Courier">Q</text>'
    blank = '<svg xmlns="http://www.w3.org/2000/svg" width="60" height="60">{}</svg>'
    image = adapter._image("pgx", blank.format(text))
    assert image.shape == (60, 60, 3) and image.min() == 0
    assert adapter._image("pgx", blank.format("")).min() == 255


def test_what_draws_is_not_installed(adapter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    env = make("pgx/tic_tac_toe")
    state = jax.jit(env.reset)(jax.random.key(0))[1]
    with pytest.raises(NotImplementedError, match="resvg"):
        env.render(state)


def test_the_opponent_may_be_any_policy(adapter: Any) -> None:
    """The first legal move, and ours the last: who plays first wins or loses alike."""

    def first(obs: Any, mask: Any, rng: Any) -> Any:
        return jnp.argmax(mask)

    env = adapter.wrap(adapter.pgx.make("tic_tac_toe"), opponent=first)
    obs, state = env.reset(jax.random.key(0))
    assert obs.shape == (3, 3, 2)
    done, reward = False, 0.0
    while not done:
        mask = env.action_mask(state)
        last = mask.shape[0] - 1 - jnp.argmax(mask[::-1])
        _, state, reward, done, _ = env.step(state, last)
    board = state.inner._x.board
    assert reward == 1.0 or (board[:3] == board[0]).all()


def test_a_game_lost_before_the_first_move_is_paid_in_the_first_step(adapter: Any) -> None:
    """An opponent who begins with an illegal move loses at once, inside `reset`."""

    def illegal(obs: Any, mask: Any, rng: Any) -> Any:
        return jnp.argmin(mask)

    env = adapter.wrap(adapter.pgx.make("leduc_holdem"), opponent=illegal)
    states = [jax.jit(env.reset)(jax.random.key(i))[1] for i in range(8)]
    over = [state for state in states if state.inner.terminated]
    assert 0 < len(over) < 8
    assert env.action_mask(over[0]).all()
    _, state, reward, done, info = env.step(over[0], 0)
    assert reward == -info["rewards"][1] > 0
    assert done
    assert env.step(state, 0)[2] == 0.0  # and is not paid twice


def test_options_are_keywords_of_the_game(adapter: Any) -> None:
    env = make("pgx/go_9x9", options={"komi": 0.5, "player": 1})
    assert env.observation_space.shape == (9, 9, 17)
    assert env.unwrapped.player == 1
    assert make("pgx/minatar-breakout", options={"sticky_action_prob": 0.0}).name


def test_opponents_and_players_that_do_not_fit(adapter: Any) -> None:
    def two(obs: Any, mask: Any, rng: Any) -> Any:
        return jnp.zeros(2, jnp.int32)

    for id, player in {"tic_tac_toe": 2, "2048": "all"}.items():
        with pytest.raises(ValueError, match="player"):
            make(f"pgx/{id}", options={"player": player})
    with pytest.raises(TypeError, match="opponent"):
        make("pgx/tic_tac_toe", options={"opponent": 3})
    with pytest.raises(ValueError, match="opponent"):
        make("pgx/tic_tac_toe", options={"opponent": two})


LIMITS = {"animal_shogi": 256, "gardner_chess": 256, "chess": 512, "shogi": 512}


@pytest.mark.parametrize("id", LIMITS)
def test_the_limit_of_moves_truncates(adapter: Any, id: str) -> None:
    """pgx reports a termination. One player has half of the moves."""
    world = make(f"pgx/{id}", options={"player": "all"})
    assert world.config.max_steps == LIMITS[id] == 2 * make(f"pgx/{id}").config.max_steps
    with pytest.raises(ValueError, match=f"max_steps` of at most {LIMITS[id]}"):
        make(f"pgx/{id}", options={"player": "all"}, max_steps=LIMITS[id] + 1)
    step = jax.jit(world.step)
    for moves, at_limit in ((LIMITS[id] - 2, False), (LIMITS[id] - 1, True)):
        state = after_moves(world.reset(jax.random.key(0))[1], moves)
        *_, done, info = step(state, legal_actions(world, state))
        ends = [bool(x) for x in (done, info["terminated"], info["truncated"])]
        assert ends == [at_limit, False, at_limit]
        peer, inner = world.unwrapped.peer, state.inner
        theirs = by_hand(peer.step)(inner, jnp.argmax(inner.legal_action_mask).astype(jnp.int32))
        assert theirs.terminated == at_limit and not theirs.truncated


@pytest.mark.parametrize("id", ["gardner_chess", "chess"])
def test_an_end_at_the_limit_by_the_rules_terminates(adapter: Any, id: str) -> None:
    """The 50th move of each without a capture, which is a tie."""
    world = make(f"pgx/{id}", options={"player": "all"})
    state = after_moves(world.reset(jax.random.key(0))[1], LIMITS[id] - 1, halfmove_count=99)
    step = jax.jit(world.step)
    moves = jnp.flatnonzero(state.inner.legal_action_mask).astype(jnp.int32)
    infos = [step(state, {name: move for name in world.agents})[-1] for move in moves]
    assert {bool(info["terminated"]) for info in infos} == {False, True}  # pawns and knights
    assert all(bool(info["truncated"]) for info in infos)


def test_the_limit_of_go_is_an_end_of_the_game(adapter: Any) -> None:
    """The board is scored, and the rewards are those of the winner and the loser."""
    world = make("pgx/go_9x9", options={"player": "all", "max_terminal_steps": 3})
    _, state = jax.jit(world.reset)(jax.random.key(0))
    step = jax.jit(world.step)
    for move in range(3):
        _, state, rewards, _, info = step(state, dict.fromkeys(world.agents, move))
    assert info["terminated"] and not info["truncated"]
    assert sorted(map(float, rewards.values())) == [-1.0, 1.0]


def test_the_start_of_chess_is_a_position_too(adapter: Any) -> None:
    """Knights out and back bring it back after 4 and 8 moves; pgx alone goes on after these."""
    world = make("pgx/chess", options={"player": "all"})
    planes = importlib.import_module("pgx._src.games.chess").TO_PLANE
    out, back = 48 * 73 + planes[48, 42], 42 * 73 + planes[42, 48]  # g1f3 and f3g1, for each side
    step = jax.jit(world.step)
    _, state = jax.jit(world.reset)(jax.random.key(0))
    for move in [out, out, back, back] * 2:
        assert not state.done
        _, state, *_, info = step(state, dict.fromkeys(world.agents, move))
    assert info["terminated"] and not info["truncated"]


def after_moves(state: Any, moves: int, **fields: int) -> Any:
    """The state with another number of moves, wherever the game has it."""
    inner = state.inner
    moves = jnp.int32(moves)
    fields = {name: jnp.int32(x) for name, x in fields.items()}
    if hasattr(inner, "_x"):
        inner = inner.replace(_x=inner._x._replace(step_count=moves, **fields))
    else:
        inner = inner.replace(**{f"_{name}": x for name, x in fields.items()})
    return state.replace(step=moves, inner=inner.replace(_step_count=moves))


def legal_actions(world: Any, state: Any) -> Any:
    move = jnp.argmax(state.inner.legal_action_mask).astype(jnp.int32)
    return dict.fromkeys(world.agents, move)
