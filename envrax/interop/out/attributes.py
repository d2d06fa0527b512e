"""Attributes of the layers of a batch, for trainers that ask for them by name."""

from collections.abc import Iterator
from typing import Any

from envrax.batched_env import AnyBatch, BatchedEnv
from envrax.env import JaxEnv


def layers(env: Any) -> Iterator[Any]:
    """The wrappers around and in a batch, the outermost first, and the environment."""
    while isinstance(env, BatchedEnv | JaxEnv):
        yield env
        env = getattr(env, "env", None)


def find(who: str, batch: AnyBatch, name: str) -> Any:
    """
    The attribute of the first layer that has it, the outermost first.

    A name that every batch has, such as `action_space`, is that of one environment.

    Raises
    ------
    AttributeError
        If no layer has it.
    """
    stack = list(layers(batch))
    singles: list[Any] = [layer for layer in stack if isinstance(layer, JaxEnv)]
    if hasattr(BatchedEnv, name):
        stack = singles + stack
    for layer in stack:
        if hasattr(layer, name):
            return getattr(layer, name)
    classes = ", ".join(type(layer).__name__ for layer in stack)
    raise AttributeError(
        f"{who}: expected an attribute of the environment or of a wrapper; got {name!r}, which "
        f"none of {classes} has."
    )


def refuse_set(who: str, name: str) -> None:
    """Raise the error of `set_attr`: an attribute is a constant of the compiled programs."""
    raise NotImplementedError(
        f"{who}: set_attr: expected no change of `{name}`; the slots share one environment, and "
        "compiled programs do not see a change of it. Make another one with that config."
    )
