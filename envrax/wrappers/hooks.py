"""`Hooks`: what a wrapper may change, of an environment or of a batch."""

from typing import Any, ClassVar

import jax

from envrax._checks.marks import adds, hands_on
from envrax.env import Info
from envrax.wrappers.deferred import call_repr, keywords


class Hooks:
    """
    The hooks of a wrapper, around one environment or around a batch, which change nothing.

    Around a batch they get the arrays of all slots.
    """

    env: Any
    # The arguments of the constructor, what is wrapped first. The metaclass sets them.
    _arguments: tuple[tuple[Any, ...], dict[str, Any]]
    each_agent: ClassVar[bool] = False

    @hands_on
    def action(self, action: Any, /) -> Any:
        """Hook: the action for what is wrapped."""
        return action

    def observation(self, obs: Any, /) -> Any:
        """Hook: the observation returned to the caller; of a batch also that in `final_obs`."""
        return obs

    def reward(self, reward: jax.Array, /) -> jax.Array:
        """Hook: the reward returned to the caller."""
        return reward

    @hands_on
    def info(self, info: Info, /) -> Info:
        """Hook: the info returned to the caller, a new dict. Do not change the argument."""
        return info

    @hands_on
    def action_mask(self, state: Any) -> Any:
        """
        The mask of legal actions; by default the mask of what is wrapped.

        Raises
        ------
        NotImplementedError
            If the class overrides `action` but not this method, and what is wrapped has a mask.
        """
        mask = self.env.action_mask(self._inner(state))
        if adds(self.action):
            reason = "it is for actions after the hook `action`, not before"
            refuse_mask(self, mask, reason, "Override `action_mask`")
        return mask

    def _inner(self, state: Any) -> Any:
        """The state of what is wrapped, from the state of this wrapper."""
        return state

    def __repr__(self) -> str:
        # `vars`, not `getattr`: a keyword may have the name of a hook. None is left out.
        attributes = {k: vars(self)[k] for k in keywords(type(self)) if k in vars(self)}
        shown = {k: v for k, v in attributes.items() if v is not None}
        return call_repr(type(self).__name__, shown, repr(self.env))


class StateHooks:
    """The hooks of a wrapper with a state of its own. Around a batch they get all slots."""

    @hands_on
    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        """
        The first values of the wrapper's own state fields.

        Parameters
        ----------
        obs : pytree of jax.Array
            First observation, after the hook `observation`.

        Returns
        -------
        obs : pytree of jax.Array
            First observation returned to the caller.
        fields : dict
            Values of the wrapper's own state fields.
        """
        return obs, {}

    @hands_on
    def on_step(
        self, obs: Any, state: Any, reward: jax.Array, done: jax.Array, info: Info, /
    ) -> tuple[Any, Any, jax.Array, jax.Array, Info]:
        """
        Change the results of a step, and update the wrapper's own state fields.

        Parameters
        ----------
        obs, reward, done, info
            As what is wrapped returned them, after the other hooks. Of a batch, change
            `info["final_obs"]`, if it is present, in the same way as `obs`; and
            `info["final_mask"]` as `action_mask` does, if the class overrides that.
        state : EnvState or BatchedWrapperState
            State after the step; `state.done` of one environment says whether the episode has
            ended. The wrapper's own fields still have their values from before the step. If a batch
            runs on the host, `env_state` is None here.

        Returns
        -------
        tuple
            `obs, state, reward, done, info` for the caller, with the wrapper's own state fields
            updated.
        """
        return obs, state, reward, done, info


def refuse_mask(
    wrapper: Any, mask: Any, reason: str, advice: str = "Leave the wrapper out"
) -> None:
    """Raise a NotImplementedError if there is a mask. `reason` is why the wrapper cannot use it."""
    if mask is not None:
        raise NotImplementedError(
            f"{type(wrapper).__name__}.action_mask: expected an environment without action masks; "
            f"got a mask, but {reason}. {advice}."
        )
