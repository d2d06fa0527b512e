"""The reset of one slot as a program, and what it reads and leaves of the slot's last state."""

from functools import partial
from typing import Any, cast

import jax
import jax.core
from jax.extend.core import Var

from envrax._jax.keys import clone_keys
from envrax.autoreset.choice import Choice
from envrax.autoreset.slot import next_episode, require_same_types
from envrax.env import AnyEnv, EnvState


class TracedReset:
    """
    `env.reset_after`, traced for the state of one slot.

    The arrays that `env` closes over become arguments: a traced config value that is
    differentiated has to be one of what is under `custom_jvp`.

    Parameters
    ----------
    env : JaxEnv
        The environment of every slot.
    obs, state
        What a step of one slot returned.
    """

    def __init__(self, env: AnyEnv, obs: Any, state: EnvState) -> None:
        closed, out = jax.make_jaxpr(partial(next_episode, env), return_shape=True)(state)
        require_same_types(env, out, {"obs": obs, "state": state})
        self._jaxpr, self._consts = closed.jaxpr, closed.consts
        # `out` is flattened as obs and then state, like what `merged` flattens.
        same = [None] * len(jax.tree.leaves(obs)) + self._jaxpr.invars
        self._changes = [a is not b for a, b in zip(self._jaxpr.outvars, same, strict=True)]
        self._reads = _read(self._jaxpr, self._changes)

    def merged(self, choice: Choice, ended: jax.Array, obs: Any, state: EnvState) -> dict[str, Any]:
        """Observations and states of all slots, those of the next episode where one ended."""
        strategy = choice.strategy(self._jaxpr)
        leaves, tree = cast(Any, jax.tree.flatten({"obs": obs, "state": state}))
        last = clone_keys(_those(self._reads, jax.tree.leaves(state)))
        changed = clone_keys(_those(self._changes, leaves))  # wrappers hold the same key
        new = iter(clone_keys(strategy(self._reset_one, self._consts, last, ended, changed)))
        pairs = zip(self._changes, leaves, strict=True)
        return jax.tree.unflatten(tree, [next(new) if changes else x for changes, x in pairs])

    def _reset_one(self, consts: list[Any], last: list[Any]) -> list[Any]:
        read = iter(last)
        state = [next(read) if reads else None for reads in self._reads]
        return clone_keys(_those(self._changes, jax.core.eval_jaxpr(self._jaxpr, consts, *state)))


def _those(chosen: list[bool], leaves: list[Any]) -> list[Any]:
    return [x for is_chosen, x in zip(chosen, leaves, strict=True) if is_chosen]


def _read(jaxpr: Any, wanted: list[bool]) -> list[bool]:
    """Which arguments of a program any operation takes, or is returned where it is wanted."""
    operands = [v for eqn in jaxpr.eqns for v in eqn.invars]
    read = {v for v in (*operands, *_those(wanted, jaxpr.outvars)) if isinstance(v, Var)}
    return [v in read for v in jaxpr.invars]
