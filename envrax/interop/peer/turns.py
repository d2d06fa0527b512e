# pyright: basic
"""`TurnEnv`: the base class of adapters of games in which players act in turn."""

from abc import abstractmethod
from typing import Any

import jax
import jax.numpy as jnp

from envrax.interop.peer.base import PeerEnv
from envrax.interop.peer.params import Params
from envrax.interop.peer.types import PeerReset, PeerState, PeerStep
from envrax.spaces import Dict


class TurnEnv(PeerEnv):
    """
    A game of a library in which `agents` act in turn, as a world.

    An adapter is written for the player whose turn it is: `begin` and `advance` return its
    observation and its mask, and `advance` is given its action. Rewards are an array over players.
    Players who wait see zeros, may do anything, and their actions have no effect.

    `spaces` returns those of one player, or those of all.
    """

    @abstractmethod
    def current_player(self, inner: Any) -> jax.Array:
        """The place in `agents` of the player whose turn it is in a state of the library."""

    def active(self, state: PeerState) -> dict[str, jax.Array]:
        return self._acts(state.inner)

    def _acts(self, inner: Any) -> dict[str, jax.Array]:
        player = self.current_player(inner)
        return {x: player == i for i, x in enumerate(self.agents)}

    def _set_spaces(self) -> None:
        super()._set_spaces()
        obs, action = self._observation_space, self._action_space
        is_of_all = isinstance(obs, Dict) and {*obs.keys()} == {*self.agents}
        self._observation_space = obs if is_of_all else Dict(dict.fromkeys(self.agents, obs))
        self._action_space = Dict(dict.fromkeys(self.agents, action))

    def _begin_with(self, params: Params, rng: jax.Array) -> PeerReset:
        out = super()._begin_with(params, rng)
        return out._replace(obs=self._seen(out), mask=self._masks(out))

    def _advance_with(self, params: Params, inner: Any, action: Any, rng: jax.Array) -> PeerStep:
        actions = jnp.stack([action[x] for x in self.agents])
        out = super()._advance_with(params, inner, actions[self.current_player(inner)], rng)
        rewards = {x: out.reward[i] for i, x in enumerate(self.agents)}
        return out._replace(obs=self._seen(out), mask=self._masks(out), reward=rewards)

    def _seen(self, out: Any) -> Any:
        def view(acts: jax.Array) -> Any:
            return jax.tree.map(lambda x: jnp.where(acts, x, jnp.zeros_like(x)), out.obs)

        return {x: view(acts) for x, acts in self._acts(out.inner).items()}

    def _masks(self, out: Any) -> Any:
        if out.mask is None:
            return None
        return {x: out.mask | ~acts for x, acts in self._acts(out.inner).items()}
