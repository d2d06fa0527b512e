"""
Search: mctx looks ahead in a game of two players, by stepping copies of a state.

    python examples/search.py

In tic-tac-toe of pgx it looks 64 moves ahead, in 256 games at once, as the first player and against
uniform moves. It has no network: all moves are equally good, until a game is over.
"""

from typing import Any

import jax
import jax.numpy as jnp
import mctx

import envrax

N_GAMES, N_SIMULATIONS, LONGEST = 256, 64, 9  # moves of the longest game


def make_play(env: Any) -> Any:
    """The function from a key to the score of each game, for player 0; `env` has all players."""

    def of_mover(state: Any, by_player: Any) -> jax.Array:
        """The value of the player whose turn it is."""
        first = env.active(state)["player_0"]
        return jnp.where(first, by_player["player_0"], by_player["player_1"])

    def legal(state: Any) -> jax.Array:
        return of_mover(state, env.action_mask(state))

    def move(state: Any, action: jax.Array) -> tuple[Any, jax.Array, jax.Array]:
        """One move of whoever is to move: the next state, the mover's reward, and the end."""
        _, after, rewards, done, _ = env.step(state, {agent: action for agent in env.agents})
        return after, of_mover(state, rewards), done

    def expand(params: Any, rng: jax.Array, actions: jax.Array, states: Any) -> Any:
        """One level deeper, in all games: no value but that of a finished game."""
        states, rewards, done = jax.vmap(move)(states, actions)
        found = mctx.RecurrentFnOutput(
            reward=rewards,
            discount=jnp.where(done, 0.0, -1.0),  # what is good for the next mover is bad here
            prior_logits=jnp.where(jax.vmap(legal)(states), 0.0, -1e9),
            value=jnp.zeros_like(rewards),
        )
        return found, states

    def search(states: Any, rng: jax.Array) -> Any:
        masks = jax.vmap(legal)(states)
        priors, value = jnp.where(masks, 0.0, -1e9), jnp.zeros(len(masks))
        root = mctx.RootFnOutput(prior_logits=priors, value=value, embedding=states)
        how = {"num_simulations": N_SIMULATIONS, "temperature": 0.0}
        return mctx.muzero_policy(None, rng, root, expand, invalid_actions=~masks, **how).action

    @jax.jit
    def play(rng: jax.Array) -> jax.Array:
        rng, key = jax.random.split(rng)
        _, states = jax.vmap(env.reset)(jax.random.split(key, N_GAMES))

        def one(carry: Any, rng: jax.Array) -> tuple[Any, None]:
            states, score = carry
            keys = jax.random.split(rng)
            logits = jnp.where(jax.vmap(legal)(states), 0.0, -jnp.inf)
            searched = jax.vmap(env.active)(states)["player_0"]
            uniform = jax.random.categorical(keys[1], logits)
            actions = jnp.where(searched, search(states, keys[0]), uniform)
            after, rewards, _ = jax.vmap(move)(states, actions)
            gained = jnp.where(states.done, 0.0, jnp.where(searched, rewards, -rewards))
            return (after, score + gained), None

        carry = (states, jnp.zeros(N_GAMES))
        return jax.lax.scan(one, carry, jax.random.split(rng, LONGEST))[0][1]

    return play


def main() -> None:
    env = envrax.make("pgx/tic_tac_toe", options={"player": "all"}, pre_warm=False)
    score = make_play(env)(jax.random.key(0))
    print(f"won {(score > 0).mean():.0%}, lost {(score < 0).mean():.0%}")


if __name__ == "__main__":
    main()
