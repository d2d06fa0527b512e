# pyright: basic
"""`TurnEnv`: the base class of adapters of games in which players act in turn."""

from abc import abstractmethod
from typing import Any

import jax
import jax.numpy as jnp

from envrax.interop.peer.base import PeerEnv
from envrax.interop.peer.params import Params
from envrax.interop.peer.types import PeerReset, PeerState, PeerStep
from envrax.spaces import Dict, Space
from envrax.spaces.masks import all_legal_if


class TurnEnv(PeerEnv):
    """
    A game of a library in which `agents` act in turn, as a world.

    An adapter is written for the player whose turn it is: `advance` is given its action, and
    `begin` and `advance` return its mask, and its observation or those of all by agent. Rewards are
    an array over players. Players who wait see zeros, unless the adapter says what they see; they
    may do anything, and their actions have no effect.

    `spaces` returns those of one player, or those of all.
    """

    @abstractmethod
    def current_player(self, inner: Any) -> jax.Array | None:
        """
        The place in `agents` of the player whose turn it is in a state of the library.

        None for an environment in which all act at once, or one agent does.
        """

    def active(self, state: PeerState) -> dict[str, jax.Array]:
        return self._acts(state.inner) or super().active(state)

    def action_mask(self, state: PeerState) -> Any:
        return self._masks(state.mask, state.inner)

    def _acts(self, inner: Any) -> dict[str, jax.Array]:
        """By agent, whether it is its turn; empty where nobody waits."""
        player = self.current_player(inner)
        return {} if player is None else {x: player == i for i, x in enumerate(self.agents)}

    def _masks(self, mask: Any, inner: Any) -> Any:
        """The mask of the player whose turn it is, for all; those who wait may do anything."""
        acts = self._acts(inner)
        if not acts or mask is None:
            return mask
        spaces: Any = self._action_space
        return {x: all_legal_if(~acts[x], spaces[x], mask) for x in acts}

    def _set_spaces(self) -> None:
        super()._set_spaces()
        spaces = self._observation_space, self._action_space
        self._observation_space, self._action_space = map(self._space_of_all, spaces)

    def _space_of_all(self, space: Space) -> Space:
        is_of_all = isinstance(space, Dict) and {*space.keys()} == {*self.agents}
        return space if is_of_all or not self.agents else Dict(dict.fromkeys(self.agents, space))

    def _begin_with(self, params: Params, rng: jax.Array) -> PeerReset:
        out = super()._begin_with(params, rng)
        return out._replace(obs=self._seen(out.obs, out.inner))

    def _advance_with(self, params: Params, inner: Any, action: Any, rng: jax.Array) -> PeerStep:
        player = self.current_player(inner)
        if player is None:
            return super()._advance_with(params, inner, action, rng)
        actions = [action[x] for x in self.agents]
        action = jax.tree.map(lambda *x: jnp.stack(x)[player], *actions)
        out = super()._advance_with(params, inner, action, rng)
        rewards = {x: out.reward[i] for i, x in enumerate(self.agents)}
        return out._replace(obs=self._seen(out.obs, out.inner), reward=rewards)

    def _seen(self, obs: Any, inner: Any) -> Any:
        """The observation of the player whose turn it is, for all."""
        acts = self._acts(inner)
        if not acts or (isinstance(obs, dict) and obs.keys() == acts.keys()):
            return obs

        def view(acts: jax.Array) -> Any:
            return jax.tree.map(lambda x: jnp.where(acts, x, jnp.zeros_like(x)), obs)

        return {x: view(acts[x]) for x in acts}
