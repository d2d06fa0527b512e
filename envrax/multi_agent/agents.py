"""Checks of agents: their names, and whether one always acts."""

from collections.abc import Sequence
from typing import Any

import jax
from jax.core import Tracer
from jax.extend.core import Literal

from envrax._checks.names import suggestion
from envrax._jax.keys import key_types


def always_acts(env: Any, agent: str) -> bool:
    """Whether `active` of an agent is True in every state, as its program tells."""
    state = jax.eval_shape(env.reset, key_types()[0])[1]
    program = jax.make_jaxpr(lambda state: env.active(state)[agent])(state)
    known = dict(zip(program.jaxpr.constvars, program.consts, strict=True))
    (out,) = program.jaxpr.outvars
    told = out.val if isinstance(out, Literal) else known.get(out)
    return told is not None and not isinstance(told, Tracer) and bool(told)


def require_agents(expected: str, env: Any, agents: Sequence[str]) -> None:
    """Raise an error unless the names are different agents of a world, at least one."""
    if not env.agents:
        raise TypeError(f"{expected} of a world of several agents; got {env!r}, which is none.")
    unknown = [agent for agent in agents if agent not in env.agents]
    if unknown or not agents or len({*agents}) < len(agents):
        advice = suggestion(map(str, unknown), env.agents)
        raise ValueError(
            f"{expected} among {', '.join(env.agents)}, each once; got {agents!r}."
            f"{f' {advice}' if 'mean' in advice else ''}"
        )
