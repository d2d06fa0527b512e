"""`check_env`, `check_batched_env`, and the forms that report."""

from typing import Any, cast

import numpy as np

from envrax._count import require_count
from envrax.batched_env import BatchedEnv
from envrax.env import JaxEnv
from envrax.testing.batched_probe import BatchedProbe
from envrax.testing.batched_rules import BATCHED_RULES
from envrax.testing.env_rules import ENV_RULES
from envrax.testing.probe import AnyEnv, Probe
from envrax.testing.report import Report
from envrax.testing.rules import run_rules


def report_env(
    env: AnyEnv, *, num_steps: int = 100, seed: int = 0, gradients: bool = False
) -> Report:
    """
    Check an environment, or a stack of wrappers, against the contract of `JaxEnv`.

    Parameters
    ----------
    env : JaxEnv
        The environment. It is not edited.
    num_steps : int, default 100
        How many compiled steps are looked at, with random actions.
    seed : int, default 0
        Seed of the keys.
    gradients : bool, default False
        Also differentiate the reward.

    Returns
    -------
    Report
        All findings, and what could not be checked.

    Raises
    ------
    TypeError
        If `env` is no `JaxEnv`.
    ValueError
        If `num_steps` is below 1.
    """
    if not isinstance(cast(Any, env), JaxEnv):
        raise TypeError(f"check_env: expected a JaxEnv; got {env!r}. Pass an instance.")
    _require_numbers("check_env", num_steps, seed)
    return run_rules(ENV_RULES, Probe(env, num_steps, seed, gradients), repr(env))


def check_env(env: AnyEnv, *, num_steps: int = 100, seed: int = 0, gradients: bool = False) -> None:
    """
    `report_env` for tests: raise if anything is found.

    Parameters
    ----------
    env, num_steps, seed, gradients
        As for `report_env`.

    Raises
    ------
    ConformanceError
        With all findings.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> check_env(CountingEnv())
    """
    report_env(env, num_steps=num_steps, seed=seed, gradients=gradients).raise_if_any()


def report_batched_env(
    batched_env: BatchedEnv[Any, Any], *, num_steps: int = 50, seed: int = 0
) -> Report:
    """
    Check a batched environment against the contract of `BatchedEnv`.

    A `VecEnv` is also compared with its environment stepped alone. That environment itself is not
    checked: `check_env` does that.

    Parameters
    ----------
    batched_env : BatchedEnv
        The batched environment. It is not edited.
    num_steps : int, default 50
        How many steps of all slots are looked at, with random actions.
    seed : int, default 0
        Seed of the keys.

    Returns
    -------
    Report
        All findings, and what could not be checked.

    Raises
    ------
    TypeError
        If `batched_env` is no `BatchedEnv`.
    ValueError
        If `num_steps` is below 1.
    """
    if not isinstance(cast(Any, batched_env), BatchedEnv):
        raise TypeError(
            f"check_batched_env: expected a BatchedEnv; got {batched_env!r}. Pass an instance, "
            "such as `VecEnv(env, num_envs=8)`."
        )
    _require_numbers("check_batched_env", num_steps, seed)
    probe = BatchedProbe(batched_env, num_steps, seed)
    has_repr = type(batched_env).__repr__ is not object.__repr__
    return run_rules(BATCHED_RULES, probe, repr(batched_env) if has_repr else batched_env.name)


def check_batched_env(
    batched_env: BatchedEnv[Any, Any], *, num_steps: int = 50, seed: int = 0
) -> None:
    """
    `report_batched_env` for tests: raise if anything is found.

    Parameters
    ----------
    batched_env, num_steps, seed
        As for `report_batched_env`.

    Raises
    ------
    ConformanceError
        With all findings.
    """
    report_batched_env(batched_env, num_steps=num_steps, seed=seed).raise_if_any()


def _require_numbers(who: str, num_steps: int, seed: int) -> None:
    require_count(f"{who}: expected num_steps", num_steps)
    if not isinstance(cast(Any, seed), int | np.integer):
        raise TypeError(f"{who}: expected seed to be an int; got {seed!r}.")
