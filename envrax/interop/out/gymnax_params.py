"""`GymnaxParams`: the parameters of an environment of `to_gymnax`."""

import dataclasses
from typing import Any

import jax
import numpy as np

from envrax._checks.names import suggestion
from envrax._jax.types import strip_weak_type
from envrax.env import AnyEnv, with_config
from envrax.interop.base import PeerEnv
from envrax.interop.params import numeric_params
from envrax.wrappers import TimeLimit
from envrax.wrappers.base import layers
from envrax.wrappers.randomization import require_dynamic
from envrax.wrappers.time import limit_of

_LIMIT = "max_steps_in_episode"  # gymnax's name of `max_steps`

StaticChanges = tuple[tuple[str, Any], ...]  # hashable: pairs of a name and a value


@jax.tree_util.register_pytree_node_class
class GymnaxParams:
    """
    The numeric fields of a config as attributes; `max_steps` is `max_steps_in_episode`.

    For an environment of another library, also the library's own numbers that may be traced.

    A pytree of the fields that may be traced. The environment uses the others as static values.
    """

    def __init__(self, traced: dict[str, Any], static: dict[str, Any]) -> None:
        self._traced = traced
        self._static = static

    def __getattr__(self, name: str) -> Any:
        for fields in (vars(self).get("_traced", {}), vars(self).get("_static", {})):
            if name in fields:
                return fields[name]
        raise AttributeError(f"{type(self).__name__} has no field {name!r}")

    def replace(self, **changes: Any) -> "GymnaxParams":
        """
        A copy with some fields changed.

        Raises
        ------
        TypeError
            If there is no such field.
        """
        known = {**self._traced, **self._static}
        if unknown := [name for name in changes if name not in known]:
            raise TypeError(
                f"{type(self).__name__}.replace: expected fields {', '.join(known)}; got "
                f"{', '.join(unknown)}. {suggestion(unknown, known)}"
            )
        traced = {name: changes.get(name, x) for name, x in self._traced.items()}
        static = {name: changes.get(name, x) for name, x in self._static.items()}
        return GymnaxParams(traced, static)

    def changes(self, default: "GymnaxParams") -> tuple[StaticChanges, dict[str, Any]]:
        """The static fields that differ from `default`, and the others, by the config's names."""
        static = _differences(self._static, default._static)
        return tuple(static.items()), _differences(self._traced, default._traced)

    def tree_flatten(self) -> tuple[Any, Any]:
        return [*self._traced.values()], (tuple(self._traced), tuple(self._static.items()))

    @classmethod
    def tree_unflatten(cls, names: Any, values: Any) -> "GymnaxParams":
        return cls(dict(zip(names[0], values, strict=True)), dict(names[1]))

    def __repr__(self) -> str:
        fields = {**self._traced, **self._static}
        return f"{type(self).__name__}({', '.join(f'{k}={x!r}' for k, x in fields.items())})"


def params_of(env: AnyEnv) -> GymnaxParams:
    """The parameters of an environment, from its config and from its library's parameters."""
    traced: dict[str, Any] = {}
    static: dict[str, Any] = {}
    if isinstance(env.unwrapped, PeerEnv):
        traced |= _traceable_library_params(env, env.unwrapped)
    for field in dataclasses.fields(env.config):
        value = getattr(env.config, field.name)
        if isinstance(value, bool | int | float | np.generic | np.ndarray | jax.Array):
            name = _LIMIT if field.name == "max_steps" else field.name
            if _may_be_traced(env, {field.name: value}):
                traced[name] = value
            elif isinstance(value, bool | int | float):  # `jit` compares static values
                static[name] = value
    if any(isinstance(layer, TimeLimit) for layer in layers(env)):  # its limit is static
        traced.pop(_LIMIT, None)
        static[_LIMIT] = limit_of(env)
    return GymnaxParams(traced, static)


def apply_changes(env: AnyEnv, static: StaticChanges, traced: dict[str, Any]) -> AnyEnv:
    """The environment with these fields changed."""
    fields = {**dict(static), **traced}
    known = [field.name for field in dataclasses.fields(env.config)]
    library_params = {name: fields.pop(name) for name in {*fields}.difference(known)}
    fields |= {"params": library_params} if library_params else {}
    return with_config(env, **fields) if fields else env


def _traceable_library_params(env: AnyEnv, peer_env: PeerEnv) -> dict[str, Any]:
    params = numeric_params(peer_env.params)
    params.pop(_LIMIT, None)
    if _may_be_traced(env, {"params": params}):
        return params
    return {k: x for k, x in params.items() if _may_be_traced(env, {"params": {k: x}})}


def _may_be_traced(env: AnyEnv, fields: dict[str, Any]) -> bool:
    try:
        types = jax.eval_shape(lambda: strip_weak_type(fields))
        require_dynamic("to_gymnax", env, types)
    except Exception:  # whatever an environment raises for a tracer
        return False
    return True


def _differences(fields: dict[str, Any], default: dict[str, Any]) -> dict[str, Any]:
    """The fields that differ from `default`, by the config's names."""
    changed = {name: x for name, x in fields.items() if not _is_same(x, default[name])}
    return {"max_steps" if name == _LIMIT else name: x for name, x in changed.items()}


def _is_same(x: Any, default: Any) -> bool:
    is_number = type(x) is type(default) and isinstance(x, bool | int | float)
    return x is default or (is_number and repr(x) == repr(default))
