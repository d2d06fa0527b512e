# pyright: basic
"""`ProtocolEnv`: an environment of any library, by what is read of its object."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax._jax.keys import clone_keys
from envrax._jax.types import is_traced
from envrax.env import Info
from envrax.interop.peer.containers import as_dicts
from envrax.interop.peer.turns import TurnEnv
from envrax.interop.peer.types import NO_LIMIT, PeerConfig, PeerReset, PeerStep, steps_limit
from envrax.interop.protocol.calls import roles_of
from envrax.interop.protocol.counting import step_of_certain_end
from envrax.interop.protocol.limits import declared, steps_with
from envrax.interop.protocol.reader import Choices, Reading, default_params
from envrax.interop.protocol.reading import read
from envrax.interop.protocol.refusal import Refusal
from envrax.spaces import Space


class ProtocolEnv(TurnEnv):
    """
    An environment of a library without an adapter; see `wrap`.

    Where the library's own limit makes an end, the episode is truncated: the end is computed once
    more with a limit that is far longer, and what then goes on was cut by the limit.

    Functions of the library that take a key get the key of the step, or parts of it where several
    do. Of players who take turns, the action of the one whose turn it is counts.

    Attributes
    ----------
    reading : Reading
        What is understood of the library's object.
    """

    library = "wrap"

    def __init__(self, config: PeerConfig | None = None, *, peer: Any = None) -> None:
        config = config or PeerConfig()
        self._choices = Choices(**config.options)
        self.legacy_keys = self._choices.legacy_keys
        self.reading: Reading = read(peer, config.params, self._choices)
        self._flag_counts = False
        with jax.numpy_dtype_promotion("standard"):
            self._require_reason(config.max_steps)
        super().__init__(config, peer=peer)

    def _require_reason(self, max_steps: Any) -> None:
        """Refuse ends that may be terminations or a limit's, until a keyword says what they are."""
        r = self.reading
        if r.limit.place or r.reason == "two flags" or self._choices.done:
            return
        n = step_of_certain_end(r.programs(r.env, r.params))
        self._flag_counts = r.reason != "terminated" or n == max_steps
        if max_steps or self._choices.limit == "none":
            return
        who = f"envrax.wrap({r.facts['object']})"
        unread = declared(r.env, r.params)
        if r.reason != "terminated":
            n, seen = (500, "") if n == NO_LIMIT else (n, ", as its program does")
            raise Refusal(
                f"{who}: an end of an episode that nothing explains: {r.facts['ends']}. "
                f"max_steps={n} says that the flag counts {n} steps{seen}: an end there is a "
                "truncation. limit='...' names the field of the limit, limit='none' says that "
                f"nothing counts, done='terminated' that every end is a termination.\n\n{r}"
            )
        if n != NO_LIMIT:
            raise Refusal(
                f"{who}: every end is a termination, and one comes at step {n} whatever happens. "
                f"max_steps={n} says that it is a time limit, done='terminated' that it is a "
                f"termination.\n\n{r}"
            )
        if unread:
            one = unread[0]
            raise Refusal(
                f"{who}: every end is a termination, and `{one.place}` = {one.value}, which no end "
                "is seen to read, may be a time limit. limit='none' says that it is none; "
                f"fields={{'done': 'terminated'}} and max_steps={one.value} that the flag counts "
                f"it.\n\n{r}"
            )

    def build(self) -> Any:
        raise ValueError("there is nothing to build: give the object to `envrax.wrap`")

    def default_params(self) -> Any:
        return default_params(self.peer, self.config.params)

    def limit(self) -> Any:
        return self._limit_with(self.params)

    def _limit_with(self, params: Any) -> Any:
        """The library's own limit with these parameters."""
        r = self.reading
        if _are_same(params, r.params):
            return steps_limit(r.limit.steps)
        with jax.numpy_dtype_promotion("standard"):
            return steps_limit(steps_with(r.programs, self.peer, params, r.limit))

    def with_limit(self, params: Any, max_steps: int) -> Any:
        limit = self.reading.limit
        if limit.in_params and limit.is_in_steps:
            params = limit.in_params_with(params, max_steps)
        own = self._limit_with(params)
        if not is_traced((own, max_steps)) and max_steps > own:
            raise Refusal(
                f"{self._who}: expected `max_steps` of at most the object's own limit, "
                f"{replace(limit, steps=own)}; got {max_steps}. Give the object a longer one."
            )
        return params

    @property
    def agents(self) -> tuple[str, ...]:
        return self.reading.agents

    def spaces(self) -> tuple[Space, Space]:
        return self.reading.spaces[0], self.reading.spaces[1]

    def begin(self, params: Any, rng: jax.Array) -> PeerReset:
        r = self.reading
        parts = r.begin(self.peer, params, rng)
        return PeerReset(r.by_agent(parts["obs"]), parts["state"], self._mask(parts))

    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> PeerStep:
        r = self.reading
        if r.agents and not r.in_turn:
            action = {p: action[a] for a, p in zip(r.agents, r.peer_agents, strict=True)}
        parts = r.advance(self.peer, params, inner, action, rng)
        terminated, truncated = self._flags(parts)
        if r.limit.place and r.reason != "two flags":
            env, longer = r.limit.longer(self.peer, params)
            again = clone_keys((inner, action, rng))
            goes_on = self._flags(r.advance(env, longer, *again))
            ended = terminated | truncated
            terminated = ended & goes_on[0]
            truncated = ended & ~terminated
        info = as_dicts(parts.get("info"))
        info = info if isinstance(info, dict) else {}
        if "agents_done" in parts:
            info["dones"] = r.by_agent(parts["agents_done"])
        return PeerStep(
            r.by_agent(parts["obs"]),
            parts["state"],
            r.by_agent(parts["reward"]),
            terminated,
            truncated,
            info,
            self._mask(parts),
        )

    def ends(self, out: PeerStep, at_limit: jax.Array) -> tuple[jax.Array, jax.Array]:
        # The library counts its own limit; one that the user gave may be the one its flag counts.
        if not self._requested_config.max_steps:
            return out.terminated, out.truncated
        if self._flag_counts:
            return PeerStep.ends(out._replace(truncated=None), at_limit)
        return out.ends(at_limit)

    def current_player(self, inner: Any) -> jax.Array | None:
        return inner.current_player if self.reading.in_turn else None

    @property
    def can_render(self) -> bool:
        return hasattr(self.peer, "render") and roles_of(self.peer, "render") == ["state"]

    def draw(self, inner: Any) -> Any:
        return self.peer.render(inner)

    def _mask(self, parts: Info) -> Any:
        if parts.get("mask") is None:
            return None
        return jax.tree.map(lambda x: x.astype(jnp.bool_), self.reading.by_agent(parts["mask"]))

    def _flags(self, parts: dict[str, Any]) -> tuple[jax.Array, jax.Array]:
        """Whether a step terminated and truncated an episode, by the library's results."""
        r = self.reading

        def flag(role: str) -> jax.Array:
            return jnp.reshape(jnp.asarray(parts.get(role, False)), ()).astype(jnp.bool_)

        if len(r.step_types) == 2:
            return parts["step_type"] == r.step_types[0], parts["step_type"] == r.step_types[1]
        if r.step_types:
            last = parts["step_type"] == r.step_types[0]
            terminated = last & (parts.get("discount", 0) == 0)
            return terminated, last & ~terminated
        if "terminated" in parts:
            terminated = flag("terminated")
            return terminated, flag("truncated") | flag("done") & ~terminated
        return flag("done") & ~flag("truncated"), flag("truncated")


def _are_same(a: Any, b: Any) -> bool:
    """Whether two trees of parameters are seen to hold the same values."""
    if jax.tree.structure(a) != jax.tree.structure(b):
        return False
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(x is y or (_is_plain(x) and _is_plain(y) and np.array_equal(x, y)) for x, y in pairs)


def _is_plain(x: Any) -> bool:
    """Whether a leaf is a number, or an array of them, that can be compared now."""
    return isinstance(
        x, bool | int | float | np.ndarray | np.generic | jax.Array
    ) and not is_traced(x)
