"""The lines that `python -m envrax` prints: suites, ids, and facts about one environment."""

import textwrap
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import Any

from envrax._checks.packages import how_to_install
from envrax.batched_env import BatchedEnv
from envrax.command.evidence import about, card
from envrax.env import JaxEnv
from envrax.interop.names import find, missing_libraries, without_sprites
from envrax.interop.protocol.reading import Reading
from envrax.interop.protocol.wrapping import recognise
from envrax.make import make
from envrax.registry import available_suites, get_spec, installed_suites, registered_names
from envrax.suite import load_suite
from envrax.testing.find import find_object, is_object, with_keywords

NO_SPRITES = "sprites missing: `python -m jaxtari.install_sprites`"


def list_suites(prefix: str | None) -> Iterator[str]:
    """One line for each suite, without importing any; or for each id of one suite."""
    if prefix is not None:
        yield from load_suite(prefix)
        return
    points = installed_suites()
    missing, bare = missing_libraries(), without_sprites()
    for name in available_suites():
        point = points.get(name)
        status = "registered"
        if point:
            module = point.value or "an entry point without a module"
            status = f"{module}, from {distribution_of(point)}"
        if name in missing:
            status = f"not installed: {how_to_install(name)}"
        elif name in bare:
            status += f", {NO_SPRITES}"
        yield f"{name:<12}  {status}"
    yield from (name for name in registered_names() if "/" not in name)


def find_ids(word: str) -> Iterator[str]:
    """One line for each id that contains a word or is similar, and how to install its suite."""
    missing, bare = missing_libraries(), without_sprites()
    ids = find(word)
    for name in ids:
        prefix = name.partition("/")[0]
        status = how_to_install(prefix) if prefix in missing else "installed"
        if prefix in bare:
            status += f", {NO_SPRITES}"
        yield f"{name:<40}  {status}"
    if not ids:
        yield "none: `python -m envrax list` shows the suites"


def show_env(name: str) -> Iterator[str]:
    """
    Class, spaces, config and origin of an environment, then the card of its id, line by line.

    The card alone, for an id whose library is not installed. For `module:object`, as `find_object`
    reads it, what `recognise` understands of an object.
    """
    if is_object(name):
        yield str(_recognised(name))
        return
    name, keywords = with_keywords(name)
    library, known = name.partition("/")[0], card(name)
    if known and library in missing_libraries():
        yield from rows([("id", name), ("install", how_to_install(library)), *known])
        yield from rows(about(library))
        return
    spec = get_spec(name)
    env = make(name, jit_compile=False, **keywords)
    base = env.unwrapped
    config = env.config
    facts: dict[str, Any] = {
        "id": spec.name,
        "class": f"{type(base).__module__}.{type(base).__qualname__}",
        "suite": spec.name.rpartition("/")[0] or "none",
        "category": spec.suite or "none",
        "wrappers": ", ".join(map(repr, spec.wrappers)) or "none",
        **({"agents": ", ".join(env.agents)} if env.agents else {}),
        "observations": env.observation_space,
        "actions": env.action_space,
        "max_steps": "none" if config.max_steps == 2**31 - 1 else config.max_steps,
        "config": config,
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


def rows(facts: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """One row for each fact; what does not fit into 80 columns goes on below."""
    for label, value in facts:
        yield textwrap.fill(
            f"{label:<12}  {value}",
            80,
            subsequent_indent=" " * 14,
            break_long_words=False,
            break_on_hyphens=False,
        )


def _library_faults(base: Any) -> dict[str, str]:
    """Faults of the wrapped library, as its adapter declares them."""
    faults = {"waived": getattr(base, "waivers", {}), "mended": getattr(base, "mended_bounds", {})}
    return {
        label: "; ".join(f"{what}: {reason}" for what, reason in found.items())
        for label, found in faults.items()
        if found
    }


def distribution_of(point: metadata.EntryPoint) -> str:
    """The package that has an entry point, with its version."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown package"
