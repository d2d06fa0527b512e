"""`PeerEnv`: the base class of adapters, a `JaxEnv` around an environment of another library."""

from abc import abstractmethod
from contextlib import AbstractContextManager
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.counts import require_count
from envrax._checks.names import require_known
from envrax._jax import forks
from envrax._jax.keys import clone_keys, is_key, refuses_seed, require_key
from envrax._jax.types import is_traced, output_types
from envrax.agent_values import for_each
from envrax.env import Info, JaxEnv, adds, hands_on
from envrax.interop.peer.common_types import CommonTypes, cast_to, find_common_types, types_of
from envrax.interop.peer.containers import copy_containers
from envrax.interop.peer.errors import quote_errors
from envrax.interop.peer.params import Params, concrete_or_default, fit_changes, with_changes
from envrax.interop.peer.types import (
    NO_LIMIT,
    PeerConfig,
    PeerReset,
    PeerState,
    PeerStep,
    steps_limit,
)
from envrax.spaces import Space
from envrax.spaces.conform import conform


class PeerEnv(JaxEnv[Space, Space, PeerState, PeerConfig]):
    """
    An environment of another library, without that library's own auto-reset.

    A subclass defines `build`, `begin`, `advance` and `spaces`; where needed also `default_params`,
    `limit`, `with_limit`, `observation`, `waivers`, `mended_bounds` and `draw`. Results are cast
    to the same types at reset and after a step, and no argument is edited. A step that draws
    nothing leaves `state.rng` unchanged. The time limit truncates.

    It is no `EpisodicEnv`: a library returns observation, mask and info with the step and not from
    a state, and may truncate by itself. Of that class it has the count of steps and `at_limit`.

    Parameters
    ----------
    config : PeerConfig
        Which environment, and how to build it.
    peer : Any, optional
        The library's object, if it is built already.

    Attributes
    ----------
    library : str
        The library's name, which is the prefix of its ids.
    peer, params
        The library's object, and its parameters; None where it has none.
    concrete_params : pytree
        The parameters, with the default in place of each value that is traced.

    Raises
    ------
    ValueError
        If the library cannot build the environment; its message is quoted.
    TypeError
        If the config is wrong, or the library's object breaks the library's own contract.
    """

    library: ClassVar[str]
    limit_param: ClassVar[str] = ""  # the parameter that holds the time limit, if one does
    legacy_keys: bool = False  # whether the library's functions take legacy keys only

    def __init__(self, config: PeerConfig | None = None, *, peer: Any = None) -> None:
        super().__init__(config)
        if forks.jax_hangs:
            raise forks.fork_error(f"{self.library}/{self.config.id}", "build")
        # Copies of the dicts: `__reduce__` builds again from this config.
        params, options = copy_containers((self.config.params, dict(self.config.options or {})))
        self._config = self.config.replace(params=params, options=options)
        self._requested_config = self._config  # its `max_steps` stays 0 for the library's own limit
        if not (type(self.config.max_steps) is int and self.config.max_steps == 0):
            self._require_steps("`max_steps`", self.config.max_steps)
        self._user_peer = peer
        # The caller may trace, and may use strict promotion, which libraries do not expect.
        with jax.ensure_compile_time_eval(), jax.numpy_dtype_promotion("standard"):
            with self._quote_errors("build it", ValueError):
                self.peer = self.build() if peer is None else peer
            default = self.default_params()
        self._set_params(self.change(default, self.config.params))
        self.concrete_params = concrete_or_default(self.params, default)
        self._begin: Any = jax.jit(self._begin_with)
        self._advance: Any = jax.jit(self._advance_with)
        self._observed_in: Any = jax.jit(self._observation_with)
        self._types_by_key: dict[Any, CommonTypes] = {}
        self._set_spaces()

    @abstractmethod
    def build(self) -> Any:
        """The library's object, from `config.id` and `config.options`."""

    def default_params(self) -> Any:
        """The parameters that `peer` has by default; None where the library has none."""
        return None

    def change(self, params: Any, changes: Any, caller: str = "") -> Any:
        """Parameters with some changed by name; arrays are cast for a `caller`, `with_config`."""
        changes = fit_changes(caller, params, changes) if caller else changes
        return with_changes(self._who, params, changes)

    @property
    def changes(self) -> Any:
        """The part of `params` that compiled programs take and the config keeps: by default all."""
        return self.params

    def limit(self) -> int:
        """The library's own time limit, in steps; it may be traced. By default `limit_param`."""
        return steps_limit(getattr(self.params, self.limit_param, NO_LIMIT))

    def with_limit(self, params: Any, max_steps: int) -> Any:
        """Parameters with another time limit, for a library that keeps it there."""
        if not hasattr(params, self.limit_param):
            return params
        return self.change(params, {self.limit_param: max_steps})

    @abstractmethod
    def spaces(self) -> tuple[Space, Space]:
        """The spaces of observations, with the dtypes of `observed`, and of actions."""

    @abstractmethod
    def begin(self, params: Any, rng: jax.Array) -> PeerReset:
        """
        Begin an episode, with one PRNG key.

        Use the argument `params`, and not `self.params`: some may be traced.
        """

    @abstractmethod
    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> PeerStep:
        """
        Take one step, without auto-reset; `params` and `rng` as for `begin`.

        `inner` is a copy of the library's state, which may be edited; `action` an element of
        `action_space`.
        """

    def observation(self, params: Any, inner: Any) -> Any:
        """
        The observation of the library's state, for `observe`; `params` as for `begin`.

        By default None: the state does not determine it, or it costs too little to be left out.
        """
        return None

    @hands_on
    def draw(self, inner: Any) -> Any:
        """An image of the library's state, uint8 of shape (H, W, 3), if the library draws."""
        raise NotImplementedError

    @property
    def can_render(self) -> bool:
        """Whether the library can draw this environment; by default, if there is a `draw`."""
        return adds(self.draw)

    def ends(self, out: PeerStep, at_limit: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Whether an episode terminated, and whether it was truncated, from a step."""
        return out.ends(at_limit)

    @property
    def waivers(self) -> dict[str, str]:
        """Rules of `check_env` that the library itself breaks, and the reasons."""
        return {}

    @property
    def peer_is_given(self) -> bool:
        """Whether a user built the library's object; `waivers` may then not be needed."""
        return self._user_peer is not None

    @property
    def mended_bounds(self) -> dict[str, str]:
        """Leaves of an observation that violate the library's own bounds, and the reasons."""
        return {}

    @property
    def name(self) -> str:
        return self.config.id

    @property
    def class_name(self) -> str:
        return self.config.id

    @property
    def observation_space(self) -> Space:
        return self._observation_space

    @property
    def action_space(self) -> Space:
        return self._action_space

    @property
    def observed(self) -> Any:
        """Shape and dtype of each leaf of an observation at reset."""
        return types_of(self._reset_types(jax.random.key(0)).obs)

    def at_limit(self, state: PeerState) -> jax.Array:
        with jax.numpy_dtype_promotion("standard"):  # a traced limit may be a float
            return state.step >= self._limit

    def action_mask(self, state: PeerState) -> Any:
        return state.mask

    def observe(self, state: PeerState) -> Any:
        obs = self._observed_in(self._params, state.inner)
        return None if obs is None else cast_to(self._common_types(state.rng).obs, obs)

    @hands_on
    def render(self, state: PeerState) -> np.ndarray:
        if not self.can_render:
            return super().render(state)
        with jax.numpy_dtype_promotion("standard"):
            return np.array(self.draw(state.inner), np.uint8)

    def _with_config(self, fields: dict[str, Any]) -> Any:
        # A dict of `params` changes the current ones; the config then holds the result.
        who = f"with_config of {self._who}"
        require_known(f"{who}: expected fields of", fields, self.config.__dataclass_fields__)
        others = {name: x for name, x in fields.items() if name != "params"}
        env = self
        if others:
            env = type(self)(self._requested_config.replace(**others), peer=self._user_peer)
        return env._with_params(who, fields["params"]) if "params" in fields else env

    def _with_params(self, who: str, changes: Any) -> Self:
        """The same with other `params`; it shares the library's object and compiled programs."""
        cls = type(self)
        env = object.__new__(cls)
        for name, value in vars(self).items():
            # Cached properties depend on the params.
            if not isinstance(getattr(cls, name, None), cached_property):
                setattr(env, name, value)
        env.params = self.change(self.params, changes, who)
        env._requested_config = self._requested_config.replace(params=copy_containers(env.changes))
        env._set_params(env.params)
        env.concrete_params = env.params  # spaces are static: traced values must not be read
        env._set_spaces()
        env.concrete_params = concrete_or_default(env.params, self.concrete_params)
        return env

    def _set_spaces(self) -> None:
        with self._quote_errors("give its spaces"), jax.ensure_compile_time_eval():
            self._observation_space, self._action_space = self.spaces()

    def _set_params(self, params: Any) -> None:
        """Set the parameters, and the limit: `max_steps` if it was given, or else the library's."""
        max_steps = int(self._requested_config.max_steps)
        self.params = self.with_limit(params, max_steps) if max_steps else params
        self._limit: Any = max_steps or self.limit()
        static_limit = NO_LIMIT
        if not is_traced(self._limit):
            static_limit = self._require_steps("its limit", self._limit)
        self._config = self._requested_config.replace(max_steps=static_limit)

    @refuses_seed
    def reset(self, rng: jax.Array) -> tuple[Any, PeerState]:
        require_key(rng, f"{self._who}.reset", "Pass one key; `VecEnv` splits it.")
        types = self._common_types(rng)
        rng, key = jax.random.split(rng)
        obs, inner, mask = self._begin(self._params, key)
        state = PeerState(
            rng=rng,
            step=jnp.int32(0),
            done=jnp.bool_(False),
            inner=cast_to(types.inner, inner),
            mask=cast_to(types.mask, mask),
        )
        return cast_to(types.obs, obs), state

    def step(
        self, state: PeerState, action: Any
    ) -> tuple[Any, PeerState, jax.Array, jax.Array, Info]:
        types = self._common_types(state.rng)
        rng, key = state.rng, clone_keys(state.rng)  # it may be split and used for nothing
        if types.uses_key:
            rng, key = jax.random.split(rng)
        action = conform(self.action_space, action, f"{self._who}.step", "action")
        out = PeerStep(*self._advance(self._params, state.inner, action, key))
        step = state.step + 1
        terminated, truncated = self.ends(out, self.at_limit(state.replace(step=step)))
        done = terminated | truncated
        info = {**cast_to(types.info, out.info), "terminated": terminated, "truncated": truncated}
        new_state = state.replace(
            rng=rng,
            step=step,
            done=done,
            inner=cast_to(types.inner, out.inner),
            mask=cast_to(types.mask, out.mask),
        )
        reward = for_each(self, lambda x: jnp.sum(jnp.asarray(x, jnp.float32)), out.reward)
        return cast_to(types.obs, out.obs), new_state, reward, done, info

    @property
    def _who(self) -> str:
        return f"{self.library}/{self.config.id}"

    def _require_steps(self, name: str, steps: Any) -> int:
        number = require_count(f"{self._who}: expected {name}", steps)
        if number > NO_LIMIT:
            raise ValueError(f"{self._who}: expected {name} to be at most {NO_LIMIT}; got {steps}.")
        return number

    def _quote_errors(
        self, task: str, kind: type[Exception] = TypeError
    ) -> AbstractContextManager[None]:
        return quote_errors(self._who, self.library, task, self.config, kind)

    @property
    def _params(self) -> Params:
        return Params.of(self.changes)

    def _begin_with(self, params: Params, rng: jax.Array) -> PeerReset:
        with jax.numpy_dtype_promotion("standard"):
            return PeerReset(*self.begin(params.whole(), self._peer_key(rng)))

    def _advance_with(self, params: Params, inner: Any, action: Any, rng: jax.Array) -> PeerStep:
        inner = copy_containers(inner)  # without `jit` too
        with jax.numpy_dtype_promotion("standard"):
            return PeerStep(*self.advance(params.whole(), inner, action, self._peer_key(rng)))

    def _peer_key(self, rng: jax.Array) -> jax.Array:
        return jax.random.key_data(rng) if self.legacy_keys and is_key(rng) else rng

    def _observation_with(self, params: Params, inner: Any) -> Any:
        with jax.numpy_dtype_promotion("standard"):
            return self.observation(params.whole(), inner)

    def _reset_types(self, rng: Any) -> PeerReset:
        return PeerReset(*self._begin.trace(self._params, rng).out_info)

    def _common_types(self, rng: jax.Array | jax.ShapeDtypeStruct) -> CommonTypes:
        """The types for this kind of key, which the state may hold, and the types of `params`."""
        key = jax.ShapeDtypeStruct(rng.shape, rng.dtype)
        kind = (key.shape, key.dtype, self._params.types())
        if kind not in self._types_by_key:
            with self._quote_errors("reset and step by its own contract"):
                self._types_by_key[kind] = self._find_types(key)
        return self._types_by_key[kind]

    def _find_types(self, key: jax.ShapeDtypeStruct) -> CommonTypes:
        action = output_types(self.action_space.sample)
        trace = partial(self._advance.trace, self._params)
        return find_common_types(
            self._who, self._reset_types(key), lambda inner: trace(inner, action, key)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), peer=self._user_peer), (self._requested_config,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config.id!r}, max_steps={self.config.max_steps})"
