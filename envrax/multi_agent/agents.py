"""Checks of agents: their names, and whether one always acts."""

from collections.abc import Sequence
from typing import Any

import jax
from jax.core import Tracer
from jax.extend.core import Literal

from envrax._checks.names import suggestion
from envrax._jax.keys import key_types


def always_acts(env: Any, agent: str) -> bool:
    """Whether `active` of an agent is True in every state: a constant of its program."""
    state = jax.eval_shape(env.reset, key_types()[0])[1]
    program = jax.make_jaxpr(lambda state: env.active(state)[agent])(state)
    known = dict(zip(program.jaxpr.constvars, program.consts, strict=True))
    (out,) = program.jaxpr.outvars
    constant = out.val if isinstance(out, Literal) else known.get(out)
    return constant is not None and not isinstance(constant, Tracer) and bool(constant)


def require_agents(expected: str, env: Any, agents: Sequence[str]) -> None:
    """Raise an error unless the names are different agents of a world, at least one."""
    if not env.agents:
        raise TypeError(
            f"{expected} of an environment of several agents; got {env!r}, which has one."
        )
    unknown = [agent for agent in agents if agent not in env.agents]
    if unknown or not agents or len({*agents}) < len(agents):
        advice = suggestion(map(str, unknown), env.agents)
        raise ValueError(
            f"{expected} among {', '.join(env.agents)}, each once; got {agents!r}."
            f"{f' {advice}' if 'mean' in advice else ''}"
        )
