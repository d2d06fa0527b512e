"""`check_env` and `check_batched_env`, which raise; `report_env` and `report_batched_env`."""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from envrax._checks.counts import require_count
from envrax.batched_env import AnyBatch, BatchedEnv
from envrax.env import JaxEnv
from envrax.testing.batched_probe import BatchedProbe
from envrax.testing.probe import AnyEnv, Probe
from envrax.testing.report import Report
from envrax.testing.rules import BATCHED_RULES, ENV_RULES, WORLD_RULES
from envrax.testing.rules.base import run_rules
from envrax.testing.waivers import Waivers, declared_waivers, read_waivers
from envrax.wrappers.base import layers
from envrax.wrappers.jit import JitWrapper

_ENV_NAMES = [rule.name for rule in (*ENV_RULES, *WORLD_RULES)]
_BATCHED_NAMES = [rule.name for rule in BATCHED_RULES]
_ALL_NAMES = [*_ENV_NAMES, *_BATCHED_NAMES]


def report_env(
    env: AnyEnv,
    *,
    num_steps: int = 100,
    seed: int = 0,
    gradients: bool = False,
    waive: Mapping[str, str] | None = None,
) -> Report:
    """
    Check an environment, or a stack of wrappers, against the contract of `JaxEnv`.

    An environment names the rules that it cannot keep in its attribute `waivers`, a dict from rule
    to reason; `waive` adds more. A broken rule with a waiver is reported as waived. A waived rule
    that holds is a finding, so that the waiver is removed. In a stack of wrappers, which may fix
    what the environment breaks, that applies only to `waive`.

    Parameters
    ----------
    env : JaxEnv
        The environment. The check leaves it unchanged.
    num_steps : int, default 100
        Number of compiled steps to check, with random actions. If the environment has an
        `action_mask`, all actions are legal.
    seed : int, default 0
        Seed of the PRNG keys.
    gradients : bool, default False
        Also check that the reward has finite gradients.
    waive : mapping of str to str, optional
        Rules that may be broken, and why. They take precedence over `env.waivers`.

    Returns
    -------
    Report
        All findings, the waived rules, and those that could not be checked.

    Raises
    ------
    TypeError
        If `env` is not a `JaxEnv`, or a number is not an int.
    ValueError
        If `num_steps` is below 1, a waiver names an unknown rule, or its reason is not a non-empty
        text.
    """
    if not isinstance(cast(Any, env), JaxEnv):
        is_batch = isinstance(cast(Any, env), BatchedEnv)
        how = (
            "Check a batch with `check_batched_env`."
            if is_batch
            else "Pass an environment, such as `make(id)`."
        )
        raise TypeError(f"check_env: expected a JaxEnv; got {env!r}. {how}")
    _require_ints("check_env", num_steps, seed)
    waivers: Waivers = {
        # A user cannot change the waivers of an adapter for an object that it was given.
        **declared_waivers(
            env.unwrapped,
            _ALL_NAMES,
            is_needed=_is_bare(env) and not getattr(env.unwrapped, "peer_is_given", False),
        ),
        **read_waivers("check_env: expected `waive`", waive, _ENV_NAMES, is_needed=True),
    }
    rules = (*ENV_RULES, *WORLD_RULES) if env.agents else ENV_RULES
    return run_rules(rules, Probe(env, num_steps, seed, gradients), repr(env), waivers)


def check_env(
    env: AnyEnv,
    *,
    num_steps: int = 100,
    seed: int = 0,
    gradients: bool = False,
    waive: Mapping[str, str] | None = None,
) -> None:
    """
    As `report_env`, with the same parameters, for tests: raise an error if there are findings.

    Raises
    ------
    ConformanceError
        With all findings.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> check_env(CountingEnv())
    """
    report = report_env(env, num_steps=num_steps, seed=seed, gradients=gradients, waive=waive)
    report.raise_if_any()


def report_batched_env(
    batched_env: AnyBatch,
    *,
    num_steps: int = 50,
    seed: int = 0,
    waive: Mapping[str, str] | None = None,
) -> Report:
    """
    Check a batched environment against the contract of `BatchedEnv`.

    The slots of a `VecEnv` are also compared with its environment, stepped by itself. Check that
    environment with `check_env`. Its attribute `waivers` applies here too.

    Parameters
    ----------
    batched_env : BatchedEnv
        The batched environment. The check leaves it unchanged.
    num_steps : int, default 50
        Number of steps to check, with random actions. If there is an `action_mask`, all actions are
        legal.
    seed : int, default 0
        Seed of the PRNG keys.
    waive : mapping of str to str, optional
        Rules that may be broken, and why.

    Returns
    -------
    Report
        As from `report_env`.

    Raises
    ------
    TypeError
        If `batched_env` is not a `BatchedEnv`, or a number is not an int.
    ValueError
        If `num_steps` is below 1, a waiver names an unknown rule, or its reason is not a non-empty
        text.
    """
    if not isinstance(cast(Any, batched_env), BatchedEnv):
        raise TypeError(
            f"check_batched_env: expected a BatchedEnv; got {batched_env!r}. Pass an instance, "
            "such as `VecEnv(env, num_envs=8)`."
        )
    _require_ints("check_batched_env", num_steps, seed)
    probe = BatchedProbe(batched_env, num_steps, seed)
    has_repr = type(batched_env).__repr__ is not object.__repr__
    subject = repr(batched_env) if has_repr else batched_env.name
    who = "check_batched_env: expected `waive`"
    waivers: Waivers = {
        **declared_waivers(getattr(batched_env, "unwrapped", None), _ALL_NAMES, is_needed=False),
        **declared_waivers(batched_env, _BATCHED_NAMES, is_needed=True),
        **read_waivers(who, waive, _BATCHED_NAMES, is_needed=True),
    }
    return run_rules(BATCHED_RULES, probe, subject, waivers)


def check_batched_env(
    batched_env: AnyBatch,
    *,
    num_steps: int = 50,
    seed: int = 0,
    waive: Mapping[str, str] | None = None,
) -> None:
    """
    As `report_batched_env`, with the same parameters, for tests: raise an error for findings.

    Raises
    ------
    ConformanceError
        With all findings.
    """
    report = report_batched_env(batched_env, num_steps=num_steps, seed=seed, waive=waive)
    report.raise_if_any()


def _is_bare(env: AnyEnv) -> bool:
    """Whether no wrapper changes what the environment does."""
    return all(layer is env.unwrapped or isinstance(layer, JitWrapper) for layer in layers(env))


def _require_ints(function: str, num_steps: int, seed: int) -> None:
    require_count(f"{function}: expected num_steps", num_steps)
    if not isinstance(cast(Any, seed), int | np.integer):
        raise TypeError(f"{function}: expected seed to be an int; got {seed!r}.")
