"""`BatchHooks`: what a wrapper of a batch may change."""

from typing import Any

import jax

from envrax.env import Info

_WITH_FIELDS = "on_reset", "on_step"  # of wrappers that may have fields of their own


class BatchHooks:
    """The hooks of a `BatchedWrapper`, which change nothing. They get the arrays of all slots."""

    def action(self, actions: Any) -> Any:
        """Hook: the actions for the wrapped batch."""
        return actions

    def observation(self, obs: Any) -> Any:
        """Hook: the observations returned to the caller, also as `final_obs`."""
        return obs

    def reward(self, rewards: jax.Array) -> jax.Array:
        """Hook: the rewards returned to the caller."""
        return rewards

    def info(self, infos: Info) -> Info:
        """Hook: the infos returned to the caller, a new dict. Do not change the argument."""
        return infos

    def on_reset(self, obs: Any) -> tuple[Any, dict[str, Any]]:
        """
        The first values of the wrapper's own state fields.

        Parameters
        ----------
        obs : pytree of jax.Array
            First observations, after the hook `observation`.

        Returns
        -------
        obs : pytree of jax.Array
            First observations returned to the caller.
        fields : dict
            Values of the wrapper's own state fields.
        """
        return obs, {}

    def on_step(
        self, obs: Any, state: Any, rewards: jax.Array, dones: jax.Array, infos: Info, /
    ) -> tuple[Any, Any, jax.Array, jax.Array, Info]:
        """
        Change the results of a step, and update the wrapper's own state fields.

        Parameters
        ----------
        obs, rewards, dones, infos
            As the wrapped batch returned them, after the hooks. If `infos["final_obs"]` is present,
            change it in the same way as `obs`; and `infos["final_mask"]` as `action_mask` does, if
            the class overrides that.
        state : BatchedWrapperState
            State after the step. The wrapper's own fields still have their values from before the
            step. If the batch runs on the host, `env_state` is None here.

        Returns
        -------
        tuple
            `obs, state, rewards, dones, infos` for the caller, with the wrapper's own state fields
            updated.
        """
        return obs, state, rewards, dones, infos

    def on_reset_where(self, mask: jax.Array, obs: Any, state: Any, /) -> tuple[Any, Any]:
        """
        Change what `reset_where` returns, and the wrapper's own state fields.

        Parameters
        ----------
        mask : jax.Array
            bool[n_slots], True where an episode begins.
        obs : pytree of jax.Array
            After the hook `observation`: first observations in these slots, any in the others.
        state : BatchedWrapperState
            State after the partial reset. The wrapper's own fields still have their values from
            before it.

        Returns
        -------
        obs : pytree of jax.Array
            First observations for the caller, who gets those of the slots of the mask.
        state : BatchedWrapperState
            The state with the wrapper's own fields updated.

        Raises
        ------
        NotImplementedError
            If the class overrides `on_reset` or `on_step`, but not this method.
        """
        overrides = [getattr(type(self), x) is not getattr(BatchHooks, x) for x in _WITH_FIELDS]
        if any(overrides):
            who = type(self).__name__
            raise NotImplementedError(
                f"{who}.reset_where: expected a wrapper that says what a reset of some slots "
                "changes; got one with `on_reset` or `on_step` only. Override `on_reset_where`."
            )
        return obs, state
