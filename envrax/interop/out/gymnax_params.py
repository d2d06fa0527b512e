"""`GymnaxParams`: the parameters of an environment of `to_gymnax`."""

import dataclasses
from typing import Any

import jax
import numpy as np

from envrax._checks.counts import require_limit
from envrax._checks.names import require_known
from envrax._jax.returned import strip_weak_type
from envrax.env import AnyEnv, with_config
from envrax.interop.peer.base import PeerEnv
from envrax.interop.peer.params import numeric_params
from envrax.wrappers import TimeLimit
from envrax.wrappers.base import layers
from envrax.wrappers.time import limit_of
from envrax.wrappers.traced_fields import require_dynamic

_LIMIT = "max_steps_in_episode"

StaticChanges = tuple[tuple[str, Any], ...]  # hashable: pairs of a name and a value


@jax.tree_util.register_pytree_node_class
class GymnaxParams:
    """
    The numeric fields of a config as attributes; `max_steps` is `max_steps_in_episode`.

    For an environment of another library, also the library's own numbers that may be traced.

    A pytree of the fields that may be traced. The environment uses the others as static values.

    Parameters
    ----------
    name : str
        The name of the environment.
    traced, static : dict
        The fields that may be traced, and the others.
    fixed : tuple of str
        The static fields that cannot be changed: the limit of a `TimeLimit(env, max_steps)`.
    """

    def __init__(
        self, name: str, traced: dict[str, Any], static: dict[str, Any], fixed: tuple[str, ...]
    ) -> None:
        self._name = name
        self._traced = traced
        self._static = static
        self._fixed = fixed

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
            If there is no such field, or its value is that of a wrapper.
        ValueError
            If the time limit is below 1.
        """
        known = {**self._traced, **self._static}
        who = f"{type(self).__name__}.replace"
        require_known(f"{who}: expected fields", changes, known)
        limit = "max_steps" if "max_steps" in known else _LIMIT
        if limit in changes:
            changes[limit] = require_limit(f"{who}: expected {limit}", changes[limit])
        for name in self._fixed:
            if name in changes and not _is_same(changes[name], known[name]):
                raise TypeError(
                    f"{who}: expected no other `{name}`, since `TimeLimit(env, {known[name]})` "
                    f"fixes it; got {changes[name]!r}. Leave out the number there: then the limit "
                    "is that of the config, which params change."
                )
        traced = {name: changes.get(name, x) for name, x in self._traced.items()}
        static = {name: changes.get(name, x) for name, x in self._static.items()}
        return GymnaxParams(self._name, traced, static, self._fixed)

    def changes(self, default: "GymnaxParams") -> tuple[StaticChanges, dict[str, Any]]:
        """
        The static fields that differ from `default`, and the others.

        Raises
        ------
        TypeError
            If these are not params of the environment of `default`.
        """
        if self._form() != default._form():
            raise TypeError(
                f"to_gymnax: expected params of this {default._name}, which has {default!r}; got "
                f"those of another environment or other wrappers, {self._name}: {self!r}. Pass "
                "`env.default_params`, or a `replace` of them."
            )
        static = _differences(self._static, default._static)
        return tuple(static.items()), _differences(self._traced, default._traced)

    def _form(self) -> Any:
        return self._name, tuple(self._traced), tuple(self._static), self._fixed

    def tree_flatten(self) -> tuple[Any, Any]:
        static = tuple(self._static.items())
        return [*self._traced.values()], (self._name, tuple(self._traced), static, self._fixed)

    @classmethod
    def tree_unflatten(cls, form: Any, values: Any) -> "GymnaxParams":
        name, traced, static, fixed = form
        return cls(name, dict(zip(traced, values, strict=True)), dict(static), fixed)

    def __repr__(self) -> str:
        fields = {**self._traced, **self._static}
        return f"{type(self).__name__}({', '.join(f'{k}={x!r}' for k, x in fields.items())})"


def params_of(env: AnyEnv) -> GymnaxParams:
    """The parameters of an environment, from its config and from its library's parameters."""
    traced: dict[str, Any] = {}
    static: dict[str, Any] = {}
    fixed: tuple[str, ...] = ()
    limit_name = _limit_name(env)
    if isinstance(env.unwrapped, PeerEnv):
        traced |= _traceable_library_params(env, env.unwrapped)
    for field in dataclasses.fields(env.config):
        value = getattr(env.config, field.name)
        if isinstance(value, bool | int | float | np.generic | np.ndarray | jax.Array):
            name = limit_name if field.name == "max_steps" else field.name
            if _may_be_traced(env, {field.name: value}):
                traced[name] = value
            elif isinstance(value, bool | int | float):  # `jit` compares static values
                static[name] = value
    if any(isinstance(layer, TimeLimit) for layer in layers(env)):  # its limit is static
        traced.pop(limit_name, None)
        static[limit_name] = limit_of(env)
        fixed = () if _limit_follows_config(env) else (limit_name,)
    return GymnaxParams(env.name, traced, static, fixed)


def apply_changes(env: AnyEnv, static: StaticChanges, traced: dict[str, Any]) -> AnyEnv:
    """The environment with these fields changed."""
    fields = {**dict(static), **traced}
    if (limit_name := _limit_name(env)) in fields:
        fields["max_steps"] = fields.pop(limit_name)
    known = _field_names(env)
    library_params = {name: fields.pop(name) for name in {*fields}.difference(known)}
    fields |= {"params": library_params} if library_params else {}
    return with_config(env, **fields) if fields else env


def _field_names(env: AnyEnv) -> list[str]:
    return [field.name for field in dataclasses.fields(env.config)]


def _limit_name(env: AnyEnv) -> str:
    """gymnax's name of `max_steps`, unless the config has a field of that name itself."""
    return "max_steps" if _LIMIT in _field_names(env) else _LIMIT


def _limit_follows_config(env: AnyEnv) -> bool:
    other = limit_of(env) % 2 + 1
    try:
        return limit_of(with_config(env, max_steps=other)) == other
    except TypeError:  # it cannot be built again
        return False


def _traceable_library_params(env: AnyEnv, peer_env: PeerEnv) -> dict[str, Any]:
    params = numeric_params(peer_env.params)
    for name in (_LIMIT, *_field_names(env)):  # the field of the config has the name
        params.pop(name, None)
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
    return {name: x for name, x in fields.items() if not _is_same(x, default[name])}


def _is_same(x: Any, default: Any) -> bool:
    is_number = type(x) is type(default) and isinstance(x, bool | int | float)
    return x is default or (is_number and repr(x) == repr(default))
