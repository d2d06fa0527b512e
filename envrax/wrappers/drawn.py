"""Which fields of a config an environment only calculates with, and which it must know."""

from collections.abc import Iterator
from typing import Any, cast

import jax

from envrax._jax.keys import key_types
from envrax._rebuild import FieldError
from envrax.autoreset.slot import leaf_types
from envrax.env import AnyEnv
from envrax.wrappers.base import layers


def require_dynamic(who: str, env: AnyEnv, types: dict[str, Any]) -> None:
    """
    Refuse fields that an environment cannot take as traced values.

    Parameters
    ----------
    who : str
        The caller, for messages.
    env : JaxEnv
        The environment.
    types : dict
        Shape and dtype of each value, by the names of the fields.

    Raises
    ------
    TypeError
        If there is no such field, a value does not fit it, or the environment uses it as a static
        value, for a shape, a branch or a space. What the environment raises without any of them is
        raised as it is.
    """
    try:
        drawn = _trace(env, types)
    except FieldError as error:
        raise TypeError(f"{who}: {error.sentence}") from None
    except Exception as error:
        _trace(env, {})
        alone = {name: found for name, one in _parts(types) if (found := _fails(env, one))}
        # Of `params` and `params.length` the latter, if both fail in the same way.
        names = [x for x in alone if not any(other.startswith(f"{x}.") for other in alone)]
        names, cause = names or list(types), alone[names[0]] if names else error
        reason = str(cause).strip().partition("\n")[0] or type(cause).__name__
        quoted = " and ".join(f"`{name}`" for name in names)
        raise TypeError(
            f"{who}: expected {env.name} to calculate with {quoted}; got an environment that needs "
            f"a static value, for a shape, a branch or a space. Leave {quoted} fixed, or use it in "
            f"arithmetic only. What was raised: {reason}"
        ) from cause

    for name, leaf, before, after in _retyped(env, types, drawn):
        raise TypeError(
            f"{who}: expected {env.name} to return `{leaf}` as {before} with any `{name}`; got "
            f"{after}, since what is drawn is no Python number. Cast it: "
            "`jnp.asarray(self.config.x, x.dtype)`."
        )


def _retyped(env: AnyEnv, types: dict[str, Any], drawn: Any) -> Iterator[tuple[str, str, str, str]]:
    """What has another type with drawn values than with the config's own, and by which field."""
    plain = leaf_types(_trace(env, {}))
    if leaf_types(drawn) == plain:
        return
    for name, one in _parts(types):
        try:
            alone = leaf_types(_trace(env, one))
        except FieldError:  # of part of a dict which is legal only as a whole
            continue
        for leaf, before in plain.items():
            if alone.get(leaf) != before:
                yield name, leaf, before, alone.get(leaf, "no such leaf")


def _parts(types: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """One field at a time, and one entry of a field that is a dict."""
    for name, type_ in types.items():
        yield name, {name: type_}
        if isinstance(type_, dict):
            for key, part in cast(dict[str, Any], type_).items():
                yield f"{name}.{key}", {name: {key: part}}


def _fails(env: AnyEnv, types: dict[str, Any]) -> Exception | None:
    try:
        _trace(env, types)
    except FieldError:  # of part of a dict which is legal only as a whole
        return None
    except Exception as error:
        return error
    return None


def _trace(env: AnyEnv, types: dict[str, Any]) -> Any:
    """The types of what an episode's begin, one step and the next begin return."""

    def run(rng: jax.Array, fields: dict[str, Any]) -> Any:
        configured = env.with_config(**fields)
        for layer in layers(configured):
            _ = layer.observation_space, layer.action_space  # bounds must not be traced
        reset_rng, action_rng = jax.random.split(rng)
        _require_same_spaces(env, configured)
        obs, state = configured.reset(reset_rng)
        action = configured.action_space.sample(action_rng)
        mask = configured.action_mask(state)
        stepped = configured.step(state, action)
        after = configured.reset_after(stepped[1]) if configured.carries_over else None
        names = "obs", "new_state", "reward", "done", "info"
        began = {"obs": obs, "state": state, "mask": mask, "after": after}
        return {"reset": began, "step": dict(zip(names, stepped, strict=True))}

    returned = jax.eval_shape(run, key_types()[0], types)
    return {f"{method}.{name}": x for method, out in returned.items() for name, x in out.items()}


def _require_same_spaces(env: AnyEnv, configured: AnyEnv) -> None:
    for name in ("observation_space", "action_space"):
        before, after = getattr(env, name), getattr(configured, name)
        if type(before).__eq__ is not object.__eq__ and before != after:
            raise TypeError(f"its `{name}` is {before} with one value and {after} with another.")
