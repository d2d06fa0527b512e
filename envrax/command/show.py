"""What an id is, its spaces, its config and its card; or what is read of an object."""

from collections.abc import Callable, Iterator
from typing import Any

from envrax._checks.counts import NO_LIMIT
from envrax._checks.packages import how_to_install
from envrax.batched_env import BatchedEnv
from envrax.env import JaxEnv
from envrax.interop.protocol.reading import Reading
from envrax.interop.protocol.wrapping import recognise
from envrax.libraries import missing_libraries
from envrax.libraries.cards import about, card, described, docstring, joined, rows, what_it_is
from envrax.make import make
from envrax.registry import get_spec
from envrax.testing.find import NAMES, find_object, is_object, with_keywords


def arguments(add: Callable[..., Any]) -> None:
    add("id", help=NAMES)


def run(given: Any) -> int:
    print(*_shown(given.id), sep="\n")
    return 0


def _shown(name: str) -> Iterator[str]:
    """
    What an environment is, its class, config and origin, then the card of its id, line by line.

    What it is stands in `descriptions`, else in the docstring of its class. The card alone, for an
    id whose library is not installed. For `module:object`, as `find_object`
    reads it, what `recognise` understands of an object.
    """
    if is_object(name):
        yield str(_recognised(name))
        return
    name, keywords = with_keywords(name)
    library, known = name.partition("/")[0], card(name)
    if known and library in missing_libraries():
        yield from rows([("id", name), *known, ("install", how_to_install(library))])
        yield from rows(about(library))
        return
    spec = get_spec(name)
    env = make(name, jit_compile=False, **keywords)
    base = env.unwrapped
    config = env.config
    yield from rows([("id", spec.name)])
    meaning = ""
    if not described(name):
        yield from ("", docstring(type(base)) or "no docstring", "")
        meaning = docstring(type(config))
    facts: dict[str, Any] = {
        **dict(what_it_is(name, env.observation_space, env.action_space)),
        "class": f"{type(base).__module__}.{type(base).__qualname__}",
        "suite": spec.name.rpartition("/")[0] or "none",
        "category": spec.suite or "none",
        "wrappers": ", ".join(map(repr, spec.wrappers)) or "none",
        **({"agents": ", ".join(env.agents)} if env.agents else {}),
        "max_steps": "none" if config.max_steps == NO_LIMIT else config.max_steps,
        "config": joined(config, meaning),
    }
    facts |= {} if known else _library_faults(base)
    yield from rows(facts.items())
    here = {*facts, "time limit", "agents"}
    yield from rows(pair for pair in known if pair[0] not in here)
    yield from rows(about(library) if known else [])


def _recognised(name: str) -> Reading:
    env = find_object(name)
    if not isinstance(env, JaxEnv | BatchedEnv):
        return recognise(env)
    is_one = isinstance(env, JaxEnv)
    facts = {
        "object": f"{env!r}, of envrax: it needs no `wrap`",
        "observations": f"{env.observation_space if is_one else env.single_observation_space}",
        "actions": f"{env.action_space if is_one else env.single_action_space}",
        "agents": ", ".join(env.agents) or "one",
    }
    return Reading(env, facts)


def _library_faults(base: Any) -> dict[str, str]:
    """Faults of the wrapped library, as its adapter declares them."""
    faults = {"waived": getattr(base, "waivers", {}), "mended": getattr(base, "mended_bounds", {})}
    return {
        label: "; ".join(f"{what}: {reason}" for what, reason in found.items())
        for label, found in faults.items()
        if found
    }
