"""Whether an environment can calculate with traced values in its config."""

from typing import Any

import jax

from envrax._jax.keys import key_types
from envrax._jax.types import leaf_types, named_leaves
from envrax.config import FieldError
from envrax.env import AnyEnv, carries_over, with_config

Fields = dict[str, Any]  # values by the name of the field


def require_dynamic(who: str, env: AnyEnv, types: Fields) -> None:
    """
    Raise a TypeError unless the environment works with traced values in these config fields.

    Parameters
    ----------
    who : str
        The name of the caller, for messages.
    env : JaxEnv
        The environment.
    types : dict
        Shape and dtype of each value, by name of the field.

    Raises
    ------
    TypeError
        If a field is unknown, a value does not fit it, or the environment uses it as a static
        value, for a shape, a branch or a space. Errors that the environment raises without these
        fields are raised unchanged.
    """
    plain = _result_types(env, {})
    names = ", ".join(f"`{name}`" for name in named_leaves(types))
    try:
        traced = _result_types(env, types)
    except FieldError:
        raise
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise TypeError(
            f"{who}: expected {env.name} to calculate with {names}; got an environment that needs "
            "a static value, for a shape, a branch or a space. Leave such a field fixed, or use it "
            f"only in arithmetic. The error was: {reason}"
        ) from error
    for leaf in [*plain, *traced]:
        if plain.get(leaf) != traced.get(leaf):
            raise TypeError(
                f"{who}: expected {env.name} to return `{leaf}` as {plain.get(leaf)} for any value "
                f"of {names}; got {traced.get(leaf)}, since the value is an array, not a Python "
                "number. Cast it: `jnp.asarray(self.config.x, x.dtype)`."
            )


def _result_types(env: AnyEnv, types: Fields) -> dict[str, str]:
    """The types of the results of a reset, a step and the next reset, by name."""

    def run(rng: jax.Array, fields: Fields) -> Any:
        configured = with_config(env, **fields) if fields else env
        for name in ("observation_space", "action_space"):
            before = getattr(env, name)
            after = getattr(configured, name)
            if before != after:
                raise TypeError(
                    f"its `{name}` is {before} with one value and {after} with another."
                )
        reset_rng, action_rng = jax.random.split(rng)
        obs, state = configured.reset(reset_rng)
        mask = configured.action_mask(state)
        stepped = configured.step(state, configured.action_space.sample(action_rng))
        next_reset = configured.reset_after(stepped[1]) if carries_over(configured) else None
        at_reset = {"obs": obs, "state": state, "mask": mask, "after": next_reset}
        names = ("obs", "new_state", "reward", "done", "info")
        return {"reset": at_reset, "step": dict(zip(names, stepped, strict=True))}

    return leaf_types(jax.eval_shape(run, key_types()[0], types))
